"""Cluster-Margin: the smallest margins, spread over the clusters of a hierarchical clustering, small clusters first."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.strategies.clusters import Space, check_space, k_means, table_of, turn_numbers
from understudy.strategies.points import Points
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, steady_utilities, top
from understudy.strategies.uncertainty import margin
from understudy.strategies.view import Picks, PoolView

CELL_ITERATIONS = 10  # of the k-means that partitions a large pool


@dataclass(frozen=True)
class ClusterMargin:
    """Random picks from the `per_pick * n` smallest margins, round-robin over the clusters, smallest first.

    The pool is clustered when it is first seen; the clusters are kept until the features change.
    """

    on: Space = "features"
    per_pick: float = 10.0
    average_size: float = 10.0
    distance: float | None = None
    cell_rows: int = 2_000
    normalise: bool = True
    _known: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_space(self.on)
        for name in ("per_pick", "average_size"):
            check_number(name, getattr(self, name), least=1)
        if self.distance is not None:
            check_number("distance", self.distance, least=0)
        check_whole_number("cell_rows", self.cell_rows, 2)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({self.on, "probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        doubts = margin(view.probs[rows])
        kept = top(rows, doubts, min(len(rows), max(n, round(self.per_pick * n)))).rows
        clusters = self.clusters(table_of(view, self.on)).cpu().numpy()[kept]
        chosen = kept[round_robin(clusters, rng.permutation(len(kept)), n)]
        scores = margin(view.probs[view.labels.new_tensor(chosen)])
        return picks(torch.from_numpy(chosen), scores, steady_utilities(rows, doubts, n))

    def clusters(self, features: Float[Tensor, "n d"]) -> Int[Tensor, "n"]:
        """The cluster of each row, computed once for these features.

        They depend on the features alone, not on the caller's generator: what an object has seen before must
        not change its picks.
        """
        name = fingerprint(features)
        if name not in self._known:
            made = average_linkage(
                Points(features, unit=self.normalise),
                self.cell_rows,
                self.average_size if self.distance is None else None,
                self.distance or 0.0,
                np.random.default_rng(0),
            )
            self._known.clear()
            self._known[name] = made
        return self._known[name]


def round_robin(clusters: Int[np.ndarray, "m"], order: Int[np.ndarray, "m"], n: int) -> Int[np.ndarray, "n"]:
    """Positions of n picks: one from each cluster in turn, smallest cluster first, until all are used up.

    `order` ranks the members within a cluster; clusters of equal size go by their number.
    """
    _, cluster, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    mine = cluster[order]
    return order[np.lexsort((mine, sizes[mine], turn_numbers(mine)))[:n]]


def average_linkage(
    points: Points, cell_rows: int, average_size: float | None, distance: float, rng: np.random.Generator
) -> Int[Tensor, "m"]:
    """Agglomerative clustering with average linkage, cut at one height for all.

    The height is the smallest at which clusters have `average_size` points on average, or `distance` if that is None.
    Exact for up to `cell_rows` points. More are partitioned by k-means into cells that are clustered one by one:
    clusters are far smaller than a cell, and all pairwise distances would not fit. O(m · cell_rows · d).
    """
    cells = list(divide_into_cells(points, cell_rows, rng))
    trees = [_tree(points, cell) for cell in cells]
    if average_size is not None:
        heights = np.sort(np.concatenate([tree[:, 2] for tree in trees]))
        merges = min(len(heights), len(points) - int(len(points) / average_size))
        distance = float(heights[merges - 1]) if merges else -1.0
    assignment = torch.empty(len(points), dtype=torch.int64)
    found = 0
    for cell, tree in zip(cells, trees, strict=True):
        flat = fcluster(tree, distance, "distance") if len(tree) else np.ones(1, dtype=np.int64)
        assignment[cell.cpu()] = torch.from_numpy(flat.astype(np.int64)) - 1 + found
        found += int(flat.max())
    return assignment


def divide_into_cells(points: Points, limit: int, rng: np.random.Generator) -> list[Int[Tensor, "_"]]:
    """The positions of all points in cells of at most `limit` nearby points."""
    cells, large = [], [torch.arange(len(points), device=points.device)]
    while large:
        places = large.pop()
        if len(places) <= limit:
            cells.append(places)
            continue
        rows = places if points.rows is None else points.rows[places]
        k = -(-2 * len(places) // limit)
        near = k_means(Points(points.table, rows, points.unit), k, rng, max_iterations=CELL_ITERATIONS)
        parts = [places[near.assignment == c] for c in near.sizes.nonzero()[:, 0]]
        # Duplicates cannot be separated: split them in order.
        large += parts if len(parts) > 1 else list(torch.split(places, limit))
    return cells


def _tree(points: Points, cell: Int[Tensor, "m"]) -> Float[np.ndarray, "t 4"]:
    """SciPy's linkage matrix of m - 1 merges."""
    if len(cell) == 1:
        return np.empty((0, 4))
    members = points.take(cell).double()
    members = members - members.mean(0)
    distances = torch.cdist(members, members).cpu().numpy()
    return np.asarray(linkage(squareform(distances, checks=False), "average"))


def fingerprint(features: Float[Tensor, "n d"]) -> str:
    """A hash of these values, the same for a copy of them; one pass over the features."""
    direction = torch.from_numpy(np.random.default_rng(0).standard_normal(features.shape[1])).to(features)
    shadow = (features @ direction).cpu().numpy()  # (n,)
    return hashlib.blake2b(f"{tuple(features.shape)}".encode() + shadow.tobytes(), digest_size=16).hexdigest()
