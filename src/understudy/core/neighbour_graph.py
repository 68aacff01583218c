"""Which rows of a pool lie near each other: its principal axes, nearest neighbours along them, and weighted edges.

Features are read in blocks. Among few rows neighbours are found exactly; among many they are looked for in the cells
of a k-means that lie nearest, which finds nearly all of them in a fraction of the time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.core import linalg
from understudy.core.basis import centre_and_spread
from understudy.core.blocks import block_slices
from understudy.core.features import Features
from understudy.core.lloyd import assign_block, run_lloyd

AXIS_ROWS = 10_000  # of which the principal axes are found
MORE_AXES = 8  # followed besides those that are wanted, so that these settle quickly
AXIS_STEPS = 8  # of the subspace iteration
EXACT_ROWS = 10_000  # up to which all pairs are looked at
ROWS_PER_CELL_SEED = 20  # of which cells are made
CELL_STEPS = 8  # of Lloyd's algorithm
CELLS_SEARCHED = 24  # of those nearest to a row's own
QUERIES_PER_BLOCK = 512
BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class Axes:
    """A mean, and the orthonormal directions in which rows vary most, most first."""

    origin: Float[Tensor, "d"]
    directions: Float[Tensor, "d k"]

    def project(self, features: Features) -> Float[Tensor, "n k"]:
        """The coordinates of all rows along the axes."""
        out = torch.empty((len(features), self.directions.shape[1]), dtype=torch.float32)
        for first, block in features.blocks(torch.float32, torch.device("cpu")):
            out[first : first + len(block)] = (block - self.origin) @ self.directions
        return out


@dataclass(frozen=True, eq=False)
class Edges:
    """Pairs of rows that are neighbours, each pair once, and how surely they are: 0 to 1."""

    first: Int[Tensor, "e"]
    second: Int[Tensor, "e"]
    weight: Float[Tensor, "e"]


def principal_axes(features: Features, k: int, seed: int) -> Axes:
    """The first k principal axes, by subspace iteration on a random sample of the rows.

    Each points the way in which its largest component is positive, so that a map does not come out mirrored.
    """
    cpu = torch.device("cpu")
    rng = np.random.default_rng(seed)
    origin, spread = centre_and_spread(features, cpu)
    rows = np.sort(rng.permutation(len(features))[:AXIS_ROWS])
    X = (features.take(rows, torch.float64, cpu) - origin).div_(spread).float()
    k = min(k, X.shape[1])
    start = rng.normal(size=(X.shape[1], min(k + MORE_AXES, X.shape[1]))).astype(np.float32)
    Q = linalg.leading_subspace(X, torch.from_numpy(start), AXIS_STEPS)
    along = (X @ Q).double()
    _, turned = torch.linalg.eigh(along.T @ along)
    directions = (Q.double() @ turned.flip(1)[:, :k]).float()
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    return Axes(origin.float(), directions * torch.where(largest < 0, -1.0, 1.0))


def nearest_neighbours(
    X: Float[Tensor, "n d"], k: int, seed: int, *, exact_rows: int = EXACT_ROWS, cells: int = CELLS_SEARCHED
) -> tuple[Int[Tensor, "n k"], Float[Tensor, "n k"]]:
    """The k nearest other rows of each row, nearest first, and their distances. Beyond `exact_rows` rows nearly so."""
    n = len(X)
    if not 0 < k < n:
        raise ValueError(f"k must be at least 1 and less than the number of rows, {n}; got {k}")
    rows, distances = torch.empty((n, k), dtype=torch.int64), torch.empty((n, k))
    everything = torch.arange(n)
    groups = [(everything, everything)] if n <= exact_rows else _groups(X, k, seed, cells)
    for queries, candidates in groups:
        B = X[candidates]
        squares = B.square().sum(1)
        for part in block_slices(len(queries), QUERIES_PER_BLOCK):
            some = queries[part]
            Q = X[some]
            gaps = torch.addmm(squares, Q, B.T, alpha=-2.0)  # |b|² - 2 q·b
            gaps.masked_fill_(candidates == some[:, None], torch.inf)
            found, places = gaps.topk(k, largest=False)
            rows[some] = candidates[places]
            distances[some] = (found + Q.square().sum(1)[:, None]).clamp_min_(0.0).sqrt_()
    return rows, distances


def _groups(
    X: Float[Tensor, "n d"], k: int, seed: int, searched: int
) -> Iterator[tuple[Int[Tensor, "q"], Int[Tensor, "m"]]]:
    """The rows of each cell, and those of the nearest cells: this many, or more where they hold too few rows."""
    n, rng = len(X), np.random.default_rng(seed)
    n_cells = int(n**0.5)
    sample = _Points(X[torch.from_numpy(np.sort(rng.permutation(n)[: ROWS_PER_CELL_SEED * n_cells]))])
    seeds = sample.X[torch.from_numpy(np.sort(rng.permutation(len(sample))[:n_cells]))]
    centres = run_lloyd(sample, seeds, max_iterations=CELL_STEPS).centres
    own = torch.cat([assign_block(X[some], centres)[0] for some in block_slices(n, QUERIES_PER_BLOCK)])
    sizes = torch.bincount(own, minlength=n_cells).numpy()
    ends, in_order = sizes.cumsum(), torch.argsort(own, stable=True)
    members = [in_order[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    for cell, near in enumerate(torch.cdist(centres, centres).argsort(1).numpy()):
        if sizes[cell]:
            enough = int(np.searchsorted(sizes[near].cumsum(), k + 1)) + 1
            yield members[cell], torch.cat([members[other] for other in near[: max(searched, enough)]])


@dataclass(frozen=True, eq=False)
class _Points:
    """Points as Lloyd's algorithm reads them; they are small enough to be one block after another."""

    X: Float[Tensor, "m d"]

    def __len__(self) -> int:
        return len(self.X)

    def blocks(self) -> Iterator[tuple[int, Float[Tensor, "b d"]]]:
        for some in block_slices(len(self.X), QUERIES_PER_BLOCK):
            yield some.start, self.X[some]

    def take(self, places: Int[Tensor, "b"]) -> Float[Tensor, "b d"]:
        return self.X[places]


def membership(distances: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """How surely each neighbour is one: exp(-(distance - nearest)/width), the width such that a row's sum is log2 k.

    So the nearest counts fully, and rows in sparse regions have as many neighbours as those in dense ones.
    """
    beyond = distances - distances[:, :1]
    target = max(1.0, float(np.log2(distances.shape[1])))
    low, high = torch.zeros(len(beyond), 1), torch.full((len(beyond), 1), torch.inf)
    width = beyond.mean(1, keepdim=True).clamp_min_(1e-12)
    for _ in range(BISECTIONS):
        is_wide = torch.exp(-beyond / width).sum(1, keepdim=True) > target
        high, low = torch.where(is_wide, width, high), torch.where(is_wide, low, width)
        width = torch.where(high.isinf(), 2 * width, (low + high) / 2).clamp_min_(1e-12)
    return torch.exp(-beyond / width)


def make_edges(rows: Int[Tensor, "n k"], weights: Float[Tensor, "n k"]) -> Edges:
    """Each pair once: where both rows name the other, with weights a and b, it is a + b - ab."""
    n, k = rows.shape
    here = torch.arange(n).repeat_interleave(k)
    there, weight = rows.reshape(-1), weights.reshape(-1)
    pair = torch.minimum(here, there) * n + torch.maximum(here, there)
    pairs, place = torch.unique(pair, return_inverse=True)
    doubt = torch.ones(len(pairs)).scatter_reduce_(0, place, 1.0 - weight, "prod")
    return Edges(pairs // n, pairs % n, 1.0 - doubt)
