"""BAIT: rows that reduce the last layer's uncertainty over the whole pool most, by Fisher information."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_number
from understudy.core.blocks import rows_that_fit
from understudy.core.linalg import inverse
from understudy.errors import UnderstudyError
from understudy.strategies.available_memory import in_gib, require_memory
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.view import Picks, PoolView, Utilities, check_subset_size

MAX_MATRIX_ROWS: Final = 5_000  # of the largest matrix that is inverted
BYTES_PER_NUMBER: Final = 8
NUMBERS_PER_BLOCK: Final = 1 << 18  # in memory at a time while rows are read
# Once the trace has shrunk to this share, it is recomputed, because the subtractions have cost precision.
REFRESH_BELOW: Final = 1e-4


@dataclass(frozen=True)
class Bait:
    """Rows whose Fisher information, added to that of the labelled ones, reduces tr(M⁻¹ F) most; F is the pool's."""

    regularisation: float = 1.0
    oversampling: float = 2.0
    subset_size: int | None = None

    def __post_init__(self) -> None:
        check_number("regularisation", self.regularisation, above=0)
        check_number("oversampling", self.oversampling, least=1)
        check_subset_size(self.subset_size)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden", "probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.subset_size, rng)
        fisher = self.fisher_of(view)
        classes = fisher.probs.shape[1]  # one in the binary variant
        require_memory(
            2 * classes**2 * BYTES_PER_NUMBER * len(rows),
            f"bait keeps two matrices of {classes:,} x {classes:,} for each of {len(rows):,} rows, which takes",
            "pass a smaller subset_size, or use bait_binary",
            view.device,
        )
        return _choose(fisher, view.taken, rows, n, self.regularisation, self.oversampling)

    def fisher_of(self, view: PoolView) -> "Fisher":
        width, classes = view.hidden.shape[1], view.n_classes
        if width * classes > MAX_MATRIX_ROWS:
            raise UnderstudyError(
                f"bait inverts a matrix of {width:,} hidden outputs x {classes:,} classes = {width * classes:,} rows, "
                f"more than {MAX_MATRIX_ROWS:,}; it and what is made of it would take "
                f"{in_gib(5 * BYTES_PER_NUMBER * (width * classes) ** 2)} of memory; use bait_binary"
            )
        return Fisher(view.hidden, view.probs, class_roots)


class BaitBinary(Bait):
    """BAIT with the most probable class against the rest: one factor √(p (1 - p)) h per row, and no classes."""

    def fisher_of(self, view: PoolView) -> "Fisher":
        return Fisher(view.hidden, view.probs.amax(1, keepdim=True), binary_roots)


# -- the information of a row ---------------------------------------------------------------------------------


def class_roots(probs: Float[Tensor, "b c"]) -> Float[Tensor, "b c c"]:
    """B with BᵀB = diag(p) - p pᵀ: its rows are √p_y (e_y - p)."""
    probs = probs / probs.sum(1, keepdim=True)
    return probs.sqrt()[:, :, None] * (torch.eye(probs.shape[1]).to(probs) - probs[:, None])


def binary_roots(best: Float[Tensor, "b 1"]) -> Float[Tensor, "b 1 1"]:
    """√(p (1 - p)) of the most probable class."""
    return (best * (1 - best)).clamp_min(0).sqrt()[:, :, None]


@dataclass(frozen=True, eq=False)
class Fisher:
    """Every row's Fisher information VᵀV, where V = B ⊗ h has c rows and c d columns. Only h and p are stored, not V.

    `roots` computes B from p: (c, c), or (1, 1) in the binary variant.
    """

    hidden: Float[Tensor, "n d"]
    probs: Float[Tensor, "n c"]
    roots: Callable[[Tensor], Tensor]
    scale: float = 1.0  # of V
    numbers_per_block: int | None = None  # None: NUMBERS_PER_BLOCK

    @property
    def size(self) -> int:
        return self.hidden.shape[1] * self.probs.shape[1]

    def blocks(self, rows: Int[Tensor, "m"]) -> tuple[Int[Tensor, "_"], ...]:
        """The rows in blocks that fit into memory together with everything computed from them."""
        return torch.split(rows, rows_that_fit(self.budget, self.size + 4 * self.probs.shape[1] ** 2))

    @property
    def budget(self) -> int:
        return self.numbers_per_block or NUMBERS_PER_BLOCK

    def factors(self, rows: Int[Tensor, "b"]) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b c c"]]:
        """h and B in float64."""
        return self.hidden[rows].double(), self.scale * self.roots(self.probs[rows].double())

    def total(self, rows: Int[Tensor, "m"]) -> Float[Tensor, "w w"]:
        """Σ VᵀV over these rows, in O(m c² d²). It consists of c x c blocks, each Σ (BᵀB)_ab h hᵀ."""
        d, c = self.hidden.shape[1], self.probs.shape[1]
        F = torch.zeros(c, d, c, d, dtype=torch.float64, device=self.hidden.device)
        for block in self.blocks(rows):
            h, B = self.factors(block)
            A = B.mT @ B
            for a in range(c):
                weighted = (A[:, a, a:, None] * h[:, None]).flatten(1)  # (b, (c - a) d)
                F[a, :, a:] += (h.T @ weighted).view(d, c - a, d)
        for a in range(c):
            F[a + 1 :, :, a] = F[a, :, a + 1 :].permute(1, 2, 0)
        return F.view(c * d, c * d)

    def forms(self, rows: Int[Tensor, "m"], K: Float[Tensor, "w w"]) -> Float[Tensor, "m c c"]:
        """V K Vᵀ for each of these rows and a symmetric K, through its blocks hᵀ K_ab h, in O(m c² d²)."""
        d, c = self.hidden.shape[1], self.probs.shape[1]
        S = torch.empty(len(rows), c, c, dtype=torch.float64, device=self.hidden.device)
        blocks, parts = self.blocks(rows), torch.split(S, len(self.blocks(rows)[0]))
        for a in range(c):
            across = K.view(c, d, c, d)[a, :, a:].reshape(d, -1)
            for block, part in zip(blocks, parts, strict=True):
                h = self.hidden[block].double()
                form = ((h @ across).view(len(h), c - a, d) @ h[:, :, None])[:, :, 0]
                part[:, a, a:] = part[:, a:, a] = form
        for part, (_, B) in zip(parts, map(self.factors, blocks), strict=True):
            part.copy_(B @ part @ B.mT)
        return S

    def factor(self, row: int) -> Float[Tensor, "c w"]:
        """V of one row."""
        h, B = self.factors(torch.tensor([row], device=self.hidden.device))
        return (B[0, :, :, None] * h[0]).flatten(1)


# -- adding and removing --------------------------------------------------------------------------------------


class Design:
    """M = Σ VᵀV of the chosen rows, and the change of tr(M⁻¹ F) if each candidate were added or removed.

    One step is a low-rank update of M⁻¹ and of G = M⁻¹ F M⁻¹. With it, V M⁻¹ Vᵀ and V G Vᵀ of all candidates are
    updated rather than recomputed: O(m c² (c + d)) instead of O(m c² d²), two products with the m rows.
    """

    def __init__(
        self,
        fisher: Fisher,
        rows: Int[Tensor, "m"],
        M: Float[Tensor, "w w"],
        F: Float[Tensor, "w w"],
        sign: Literal[1, -1],
        refresh_below: float = REFRESH_BELOW,
    ) -> None:
        self.fisher, self.rows, self.M, self.F, self.sign = fisher, rows, M, F, sign
        self.refresh_below = refresh_below
        self.is_open = torch.ones_like(rows, dtype=torch.bool)
        self._begin()

    def _begin(self) -> None:
        self.S = self.T = torch.empty(0)  # free the old ones first: memory would not hold both
        self.M_inv = inverse(self.M)
        self.G = self.M_inv @ self.F @ self.M_inv
        self.S = self.fisher.forms(self.rows, self.M_inv)
        self.T = self.fisher.forms(self.rows, self.G)
        self.trace_before = float(self.G.trace())

    def changes(self) -> Float[Tensor, "m"]:
        """By how much tr(M⁻¹ F) falls if a candidate is added; negative if it is removed."""
        r = self.S.shape[1]
        if r == 1:
            changes = (self.T / (self.sign + self.S))[:, 0, 0]
        else:
            unit = self.sign * torch.eye(r).to(self.S)
            parts = zip(
                *(torch.split(forms, self.fisher.budget // r**2 + 1) for forms in (self.S, self.T)), strict=True
            )
            changes = torch.cat([torch.linalg.solve(unit + S, T).diagonal(dim1=1, dim2=2).sum(1) for S, T in parts])
        return torch.where(self.is_open, changes, -torch.inf)

    def step(self, place: int) -> float:
        """Add or remove this candidate; returns the change of the trace."""
        V = self.fisher.factor(int(self.rows[place]))
        U, W = self.M_inv @ V.T, self.G @ V.T  # (w, r)
        K = torch.linalg.inv(self.sign * torch.eye(len(V)).to(V) + V @ U)
        Q = V @ W
        UK = U @ K
        self.M.addmm_(V.T, V, alpha=self.sign)
        self.M_inv.addmm_(UK, U.T, alpha=-1)
        # (M⁻¹ - U K Uᵀ) F (M⁻¹ - U K Uᵀ), with F U = M W and Uᵀ F U = Q
        self.G.addmm_(UK, W.T, alpha=-1).addmm_(W, UK.T, alpha=-1).addmm_(UK @ Q, UK.T)
        self.is_open[place] = False
        if float(self.G.trace()) < self.refresh_below * self.trace_before:
            self._begin()
        else:
            self._follow(U, W, K, Q)
        return float((Q * K.T).sum())

    def _follow(
        self, U: Float[Tensor, "w r"], W: Float[Tensor, "w r"], K: Float[Tensor, "r r"], Q: Float[Tensor, "r r"]
    ) -> None:
        """Apply the same update to every candidate."""
        size = len(self.fisher.blocks(self.rows)[0])
        U, W = self._by_feature(U), self._by_feature(W)
        for rows, S, T in zip(*(torch.split(all_rows, size) for all_rows in (self.rows, self.S, self.T)), strict=True):
            h, B = self.fisher.factors(rows)
            X = B @ (h @ U).view(len(h), B.shape[2], -1)  # V M⁻¹ V'ᵀ, (b, r, r)
            Y = B @ (h @ W).view(len(h), B.shape[2], -1)  # V G V'ᵀ
            XK = X @ K
            S -= XK @ X.mT
            T -= XK @ Y.mT + Y @ XK.mT - XK @ Q @ XK.mT

    def _by_feature(self, U: Float[Tensor, "w r"]) -> Float[Tensor, "d _"]:
        """From (c d, r) to (d, c r)."""
        d = self.fisher.hidden.shape[1]
        return U.view(-1, d, U.shape[1]).transpose(0, 1).flatten(1)


def _choose(
    fisher: Fisher,
    taken: Int[Tensor, "l"],
    rows: Int[Tensor, "m"],
    n: int,
    regularisation: float,
    oversampling: float,
) -> Picks:
    """Forward selection of more rows than needed, then backward elimination. Ties go to the lowest row."""
    forward = _start_design(fisher, taken, rows, n, regularisation)
    chosen, gains = [], []
    for _ in range(min(math.ceil(oversampling * n), len(rows))):
        chosen.append(int(forward.changes().argmax()))
        gains.append(forward.step(chosen[-1]))
    kept = torch.arange(len(chosen), device=rows.device)
    if len(chosen) > n:
        places = rows[torch.tensor(chosen, device=rows.device)]
        backward = Design(forward.fisher, places, forward.M, forward.F, -1)
        for _ in range(len(chosen) - n):
            # among ties, the one added last
            backward.step(len(chosen) - 1 - int(backward.changes().flip(0).argmax()))
        kept = backward.is_open.nonzero()[:, 0]
    order = torch.tensor(chosen, device=rows.device)[kept]

    def all_gains() -> Utilities:
        """By how much each row would lower the trace if it joined the earlier picks; no row is eliminated here."""
        design = _start_design(fisher, taken, rows, n, regularisation)
        lines = []
        for place in order.tolist():
            lines.append(design.changes())
            design.step(place)
        return utilities(rows, torch.stack(lines))

    return picks(rows[order], torch.tensor(gains, dtype=torch.float64, device=rows.device)[kept], all_gains)


def _start_design(
    fisher: Fisher, taken: Int[Tensor, "l"], rows: Int[Tensor, "m"], n: int, regularisation: float
) -> Design:
    """The design of the taken rows, to which some of these rows are to be added."""
    everybody = torch.arange(len(fisher.hidden), device=rows.device)
    F = fisher.total(everybody) / len(everybody)
    M = regularisation * torch.eye(fisher.size).to(F)
    if len(taken):  # their mean, weighted by their share: n taken / (n taken + n new)
        M += fisher.total(taken) / (len(taken) + n)
    return Design(replace(fisher, scale=math.sqrt(n / (len(taken) + n))), rows, M, F, 1)
