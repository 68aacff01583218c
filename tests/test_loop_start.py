"""The first rows of a loop: the same for all who start at random, however they are asked for."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.strategies.pools import make_arrays
from understudy import ActiveLoop, PoolExhausted, Surrogate, UnderstudyError
from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.loop import STREAM_STRATEGY
from understudy.strategies.listing import needs_in_words
from understudy.strategies.protocol import Needs
from understudy.strategies.random_rows import Random
from understudy.strategies.ranking import top
from understudy.strategies.registry import STRATEGIES, make_strategy
from understudy.strategies.selection_via_proxy import SelectionViaProxy
from understudy.strategies.view import Picks, PoolView

ARRAYS = make_arrays(80)
QUICKLY = Head(hidden=(8, 5), dropout=0.2, recipe=Recipe("adamw", 0.01, epochs=3))
AT_RANDOM: list[Any] = ["random", "margin", "badge", "surrogate", "surrogate_blind", "learning_loss", "emoc"]
BY_PROXY = [SelectionViaProxy(make_strategy("surrogate"), QUICKLY), SelectionViaProxy(Random(), QUICKLY)]


def loop_of(strategy: Any, schedule: Any = (10, 20), learner: Any = QUICKLY) -> ActiveLoop:
    return ActiveLoop(ARRAYS.features, learner, strategy, schedule, 3, n_classes=3)


@pytest.mark.parametrize("strategy", [*AT_RANDOM, *BY_PROXY])
def test_all_who_start_at_random_start_from_the_same_rows_however_they_are_asked(strategy: Any) -> None:
    expected = loop_of("margin").ask(10).tolist()
    assert loop_of(strategy).rehearse(10, ARRAYS.truth).rows.tolist() == expected
    assert loop_of(strategy).ask(10).tolist() == expected
    one_by_one = loop_of(strategy)
    assert [int(one_by_one.ask()[0]) for _ in range(10)] == expected
    answered = loop_of(strategy)
    for row in expected:
        assert answered.ask().tolist() == [row]
        answered.tell([row], ARRAYS.truth[[row]])
    assert answered.round == 1


def test_the_first_rows_are_the_next_that_are_open_in_an_order_that_is_drawn_once() -> None:
    order = loop_of("margin").ask(80).tolist()
    assert sorted(order) == list(range(80))
    loop = loop_of("margin")
    loop.tell([order[1]], [0]).skip([order[3]])
    assert loop.ask(3).tolist() == [order[0], order[2], order[4]]
    loop.release([order[2]])
    assert loop.ask(2).tolist() == [order[2], order[5]]
    loop.retract([order[1]]).unskip([order[3]])
    assert loop.ask(3).tolist() == [order[1], order[3], order[6]]
    with pytest.raises(PoolExhausted, match="asked for 74 rows, but only 73 of 80"):
        loop.ask(74)


def test_other_seeds_draw_other_rows() -> None:
    loops = [ActiveLoop(ARRAYS.features, QUICKLY, "margin", n_classes=3, random_state=seed) for seed in range(2)]
    assert loops[0].ask(10).tolist() != loops[1].ask(10).tolist()


def test_after_the_first_training_draws_depend_on_the_number_of_labels_and_not_on_how_they_came() -> None:
    asked, told = loop_of("random"), loop_of("random")
    rows = asked.rehearse(10, ARRAYS.truth).rows
    told.tell(rows, ARRAYS.truth[rows])
    assert asked.round == told.round == 1
    assert asked.ask(5).tolist() == told.ask(5).tolist()


# -- our own, which needs no learner ------------------------------------------------------------------------------


def test_the_default_chooses_its_first_rows_itself_and_goes_on_by_the_learner() -> None:
    """As a surrogate driven by hand would: influence alone until the learner is there, then the product."""
    loop = loop_of("understudy")
    s = Surrogate(ARRAYS.features, 3, random_state=int(np.random.default_rng([3, STREAM_STRATEGY, 0]).integers(2**63)))
    rows: list[int] = []
    for turn in range(14):
        if turn == 10:
            assert loop.round == 1
            s.anchor(loop.model.predict_proba(ARRAYS.features), rows)
        (row,) = loop.ask().tolist()
        assert s.ask().tolist() == [row]
        loop.tell([row], ARRAYS.truth[[row]])
        s.tell([row], ARRAYS.truth[[row]])
        rows.append(row)
    assert rows[:10] != loop_of("margin").ask(10).tolist()
    assert loop_of("understudy").rehearse(14, ARRAYS.truth).rows.tolist() == rows


def test_the_default_asked_for_several_at_once_is_asked_one_by_one() -> None:
    at_once, one_by_one = loop_of("understudy"), loop_of("understudy")
    assert at_once.ask(10).tolist() == [int(one_by_one.ask()[0]) for _ in range(10)]


# -- what a strategy can do without -------------------------------------------------------------------------------


@dataclass
class EitherWay:
    """The lowest row; by the learner's doubts once there are some."""

    needs: Needs = field(
        default_factory=lambda: Needs(frozenset({"features"}), optional=frozenset({"probs", "hidden"}))
    )
    seen: list[list[str]] = field(default_factory=list)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        self.seen.append([name for name in ("features", "hidden", "probs", "images") if view.has(name)])
        rows = view.candidates(n)
        return top(rows, -view.probs[rows].max(1).values if view.has("probs") else -rows.double(), n)


def test_a_strategy_starts_without_what_it_can_do_without_and_gets_it_once_it_is_there() -> None:
    loop = loop_of(EitherWay())
    assert loop.is_ready
    assert loop.rehearse(12, ARRAYS.truth).rows[:10].tolist() == list(range(10))
    assert loop.strategy.seen == [["features"], ["features", "hidden", "probs"]]  # type: ignore[attr-defined]
    probs = loop.model.predict_proba(ARRAYS.features)
    expected = np.argsort(probs.max(1)[10:], kind="stable")[:2] + 10
    assert loop.labelled[10:].tolist() == sorted(expected.tolist())


def test_what_the_learner_or_the_pool_does_not_have_is_left_out_where_it_is_optional() -> None:
    loop = loop_of(EitherWay(Needs(optional=frozenset({"probs", "hidden", "images"}))), learner="logistic")
    loop.rehearse(12, ARRAYS.truth)
    assert loop.strategy.seen == [[], ["probs"]]  # type: ignore[attr-defined]


def test_needs_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(UnderstudyError, match="probs cannot be both required and optional"):
        Needs(frozenset({"probs"}), optional=frozenset({"probs"}))
    with pytest.raises(UnderstudyError, match="unknown need"):
        Needs(optional=frozenset({"colours"}))  # type: ignore[arg-type]
    with pytest.raises(UnderstudyError, match="the number of passes; got passes=0"):
        Needs(optional=frozenset({"stochastic"}))
    assert Needs(optional=frozenset({"stochastic"}), passes=3).passes == 3


def test_the_listing_says_what_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, "either_way", EitherWay)
    assert needs_in_words("either_way") == [
        "features", "hidden (once available)", "probs (once available)",
    ]  # fmt: skip
