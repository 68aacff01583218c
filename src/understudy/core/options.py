"""The options of a surrogate: this module alone names, checks, saves and loads them.

A method is a named set of options for one engine. An explicit option overrides the method's; one that the method
does not use is refused with an error that names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, Literal, get_args

import numpy as np
import torch

from understudy.checks import check_choice, check_flag, check_number, check_whole_number
from understudy.core.links import LINKS, Link
from understudy.core.utilities import MODES, Mode
from understudy.errors import UnderstudyError

Method = Literal["understudy", "paper"]
METHODS: Final[tuple[str, ...]] = get_args(Method)
Weighting = Literal["margin", "even"]
Doubt = Literal["live", "standing"]

BASIS_SIZE: Final = 500
ROWS_PER_BASIS_POINT: Final = 4  # a basis as large as the pool explains everything, whatever the width
OWN_BASIS_JITTER: Final = 1e-6  # wide basis functions are nearly collinear; always added, so that runs do not differ


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the kernel, the updates and the choice. None: the method does not use it.

    `basis_size` None is the default: 500, or in small pools of `understudy` a quarter of the rows. `width` is that
    of a basis function in units of the pool's mean distance; None: the narrowest at which the basis explains the share
    `explained` of the prior variance.
    """

    method: Method
    basis_size: int | None
    width: float | None
    noise: float
    mode: Mode
    exclude_self: bool
    dtype: Literal["float32", "float64"]
    mean_tolerance: float  # largest error of deferred means where there are many classes
    # of "understudy"
    explained: float | None = None
    weighting: Weighting | None = None  # of a row in the influence of others: 1 minus its margin, or uniform
    doubt: Doubt | None = None  # of the surrogate's mean, which follows every label, or of the learner's predictions
    floor: float | None = None  # lower bound of weight and doubt: overconfidence must not make all rows equal
    bias: float | None = None  # prior variance of the predictions' mean error over the pool; None: unbounded
    # of "paper"
    output_width: float | None = None
    link: Link | None = None
    old_targets: Literal["zero", "residual"] | None = None
    accuracy_of: Literal["learner", "surrogate"] | None = None
    lookahead_candidates: int | None = None

    @classmethod
    def of(cls, method: str = "understudy", **given: Any) -> "Options":
        """The method's options, overridden by these."""
        defaults = DEFAULTS[check_choice("method", method, METHODS)]
        for name in given:
            _require_used(name, method, defaults)
        if given.get("width") is not None and given.get("explained") is not None:
            raise UnderstudyError(
                f"width={given['width']!r} and explained={given['explained']!r} both set the kernel width; pass one"
            )
        values = defaults | given
        if given.get("width") is not None and "explained" in defaults:
            values["explained"] = None
        elif method == "understudy" and values["explained"] is None:
            values["explained"] = defaults["explained"]
        elif method == "paper":
            check_number("width", values["width"], above=0)  # the method has no other rule for it
        checked = {name: CHECKS[name](value) for name, value in values.items()}
        check_choice("mode", checked["mode"], MODES_OF[method])
        return cls(method=method, **checked)  # type: ignore[arg-type]

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> "Options":
        """From the arrays of `saved`. A state that names no method is of the paper's: it was once the only one."""
        found: dict[str, Any] = {
            name.removeprefix(PREFIX): None if (value := np.asarray(saved[name]).item()) == "" else value
            for name in saved
            if name.startswith(PREFIX)
        }
        if "method" not in found:
            found |= {"method": "paper", "basis_size": int(saved["basis_size"])}
        return cls.of(**found)

    def save(self) -> dict[str, Any]:
        """Plain values under the names they have in a saved state."""
        used = ("method", *DEFAULTS[self.method])
        return {PREFIX + name: "" if (value := getattr(self, name)) is None else value for name in used}

    def given(self) -> dict[str, Any]:
        """The method's name and the options that differ from its defaults: enough for a settings file."""
        defaults = DEFAULTS[self.method]
        others = {name: value for name in defaults if (value := getattr(self, name)) != defaults[name]}
        if "width" in others:
            others.pop("explained", None)
        return {"method": self.method, **others}

    @property
    def sees_predictions(self) -> bool:
        """Whether the kernel is over features and predictions, or over features alone."""
        return self.method == "paper"

    @property
    def judges_surrogate(self) -> bool:
        return self.accuracy_of == "surrogate"

    @property
    def torch_dtype(self) -> torch.dtype:
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    def basis_points(self, n: int) -> int:
        """How many basis points a pool of n rows has."""
        if self.basis_size is not None:
            return min(self.basis_size, n)
        if self.method == "paper":
            return min(BASIS_SIZE, n)
        return min(BASIS_SIZE, -(-n // ROWS_PER_BASIS_POINT))


PREFIX: Final = "option_"
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "understudy": {
        "basis_size": None, "width": None, "explained": 0.9, "noise": 0.1, "mode": "product", "weighting": "margin",
        "doubt": "live", "floor": 1e-3, "bias": 1e-2, "exclude_self": False, "dtype": "float32",
        "mean_tolerance": 2e-2,
    },
    "paper": {
        "basis_size": None, "width": 0.5, "output_width": None, "noise": 1e-10, "mode": "combined", "link": "softmax",
        "old_targets": "zero", "exclude_self": False, "accuracy_of": "learner", "dtype": "float32",
        "mean_tolerance": 2e-2, "lookahead_candidates": None,
    },
}  # fmt: skip
MODES_OF: Final[dict[str, tuple[str, ...]]] = {
    "understudy": ("product", "influence", "uncertainty", "uniform", "variance"),
    "paper": tuple(mode for mode in MODES if mode != "product"),
}


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _count(name: str) -> Callable[[Any], Any]:
    return _optional(lambda value: check_whole_number(name, value, 1))


def _number(name: str, **bounds: float) -> Callable[[Any], Any]:
    return partial(check_number, name, **bounds)


def _choice(name: str, allowed: tuple[str, ...]) -> Callable[[Any], Any]:
    return lambda value: check_choice(name, value, allowed)


CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "basis_size": _count("basis_size"),
    "width": _optional(_number("width", above=0)),
    "explained": _optional(_number("explained", above=0, most=1)),
    "noise": _number("noise", least=0),
    "mode": _choice("mode", MODES),
    "exclude_self": partial(check_flag, "exclude_self"),
    "dtype": _choice("dtype", ("float32", "float64")),
    "weighting": _choice("weighting", get_args(Weighting)),
    "doubt": _choice("doubt", get_args(Doubt)),
    "floor": _number("floor", least=0, most=1),
    "bias": _optional(_number("bias", above=0)),
    "output_width": _optional(_number("output_width", above=0)),
    "link": _choice("link", LINKS),
    "old_targets": _choice("old_targets", ("zero", "residual")),
    "accuracy_of": _choice("accuracy_of", ("learner", "surrogate")),
    "mean_tolerance": _number("mean_tolerance", least=0),
    "lookahead_candidates": _count("lookahead_candidates"),
}
NAMES: Final = tuple(field.name for field in fields(Options) if field.name != "method")


def _require_used(name: str, method: str, defaults: Mapping[str, Any]) -> None:
    if name in defaults:
        return
    if name in NAMES:
        other = next(one for one in METHODS if name in DEFAULTS[one])
        raise UnderstudyError(f"method {method!r} does not use {name}; leave it out, or pass method={other!r}")
    near = get_close_matches(name, defaults, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(defaults)}"
    raise UnderstudyError(f"method {method!r} has no option {name!r}; {hint}")
