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

from understudy.core.blocks import rows_that_fit
from understudy.core.features import Features
from understudy.core.lloyd import (
    MAX_ITERATIONS,
    TOLERANCE,
    LloydResult,
    farthest,
    means_of,
    repeat_steps,
    sum_up_clusters,
)

SEEDING_ROWS_PER_CENTRE = 20
SEEDING_ROWS_PER_READ = 512
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

    Seeded by k-means++ on at most `seeding_rows` rows (None: 20 per centre). Lloyd's iterations are our own and not
    scikit-learn's, whose KMeans copies the features (more memory than the whole engine takes at 2,048 columns) and
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
    sample = seeding_rows if seeding_rows is not None else SEEDING_ROWS_PER_CENTRE * k
    rows = np.sort(rng.choice(n, size=min(n, sample), replace=False))
    standard = _StandardRows(features, origin, spread)
    sampled = np.concatenate(
        [standard.take(torch.from_numpy(some)).cpu().numpy()
         for some in np.array_split(rows, -(-len(rows) // SEEDING_ROWS_PER_READ))]
    )  # fmt: skip
    # Imported here: a restored surrogate already has its basis and need not spend a second importing scikit-learn.
    from sklearn.cluster import kmeans_plusplus

    # Thousands of small matrix products: with several threads each waits for a free core, minutes on a busy machine.
    with threadpool_limits(1):
        seeds, _ = kmeans_plusplus(sampled, k, random_state=int(rng.integers(2**31)))
    del sampled

    def step(centres: Float[Tensor, "k d"]) -> tuple[Float[Tensor, "k d"], float]:
        return _step(features, origin, spread, centres)

    found = repeat_steps(step, torch.from_numpy(seeds).to(device), max_iterations, tolerance)
    return replace(found, centres=found.centres.double() * spread + origin, inertia=found.inertia * spread**2)


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
