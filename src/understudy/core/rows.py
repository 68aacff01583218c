"""A block of pool rows in memory and their state, updated by steps of a few small vectors.

What its methods are for, and what the engine may rely on, is said in `protocol.py`.
"""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core import utilities
from understudy.core.blocks import ROWS_PER_BLOCK, block_slices
from understudy.core.features import Features
from understudy.core.kernels import Kernel
from understudy.core.means import CLASSES_AT_ONCE, WAVES, Entropies, Means, margin_doubt, means_for
from understudy.core.options import Options
from understudy.core.posterior import InfluenceStep, MeanStep
from understudy.core.protocol import SMALLEST_FACTOR, USUAL_ROWS, Extra, Leaders, MostTaught, Reach, Taken, Usual
from understudy.core.utilities import LANES, Moments

STEPS_PER_PASS = 16
FLOOR = {torch.float32: 1e-6, torch.float64: 1e-8}  # lower bound of ν: below it, rounding dominates


class Rows:
    """Rows of the pool on one device: the local implementation of `PoolRows`.

    `is_open`: still to be predicted (counted in M). `is_closed`: may not be asked for. `is_in_pool`: not dropped.
    These masks follow the ledger (`Ledger.masks`); they are here because a choice needs them on the device.
    """

    means: Means

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
        self.n_classes = 0
        n, device = len(W), W.device
        self.stats = torch.zeros((n, 4), dtype=torch.float64, device=device)  # ν, λ, calibration factor of the doubt, ω
        self.stats[:, 1], self.stats[:, 3] = lam, 1.0
        self._set_noise(0)
        self.var, self.h = torch.zeros((2, n), dtype=torch.float64, device=device)  # ν + g, and h
        self._set_masks(torch.ones((3, n), dtype=torch.bool, device=device))
        self._sampled = slice(0, None, max(1, n // USUAL_ROWS))

    @classmethod
    def from_whitened(
        cls,
        options: Options,
        of_features: Float[Tensor, "n k"] | None,
        W: Float[Tensor, "n k"],
        stats: Float[Tensor, "n 4"],
    ) -> "Rows":
        """Rows that are already whitened."""
        rows = cls.over(options, of_features, W, stats[:, 1])
        rows.stats = stats
        return rows

    def __deepcopy__(self, memo: dict[int, Any]) -> "Rows":
        """A copy that shares what is only ever replaced: not the whitened rows if a training whitens them anew."""
        shared = self.of_features if self.options.sees_predictions else self.W
        memo[id(shared)] = shared
        made = Rows.__new__(Rows)
        memo[id(self)] = made
        made.__dict__.update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return made

    @classmethod
    def over(
        cls,
        options: Options,
        of_features: Float[Tensor, "n k"] | None,
        W: Float[Tensor, "n k"],
        lam: Float[Tensor, "n"],
    ) -> "Rows":
        """Rows over what `compute_rows` has filled in, wherever that memory is: all but W is small and kept here."""
        rows = cls.__new__(cls)
        rows._begin(options, of_features, W, lam)
        return rows

    def __len__(self) -> int:
        return len(self.W)

    @property
    def device(self) -> torch.device:
        return self.W.device

    @property
    def dtype(self) -> torch.dtype:
        return self.W.dtype

    @property
    def n_basis(self) -> int:
        return self.W.shape[1]

    @property
    def is_recordable(self) -> bool:
        return self.W.is_cuda

    def turn(self) -> int:
        return self.means.turn

    def set_turn(self, turn: int) -> None:
        self.means.turn = turn

    def lie_at(self, first: int, n: int) -> None:
        step = max(1, n // USUAL_ROWS)
        self._sampled = slice(-first % step, None, step)

    def _set_masks(self, flags: Bool[Tensor, "3 n"]) -> None:
        """Set the masks open, askable, in the pool. Utilities and `is_closed` are padded to a multiple of `LANES`."""
        n = flags.shape[1]
        padded = -(-n // LANES) * LANES
        self.is_open, askable, self.is_in_pool = flags.clone()
        self.is_closed = torch.ones(padded, dtype=torch.bool, device=flags.device)
        self.is_closed[:n] = ~askable
        self._count_pool()
        self.measures = torch.zeros((2, padded), dtype=torch.float64, device=flags.device)

    def set_masks(
        self, is_open: Bool[Tensor, "n"], is_askable: Bool[Tensor, "n"], is_in_pool: Bool[Tensor, "n"]
    ) -> None:
        self._set_masks(torch.stack([is_open, is_askable, is_in_pool]).to(self.W.device))

    def _count_pool(self) -> None:
        self.n_in_pool = int(self.is_in_pool.sum())
        self.counts = None if self.n_in_pool == len(self.is_in_pool) else self.is_in_pool.double()

    def drop(self, row: Int[Tensor, "1"]) -> None:
        self.is_open[row] = self.is_in_pool[row] = False
        self._count_pool()

    def undrop(self, row: Int[Tensor, "1"]) -> None:
        self.is_open[row] = self.is_in_pool[row] = True
        self._count_pool()

    def set_askable(self, rows: Sequence[int], is_askable: Sequence[bool]) -> None:
        index = torch.tensor(rows, dtype=torch.int64, device=self.is_closed.device)
        self.is_closed[index] = ~torch.tensor(is_askable, dtype=torch.bool, device=self.is_closed.device)

    def open(self, row: Int[Tensor, "1"]) -> None:
        self.is_open[row] = True

    def close(self, row: Int[Tensor, "1"]) -> None:
        self.is_open.index_fill_(0, row, False)
        self.is_closed.index_fill_(0, row, True)

    # -- at each training ---------------------------------------------------------------------------------

    def anchor(self, kernel: Kernel, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        self._whiten(kernel, probs, 0)
        self.adopt(probs, has_learner)
        self._weigh(probs, 0)

    def row_sum(self) -> tuple[Float[Tensor, "k"], int]:
        total = torch.zeros(self.n_basis, dtype=torch.float64, device=self.device)
        for rows in self._blocks(len(self)):
            total += self.is_in_pool[rows].double() @ self.W[rows].double()
        return total, self.n_in_pool

    def adopt(self, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        self._set_means(means_for(probs, self.options, has_learner))

    def add_class(self) -> None:
        probs = self.means.probs
        self._set_probs(torch.cat([probs, torch.zeros_like(probs[:, :1])], 1))

    def _set_probs(self, probs: Float[Tensor, "n c"]) -> None:
        """Replace the predictions of the means alone; the correction restarts at zero."""
        self._set_means(self.means.after(probs))

    def extend(self, kernel: Kernel, features: Features, probs: Float[Tensor, "b c"] | None) -> None:
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
            self._set_probs(torch.cat([self.means.probs, probs]))
            self._weigh(probs, old)
        self.lie_at(0, len(self))

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
        self.means, self.n_classes = means, means.probs.shape[1]
        self.stats[:, 2] = means.scale

    def gram(self) -> Float[Tensor, "k k"]:
        total = self._zeros()
        for rows in self._blocks(len(self)):
            w = self.W[rows].double() * (self.stats[rows, 3:].sqrt() * self.is_open[rows, None])
            total.addmm_(w.T, w)
        return total

    def _zeros(self) -> Float[Tensor, "k k"]:
        return torch.zeros((self.W.shape[1],) * 2, dtype=torch.float64, device=self.W.device)

    def precision(self, rows: Int[Tensor, "q"]) -> Float[Tensor, "k k"]:
        total = self._zeros()
        for some in torch.split(rows, ROWS_PER_BLOCK[self.W.device.type]):
            w = self.W[some].double()
            total.addmm_(w.T, w / self.stats[some, :1])
        return total

    def refresh(self, R: Float[Tensor, "k k"], M: Float[Tensor, "k k"], first: int = 0) -> None:
        for block in self._blocks(len(self) - first):
            rows = slice(first + block.start, first + block.stop)
            w = self.W[rows].double()
            Rw = w @ R
            self.var[rows] = (Rw * w).sum(1) + self.stats[rows, 0]
            self.h[rows] = ((Rw @ M) * Rw).sum(1)

    def reset_means(self, B: Float[Tensor, "k c"]) -> None:
        self.means.reset(self.W, B)

    def smallest_variance(self) -> Float[Tensor, ""]:
        return self.var.min()

    def largest_doubt(self) -> Float[Tensor, ""]:
        return self.means.uncertainty().abs().max()

    def keep_influence(self) -> None:
        self._kept = self.var.clone(), self.h.clone()

    def take_back_influence(self) -> None:
        self.var, self.h = self._kept
        del self._kept

    def _blocks(self, n: int) -> Iterator[slice]:
        return block_slices(n, ROWS_PER_BLOCK[self.W.device.type])

    # -- at each label ------------------------------------------------------------------------------------

    def apply(self, influence: Sequence[InfluenceStep], mean: Sequence[MeanStep]) -> None:
        """Apply these steps: one pass over the rows for up to `STEPS_PER_PASS` of them."""
        for first in range(0, max(len(influence), len(mean)), STEPS_PER_PASS):
            some = slice(first, first + STEPS_PER_PASS)
            self._apply(influence[some], mean[some])

    def catch_up(self, exact: bool) -> None:
        if exact or self.means.behind_by() > self.means.tolerance:
            self.means.catch_up()

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

    def take(self, rows: Int[Tensor, "q"]) -> Taken:
        return self._taken(rows, self.is_open[rows], self._carried(rows))

    def _taken(self, rows: Int[Tensor, "q"], is_open: Tensor | None, carried: Tensor | None) -> Taken:
        return Taken(self.W[rows].double(), self.means.probs[rows].double(), self.stats[rows], is_open, carried)

    def _carried(self, rows: Int[Tensor, "q"]) -> Float[Tensor, "q"]:
        return self.h[rows] / self.var[rows]

    def mean(self, B: Float[Tensor, "k c"]) -> Float[Tensor, "n c"]:
        return self.means.probs + self.W @ B.to(self.dtype)

    def doubt(self) -> Float[Tensor, "n"]:
        return self.means.uncertainty()

    def terms(self) -> Float[Tensor, "2 n"]:
        return self.measures[:, : len(self)]

    def products(self, V: Float[Tensor, "k q"]) -> Float[Tensor, "n q"]:
        out = torch.empty((len(self), V.shape[1]), dtype=torch.float64, device=self.device)
        for some in self._blocks(len(self)):
            torch.mm(self.W[some].double(), V, out=out[some])
        return out

    def state(self, whole: bool) -> dict[str, Tensor]:
        saved = {"probs": self.means.probs, "var": self.var, "h": self.h, "omega": self.stats[:, 3]}
        if whole:
            saved |= {"W": self.W, "stats": self.stats}
            if self.of_features is not None:
                saved["of_features"] = self.of_features
        return saved

    def restore(self, saved: Mapping[str, Tensor], B: Float[Tensor, "k c"]) -> None:
        if "omega" in saved:
            self.stats[:, 3] = saved["omega"]
        self.var, self.h = saved["var"], saved["h"]
        self.reset_means(B)

    def changing_tensors(self) -> dict[str, Tensor]:
        masks = {"is_open": self.is_open, "is_closed": self.is_closed}
        return {"var": self.var, "h": self.h, **masks, **self.means.tensors()}

    def slow_or_lost(self) -> Sequence[str]:
        return ()

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
        return utilities.moments(self.terms(), self.counts, self.n_in_pool)

    def best(
        self,
        weights: Float[Tensor, "2"] | None,
        q: int,
        nearness: float,
        among: Bool[Tensor, "n"] | None = None,
        extras: Collection[Extra] = (),
        at_least: Float[Tensor, ""] | None = None,
    ) -> Leaders:
        if self.options.mode == "lookahead":
            assert weights is not None
            u = (self.measures * weights[:, None]).sum(0).nan_to_num(nan=-torch.inf)
        else:
            u = utilities.combine(self.measures, weights)
        u.masked_fill_(self.closed_outside(among), -torch.inf)
        rows, values = utilities.leaders(u, q, nearness, at_least)
        rows = rows.clamp_max_(len(self) - 1)  # beyond the end is only padding, which is -inf
        is_open = self.is_open[rows] if self.options.exclude_self else None
        return Leaders(
            rows,
            values,
            self._taken(rows, is_open, self._carried(rows) if "carried" in extras else None),
            measures=self.measures[:, rows] if self.options.mode == "lookahead" or "usual" in extras else None,
            smallest=self.smallest_variance() if "smallest" in extras else None,
            usual=self.usual() if "usual" in extras else None,
        )

    def usual(self) -> Usual:
        some = self._sampled
        askable = self.terms()[:, some][:, ~self.is_closed[: len(self)][some]].clamp_min(SMALLEST_FACTOR)
        count = askable.shape[1]
        return Usual(askable.log().mean(1) if count else askable.new_zeros(2), count)

    def most_taught(
        self, p: Float[Tensor, "k"], d: Float[Tensor, "1"], row: int | None, q: int, noteworthy: float
    ) -> MostTaught:
        shares = self.covariances(p[None])[0].double().square() / (d * self.variance())
        shares = torch.where(self.is_open, shares, 0.0)
        if row is not None:
            shares[row] = 0.0
        top = shares.topk(min(q, len(self)))
        return MostTaught(top.indices, top.values, int((shares >= noteworthy).sum()))

    def reaching(self, among: Bool[Tensor, "n"] | None, by_influence: int, by_reach: int) -> Reach:
        n = len(self)
        closed = self.closed_outside(among)[:n]
        reach = (self.h.clamp_min(0.0).sqrt() / self.var).masked_fill(closed, -torch.inf)
        influence = self.measures[0, :n].masked_fill(closed, -torch.inf)
        left = int((~closed).sum())
        first, second = influence.topk(min(by_influence, left)), reach.topk(min(by_reach, left))
        return Reach(first.indices, first.values, second.indices, second.values)

    def open_doubt(self) -> Float[Tensor, ""]:
        return self.means.uncertainty()[self.is_open].sum()

    def look_ahead(self, rows: Int[Tensor, "q"], falls: Float[Tensor, "q"]) -> None:
        if not len(rows):
            self.measures[1] = torch.nan
        self.measures[1, rows] = falls

    def tried_moments(self) -> Moments:
        tried = self.is_in_pool & ~self.measures[1, : len(self)].isnan()
        return utilities.moments(self.terms()[:, tried])

    def closed_outside(self, among: Bool[Tensor, "n"] | None) -> Bool[Tensor, "padded"]:
        """Rows that may not be asked for, padded like `is_closed`; with `among`, also all that are not among these."""
        if among is None:
            return self.is_closed
        closed = self.is_closed.clone()
        closed[: len(among)] |= ~among
        return closed

    def influence(self) -> Float[Tensor, "n"]:
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
        ratios = self.covariances(p) / d.to(self.W.dtype)  # (q, n)
        rows, now = self.is_open.nonzero()[:, 0], self.means
        assert isinstance(now, Entropies)  # only the paper's method looks ahead
        return utilities.expected_entropy(now.Z[:, rows], now.scale[rows], ratios[:, rows], means, probs, now.link)


def _rows_of(
    kernel: Kernel, features: Features, options: Options
) -> tuple[Float[Tensor, "n k"] | None, Float[Tensor, "n k"], Float[Tensor, "n"]]:
    """Input kernel (if the kernel includes predictions), whitened rows, and λ, of every row."""
    device, n, k = kernel.U.device, len(features), len(kernel.U)
    W = torch.empty((n, k), dtype=options.torch_dtype, device=device)
    lam = torch.zeros(n, dtype=torch.float64, device=device)
    of_features = torch.empty_like(W) if options.sees_predictions else None
    if of_features is None:
        compute_rows(kernel, features, W, lam)
    else:
        compute_rows(kernel, features, of_features)
    return of_features, W, lam


def compute_rows(
    kernel: Kernel, features: Features, out: Float[Tensor, "n k"], lam: Float[Tensor, "n"] | None = None
) -> None:
    """Fill in the input kernel of every row or, with `lam`, the whitened rows and λ.

    Rows that never change are whitened here in float64: rounding the kernel's values first would lose precision.
    """
    for first, values in kernel.of_blocks(features.blocks(torch.float64, out.device)):
        here = slice(first, first + len(values))
        if lam is None:
            out[here] = values
        else:
            out[here], lam[here] = kernel.whiten(values)


def bytes_besides_rows(n_classes: int, options: Options) -> int:
    """Bytes of memory that a row takes besides its k numbers, at the moment when most is needed: a training.

    Float64: ν, λ, scale, ω, ν + g, h, two measures, three of its doubt, and nine numbers that come and go. Predictions
    and means are there twice, the old ones and the new; where changes are deferred, 32 of them and what is tracked.
    """
    size = options.torch_dtype.itemsize
    deferred = size * (WAVES + 6) + 20 if n_classes > CLASSES_AT_ONCE else 0
    return 8 * 20 + 16 + 2 * deferred + n_classes * (4 * size + 1)
