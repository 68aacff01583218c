"""Matrix factorisations and triangular solves; no other module does either."""

import torch
from jaxtyping import Float
from torch import Tensor

from understudy.errors import NotPositiveDefinite

FIRST_JITTER = 1e-10
LAST_JITTER = 1e-3


def cholesky(K: Float[Tensor, "k k"]) -> tuple[Float[Tensor, "k k"], float]:
    """Lower factor of K, and the jitter that was added: none unless the plain factorisation fails."""
    jitter = 0.0
    while True:
        shifted = K if jitter == 0.0 else K + jitter * torch.eye(len(K), dtype=K.dtype, device=K.device)
        L, failed = torch.linalg.cholesky_ex(shifted)
        if not bool(failed) and bool(torch.isfinite(L).all()):
            return L, jitter
        jitter = FIRST_JITTER if jitter == 0.0 else 10 * jitter
        if jitter > LAST_JITTER:
            raise NotPositiveDefinite(
                f"the covariance of the {len(K)} basis points is singular even with {LAST_JITTER:.0e} added; "
                "check that the features, or the basis you passed, are finite and of a reasonable size"
            )


def inverse(S: Float[Tensor, "k k"]) -> Float[Tensor, "k k"]:
    """Inverse of a positive definite matrix, exactly symmetric."""
    L, _ = cholesky(S)
    R = torch.cholesky_inverse(L)
    return (R + R.T) / 2


def whiten(rows: Float[Tensor, "b k"], L: Float[Tensor, "k k"]) -> Float[Tensor, "b k"]:
    """Row-wise L⁻¹ k, by substitution."""
    return torch.linalg.solve_triangular(L.T, rows, upper=True, left=False)


def leading_subspace(X: Float[Tensor, "n d"], start: Float[Tensor, "d k"], steps: int) -> Float[Tensor, "d k"]:
    """Orthonormal columns that nearly span the k directions in which the rows of X are largest: subspace iteration."""
    Q = torch.linalg.qr(start)[0]
    for _ in range(steps):
        Q = torch.linalg.qr(X.T @ (X @ Q))[0]
    return Q
