"""TCM: TypiClust before the switch, margin after it, and where the switch is."""

from typing import Any

import numpy as np
import pytest

from tests.strategies.pools import Arrays, labels_of, make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import Picks, PoolView


def choose(name: str, arrays: Arrays, n_labelled: int, probs: bool = True, pending: Any = (), **settings: Any) -> Picks:
    labels = labels_of(arrays, np.arange(n_labelled))
    supplies: dict[str, Any] = {"features": arrays.features} | ({"probs": arrays.probs} if probs else {})
    view = PoolView(labels, 3, pending=pending, **supplies)
    return make_strategy(name, **settings).select(view, 5, np.random.default_rng(0))


def same(one: Picks, other: Picks) -> bool:
    return one.rows.tolist() == other.rows.tolist() and one.scores.tolist() == other.scores.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_it_is_typiclust_with_fewer_than_twenty_labels_for_each_of_three_classes_and_margin_from_then_on(
    seed: int,
) -> None:
    arrays = make_arrays(100, seed=seed)
    for count in (0, 1, 30, 59):
        assert same(choose("tcm", arrays, count), choose("typiclust", arrays, count))
    for count in (60, 61, 90):
        assert same(choose("tcm", arrays, count), choose("margin", arrays, count))


def test_the_switch_is_where_the_setting_puts_it_whatever_classes_the_labels_have() -> None:
    arrays = make_arrays(60)
    arrays.truth[:] = 1
    assert same(choose("tcm", arrays, 7, labels_per_class=2.5), choose("typiclust", arrays, 7))
    assert same(choose("tcm", arrays, 8, labels_per_class=2.5), choose("margin", arrays, 8))
    assert same(choose("tcm", arrays, 0, labels_per_class=0), choose("margin", arrays, 0))


def test_rows_with_an_annotator_count_as_labels_to_come() -> None:
    arrays = make_arrays(60)
    early = choose("tcm", arrays, 5, labels_per_class=2)
    late = choose("tcm", arrays, 5, pending=[50], labels_per_class=2)
    assert same(early, choose("typiclust", arrays, 5))
    assert same(late, choose("margin", arrays, 5, pending=[50]))


def test_without_predictions_it_stays_typiclust() -> None:
    arrays = make_arrays(100)
    assert same(choose("tcm", arrays, 90, probs=False), choose("typiclust", arrays, 90))


def test_a_number_of_labels_below_zero_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="labels_per_class must be a number of at least 0; got -1"):
        make_strategy("tcm", labels_per_class=-1)
