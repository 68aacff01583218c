"""A map of a pool: two coordinates for each row, such that neighbours lie together.

Rows begin where their first two principal axes put them. Then edges between neighbours pull, and random other rows
push, as in Tang et al., "Visualizing large-scale and high-dimensional data" (2016), and McInnes et al., "UMAP" (2018):
with q = 1/(1 + A s^B), s = |y_i - y_j|², as the probability that rows i and j are neighbours, the layout descends

    - Σ_edges w_ij ln q_ij - Σ_pushes ln(1 - q_ij)

A and B are such that q falls with the distance about as exp(-|y_i - y_j|) does. In every epoch an edge takes part with
its weight as the probability, and `PUSHES` random rows push one of its ends. All rows move at once. The same seed gives
the same map.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.core.blocks import block_slices
from understudy.core.features import Features
from understudy.core.neighbour_graph import (
    Edges,
    make_edges,
    membership,
    nearest_neighbours,
    principal_axes,
)

NEIGHBOURS = 15
AXES = 50  # along which neighbours are looked for
EPOCHS = 200
A, B = 1.93, 0.79
PUSHES = 10  # random rows for each end of an edge
STEP = 0.3  # of the first epoch; it falls to 0
LARGEST_MOVE = 4.0  # along an axis, by one pull or push
SMALLEST = 1e-12  # square of a distance
SOFTENING = 1e-3  # so that two rows in one place do not push each other to infinity
START_SPREAD = 3.0  # standard deviation of the wider axis at the start
ROWS_PER_PLACING = 512
PLACED_BY = 5  # neighbours that say where a new row belongs

ReportEpoch = Callable[[int, int], None]


def first_axes(features: Features, seed: int) -> Float[Tensor, "n 2"]:
    """The first two principal axes of all rows: quick, and true to what is far apart; 0 where there is but one."""
    found = principal_axes(features, 2, seed).project(features)
    return torch.nn.functional.pad(found, (0, 2 - found.shape[1]))


def neighbour_map(
    features: Features, seed: int, *, start: Float[Tensor, "n 2"] | None = None, report: ReportEpoch | None = None
) -> Float[Tensor, "n 2"]:
    """Two coordinates by which neighbours lie together. `start`: where rows begin, instead of by their axes."""
    X = principal_axes(features, AXES, seed).project(features)
    begin = torch.nn.functional.pad(X[:, :2], (0, max(0, 2 - X.shape[1]))) if start is None else start
    k = min(NEIGHBOURS, len(X) - 1)
    if k < 2:
        return begin.clone()
    rows, distances = nearest_neighbours(X, k, seed)
    return lay_out(make_edges(rows, membership(distances)), _spread(begin), seed, report=report)


def _spread(Y: Float[Tensor, "n 2"]) -> Float[Tensor, "n 2"]:
    """Centred, and as wide as a layout begins."""
    centred = Y - Y.mean(0)
    width = float(centred.std(0, correction=0).max())
    return centred * (START_SPREAD / width if width > 0 else 1.0)


def pull(gap: Float[Tensor, "e 2"]) -> Float[Tensor, "e 2"]:
    """How the first row of an edge moves, `gap` being its place less the other's: minus the gradient of -ln q."""
    squares = gap.square().sum(1, keepdim=True).clamp_min_(SMALLEST)
    return -2.0 * A * B * squares.pow(B - 1.0) / (1.0 + A * squares.pow(B)) * gap


def push(gap: Float[Tensor, "e 2"]) -> Float[Tensor, "e 2"]:
    """How a row moves that another pushes: minus the gradient of -ln(1 - q), softened where both are in one place."""
    squares = gap.square().sum(1, keepdim=True)
    return 2.0 * B / ((SOFTENING + squares) * (1.0 + A * squares.pow(B))) * gap


def lay_out(
    edges: Edges, start: Float[Tensor, "n 2"], seed: int, *, epochs: int = EPOCHS, report: ReportEpoch | None = None
) -> Float[Tensor, "n 2"]:
    """Where rows come to lie when edges pull and random rows push."""
    random = torch.Generator().manual_seed(seed)
    Y = start.clone()
    share = edges.weight / edges.weight.max()
    for epoch in range(epochs):
        chosen = torch.rand(len(share), generator=random) < share
        one, other = edges.first[chosen], edges.second[chosen]
        move = torch.zeros_like(Y)
        pulled = pull(Y[one] - Y[other])
        move.index_add_(0, one, pulled).index_add_(0, other, -pulled)
        is_turned = torch.rand(len(one), generator=random) < 0.5  # each time one end is pushed, on average both
        ends = torch.where(is_turned, other, one)
        for _ in range(PUSHES):
            strangers = torch.randint(len(Y), (len(ends),), generator=random)
            pushed = push(Y[ends] - Y[strangers])
            move.index_add_(0, ends, pushed.clamp_(-LARGEST_MOVE, LARGEST_MOVE))
        Y += STEP * (1.0 - epoch / epochs) * move
        if report is not None:
            report(epoch + 1, epochs)
    return Y


def place_rows(features: Features, placed: Float[Tensor, "m 2"], seed: int) -> Float[Tensor, "n 2"]:
    """Coordinates for all rows where the first m have some: each later one lies among its neighbours of these."""
    m, n = len(placed), len(features)
    if m == n:
        return placed
    X = principal_axes(features, AXES, seed).project(features)
    known = X[:m]
    squares, k = known.square().sum(1), min(PLACED_BY, m)
    found = []
    for some in block_slices(n - m, ROWS_PER_PLACING):
        Q = X[m:][some]
        gaps, rows = torch.addmm(squares, Q, known.T, alpha=-2.0).topk(k, largest=False)
        distances = (gaps + Q.square().sum(1)[:, None]).clamp_min_(0.0).sqrt_()
        weights = 1.0 / (distances + 1e-6 * (1.0 + distances.mean()))
        found.append((placed[rows] * (weights / weights.sum(1, keepdim=True))[..., None]).sum(1))
    return torch.cat([placed, *found])


def to_unit_square(Y: Float[Tensor, "n 2"]) -> Float[np.ndarray, "n 2"]:
    """Scaled into [0, 1]², both axes alike and the map in the middle."""
    points = Y.double().numpy()
    low, high = points.min(0), points.max(0)
    width = float((high - low).max())
    return np.clip((points - (low + high) / 2) / (width if width > 0 else 1.0) + 0.5, 0.0, 1.0).astype(np.float32)
