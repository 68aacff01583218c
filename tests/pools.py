"""Small pools to test on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Pool:
    features: NDArray[np.float64]
    probs: NDArray[np.float64]
    labels: NDArray[np.int64]
    n_classes: int

    def take(self, rows: Sequence[int]) -> "Pool":
        index = list(rows)
        return Pool(self.features[index], self.probs[index], self.labels[index], self.n_classes)

    def permuted(self, order: Sequence[int]) -> "Pool":
        return self.take(order)

    def first(self, n: int) -> "Pool":
        return self.take(range(n))

    def without(self, rows: Sequence[int]) -> "Pool":
        return self.take([row for row in range(len(self.labels)) if row not in set(rows)])

    def with_row_repeated(self, row: int) -> "Pool":
        """The same pool with a double of one row at its end."""
        return self.take([*range(len(self.labels)), row])


def make_pool(n: int, n_classes: int, seed: int = 0, n_columns: int = 5) -> Pool:
    """Clusters with a learner that is right about two times in three."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=1.5, size=(3 * n_classes, n_columns))
    member = rng.integers(0, len(centres), n)
    labels = member % n_classes
    logits = rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[labels]
    weights = np.exp(logits)
    features = centres[member] + rng.normal(size=(n, n_columns))
    return Pool(features, weights / weights.sum(1, keepdims=True), labels.astype(np.int64), n_classes)


def relative_error(ours: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """The largest deviation, as a share of the largest value."""
    return float(np.abs(ours - exact).max() / max(np.abs(exact).max(), 1e-300))
