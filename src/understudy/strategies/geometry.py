"""Rows as points: of unit length or about their mean, what is near them, and the smallest gap. In blocks."""

from collections.abc import Iterator
from typing import Final

import torch
from jaxtyping import Bool, Float
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


def squared_lengths(points: Float[Tensor, "n d"]) -> Float[Tensor, "n"]:
    """|x|² of every point, without a copy of all."""
    lengths = torch.empty_like(points[:, 0])
    for part in blocks(len(points)):
        lengths[part] = points[part].square().sum(1)
    return lengths


def is_within(points: Float[Tensor, "n d"], centres: Float[Tensor, "k d"], radius: float) -> Bool[Tensor, "n"]:
    """Which points are nearer than the radius to any of the centres."""
    near = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    for some in blocks(len(centres)):
        for part in blocks(len(points)):
            near[part] |= (squared_distances(points[part], centres[some]) < radius**2).any(1)
    return near


def smallest_gap(points: Float[Tensor, "k d"]) -> float | None:
    """The smallest distance between two points that are not duplicates; None where there are no two such."""
    X = points.double()
    least = DUPLICATE * float(X.norm(dim=1).mean())
    smallest = torch.inf
    for some in blocks(len(X)):
        for others in blocks(some.stop):
            distances = squared_distances(X[some], X[others])
            apart = distances[distances > least**2]
            if len(apart):
                smallest = min(smallest, float(apart.min()))
    return smallest**0.5 if smallest < torch.inf else None
