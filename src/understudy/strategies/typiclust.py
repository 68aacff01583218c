"""TypiClust: the most typical row of each cluster that has no label yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.checks import check_whole_number
from understudy.core.blocks import block_slices
from understudy.core.kernels import squared_distances
from understudy.errors import UnderstudyError
from understudy.strategies.clusters import BATCH_SIZE, k_means
from understudy.strategies.points import Points
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import utilities
from understudy.strategies.view import Picks, PoolView, Utilities

LLOYD_UP_TO: Final = 50  # clusters; mini-batches above
# More are refused: they take a processor an hour.
MOST_DISTANCES: Final = {"cpu": 2**38, "cuda": 2**44}
EPSILON: Final = 1e-5  # added to a mean distance before it divides
ROWS_PER_BLOCK: Final = {"cpu": 1024, "cuda": 8192}  # and columns of distances in memory at a time


@dataclass(frozen=True)
class TypiClust:
    """Clusters with the fewest labels first, and from each in turn the row whose neighbours are nearest."""

    max_clusters: int = 500
    min_cluster_size: int = 6
    neighbours: int = 20
    squared: bool = True
    normalise: bool = True
    max_distances: int | None = None  # None: what suits the device

    def __post_init__(self) -> None:
        for name in ("max_clusters", "min_cluster_size", "neighbours"):
            check_whole_number(name, getattr(self, name), 1)
        if self.max_distances is not None:
            check_whole_number("max_distances", self.max_distances, 1)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        view.candidates(n)  # raises if there are too few
        points = Points(view.features, unit=self.normalise)
        is_taken = view.is_taken
        k = min(int(is_taken.sum()) + n, self.max_clusters)
        clusters = k_means(points, k, rng, lloyd_up_to=LLOYD_UP_TO, batch_size=BATCH_SIZE)
        order = cluster_order(clusters.sizes, torch.bincount(clusters.assignment[is_taken], minlength=len(clusters)))
        is_large = clusters.sizes[order] >= self.min_cluster_size

        members = _by_cluster(clusters.assignment, len(clusters), ~is_taken)
        is_open = view.is_open
        in_turn = torch.cat([order[is_large], order[~is_large]]).tolist()
        self._check_distances([len(members[c]) for c in in_turn if bool(is_open[members[c]].any())][:n], view.device)
        rows: list[int] = []
        scores: list[float] = []
        # Small clusters are used only when all others are exhausted.
        for turns in (order[is_large], order[~is_large]):
            left = [int(c) for c in turns if bool(is_open[members[c]].any())]
            while left and len(rows) < n:
                for c in left[: n - len(rows)]:
                    found = typicality(points.take(members[c]), self.neighbours, self.squared)
                    found[~is_open[members[c]]] = -torch.inf  # skipped rows are neighbours, but are not chosen
                    best = int(found.argmax())
                    rows.append(int(members[c][best]))
                    scores.append(float(found[best]))
                    members[c] = torch.cat([members[c][:best], members[c][best + 1 :]])
                left = [c for c in left if bool(is_open[members[c]].any())]
        return Picks(
            np.array(rows, dtype=np.int64),
            np.array(scores),
            lambda: self._all_typicalities(view, points, clusters.assignment, rows),
        )

    def _check_distances(self, sizes: Sequence[int], device: torch.device) -> None:
        """Raise if the first look at these clusters, at all pairs within each, would take hours."""
        needed, most = sum(size**2 for size in sizes), self.max_distances or MOST_DISTANCES[device.type]
        if needed > most:
            raise UnderstudyError(
                f"typiclust compares all rows of a cluster with each other, up to {max(sizes):,} of them, which takes "
                f"{needed:,} distances, hours and more than {most:,}; ask for more rows at a time, as there are as "
                f"many clusters as labels and picks, or pass max_distances={needed} to have them"
            )

    def _all_typicalities(
        self, view: PoolView, points: Points, assignment: Int[Tensor, "n"], picked: Sequence[int]
    ) -> Utilities:
        """The typicality of every row within its cluster, before each of the picked rows leaves it."""
        values = torch.zeros(len(view), dtype=torch.float64, device=view.device)
        members = _by_cluster(assignment, int(assignment.max()) + 1, ~view.is_taken)
        for rows in members:
            if len(rows):
                values[rows] = typicality(points.take(rows), self.neighbours, self.squared)
        lines = []
        for row in picked:
            lines.append(values.clone())
            c = int(assignment[row])
            members[c] = members[c][members[c] != row]
            if len(members[c]):
                values[members[c]] = typicality(points.take(members[c]), self.neighbours, self.squared)
        open_rows = view.candidates(len(picked))
        return utilities(open_rows, torch.stack(lines)[:, open_rows])


def cluster_order(sizes: Int[Tensor, "k"], labelled: Int[Tensor, "k"]) -> Int[Tensor, "k"]:
    """Clusters with few labels first, the larger ones first among ties."""
    by_size = torch.sort(sizes, descending=True, stable=True).indices
    return by_size[torch.sort(labelled[by_size], stable=True).indices]


def typicality(
    points: Float[Tensor, "m d"], neighbours: int, squared: bool, rows_per_block: int | None = None
) -> Float[Tensor, "m"]:
    """1 / (mean distance to the nearest others + 1e-5), with at most half as many neighbours as there are points.

    A single point has no neighbours and typicality 0. O(m²d), in blocks, in float64 on centred points: the square
    root of the rounding error between duplicates would be as large as EPSILON in float32.
    """
    m, size = len(points), rows_per_block or ROWS_PER_BLOCK[points.device.type]
    if m == 1:
        return points.new_zeros(1, dtype=torch.float64)
    k, origin = min(neighbours, m // 2), points.mean(0, dtype=torch.float64)
    means = torch.empty(m, dtype=torch.float64, device=points.device)
    for some in block_slices(m, size):
        X = points[some].double() - origin
        nearest = X.new_empty((len(X), 0))
        for others in block_slices(m, size):
            distances = squared_distances(X, points[others].double() - origin)
            if others == some:
                distances.fill_diagonal_(torch.inf)  # no point is its own neighbour
            found = torch.cat([nearest, distances], 1)
            nearest = found.topk(min(k, found.shape[1]), dim=1, largest=False, sorted=False).values
        means[some] = (nearest if squared else nearest.sqrt()).mean(1)
    return 1 / (means + EPSILON)


def _by_cluster(assignment: Int[Tensor, "n"], k: int, is_in: Bool[Tensor, "n"]) -> list[Int[Tensor, "_"]]:
    """The rows of each cluster for which `is_in` holds, ascending."""
    rows = is_in.nonzero()[:, 0]
    order = torch.sort(assignment[rows], stable=True).indices
    sizes = torch.bincount(assignment[rows], minlength=k)
    return list(torch.split(rows[order], sizes.tolist()))
