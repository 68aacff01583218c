"""A block of pool rows and their state, updated by steps of a few small vectors.

A pick needs only this much of a block: `apply` takes the `2k + c` numbers of a label, `measure` and `moments` compute
the measures and their moments, `best` returns the best rows, `take` those rows in full, `close` removes one. So a block
may live on any device, and several may share a pool (`tests/core/test_rows.py` does that). Anchoring, retracting and
reading out still access its tensors directly; moving a block to another machine would have to change that.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core import utilities
from understudy.core.blocks import ROWS_PER_BLOCK, block_slices
from understudy.core.features import Features
from understudy.core.kernels import Kernel
from understudy.core.means import Entropies, Means, margin_doubt, means_for
from understudy.core.options import Options
from understudy.core.posterior import InfluenceStep, MeanStep
from understudy.core.utilities import LANES, Moments

STEPS_PER_PASS = 16
FLOOR = {torch.float32: 1e-6, torch.float64: 1e-8}  # lower bound of ν: below it, rounding dominates


class Rows:
    """Rows of the pool on one device.

    `is_open`: still to be predicted (counted in M). `is_closed`: may not be asked for. `is_in_pool`: not dropped.
    These masks follow the ledger (`Ledger.masks`); they are here because a choice needs them on the device.
    """

    def __init__(self, kernel: Kernel, options: Options, features: Features) -> None:
        """Compute the input kernel of every row, or the whitened rows if the kernel ignores predictions."""
        self._begin(options, *_rows_of(kernel, features, options))

    def _begin(
        self,
        options: Options,
        of_features: Float[Tensor, "n k"] | None,
        W: Float[Tensor, "n k"],
        lam: Float[Tensor, "n"],
    ) -> None:
        self.options, self.noise, self.of_features, self.W = options, options.noise, of_features, W
        n, device = len(W), W.device
        self.stats = torch.zeros((n, 4), dtype=torch.float64, device=device)  # ν, λ, calibration factor of the doubt, ω
        self.stats[:, 1], self.stats[:, 3] = lam, 1.0
        self._set_noise(0)
        self.var, self.h = torch.zeros((2, n), dtype=torch.float64, device=device)  # ν + g, and h
        self._set_masks(torch.ones((3, n), dtype=torch.bool, device=device))
        self.middle = torch.zeros(W.shape[1], dtype=torch.float64, device=device)  # the pool's mean row, at a rebuild

    @classmethod
    def from_whitened(
        cls,
        options: Options,
        of_features: Float[Tensor, "n k"] | None,
        W: Float[Tensor, "n k"],
        stats: Float[Tensor, "n 4"],
    ) -> "Rows":
        """Rows that are already whitened."""
        rows = cls.__new__(cls)
        rows._begin(options, of_features, W, stats[:, 1])
        rows.stats = stats
        return rows

    def __len__(self) -> int:
        return len(self.W)

    def _set_masks(self, flags: Bool[Tensor, "3 n"]) -> None:
        """Set the masks open, askable, in the pool. Utilities and `is_closed` are padded to a multiple of `LANES`."""
        n = flags.shape[1]
        padded = -(-n // LANES) * LANES
        self.is_open, askable, self.is_in_pool = flags.clone()
        self.is_closed = torch.ones(padded, dtype=torch.bool, device=flags.device)
        self.is_closed[:n] = ~askable
        self._count_pool()
        self.measures = torch.zeros((2, padded), dtype=torch.float64, device=flags.device)

    def set_masks(self, is_open: Tensor, is_askable: Tensor, is_in_pool: Tensor) -> None:
        self._set_masks(torch.stack([is_open, is_askable, is_in_pool]).to(self.W.device))

    def _count_pool(self) -> None:
        self.n_in_pool = int(self.is_in_pool.sum())
        self.counts = None if self.n_in_pool == len(self.is_in_pool) else self.is_in_pool.double()

    def drop(self, row: int) -> None:
        """Take a row out of the pool."""
        self.is_open[row] = self.is_in_pool[row] = False
        self._count_pool()

    def undrop(self, row: int) -> None:
        """Put a row back into the pool; the caller decides whether it is open."""
        self.is_in_pool[row] = True
        self._count_pool()

    def set_askable(self, rows: Sequence[int], is_askable: Sequence[bool]) -> None:
        """Set whether each of these rows may be asked for."""
        index = torch.tensor(rows, dtype=torch.int64, device=self.is_closed.device)
        self.is_closed[index] = ~torch.tensor(is_askable, dtype=torch.bool, device=self.is_closed.device)

    def close(self, row: Int[Tensor, "1"]) -> None:
        """Close a row that is about to be labelled: neither open nor askable."""
        self.is_open.index_fill_(0, row, False)
        self.is_closed.index_fill_(0, row, True)

    # -- at each training ---------------------------------------------------------------------------------

    def anchor(self, kernel: Kernel, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        """Start from these predictions. If the kernel includes them, every row is whitened again: O(nk²)."""
        self._whiten(kernel, probs, 0)
        self.adopt(probs, has_learner)
        self._weigh(probs, 0)

    def mean_row(self) -> Float[Tensor, "k"]:
        """Mean of the whitened rows in the pool."""
        total = torch.zeros(self.W.shape[1], dtype=torch.float64, device=self.W.device)
        for rows in self._blocks(len(self)):
            total += self.is_in_pool[rows].double() @ self.W[rows].double()
        return total / max(1, self.n_in_pool)

    def adopt(self, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        """Set predictions for which the rows are already whitened and weighted."""
        self._set_means(means_for(probs, self.options, has_learner))

    def set_probs(self, probs: Float[Tensor, "n c"]) -> None:
        """Replace the predictions of the means alone; the correction restarts at zero."""
        self._set_means(self.means.after(probs))

    def extend(self, kernel: Kernel, features: Features, probs: Float[Tensor, "b c"] | None) -> None:
        """Append rows, open and askable. The caller must refresh their g and h, and all means."""
        old, more = len(self), len(features)
        of_features, W, lam = _rows_of(kernel, features, self.options)
        flags = torch.stack([self.is_open, ~self.is_closed[:old], self.is_in_pool])
        if self.of_features is not None and of_features is not None:
            self.of_features = torch.cat([self.of_features, of_features])
        self.W = torch.cat([self.W, W])
        self.stats = torch.cat([self.stats, self.stats.new_zeros((more, 4))])
        self.stats[old:, 1], self.stats[old:, 3] = lam, 1.0
        self._set_noise(old)
        self.var, self.h = (torch.cat([values, values.new_zeros(more)]) for values in (self.var, self.h))
        self._set_masks(torch.cat([flags, flags.new_ones((3, more))], 1))
        if probs is not None:
            self._whiten(kernel, probs, old)
            self.set_probs(torch.cat([self.means.probs, probs]))
            self._weigh(probs, old)

    def _whiten(self, kernel: Kernel, probs: Float[Tensor, "b c"], first: int) -> None:
        if self.of_features is None:
            return
        for rows in self._blocks(len(probs)):
            here = slice(first + rows.start, first + rows.stop)
            self.W[here], self.stats[here, 1] = kernel.whiten(self.of_features[here], probs[rows])
        self._set_noise(first)

    def _set_noise(self, first: int) -> None:
        floor = FLOOR[self.W.dtype]
        self.stats[first:, 0] = (self.stats[first:, 1] + self.noise).clamp_min_(floor)

    def _weigh(self, probs: Float[Tensor, "b c"], first: int) -> None:
        """Set ω, the weight of each row: how undecided the learner's predictions are there."""
        if self.options.weighting != "margin" or self.options.floor is None:
            return
        for rows in self._blocks(len(probs)):
            here = slice(first + rows.start, first + rows.stop)
            self.stats[here, 3] = margin_doubt(probs[rows].double(), self.options.floor)

    def _set_means(self, means: Means) -> None:
        self.means = means
        self.stats[:, 2] = means.scale

    def gram(self) -> Float[Tensor, "k k"]:
        """M, over the rows that are open: Σ ω w wᵀ."""
        total = self._zeros()
        for rows in self._blocks(len(self)):
            w = self.W[rows].double() * (self.stats[rows, 3:].sqrt() * self.is_open[rows, None])
            total.addmm_(w.T, w)
        return total

    def known_beforehand(self) -> Float[Tensor, "k k"]:
        """The prior precision: before any label, the predictions are right on average over the pool, up to `bias`.

        It equals a pseudo-observation at the pool's mean row, with the predicted value and that variance.
        """
        if self.options.bias is None:
            return self._zeros()
        self.middle = self.mean_row()
        return torch.outer(self.middle, self.middle) / self.options.bias

    def _zeros(self) -> Float[Tensor, "k k"]:
        return torch.zeros((self.W.shape[1],) * 2, dtype=torch.float64, device=self.W.device)

    def precision(self, rows: Int[Tensor, "q"]) -> Float[Tensor, "k k"]:
        """Σ w wᵀ/ν over some rows."""
        total = self._zeros()
        for some in torch.split(rows, ROWS_PER_BLOCK[self.W.device.type]):
            w = self.W[some].double()
            total.addmm_(w.T, w / self.stats[some, :1])
        return total

    def refresh(self, R: Float[Tensor, "k k"], M: Float[Tensor, "k k"], first: int = 0) -> None:
        """Recompute g and h of every row from `first` on. O(nk²)."""
        for block in self._blocks(len(self) - first):
            rows = slice(first + block.start, first + block.stop)
            w = self.W[rows].double()
            Rw = w @ R
            self.var[rows] = (Rw * w).sum(1) + self.stats[rows, 0]
            self.h[rows] = ((Rw @ M) * Rw).sum(1)

    def _blocks(self, n: int) -> Iterator[slice]:
        return block_slices(n, ROWS_PER_BLOCK[self.W.device.type])

    # -- at each label ------------------------------------------------------------------------------------

    def apply(self, influence: Sequence[InfluenceStep], mean: Sequence[MeanStep]) -> None:
        """Apply these steps: one pass over the rows for up to `STEPS_PER_PASS` of them."""
        for first in range(0, max(len(influence), len(mean)), STEPS_PER_PASS):
            some = slice(first, first + STEPS_PER_PASS)
            self._apply(influence[some], mean[some])

    def covariances(self, p: Float[Tensor, "q k"]) -> Float[Tensor, "q n"]:
        """W p for a few vectors at once, in one pass over the rows."""
        p = p.to(self.W.dtype)
        if p.is_cuda:
            return p @ self.W.T
        # On CPUs a product with an odd number of columns takes up to three passes; with an even number, one.
        padded = torch.cat([p, torch.zeros_like(p[:1])]) if len(p) % 2 else p
        return (self.W @ padded.T).T[: len(p)]

    def _apply(self, influence: Sequence[InfluenceStep], mean: Sequence[MeanStep]) -> None:
        vectors: list[Tensor] = []
        place: dict[int, int] = {}
        for step in influence:
            place[id(step.p)] = len(vectors)
            vectors += [step.p, step.m]
        for change in mean:
            if id(change.p) not in place:
                place[id(change.p)] = len(vectors)
                vectors.append(change.p)
        products = self.covariances(torch.stack(vectors))
        for i, step in enumerate(influence):
            # One pass that casts and transposes; a plain cast would use only every second number of a cache line.
            s, r = products[2 * i : 2 * i + 2].to(torch.float64, memory_format=torch.contiguous_format, copy=True)
            self.var.addcmul_(s * step.inverse, s, value=-1.0)
            self.h.addcmul_(torch.addcmul(s * step.on_square, r, step.inverse, value=-2.0), s)
        for change in mean:
            self.means.shift(products[place[id(change.p)]].contiguous(), change.change)

    # -- reading ------------------------------------------------------------------------------------------

    def take(self, rows: Int[Tensor, "q"]) -> tuple[Float[Tensor, "q k"], Float[Tensor, "q c"], Float[Tensor, "q 4"]]:
        """Some rows in full, in float64: whitened rows, predictions, and (ν, λ, scale, ω)."""
        return self.W[rows].double(), self.means.probs[rows].double(), self.stats[rows]

    def posterior_covariances(self, R: Float[Tensor, "k k"], rows: Int[Tensor, "q"]) -> Float[Tensor, "n q"]:
        """Covariance wᵀ R w of every row with these rows, in float64."""
        out = torch.empty((len(self), len(rows)), dtype=torch.float64, device=self.W.device)
        Rw = R @ self.W[rows].double().T  # (k, q)
        for some in self._blocks(len(self)):
            torch.mm(self.W[some].double(), Rw, out=out[some])
        return out

    def measure(self) -> None:
        """Compute the two measures of every row that a mode combines.

        Influence is h/(ν + g), without the paper's factor c (the number of classes), which cancels in most modes.
        """
        n, mode = len(self), self.options.mode
        if mode == "variance":
            self.measures[0, :n] = self.variance()
        elif self.options.exclude_self:
            self.measures[0, :n] = self.influence()
        else:
            torch.div(self.h.clamp_min(0.0), self.var, out=self.measures[0, :n])
        if mode not in ("influence", "variance"):
            self.measures[1, :n] = self.means.uncertainty()

    def moments(self) -> Moments:
        """Moments of the measures over the pool."""
        return utilities.moments(self.measures[:, : len(self)], self.counts, self.n_in_pool)

    def best(
        self,
        weights: Float[Tensor, "2"] | None,
        q: int,
        nearness: float,
        among: Bool[Tensor, "n"] | None = None,
    ) -> tuple[Int[Tensor, "m"], Float[Tensor, "m"]]:
        """The q best askable rows and the lowest-numbered one near the best, with their utilities (-inf: none left).

        With `among`, of these rows only.
        """
        u = utilities.combine(self.measures, weights).masked_fill_(self.closed_outside(among), -torch.inf)
        rows, values = utilities.leaders(u, q, nearness)
        return rows.clamp_max_(len(self) - 1), values  # beyond the end is only padding, which is -inf

    def closed_outside(self, among: Bool[Tensor, "n"] | None) -> Bool[Tensor, "padded"]:
        """Rows that may not be asked for, padded like `is_closed`; with `among`, also all that are not among these."""
        if among is None:
            return self.is_closed
        closed = self.is_closed.clone()
        closed[: len(among)] |= ~among
        return closed

    def influence(self) -> Float[Tensor, "n"]:
        """How much a label of each row reduces the ω-weighted variance of the open rows, with or without itself."""
        fall = self.h
        if self.options.exclude_self:
            fall = fall - (self.var - self.stats[:, 0]).square_().mul_(self.is_open).mul_(self.stats[:, 3])
        return fall.clamp_min(0.0).div_(self.var)

    def variance(self) -> Float[Tensor, "n"]:
        g = (self.var - self.stats[:, 0]).clamp_min_(0.0)
        return g.add_(self.stats[:, 1]).add_(self.noise)

    def expected_entropy(
        self,
        p: Float[Tensor, "q k"],
        d: Float[Tensor, "q 1"],
        means: Float[Tensor, "q c"],
        probs: Float[Tensor, "q c"],
    ) -> Float[Tensor, "q"]:
        """Expected sum of calibrated entropies over the open rows, once each candidate's label is known."""
        ratios = self.covariances(p) / d.to(self.W.dtype)  # (q, n)
        rows, now = self.is_open.nonzero()[:, 0], self.means
        assert isinstance(now, Entropies)  # only the paper's method looks ahead
        return utilities.expected_entropy(now.Z[:, rows], now.scale[rows], ratios[:, rows], means, probs, now.link)


def _rows_of(
    kernel: Kernel, features: Features, options: Options
) -> tuple[Float[Tensor, "n k"] | None, Float[Tensor, "n k"], Float[Tensor, "n"]]:
    """Input kernel (if the kernel includes predictions), whitened rows, and λ, of every row.

    Rows that never change are whitened here in float64: rounding the kernel's values first would lose precision.
    """
    device, n, k = kernel.U.device, len(features), len(kernel.U)
    W = torch.empty((n, k), dtype=options.torch_dtype, device=device)
    lam = torch.zeros(n, dtype=torch.float64, device=device)
    of_features = torch.empty_like(W) if options.sees_predictions else None
    for first, block in features.blocks(torch.float64, device):
        here, values = slice(first, first + len(block)), kernel.of_features(block)
        if of_features is None:
            W[here], lam[here] = kernel.whiten(values)
        else:
            of_features[here] = values
    return of_features, W, lam
