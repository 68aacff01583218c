"""Basis points: U by k-means over the pool's features, V drawn from the probability simplex."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

from understudy.core import linalg
from understudy.core.blocks import ROWS_PER_BLOCK, block_slices, rows_that_fit
from understudy.core.features import Features
from understudy.core.lloyd import (
    MAX_ITERATIONS,
    TOLERANCE,
    LloydResult,
    farthest,
    means_of,
    repeat_steps,
    run_lloyd,
    sum_up_clusters,
)

SEEDING_ROWS_PER_CENTRE = 20
ROWS_PER_READ = 512
SMALL_POOL = 10_000  # rows; in a larger pool with many columns k-means begins at the centres of a sample
FEW_COLUMNS = 256  # up to which there is little to gain by that
ROUGH_ROWS_PER_CENTRE = 200  # of that sample
ROUGH_COLUMNS = 128  # directions along which it is clustered
DIRECTION_ROWS = 5_000  # of which these directions are found
DIRECTION_STEPS = 3  # of the subspace iteration
SAMPLED_POOL = 4_000_000  # rows; of a larger pool, k-means sees a random sample that fits into memory
SAMPLED_ROWS_PER_CENTRE = 1_000
SAMPLED_BYTES = 2**29


def draw_simplex(k: int, n_classes: int, rng: np.random.Generator) -> Float[np.ndarray, "k c"]:
    """k samples from the flat Dirichlet distribution on the simplex."""
    return rng.dirichlet(np.ones(n_classes), size=k)


def centre_and_spread(features: Features, device: torch.device) -> tuple[Float[Tensor, "d"], float]:
    """The mean of the rows in float64, and the root of their mean squared distance from it (1 if that is zero).

    Float32 arithmetic is done on standardised rows, so that neither a common offset nor the scale costs precision.
    """
    nothing, n = torch.zeros((), dtype=torch.float64, device=device), len(features)
    origin = reduce(add, [total for _, total in features.each_part(_sum_of_rows, nothing)]) / n
    spread = (sum(squares for _, squares in features.each_part(_sum_of_squares, origin)) / n) ** 0.5
    return origin, spread if spread > 0 else 1.0


def _sum_of_rows(features: Features, total: Float[Tensor, ""]) -> Float[Tensor, "d"]:
    for _, block in features.blocks(torch.float64, total.device):
        total = total + block.sum(0)
    return total


def _sum_of_squares(features: Features, origin: Float[Tensor, "d"]) -> float:
    squares = 0.0
    for _, block in features.blocks(torch.float64, origin.device):
        squares += float((block - origin).square_().sum())
    return squares


@dataclass(frozen=True)
class _StandardRows:
    """A pool's rows, centred and scaled, in float32."""

    features: Features
    origin: Float[Tensor, "d"]
    spread: float

    def __len__(self) -> int:
        return len(self.features)

    def blocks(self) -> Iterator[tuple[int, Float[Tensor, "b d"]]]:
        for first, block in self.features.blocks(torch.float64, self.origin.device):
            yield first, self._standardise(block)

    def take(self, places: Int[Tensor, "b"]) -> Float[Tensor, "b d"]:
        return self._standardise(self.features.take(places.cpu().numpy(), torch.float64, self.origin.device))

    def take_in_parts(self, rows: Int[np.ndarray, "m"]) -> Iterator[Float[Tensor, "b d"]]:
        for some in np.array_split(rows, -(-len(rows) // ROWS_PER_READ)):
            yield self.take(torch.from_numpy(some))

    def _standardise(self, block: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        return (block - self.origin).div_(self.spread).float()


def find_centres(
    features: Features,
    k: int,
    origin: Float[Tensor, "d"],
    spread: float,
    rng: np.random.Generator,
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = TOLERANCE,
    seeding_rows: int | None = None,
) -> LloydResult:
    """k-means over all rows in float32: k centres, or the rows themselves if there are at most k.

    It begins at the seeds of k-means++ on at most `seeding_rows` rows (20 per centre), or, without `seeding_rows`, in
    a large pool with many columns at the centres of a sample: see `_rough_centres`. Lloyd's iterations are our own and
    not scikit-learn's, whose KMeans copies the features (more memory than the whole engine takes at 2,048 columns) and
    does not run on a GPU. Of a pool of more than `SAMPLED_POOL` rows, k-means sees `SAMPLED_ROWS_PER_CENTRE` random
    rows per centre, or as many as fit into `SAMPLED_BYTES`; the inertia is then that of the sample.
    """
    device = origin.device
    if len(features) > SAMPLED_POOL:
        wanted = min(SAMPLED_ROWS_PER_CENTRE * k, rows_that_fit(SAMPLED_BYTES, 8 * features.n_columns))
        features = Features(features.take(np.unique(rng.integers(len(features), size=wanted)), torch.float64, device))
    n = len(features)
    k = min(k, n)
    if k == n:
        return LloydResult(features.take(np.arange(n), torch.float64, device), 0.0, 0)
    standard = _StandardRows(features, origin, spread)
    if seeding_rows is None and n > SMALL_POOL and features.n_columns > FEW_COLUMNS:
        centres = _rough_centres(standard, k, rng)
    else:
        sample = _sample(n, SEEDING_ROWS_PER_CENTRE * k if seeding_rows is None else seeding_rows, rng)
        centres = _seeds(torch.cat(list(standard.take_in_parts(sample))), k, rng)

    def step(centres: Float[Tensor, "k d"]) -> tuple[Float[Tensor, "k d"], float]:
        return _step(features, origin, spread, centres)

    found = repeat_steps(step, centres, max_iterations, tolerance)
    return replace(found, centres=found.centres.double() * spread + origin, inertia=found.inertia * spread**2)


def _sample(n: int, size: int, rng: np.random.Generator) -> Int[np.ndarray, "m"]:
    return np.sort(rng.choice(n, size=min(n, size), replace=False))


def _seeds(sample: Float[Tensor, "m d"], k: int, rng: np.random.Generator) -> Float[Tensor, "k d"]:
    """Greedy k-means++."""
    # Imported here: a restored surrogate already has its basis and need not spend a second importing scikit-learn.
    from sklearn.cluster import kmeans_plusplus

    # Thousands of small matrix products: with several threads each waits for a free core, minutes on a busy machine.
    with threadpool_limits(1):
        seeds, _ = kmeans_plusplus(sample.cpu().numpy(), k, random_state=int(rng.integers(2**31)))
    return torch.from_numpy(seeds).to(sample.device)


def _rough_centres(standard: "_StandardRows", k: int, rng: np.random.Generator) -> Float[Tensor, "k d"]:
    """The centres of a sample of the rows, clustered along the directions in which they vary most.

    Seeds and the first iterations need neither all rows nor all columns, and few iterations over everything are left
    to be made. Along the other directions the centres are those of the pool.
    """
    rows = _sample(len(standard), ROUGH_ROWS_PER_CENTRE * k, rng)
    some = torch.cat(list(standard.take_in_parts(rng.permutation(rows)[:DIRECTION_ROWS])))
    start = torch.from_numpy(rng.normal(size=(some.shape[1], ROUGH_COLUMNS)).astype(np.float32))
    directions = linalg.leading_subspace(some, start.to(some.device), DIRECTION_STEPS)
    del some
    sketch = _Table(torch.cat([part @ directions for part in standard.take_in_parts(rows)]))
    seeding = torch.from_numpy(_sample(len(rows), SEEDING_ROWS_PER_CENTRE * k, rng)).to(sketch.X.device)
    # In float64, which scikit-learn would otherwise convert to for each seed anew.
    seeds = _seeds(sketch.take(seeding).double(), k, rng).float()
    return run_lloyd(sketch, seeds).centres @ directions.T


@dataclass(frozen=True)
class _Table:
    """Points in memory, as Lloyd's algorithm reads them."""

    X: Float[Tensor, "m d"]

    def __len__(self) -> int:
        return len(self.X)

    def blocks(self) -> Iterator[tuple[int, Float[Tensor, "b d"]]]:
        for some in block_slices(len(self.X), ROWS_PER_BLOCK[self.X.device.type]):
            yield some.start, self.X[some]

    def take(self, places: Int[Tensor, "b"]) -> Float[Tensor, "b d"]:
        return self.X[places]


def _step(
    features: Features, origin: Float[Tensor, "d"], spread: float, centres: Float[Tensor, "k d"]
) -> tuple[Float[Tensor, "k d"], float]:
    """A step of Lloyd's algorithm, from the sums of each part of the features: see `lloyd.lloyd_step`."""
    sums, counts, gaps = zip(
        *(found for _, found in features.each_part(_sums_of_part, origin, spread, centres)), strict=True
    )
    count = reduce(add, counts)
    moved = means_of(reduce(add, sums), count, centres)
    empty = (count <= 0).nonzero()[:, 0]
    if len(empty):
        found = features.each_part(_farthest_of_part, origin, spread, centres, len(empty))
        rows = torch.cat([first + places for first, (places, _) in found])
        rows = rows[farthest(torch.cat([distances for _, (_, distances) in found]), len(empty))]
        moved[empty] = _StandardRows(features, origin, spread).take(rows)
    return moved, sum(gaps)


def _sums_of_part(
    features: Features, origin: Float[Tensor, "d"], spread: float, centres: Float[Tensor, "k d"]
) -> tuple[Float[Tensor, "k d"], Float[Tensor, "k"], float]:
    sums, counts, gaps = sum_up_clusters(_StandardRows(features, origin, spread), centres)
    return sums, counts, float(gaps.sum(dtype=torch.float64))


def _farthest_of_part(
    features: Features, origin: Float[Tensor, "d"], spread: float, centres: Float[Tensor, "k d"], count: int
) -> tuple[Int[Tensor, "e"], Float[Tensor, "e"]]:
    _, _, gaps = sum_up_clusters(_StandardRows(features, origin, spread), centres)
    places = farthest(gaps, count)
    return places, gaps[places]
