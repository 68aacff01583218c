"""Rows of a table as points: read in blocks, unchanged, unit-norm or centred; and distances between them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.core.blocks import block_slices, rows_that_fit
from understudy.core.kernels import squared_distances

ROWS_PER_BLOCK: Final = 1024
BYTES_PER_BLOCK: Final = {"cpu": 2**21, "cuda": 2**28}
LEAST_LENGTH: Final = 1e-12  # a shorter point is not normalised
# Distances below this share of the rows' norm are rounding: such rows are duplicates.
DUPLICATE: Final = 1e-6


def unit_length(points: Float[Tensor, "*m d"]) -> Float[Tensor, "*m d"]:
    """Each point divided by its norm; zeros stay zeros."""
    return points / points.norm(dim=-1, keepdim=True).clamp_min(LEAST_LENGTH)


@dataclass(frozen=True, eq=False)
class Points:
    """m rows of a table (default: all), unchanged or unit-norm. At most a block is ever copied.

    Blocks may be views of the table: do not write to them.
    """

    table: Float[Tensor, "n d"]
    rows: Int[Tensor, "m"] | None = None
    unit: bool = False
    bytes_per_block: int | None = None  # None: what suits the device

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    @property
    def device(self) -> torch.device:
        return self.table.device

    def take(self, places: Int[Tensor, "b"]) -> Float[Tensor, "b d"]:
        """The points at these positions, 0 to m - 1."""
        return self._prepare(self.table[places if self.rows is None else self.rows[places]])

    def blocks(self) -> Iterator[tuple[int, Float[Tensor, "b d"]]]:
        """All points in order, as (first position, block) pairs."""
        budget = self.bytes_per_block or BYTES_PER_BLOCK[self.device.type]
        size = rows_that_fit(budget, self.table.shape[1] * self.table.element_size())
        for some in block_slices(len(self), size):
            yield some.start, self._prepare(self.table[some] if self.rows is None else self.table[self.rows[some]])

    def _prepare(self, block: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        return unit_length(block) if self.unit else block


def as_points(features: Float[Tensor, "n d"], normalise: bool) -> Float[Tensor, "n d"]:
    """The rows normalised to unit length, or centred, which keeps distances precise."""
    if normalise:
        return unit_length(features)
    return features - features.mean(0)


def squared_lengths(points: Float[Tensor, "n d"], dtype: torch.dtype | None = None) -> Float[Tensor, "n"]:
    """|x|² of every point, in their dtype or another, without copying all."""
    lengths = torch.empty(len(points), dtype=dtype or points.dtype, device=points.device)
    for part in block_slices(len(points), ROWS_PER_BLOCK):
        lengths[part] = points[part].to(lengths.dtype).square().sum(1)
    return lengths


def exact_distances(X: Float[Tensor, "*p a d"], Y: Float[Tensor, "*p b d"]) -> Float[Tensor, "*p a b"]:
    """Distances by subtraction in float64: a pair gives the same number in any block."""
    return torch.cdist(X.double(), Y.double(), compute_mode="donot_use_mm_for_euclid_dist")


def smallest_gap(points: Float[Tensor, "k d"]) -> float | None:
    """The smallest distance between two points that are not duplicates; None if there are no two such points."""
    X = points.double()
    least = DUPLICATE * float(X.norm(dim=1).mean())
    smallest = torch.inf
    for some in block_slices(len(X), ROWS_PER_BLOCK):
        for others in block_slices(some.stop, ROWS_PER_BLOCK):
            distances = squared_distances(X[some], X[others])
            if others == some:
                distances.fill_diagonal_(0.0)  # a point has distance 0 to itself, whatever the rounding
            apart = distances[distances > least**2]
            if len(apart):
                smallest = min(smallest, float(apart.min()))
    return smallest**0.5 if smallest < torch.inf else None
