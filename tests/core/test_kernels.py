from typing import Any

import numpy as np
import pytest
import torch

from tests.literal import gaussian as literal_gaussian
from understudy.core.basis import centre_and_spread
from understudy.core.features import Features
from understudy.core.kernels import (
    NARROWEST,
    SAMPLED_PAIRS,
    SAMPLED_ROWS,
    WIDEST,
    WIDTH_DIGITS,
    Kernel,
    explained_width,
    gaussian,
    mean_distance,
    squared_distances,
)

CPU = torch.device("cpu")


def distance(X: np.ndarray, seed: int = 0, pairs: int = SAMPLED_PAIRS) -> float:
    features = Features(X)
    return mean_distance(features, *centre_and_spread(features, CPU), np.random.default_rng(seed), pairs)


def test_gaussian_has_no_factor_two() -> None:
    distances = squared_distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    assert float(distances) == 25.0
    assert float(gaussian(distances.double(), 5.0)) == pytest.approx(np.exp(-5.0))


def test_squared_distances_of_equal_rows_are_not_negative() -> None:
    X = torch.randn(50, 20, generator=torch.Generator().manual_seed(0)) * 100
    assert (squared_distances(X, X) >= 0).all()


def test_mean_distance_of_a_small_pool_is_exact() -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    pairs = [np.linalg.norm(a - b) for i, a in enumerate(X) for b in X[:i]]
    assert distance(X) == pytest.approx(np.mean(pairs), rel=1e-12)


def test_mean_distance_of_a_large_pool_is_within_a_thousandth() -> None:
    """Also where rows differ much in how far they are from the others, and the pool is sorted."""
    rng = np.random.default_rng(1)
    X = np.sort(rng.normal(size=(3000, 3)) * rng.exponential(size=(3000, 1)), axis=0)
    exact, sampled = distance(X, pairs=10**7), distance(X, pairs=300_000)
    assert sampled != exact
    assert sampled == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("columns", [3, 700])
def test_sampled_pairs_are_each_row_and_its_followers_in_a_random_order(columns: int) -> None:
    """Distances come from matrix products; here one by one, of rows of which a third are equal."""
    X = np.random.default_rng(2).normal(size=(1600, columns)) + 50
    X[:500] = X[0]
    order = np.random.default_rng(0).permutation(len(X))
    followers = [np.roll(order, -gap) for gap in (1, 2, 3)]
    literal = np.mean([np.linalg.norm(X[order] - X[after], axis=1) for after in followers])
    assert distance(X, pairs=3 * len(X)) == pytest.approx(literal, rel=1e-6)


def test_mean_distance_is_seeded() -> None:
    X = np.random.default_rng(1).normal(size=(3000, 3))
    assert distance(X, seed=7) == distance(X, seed=7)
    assert distance(X, seed=7) != distance(X, seed=8)


@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize(("offset", "unit"), [(1e8, 1.0), (0.0, 1e-25), (0.0, 1e18)])
def test_mean_distance_knows_no_offset_and_any_unit(n: int, offset: float, unit: float) -> None:
    X = np.random.default_rng(1).normal(size=(n, 3))
    assert distance(X * unit + offset) == pytest.approx(distance(X) * unit, rel=1e-5)


def test_mean_distance_without_spread_or_company_is_zero() -> None:
    assert distance(np.ones((1, 3))) == 0.0
    assert distance(np.ones((9, 3))) == 0.0
    assert distance(np.ones((2000, 3))) == 0.0


def test_whitened_rows_reproduce_the_kernel() -> None:
    """w_iᵀ w_j = k_iᵀ K⁻¹ k_j and λ_i = 1 - k_iᵀ K⁻¹ k_i, also far from the origin."""
    rng = np.random.default_rng(2)
    X, U = rng.normal(size=(20, 3)) + 1000, rng.normal(size=(6, 3)) + 1000
    F, V = rng.dirichlet(np.ones(4), 20), rng.dirichlet(np.ones(4), 6)
    origin = torch.from_numpy(X.mean(0))
    kernel = Kernel.over(torch.from_numpy(U), torch.from_numpy(V), origin, 5.0, 2.0)
    np.testing.assert_allclose(torch.diagonal(kernel.L @ kernel.L.T), 1.0, rtol=1e-12)  # no jitter where none is asked
    w, lam = kernel.whiten(kernel.of_features(torch.from_numpy(X)), torch.from_numpy(F))
    phi = literal_gaussian(X, U, 5.0) * literal_gaussian(F, V, 2.0)
    K = literal_gaussian(U, U, 5.0) * literal_gaussian(V, V, 2.0)
    expected = phi @ np.linalg.inv(K) @ phi.T
    np.testing.assert_allclose(w @ w.T, expected, atol=1e-10)
    np.testing.assert_allclose(lam, 1 - np.diag(expected), atol=1e-10)


def test_blocks_one_after_another_are_what_each_is_alone() -> None:
    rng = np.random.default_rng(2)
    X, U = torch.from_numpy(rng.normal(size=(20, 3)) + 1000), torch.from_numpy(rng.normal(size=(6, 3)) + 1000)
    kernel = Kernel.over(U, None, X.mean(0), 5.0)
    found = list(kernel.of_blocks([(0, X[:7]), (7, X[7:])]))
    assert [first for first, _ in found] == [0, 7]
    for first, values in found:
        assert torch.equal(values, kernel.of_features(X[first : first + len(values)]))
        literal = literal_gaussian(X[first : first + len(values)].numpy(), U.numpy(), 5.0)
        np.testing.assert_allclose(values, literal, atol=1e-12)


def test_a_class_no_basis_point_knows_changes_no_covariance() -> None:
    rng = np.random.default_rng(3)
    U, V = torch.from_numpy(rng.normal(size=(5, 3))), torch.from_numpy(rng.dirichlet(np.ones(2), 5))
    kernel = Kernel.over(U, V, torch.zeros(3, dtype=torch.float64), 4.0, 4.0)
    wider = kernel.with_class()
    same = Kernel.over(U, wider.V, torch.zeros(3, dtype=torch.float64), 4.0, 4.0)
    assert wider.V is not None
    assert wider.V.shape == (5, 3)
    assert wider.n_classes_drawn == 2
    np.testing.assert_allclose(same.L, kernel.L, atol=1e-14)


def test_jitter_is_added_to_the_basis_alone() -> None:
    """w_iᵀ w_j = k_iᵀ (K + jI)⁻¹ k_j, so that a row on a basis point is not explained to the last digit."""
    rng = np.random.default_rng(4)
    X, U = rng.normal(size=(20, 3)), rng.normal(size=(6, 3))
    kernel = Kernel.over(torch.from_numpy(U), None, torch.zeros(3, dtype=torch.float64), 5.0, jitter=1e-2)
    w, lam = kernel.whiten(kernel.of_features(torch.from_numpy(np.vstack([X, U]))))
    phi, K = literal_gaussian(np.vstack([X, U]), U, 5.0), literal_gaussian(U, U, 5.0) + 1e-2 * np.eye(6)
    np.testing.assert_allclose(w @ w.T, phi @ np.linalg.inv(K) @ phi.T, atol=1e-10)
    np.testing.assert_allclose(lam, 1 - np.einsum("ik,kl,il->i", phi, np.linalg.inv(K), phi), atol=1e-10)
    assert (lam[20:] > 1e-3).all()
    assert kernel.with_class() is kernel  # there are no outputs that a class could be added to


# -- the width at which a share is explained ----------------------------------------------------------------------


JITTER = 1e-6


def width_of(X: np.ndarray, U: np.ndarray, share: float, seed: int = 0) -> float:
    features = Features(X)
    origin, _ = centre_and_spread(features, CPU)
    rng = np.random.default_rng(seed)
    return explained_width(features, torch.from_numpy(U), origin, distance(X), share, JITTER, rng)


def explained_at(width: float, X: np.ndarray, U: np.ndarray) -> float:
    """mean_i k_iᵀ (K + jI)⁻¹ k_i, by its definition."""
    bandwidth = (width * distance(X)) ** 2
    phi, K = literal_gaussian(X, U, bandwidth), literal_gaussian(U, U, bandwidth) + JITTER * np.eye(len(U))
    return float(np.einsum("ik,kl,il->i", phi, np.linalg.inv(K), phi).mean())


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.97])
def test_the_width_explains_the_share_and_one_a_little_narrower_does_not(share: float) -> None:
    X = np.random.default_rng(5).normal(size=(400, 8))
    width = width_of(X, X[:20], share)
    assert NARROWEST < width < WIDEST
    assert explained_at(width, X, X[:20]) >= share
    assert explained_at(width / (1 + 2 * WIDTH_DIGITS), X, X[:20]) < share


def test_a_larger_share_needs_a_wider_kernel_and_a_larger_basis_a_narrower_one() -> None:
    X = np.random.default_rng(6).normal(size=(300, 8))
    by_share = [width_of(X, X[:20], share) for share in (0.5, 0.7, 0.9)]
    assert by_share == sorted(set(by_share))
    by_size = [width_of(X, X[:k], 0.9) for k in (5, 20, 80)]
    assert by_size == sorted(set(by_size), reverse=True)


@pytest.mark.parametrize(("offset", "unit"), [(1e4, 1.0), (0.0, 1e-6), (0.0, 1e6), (3.0, 100.0)])
def test_the_width_knows_no_offset_and_no_unit(offset: float, unit: float) -> None:
    X = np.random.default_rng(7).normal(size=(300, 6))
    moved = X * unit + offset
    assert width_of(moved, moved[:15], 0.9) == pytest.approx(width_of(X, X[:15], 0.9), rel=WIDTH_DIGITS)


def test_a_basis_that_explains_everything_has_the_narrowest_width_and_one_that_never_does_the_widest() -> None:
    X = np.random.default_rng(8).normal(size=(30, 4))
    assert width_of(X, X, 0.9) == NARROWEST
    assert explained_at(WIDEST, X, X[:1] + 300.0) < 0.9
    assert width_of(X, X[:1] + 300.0, 0.9) == WIDEST  # a basis far from all rows


def test_a_large_pool_is_judged_by_a_seeded_sample_of_it() -> None:
    X = np.random.default_rng(9).normal(size=(3 * SAMPLED_ROWS, 3))
    U = X[:10]
    exact = width_of(X[:SAMPLED_ROWS], U, 0.9)  # all of these rows
    assert width_of(X, U, 0.9, seed=1) == width_of(X, U, 0.9, seed=1)
    assert width_of(X, U, 0.9, seed=1) != width_of(X, U, 0.9, seed=2)
    assert width_of(X, U, 0.9, seed=1) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_the_width_is_that_of_halving_with_all_sampled_rows(seed: int) -> None:
    """A guess from a few rows only spares tries, right or wrong."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(1500, 6)), 4 * rng.normal(size=(20, 6))])
    features, origin = Features(X), torch.from_numpy(X.mean(0))
    U = torch.from_numpy(X[rng.choice(len(X), 60, replace=False)])

    def width(**guess: Any) -> float:
        return explained_width(features, U, origin, 4.0, 0.9, 1e-6, np.random.default_rng(0), **guess)

    found = width()
    assert width(guess_margin=1e9) == found  # all rows are asked at every try
    assert width(guess_margin=1.0, guess_rows=2) == found  # they are asked at the end alone
