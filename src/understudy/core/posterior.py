"""The surrogate's posterior over its k whitened weights: small, float64, and all that a label changes.

Rows never enter here except as the one row that is learnt or forgotten. Each change is returned as a
step of a few k-vectors and numbers, from which any block of rows, wherever it lives, brings itself up to
date (`rows.py`). Derivations: docs/mathematics.md, section 4.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from understudy.core import linalg

# Taking a row out divides by ν - g; below this share of ν its digits are gone and R is built anew.
TAKE_OUT_LIMIT = 1e-6


@dataclass(frozen=True)
class InfluenceStep:
    """With s = W p and r = W m: g += on_variance s², h += on_cross s r + on_square s²."""

    p: Float[Tensor, "k"]
    m: Float[Tensor, "k"]
    on_variance: Float[Tensor, ""]
    on_cross: Float[Tensor, ""]
    on_square: Float[Tensor, ""]
    g: Float[Tensor, ""]  # of the row itself beforehand, exact: what the rows' own g and h are checked against
    h: Float[Tensor, ""]


@dataclass(frozen=True)
class MeanStep:
    """With s = W p: every row's mean += s change."""

    p: Float[Tensor, "k"]
    change: Float[Tensor, "c"]


class Posterior:
    """Weights given the answered rows (mean, B) and given answered and pending rows (R, for influence).

    While no row is pending the two are one; `R_told` is None then.
    """

    def __init__(
        self,
        R: Float[Tensor, "k k"],
        M: Float[Tensor, "k k"],
        B: Float[Tensor, "k c"],
        R_told: Tensor | None = None,
    ) -> None:
        self.R, self.M, self.B, self.R_told = R, M, B, R_told

    def split(self) -> None:
        """From here on rows may be pending: influence knows of them, the mean does not."""
        if self.R_told is None:
            self.R_told = self.R.clone()

    def merge(self) -> None:
        """No row is pending any more: one posterior is enough."""
        self.R_told = None

    def turn(
        self, w: Float[Tensor, "k"], nu: Float[Tensor, ""], sign: int, on_pool: int
    ) -> tuple[InfluenceStep, Float[Tensor, ""]]:
        """A row joins (sign 1) or leaves (-1) those that explain the pool; the mean stays.

        `on_pool`: the row also leaves (-1) or joins (1) those to be understood, or neither (0). Taking a
        row out is learning it with noise -ν: one formula serves both ways.
        """
        p = self.R @ w
        g = w @ p
        d = g + sign * nu
        Mp = self.M @ p
        h = p @ Mp
        step = InfluenceStep(
            p,
            self.R @ Mp,
            on_variance=-1.0 / d,
            on_cross=-2.0 / d,
            on_square=h / d**2 + on_pool * (nu / d) ** 2,
            g=g,
            h=h,
        )
        _rank_one(self.R, p, d, sign)
        if on_pool:
            self.M.addr_(w, w, alpha=on_pool)
        return step, d

    def shift(self, w: Float[Tensor, "k"], nu: Float[Tensor, ""], e: Float[Tensor, "c"], sign: int) -> MeanStep:
        """A row's answer with innovation e is heard (sign 1) or unheard (-1); the influence stays."""
        R = self.R if self.R_told is None else self.R_told
        p = R @ w
        d = w @ p + sign * nu
        _rank_one(R, p, d, sign)
        return self._move(p, e / d)

    def turn_and_shift(
        self, w: Float[Tensor, "k"], nu: Float[Tensor, ""], e: Float[Tensor, "c"], sign: int, on_pool: int
    ) -> tuple[InfluenceStep, MeanStep]:
        """Both at once; while no row is pending one pair of vectors serves both steps."""
        step, d = self.turn(w, nu, sign, on_pool)
        if self.R_told is not None:
            return step, self.shift(w, nu, e, sign)
        return step, self._move(step.p, e / d)

    def join_pool(self, w: Float[Tensor, "k"], sign: int) -> InfluenceStep:
        """An unlabelled row begins (sign 1) or ceases (-1) to count among those to be understood."""
        p = self.R @ w
        self.M.addr_(w, w, alpha=sign)
        g, zero = w @ p, torch.zeros((), dtype=p.dtype, device=p.device)
        return InfluenceStep(p, torch.zeros_like(p), zero, zero, on_square=zero + sign, g=g, h=zero)

    def left_after(self, w: Float[Tensor, "k"], nu: Float[Tensor, ""], told: bool) -> float:
        """What is left of ν when the row is taken out, as a share: the digits such a step keeps."""
        R = self.R_told if told and self.R_told is not None else self.R
        return float((nu - w @ (R @ w)) / nu)

    def spread(self, w: Float[Tensor, "q k"]) -> tuple[Float[Tensor, "q"], Float[Tensor, "q"]]:
        """g and h of some rows, computed and not carried along."""
        Rw = w @ self.R
        return (Rw * w).sum(1), ((Rw @ self.M) * Rw).sum(1)

    def _move(self, p: Float[Tensor, "k"], change: Float[Tensor, "c"]) -> MeanStep:
        self.B.addr_(p, change)
        return MeanStep(p, change)


def weights_given(
    precision: Float[Tensor, "k k"], targets: Float[Tensor, "k c"]
) -> tuple[Float[Tensor, "k k"], Float[Tensor, "k c"]]:
    """R and B from scratch, given Σ w wᵀ/ν and Σ w residualᵀ/ν over the labelled rows."""
    R = linalg.inverse(precision + torch.eye(len(precision), dtype=precision.dtype, device=precision.device))
    return R, R @ targets


def _rank_one(R: Float[Tensor, "k k"], p: Float[Tensor, "k"], d: Float[Tensor, ""], sign: int) -> None:
    """R -= p pᵀ/d, exactly symmetric. d has the sign of the change."""
    root = p / torch.sqrt(sign * d)
    R.addr_(root, root, alpha=-sign)
