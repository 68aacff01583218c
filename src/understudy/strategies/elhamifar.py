"""Elhamifar et al.: a convex program that finds a few representatives, uncertain and far from labelled rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.core.kernels import squared_distances
from understudy.errors import UnderstudyError
from understudy.strategies.kcenter import Metric, kcenter_greedy, nearest_distances
from understudy.strategies.points import as_points
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, steady_utilities
from understudy.strategies.uncertainty import entropy
from understudy.strategies.view import Picks, PoolView

Norm = Literal["2", "inf"]
MOST_CANDIDATES: Final = 5_000  # takes ten matrices of 200 MB
LEAST_NORM: Final = 1e-3  # smaller norms are residue of the iterations
ACTIVE: Final = 0.5  # norm of a row that represents half of another; less may be one of several near ties
FIRST_LAM: Final = 4.0  # in units of `unit_lam`: there few rows are active, mostly one
HALVINGS: Final = 20  # of lam, until enough rows are active
REFINEMENTS: Final = 3  # of the last halving
LOWERINGS: Final = 5  # of lam if the full solution has fewer active rows than the approximate one
NEWTON_STEPS: Final = 50


@dataclass(frozen=True)
class Elhamifar:
    """The rows of largest norm in the solution Z of min tr(DᵀZ) + lam Σ c_i |Z_i|_q, Z ≥ 0, columns of sum 1."""

    q: Norm = "2"
    sigma: float = 20.0
    lam: float | None = None
    normalise: bool = False
    max_candidates: int = 1_000
    max_iterations: int = 200
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        check_choice("q", self.q, get_args(Norm))
        check_number("sigma", self.sigma, least=1)
        if self.lam is not None:
            check_number("lam", self.lam, above=0)
        check_number("tolerance", self.tolerance, above=0, below=1)
        check_whole_number("max_candidates", self.max_candidates, 1)
        check_whole_number("max_iterations", self.max_iterations, 1)
        if self.max_candidates > MOST_CANDIDATES:
            raise UnderstudyError(
                f"max_candidates must be at most {MOST_CANDIDATES:,}, as memory grows with its square; "
                f"got {self.max_candidates:,}"
            )

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features", "probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        open_rows = view.candidates(n)
        rows = view.candidates(min(n, self.max_candidates), self.max_candidates, rng)
        X = as_points(torch.cat([view.features[rows], view.features[view.taken]]), self.normalise)
        places = torch.arange(len(X), device=X.device)
        gaps = nearest_distances(X, places[len(rows) :], places[: len(rows)])
        X = X[: len(rows)]
        D = distances(X, X)
        D.fill_diagonal_(0.0)
        c = confidence(view.probs[rows], gaps, self.sigma)
        program = Programme(D, c, self.q, self.max_iterations, self.tolerance)
        norms = program.with_active(n) if self.lam is None else program.solve(self.lam * program.unit_lam())
        active = torch.sort(norms, descending=True, stable=True).indices[: min(n, int((norms > LEAST_NORM).sum()))]
        chosen, scores = rows[active], norms[active]
        if len(chosen) < n:
            rest = open_rows[~torch.isin(open_rows, chosen)]
            metric: Metric = "cosine" if self.normalise else "euclidean"
            centres = torch.cat([view.taken, chosen])
            far, _ = kcenter_greedy(view.features, centres, rest, n - len(chosen), rng, metric)
            chosen, scores = torch.cat([chosen, far]), torch.cat([scores, scores.new_zeros(len(far))])
        return picks(chosen, scores, steady_utilities(rows, torch.where(norms > LEAST_NORM, norms, 0.0), n))


def confidence(probs: Float[Tensor, "m c"], gaps: Float[Tensor, "m"], sigma: float) -> Float[Tensor, "m"]:
    """The cost of choosing a row: from 1, where it is uncertain or far from all labelled rows, to sigma.

    Without labelled rows all costs are 1.
    """
    doubt = entropy(probs.double()) / math.log(max(2, probs.shape[1]))
    farthest = float(gaps.max())
    distance = torch.ones_like(gaps) if math.isinf(farthest) else gaps / farthest if farthest > 0 else gaps
    return sigma - (sigma - 1) * torch.maximum(doubt, distance).clamp(0, 1)


def distances(X: Float[Tensor, "k d"], Y: Float[Tensor, "m d"]) -> Float[Tensor, "k m"]:
    return squared_distances(X.double(), Y.double()).sqrt_()


class Programme:
    """min_Z tr(DᵀZ) + lam Σ_i c_i |Z_i|_q over Z ≥ 0 whose columns sum to 1, by ADMM.

    Z is split in two: one copy is shrunk by rows, the other, `C`, projected onto the simplex by columns.
    `C` is feasible, the first has rows that are exactly 0. Solutions are warm-started. O(m²) memory, and time
    per iteration.
    """

    def __init__(
        self,
        D: Float[Tensor, "m m"],
        c: Float[Tensor, "m"],
        q: Norm,
        max_iterations: int,
        tolerance: float,
    ) -> None:
        self.scale = float(D.max()) or 1.0
        self.D, self.c, self.q = D / self.scale, c, q
        self.max_iterations, self.tolerance = max_iterations, tolerance
        self.C = torch.zeros_like(D)
        self.U = torch.zeros_like(D)  # scaled dual variables
        self.rho = 1.0
        self.level = torch.full_like(c, -torch.inf)[None]
        self.is_started = False

    def unit_lam(self) -> float:
        """The lam at which the medoid, representing all rows, costs as much by its norm as by its distances."""
        far = float(self.D.sum(1).min()) * self.scale
        return (far or 1.0) / self._norm_of_ones()

    def with_active(self, n: int) -> Float[Tensor, "m"]:
        """The row norms at the largest lam tried that makes n rows active.

        Starting from `FIRST_LAM`, lam is halved until they are, and the last interval is bisected a few times
        on a log scale, all with few iterations. Then it is solved in full, and lam lowered if too few are active.
        """
        n, lam, few = min(n, len(self.c)), FIRST_LAM * self.unit_lam(), max(1, self.max_iterations // 4)
        halvings = 0
        while _n_active(self.solve(lam, few)) < n and halvings < HALVINGS:
            lam, halvings = lam / 2, halvings + 1
        step = 2.0
        for _ in range(REFINEMENTS if halvings else 0):
            step **= 0.5
            lam *= step if _n_active(self.solve(lam * step, few)) >= n else 1.0
        norms = self.solve(lam)
        for _ in range(LOWERINGS):
            if _n_active(norms) >= n:
                break
            lam *= 0.8
            norms = self.solve(lam)
        return norms

    def solve(self, lam: float, max_iterations: int | None = None) -> Float[Tensor, "m"]:
        """The norms of the rows of Z at this lam. `C` is the solution."""
        price = self.c * (lam / self.scale)
        if not self.is_started:
            self._start(price)
        for iteration in range(max_iterations or self.max_iterations):
            V = (self.C - self.U).sub_(self.D, alpha=1 / self.rho).clamp_min_(0)
            Z = SHRINK[self.q](V, price / self.rho)
            moved = torch.add(Z, self.U)
            self.level = water_level(moved, torch.ones_like(self.level), self.level)
            C = torch.sub(moved, self.level).clamp_min_(0)
            self.U = moved.sub_(C)
            apart = float((Z - C).norm())
            moving = self.rho * float((C - self.C).norm())
            self.C = C
            size, prices = float(C.norm()), max(self.rho * float(self.U.norm()), 1e-12)
            if apart <= self.tolerance * size and moving <= self.tolerance * prices:
                break
            if iteration % 10 == 9:
                self._balance(apart / size, moving / prices)
        return _row_norms(Z, self.q)

    def objective(self, Z: Float[Tensor, "m m"], lam: float) -> float:
        return float((self.D * Z).sum()) * self.scale + lam * float((self.c * _row_norms(Z, self.q)).sum())

    def _start(self, price: Float[Tensor, "m"]) -> None:
        """Start from the optimum for large lam, one row that represents all, with the matching dual variables."""
        ones = self._norm_of_ones()
        best = int((self.D.sum(1) + price * ones).argmin())
        self.C[best] = 1.0
        self.U -= (self.D[best] + price[best] * ones / len(self.c)) / self.rho
        self.is_started = True

    def _norm_of_ones(self) -> float:
        return len(self.c) ** 0.5 if self.q == "2" else 1.0

    def _balance(self, apart: float, moving: float) -> None:
        """Balance the residuals: raise the penalty if the copies stay apart, lower it if they move too slowly."""
        factor = 2.0 if apart > 3 * moving else 0.5 if moving > 3 * apart else 1.0
        self.rho *= factor
        self.U /= factor


def _n_active(norms: Float[Tensor, "m"]) -> int:
    return int((norms > ACTIVE).sum())


def _row_norms(Z: Float[Tensor, "m k"], q: Norm) -> Float[Tensor, "m"]:
    return Z.norm(dim=1) if q == "2" else Z.abs().amax(1)


def shrink_2(V: Float[Tensor, "m k"], t: Float[Tensor, "m"]) -> Float[Tensor, "m k"]:
    """argmin_Z t |Z|₂ + ½ |Z - V|² for each row of V ≥ 0."""
    return V * (1 - t / V.norm(dim=1).clamp_min(1e-300)).clamp_min(0)[:, None]


def shrink_inf(V: Float[Tensor, "m k"], t: Float[Tensor, "m"]) -> Float[Tensor, "m k"]:
    """argmin_Z t max Z + ½ |Z - V|² for each row of V ≥ 0: the peaks are cut off by t in total."""
    level = water_level(V.T, t[None], torch.full_like(t, -torch.inf)[None])
    return torch.minimum(V, level.clamp_min(0).T)


SHRINK: Final[dict[Norm, Callable[[Tensor, Tensor], Tensor]]] = {"2": shrink_2, "inf": shrink_inf}


def water_level(
    V: Float[Tensor, "k m"], above: Float[Tensor, "1 m"], start: Float[Tensor, "1 m"]
) -> Float[Tensor, "1 m"]:
    """For each column the level with Σ max(V - level, 0) = above (water filling).

    By Newton's method, exact after a few steps because the sum is convex and piecewise linear in the level. It may
    start anywhere below the maximum.
    """
    lowest = (V.sum(0, keepdim=True) - above) / len(V)  # the level if the whole column were above it
    highest = V.amax(0, keepdim=True) - above / len(V)
    level = torch.minimum(torch.maximum(start, lowest), highest)
    scale = float(V.abs().max()) + float(above.max())
    for _ in range(NEWTON_STEPS):
        over = (V - level).clamp_min_(0)
        step = (over.sum(0, keepdim=True) - above) / over.count_nonzero(0).clamp_min(1)
        level = level + step
        if float(step.abs().max()) <= 1e-13 * scale:
            break
    return level
