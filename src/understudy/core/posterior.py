"""The surrogate's posterior over its k whitened weights: small, in float64, and the only thing a label changes.

It sees only the few rows it is given close-ups of. Each change is returned as a step of a
few k-vectors and numbers, from which any block of rows, on any device, updates itself
(`rows.py`). Derivations: docs/mathematics.md, section 4.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from understudy.core import linalg

# A downdate divides by ν - g; below this share of ν it loses too much precision and R is rebuilt.
TAKE_OUT_LIMIT = 1e-6


@dataclass(frozen=True)
class InfluenceStep:
    """With s = W p and r = W m: g -= s²/d, h += on_square s² - 2 s r/d."""

    p: Float[Tensor, "k"]
    m: Float[Tensor, "k"]
    inverse: Float[Tensor, "1"]  # 1/d; zero where only the pool changes
    on_square: Float[Tensor, "1"]


@dataclass(frozen=True)
class MeanStep:
    """With s = W p: every row's mean += s change."""

    p: Float[Tensor, "k"]
    change: Float[Tensor, "c"]


@dataclass(frozen=True)
class Closeup:
    """A few rows in full, in float64, with their posterior quantities, computed exactly."""

    w: Float[Tensor, "q k"]
    Rw: Float[Tensor, "q k"]
    MRw: Float[Tensor, "q k"]
    mean: Float[Tensor, "q c"]  # f^
    probs: Float[Tensor, "q c"]
    nu: Float[Tensor, "q 1"]
    lam: Float[Tensor, "q 1"]
    scale: Float[Tensor, "q 1"]
    omega: Float[Tensor, "q 1"]
    g: Float[Tensor, "q 1"]
    h: Float[Tensor, "q 1"]

    def one(self, which: Tensor) -> "Closeup":
        """One of the rows, by its position, given as a tensor so that the host need not read it."""
        parts = list(vars(self).values())
        row = torch.cat(parts, 1).index_select(0, which)
        return Closeup(*torch.split(row, [part.shape[1] for part in parts], dim=1))


class Posterior:
    """The weights given the answered rows (mean, B) and given answered and pending rows (R, for influence).

    While no row is pending the two are the same, and `R_told` is None.
    """

    def __init__(
        self,
        R: Float[Tensor, "k k"],
        M: Float[Tensor, "k k"],
        B: Float[Tensor, "k c"],
        R_told: Tensor | None = None,
    ) -> None:
        self.R, self.M, self.B, self.R_told = R, M, B, R_told
        self.version = 0  # counts the changes

    def look(self, w: Float[Tensor, "q k"], probs: Float[Tensor, "q c"], stats: Float[Tensor, "q 4"]) -> Closeup:
        """Close-up of some rows, from their whitened form, predictions and (ν, λ, scale, ω). O(qk²)."""
        Rw = w @ self.R
        MRw = Rw @ self.M
        g = (Rw * w).sum(1, keepdim=True)
        h = (MRw * Rw).sum(1, keepdim=True)
        nu, lam, scale, omega = torch.split(stats, 1, dim=1)
        return Closeup(
            w,
            Rw,
            MRw=MRw,
            mean=torch.addmm(probs, w, self.B),
            probs=probs,
            nu=nu,
            lam=lam,
            scale=scale,
            omega=omega,
            g=g,
            h=h,
        )

    def split(self) -> None:
        """Allow pending rows from here on: the influence accounts for them, the mean does not."""
        if self.R_told is None:
            self.R_told = self.R.clone()

    def merge(self) -> None:
        """Return to a single posterior once no row is pending."""
        self.R_told = None

    def turn(self, row: Closeup, sign: int, on_pool: int) -> InfluenceStep:
        """Condition the covariance on a row (sign 1) or undo that (-1); the mean does not change.

        `on_pool`: the row also leaves (-1) or joins (1) the open rows, or neither (0). Taking a
        row out equals learning it with noise -ν, so one formula serves both.
        """
        self.version += 1
        p, nu, g, h = row.Rw[0], row.nu[0], row.g[0], row.h[0]
        inverse = torch.add(g, nu, alpha=sign).reciprocal_()  # 1/d
        left = nu * inverse
        on_square = (h * inverse).mul_(inverse).addcmul_(left * row.omega[0], left, value=on_pool)
        step = InfluenceStep(p, self.R @ row.MRw[0], inverse, on_square)
        _rank_one(self.R, p, inverse, sign)
        if on_pool:
            self._count(row, on_pool)
        return step

    def shift(self, row: Closeup, target: Float[Tensor, "c"], sign: int) -> MeanStep:
        """Learn (sign 1) or retract (-1) a label in the mean, not the influence. `target`: what f^ is fitted to."""
        self.version += 1
        R = self.R if self.R_told is None else self.R_told
        p = R @ row.w[0]
        inverse = torch.add(row.w[0] @ p, row.nu[0], alpha=sign).reciprocal_()
        _rank_one(R, p, inverse, sign)
        return self._move(p, (target - row.mean[0]) * inverse)

    def turn_and_shift(
        self, row: Closeup, target: Float[Tensor, "c"], sign: int, on_pool: int
    ) -> tuple[InfluenceStep, MeanStep]:
        """Both at once; while no row is pending one pair of vectors serves both steps."""
        if self.R_told is not None:
            return self.turn(row, sign, on_pool), self.shift(row, target, sign)
        step = self.turn(row, sign, on_pool)
        return step, self._move(step.p, (target - row.mean[0]) * step.inverse)

    def join_pool(self, row: Closeup, sign: int) -> InfluenceStep:
        """Add an unlabelled row to the open rows (sign 1) or remove it (-1)."""
        self.version += 1
        self._count(row, sign)
        zero = torch.zeros_like(row.nu[0])
        return InfluenceStep(row.Rw[0], torch.zeros_like(row.Rw[0]), zero, row.omega[0] * sign)

    def _count(self, row: Closeup, sign: int) -> None:
        """M changes by ω w wᵀ, exactly symmetric."""
        root = row.w[0] * torch.sqrt(row.omega[0])
        self.M.addr_(root, root, alpha=sign)

    def left_after(self, row: Closeup, told: bool) -> float:
        """The share of ν that remains when the row is taken out, which says how much precision the step keeps."""
        R = self.R_told if told and self.R_told is not None else self.R
        return float((row.nu[0] - row.w[0] @ (R @ row.w[0])) / row.nu[0])

    def _move(self, p: Float[Tensor, "k"], change: Float[Tensor, "c"]) -> MeanStep:
        self.B.addr_(p, change)
        return MeanStep(p, change)


def weights_given(
    precision: Float[Tensor, "k k"], targets: Float[Tensor, "k c"]
) -> tuple[Float[Tensor, "k k"], Float[Tensor, "k c"]]:
    """R and B from scratch, given Σ w wᵀ/ν and Σ w residualᵀ/ν over the labelled rows."""
    R = linalg.inverse(precision + torch.eye(len(precision), dtype=precision.dtype, device=precision.device))
    return R, R @ targets


def _rank_one(R: Float[Tensor, "k k"], p: Float[Tensor, "k"], inverse: Float[Tensor, "1"], sign: int) -> None:
    """R -= p pᵀ/d, exactly symmetric. d has the sign of the change."""
    root = p * torch.sqrt(sign * inverse)
    R.addr_(root, root, alpha=-sign)
