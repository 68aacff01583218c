"""Harmonic functions on a graph: updates against new solutions, and the way down the tree."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies.subquery import (
    Subquery,
    descend,
    error_reduction,
    harmonic_solution,
    leaves,
    most_central,
    neighbour_graph,
)
from understudy.strategies.view import PoolView

PRIOR = 1e-3
Array = NDArray[np.float64]


def graph(n: int = 24, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    """Weights of a graph over blobs, as a full matrix, and the labels of the rows."""
    arrays = make_arrays(n, seed=seed)
    return neighbour_graph(torch.from_numpy(arrays.features), 4, 1.0).toarray(), arrays.truth


def solved(W: Array, known: dict[int, Array], prior: float = PRIOR) -> Array:
    """(n, 3): f of all rows by one dense solution, with f of the known ones held."""
    n = len(W)
    free = [row for row in range(n) if row not in known]
    laplacian = np.diag(W.sum(1)) - W
    f = np.zeros((n, 3))
    for row, value in known.items():
        f[row] = value
    held = sorted(known)
    b = -laplacian[np.ix_(free, held)] @ f[held] + prior / 3
    f[free] = np.linalg.solve(laplacian[np.ix_(free, free)] + prior * np.eye(len(free)), b)
    return f


def slow_reduction(W: Array, known: dict[int, Array], row: int, judged: list[int]) -> float:
    """The fall of the mean of 1 - max f, with the graph solved again for every label."""
    now = solved(W, known)
    after = [(1 - solved(W, known | {row: e})[judged].max(1)).mean() for e in np.eye(3)]
    return float((1 - now[judged].max(1)).mean() - now[row] @ after)


def one_hot(truth: Any, rows: list[int]) -> dict[int, Array]:
    return {row: np.eye(3)[truth[row]] for row in rows}


def fast(W: Array, truth: Any, u: int) -> tuple[Tensor, Tensor]:
    """f and G where the rows from u on are labelled."""
    known = torch.from_numpy(np.eye(3)[truth[u:]])
    f, delta = harmonic_solution(csr_array(W), u, known, PRIOR)
    return f, torch.linalg.inv(delta)


def test_neighbours_are_the_nearest_both_ways_and_weights_are_gaussian() -> None:
    X = np.array([[0.0], [1.0], [3.0], [3.5]])
    W = neighbour_graph(torch.from_numpy(X), 1, 2.0).toarray()
    scale = 2.0 * np.mean([1.0, 1.0, 0.5, 0.5])
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = np.exp(-1 / scale**2)
    expected[2, 3] = expected[3, 2] = np.exp(-0.25 / scale**2)
    np.testing.assert_allclose(W, expected)


def test_f_is_harmonic_and_a_distribution() -> None:
    W, truth = graph()
    f, _ = fast(W, truth, 18)
    np.testing.assert_allclose(f, solved(W, one_hot(truth, list(range(18, 24))))[:18], atol=1e-12)
    everything = np.concatenate([f, np.eye(3)[truth[18:]]])
    np.testing.assert_allclose(
        f, (W[:18] @ everything + PRIOR / 3) / (W[:18].sum(1, keepdims=True) + PRIOR), atol=1e-12
    )
    np.testing.assert_allclose(f.sum(1), 1)
    assert float(f.min()) >= 0


def test_the_rank_one_update_equals_a_new_solution() -> None:
    W, truth = graph()
    f, G = fast(W, truth, 18)
    known = one_hot(truth, list(range(18, 24)))
    for k in (0, 7):
        for y in range(3):
            updated = f + torch.outer(G[:, k] / G[k, k], torch.eye(3, dtype=torch.float64)[y] - f[k])
            np.testing.assert_allclose(updated, solved(W, known | {k: np.eye(3)[y]})[:18], atol=1e-10)


def test_the_expected_reduction_equals_new_solutions_for_every_label() -> None:
    W, truth = graph()
    f, G = fast(W, truth, 18)
    known = one_hot(truth, list(range(18, 24)))
    ours = error_reduction(f, G, torch.arange(18))
    np.testing.assert_allclose(ours, [slow_reduction(W, known, k, list(range(18))) for k in range(18)], atol=1e-10)


def test_the_strategy_scores_by_that_and_holds_what_pending_rows_are_predicted_to_be() -> None:
    arrays = make_arrays(30)
    labels = np.full(30, -1)
    labels[[4, 9, 20]] = arrays.truth[[4, 9, 20]]
    view = PoolView(labels, 3, features=arrays.features, pending=[7, 8], skipped=[2])
    picks = Subquery(neighbours=4).select(view, 24, np.random.default_rng(0))
    W = neighbour_graph(torch.from_numpy(arrays.features), 4, 1.0).toarray()
    known = one_hot(arrays.truth, [4, 9, 20])
    at_first = solved(W, known)
    held = known | {row: at_first[row] for row in (7, 8)}
    judged = [row for row in range(30) if row not in held]
    expected = [slow_reduction(W, held, row, judged) for row in picks.rows.tolist()]
    np.testing.assert_allclose(picks.scores, expected, atol=1e-10)
    assert (np.diff(picks.scores) <= 0).all()


def test_a_blob_without_a_label_comes_first() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 50])
    labels = np.full(40, -1)
    labels[[0, 1]] = 0, 0
    picks = Subquery(neighbours=5).select(PoolView(labels, 2, features=X), 1, np.random.default_rng(0))
    assert picks.rows[0] >= 20


# -- the tree -----------------------------------------------------------------------------------------------------


def test_the_tree_is_gone_down_where_it_looks_best() -> None:
    X = np.array([[0.0], [1.0], [2.0], [100.0], [101.0], [102.0], [104.0]])
    asked: list[int] = []

    def evaluate(rows: list[int]) -> list[float]:
        asked.extend(rows)
        return [float(X[row, 0]) for row in rows]

    assert descend(X, evaluate, 4) == set(asked)
    assert 4 <= len(asked) <= 5
    assert sum(row < 3 for row in asked) == 1  # of the poor half one is enough
    asked.clear()
    assert descend(X, evaluate, 7) == set(range(7))
    assert sorted(asked) == list(range(7)), "each row is evaluated once"


def test_a_tree_of_one_row_is_that_row() -> None:
    assert descend(np.zeros((1, 2)), lambda rows: [0.0 for _ in rows], 5) == {0}


def test_leaves_and_centres_of_a_cluster() -> None:
    children = np.array([[0, 3], [1, 2], [4, 5]])
    assert leaves(children, 4, 6) == [0, 1, 2, 3]
    assert leaves(children, 4, 5) == [1, 2]
    assert leaves(children, 4, 2) == [2]
    assert most_central(np.array([[0.0], [9.0], [1.0], [1.2]]), [0, 2, 3]) == 2


# -- bounds -------------------------------------------------------------------------------------------------------


def test_few_candidates_are_tried_and_the_best_of_all_is_often_among_them() -> None:
    hits = 0
    for seed in range(8):
        arrays = make_arrays(60, seed=seed)
        labels = np.full(60, -1)
        labels[:3] = arrays.truth[:3]
        view = PoolView(labels, 3, features=arrays.features)
        few, many = (Subquery(max_candidates=m).select(view, 1, np.random.default_rng(0)) for m in (12, 60))
        assert few.scores[0] <= many.scores[0]
        hits += few.scores[0] >= 0.9 * many.scores[0]
    assert hits >= 4


def test_only_so_many_rows_are_in_the_graph_however_many_are_asked_for() -> None:
    arrays = make_arrays(60)
    labels = np.full(60, -1)
    labels[:12] = arrays.truth[:12]
    view = PoolView(labels, 3, features=arrays.features)
    strategy = Subquery(max_rows=10, max_candidates=4)
    one, other = (strategy.select(view, 3, np.random.default_rng(seed)).rows.tolist() for seed in range(2))
    assert one != other
    assert len(set(strategy.select(view, 48, np.random.default_rng(0)).rows.tolist())) == 48


def test_no_label_at_all_is_an_error() -> None:
    view = PoolView(np.full(5, -1), 2, features=np.eye(5))
    with pytest.raises(UnderstudyError, match="subquery needs 1 labelled rows"):
        Subquery().select(view, 1, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["max_candidates", "max_rows", "neighbours", "width", "prior"])
def test_a_bad_setting_is_named(name: str) -> None:
    bad: dict[str, Any] = {name: 0}
    with pytest.raises(UnderstudyError, match=name):
        Subquery(**bad)
