"""The convex programme against plain solvers, its limits, and the rows it gives."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

from understudy.errors import UnderstudyError
from understudy.strategies import elhamifar
from understudy.strategies.elhamifar import (
    Elhamifar,
    Norm,
    Programme,
    confidence,
    distances,
    shrink_2,
    shrink_inf,
    water_level,
)
from understudy.strategies.kcenter import nearest_distances
from understudy.strategies.view import Picks, PoolView

NORMS: list[Norm] = ["2", "inf"]


def programme(points: np.ndarray, q: Norm, c: np.ndarray | None = None) -> Programme:
    X = torch.from_numpy(points)
    D = distances(X, X)
    D.fill_diagonal_(0.0)
    weights = torch.ones(len(X), dtype=torch.float64) if c is None else torch.from_numpy(c)
    return Programme(D, weights, q, 3000, 1e-6)


def choose(points: np.ndarray, n: int, labelled: tuple[int, ...] = (), probs: Any = None, **settings: Any) -> Picks:
    labels = np.full(len(points), -1)
    labels[list(labelled)] = 0
    probs = np.full((len(points), 2), 0.5) if probs is None else probs
    view = PoolView(labels, 2, features=points, probs=probs)
    return Elhamifar(**settings).select(view, n, np.random.default_rng(0))


# -- the programme ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_with_the_largest_entry_as_norm_it_is_a_linear_programme(seed: int, lam: float) -> None:
    rng = np.random.default_rng(seed)
    m, points, c = 8, rng.standard_normal((8, 2)), 1 + rng.random(8)
    ours = programme(points, "inf", c)
    ours.solve(lam)
    # Unknown are Z, row by row, and a bound t_i for each row: Z_ij ≤ t_i.
    D = np.sqrt(((points[:, None] - points) ** 2).sum(2))
    below = np.hstack([np.eye(m * m), -np.repeat(np.eye(m), m, 0)])
    columns = np.hstack([np.tile(np.eye(m), m), np.zeros((m, m))])
    exact = linprog(np.concatenate([D.ravel(), lam * c]), below, np.zeros(m * m), columns, np.ones(m))
    assert ours.objective(ours.C, lam) == pytest.approx(exact.fun, rel=1e-4)


@pytest.mark.parametrize("lam", [0.1, 0.5, 2.0])
def test_with_the_length_as_norm_it_agrees_with_a_general_solver(lam: float) -> None:
    rng = np.random.default_rng(0)
    m, points, c = 4, rng.standard_normal((4, 2)), 1 + rng.random(4)
    ours = programme(points, "2", c)
    ours.solve(lam)
    D = np.sqrt(((points[:, None] - points) ** 2).sum(2))

    def value(z: np.ndarray) -> float:
        Z = z.reshape(m, m)
        return float((D * Z).sum() + lam * (c * np.sqrt((Z**2).sum(1) + 1e-14)).sum())

    columns = {"type": "eq", "fun": lambda z: z.reshape(m, m).sum(0) - 1}
    starts = [np.full(m * m, 1 / m), np.eye(m).ravel(), rng.dirichlet(np.ones(m), m).T.ravel()]
    found = [
        minimize(value, z, method="SLSQP", bounds=[(0, 1)] * m * m, constraints=columns, options={"maxiter": 500}).fun
        for z in starts
    ]
    assert ours.objective(ours.C, lam) == pytest.approx(min(found), rel=1e-4)


@pytest.mark.parametrize("q", NORMS)
def test_without_a_price_every_row_stands_for_itself(q: Norm) -> None:
    ours = programme(np.random.default_rng(0).standard_normal((12, 2)), q)
    norms = ours.solve(1e-6)
    assert torch.allclose(ours.C, torch.eye(12, dtype=torch.float64), atol=1e-4)
    assert norms.tolist() == pytest.approx([1.0] * 12, abs=1e-4)


def largest_lam(points: np.ndarray, q: Norm) -> tuple[float, int]:
    """The published price from which on the medoid stands for all; and the medoid."""
    D = np.sqrt(((points[:, None] - points) ** 2).sum(2))
    medoid = int(D.sum(1).argmin())
    extra = np.delete(D - D[medoid], medoid, 0)
    if q == "inf":
        return float(np.abs(extra).sum(1).max()) / 2, medoid
    return float(((extra**2).sum(1) / extra.sum(1)).max()) * len(D) ** 0.5 / 2, medoid


@pytest.mark.parametrize("q", NORMS)
@pytest.mark.parametrize("seed", range(3))
def test_a_high_price_leaves_the_medoid(seed: int, q: Norm) -> None:
    points = np.random.default_rng(seed).standard_normal((15, 2))
    lam, medoid = largest_lam(points, q)
    ours = programme(points, q)
    ours.solve(0.3 * lam)  # so that the medoid is found, not begun with
    norms = ours.solve(1.01 * lam)
    assert (norms > 1e-3).nonzero()[:, 0].tolist() == [medoid]
    assert torch.allclose(ours.C[medoid], torch.ones(15, dtype=torch.float64), atol=1e-3)


def test_below_that_price_a_second_row_comes_in() -> None:
    points = np.random.default_rng(0).standard_normal((15, 2))
    assert int((programme(points, "2").solve(0.98 * largest_lam(points, "2")[0]) > 1e-3).sum()) == 2


@pytest.mark.parametrize("q", NORMS)
def test_two_clusters_have_two_rows_that_stand_for_their_own(q: Norm) -> None:
    rng = np.random.default_rng(0)
    points = np.repeat([[0.0, 0.0], [10.0, 0.0]], 8, 0) + rng.uniform(-0.5, 0.5, (16, 2))
    ours = programme(points, q)
    active = (ours.solve(0.3 * ours.unit_lam()) > 1e-3).nonzero()[:, 0].tolist()
    assert [row // 8 for row in active] == [0, 1]
    assert ours.C[active[0], :8].tolist() == pytest.approx([1.0] * 8, abs=1e-3)
    assert ours.C[active[1], 8:].tolist() == pytest.approx([1.0] * 8, abs=1e-3)


@pytest.mark.parametrize("q", NORMS)
def test_the_solution_is_feasible_after_any_number_of_steps(q: Norm) -> None:
    ours = programme(np.random.default_rng(0).standard_normal((20, 2)), q)
    for steps in (1, 2, 30):
        ours.solve(0.7, steps)
        assert float(ours.C.min()) >= 0
        assert ours.C.sum(0).tolist() == pytest.approx([1.0] * 20)


def test_the_water_level_is_that_of_sorting() -> None:
    rng = np.random.default_rng(0)
    V, above = rng.standard_normal((30, 9)), rng.uniform(0.1, 5, 9)
    expected = []
    for v, total in zip(V.T, above, strict=True):
        tops = np.sort(v)[::-1]
        levels = (tops.cumsum() - total) / np.arange(1, 31)
        expected.append(levels[np.flatnonzero(tops > levels)[-1]])
    for start in (-np.inf, -1.0, 0.5, 100.0):
        found = water_level(torch.from_numpy(V), torch.from_numpy(above)[None], torch.full((1, 9), start).double())
        assert found[0].tolist() == pytest.approx(expected)


def test_shrunk_rows_are_where_their_cost_is_least() -> None:
    rng = np.random.default_rng(0)
    V, t = rng.random((6, 5)), np.array([0.01, 0.3, 0.5, 1.0, 2.0, 10.0])
    for shrink, norm in ((shrink_2, lambda z: np.sqrt((z**2).sum() + 1e-16)), (shrink_inf, np.max)):
        Z = shrink(torch.from_numpy(V), torch.from_numpy(t)).numpy()
        for z, v, price in zip(Z, V, t, strict=True):
            cost = price * norm(z) + 0.5 * ((z - v) ** 2).sum()
            for other in v * rng.random((300, 1)), np.abs(z + 0.05 * rng.standard_normal((300, 5))):
                assert all(cost <= price * norm(o) + 0.5 * ((o - v) ** 2).sum() + 1e-9 for o in other)
        assert Z[-1].tolist() == [0.0] * 5


# -- confidence -------------------------------------------------------------------------------------------------------


def test_confidence_is_the_smaller_of_the_two_formulas() -> None:
    rng = np.random.default_rng(0)
    p, gaps, sigma = rng.dirichlet(np.ones(3), 20), rng.random(20), 7.0
    c_unc = sigma - (sigma - 1) * -(p * np.log(p)).sum(1) / math.log(3)
    c_div = sigma - (sigma - 1) * gaps / gaps.max()
    found = confidence(torch.from_numpy(p), torch.from_numpy(gaps), sigma)
    assert found.tolist() == pytest.approx(np.minimum(c_unc, c_div).tolist())


def test_confidence_runs_from_one_to_sigma() -> None:
    probs = torch.tensor([[0.5, 0.5], [1.0, 0.0], [1.0, 0.0]])
    gaps = torch.tensor([0.0, 0.0, 3.0], dtype=torch.float64)
    assert confidence(probs, gaps, 20.0).tolist() == pytest.approx([1, 20, 1])
    assert confidence(probs[1:], gaps[:2], 20.0).tolist() == [20, 20]


def test_without_labels_all_rows_are_far() -> None:
    gaps = nearest_distances(torch.rand(3, 2), torch.arange(0), torch.arange(3))
    assert gaps.tolist() == [math.inf] * 3
    assert confidence(torch.eye(3), gaps, 20.0).tolist() == [1, 1, 1]


# -- the strategy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", NORMS)
def test_two_picks_of_two_clusters_are_one_of_each(q: Norm) -> None:
    rng = np.random.default_rng(0)
    points = np.repeat([[0.0, 0.0], [10.0, 0.0]], 12, 0) + rng.uniform(-0.5, 0.5, (24, 2))
    picks = choose(points, 2, q=q)
    assert sorted(picks.rows // 12) == [0, 1]
    assert (picks.scores > 0).all()


def test_doubt_decides_where_places_are_alike() -> None:
    points = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], 4, 0)
    probs = np.tile([1.0, 0.0], (12, 1))
    probs[[6, 9]] = 0.5
    assert set(choose(points, 2, labelled=(0, 4, 8), probs=probs).rows) == {6, 9}


def test_the_same_doubt_is_asked_for_where_nothing_is_labelled() -> None:
    rng = np.random.default_rng(0)
    points = np.repeat([[0.0, 0.0], [10.0, 0.0]], 8, 0) + rng.uniform(-0.5, 0.5, (16, 2))
    sure = np.tile([1.0, 0.0], (16, 1))
    assert (choose(points, 1, labelled=(0,), probs=sure).rows >= 8).all()


def test_what_has_no_norm_is_filled_up_farthest_first() -> None:
    points = np.array([[0.0], [1.0], [2.0], [3.0], [10.0]])
    picks = choose(points, 4, lam=20.0)
    assert picks.rows.tolist() == [2, 4, 0, 1]
    assert picks.scores.tolist() == pytest.approx([5**0.5, 0, 0, 0])


@pytest.mark.parametrize("n", [3, 10, 25])
def test_as_many_rows_as_are_asked_for_are_active(n: int) -> None:
    points = np.random.default_rng(0).standard_normal((60, 3))
    picks = choose(points, n)
    assert (picks.scores > elhamifar.ACTIVE).all()
    assert (np.diff(picks.scores) <= 0).all()


def test_more_picks_than_candidates_are_filled_from_the_whole_pool() -> None:
    points = np.random.default_rng(0).standard_normal((30, 3))
    assert len(set(choose(points, 25, max_candidates=10).rows)) == 25


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": 0.5}, "sigma must be a number of at least 1"),
        ({"lam": 0.0}, "lam must be a number above 0"),
        ({"tolerance": 0.0}, "tolerance must be a number above 0 and below 1"),
        ({"max_candidates": 0}, "max_candidates must be a whole number of at least 1"),
        ({"max_candidates": 5001}, "max_candidates must be at most 5,000"),
        ({"max_iterations": 0}, "max_iterations must be a whole number of at least 1"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        Elhamifar(**settings)


def test_an_unknown_norm_is_an_error() -> None:
    broken = Elhamifar()
    object.__setattr__(broken, "q", "1")
    with pytest.raises(UnderstudyError, match="q must be one of 2, inf"):
        broken.__post_init__()
