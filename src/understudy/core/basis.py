"""Basis points: U by k-means over the pool's features, V drawn from the probability simplex."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

from understudy.core.features import Features
from understudy.core.lloyd import MAX_ITERATIONS, TOLERANCE, LloydResult, mean_and_spread, run_lloyd

SEEDING_ROWS_PER_CENTRE = 20
SEEDING_ROWS_PER_READ = 512


def draw_simplex(k: int, n_classes: int, rng: np.random.Generator) -> Float[np.ndarray, "k c"]:
    """k samples from the flat Dirichlet distribution on the simplex."""
    return rng.dirichlet(np.ones(n_classes), size=k)


def centre_and_spread(features: Features, device: torch.device) -> tuple[Float[Tensor, "d"], float]:
    """The mean of the rows in float64, and the root of their mean squared distance from it (1 if that is zero).

    Float32 arithmetic is done on standardised rows, so that neither a common offset nor the scale costs precision.
    """
    return mean_and_spread(lambda: features.blocks(torch.float64, device), len(features))


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
    does not run on a GPU.
    """
    n, device = len(features), origin.device
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
    found = run_lloyd(standard, torch.from_numpy(seeds).to(device), max_iterations=max_iterations, tolerance=tolerance)
    return replace(found, centres=found.centres.double() * spread + origin, inertia=found.inertia * spread**2)
