"""K-means and k-medoids: as many clusters as picks, and the row in the middle of each."""

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
    refilled,
    table_of,
)
from understudy.strategies.points import Points
from understudy.strategies.portions import in_portions
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, top
from understudy.strategies.uncertainty import SCORES, Score
from understudy.strategies.view import Picks, PoolView, Supply

Centres = Literal["means", "medoids"]
# K-medoids holds the distances of twice as many rows; more picks are made portion by portion.
MEDOIDS_PER_PORTION: Final = 1_000


@dataclass(frozen=True)
class KMeans:
    """One row from each of n clusters of the open rows; pending ones are in a cluster each that gives none.

    The one nearest to the mean; or the medoid, of the least total distance to the others. `prefilter` keeps that many
    of the most uncertain rows for each pick, `weighted` lets rows count by their doubt.
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
            raise UnderstudyError("weights move means, not medoids; choose weighted=False or centres='means'")

    @property
    def needs(self) -> Needs:
        doubts: set[Supply] = {"probs"} if self.weighted or self.prefilter is not None else set()
        return Needs(frozenset({self.on} | doubts))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        choose = partial(self._select, pending=view.pending)  # not what an earlier portion chose
        if self.centres == "medoids":
            return in_portions(choose, view, n, MEDOIDS_PER_PORTION, rng)
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
        return picks(rows[chosen], -clusters.distances[chosen].sqrt())


def _medoid_picks(
    points: Points, rows: Int[Tensor, "m"], n: int, rng: np.random.Generator, is_held: Bool[Tensor, "m"]
) -> Picks:
    """Medoids of clusters without a row that is held, large ones first, and minus the mean distance of their members.

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
    # Where rows coincide, fewer clusters than picks may be free. What fills up is a medoid of nothing but itself.
    chosen = refilled(points, medoids[order], n, is_held)
    scores = torch.zeros(n, dtype=totals.dtype, device=totals.device)
    scores[: len(order)] = -(totals / sizes.clamp_min(1))[order]
    return picks(rows[chosen], scores)
