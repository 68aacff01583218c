"""From scores to rows."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from understudy.errors import UnderstudyError
from understudy.strategies.ranking import in_blocks, top, weighted_draw


def test_the_highest_come_first_and_ties_go_to_the_lowest_row() -> None:
    picks = top(torch.tensor([2, 5, 7, 9]), torch.tensor([1.0, 3.0, 3.0, 2.0]), 3)
    assert picks.rows.tolist() == [5, 7, 9]
    assert picks.scores.tolist() == [3.0, 3.0, 2.0]


@pytest.mark.parametrize("rows_per_block", [1, 3, 7, 100])
def test_blocks_are_put_together_in_order(rows_per_block: int) -> None:
    table = torch.arange(40, dtype=torch.float64).view(20, 2)
    rows = torch.tensor([5, 2, 9, 9, 0, 19, 4])
    sizes: list[int] = []

    def double(some: torch.Tensor) -> torch.Tensor:
        sizes.append(len(some))
        return 2 * table[some]

    assert torch.equal(in_blocks(rows, rows_per_block, double), 2 * table[rows])
    assert max(sizes) <= rows_per_block
    assert in_blocks(rows, rows_per_block, lambda some: some > 4).dtype == torch.bool


def test_what_is_no_number_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="scores are NaN"):
        top(torch.tensor([0, 1]), torch.tensor([1.0, torch.nan]), 1)


def test_scores_of_other_rows_and_of_another_type_are_refused() -> None:
    with pytest.raises(UnderstudyError, match=r"one score for each of its 2 rows; got scores of shape \(5,\)"):
        top(torch.tensor([3, 4]), torch.rand(5), 1)
    numbers: Any = np.zeros(2)
    with pytest.raises(UnderstudyError, match=r"scores as a tensor; got ndarray; pass torch.as_tensor\(scores\)"):
        top(torch.tensor([3, 4]), numbers, 1)


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
