"""K-means: as many clusters as picks, and the row nearest to each centre."""

from dataclasses import dataclass

import numpy as np

from understudy.errors import UnderstudyError
from understudy.strategies.clusters import Points, Space, check_space, k_means, nearest_members, table_of
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, top
from understudy.strategies.uncertainty import SCORES, Score
from understudy.strategies.view import Picks, PoolView, Supply


@dataclass(frozen=True)
class KMeans:
    """One row from each of n clusters of the open rows.

    `prefilter` keeps that many of the most uncertain rows for each pick, `weighted` lets rows count by their doubt.
    """

    on: Space = "hidden"
    prefilter: int | None = None
    weighted: bool = False
    uncertainty: Score = "margin"

    def __post_init__(self) -> None:
        check_space(self.on)
        if self.prefilter is not None and self.prefilter < 1:
            raise UnderstudyError(f"prefilter must be 1 or more rows a pick, or None for all; got {self.prefilter}")
        if self.uncertainty not in SCORES:
            raise UnderstudyError(f"uncertainty must be one of {', '.join(SCORES)}; got {self.uncertainty!r}")

    @property
    def needs(self) -> Needs:
        doubts: set[Supply] = {"probs"} if self.weighted or self.prefilter is not None else set()
        return Needs(frozenset({self.on} | doubts))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        if self.prefilter is not None:
            doubts = SCORES[self.uncertainty](view.probs[rows])
            kept = np.sort(top(rows, doubts, min(len(rows), self.prefilter * n)).rows)
            rows = rows.new_tensor(kept)
        weights = SCORES[self.uncertainty](view.probs[rows]) if self.weighted else None
        points = Points(table_of(view, self.on), rows)
        clusters = k_means(points, n, rng, weights=weights)
        chosen = nearest_members(points, clusters, n)
        return picks(rows[chosen], -clusters.distances[chosen].sqrt())
