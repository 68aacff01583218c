"""The product kernel over features and predictions, and its widths."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.core import linalg
from understudy.core.features import Features

SAMPLED_PAIRS = 1_000_000


def squared_distances(X: Float[Tensor, "b d"], U: Float[Tensor, "k d"]) -> Float[Tensor, "b k"]:
    """Squared Euclidean distances, never below zero."""
    squares = (X * X).sum(1)[:, None] + (U * U).sum(1)
    return squares.addmm_(X, U.T, alpha=-2.0).clamp_min_(0.0)


def gaussian(distances: Float[Tensor, "b k"], bandwidth: float) -> Float[Tensor, "b k"]:
    """exp(-distance² / bandwidth), with no factor two, as printed in the paper."""
    return torch.exp(distances / -bandwidth)


def mean_distance(
    features: Features,
    origin: Float[Tensor, "d"],
    spread: float,
    rng: np.random.Generator,
    pairs: int = SAMPLED_PAIRS,
) -> float:
    """Mean Euclidean distance over distinct pairs of rows; over about `pairs` of them in large pools.

    The sample joins every row to its followers in a random order, so that all rows count equally often
    and only the scatter within rows is left: about 2e-4 of the mean for a million pairs. Distances are taken in
    float32, of rows freed from their common `origin` and `spread`.
    """
    n, device = len(features), origin.device
    if n == 1:
        return 0.0
    if n * (n - 1) // 2 <= pairs:
        rows = (features.take(np.arange(n), torch.float64, device) - origin).div_(spread)
        return float(torch.pdist(rows).mean()) * spread
    order = rng.permutation(n)
    widest = math.ceil(pairs / n)
    total, count = 0.0, 0
    size = max(1, 2**19 // features.n_columns)
    for start in range(0, n, size):
        here = min(size, n - start)
        followers = order[np.arange(start, start + here + widest) % n]
        X = (features.take(followers, torch.float64, device) - origin).div_(spread).float()
        for gap in range(1, widest + 1):
            total += float((X[gap : gap + here] - X[:here]).norm(dim=1).sum(dtype=torch.float64))
            count += here
    return total / count * spread


@dataclass(frozen=True)
class ProductKernel:
    """k((x, f), (x', f')) = exp(-|x-x'|²/b_x) exp(-|f-f'|²/b_f) against k paired basis points (U, V)."""

    U: Float[Tensor, "k d"]
    V: Float[Tensor, "k c"]
    origin: Float[Tensor, "d"]  # distances are taken about it, so that a common offset costs no digits
    input_bandwidth: float
    output_bandwidth: float
    L: Float[Tensor, "k k"]
    jitter: float
    n_classes_drawn: int  # V was drawn for so many; classes added since have a zero in every v

    @classmethod
    def over(
        cls,
        U: Float[Tensor, "k d"],
        V: Float[Tensor, "k c"],
        origin: Float[Tensor, "d"],
        input_bandwidth: float,
        output_bandwidth: float,
    ) -> "ProductKernel":
        U, V = U.double(), V.double()
        centred = U - origin
        K = gaussian(squared_distances(centred, centred), input_bandwidth)
        K = K * gaussian(squared_distances(V, V), output_bandwidth)
        K = (K + K.T) / 2
        K.fill_diagonal_(1.0)
        L, jitter = linalg.cholesky(K)
        return cls(U, V, origin, input_bandwidth, output_bandwidth, L, jitter, V.shape[1])

    def with_class(self) -> "ProductKernel":
        """One class more, of which no basis point knows: no covariance changes."""
        return replace(self, V=torch.cat([self.V, torch.zeros_like(self.V[:, :1])], 1))

    def with_outputs(self, V: Float[Tensor, "k c"], output_bandwidth: float) -> "ProductKernel":
        return ProductKernel.over(self.U, V, self.origin, self.input_bandwidth, output_bandwidth)

    def of_features(self, block: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        """The input factor for a block of rows."""
        return gaussian(squared_distances(block - self.origin, self.U - self.origin), self.input_bandwidth)

    def whitened(
        self, of_features: Float[Tensor, "b k"], probs: Float[Tensor, "b c"]
    ) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b"]]:
        """Whitened rows w = L⁻¹ k and what they leave unexplained, λ = max(0, 1 - |w|²)."""
        of_outputs = gaussian(squared_distances(probs.double(), self.V), self.output_bandwidth)
        w = linalg.whiten(of_features.double() * of_outputs, self.L)
        return w, (1.0 - (w * w).sum(1)).clamp_min_(0.0)
