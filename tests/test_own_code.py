"""Errors in somebody's own module are told with its file and line, and what a strategy returns is looked at."""

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy import ActiveLoop, UnderstudyError
from understudy.errors import UsageError
from understudy.experiments.specs import strategy_of
from understudy.learners.registry import make_learner
from understudy.own_code import describe_error, import_own, keep_place, place_of
from understudy.strategies.protocol import Needs, check_picks
from understudy.strategies.view import Picks, PoolView

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A module of these lines in the current folder; gives its name, another one each time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> str:
        name = f"mine_{abs(hash((str(tmp_path), text)))}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def said_by(act: Callable[[], Any]) -> str:
    with pytest.raises(UsageError) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


STRATEGY = """
from understudy.strategies.protocol import Needs

class Mine:
    def __init__(self, least=1):
        {init}
    @property
    def needs(self):
        return {needs}
    def select(self, view, n, rng):
        return None
"""


class TestImports:
    @pytest.mark.parametrize("make", [strategy_of, make_learner, import_own])
    def test_an_error_in_the_module_is_told_with_its_line(self, write: Write, make: Callable[[str], Any]) -> None:
        name = write("import numpy\n\nnumbers = numpy.zeros(3) + numpy.zeros(4)\n")
        said = said_by(lambda: make(f"{name}:Mine"))
        assert said.startswith(f"'{name}:Mine' cannot be imported: ValueError: operands could not be broadcast")
        assert said.endswith(f"({name}.py, line 3)")

    def test_so_is_what_python_cannot_read_and_what_the_module_cannot_import(self, write: Write) -> None:
        name = write("x = 1\nclass Mine\n    pass\n")
        assert said_by(lambda: strategy_of(f"{name}:Mine")).endswith(f"SyntaxError: expected ':' ({name}.py, line 2)")
        name = write("from understudy import Surrogate\nimport no_such_package\n")
        said = said_by(lambda: strategy_of(f"{name}:Mine"))
        assert said.endswith(f"ModuleNotFoundError: No module named 'no_such_package' ({name}.py, line 2)")
        assert "PYTHONPATH" not in said

    def test_the_folder_is_to_blame_only_if_the_module_itself_is_missing(self) -> None:
        assert said_by(lambda: strategy_of("no_such_module:Mine")).endswith("is its folder on PYTHONPATH?")

    def test_a_name_that_the_module_lacks_leads_to_those_it_has(self, write: Write) -> None:
        name = write("class MyStrategy:\n    pass\n")
        assert said_by(lambda: strategy_of(f"{name}:MyStrateg")).endswith(
            f"{name}.py has no 'MyStrateg'; did you mean 'MyStrategy'?"
        )
        assert said_by(lambda: strategy_of(f"{name}:Other")).endswith("has no 'Other'; it has MyStrategy")
        name = write("import math\nfrom pathlib import Path\n\nclass MyStrategy:\n    pass\n")
        assert said_by(lambda: strategy_of(f"{name}:Other")).endswith("has no 'Other'; it has MyStrategy")

    def test_a_file_or_a_module_without_a_class_leads_to_the_way_it_is_written(self, write: Write) -> None:
        name = write("class MyStrategy:\n    pass\n")
        said = said_by(lambda: strategy_of(f"{name}.py:MyStrategy"))
        assert said.endswith(f"names a file; write {name}:MyStrategy, its module, in its folder")
        assert said_by(lambda: strategy_of(name)).endswith(f"to take a class from {name}.py write {name}:ItsName")

    def test_making_the_strategy_may_fail_in_many_ways(self, write: Write) -> None:
        name = write(STRATEGY.format(init="self.least = 1 / (least - 1)", needs="Needs()"))
        said = said_by(lambda: strategy_of(f"{name}:Mine"))
        assert said.endswith(f"ZeroDivisionError: division by zero ({name}.py, line 6, in __init__)")
        said = said_by(lambda: strategy_of(f"{name}:Mine(most=1)"))
        assert said.endswith("unexpected keyword argument 'most'")
        name = write(STRATEGY.format(init="pass", needs="Needs(frozenset({'prob'}))"))
        said = said_by(lambda: strategy_of(f"{name}:Mine"))
        assert "unknown need {'prob'}; a view can hold" in said
        assert said.endswith(f"({name}.py, line 9, in needs)")

    @pytest.mark.parametrize("names", ["'probs'", "['probs']"])
    def test_needs_that_are_no_set_are_told_how_to_be_written(self, write: Write, names: str) -> None:
        name = write(STRATEGY.format(init="pass", needs=f"Needs({names})"))
        said = said_by(lambda: strategy_of(f"{name}:Mine"))
        assert f"Needs takes a set of names, as in Needs(frozenset({{'probs'}})); got {names} " in said

    def test_reading_what_was_not_declared_leads_to_needs(self) -> None:
        with pytest.raises(UnderstudyError, match=r"needs probs, .*; name it in its `needs`, or pass"):
            _ = PoolView([0, -1], n_classes=2).probs

    def test_needs_of_another_type_and_a_missing_method_are_named(self, write: Write) -> None:
        name = write(STRATEGY.format(init="pass", needs="{'probs'}"))
        said = said_by(lambda: strategy_of(f"{name}:Mine"))
        assert said.startswith(f"`needs` of '{name}:Mine' must be Needs(...), as a property; got set")
        name = write("class Mine:\n    needs = None\n")
        assert said_by(lambda: strategy_of(f"{name}:Mine")).endswith("Mine has no `select`")


class TestPlaces:
    def test_the_last_line_of_own_code_counts_also_where_a_library_raised(self, write: Write) -> None:
        name = write("import torch\n\ndef act():\n    return torch.zeros(2) @ torch.zeros(3)\n")
        with pytest.raises(RuntimeError) as caught:
            import_own(f"{name}:act")()
        assert place_of(caught.value) == f"{name}.py, line 4, in act"

    def test_a_file_elsewhere_is_told_with_its_path(
        self, write: Write, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        name = write("def act():\n    raise KeyError(3)\n")
        act = import_own(f"{name}:act")
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        with pytest.raises(KeyError) as caught:
            act()
        assert place_of(caught.value).startswith(f"{tmp_path}/mine_")

    def test_what_was_raised_by_our_code_alone_has_no_place(self) -> None:
        with pytest.raises(UnderstudyError) as caught:
            PoolView([0, -1], n_classes=0)
        trace = caught.value.__traceback__
        assert trace is not None
        ours = caught.value.with_traceback(trace.tb_next)  # without the line above
        assert place_of(ours) == ""
        assert describe_error(ours) == str(ours)

    def test_the_place_goes_along_to_another_process(self, write: Write) -> None:
        name = write("def act():\n    raise KeyError(3)\n")
        with pytest.raises(KeyError) as caught:
            import_own(f"{name}:act")()
        keep_place(caught.value)
        sent = pickle.loads(pickle.dumps(caught.value))
        assert sent.__traceback__ is None
        assert describe_error(sent) == f"KeyError: 3 ({name}.py, line 2, in act)"


class Returns:
    """A strategy that returns what it was given."""

    def __init__(self, found: Any) -> None:
        self.found = found

    @property
    def needs(self) -> Needs:
        return Needs()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Any:
        return self.found


VIEW = PoolView([0, -1, -1, -1, -1, 1], 2, pending=[1], skipped=[2])
WRONG: list[tuple[Any, str]] = [
    ([3, 4], "must return Picks(rows, scores); got list"),
    (None, "must return Picks(rows, scores); got NoneType"),
    (
        Picks(np.array([3.0, 4.0]), np.zeros(2)),
        "must return row numbers, whole and in a list; got float64 of shape (2,)",
    ),
    (Picks(np.array([[3, 4]]), np.zeros(2)), "must return row numbers, whole and in a list; got int64 of shape (1, 2)"),
    (Picks(np.array([3]), np.zeros(1)), "was asked for 2 rows and returned 1; return as many as asked for"),
    (Picks(np.array([3, 4, 1]), np.zeros(3)), "was asked for 2 rows and returned 3"),
    (Picks(np.array([3, 6]), np.zeros(2)), "returned row 6; rows are numbered 0 to 5 in the whole pool"),
    (Picks(np.array([-1, 3]), np.zeros(2)), "returned row -1; rows are numbered 0 to 5"),
    (Picks(np.array([3, 5]), np.zeros(2)), "returned row 5, which is labelled; choose among view.candidates(n)"),
    (Picks(np.array([1, 3]), np.zeros(2)), "returned row 1, which is pending"),
    (Picks(np.array([3, 2]), np.zeros(2)), "returned row 2, which is skipped"),
    (Picks(np.array([3, 3]), np.zeros(2)), "returned row 3 more than once; return different rows"),
    (Picks(np.array([3, 4]), np.zeros(3)), "must return a score for each of its 2 rows; got float64 of shape (3,)"),
    (Picks(np.array([3, 4]), np.array(["a", "b"])), "must return a score for each of its 2 rows; got <U1"),
]


@pytest.mark.parametrize(("found", "message"), WRONG)
def test_a_wrong_return_is_told_by_what_came(found: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(f"Returns.select {message}")) as caught:
        check_picks(Returns(found), found, VIEW, 2)
    assert "\n" not in str(caught.value)


def test_lists_and_tensors_are_taken_for_what_they_are() -> None:
    for rows, scores in (([3, 4], [1, 2]), (torch.tensor([3, 4]), torch.tensor([1.0, 2.0]))):
        made: Any = Picks(rows, scores)  # type: ignore[arg-type]
        picks = check_picks(Returns(made), made, VIEW, 2)
        assert picks.rows.dtype == np.int64
        assert picks.rows.tolist() == [3, 4]
        assert picks.scores.tolist() == [1.0, 2.0]


def test_a_loop_refuses_a_wrong_return_and_has_not_changed() -> None:
    rng = np.random.default_rng(0)
    wrong = Returns(Picks(np.array([0, 0]), np.zeros(2)))
    loop = ActiveLoop(rng.random((12, 2)), "logistic", wrong, schedule=[4], n_classes=2)
    loop.tell([0, 1, 2, 3], [0, 1, 0, 1])
    with pytest.raises(UnderstudyError, match="returned row 0, which is labelled"):
        loop.ask(2)
    assert len(loop.pending) == 0
