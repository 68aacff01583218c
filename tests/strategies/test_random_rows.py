"""Random is uniform and without replacement."""

import numpy as np
from scipy.stats import chisquare

from understudy.strategies.random_rows import Random
from understudy.strategies.view import PoolView


def test_a_hundred_thousand_draws_of_one_in_ten_are_uniform() -> None:
    view, rng = PoolView(np.full(10, -1), 2), np.random.default_rng(0)
    drawn = [int(Random().select(view, 1, rng).rows[0]) for _ in range(100_000)]
    assert chisquare(np.bincount(drawn, minlength=10)).pvalue > 1e-3


def test_drawing_all_gives_a_permutation() -> None:
    view = PoolView(np.full(50, -1), 2)
    rows = Random().select(view, 50, np.random.default_rng(0)).rows
    assert sorted(rows.tolist()) == list(range(50))
    assert rows.tolist() != list(range(50))
