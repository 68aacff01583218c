"""A proxy chooses by what a cheaper learner says, and is the plain strategy where that learner is the target."""

from typing import Any

import numpy as np
import pytest

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.learners.heads import Head
from understudy.learners.registry import make_learner
from understudy.learners.training import Recipe
from understudy.loop import ActiveLoop
from understudy.strategies.protocol import Strategy
from understudy.strategies.registry import make_strategy
from understudy.strategies.selection_via_proxy import SelectionViaProxy

TARGET = Head(hidden=(8,), dropout=0.2, recipe=Recipe("adamw", 0.01, epochs=3))
ARRAYS = make_arrays(60)


def played(strategy: Strategy, learner: Any = TARGET) -> tuple[list[int], np.ndarray]:
    loop = ActiveLoop(ARRAYS.features, learner, strategy, schedule=[10, 20, 30], n_classes=3)
    asked: list[int] = []
    while len(asked) < 30:
        rows = loop.ask(5)
        loop.tell(rows, ARRAYS.truth[rows])
        asked += rows.tolist()
    return asked, loop.model.predict_proba(ARRAYS.features)


@pytest.mark.parametrize("name", ["least_confidence", "margin", "surrogate", "weight_schedule"])
def test_a_proxy_that_is_the_target_changes_nothing(name: str) -> None:
    rows, probs = played(make_strategy(name))
    by_proxy, same_probs = played(SelectionViaProxy(make_strategy(name), TARGET))
    assert rows == by_proxy
    if name != "weight_schedule":  # whose hook is for the proxy's training
        assert (probs == same_probs).all()


def test_the_model_is_the_targets_and_the_choice_the_proxys() -> None:
    rows, probs = played(SelectionViaProxy(make_strategy("margin"), "logistic"))
    plain, plain_probs = played(make_strategy("margin"), make_learner("logistic"))
    assert rows == plain
    assert not np.allclose(probs, plain_probs)


def test_as_published_it_chooses_by_least_confidence() -> None:
    assert SelectionViaProxy().needs == make_strategy("least_confidence").needs


def test_what_cannot_be_wrapped_is_refused() -> None:
    with pytest.raises(UnderstudyError, match=r"must be a strategy, e.g. from make_strategy; got 'margin'"):
        make_strategy("selection_via_proxy", strategy="margin")
    with pytest.raises(UnderstudyError, match="Bgadl generates training items"):
        SelectionViaProxy(make_strategy("bgadl"))


def test_a_proxy_that_does_not_offer_enough_is_named() -> None:
    with pytest.raises(UnderstudyError, match="Badge needs hidden, which Classifier does not offer; use the proxy"):
        ActiveLoop(ARRAYS.features, TARGET, SelectionViaProxy(make_strategy("badge"), "logistic"), n_classes=3)


def test_the_target_learns_from_the_labels_of_its_round_whatever_came_later() -> None:
    models = []
    for is_late in (False, True):
        loop = ActiveLoop(ARRAYS.features, TARGET, SelectionViaProxy(proxy=TARGET), schedule=[10], n_classes=3)
        rows = np.arange(10)
        loop.tell(rows, ARRAYS.truth[rows])
        if is_late:
            loop.retract([0]).tell([1], (ARRAYS.truth[[1]] + 1) % 3)
        models.append(loop.model.predict_proba(ARRAYS.features))
    assert (models[0] == models[1]).all()
