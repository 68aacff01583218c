"""K-center greedy: the row that is farthest from all that is taken, again and again. Names: coreset, farthest_first."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_choice
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks
from understudy.strategies.view import Picks, PoolView

Metric = Literal["euclidean", "cosine"]
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)
Start = Literal["taken", "random"]


@dataclass(frozen=True)
class SearchSizes:
    """How much of the search is done at once. The picks do not depend on it."""

    rows: int = 2048  # a few megabytes of float64, whatever the pool
    centres: int = 256
    # Centres that every candidate is measured against before the first pick. Enough to tell far from near.
    first_centres: int = 64
    # Leaders that are measured again at first. Doubled until the best of them is known to be the best of all.
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

    Centres and candidates are rows of `points`. Ties go to the candidate that comes first. Without centres the first
    one is drawn, and said to be as far as the farthest candidate is from it; with `start="random"` it is drawn anyway.
    The cosine distance is 1 - cos; a row of zeros is taken to lie in the middle, halfway to all but other zeros.

    The same picks as by updating every distance after every pick, but most updates are never made: a distance to the
    nearest centre only shrinks, so an old one is a bound from above, and only rows whose bound leads are measured
    against the centres they missed. At worst O((l + n) m d) time; O(m) memory beside the points.
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
    """How far every row is from its nearest centre, by the Euclidean metric; infinitely far without centres."""
    bounds = DistanceBounds(points, centres, rows, 0, "euclidean")
    bounds.measure(torch.arange(len(rows), device=rows.device))
    return bounds.bound.sqrt()


class DistanceBounds:
    """How far every candidate is from its nearest centre: a bound for all, the truth for the leader. All squared."""

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
        self.seen = torch.zeros_like(candidates)  # how many of the centres the bound has heard of
        self.is_bounded = False
        self.width = sizes.leaders

    def choose(self, leader: int) -> None:
        """The candidate becomes a centre."""
        self.centres[self.n_centres] = self.candidates[leader]
        self.n_centres += 1
        self.bound[leader] = -1.0

    def leader(self) -> int:
        """The candidate that is farthest from its nearest centre, with its bound made true."""
        if not self.is_bounded:
            self._bound_all()
        width = self.width
        while True:
            leader = int(self.bound.argmax())
            # Zero cannot shrink, and minus one says that no candidate is left.
            if int(self.seen[leader]) == self.n_centres or float(self.bound[leader]) <= 0:
                self.width = max(self.sizes.leaders, width // 4)  # the next pick will need about as many as this one
                return leader
            first = self.bound.topk(min(width, len(self.bound))).indices
            stale = first[(self.seen[first] < self.n_centres) & (self.bound[first] > 0)]
            # Where many bounds are equal the leader, first of them, need not be in the list.
            self.measure(stale if bool((stale == leader).any()) else torch.cat([stale, first.new_tensor([leader])]))
            width *= 2

    def measure(self, which: Int[Tensor, "k"]) -> None:
        """Bring these bounds up to date, save those that turn out to be below what is already true of another."""
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

    def _bound_all(self) -> None:
        count = min(self.n_centres, self.sizes.first_centres)
        open_rows = (self.bound > 0).nonzero()[:, 0]
        for block in torch.split(open_rows, self.sizes.rows):
            self._compare(block, self._take(self.candidates[block]), 0, count)
        self.is_bounded = True

    def _compare(self, which: Int[Tensor, "k"], X: Float[Tensor, "k d"], start: int, end: int) -> None:
        """Hear of the centres from start to end, all before being known.

        The nearest is found by a product, then measured by subtraction: a difference of squares would leave dust where
        rows are equal, and the dust would be chosen.
        """
        C = self._take(self.centres[start:end])
        origin = C[0]  # a far origin would drown the distances in rounding
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
    """The rows farthest from all that is labelled, by the learner's last hidden layer."""

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        return picks(*kcenter_greedy(view.hidden, view.taken, rows, n, rng))


@dataclass(frozen=True)
class FarthestFirst:
    """The same rule with a choice of metric, and of the first row: the farthest as well, or any."""

    metric: Metric = "euclidean"
    start: Start = "taken"

    def __post_init__(self) -> None:
        check_choice("metric", self.metric, METRICS)
        check_choice("start", self.start, get_args(Start))

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        return picks(*kcenter_greedy(view.hidden, view.taken, rows, n, rng, self.metric, self.start))
