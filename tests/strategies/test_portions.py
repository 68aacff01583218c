"""Subsets, and picks made portion by portion."""

import numpy as np
import pytest
import torch

from understudy.errors import PoolExhausted
from understudy.strategies.portions import select_in_portions
from understudy.strategies.randomness import draw_subset
from understudy.strategies.view import Picks, PoolView


def test_a_subset_is_all_rows_where_they_are_few_and_a_random_part_in_order_where_not() -> None:
    rows = torch.arange(10, 30)
    assert draw_subset(rows, 20, np.random.default_rng(0)) is rows
    drawn = draw_subset(rows, 6, np.random.default_rng(0)).tolist()
    assert len(set(drawn)) == 6
    assert drawn == sorted(drawn)
    assert set(drawn) <= set(rows.tolist())
    assert drawn != draw_subset(rows, 6, np.random.default_rng(1)).tolist()
    assert draw_subset(rows, 0, np.random.default_rng(0)).tolist() == []


def first(view: PoolView, n: int, _: np.random.Generator) -> Picks:
    """The lowest open rows, scored by how many rows are pending."""
    assert n <= 4
    return Picks(view.candidates(n)[:n].numpy(), np.full(n, float(view.is_pending.sum())))


def test_each_portion_knows_those_before_it_as_pending() -> None:
    view = PoolView(np.array([0, *[-1] * 14]), 2, pending=[3], skipped=[5])
    picks = select_in_portions(first, view, 9, 4, np.random.default_rng(0))
    assert picks.rows.tolist() == [1, 2, 4, 6, 7, 8, 9, 10, 11]
    assert picks.scores.tolist() == [1, 1, 3, 3, 5, 5, 7, 7, 7]
    assert view.is_pending.sum() == 1


def test_what_fits_is_chosen_at_once() -> None:
    view = PoolView(np.full(9, -1), 2)
    assert select_in_portions(first, view, 4, 4, np.random.default_rng(0)).scores.tolist() == [0.0] * 4


def test_too_many_are_refused_before_anything_is_chosen() -> None:
    with pytest.raises(PoolExhausted, match="only 9 of 9"):
        select_in_portions(first, PoolView(np.full(9, -1), 2), 10, 4, np.random.default_rng(0))
