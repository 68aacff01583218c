"""Rows as points: of unit length or about their mean, and the smallest gap between them. In blocks."""

from collections.abc import Iterator
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from understudy.core.kernels import squared_distances
from understudy.strategies.clusters import unit_length

ROWS_AT_ONCE: Final = 1024
# Gaps below this share of the rows' length are rounding: such rows are duplicates.
DUPLICATE: Final = 1e-6


def as_points(features: Float[Tensor, "n d"], normalise: bool) -> Float[Tensor, "n d"]:
    """The rows at unit length, or moved so that their mean is the origin: there distances keep their digits."""
    if normalise:
        return unit_length(features)
    return features - features.mean(0)


def blocks(n: int, size: int = ROWS_AT_ONCE) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def squared_lengths(points: Float[Tensor, "n d"], dtype: torch.dtype | None = None) -> Float[Tensor, "n"]:
    """|x|² of every point, in their precision or another, without a copy of all."""
    lengths = torch.empty(len(points), dtype=dtype or points.dtype, device=points.device)
    for part in blocks(len(points)):
        lengths[part] = points[part].to(lengths.dtype).square().sum(1)
    return lengths


def smallest_gap(points: Float[Tensor, "k d"]) -> float | None:
    """The smallest distance between two points that are not duplicates; None where there are no two such."""
    X = points.double()
    least = DUPLICATE * float(X.norm(dim=1).mean())
    smallest = torch.inf
    for some in blocks(len(X)):
        for others in blocks(some.stop):
            distances = squared_distances(X[some], X[others])
            if others == some:
                distances.fill_diagonal_(0.0)  # rounding must not take a far point for two
            apart = distances[distances > least**2]
            if len(apart):
                smallest = min(smallest, float(apart.min()))
    return smallest**0.5 if smallest < torch.inf else None
