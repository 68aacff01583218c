"""ProbCover: balls around the chosen rows that cover as much of the pool as possible."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.core.blocks import block_slices
from understudy.core.kernels import squared_distances
from understudy.strategies.clusters import k_means
from understudy.strategies.kcenter import kcenter_greedy, kcenter_utilities, nearest_distances
from understudy.strategies.neighbours import MOST_PICKED_OUT, Uncovered
from understudy.strategies.points import ROWS_PER_BLOCK, as_points
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.view import Picks, PoolView, Utilities

# Stored neighbours, four bytes each: 1 GiB. A pair counts twice, once for each point.
MAX_PAIRS: Final = 2**28


@dataclass(frozen=True)
class ProbCover:
    """Repeatedly the row whose ball of radius delta contains the most uncovered rows."""

    delta: float | None = None
    alpha: float = 0.95
    purity_rows: int = 2_000
    normalise: bool = True
    max_distances: int | None = None  # None: what suits the device

    def __post_init__(self) -> None:
        if self.delta is not None:
            check_number("delta", self.delta, above=0)
        check_number("alpha", self.alpha, above=0, most=1)
        check_whole_number("purity_rows", self.purity_rows, 1)
        if self.max_distances is not None:
            check_whole_number("max_distances", self.max_distances, 1)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        points = as_points(view.features, self.normalise)
        delta = self.delta or estimate_delta(points, view.n_classes, rng, self.alpha, self.purity_rows)
        covering, degrees = cover(points, delta, view.taken, view.is_open, n, max_distances=self.max_distances)
        far, shares = covering[:0], degrees[:0]
        # All is covered. Distances are below delta up to rounding, so as shares of it they rank below any degree.
        left = rows[~torch.isin(rows, covering)]
        centres = torch.cat([view.taken, covering])
        if len(covering) < n:
            far, distances = kcenter_greedy(points, centres, left, n - len(covering), rng)
            shares = (distances / delta).clamp_max(1.0)

        def all_degrees() -> Utilities:
            lines: list[Tensor] = []
            cover(
                points,
                delta,
                view.taken,
                is_open=view.is_open,
                n_picks=n,
                lines=lines,
                max_distances=self.max_distances,
            )
            values = torch.full((n, len(view)), -torch.inf, dtype=torch.float64, device=view.device)
            for place, line in enumerate(lines):
                values[place] = line
            if len(far):
                values[len(lines) :, left] = (kcenter_utilities(points, centres, left, far) / delta).clamp_max(1.0)
            return utilities(rows, values[:, rows])

        return picks(torch.cat([covering, far]), torch.cat([degrees, shares]), all_degrees)


def cover(
    points: Float[Tensor, "n d"],
    delta: float,
    taken: Int[Tensor, "t"],
    is_open: Bool[Tensor, "n"],
    n_picks: int,
    max_pairs: int = MAX_PAIRS,
    most_picked_out: float = MOST_PICKED_OUT,
    lines: list[Tensor] | None = None,
    max_distances: int | None = None,
) -> tuple[Int[Tensor, "q"], Float[Tensor, "q"]]:
    """Up to n open rows, fewer if all is covered earlier, and how many uncovered rows each had in its ball.

    `lines` takes the degrees of all rows before each pick.
    """
    is_covered = nearest_distances(points, taken, torch.arange(len(points), device=points.device)) < delta
    is_covered[taken] = True
    uncovered = Uncovered(points, delta, is_covered, is_open, max_pairs, most_picked_out, max_distances)
    degrees = uncovered.degrees
    chosen: list[int] = []
    scores: list[float] = []
    while len(chosen) < n_picks:
        row = int(degrees.argmax())
        if int(degrees[row]) <= 0:
            break
        members = uncovered.around(row)
        if len(members) < int(degrees[row]):
            # Rounding may make a pair asymmetric. What the row would cover counts, and covered rows are done.
            degrees[row] = len(members)
            continue
        if lines is not None:
            lines.append(degrees.clone())
        chosen.append(row)
        scores.append(float(len(members)))
        uncovered.cover(row, members)
    return (
        torch.tensor(chosen, dtype=torch.int64, device=points.device),
        torch.tensor(scores, dtype=torch.float64, device=points.device),
    )


def estimate_delta(
    points: Float[Tensor, "n d"], n_classes: int, rng: np.random.Generator, alpha: float, max_rows: int
) -> float:
    """The largest radius at which a share alpha of the balls is pure, i.e. within one k-means cluster.

    One cluster per class. Balls are centred at a random `max_rows` rows and contain rows of the whole pool.
    """
    clusters = k_means(points, n_classes, rng).assignment
    centres = torch.from_numpy(np.sort(rng.permutation(len(points))[:max_rows])).to(points.device)
    return pure_radius(points, clusters, centres, alpha)


def pure_radius(
    points: Float[Tensor, "n d"], clusters: Int[Tensor, "n"], centres: Int[Tensor, "k"], alpha: float
) -> float:
    """As above for given clusters. No search is needed: a ball is pure up to the nearest row of another cluster.

    Infinite if there is only one cluster.
    """
    strangers = torch.full((len(centres),), torch.inf, dtype=torch.float64, device=points.device)
    for part in block_slices(len(centres), ROWS_PER_BLOCK):
        some, X = centres[part], points[centres[part]].double()
        for others in block_slices(len(points), ROWS_PER_BLOCK):
            Y = points[others].double()
            squares = squared_distances(X, Y)
            squares.masked_fill_(clusters[some][:, None] == clusters[others], torch.inf)
            least, nearest = squares.min(1)
            # Found by a product, measured by subtraction: duplicates in two clusters have distance 0.
            gaps = torch.where(least < torch.inf, (X - Y[nearest]).square_().sum(1).sqrt_(), torch.inf)
            strangers[part] = torch.minimum(strangers[part], gaps)
    radii = torch.sort(strangers, descending=True).values
    radius = float(radii[math.ceil(alpha * len(radii) - 1e-9) - 1])
    # Touching clusters would leave balls too small for a second row.
    apart = radii[radii > 0]
    return radius if radius > 0 else float(apart[-1]) if len(apart) else math.inf
