"""Lloyd's algorithm, shared by every k-means of the package; seeding is left to the caller.

Points are read in blocks, centred and scaled, so that neither offset nor scale costs precision where squares are
subtracted.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

MAX_ITERATIONS = 100
TOLERANCE = 1e-3


@runtime_checkable
class ScaledPoints(Protocol):
    """m points, centred and scaled."""

    def __len__(self) -> int: ...

    def blocks(self) -> Iterator[tuple[int, Float[Tensor, "b d"]]]:
        """All points in order, as (first place, block) pairs."""

    def take(self, places: Int[Tensor, "b"]) -> Float[Tensor, "b d"]:
        """The points at these places."""


@dataclass(frozen=True, eq=False)
class LloydResult:
    centres: Float[Tensor, "k d"]
    inertia: float  # of the last assignment, to the centres before they were moved
    iterations: int


def mean_and_spread(
    read_blocks: Callable[[], Iterable[tuple[int, Float[Tensor, "b d"]]]], n_points: int
) -> tuple[Float[Tensor, "d"], float]:
    """The points' mean in their own precision, and the root of their mean squared distance from it (1 if that is 0)."""
    total = torch.zeros((), dtype=torch.float64)
    for _, block in read_blocks():
        total = total.to(block.device) + block.sum(0, dtype=torch.float64)
    origin = (total / n_points).to(block.dtype)
    squares = 0.0
    for _, block in read_blocks():
        squares += float((block - origin).square_().sum(dtype=torch.float64))
    spread = (squares / n_points) ** 0.5
    return origin, spread if spread > 0 else 1.0


def run_lloyd(
    points: ScaledPoints,
    centres: Float[Tensor, "k d"],
    *,
    mass: Float[Tensor, "m"] | None = None,
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = TOLERANCE,
) -> LloydResult:
    """Assign all points and move the centres to the means, until the inertia falls by less than `tolerance` of itself.

    `mass` is the weight of each point; None: all equal. A centre that loses all its points restarts at the point
    that is farthest from its own.
    """
    return repeat_steps(lambda centres: lloyd_step(points, centres, mass), centres, max_iterations, tolerance)


def repeat_steps(
    step: Callable[[Float[Tensor, "k d"]], tuple[Float[Tensor, "k d"], float]],
    centres: Float[Tensor, "k d"],
    max_iterations: int,
    tolerance: float,
) -> LloydResult:
    """Move the centres by `step`, which also returns the inertia, until that falls by less than a share of itself."""
    inertia, iterations = float("inf"), 0
    while iterations < max_iterations:
        before, iterations = inertia, iterations + 1
        centres, inertia = step(centres)
        if before - inertia <= tolerance * inertia:
            break
    return LloydResult(centres, inertia, iterations)


def lloyd_step(
    points: ScaledPoints, centres: Float[Tensor, "k d"], mass: Float[Tensor, "m"] | None = None
) -> tuple[Float[Tensor, "k d"], float]:
    """One assignment of all points and the means of the clusters; the inertia is that of the assignment."""
    sums, counts, gaps = sum_up_clusters(points, centres, mass)
    moved = means_of(sums, counts, centres)
    restart_empty(moved, counts, gaps, points)
    return moved, float(gaps.sum(dtype=torch.float64))


def sum_up_clusters(
    points: ScaledPoints, centres: Float[Tensor, "k d"], mass: Float[Tensor, "m"] | None = None
) -> tuple[Float[Tensor, "k d"], Float[Tensor, "k"], Float[Tensor, "m"]]:
    """The sum and the mass of the points that are nearest to each centre, and every point's squared distance to its."""
    k = len(centres)
    sums, counts = torch.zeros_like(centres), centres.new_zeros(k)
    gaps = centres.new_empty(len(points))
    for first, block in points.blocks():
        places = slice(first, first + len(block))
        nearest, gaps[places] = assign_block(block, centres)
        weights = block.new_ones(len(block), 1) if mass is None else mass[places, None]
        sums += sum_by_cluster(block if mass is None else block * weights, nearest, k)
        counts += sum_by_cluster(weights, nearest, k)[:, 0]
    if mass is not None:
        gaps = gaps * mass
    return sums, counts, gaps


def means_of(
    sums: Float[Tensor, "k d"], counts: Float[Tensor, "k"], centres: Float[Tensor, "k d"]
) -> Float[Tensor, "k d"]:
    """The means of the clusters; a centre without points stays where it was."""
    return torch.where(counts[:, None] > 0, sums / divisors(counts), centres)


def assign_block(
    block: Float[Tensor, "b d"], centres: Float[Tensor, "k d"]
) -> tuple[Int[Tensor, "b"], Float[Tensor, "b"]]:
    """The nearest centre of each point and the squared distance to it, in the points' own precision.

    Ties between equally near centres are broken arbitrarily.
    """
    offsets = centres.square().sum(1)
    smallest, nearest = torch.addmm(offsets, block, centres.T, alpha=-2.0).min(1)  # (b, k)  |u|² - 2 x·u
    return nearest, smallest.add_(block.square().sum(1)).clamp_min_(0.0)


def sum_by_cluster(block: Float[Tensor, "b d"], nearest: Int[Tensor, "b"], k: int) -> Float[Tensor, "k d"]:
    """Sums of the block's rows by cluster. A matrix product, because atomic adds on a GPU run in no fixed order."""
    if block.device.type == "cpu":
        return block.new_zeros((k, block.shape[1])).index_add_(0, nearest, block)
    return torch.nn.functional.one_hot(nearest, k).to(block.dtype).T @ block


def divisors(counts: Float[Tensor, "k"]) -> Float[Tensor, "k 1"]:
    """The counts as a column to divide sums by; 1 where nothing was counted."""
    return torch.where(counts > 0, counts, 1.0)[:, None]


def restart_empty(
    centres: Float[Tensor, "k d"], counts: Float[Tensor, "k"], gaps: Float[Tensor, "m"], points: ScaledPoints
) -> Int[Tensor, "e"]:
    """Move empty centres, in place, to the points farthest from their own centre; returns which centres were moved."""
    empty = (counts <= 0).nonzero()[:, 0]
    if len(empty):
        centres[empty] = points.take(farthest(gaps, len(empty)))
    return empty


def farthest(gaps: Float[Tensor, "m"], count: int) -> Int[Tensor, "e"]:
    """The places of the largest distances, the first of equal ones first."""
    return torch.sort(gaps, descending=True, stable=True).indices[:count]
