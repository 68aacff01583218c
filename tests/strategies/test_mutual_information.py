"""Mutual information: greedy picks against exhaustive search, and fast updates against inverses from scratch."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies.mutual_information import MutualInformation
from understudy.strategies.view import PoolView

NOISE, WIDTH = 0.05, 0.7
Array = NDArray[np.float64]


def covariance(X: Array, untaken: list[int]) -> Array:
    """Of labels, by the formula; the width is taken from the rows that are not taken."""
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(2))
    among = distances[np.ix_(untaken, untaken)]
    mean = among.sum() / (len(untaken) * (len(untaken) - 1))
    return np.exp(-(distances**2) / (WIDTH * mean) ** 2) + NOISE * np.eye(len(X))


def log_det(K: Array, rows: Any) -> float:
    return float(np.linalg.slogdet(K[np.ix_(list(rows), list(rows))])[1]) if len(list(rows)) else 0.0


def information(K: Array, taken: list[int], chosen: Any) -> float:
    """Between the taken rows with the chosen ones and all that is left."""
    labelled = sorted({*taken, *chosen})
    rest = [row for row in range(len(K)) if row not in labelled]
    return (log_det(K, labelled) + log_det(K, rest) - log_det(K, range(len(K)))) / 2


def variance_given(K: Array, row: int, rows: list[int]) -> float:
    if not rows:
        return float(K[row, row])
    return float(K[row, row] - K[row, rows] @ np.linalg.solve(K[np.ix_(rows, rows)], K[rows, row]))


def slow(K: Array, taken: list[int], skipped: list[int], n: int) -> tuple[list[int], list[float]]:
    """The greedy ratio, with everything inverted again for every row and every pick."""
    chosen: list[int] = []
    scores = []
    for _ in range(n):
        labelled = [*taken, *chosen]
        rest = [row for row in range(len(K)) if row not in labelled]
        ratios = {
            row: np.log(variance_given(K, row, labelled) / variance_given(K, row, [r for r in rest if r != row]))
            for row in rest
            if row not in skipped
        }
        chosen.append(max(ratios, key=lambda row: ratios[row]))
        scores.append(float(ratios[chosen[-1]]))
    return chosen, scores


def pool(n: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(n, 2))


def select(X: Array, n: int, labelled: Any = (), settings: Any = None, seed: int = 0, **more: Any) -> Any:
    labels = np.full(len(X), -1)
    labels[list(labelled)] = 0
    strategy = MutualInformation(**({"width": WIDTH, "noise": NOISE} | (settings or {})))
    return strategy.select(PoolView(labels, 2, features=X, **more), n, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(10))
def test_two_of_ten_are_near_the_best_that_an_exhaustive_search_finds(seed: int) -> None:
    X = pool(10, seed)
    K = covariance(X, list(range(10)))
    best = max(information(K, [], pair) for pair in combinations(range(10), 2))
    ours = information(K, [], select(X, 2).rows.tolist())
    assert (1 - 1 / np.e) * best <= ours <= best + 1e-12
    singles = [information(K, [], [row]) for row in range(10)]
    assert select(X, 1).rows.tolist() == [int(np.argmax(singles))]


def test_in_some_pools_greedy_is_not_the_best() -> None:
    found = []
    for seed in range(10):
        X = pool(10, seed)
        K = covariance(X, list(range(10)))
        best = max(combinations(range(10), 2), key=lambda pair, K=K: information(K, [], pair))  # type: ignore[misc]
        found.append(set(best) == set(select(X, 2).rows.tolist()))
    assert any(found)
    assert not all(found)


@pytest.mark.parametrize("seed", range(4))
def test_fast_updates_equal_inverses_from_scratch(seed: int) -> None:
    X = pool(18, seed)
    labelled, pending, skipped = [2, 7], [11], [4, 5]
    untaken = [row for row in range(18) if row not in (2, 7, 11)]
    order, scores = slow(covariance(X, untaken), [2, 7, 11], skipped, 13)
    picks = select(X, 13, labelled, pending=pending, skipped=skipped)
    assert picks.rows.tolist() == order
    np.testing.assert_allclose(picks.scores, scores, atol=1e-9)


def test_scores_are_the_gains_of_the_information() -> None:
    X = pool(12, 3)
    K = covariance(X, [row for row in range(12) if row != 6])
    picks = select(X, 5, [6])
    chosen = picks.rows.tolist()
    steps = [information(K, [6], chosen[:t]) for t in range(6)]
    np.testing.assert_allclose(picks.scores / 2, np.diff(steps), atol=1e-10)


def test_a_copy_of_a_taken_row_comes_after_one_that_is_new() -> None:
    X = np.array([[0.0], [0.01], [5.0], [5.1], [5.2]])
    assert select(X, 1, [0]).rows[0] >= 2


def test_ties_go_to_the_lowest_row() -> None:
    X = np.repeat(np.array([[0.0], [1.0]]), 4, axis=0)
    assert select(X, 1).rows.tolist() == [0]
    assert select(X, 2).rows.tolist() == [0, 4]


def test_only_so_many_rows_are_held_however_many_are_asked_for() -> None:
    X = make_arrays(60).features
    one = select(X, 7, [1, 2], {"max_candidates": 8}, seed=0).rows.tolist()
    assert one != select(X, 7, [1, 2], {"max_candidates": 8}, seed=1).rows.tolist()
    rows = select(X, 55, [1, 2], {"max_candidates": 8}, skipped=[0]).rows.tolist()
    assert len(set(rows)) == 55
    assert not {0, 1, 2} & set(rows)


@pytest.mark.parametrize("settings", [{"max_candidates": 1}, {"width": 0}, {"noise": 0.0}])
def test_a_bad_setting_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(UnderstudyError, match=next(iter(settings))):
        MutualInformation(**settings)
