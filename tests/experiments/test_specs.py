"""Strategies as they are typed."""

import re
import sys
from pathlib import Path

import pytest

from understudy import UnderstudyError
from understudy.experiments.specs import (
    check_specs,
    code_digests,
    parse_spec,
    split_specs,
    strategy_of,
    too_large_settings,
)
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.uncertainty import Uncertainty

OWN = """
import numpy as np
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks

class Lowest:
    def __init__(self, step=1):
        self.step = step
    @property
    def needs(self):
        return Needs()
    def select(self, view, n, rng):
        rows = np.sort(view.candidates(n).cpu().numpy())[:: self.step][:n]
        return Picks(rows, np.zeros(n))

ready = Lowest(2)
number = 5
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_strategies_of_a_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_strategies_of_a_test", raising=False)
    return "own_strategies_of_a_test"


def test_lists_are_cut_at_commas_outside_of_parentheses() -> None:
    text = "margin, surrogate(width=0.25, link='logit'),a.b:C(x=(1,2))"
    assert split_specs(text) == ["margin", "surrogate(width=0.25,link='logit')", "a.b:C(x=(1,2))"]


@pytest.mark.parametrize("text", ["", "margin,", ",margin", "a,,b"])
def test_a_list_with_a_gap_is_refused(text: str) -> None:
    with pytest.raises(UnderstudyError, match="names separated by commas"):
        split_specs(text)


def test_a_parenthesis_must_be_closed() -> None:
    with pytest.raises(UnderstudyError, match="a parenthesis is not closed"):
        split_specs("surrogate(width=1")


def test_settings_are_literals_by_name() -> None:
    assert parse_spec("margin") == ("margin", {})
    assert parse_spec("x(a=1,b='two',c=None,d=(1,2),e=-0.5)") == (
        "x",
        {"a": 1, "b": "two", "c": None, "d": (1, 2), "e": -0.5},
    )
    for spec in ("x(1)", "x(a)", "x(**a)", "x(a=b)", "x(a=1", "x(a=1))", "x(a=print())", "x(a=1)+1"):
        with pytest.raises(UnderstudyError, match=re.escape("settings must be written as name(setting=value)")):
            parse_spec(spec)


def test_a_spec_makes_a_strategy_anew_with_its_settings() -> None:
    made = strategy_of("surrogate(width=0.25,mode='uniform')")
    assert isinstance(made, SurrogateStrategy)
    assert (made.options.method, made.options.width, made.options.mode) == ("paper", 0.25, "uniform")
    assert isinstance(strategy_of("margin"), Uncertainty)
    assert strategy_of("surrogate") is not strategy_of("surrogate")


def test_own_strategies_are_classes_functions_or_objects(own: str) -> None:
    assert getattr(strategy_of(f"{own}:Lowest(step=3)"), "step") == 3  # noqa: B009
    assert getattr(strategy_of(f"{own}:ready"), "step") == 2  # noqa: B009


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("margn", "there is no strategy 'margn'; did you mean 'margin'?"),
        ("surrogate(widht=1)", "method 'paper' has no option 'widht'; did you mean 'width'?"),
        ("random(zzz=1)", "random has no setting 'zzz'; it has none"),
        ("surrogate(mode='none')", "mode must be one of"),
        ("no_such_module:x", "'no_such_module:x' cannot be imported"),
        ("own_strategies_of_a_test:missing", "cannot be imported"),
        ("own_strategies_of_a_test:number", "is not a strategy; it must have `needs` and `select`"),
        ("own_strategies_of_a_test:Lowest(stride=1)", "could not be called to create a strategy"),
        (":x", "cannot be imported"),
        ("own_strategies_of_a_test:", "cannot be imported"),
    ],
)
def test_what_names_no_strategy_is_said_in_one_line(spec: str, message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)) as caught:
        check_specs(["margin", spec])
    assert "\n" not in str(caught.value)


def test_own_code_is_told_from_an_edited_one_wherever_its_package_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "own_package_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("from own_package_of_a_test.inside import Lowest")
    (package / "inside.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = "own_package_of_a_test:Lowest(step=3)"
    before = code_digests(["margin", "surrogate(mode='a:b')", spec])
    assert list(before) == [spec]
    assert code_digests([spec]) == before
    (package / "inside.py").write_text(OWN.replace("[:n]", "[-n:]"))
    assert code_digests([spec]) != before
    assert code_digests(["math:sqrt"]) == {}


def test_a_strategy_that_is_named_twice_is_compared_once() -> None:
    assert check_specs(["margin", "random", "margin"]) == ("margin", "random")


def test_settings_that_ask_for_more_rows_than_there_are_are_named() -> None:
    assert too_large_settings("surrogate(basis_size=5000,width=0.2)", 1_000) == [
        "surrogate(basis_size=5000,width=0.2): basis_size is 5,000, but the pool has 1,000 rows; all 1,000 are used"
    ]
    for spec in ("surrogate(basis_size=1000)", "surrogate", "badge", "mine:own(basis_size=5000)"):
        assert too_large_settings(spec, 1_000) == []
    assert strategy_of("surrogate(basis_size=5000)").options.basis_points(1_000) == 1_000  # type: ignore[attr-defined]
