"""Options: every name checked, those that a method does not use refused, and the same again from what is kept."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from understudy import Surrogate, UnderstudyError
from understudy.core.options import CHECKS, DEFAULTS, METHODS, MODES_OF, NAMES, Options

OTHER: dict[str, Any] = {
    "basis_size": 7, "width": 0.8, "noise": 0.2, "mode": "influence", "exclude_self": True, "dtype": "float64",
    "mean_tolerance": 0.5, "explained": 0.5, "weighting": "even", "doubt": "standing", "floor": 0.1, "bias": None,
    "output_width": 3.0, "link": "logit", "old_targets": "residual", "accuracy_of": "surrogate",
    "lookahead_candidates": 9,
}  # fmt: skip
WRONG: dict[str, Any] = {
    "basis_size": 0, "width": 0.0, "noise": -1.0, "mode": "best", "exclude_self": "no", "dtype": "float16",
    "mean_tolerance": -1.0, "explained": 1.5, "weighting": "odd", "doubt": "dead", "floor": 2.0, "bias": 0.0,
    "output_width": -1.0, "link": "probit", "old_targets": "one", "accuracy_of": "me", "lookahead_candidates": 0,
}  # fmt: skip
USED = [(method, name) for method in METHODS for name in DEFAULTS[method]]
UNUSED = [(method, name) for method in METHODS for name in NAMES if name not in DEFAULTS[method]]


def test_every_option_has_a_check_a_method_and_an_example_here() -> None:
    names = {field.name for field in fields(Options)} - {"method"}
    assert names == set(NAMES) == set(CHECKS) == set(OTHER) == set(WRONG)
    assert names == set(DEFAULTS["understudy"]) | set(DEFAULTS["paper"])


@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_given_is_the_methods_own(method: str) -> None:
    options = Options.of(method)
    assert options.method == method
    for name, value in DEFAULTS[method].items():
        assert getattr(options, name) == value
    for other in set(NAMES) - set(DEFAULTS[method]):
        assert getattr(options, other) is None
    assert options.given() == {"method": method}


def test_the_papers_defaults_are_those_that_it_prints() -> None:
    paper = Options.of("paper")
    assert (paper.width, paper.output_width, paper.noise, paper.mode) == (0.5, None, 1e-10, "combined")
    assert (paper.link, paper.old_targets, paper.accuracy_of) == ("softmax", "zero", "learner")
    assert paper.basis_points(10**6) == 500
    assert paper.basis_points(20) == 20
    assert Options.of() == Options.of("understudy")


@pytest.mark.parametrize(("method", "name"), USED)
def test_an_option_that_is_given_takes_the_place_of_the_methods(method: str, name: str) -> None:
    options = Options.of(method, **{name: OTHER[name]})
    assert getattr(options, name) == OTHER[name] != DEFAULTS[method][name]
    rule = {"width", "explained"}  # one width: the rule that is given replaces the other
    for other in set(DEFAULTS[method]) - {name} - (rule if name in rule else set()):
        assert getattr(options, other) == DEFAULTS[method][other]
    assert options.given() == {"method": method, name: OTHER[name]}


@pytest.mark.parametrize(("method", "name"), USED)
def test_a_wrong_value_is_refused_by_name(method: str, name: str) -> None:
    with pytest.raises(UnderstudyError, match=f"^{name} must be .*{WRONG[name]}") as caught:
        Options.of(method, **{name: WRONG[name]})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("method", "name"), UNUSED)
def test_what_a_method_has_no_use_for_is_refused_with_the_method_that_has(method: str, name: str) -> None:
    other = next(one for one in METHODS if one != method)
    with pytest.raises(UnderstudyError, match=f"method '{method}' does not use {name}; .* pass method='{other}'"):
        Options.of(method, **{name: OTHER[name]})
    with pytest.raises(UnderstudyError, match=f"does not use {name}"):
        Surrogate(np.ones((3, 2)), 2, method=method, **{name: OTHER[name]})  # type: ignore[arg-type]


def test_a_name_that_nobody_knows_gets_the_nearest_or_all() -> None:
    with pytest.raises(UnderstudyError, match="method 'understudy' has no option 'explaned'; did you mean 'explained'"):
        Options.of(explaned=0.5)
    with pytest.raises(UnderstudyError, match="method 'paper' has no option 'output_widht'; did you mean 'output_wi"):
        Options.of("paper", output_widht=0.5)
    with pytest.raises(UnderstudyError, match="has no option 'xyz'; it has basis_size, width, explained, noise, mode"):
        Options.of(xyz=1)
    with pytest.raises(UnderstudyError, match="method must be one of understudy, paper; got 'papers'"):
        Options.of("papers")


@pytest.mark.parametrize("method", METHODS)
def test_each_method_has_its_modes_and_refuses_those_of_the_other(method: str) -> None:
    for mode in MODES_OF[method]:
        assert Options.of(method, mode=mode).mode == mode
    for mode in {"product", "combined", "lookahead"} - set(MODES_OF[method]):
        with pytest.raises(UnderstudyError, match=f"mode must be one of .*{MODES_OF[method][0]}.*; got '{mode}'"):
            Options.of(method, mode=mode)


def test_there_is_one_rule_for_the_width() -> None:
    with pytest.raises(UnderstudyError, match=r"width=0.5 and explained=0.9 both set the kernel width; pass one"):
        Options.of(width=0.5, explained=0.9)
    by_width, by_share = Options.of(width=0.5), Options.of(explained=0.5)
    assert (by_width.width, by_width.explained) == (0.5, None)
    assert (by_share.width, by_share.explained) == (None, 0.5)
    assert Options.of(width=None, explained=None) == Options.of()
    assert Options.of(width=0.5, explained=None) == by_width
    with pytest.raises(UnderstudyError, match="width must be"):
        Options.of("paper", width=None)  # which has no other rule


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("which", ["none", "each", "all"])
def test_options_are_the_same_again_from_what_is_kept_of_them(method: str, which: str) -> None:
    """Both ways: as the arrays of a state, and as the few words of a settings file."""
    rules: list[set[str]] = [{"width"}, {"explained"}] if method == "understudy" else [set()]
    names = set(DEFAULTS[method])
    choices: dict[str, list[set[str]]] = {
        "none": [set()],
        "each": [{name} for name in sorted(names)],
        "all": [names - rule for rule in rules],
    }
    for some in choices[which]:
        options = Options.of(method, **{name: OTHER[name] for name in some})
        arrays = {name: np.array(value) for name, value in options.save().items()}
        assert all(name.startswith("option_") for name in arrays)
        assert Options.load(arrays | {"U": np.ones((3, 2))}) == options
        assert Options.of(**options.given()) == options
        assert set(options.given()) == {"method", *some}


def test_a_state_without_a_method_is_one_of_the_papers() -> None:
    saved = {
        "basis_size": np.array(12), "option_width": np.array(0.7), "option_output_width": np.array(""),
        "option_link": np.array("logit"), "option_lookahead_candidates": np.array(""),
    }  # fmt: skip
    assert Options.load(saved) == Options.of("paper", basis_size=12, width=0.7, link="logit")


def test_options_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Options.of().noise = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 1), (5, 2), (1996, 499), (2000, 500), (10**6, 500)])
def test_the_size_of_a_basis_follows_the_pool_unless_given(n: int, k: int) -> None:
    assert Options.of().basis_points(n) == k
    assert Options.of("paper").basis_points(n) == min(500, n)
    assert Options.of(basis_size=300).basis_points(n) == min(300, n)
