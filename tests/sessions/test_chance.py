"""Right answers beside those of guesses: the moments are those over all orders, and guesses are recognised."""

from itertools import permutations

import numpy as np
import pytest

from understudy.errors import UnderstudyError
from understudy.sessions.chance import against_guessing


@pytest.mark.parametrize("seed", range(8))
def test_mean_and_spread_are_those_over_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, labels = rng.integers(3, size=6).tolist(), rng.integers(4, size=6).tolist()
    right = [sum(predicted[i] == labels[j] for i, j in enumerate(order)) for order in permutations(range(6))]
    found = against_guessing(predicted, labels)
    assert found.right == right[0]
    assert np.isclose(found.expected, np.mean(right))
    assert np.isclose(found.spread, np.std(right))


def test_always_the_commonest_class_is_a_guess_and_half_of_a_rare_class_is_not() -> None:
    labels = [0] * 45 + [1] * 5
    assert not against_guessing([0] * 50, labels).is_above_chance()
    assert against_guessing([0] * 47 + [1] * 3, labels).is_above_chance()


@pytest.mark.parametrize("n_classes", [2, 10])
def test_guesses_are_taken_for_better_about_as_often_as_is_said(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    drawn = rng.integers(n_classes, size=(1000, 2, 60)).tolist()
    mistaken = sum(against_guessing(predicted, labels).is_above_chance() for predicted, labels in drawn)
    assert 20 <= mistaken <= 90  # one in twenty is 50


def test_nothing_and_one_item_show_nothing() -> None:
    assert not against_guessing([], []).is_above_chance()
    assert not against_guessing([1], [1]).is_above_chance()
    with pytest.raises(UnderstudyError, match="2 predictions for 1 labels"):
        against_guessing([0, 1], [0])
