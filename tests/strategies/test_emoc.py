"""Expected model output change: the closed form equals adding every label and looking what moved."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from tests.pools import Pool, make_pool
from tests.strategies.pools import make_arrays, view_for
from understudy import Surrogate
from understudy.errors import UnderstudyError
from understudy.strategies.emoc import EMOC, expected_surprise, on_simplex, output_change
from understudy.strategies.view import PoolView


def process(pool: Pool, trained: Any = (0, 1, 2), **options: Any) -> Surrogate:
    given: dict[str, Any] = {"basis_size": 12, "dtype": "float64", "noise": 1e-2, "method": "paper"} | options
    return Surrogate(pool.features, pool.n_classes, **given).anchor(pool.probs, trained)


def literal(s: Surrogate, row: int) -> float:
    """Every label is added to a copy; how far the means moved is averaged over the pool and the labels."""
    before = s.mean
    chances = np.maximum(before[row], 0) / np.maximum(before[row], 0).sum()
    moved = [np.abs(deepcopy(s).tell([row], [label]).mean - before).sum(1).mean() for label in range(s.n_classes)]
    return float(chances @ moved)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_it_equals_adding_each_label_and_comparing_the_means(n_classes: int) -> None:
    pool = make_pool(50, n_classes, seed=1)
    s = process(pool)
    rows = np.arange(5, 20)
    np.testing.assert_allclose(output_change(s, rows), np.array([literal(s, row) for row in rows.tolist()]), rtol=1e-8)


def test_it_equals_adding_each_label_where_means_have_left_the_simplex() -> None:
    pool = make_pool(50, 3, seed=2)
    s = process(pool).tell(range(20, 40), pool.labels[20:40])
    assert s.mean.min() < 0
    rows = np.arange(5, 20)
    np.testing.assert_allclose(output_change(s, rows), np.array([literal(s, row) for row in rows.tolist()]), rtol=1e-8)


def test_with_the_pool_as_its_basis_it_equals_retraining_the_exact_process() -> None:
    pool = make_pool(25, 3, seed=3)
    s = process(pool, [0, 1], basis=(pool.features, pool.probs), noise=1e-2)
    K = np.exp(-((pool.features[:, None] - pool.features) ** 2).sum(2) / s.parts.kernel.input_bandwidth)
    K *= np.exp(-((pool.probs[:, None] - pool.probs) ** 2).sum(2) / s.parts.kernel.output_bandwidth)

    def mean(rows: list[int], residuals: np.ndarray) -> np.ndarray:
        weights = np.linalg.solve(K[np.ix_(rows, rows)] + 1e-2 * np.eye(len(rows)), residuals)
        return pool.probs + K[:, rows] @ weights

    for row in (4, 11):
        moved = 0.0
        for label, chance in enumerate(pool.probs[row]):
            residuals = np.zeros((3, 3))
            residuals[2] = np.eye(3)[label] - pool.probs[row]
            moved += chance * np.abs(mean([0, 1, row], residuals) - pool.probs).sum(1).mean()
        assert output_change(s, np.array([row]))[0] == pytest.approx(moved, rel=1e-6)


def test_two_classes_are_the_binary_form_with_labels_of_one_and_minus_one() -> None:
    pool = make_pool(40, 2, seed=4)
    s = process(pool)
    row = 9
    f = 2 * s.mean[row, 0] - 1  # the output of one process for labels of 1 and -1
    p = (1 + f) / 2
    c, v = s.covariance([row])[:, 0], s.variance[row]
    binary = (p * abs(1 - f) + (1 - p) * abs(-1 - f)) / v * np.abs(c).mean()
    assert output_change(s, np.array([row]))[0] == pytest.approx(binary, rel=1e-9)


def test_on_the_simplex_the_surprise_is_twice_the_gini_index() -> None:
    probs = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(5), 20))
    torch.testing.assert_close(expected_surprise(probs), 2 * (1 - probs.square().sum(1)))
    assert expected_surprise(torch.tensor([[1.0, 0.0, 0.0]])).tolist() == [0.0]


def test_means_outside_the_simplex_are_clipped() -> None:
    assert on_simplex(torch.tensor([[1.2, -0.2]])).tolist() == [[1.0, 0.0]]


def test_blocks_of_candidates_change_nothing() -> None:
    s = process(make_pool(50, 3, seed=5))
    whole = output_change(s, np.arange(5, 45))
    parts = output_change(s, np.arange(5, 45), covariances_per_block=150)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_scores_are_those_of_the_process_and_it_is_made_once_for_the_same_features() -> None:
    arrays = make_arrays()
    strategy = EMOC(basis_size=10)
    view = view_for(strategy, arrays, [3, 8, 11])
    picks = strategy.select(view, 4, np.random.default_rng(0))
    made = strategy.process.surrogate
    assert made is not None
    np.testing.assert_allclose(picks.scores, output_change(made, picks.rows), rtol=1e-6)
    assert (np.diff(picks.scores) <= 0).all()
    later = strategy.select(view.after(view.labels, pending=picks.rows), 4, np.random.default_rng(0))
    assert strategy.process.surrogate is made
    assert not set(later.rows.tolist()) & set(picks.rows.tolist())


def test_a_row_beside_one_that_is_pending_is_worth_less() -> None:
    arrays = make_arrays(20).take(np.array([*range(20), 5]))
    strategy = EMOC(basis_size=15)
    labels = np.full(21, -1)
    labels[[0, 1]] = arrays.truth[[0, 1]]

    def score_of_twin(pending: list[int]) -> float:
        view = PoolView(labels, 3, features=arrays.features, probs=arrays.probs, pending=pending)
        picks = strategy.select(view, 19 - len(pending), np.random.default_rng(0))
        return float(picks.scores[picks.rows.tolist().index(20)])

    assert score_of_twin([5]) < 0.8 * score_of_twin([])


def test_only_a_random_subset_is_tried_unless_more_are_asked_for() -> None:
    arrays = make_arrays()
    strategy = EMOC(max_candidates=5, basis_size=10)
    view = view_for(strategy, arrays, [3])
    seen = {row for seed in range(6) for row in strategy.select(view, 5, np.random.default_rng(seed)).rows.tolist()}
    assert 5 < len(seen) < 40
    assert len(strategy.select(view, 12, np.random.default_rng(0))) == 12


def test_the_seed_of_an_earlier_call_changes_nothing() -> None:
    used, fresh = EMOC(max_candidates=12, basis_size=8), EMOC(max_candidates=12, basis_size=8)
    view = view_for(used, make_arrays(), [3, 8, 11])
    used.select(view, 4, np.random.default_rng(0))
    again, first = (strategy.select(view, 4, np.random.default_rng(1)) for strategy in (used, fresh))
    assert again.rows.tolist() == first.rows.tolist()
    assert again.scores.tolist() == first.scores.tolist()


@pytest.mark.parametrize("settings", [{"max_candidates": 0}, {"basis_size": 0}, {"width": 0.0}, {"noise": -1.0}])
def test_a_bad_setting_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(UnderstudyError, match=next(iter(settings))):
        EMOC(**settings)
