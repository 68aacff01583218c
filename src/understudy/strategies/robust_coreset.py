"""K-center by integer programming, ignoring some outliers: at least as good as greedy. Name: coreset_robust."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, eye_array, hstack
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.core.blocks import block_slices
from understudy.errors import UnderstudyError
from understudy.strategies.kcenter import kcenter_greedy, kcenter_utilities, nearest_distances
from understudy.strategies.points import exact_distances
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.view import Picks, PoolView

ROWS_PER_BLOCK: Final = 256


@dataclass(frozen=True)
class RobustCoreSet:
    """The centres of the smallest balls that cover the pool except for a few outliers."""

    outliers: float = 1e-4  # the share of the rows that may be left out, rounded up
    max_points: int = 2000  # open rows sampled for the integer program
    time_limit: float = 30.0  # seconds for one radius, after which the solver counts as failed

    def __post_init__(self) -> None:
        check_whole_number("max_points", self.max_points, 1)
        check_number("outliers", self.outliers, least=0, below=1)
        if not self.time_limit > 0:
            raise UnderstudyError(f"time_limit must be more than 0 seconds; got {self.time_limit}")

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        points = view.hidden
        rows = view.candidates(n, self.max_points, rng)
        passed_over = _skipped_share(view, len(rows), rng)
        greedy, scores = kcenter_greedy(points, view.taken, rows, n, rng)

        def picks_of(chosen: Int[Tensor, "q"], lengths: Float[Tensor, "q"]) -> Picks:
            return picks(chosen, lengths, lambda: utilities(rows, kcenter_utilities(points, view.taken, rows, chosen)))

        if n == len(rows) and not len(passed_over):  # every row becomes a centre
            return picks_of(greedy, scores)
        # Rounded up: of 2,000 rows the published share is less than one, and without outliers nothing would be robust.
        spare = math.ceil(self.outliers * (len(rows) + len(passed_over) + len(view.taken)) - 1e-9)
        program = CoverProgram(points, view.taken, rows, passed_over, greedy, spare)
        better = program.best(n, self.time_limit)
        if better is None:
            return picks_of(greedy, scores)
        # The solver uses no more centres than it must. Greedy adds the rest and orders them all.
        used, left = rows[better], rows[~better]
        if len(used) < n:
            more, _ = kcenter_greedy(points, torch.cat([view.taken, used]), left, n - len(used), rng)
            used = torch.cat([used, more]).sort().values
        return picks_of(*kcenter_greedy(points, view.taken, used, n, rng))


def _skipped_share(view: PoolView, drawn: int, rng: np.random.Generator) -> Int[Tensor, "s"]:
    """A sample of the skipped rows, which must be covered but cannot be centres: the same share as of the open rows."""
    skipped = (view.is_skipped & ~view.is_taken).nonzero()[:, 0]
    count = round(len(skipped) * drawn / int(view.is_open.sum()))
    chosen = torch.from_numpy(np.sort(rng.choice(len(skipped), count, replace=False))) if count else torch.arange(0)
    return skipped[chosen.to(skipped.device)]


class CoverProgram:
    """The covering problem: which rows are within reach of which, and how far, up to greedy's radius.

    Distances are not squared, so that half of greedy's radius is a lower bound. It holds only if
    greedy could choose the farthest row and there are no outliers; otherwise the search begins at 0.
    """

    def __init__(
        self,
        points: Float[Tensor, "g d"],
        taken: Int[Tensor, "t"],
        rows: Int[Tensor, "m"],
        passed_over: Int[Tensor, "s"],
        greedy: Int[Tensor, "q"],
        spare: int,
    ) -> None:
        covered = torch.cat([rows, passed_over])
        self.spare, self.m, self.n_rows = spare, len(rows), len(covered)
        self.to_taken = nearest_distances(points, taken, covered).cpu().numpy()
        to_greedy = nearest_distances(points, greedy, covered).cpu().numpy()
        self.radius_of_greedy = self._radius(np.minimum(self.to_taken, to_greedy))
        self.row, self.centre, self.length = _pairs_within(points, covered, rows, self.radius_of_greedy)
        least = 0.0 if spare or len(passed_over) else 0.5 * (1 - 1e-9) * self.radius_of_greedy
        lengths = np.unique(np.concatenate([self.length, self.to_taken]))
        self.radii = lengths[(lengths >= least) & (lengths < self.radius_of_greedy)]

    def best(self, n: int, time_limit: float) -> Bool[Tensor, "m"] | None:
        """The centres of the smallest radius that the solver can reach, by bisection; None if greedy is as good."""
        best, low, high = None, 0, len(self.radii)
        while low < high:
            middle = (low + high) // 2
            found = self._solve(self.radii[middle], n, time_limit)
            if found is None:
                low = middle + 1
            else:
                best, high = torch.from_numpy(found), int(np.searchsorted(self.radii, self.radius(found)))
        return best

    def radius(self, is_centre: Bool[np.ndarray, "m"]) -> float:
        """The largest distance to the nearest centre, without outliers; infinite if beyond greedy's."""
        lengths = self.to_taken.copy()
        used = is_centre[self.centre]
        np.minimum.at(lengths, self.row[used], self.length[used])
        return self._radius(lengths)

    def _radius(self, lengths: Float[np.ndarray, "p"]) -> float:
        return float(np.sort(lengths)[-1 - self.spare]) if self.spare < len(lengths) else 0.0

    def _solve(self, radius: float, n: int, time_limit: float) -> Bool[np.ndarray, "m"] | None:
        """At most n centres that leave at most `spare` rows outside this radius, or None."""
        far = np.flatnonzero(self.to_taken > radius)  # taken rows are centres already: the rows they cover are done
        place = np.full(self.n_rows, -1)
        place[far] = np.arange(len(far))
        near = (self.length <= radius) & (place[self.row] >= 0)
        entries = (np.ones(near.sum()), (place[self.row[near]], self.centre[near]))
        reach = coo_array(entries, shape=(len(far), self.m))
        # One binary for every row that may become a centre, then one for every row that may be left out.
        n_out = len(far) if self.spare else 0
        cover = hstack([reach, eye_array(len(far))]).tocsr() if n_out else reach.tocsr()
        counts = np.zeros((2, self.m + n_out))
        counts[0, : self.m], counts[1, self.m :] = 1, 1
        answer = milp(
            np.zeros(self.m + n_out),
            integrality=np.ones(self.m + n_out),
            bounds=Bounds(0, 1),
            constraints=[
                LinearConstraint(cover, lb=1),
                LinearConstraint(csr_array(counts), ub=[n, self.spare]),
            ],
            options={"time_limit": time_limit},
        )
        if answer.x is None:
            return None
        is_centre: Bool[np.ndarray, "m"] = answer.x[: self.m] > 0.5
        return is_centre if is_centre.sum() <= n and self.radius(is_centre) <= radius else None


def _pairs_within(
    points: Float[Tensor, "g d"], rows: Int[Tensor, "p"], centres: Int[Tensor, "m"], radius: float
) -> tuple[Int[np.ndarray, "e"], Int[np.ndarray, "e"], Float[np.ndarray, "e"]]:
    """The pairs of row and centre within the radius, by position, and their distances. In blocks."""
    found, to = [], points[centres].double()
    for some in block_slices(len(rows), ROWS_PER_BLOCK):
        lengths = exact_distances(points[rows[some]], to)
        row, centre = (lengths <= radius).nonzero(as_tuple=True)
        found.append((row + some.start, centre, lengths[row, centre]))
    from_row, to_centre, length = (torch.cat(part).cpu().numpy() for part in zip(*found, strict=True))
    return from_row, to_centre, length
