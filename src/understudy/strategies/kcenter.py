"""K-center greedy: repeatedly the row farthest from all taken rows. Names: coreset, farthest_first."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_choice
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.view import Picks, PoolView, Utilities

Metric = Literal["euclidean", "cosine"]
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)
Start = Literal["taken", "random"]


@dataclass(frozen=True)
class SearchSizes:
    """Block sizes of the search. The picks do not depend on them."""

    rows: int = 2048  # a few megabytes of float64 for any pool
    centres: int = 256
    # Centres that every candidate is compared with before the first pick: enough to tell far from near.
    first_centres: int = 64
    # Leaders that are re-measured at first. Doubled until the best of them is known to be the best of all.
    leaders: int = 8


USUAL_SIZES: Final = SearchSizes()


def kcenter_greedy(
    points: Float[Tensor, "g d"],
    centres: Int[Tensor, "l"],
    candidates: Int[Tensor, "m"],
    n: int,
    rng: np.random.Generator,
    metric: Metric = "euclidean",
    start: Start = "taken",
    sizes: SearchSizes = USUAL_SIZES,
) -> tuple[Int[Tensor, "q"], Float[Tensor, "q"]]:
    """n of the candidates, farthest first, and how far each was from its nearest centre when it was chosen.

    Centres and candidates are rows of `points`. Ties go to the first candidate. Without centres the first
    pick is random, and its distance that of the farthest candidate from it; with `start="random"` it always is.
    The cosine distance is 1 - cos; a row of zeros is at distance 1/2 from all but other zeros.

    The picks equal those of updating every distance after every pick, but most updates are skipped: a distance to the
    nearest centre only shrinks, so an old one is an upper bound, and only rows whose bound leads are compared
    with the centres they missed. At worst O((l + n) m d) time; O(m) memory besides the points.
    """
    bounds = DistanceBounds(points, centres, candidates, n, metric, sizes)
    distances = torch.zeros(n, dtype=torch.float64)
    drawn = start == "random" or not len(centres)
    if drawn:
        first = int(rng.integers(len(candidates)))
        bounds.measure(candidates.new_tensor([first]))
        distances[0] = bounds.bound[first]
        bounds.choose(first)
    for pick in range(int(drawn), n):
        leader = bounds.leader()
        distances[pick] = bounds.bound[leader]
        bounds.choose(leader)
    if not len(centres):
        distances[0] = distances[1] if n > 1 else bounds.bound[bounds.leader()].clamp(min=0)
    lengths = distances / 2 if metric == "cosine" else distances.sqrt()
    return bounds.centres[len(centres) :], lengths.to(points.device)


def nearest_distances(
    points: Float[Tensor, "g d"], centres: Int[Tensor, "l"], rows: Int[Tensor, "m"]
) -> Float[Tensor, "m"]:
    """Euclidean distance of every row to its nearest centre; infinite without centres."""
    bounds = DistanceBounds(points, centres, rows, 0, "euclidean")
    bounds.measure(torch.arange(len(rows), device=rows.device))
    return bounds.bound.sqrt()


def kcenter_utilities(
    points: Float[Tensor, "g d"],
    centres: Int[Tensor, "l"],
    candidates: Int[Tensor, "m"],
    chosen: Int[Tensor, "q"],
    metric: Metric = "euclidean",
    start: Start = "taken",
) -> Float[Tensor, "q m"]:
    """How far each candidate was from its nearest centre before each of the chosen ones became one.

    All are alike, at 0, before a first pick that is random.
    """
    place = torch.arange(len(candidates), device=candidates.device)
    bounds = DistanceBounds(points, centres, candidates, len(chosen), metric)
    distances = torch.zeros(len(chosen), len(candidates), dtype=torch.float64, device=points.device)
    for pick, row in enumerate(chosen):
        if pick or (len(centres) and start == "taken"):
            bounds.bound[bounds.bound < 0] = 0.0  # a chosen one is at distance 0 from itself
            for some in torch.split(place, bounds.sizes.rows):
                bounds.compare_all(some)
            distances[pick] = bounds.bound
        bounds.choose(int((candidates == row).nonzero()[0, 0]))
    return distances / 2 if metric == "cosine" else distances.sqrt()


class DistanceBounds:
    """Squared distances of the candidates to their nearest centre: upper bounds for all, exact for the leader."""

    def __init__(
        self,
        points: Float[Tensor, "g d"],
        centres: Int[Tensor, "l"],
        candidates: Int[Tensor, "m"],
        room: int,
        metric: Metric,
        sizes: SearchSizes = USUAL_SIZES,
    ) -> None:
        self.points, self.candidates, self.metric, self.sizes = points, candidates, metric, sizes
        self.centres = torch.cat([centres, centres.new_zeros(room)])
        self.n_centres = len(centres)
        self.bound = torch.full((len(candidates),), torch.inf, dtype=torch.float64, device=points.device)
        self.seen = torch.zeros_like(candidates)  # the number of centres that the bound accounts for
        self.is_bounded = False
        self.width = sizes.leaders

    def choose(self, leader: int) -> None:
        """Make the candidate a centre."""
        self.centres[self.n_centres] = self.candidates[leader]
        self.n_centres += 1
        self.bound[leader] = -1.0

    def leader(self) -> int:
        """The candidate farthest from its nearest centre, with its exact distance."""
        if not self.is_bounded:
            self._bound_all()
        width = self.width
        while True:
            leader = int(self.bound.argmax())
            # Zero cannot shrink, and minus one means that no candidate is left.
            if int(self.seen[leader]) == self.n_centres or float(self.bound[leader]) <= 0:
                self.width = max(self.sizes.leaders, width // 4)  # the next pick will need about as many as this one
                return leader
            first = self.bound.topk(min(width, len(self.bound))).indices
            stale = first[(self.seen[first] < self.n_centres) & (self.bound[first] > 0)]
            # Where many bounds are equal, the first of them need not be in the list.
            self.measure(stale if bool((stale == leader).any()) else torch.cat([stale, first.new_tensor([leader])]))
            width *= 2

    def measure(self, which: Int[Tensor, "k"]) -> None:
        """Update these bounds, except those that fall below the exact distance of another candidate."""
        fresh = self.bound[self.seen == self.n_centres]
        floor = float(fresh.max()) if len(fresh) else -1.0
        for block in torch.split(which, self.sizes.rows):
            X = self._take(self.candidates[block])
            start = int(self.seen[block].min())
            while start < self.n_centres and len(block):
                end = min(start + self.sizes.centres, self.n_centres)
                self._compare(block, X, start, end)
                leads = (self.bound[block] >= floor).nonzero()[:, 0]
                block, X, start = block[leads], X[leads], end

    def compare_all(self, which: Int[Tensor, "k"]) -> None:
        """Make these bounds exact."""
        X, start = self._take(self.candidates[which]), int(self.seen[which].min())
        while start < self.n_centres:
            end = min(start + self.sizes.centres, self.n_centres)
            self._compare(which, X, start, end)
            start = end

    def _bound_all(self) -> None:
        count = min(self.n_centres, self.sizes.first_centres)
        open_rows = (self.bound > 0).nonzero()[:, 0]
        for block in torch.split(open_rows, self.sizes.rows):
            self._compare(block, self._take(self.candidates[block]), 0, count)
        self.is_bounded = True

    def _compare(self, which: Int[Tensor, "k"], X: Float[Tensor, "k d"], start: int, end: int) -> None:
        """Account for the centres from start to end; all earlier ones are accounted for.

        The nearest is found by a matrix product, then measured by subtraction: a difference of squares would leave
        rounding errors between duplicates, and these would be chosen.
        """
        C = self._take(self.centres[start:end])
        origin = C[0]  # a distant origin would bury the distances in rounding
        shifted = C - origin
        nearest = (0.5 * shifted.square().sum(1) - (X - origin) @ shifted.T).argmin(1)
        found = (X - C[nearest]).square().sum(1)
        self.bound[which] = torch.minimum(self.bound[which], found)
        self.seen[which] = self.seen[which].clamp(min=end)

    def _take(self, rows: Int[Tensor, "k"]) -> Float[Tensor, "k d"]:
        taken = self.points[rows].double()
        return torch.nn.functional.normalize(taken, dim=1, eps=1e-300) if self.metric == "cosine" else taken


@dataclass(frozen=True)
class CoreSet:
    """The rows farthest from all labelled ones in the learner's last hidden layer."""

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows, taken = view.candidates(n), view.taken
        chosen, distances = kcenter_greedy(view.hidden, taken, rows, n, rng)
        return picks(chosen, distances, lambda: utilities(rows, kcenter_utilities(view.hidden, taken, rows, chosen)))


@dataclass(frozen=True)
class FarthestFirst:
    """The same rule with a choice of metric, and of the first row: farthest or random."""

    metric: Metric = "euclidean"
    start: Start = "taken"

    def __post_init__(self) -> None:
        check_choice("metric", self.metric, METRICS)
        check_choice("start", self.start, get_args(Start))

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows, taken = view.candidates(n), view.taken
        chosen, distances = kcenter_greedy(
            view.hidden, taken, candidates=rows, n=n, rng=rng, metric=self.metric, start=self.start
        )

        def all_distances() -> Utilities:
            before = kcenter_utilities(view.hidden, taken, rows, chosen, self.metric, self.start)
            return utilities(rows, before)

        return picks(chosen, distances, all_distances)
