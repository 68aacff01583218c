"""Basis points: U by k-means over the pool's features, V drawn from the probability simplex."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

from understudy.core.features import Features

SEEDING_ROWS_PER_CENTRE = 20
SEEDING_BLOCK = 512
MAX_ITERATIONS = 100
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Clusters:
    centres: Float[Tensor, "k d"]
    inertia: float
    iterations: int


def draw_simplex(k: int, n_classes: int, rng: np.random.Generator) -> Float[np.ndarray, "k c"]:
    """k draws from the flat Dirichlet distribution on the simplex."""
    return rng.dirichlet(np.ones(n_classes), size=k)


def centre_and_spread(features: Features, device: torch.device) -> tuple[Float[Tensor, "d"], float]:
    """The mean of the rows, and the root of their mean squared distance from it (1 if that is zero).

    What is computed in float32 is computed on rows that are freed from both, so that neither a common offset nor
    the unit costs digits.
    """
    origin = torch.zeros(features.n_columns, dtype=torch.float64, device=device)
    for _, block in features.blocks(torch.float64, device):
        origin += block.sum(0)
    origin /= len(features)
    squares = 0.0
    for _, block in features.blocks(torch.float64, device):
        squares += float((block - origin).square_().sum())
    spread = (squares / len(features)) ** 0.5
    return origin, spread if spread > 0 else 1.0


def kmeans(
    features: Features,
    k: int,
    origin: Float[Tensor, "d"],
    spread: float,
    rng: np.random.Generator,
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = TOLERANCE,
    seeding_rows: int | None = None,
) -> Clusters:
    """Lloyd's algorithm over all rows in float32, until the inertia falls by less than `tolerance` of itself.

    Seeded by k-means++ on at most `seeding_rows` rows (None: 20 a centre). Written here and not
    taken from scikit-learn, whose KMeans copies the features (more memory than the whole engine
    takes at 2,048 columns) and knows no GPU. A cluster that loses all its rows restarts at the row that is
    farthest from its centre.
    """
    n, device = len(features), origin.device
    k = min(k, n)
    if k == n:
        return Clusters(features.take(np.arange(n), torch.float64, device), 0.0, 0)
    sample = seeding_rows if seeding_rows is not None else SEEDING_ROWS_PER_CENTRE * k
    rows = np.sort(rng.choice(n, size=min(n, sample), replace=False))
    sampled = np.concatenate(
        [_standard(features.take(some, torch.float64, device), origin, spread).cpu().numpy()
         for some in np.array_split(rows, -(-len(rows) // SEEDING_BLOCK))]
    )  # fmt: skip
    # Imported here: a surrogate that is restored has its basis, and need not wait a second for scikit-learn.
    from sklearn.cluster import kmeans_plusplus

    # Thousands of short products: with several threads each waits for a free core, for minutes on a busy machine.
    with threadpool_limits(1):
        seeds, _ = kmeans_plusplus(sampled, k, random_state=int(rng.integers(2**31)))
    del sampled
    centres = torch.from_numpy(seeds).to(device)
    inertias: list[float] = []
    while len(inertias) < max_iterations:
        centres, inertia = _lloyd(features, centres, origin, spread)
        inertias.append(inertia)
        if len(inertias) > 1 and inertias[-2] - inertia <= tolerance * inertia:
            break
    return Clusters(centres.double() * spread + origin, inertias[-1] * spread**2, len(inertias))


def _standard(block: Float[Tensor, "b d"], origin: Float[Tensor, "d"], spread: float) -> Float[Tensor, "b d"]:
    return (block - origin).div_(spread).float()


def _lloyd(
    features: Features, centres: Float[Tensor, "k d"], origin: Float[Tensor, "d"], spread: float
) -> tuple[Float[Tensor, "k d"], float]:
    """One assignment of all rows and the means of the clusters; the inertia is that of the assignment."""
    k, device = len(centres), centres.device
    sums = torch.zeros_like(centres)
    counts = torch.zeros(k, dtype=torch.int64, device=device)
    distances = torch.empty(len(features), device=device)
    offsets = (centres * centres).sum(1)
    for first, raw in features.blocks(torch.float64, device):
        block = _standard(raw, origin, spread)
        scores = torch.addmm(offsets, block, centres.T, alpha=-2.0)  # (b, k)  |u|² - 2 x·u
        smallest, nearest = scores.min(1)
        distances[first : first + len(block)] = smallest.add_((block * block).sum(1)).clamp_min_(0.0)
        sums += _cluster_sums(block, nearest, k)
        counts += torch.nn.functional.one_hot(nearest, k).sum(0)
    moved = sums / counts.clamp_min(1)[:, None]
    empty = (counts == 0).nonzero()[:, 0]
    if len(empty):
        farthest = distances.argsort(descending=True, stable=True)[: len(empty)].cpu().numpy()
        moved[empty] = _standard(features.take(farthest, torch.float64, device), origin, spread)
    return moved, float(distances.sum(dtype=torch.float64))


def _cluster_sums(block: Float[Tensor, "b d"], nearest: Int[Tensor, "b"], k: int) -> Float[Tensor, "k d"]:
    """Sums of the block's rows by cluster. Atomic adds on a GPU have no fixed order; a product has."""
    if block.device.type == "cpu":
        return torch.zeros((k, block.shape[1])).index_add_(0, nearest, block)
    member = torch.nn.functional.one_hot(nearest, k).to(block.dtype)
    return member.T @ block
