"""A loop that goes on from the state of another chooses what the other would have chosen."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.strategies.pools import make_arrays
from tests.strategies.quick import QUICK
from understudy import ActiveLoop, UnderstudyError
from understudy.journal import describe
from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks
from understudy.strategies.registry import make_strategy
from understudy.strategies.selection_via_proxy import SelectionViaProxy
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.view import Picks, PoolView

ARRAYS = make_arrays(80)
TRUTH = ARRAYS.truth
QUICKLY = Head(hidden=(8, 5), dropout=0.2, recipe=Recipe("adamw", 0.01, epochs=3))


@dataclass
class Counting:
    """Walks on by as many rows as it has heard of labels in all rounds, and a random few more."""

    heard: int = 0
    since: list[int] = field(default_factory=list)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n).roll(-(self.heard + sum(self.since) + int(rng.integers(5))))[:n]
        return picks(rows, rows.double())

    def tell(self, rows: np.ndarray, labels: np.ndarray) -> None:
        self.since += (rows * (labels + 1)).tolist()

    def memory(self) -> dict[str, Any]:
        return {"heard": self.heard + sum(self.since)}

    def recall(self, memory: dict[str, Any]) -> None:
        self.heard, self.since = memory["heard"], []


STRATEGIES: dict[str, Any] = {
    **{
        name: name
        for name in ("random", "margin", "badge", "understudy", "surrogate", "surrogate_blind", "svm_margin", "emoc")
    },
    **{name: make_strategy(name, **QUICK.get(name, {})) for name in ("learning_loss", "weight_schedule", "ta_vaal")},
    "judged by the surrogate": SurrogateStrategy(method="paper", accuracy_of="surrogate"),
    "on hidden features": SurrogateStrategy(method="paper", on="hidden", old_targets="residual"),
    "by a proxy": SelectionViaProxy(SurrogateStrategy(), proxy=QUICKLY),
    "with a memory": Counting(),
}


@dataclass
class Placed:
    device: str
    width: int


def new_loop(strategy: Any, seed: int = 4, schedule: Any = (10, 18, 26)) -> ActiveLoop:
    return ActiveLoop(ARRAYS.features, QUICKLY, strategy, schedule, seed, n_classes=3)


def play(loop: ActiveLoop, n: int, at_once: int = 1) -> list[int]:
    asked: list[int] = []
    while len(asked) < n:
        rows = loop.ask(min(at_once, n - len(asked)))
        loop.tell(rows, TRUTH[rows])
        asked += rows.tolist()
    return asked


def before_the_first_training(loop: ActiveLoop) -> None:
    play(loop, 6)
    loop.ask(2)
    loop.skip([3])


def right_after_a_training(loop: ActiveLoop) -> None:
    play(loop, 18)
    assert loop.round == 2


def within_a_round(loop: ActiveLoop) -> None:
    play(loop, 18)
    play(loop, 3)


def with_answers_missing(loop: ActiveLoop) -> None:
    """Rows wait, some are skipped, one label is taken back and two are corrected."""
    play(loop, 15)
    rows = loop.ask(5)
    loop.tell(rows[[3, 1]], TRUTH[rows[[3, 1]]])
    loop.skip(rows[[0]]).skip([row for row in range(80) if row not in rows and loop.labels[row] < 0][:2])
    first, last = (int(row) for row in (np.setdiff1d(loop.labelled, rows)[0], rows[3]))
    loop.tell([first, last], [(TRUTH[first] + 1) % 3, (TRUTH[last] + 1) % 3])
    loop.retract(rows[[1]])


def with_an_answer_that_came_after_the_training(loop: ActiveLoop) -> None:
    play(loop, 14)
    late = loop.ask(2)
    play(loop, 4)
    assert loop.round == 2
    loop.tell(late[:1], TRUTH[late[:1]])


def with_fewer_labels_than_at_the_training_before(loop: ActiveLoop) -> None:
    play(loop, 18)
    loop.retract(loop.labelled[:6]).train()
    play(loop, 2)


def rehearsed(loop: ActiveLoop) -> None:
    loop.rehearse(22, TRUTH)


MOMENTS = [
    before_the_first_training, right_after_a_training, within_a_round, with_answers_missing,
    with_an_answer_that_came_after_the_training, with_fewer_labels_than_at_the_training_before, rehearsed,
]  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_resumed_loop_goes_on_as_the_first_would(name: str, moment: Any) -> None:
    first = new_loop(STRATEGIES[name])
    moment(first)
    state = json.loads(json.dumps(first.state_dict()))
    second = new_loop(STRATEGIES[name]).resume(state)
    assert second.state_dict() == state  # so that it can be kept again
    for what in ("labels", "labelled", "pending"):
        np.testing.assert_array_equal(getattr(second, what), getattr(first, what))
    assert (second.round, repr(second)) == (first.round, repr(first))
    assert second.ask(2).tolist() == first.ask(2).tolist()
    assert play(second, 9, at_once=2) == play(first, 9, at_once=2)  # across the next training
    assert second.memory == first.memory
    assert second.round == first.round


def test_the_state_does_not_change_with_the_loop() -> None:
    loop = new_loop("understudy")
    play(loop, 12)
    state = loop.state_dict()
    kept = json.dumps(state)
    play(loop, 12)
    assert json.dumps(state) == kept


def test_another_schedule_is_allowed_from_here_on() -> None:
    first = new_loop("margin")
    play(first, 12)
    second = new_loop("margin", schedule=[5, 15]).resume(first.state_dict())
    play(second, 2)
    assert second.round == 1
    play(second, 1)
    assert second.round == 2


@pytest.mark.parametrize(
    ("made", "change", "message"),
    [
        ({}, {"format": 7}, "format 7, but this version reads only 1"),
        ({}, {"since": None}, "incomplete: since missing"),
        ({"seed": 5}, {}, "its random_state is 4, but here it is 5; create the loop with the same arguments"),
        ({"strategy": "badge"}, {}, "its strategy is .Uncertainty.*, but here it is .Badge"),
        ({"strategy": "entropy"}, {}, "its strategy is .Uncertainty.*margin.*, but here it is .Uncertainty.*entropy"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_in_one_line(made: Any, change: Any, message: str) -> None:
    state = {**new_loop("margin").state_dict(), **change}
    state = {name: value for name, value in state.items() if value is not None}
    with pytest.raises(UnderstudyError, match=message) as error:
        new_loop(**{"strategy": "margin", **made}).resume(state)
    assert "\n" not in str(error.value)


def test_other_options_features_and_learners_are_another_loop() -> None:
    state = new_loop("understudy").state_dict()
    with pytest.raises(UnderstudyError, match=r"its strategy is .*understudy.*paper"):
        new_loop("surrogate").resume(state)
    with pytest.raises(UnderstudyError, match="its strategy is"):
        new_loop(make_strategy("understudy", width=2.0)).resume(state)
    turned = ActiveLoop(ARRAYS.features[::-1], QUICKLY, "understudy", n_classes=3, random_state=4)
    with pytest.raises(UnderstudyError, match="its pool is"):
        turned.resume(state)
    with pytest.raises(UnderstudyError, match="its learner is"):
        ActiveLoop(ARRAYS.features, "logistic", "understudy", n_classes=3, random_state=4).resume(state)


def test_where_things_run_and_lie_is_not_part_of_what_they_are() -> None:
    assert describe(Placed("cpu", 3)) == describe(Placed("cuda", 3)) != describe(Placed("cpu", 4))
    assert describe(object()) == "object"


def test_only_a_new_loop_is_resumed_and_only_from_a_state() -> None:
    loop = new_loop("margin")
    with pytest.raises(UnderstudyError, match="this is not the state of a loop"):
        loop.resume({"labels": [1, 2]})
    other = ActiveLoop(ARRAYS.features[:40], QUICKLY, "margin", n_classes=3, random_state=4)
    with pytest.raises(UnderstudyError, match="its pool is"):
        other.resume(loop.state_dict())
    loop.ask()
    with pytest.raises(UnderstudyError, match="only a new loop can be resumed"):
        loop.resume(loop.state_dict())
