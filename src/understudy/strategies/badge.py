"""BADGE: rows whose gradients are large and diverse."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.checks import check_choice, check_flag
from understudy.errors import UnderstudyError
from understudy.strategies.points import squared_lengths
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.view import Picks, PoolView, Utilities

Start = Literal["largest", "uniform"]
# Squared distances below this many rounding errors of the squared norms are recomputed without cancellation.
NEAR_ROUNDINGS: Final = 1000
# Rows converted to float64 at a time. With 4,096 it takes ten times as long, because memory is newly allocated.
ROWS_PER_BLOCK: Final = 512


@dataclass(frozen=True)
class Badge:
    """k-means++ seeds among the gradients of the last layer, with the predicted class as label.

    Pending rows count as seeds, so that asking one row at a time samples as a batch does.
    """

    start: Start = "largest"
    bias: bool = False

    def __post_init__(self) -> None:
        check_choice("start", self.start, get_args(Start))
        check_flag("bias", self.bias)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden", "probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = torch.sort(torch.cat([view.candidates(n), view.pending])).values
        if 2 * len(rows) < len(view):
            gradients = Gradients(view.hidden[rows], view.probs[rows], self.bias)
        else:  # skipping the few closed rows would save little time and cost a copy
            gradients = Gradients(view.hidden, view.probs, self.bias)
            rows = torch.arange(len(view), device=rows.device)
        before = (view.is_pending & ~view.is_labelled)[rows].nonzero()[:, 0].tolist()
        is_open = view.is_open[rows]
        chosen, scores = draw_seeds(gradients, is_open, n, self.start, rng, before)

        def all_distances() -> Utilities:
            return utilities(rows[is_open], _masses(gradients, before, chosen.tolist())[:, is_open])

        return picks(rows[chosen], scores, all_distances)


class Gradients:
    """G = (p - e) ⊗ h for every row, e its most probable class; never materialised."""

    def __init__(self, hidden: Float[Tensor, "m h"], probs: Float[Tensor, "m c"], bias: bool = False) -> None:
        self.hidden = hidden
        self.bias = float(bias)  # of [h, 1]·[h', 1] = h·h' + 1
        self.errors = probs.clone()
        self.errors[torch.arange(len(probs), device=probs.device), probs.argmax(1)] -= 1
        of_errors, of_hidden = (squared_lengths(values, torch.float64) for values in (self.errors, hidden))
        self.squares = of_errors * (of_hidden + self.bias)  # |G|², (m,)
        self.lengths = of_hidden.sqrt()  # |h|
        self.rounding = max(torch.finfo(values.dtype).eps for values in (hidden, probs))

    def within_reach(self, centre: int, nearest: Float[Tensor, "m"]) -> Int[Tensor, "r"]:
        """The rows to which this one may be nearer than `nearest` (squared): the others can be skipped.

        |h·h'| is at most |h||h'|, and q·q' has few terms, so most rows are ruled out before h is read.
        """
        errors = torch.mv(self.errors, self.errors[centre]).double().abs_()
        lengths = self.squares + self.squares[centre]
        most = errors.mul_(self.lengths * self.lengths[centre] + self.bias)
        least = torch.sub(lengths, most, alpha=2, out=most).sub_(lengths, alpha=NEAR_ROUNDINGS * self.rounding)
        return (least < nearest).nonzero()[:, 0]

    def distances(
        self, centre: int, nearest: Float[Tensor, "m"], rows: Int[Tensor, "r"] | None = None
    ) -> Float[Tensor, "r"]:
        """Squared distances of these rows, or all, to one in O(r (h + c)): <G, G'> = (q·q')(h·h').

        Rows where cancellation would dominate are recomputed, unless `nearest` is 0 there, since nothing can be
        nearer than that.
        """
        hidden, errors, squares = self.hidden, self.errors, self.squares
        if rows is None:
            rows = torch.arange(len(hidden), device=hidden.device)
        else:
            hidden, errors, squares, nearest = hidden[rows], errors[rows], squares[rows], nearest[rows]
        inner = torch.mv(hidden, self.hidden[centre]).double().add_(self.bias)
        inner *= torch.mv(errors, self.errors[centre])
        lengths = squares + self.squares[centre]
        distances = torch.sub(lengths, inner, alpha=2, out=inner)
        near = (distances < lengths.mul_(NEAR_ROUNDINGS * self.rounding)).logical_and_(nearest > 0)
        for some in torch.split(near.nonzero()[:, 0], ROWS_PER_BLOCK):
            distances[some] = self.small_distances(rows[some], centre)
        return distances.clamp_min_(0)

    def small_distances(self, rows: Int[Tensor, "b"], centre: int) -> Float[Tensor, "b"]:
        """The same through differences of factors: exactly 0 for equal rows, and accurate near 0."""
        h, q = self.hidden[rows].double(), self.errors[centre].double()
        h_change = h - self.hidden[centre].double()
        q_change = self.errors[rows].double() - q
        # G - G' = (q - q') ⊗ h + q' ⊗ (h - h')
        return (
            q_change.square().sum(1) * (h.square().sum(1) + self.bias)
            + q.square().sum() * h_change.square().sum(1)
            + 2 * (q_change @ q) * (h * h_change).sum(1)
        )


def draw_seeds(
    gradients: Gradients,
    is_open: Bool[Tensor, "m"],
    n: int,
    start: Start,
    rng: np.random.Generator,
    before: Sequence[int] = (),
) -> tuple[Int[Tensor, "n"], Float[Tensor, "n"]]:
    """n open rows: the first by its norm or at random, each other with odds D², its squared distance to the nearest.

    Rows in `before` count as chosen, so there is no first one. Also returns D² when each was drawn; for the
    first, its squared norm.
    """
    is_open = is_open.clone()
    nearest = torch.where(is_open, torch.inf, 0.0).double()
    for centre in before:
        update_nearest(gradients, centre, nearest)
    chosen: list[int] = []
    scores: list[float] = []
    while len(chosen) < n:
        if before or chosen:
            centre = draw_row(nearest, is_open, rng)
            scores.append(float(nearest[centre]))
        else:
            largest = torch.where(is_open, gradients.squares, -1.0)
            centre = int(largest.argmax()) if start == "largest" else _any_open(is_open, rng)
            scores.append(float(gradients.squares[centre]))
        chosen.append(centre)
        is_open[centre], nearest[centre] = False, 0.0
        if len(chosen) < n:
            update_nearest(gradients, centre, nearest)
    return torch.tensor(chosen, device=is_open.device), torch.tensor(scores, dtype=torch.float64)


def _masses(gradients: Gradients, before: Sequence[int], chosen: Sequence[int]) -> Float[Tensor, "q m"]:
    """Every row's D² before each of the chosen ones was drawn; its squared norm before the very first."""
    nearest = torch.full_like(gradients.squares, torch.inf).double()
    for centre in before:
        update_nearest(gradients, centre, nearest)
    lines: list[Tensor] = []
    for centre in chosen:
        lines.append(nearest.clone() if before or lines else gradients.squares.double())
        nearest[centre] = 0.0
        update_nearest(gradients, centre, nearest)
    return torch.stack(lines)


def update_nearest(gradients: Gradients, centre: int, nearest: Float[Tensor, "m"]) -> None:
    """Update the squared distances to the nearest chosen row for one more choice."""
    rows = gradients.within_reach(centre, nearest)
    if 2 * len(rows) > len(nearest):  # gathering that many would cost more than reading all
        torch.minimum(nearest, gradients.distances(centre, nearest), out=nearest)
    else:
        nearest[rows] = torch.minimum(nearest[rows], gradients.distances(centre, nearest, rows))


def draw_row(mass: Float[Tensor, "m"], is_open: Bool[Tensor, "m"], rng: np.random.Generator) -> int:
    """Sample one row with odds `mass` by one uniform number; any open row if no mass is left."""
    sums = mass.cumsum(0)
    total = float(sums[-1])
    if not math.isfinite(total):
        raise UnderstudyError("the squared gradient norms overflow; scale the hidden outputs down")
    if total <= 0:
        return _any_open(is_open, rng)
    while True:
        # The first cumulative sum above the mark: a row without mass adds nothing, so it is never chosen. But a GPU
        # sums in parallel, and its sums need not be monotonic: then one may come out, and is rejected.
        mark = min(rng.random() * total, math.nextafter(total, 0.0))
        row = int(torch.searchsorted(sums, mark, right=True))
        if row < len(mass) and float(mass[row]) > 0:
            return row


def _any_open(is_open: Bool[Tensor, "m"], rng: np.random.Generator) -> int:
    rows = is_open.nonzero()[:, 0]
    return int(rows[int(rng.integers(len(rows)))])
