"""Mutual information: rows that, with the taken ones, are most informative about the rest under a Gaussian process."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.core.kernels import gaussian, squared_distances
from understudy.strategies.portions import select_in_portions
from understudy.strategies.protocol import Needs
from understudy.strategies.randomness import draw_subset
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.view import Picks, PoolView, Utilities

TIE: Final = 1e-10  # logarithms closer than this differ only by rounding


@dataclass(frozen=True)
class MutualInformation:
    """Greedily, the row with the largest ratio of its variance given the taken rows to that given the other rows."""

    max_candidates: int = 3000
    width: float = 0.5
    noise: float = 0.01

    def __post_init__(self) -> None:
        check_whole_number("max_candidates", self.max_candidates, 2)
        check_number("width", self.width, above=0)
        check_number("noise", self.noise, above=0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        return select_in_portions(self._select, view, n, self.max_candidates, rng)

    def _select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.max_candidates, rng)
        taken = draw_subset(view.taken, self.max_candidates, rng)
        # Skipped rows are to be predicted as well, as far as they fit.
        other = draw_subset((view.is_skipped & ~view.is_taken).nonzero()[:, 0], self.max_candidates - len(rows), rng)
        X = view.features[torch.cat([rows, other, taken])].double()
        m = len(rows) + len(other)
        among, with_taken, among_taken = _covariances(X, m, self.width, self.noise)
        order, scores = _greedy(among, with_taken, among_taken, len(rows), n)

        def all_gains() -> Utilities:
            lines: list[Tensor] = []
            _greedy(among, with_taken, among_taken, len(rows), n, lines)
            return utilities(rows, torch.stack(lines)[:, : len(rows)])

        return picks(rows[order], scores, all_gains)


def _covariances(
    X: Float[Tensor, "t d"], m: int, width: float, noise: float
) -> tuple[Float[Tensor, "m m"], Float[Tensor, "l m"], Float[Tensor, "l l"]]:
    """Covariances of labels: among the first m rows, of the others with them, among the others.

    The width of the Gaussian kernel is `width` times the mean distance between the m rows.
    """
    X = X - X.mean(0)
    among = squared_distances(X[:m], X[:m]).fill_diagonal_(0.0)
    mean = float(among.sqrt().sum()) / max(1, m * (m - 1))
    bandwidth = (width * mean) ** 2 if mean > 0 else 1.0
    noises = noise * torch.eye(len(X), dtype=X.dtype, device=X.device)
    with_taken = gaussian(squared_distances(X[m:], X[:m]), bandwidth)
    among_taken = gaussian(squared_distances(X[m:], X[m:]).fill_diagonal_(0.0), bandwidth)
    return gaussian(among, bandwidth) + noises[:m, :m], with_taken, among_taken + noises[m:, m:]


def _greedy(
    among: Float[Tensor, "m m"],
    with_taken: Float[Tensor, "l m"],
    among_taken: Float[Tensor, "l l"],
    n_candidates: int,
    n: int,
    lines: list[Tensor] | None = None,
) -> tuple[Int[Tensor, "n"], Float[Tensor, "n"]]:
    """n of the first rows, each with the largest ln v(row | taken) - ln v(row | all other remaining rows), and these.

    `lines` takes those of all rows before each pick.

    P is the covariance given the taken rows, J the inverse covariance of the remaining ones: 1/J_xx is
    v(x | the others). Taking x is the same step for both, P - p pᵀ/P_xx and J - j jᵀ/J_xx. So each pick is a step of a
    pivoted Cholesky factorisation of P and of J: a column of either is updated when it is needed, the
    diagonals always. O(m³ + l³) once, O(m t) for the t-th pick.
    """
    J = torch.cholesky_inverse(torch.linalg.cholesky(among))
    P = among
    if len(among_taken):
        half = torch.linalg.solve_triangular(torch.linalg.cholesky(among_taken), with_taken, upper=False)
        P = among - half.T @ half
    steps = torch.zeros((2, n, len(P)), dtype=P.dtype, device=P.device)
    diagonals = torch.stack([P.diagonal(), J.diagonal()])
    tiny = torch.finfo(P.dtype).tiny
    is_open = torch.arange(len(P), device=P.device) < n_candidates
    order = torch.empty(n, dtype=torch.int64, device=P.device)
    scores = torch.empty(n, dtype=P.dtype, device=P.device)
    for t in range(n):
        gains = diagonals.clamp_min(tiny).log().sum(0).masked_fill(~is_open, -torch.inf)
        x = (gains >= gains.max() - TIE).nonzero()[0, 0]
        if lines is not None:
            lines.append(gains)
        order[t], scores[t] = x, gains[x]
        is_open[x] = False
        for matrix, made, diagonal in zip((P, J), steps, diagonals, strict=True):
            column = matrix[x] - made[:t, x] @ made[:t]
            made[t] = column / column[x].clamp_min(tiny).sqrt()
            diagonal -= made[t].square()
    return order, scores
