"""K-means and k-medoids: as many clusters as picks, and the most central row of each."""

from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from understudy.checks import check_choice, check_whole_number
from understudy.errors import UnderstudyError
from understudy.strategies.clusters import (
    Space,
    check_space,
    k_means,
    k_medoids,
    nearest_centres,
    nearest_members,
    refill,
    table_of,
)
from understudy.strategies.points import Points
from understudy.strategies.portions import select_in_portions
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, steady_utilities, top
from understudy.strategies.uncertainty import SCORES, Score
from understudy.strategies.view import Picks, PoolView, Supply

Centres = Literal["means", "medoids"]
# K-medoids stores the distances of twice as many rows; more picks are made in portions.
MEDOIDS_PER_PORTION: Final = 1_000


@dataclass(frozen=True)
class KMeans:
    """One row from each of n clusters of the open rows; one more cluster per pending row yields no pick.

    It is the row nearest to the mean, or the medoid (least total distance to the others). `prefilter` keeps that many
    of the most uncertain rows per pick, `weighted` weights rows by their uncertainty.
    """

    on: Space = "hidden"
    prefilter: int | None = None
    weighted: bool = False
    uncertainty: Score = "margin"
    centres: Centres = "means"

    def __post_init__(self) -> None:
        check_space(self.on)
        if self.prefilter is not None:
            check_whole_number("prefilter", self.prefilter, 1)
        check_choice("uncertainty", self.uncertainty, tuple(SCORES))
        check_choice("centres", self.centres, get_args(Centres))
        if self.weighted and self.centres == "medoids":
            raise UnderstudyError("weighted=True works with means only; use centres='means' or weighted=False")

    @property
    def needs(self) -> Needs:
        doubts: set[Supply] = {"probs"} if self.weighted or self.prefilter is not None else set()
        return Needs(frozenset({self.on} | doubts))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        choose = partial(self._select, pending=view.pending)  # without the picks of earlier portions
        if self.centres == "medoids":
            return select_in_portions(choose, view, n, MEDOIDS_PER_PORTION, rng)
        return choose(view, n, rng)

    def _select(self, view: PoolView, n: int, rng: np.random.Generator, pending: Int[Tensor, "p"]) -> Picks:
        rows = torch.sort(torch.cat([view.candidates(n), pending])).values
        k = n + len(pending)
        if self.prefilter is not None:
            doubts = SCORES[self.uncertainty](view.probs[rows])
            kept = top(rows, doubts, min(len(rows), self.prefilter * k)).rows
            rows = torch.unique(torch.cat([rows.new_tensor(kept), pending]))
        weights = SCORES[self.uncertainty](view.probs[rows]) if self.weighted else None
        points, is_held = Points(table_of(view, self.on), rows), torch.isin(rows, pending)
        if self.centres == "medoids":
            return _medoid_picks(points, rows, n, rng, is_held)
        clusters = k_means(points, k, rng, weights=weights)
        chosen = nearest_members(points, clusters, n, is_held)
        distances = -clusters.distances.sqrt()
        return picks(rows[chosen], distances[chosen], steady_utilities(rows[~is_held], distances[~is_held], n))


def _medoid_picks(
    points: Points, rows: Int[Tensor, "m"], n: int, rng: np.random.Generator, is_held: Bool[Tensor, "m"]
) -> Picks:
    """Medoids of clusters without a held row, large ones first, scored by minus the mean distance of their members.

    There are as many clusters as picks and held rows together.
    """
    k = n + int(is_held.sum())
    medoids = k_medoids(points, k, rng)
    nearest, squares = nearest_centres(points, points.take(medoids))
    sizes = torch.bincount(nearest, minlength=k)
    totals = torch.bincount(nearest, squares.double().sqrt(), minlength=k)
    is_free = (torch.bincount(nearest[is_held], minlength=k) == 0) & ~is_held[medoids]
    order = torch.sort(sizes, descending=True, stable=True).indices
    order = order[is_free[order]][:n]
    # Where rows coincide, too few clusters may be free. The rest are filled up with single rows.
    chosen = refill(points, medoids[order], n, is_held)
    scores = torch.zeros(n, dtype=totals.dtype, device=totals.device)
    scores[: len(order)] = -(totals / sizes.clamp_min(1))[order]
    return picks(rows[chosen], scores)
