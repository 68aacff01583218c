from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from understudy.core import basis
from understudy.core.basis import centre_and_spread, draw_simplex, find_centres
from understudy.core.features import Features
from understudy.core.lloyd import LloydResult

CPU = torch.device("cpu")


def clusters(X: np.ndarray, k: int, seed: int = 0, **options: int | float) -> LloydResult:
    features = Features(X)
    standard = centre_and_spread(features, CPU)
    return find_centres(features, k, *standard, np.random.default_rng(seed), **options)  # type: ignore[arg-type]


def test_inertia_is_within_two_per_cent_of_lloyds_to_the_end() -> None:
    X = load_digits().data
    ours = [clusters(X, 50, seed) for seed in range(3)]
    full = KMeans(50, n_init=1, tol=0, max_iter=300, algorithm="lloyd", random_state=0).fit(X)
    assert np.mean([found.inertia for found in ours]) < 1.02 * full.inertia_


def test_inertia_is_that_of_the_rows_to_their_centres() -> None:
    X = np.random.default_rng(0).normal(size=(500, 6)) + 300
    found = clusters(X, 9, tolerance=0.0, max_iterations=300)
    distances = ((X[:, None] - found.centres.numpy()[None]) ** 2).sum(2)
    assert distances.min(1).sum() == pytest.approx(found.inertia, rel=1e-3)
    nearest = distances.argmin(1)
    for cluster in range(9):
        np.testing.assert_allclose(found.centres[cluster], X[nearest == cluster].mean(0), atol=1e-3)


def test_same_seed_same_centres() -> None:
    X = np.random.default_rng(0).normal(size=(300, 4))
    assert torch.equal(clusters(X, 12, seed=3).centres, clusters(X, 12, seed=3).centres)
    assert not torch.equal(clusters(X, 12, seed=3).centres, clusters(X, 12, seed=4).centres)


def test_no_more_centres_than_rows() -> None:
    X = np.random.default_rng(0).normal(size=(5, 4))
    found = clusters(X, 50)
    np.testing.assert_allclose(found.centres, X)
    assert found.inertia == 0.0


def test_a_large_pool_is_clustered_by_a_sample_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X = load_digits().data
    exact = clusters(X, 20)
    monkeypatch.setattr(basis, "SAMPLED_POOL", len(X) - 1)
    monkeypatch.setattr(basis, "SAMPLED_ROWS_PER_CENTRE", 30)
    sampled = clusters(X, 20)
    assert sampled.inertia < 0.5 * exact.inertia  # of about a third of the rows
    of_all = ((X[:, None] - sampled.centres.numpy()[None]) ** 2).sum(2).min(1).sum()
    assert exact.inertia < of_all < 1.1 * exact.inertia
    monkeypatch.setattr(basis, "SAMPLED_BYTES", 8 * X.shape[1] * 40)
    assert clusters(X, 20).centres.shape == (20, 64)


def test_fewer_distinct_rows_than_centres() -> None:
    X = np.repeat(np.eye(3), 20, axis=0)
    found = clusters(X, 7)
    assert found.centres.shape == (7, 3)
    assert torch.isfinite(found.centres).all()
    assert found.inertia == pytest.approx(0.0, abs=1e-4)


def test_half_precision_and_large_offsets_do_not_overflow() -> None:
    X = (np.random.default_rng(0).normal(size=(400, 3)) * 50 + 20_000).astype(np.float16)
    np.testing.assert_allclose(centre_and_spread(Features(X), CPU)[0], X.astype(np.float64).mean(0))
    assert torch.isfinite(clusters(X, 10).centres).all()


# -- many rows with many columns --------------------------------------------------------------------------------------


@pytest.fixture
def rough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits are a large pool with many columns."""
    for name, value in {
        "SMALL_POOL": 1500,
        "FEW_COLUMNS": 32,
        "ROUGH_COLUMNS": 12,
        "ROUGH_ROWS_PER_CENTRE": 20,
    }.items():
        monkeypatch.setattr(basis, name, value)


@pytest.mark.usefixtures("rough")
def test_from_the_centres_of_a_sample_the_inertia_is_as_good_and_fewer_iterations_are_left() -> None:
    X = load_digits().data
    rough = [clusters(X, 50, seed) for seed in range(5)]
    seeded = [clusters(X, 50, seed, seeding_rows=1000) for seed in range(5)]
    assert np.mean([found.inertia for found in rough]) < 1.01 * np.mean([found.inertia for found in seeded])
    assert np.mean([found.iterations for found in rough]) < np.mean([found.iterations for found in seeded]) - 1
    for found in rough:
        of_all = ((X[:, None] - found.centres.numpy()[None]) ** 2).sum(2).min(1).sum()
        assert of_all <= found.inertia * (1 + 1e-5)  # the last step moved the centres once more
        assert of_all == pytest.approx(found.inertia, rel=2e-3)


@pytest.mark.usefixtures("rough")
def test_the_centres_of_the_sample_vary_along_a_few_directions_only() -> None:
    X = load_digits().data
    found = clusters(X, 50, max_iterations=0).centres.numpy()
    singular = np.linalg.svd(found - X.mean(0), compute_uv=False)
    assert singular[11] > 1
    assert singular[12] < 1e-4


@pytest.mark.usefixtures("rough")
def test_the_centres_of_a_sample_are_seeded_and_know_neither_offset_nor_unit() -> None:
    X = np.random.default_rng(0).normal(size=(2000, 40))
    plain = clusters(X, 20, seed=3)
    assert torch.equal(plain.centres, clusters(X, 20, seed=3).centres)
    assert not torch.equal(plain.centres, clusters(X, 20, seed=4).centres)
    moved = clusters(X * 1e-25 + 1e-18, 20, seed=3)
    assert moved.inertia == pytest.approx(plain.inertia * 1e-50, rel=1e-2)
    same = np.ones((2000, 40))
    assert torch.isfinite(clusters(same, 20).centres).all()


@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize(("n", "columns", "is_rough"), [(1500, 40, False), (1501, 40, True), (1501, 32, False)])
def test_small_pools_and_few_columns_begin_at_seeds(
    n: int, columns: int, is_rough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, rough_centres = [], basis._rough_centres

    def counted(*given: Any) -> torch.Tensor:
        calls.append(1)
        return rough_centres(*given)

    monkeypatch.setattr(basis, "_rough_centres", counted)
    X = np.random.default_rng(0).normal(size=(n, columns))
    assert clusters(X, 10).centres.shape == (10, columns)
    assert bool(calls) == is_rough
    assert clusters(X, 10, seeding_rows=100).centres.shape == (10, columns)
    assert len(calls) == is_rough


def test_simplex_draws_are_uniform_probabilities() -> None:
    V = draw_simplex(20_000, 3, np.random.default_rng(0))
    np.testing.assert_allclose(V.sum(1), 1.0)
    assert (V >= 0).all()
    # Under the flat Dirichlet each coordinate has mean 1/3 and variance 2/36.
    np.testing.assert_allclose(V.mean(0), 1 / 3, atol=0.01)
    np.testing.assert_allclose(V.var(0), 2 / 36, atol=0.002)


@pytest.mark.parametrize(("offset", "unit"), [(1e8, 1.0), (0.0, 1e-25), (0.0, 1e18)])
def test_offset_and_unit_cost_no_digits(offset: float, unit: float) -> None:
    X = np.random.default_rng(0).normal(size=(2000, 3))
    moved = clusters(X * unit + offset, 20)
    plain = clusters(X, 20)
    np.testing.assert_allclose((moved.centres - offset) / unit, plain.centres, atol=1e-6)
    assert moved.inertia == pytest.approx(plain.inertia * unit**2, rel=1e-6)
