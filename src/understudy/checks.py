"""Checks of single settings: each returns the value as its plain type, or says what it must be and what was passed."""

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from understudy.errors import UsageError


def check_whole_number(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """The value as an int within these bounds. Booleans and floats are refused, since they are usually mistakes."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError("a boolean")
        number = operator.index(value)
    except TypeError as error:
        raise _usage_error(name, "a whole number", value, least=least, most=most) from error
    if (least is not None and number < least) or (most is not None and number > most):
        raise _usage_error(name, "a whole number", value, least=least, most=most)
    return number


def check_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """The value as a finite float within these bounds."""
    bounds = {"least": least, "above": above, "most": most, "below": below}
    try:
        if isinstance(value, bool | np.bool_ | str):
            raise TypeError("not a number")
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _usage_error(name, "a number", value, **bounds) from error
    is_within = (
        math.isfinite(number)
        and (least is None or number >= least)
        and (above is None or number > above)
        and (most is None or number <= most)
        and (below is None or number < below)
    )
    if not is_within:
        raise _usage_error(name, "a number", value, **bounds)
    return number


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    choices = tuple(allowed)
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return str(value)


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def _usage_error(name: str, kind: str, value: Any, **bounds: float | None) -> UsageError:
    return UsageError(f"{name} must be {kind}{_describe_bounds(**bounds)}; got {value!r}")


def _describe_bounds(
    least: float | None = None, above: float | None = None, most: float | None = None, below: float | None = None
) -> str:
    if least is not None and most is not None:
        return f" from {_as_text(least)} to {_as_text(most)}"
    words = {"of at least": least, "above": above, "of at most": most, "below": below}
    return " and".join(f" {word} {_as_text(bound)}" for word, bound in words.items() if bound is not None)


def _as_text(bound: float) -> str:
    return repr(bound).removesuffix(".0")
