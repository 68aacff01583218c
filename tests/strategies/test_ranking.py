"""From scores to rows."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from understudy.errors import UnderstudyError
from understudy.strategies.ranking import top, weighted_draw


def test_the_highest_come_first_and_ties_go_to_the_lowest_row() -> None:
    picks = top(torch.tensor([2, 5, 7, 9]), torch.tensor([1.0, 3.0, 3.0, 2.0]), 3)
    assert picks.rows.tolist() == [5, 7, 9]
    assert picks.scores.tolist() == [3.0, 3.0, 2.0]


def test_what_is_no_number_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="scores are NaN"):
        top(torch.tensor([0, 1]), torch.tensor([1.0, torch.nan]), 1)


def test_the_gumbel_trick_draws_as_one_by_one_does() -> None:
    weights, rng = np.array([1.0, 2.0, 3.0, 4.0]), np.random.default_rng(0)
    rows, logs = torch.arange(4), torch.from_numpy(np.log(weights))
    draws, counts = 20_000, np.zeros((4, 4))
    for _ in range(draws):
        first, second = weighted_draw(rows, torch.zeros(4), logs, 2, rng).rows
        counts[first, second] += 1
    shares = weights / weights.sum()
    expected = np.array(
        [[0 if i == j else shares[i] * shares[j] / (1 - shares[i]) for j in range(4)] for i in range(4)]
    )
    away = ~np.eye(4, dtype=bool)
    assert chisquare(counts[away], draws * expected[away]).pvalue > 1e-3
