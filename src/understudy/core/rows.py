"""A block of pool rows: what each knows of itself, brought up to date by steps of a few small vectors.

A block is told `2k + c` numbers per label and answers with the moments of its utilities and its best rows,
so it may live anywhere: here on the CPU or a GPU, elsewhere in a shard. Whoever stands in for `Rows`
provides its public methods; nothing else of it is used by the surrogate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core import utilities
from understudy.core.kernels import ProductKernel
from understudy.core.links import Link
from understudy.core.means import Means
from understudy.core.posterior import InfluenceStep, MeanStep
from understudy.core.utilities import Moments, Weights

BLOCK = {"cpu": 1024, "cuda": 16384}  # rows whitened or refreshed at a time
STEPS_AT_A_TIME = 16
FLOOR = {torch.float32: 1e-6, torch.float64: 1e-8}  # least ν: below it, rounding of a row outweighs it


@dataclass(frozen=True)
class RowData:
    """Some rows in full, in float64, for exact work on them."""

    w: Float[Tensor, "q k"]
    nu: Float[Tensor, "q"]
    lam: Float[Tensor, "q"]
    probs: Float[Tensor, "q c"]
    scale: Float[Tensor, "q"]
    is_open: Bool[Tensor, "q"]
    is_askable: Bool[Tensor, "q"]


class Rows:
    """Rows of the pool on one device.

    `is_open`: still to be understood (counted in M). `is_askable`: may be handed out. `is_in_pool`: not
    dropped.
    """

    def __init__(self, of_features: Float[Tensor, "n k"], noise: float) -> None:
        self.of_features = of_features
        self.noise = noise
        n, k = of_features.shape
        device, dtype = of_features.device, of_features.dtype
        self.W = torch.empty((n, k), dtype=dtype, device=device)
        self.nu, self.lam, self.g, self.h = torch.empty((4, n), dtype=torch.float64, device=device)
        self.is_open, self.is_askable, self.is_in_pool = torch.ones((3, n), dtype=torch.bool, device=device)
        self.all_in_pool = True
        self._surveyed: tuple[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.W)

    # -- at each training ---------------------------------------------------------------------------------

    def anchor(self, kernel: ProductKernel, probs: Float[Tensor, "n c"], link: Link, tolerance: float) -> None:
        """Whiten every row for these predictions, in place. O(nk²), once a training."""
        self._whiten(kernel, probs, 0)
        self.means = Means(probs, link, tolerance)

    def set_probs(self, probs: Float[Tensor, "n c"]) -> None:
        """Other predictions for the means alone; they start without a correction."""
        self.means = Means(probs, self.means.link, self.means.tolerance)

    def extend(
        self, kernel: ProductKernel, of_features: Float[Tensor, "b k"], probs: Float[Tensor, "b c"] | None
    ) -> None:
        """More rows at the end, open and askable. Their g and h, and all means, are for the caller to refresh."""
        old, more = len(self), len(of_features)
        self.of_features = torch.cat([self.of_features, of_features])
        self.W = torch.cat([self.W, torch.zeros_like(of_features)])
        self.nu, self.lam, self.g, self.h = (
            torch.cat([values, values.new_zeros(more)]) for values in (self.nu, self.lam, self.g, self.h)
        )
        self.is_open, self.is_askable, self.is_in_pool = (
            torch.cat([flags, flags.new_ones(more)]) for flags in (self.is_open, self.is_askable, self.is_in_pool)
        )
        if probs is not None:
            self._whiten(kernel, probs, old)
            self.set_probs(torch.cat([self.means.probs, probs]))

    def _whiten(self, kernel: ProductKernel, probs: Float[Tensor, "b c"], first: int) -> None:
        for rows in _blocks(len(probs), self.W.device):
            here = slice(first + rows.start, first + rows.stop)
            w, self.lam[here] = kernel.whitened(self.of_features[here], probs[rows])
            self.W[here] = w
            self.nu[here] = (self.lam[here] + self.noise).clamp_min_(FLOOR[self.W.dtype])

    def gram(self) -> Float[Tensor, "k k"]:
        """M, over the rows that are open."""
        total = torch.zeros((self.W.shape[1],) * 2, dtype=torch.float64, device=self.W.device)
        for rows in _blocks(len(self), self.W.device):
            w = self.W[rows].double() * self.is_open[rows, None]
            total.addmm_(w.T, w)
        return total

    def precision(self, rows: Int[Tensor, "q"]) -> Float[Tensor, "k k"]:
        """Σ w wᵀ/ν over some rows."""
        total = torch.zeros((self.W.shape[1],) * 2, dtype=torch.float64, device=self.W.device)
        for some in torch.split(rows, BLOCK[self.W.device.type]):
            w = self.W[some].double()
            total.addmm_(w.T, w / self.nu[some, None])
        return total

    def refresh(self, R: Float[Tensor, "k k"], M: Float[Tensor, "k k"], B: Float[Tensor, "k c"] | None) -> None:
        """g, h and (given B) the means of every row, from scratch. O(nk²)."""
        for rows in _blocks(len(self), self.W.device):
            w = self.W[rows].double()
            Rw = w @ R
            self.g[rows] = (Rw * w).sum(1)
            self.h[rows] = ((Rw @ M) * Rw).sum(1)
        if B is not None:
            self.means.reset(self.W, B)

    # -- at each label ------------------------------------------------------------------------------------

    def apply(self, influence: Sequence[InfluenceStep], mean: Sequence[MeanStep]) -> None:
        """Follow these steps: one pass over the rows for up to `STEPS_AT_A_TIME` of them."""
        for first in range(0, max(len(influence), len(mean)), STEPS_AT_A_TIME):
            some = slice(first, first + STEPS_AT_A_TIME)
            self._apply(influence[some], mean[some])

    def covariances(self, p: Float[Tensor, "q k"]) -> Float[Tensor, "q n"]:
        """W p for a few vectors at once, in one pass over the rows."""
        # A product with an odd number of columns, one above all, takes up to three passes; with an even one, one.
        if len(p) % 2:
            p = torch.cat([p, torch.zeros_like(p[:1])])
        return (self.W @ p.to(self.W.dtype).T).T.contiguous()

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
            s, r = products[2 * i].double(), products[2 * i + 1].double()
            self.g.addcmul_(s * step.on_variance, s)
            self.h.addcmul_(s * step.on_square + r * step.on_cross, s)
        for change in mean:
            self.means.shift(products[place[id(change.p)]], change.change)

    # -- reading ------------------------------------------------------------------------------------------

    def take(self, rows: Int[Tensor, "q"]) -> RowData:
        return RowData(
            w=self.W[rows].double(),
            nu=self.nu[rows],
            lam=self.lam[rows],
            probs=self.means.probs[rows].double(),
            scale=self.means.scale[rows],
            is_open=self.is_open[rows],
            is_askable=self.is_askable[rows],
        )

    def influence(self, exclude_self: bool) -> Float[Tensor, "n"]:
        return utilities.influence(
            self.g, self.h, self.nu, self.is_open if exclude_self else None, self.means.probs.shape[1]
        )

    def uncertainty(self) -> Float[Tensor, "n"]:
        return self.means.uncertainty()

    def variance(self) -> Float[Tensor, "n"]:
        variance: Tensor = self.lam + self.g.clamp_min(0.0) + self.noise
        return variance

    def moments(self, values: Float[Tensor, "n"]) -> Moments:
        """Count, mean and squared deviations of a utility over the rows that are in the pool."""
        return utilities.moments(values if self.all_in_pool else values[self.is_in_pool])

    def survey(self, exclude_self: bool) -> tuple[Moments, Moments]:
        """Moments of influence and uncertainty, from which the weights for `best` are made."""
        self._surveyed = self.influence(exclude_self), self.uncertainty()
        return self.moments(self._surveyed[0]), self.moments(self._surveyed[1])

    def utility(self, weights: Weights, exclude_self: bool) -> Float[Tensor, "n"]:
        """The weighted utilities of every row; what `survey` has computed is used up."""
        u1, u2 = self._surveyed if self._surveyed is not None else (None, None)
        self._surveyed = None
        if weights.influence is not None and u1 is None:
            u1 = self.influence(exclude_self)
        if weights.uncertainty is not None and u2 is None:
            u2 = self.uncertainty()
        return weights.combine(u1, u2, self.variance() if weights.variance is not None else None)

    def best(self, weights: Weights, q: int, exclude_self: bool) -> Int[Tensor, "m"]:
        """About q rows, the best askable one among them."""
        return utilities.leaders(self.utility(weights, exclude_self).masked_fill_(~self.is_askable, -torch.inf), q)

    def expected_entropy(
        self,
        p: Float[Tensor, "q k"],
        d: Float[Tensor, "q"],
        means: Float[Tensor, "q c"],
        probs: Float[Tensor, "q c"],
    ) -> Float[Tensor, "q"]:
        """Summed calibrated entropy of the open rows, expected after an answer for each candidate."""
        ratios = self.covariances(p)[: len(p)] / d[:, None].to(self.W.dtype)  # (q, n)
        rows = self.is_open.nonzero()[:, 0]
        return utilities.expected_entropy(
            self.means.Z[:, rows], self.means.scale[rows], ratios[:, rows], means, probs, self.means.link
        )


def _blocks(n: int, device: torch.device) -> list[slice]:
    size = BLOCK[device.type]
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]
