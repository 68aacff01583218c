import numpy as np
import pytest
import torch

from understudy.core import linalg
from understudy.errors import NotPositiveDefinite


def covariance(k: int, seed: int = 0) -> torch.Tensor:
    A = np.random.default_rng(seed).normal(size=(k, k))
    return torch.from_numpy(A @ A.T + 0.1 * np.eye(k))


def test_no_jitter_where_none_is_needed() -> None:
    K = covariance(8)
    L, jitter = linalg.cholesky(K)
    assert jitter == 0.0
    np.testing.assert_allclose(L @ L.T, K, atol=1e-12)


def test_jitter_grows_tenfold_until_it_is_enough() -> None:
    twins = torch.ones((4, 4), dtype=torch.float64) - 3e-9 * torch.eye(4, dtype=torch.float64)
    L, jitter = linalg.cholesky(twins)
    assert jitter == pytest.approx(1e-8)
    np.testing.assert_allclose(L @ L.T, twins + jitter * torch.eye(4), atol=1e-12)


def test_hopeless_matrices_are_an_error_that_says_so() -> None:
    with pytest.raises(NotPositiveDefinite, match="covariance of the 3 basis points is singular"):
        linalg.cholesky(-torch.eye(3, dtype=torch.float64))
    with pytest.raises(NotPositiveDefinite):
        linalg.cholesky(torch.full((3, 3), torch.nan, dtype=torch.float64))


def test_inverse_and_whitening() -> None:
    K = covariance(8, seed=1)
    R = linalg.inverse(K)
    assert torch.equal(R, R.T)
    np.testing.assert_allclose(R @ K, np.eye(8), atol=1e-10)
    rows = torch.from_numpy(np.random.default_rng(2).normal(size=(5, 8)))
    L, _ = linalg.cholesky(K)
    np.testing.assert_allclose(linalg.whiten(rows, L), np.linalg.solve(L.numpy(), rows.numpy().T).T, atol=1e-10)


def test_the_leading_subspace_is_that_of_the_largest_singular_vectors() -> None:
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(300, 20)) * 0.7 ** np.arange(20))
    Q = linalg.leading_subspace(X, torch.from_numpy(rng.normal(size=(20, 5))), 30)
    np.testing.assert_allclose(Q.T @ Q, np.eye(5), atol=1e-12)
    leading = np.linalg.svd(X.numpy(), full_matrices=False)[2][:5]
    np.testing.assert_allclose(Q @ Q.T, leading.T @ leading, atol=1e-6)
    nothing = linalg.leading_subspace(torch.zeros(9, 4), torch.ones(4, 2), 1)
    np.testing.assert_allclose(nothing.T @ nothing, np.eye(2), atol=1e-6)
