"""Herding: rows that represent the pool, or its uncertain part, best under a kernel. MaxHerding and UHerding."""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.core.blocks import block_slices, rows_that_fit
from understudy.strategies.points import as_points, smallest_gap, squared_lengths
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.uncertainty import margin
from understudy.strategies.view import Picks, PoolView, Utilities

KernelName = Literal["gaussian", "tophat"]
KERNELS: Final[tuple[KernelName, ...]] = get_args(KernelName)
MAX_ROWS: Final = 10_000
# A kernel matrix up to this size is stored; the rows of a larger one are computed on demand.
MAX_KEPT_BYTES: Final = 2**29
NUMBERS_PER_BLOCK: Final = 2**22  # of the kernel matrix
# Leaders that are re-evaluated at first. Doubled until the best of them is known to be the best of all.
FIRST_LEADERS: Final = 32
WITHOUT_GAP: Final = 1.0  # the width if no two labelled rows differ
TEMPERATURES: Final = tuple(i / 10 for i in range(10, 200))
MIN_HELD_OUT: Final = 20  # held-out labelled rows; from this many on, the temperature is fitted on them
BINS: Final = 15


@dataclass(frozen=True)
class MaxHerding:
    """The rows that represent the whole pool best."""

    kernel: KernelName = "gaussian"
    bandwidth: float = 1.0
    normalise: bool = True
    max_candidates: int | None = MAX_ROWS
    max_targets: int | None = MAX_ROWS

    def __post_init__(self) -> None:
        _check_settings(self)
        check_number("bandwidth", self.bandwidth, above=0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.max_candidates, rng)
        targets = draw_targets(len(view), rows, self.max_targets, rng)
        weights = torch.ones(len(targets), dtype=view.features.dtype, device=view.device)
        return _select_by_herding(
            self, view, rows=rows, targets=targets, weights=weights, bandwidth=self.bandwidth, n=n
        )


@dataclass(frozen=True)
class UHerding:
    """The rows that represent the uncertain part of the pool best."""

    kernel: KernelName = "gaussian"
    bandwidth: float | None = None
    temperature: float | None = None
    normalise: bool = True
    max_candidates: int | None = MAX_ROWS
    max_targets: int | None = MAX_ROWS

    def __post_init__(self) -> None:
        _check_settings(self)
        for name in ("bandwidth", "temperature"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0)

    @property
    def needs(self) -> Needs:
        # Without predictions all rows are equally uncertain, and it equals max_herding.
        return Needs(frozenset({"features"}), optional=frozenset({"probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.max_candidates, rng)
        targets = draw_targets(len(view), rows, self.max_targets, rng)
        bandwidth = self.bandwidth or self.gap(view) or WITHOUT_GAP
        weights = self.doubts(view, targets) if view.has("probs") else torch.ones_like(view.features[targets, 0])
        weights[view.is_taken[targets]] = 0
        return _select_by_herding(self, view, rows=rows, targets=targets, weights=weights, bandwidth=bandwidth, n=n)

    def doubts(self, view: PoolView, rows: Int[Tensor, "t"]) -> Float[Tensor, "t"]:
        known = calibration_rows(view)
        temperature = self.temperature or best_temperature(view.probs[known], view.labels[known])
        return margin(apply_temperature(view.probs[rows], temperature)).to(view.features.dtype)

    def gap(self, view: PoolView) -> float | None:
        taken = view.features[view.taken].double()
        return smallest_gap(as_points(taken, self.normalise)) if len(taken) else None


# -- the objective ------------------------------------------------------------------------------------------------


def _select_by_herding(
    settings: MaxHerding | UHerding,
    view: PoolView,
    rows: Int[Tensor, "m"],
    targets: Int[Tensor, "t"],
    weights: Float[Tensor, "t"],
    bandwidth: float,
    n: int,
) -> Picks:
    """The picks of `herd`. Only rows in use are copied, in float64, because their squares are subtracted."""
    is_used = view.is_taken.clone()
    is_used[targets] = True  # the candidates among them
    used = is_used.nonzero()[:, 0]
    place = is_used.cumsum(0) - 1  # index of a row among these
    points = as_points(view.features[used].double(), settings.normalise)
    kernel = Similarity(points, place[targets], settings.kernel, bandwidth)
    chosen, scores = herd(kernel, place[rows], place[view.taken], weights, n)

    def all_gains() -> Utilities:
        gains, lines = Gains(kernel, place[rows], place[view.taken], weights), []
        for row in torch.searchsorted(place[rows], chosen).tolist():
            lines.append(gains.of(torch.arange(len(rows), device=rows.device)))
            gains.choose(row)
        return utilities(rows, torch.stack(lines))

    return picks(used[chosen], scores, all_gains)


class Similarity:
    """Similarities of rows of a pool to the targets among them."""

    def __init__(
        self,
        points: Float[Tensor, "n d"],
        targets: Int[Tensor, "t"],
        name: KernelName,
        bandwidth: float,
        numbers_per_block: int = NUMBERS_PER_BLOCK,
    ) -> None:
        self.numbers_per_block = numbers_per_block
        self.points, self.name, self.bandwidth = points, name, bandwidth
        self.targets = points if len(targets) == len(points) else points[targets]
        self.lengths = squared_lengths(self.targets)
        self.place = torch.full((len(points),), -1, device=points.device)  # index of a row among the targets
        self.place[targets] = torch.arange(len(targets), device=points.device)

    def of(self, rows: Int[Tensor, "b"]) -> Float[Tensor, "b t"]:
        """A row has similarity 1 to itself, even where a narrow kernel would amplify rounding."""
        X = self.points[rows]
        distances = torch.addmm(self.lengths, X, self.targets.T, alpha=-2.0)
        distances.add_(X.square().sum(1)[:, None]).clamp_min_(0)  # squared
        if self.name == "gaussian":
            K = distances.div_(-self.bandwidth).div_(self.bandwidth).exp_()
        else:
            K = (distances < self.bandwidth * self.bandwidth).to(distances.dtype)
        own = (self.place[rows] >= 0).nonzero()[:, 0]
        K[own, self.place[rows[own]]] = 1.0
        return K

    def rows_at_once(self) -> int:
        return rows_that_fit(self.numbers_per_block, len(self.targets))


class Gains:
    """(1/t) Σ_j w_j max(0, k(i, j) - c_j) for candidates i: the gain in c, each target's similarity."""

    def __init__(
        self,
        kernel: Similarity,
        rows: Int[Tensor, "m"],
        taken: Int[Tensor, "l"],
        weights: Float[Tensor, "t"],
        max_kept_bytes: int = MAX_KEPT_BYTES,
    ) -> None:
        self.kernel, self.rows, self.weights = kernel, rows, weights
        self.c = torch.zeros_like(weights)
        for part in block_slices(len(taken), kernel.rows_at_once()):
            self.c = torch.maximum(self.c, kernel.of(taken[part]).amax(0).to(self.c.dtype))
        size = len(rows) * len(weights) * weights.element_size()
        self.kept = weights.new_empty((len(rows), len(weights))) if size <= max_kept_bytes else None
        if self.kept is not None:
            for part in block_slices(len(rows), kernel.rows_at_once()):
                self.kept[part] = kernel.of(rows[part])

    def of(self, which: Int[Tensor, "b"]) -> Float[Tensor, "b"]:
        """The gains of some candidates, given by position."""
        gains = self.weights.new_empty(len(which))  # small tensors kept between large ones would fragment the heap
        for part in block_slices(len(which), self.kernel.rows_at_once()):
            gains[part] = self._similarities(which[part]).sub_(self.c).clamp_min_(0).mv(self.weights)
        return gains.div_(len(self.weights))

    def choose(self, which: int) -> None:
        place = torch.tensor([which], device=self.rows.device)
        self.c = torch.maximum(self.c, self._similarities(place)[0])

    def _similarities(self, which: Int[Tensor, "b"]) -> Float[Tensor, "b t"]:
        """In the precision of the weights: values between 0 and 1 lose nothing in float32."""
        return self.kernel.of(self.rows[which]).to(self.weights.dtype) if self.kept is None else self.kept[which]


def herd(
    kernel: Similarity,
    rows: Int[Tensor, "m"],
    taken: Int[Tensor, "l"],
    weights: Float[Tensor, "t"],
    n: int,
    *,
    max_kept_bytes: int = MAX_KEPT_BYTES,
    first_leaders: int = FIRST_LEADERS,
) -> tuple[Int[Tensor, "q"], Float[Tensor, "q"]]:
    """n of the rows, each with the largest gain when it was chosen, and these gains. Ties go to the first row.

    Lazy greedy: c only grows, so gains only shrink and old gains are upper bounds. Only candidates whose bound leads
    are re-evaluated. The picks equal those of evaluating all candidates every time.
    """
    gains = Gains(kernel, rows, taken, weights, max_kept_bytes)
    m, device = len(rows), rows.device
    bound = gains.of(torch.arange(m, device=device))
    is_fresh = torch.ones(m, dtype=torch.bool, device=device)
    # Sums of ones and zeros are exact. Others may come out slightly larger than an older bound.
    slack = 1.0 if kernel.name == "tophat" else 1.0 + 64 * torch.finfo(bound.dtype).eps
    chosen, scores = [], []
    for _ in range(n):
        width = first_leaders
        while True:
            leader = int(torch.where(is_fresh, bound, -torch.inf).argmax())
            best = float(bound[leader]) if bool(is_fresh[leader]) else -math.inf
            leads = ~is_fresh & (bound * slack > best)
            leads[:leader] |= ~is_fresh[:leader] & (bound[:leader] == best)
            behind = leads.nonzero()[:, 0]
            if not len(behind):
                break
            behind = behind[bound[behind].topk(min(width, len(behind))).indices]
            bound[behind] = gains.of(behind)
            is_fresh[behind] = True
            width *= 2
        chosen.append(leader)
        scores.append(best)
        gains.choose(leader)
        bound[leader] = -torch.inf
        # A gain of zero cannot shrink.
        is_fresh = bound <= 0
    return rows[torch.tensor(chosen, device=device)], torch.tensor(scores, dtype=torch.float64, device=device)


def draw_targets(
    n_rows: int, candidates: Int[Tensor, "m"], max_targets: int | None, rng: np.random.Generator
) -> Int[Tensor, "t"]:
    """The rows that are summed over, ascending: all, or the candidates and a random sample of the others.

    The candidates are always included: under a narrow kernel each is its own main target.
    """
    if max_targets is None or max_targets >= n_rows:
        return torch.arange(n_rows, device=candidates.device)
    is_other = torch.ones(n_rows, dtype=torch.bool, device=candidates.device)
    is_other[candidates] = False
    others = is_other.nonzero()[:, 0]
    room = min(max(0, max_targets - len(candidates)), len(others))
    if not room:
        return candidates
    drawn = torch.from_numpy(rng.choice(len(others), room, replace=False)).to(others.device)
    return torch.cat([candidates, others[drawn]]).sort().values


# -- calibration of the probabilities -----------------------------------------------------------------------------


def apply_temperature(probs: Float[Tensor, "m c"], temperature: float) -> Float[Tensor, "m c"]:
    """softmax(ln p / T), as if the logits had been divided by T."""
    return torch.softmax(probs.clamp_min(torch.finfo(probs.dtype).tiny).log() / temperature, 1)


def calibration_error(probs: Float[Tensor, "m c"], labels: Int[Tensor, "m"], bins: int = BINS) -> float:
    """Expected calibration error (ECE) over confidence bins of equal width."""
    confidence, predicted = probs.double().max(1)
    surplus = confidence - (predicted == labels).double()
    bin_of = (confidence * bins).long().clamp_max(bins - 1)
    return float(torch.bincount(bin_of, surplus, bins).abs().sum()) / len(labels)


def calibration_rows(view: PoolView) -> Int[Tensor, "l"]:
    """Labelled rows that the learner was not trained on, if there are enough; all labelled ones otherwise."""
    held_out = (view.is_labelled & ~view.is_trained).nonzero()[:, 0]
    return held_out if len(held_out) >= MIN_HELD_OUT else view.labelled


def best_temperature(probs: Float[Tensor, "l c"], labels: Int[Tensor, "l"]) -> float:
    """The temperature of 1.0, 1.1, ... 19.9 with the least calibration error on these rows; the lowest among ties."""
    if not len(labels):
        return 1.0
    return min(TEMPERATURES, key=lambda temperature: calibration_error(apply_temperature(probs, temperature), labels))


def _check_settings(settings: Any) -> None:
    check_choice("kernel", settings.kernel, KERNELS)
    for name in ("max_candidates", "max_targets"):
        if getattr(settings, name) is not None:
            check_whole_number(name, getattr(settings, name), 1)
