"""K-means and k-medoids: as many clusters as picks, and the row in the middle of each."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from understudy.core.checks import one_of
from understudy.errors import UnderstudyError
from understudy.strategies.clusters import (
    Points,
    Space,
    check_space,
    k_means,
    k_medoids,
    nearest_centres,
    nearest_members,
    table_of,
)
from understudy.strategies.portions import in_portions
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, top
from understudy.strategies.uncertainty import SCORES, Score
from understudy.strategies.view import Picks, PoolView, Supply, checked_whole

Centres = Literal["means", "medoids"]
# K-medoids holds the distances of twice as many rows; more picks are made portion by portion.
MEDOIDS_AT_ONCE: Final = 1_000


@dataclass(frozen=True)
class KMeans:
    """One row from each of n clusters of the open rows.

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
            checked_whole("prefilter", self.prefilter, 1)
        one_of("uncertainty", self.uncertainty, tuple(SCORES))
        one_of("centres", self.centres, get_args(Centres))
        if self.weighted and self.centres == "medoids":
            raise UnderstudyError("weights move means, not medoids; choose weighted=False or centres='means'")

    @property
    def needs(self) -> Needs:
        doubts: set[Supply] = {"probs"} if self.weighted or self.prefilter is not None else set()
        return Needs(frozenset({self.on} | doubts))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        if self.centres == "medoids":
            return in_portions(self._select, view, n, MEDOIDS_AT_ONCE, rng)
        return self._select(view, n, rng)

    def _select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        if self.prefilter is not None:
            doubts = SCORES[self.uncertainty](view.probs[rows])
            kept = np.sort(top(rows, doubts, min(len(rows), self.prefilter * n)).rows)
            rows = rows.new_tensor(kept)
        weights = SCORES[self.uncertainty](view.probs[rows]) if self.weighted else None
        points = Points(table_of(view, self.on), rows)
        if self.centres == "medoids":
            return medoid_picks(points, rows, n, rng)
        clusters = k_means(points, n, rng, weights=weights)
        chosen = nearest_members(points, clusters, n)
        return picks(rows[chosen], -clusters.distances[chosen].sqrt())


def medoid_picks(points: Points, rows: Int[Tensor, "m"], n: int, rng: np.random.Generator) -> Picks:
    """Medoids of n clusters, large ones first, and minus the mean distance of their members."""
    medoids = k_medoids(points, n, rng)
    nearest, squares = nearest_centres(points, points.take(medoids))
    sizes = torch.bincount(nearest, minlength=n)
    totals = torch.bincount(nearest, squares.double().sqrt(), minlength=n)
    order = torch.sort(sizes, descending=True, stable=True).indices
    return picks(rows[medoids[order]], -(totals / sizes.clamp_min(1))[order])
