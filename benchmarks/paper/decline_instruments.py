"""Instruments for `decline.py`: what the surrogate weighs, what its basis can still tell apart, and where picks lie."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata
from torch import Tensor

from understudy.core.rows import Rows as RowBlock
from understudy.core.surrogate import Surrogate
from understudy.strategies.uncertainty import entropy, margin

Rows = Int[np.ndarray, "q"]
NEIGHBOURS = 10
BEST = 100


@dataclass(frozen=True, eq=False)
class Reading:
    """The inside of a surrogate before a pick. Row by row: the terms of u, λ, and g, which labels can still remove."""

    accuracy: float  # P
    terms: Float[np.ndarray, "2 n"]
    influence: Float[np.ndarray, "n"]
    uncertainty: Float[np.ndarray, "n"]
    lam: Float[np.ndarray, "n"]
    g: Float[np.ndarray, "n"]
    is_open: Bool[np.ndarray, "n"]
    R: Float[np.ndarray, "k k"]  # the weights' covariance: the unit matrix before any label

    @classmethod
    def of(cls, surrogate: Surrogate) -> "Reading":
        engine = surrogate._read()
        rows = engine.rows
        assert isinstance(rows, RowBlock)
        _, terms = engine.utility()
        tally = engine.tally.cpu().numpy()

        def on_host(values: Tensor) -> np.ndarray:
            return values.cpu().numpy().copy()

        return cls(
            accuracy=float(tally[1] / tally.sum()),
            terms=on_host(terms),
            influence=on_host(rows.h.clamp_min(0.0) / rows.var),
            uncertainty=on_host(rows.means.uncertainty()),
            lam=on_host(rows.stats[:, 1]),
            g=on_host((rows.var - rows.stats[:, 0]).clamp_min(0.0)),
            is_open=on_host(rows.is_open),
            R=on_host(engine.posterior.R),
        )

    def gauges(self, chosen: Rows) -> dict[str, float]:
        """Numbers of this moment, and of the rows that were chosen next."""
        u1, u2, u = self.influence[self.is_open], self.uncertainty[self.is_open], self.terms.sum(0)[self.is_open]
        ahead = self.terms[:, chosen].mean(1) - self.terms[:, self.is_open].mean(1)
        return {
            "P": self.accuracy,
            # of the chosen rows' utility, and of what sets them above the pool's mean
            "u1 share": float(self.terms[0, chosen].sum() / self.terms[:, chosen].sum()),
            "u1 lead": float(ahead[0] / ahead.sum()),
            "u~u1": rank_correlation(u, u1),
            "u~u2": rank_correlation(u, u2),
            "u1~u2": rank_correlation(u1, u2),
            "u1 cv": float(u1.std() / u1.mean()),
            "u1 max/median": float(u1.max() / np.median(u1)),
            "u2 cv": float(u2.std() / u2.mean()),
            "u1 reach": reach(u1),
            "u2 reach": reach(u2),
            "explained": float(1 - self.lam.mean()),
            "explained, open": float(1 - self.lam[self.is_open].mean()),
            "g left": float(self.g[self.is_open].mean() / (1 - self.lam[self.is_open]).mean()),
            "variance left": float((self.lam + self.g)[self.is_open].mean()),
            "trace R": float(self.R.trace() / len(self.R)),
            "rank R": effective_rank(self.R),
            "lam of chosen": float(self.lam[chosen].mean() / self.lam[self.is_open].mean()),
            "g of chosen": float(self.g[chosen].mean() / self.g[self.is_open].mean()),
        }


def rank_correlation(a: Float[np.ndarray, "m"], b: Float[np.ndarray, "m"]) -> float:
    """Spearman's; 0 where one of them is constant."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def effective_rank(R: Float[np.ndarray, "k k"]) -> float:
    """(Σe)²/Σe² of the eigenvalues of a symmetric matrix: how many equal directions would have such a spectrum."""
    return float(R.trace() ** 2 / (R * R).sum())


def reach(values: Float[np.ndarray, "m"]) -> float:
    """How many deviations the hundred best rows lie above the mean: what a measure can bring into a sum."""
    spread = values.std()
    best = np.sort(values)[-BEST:]
    return float((best.mean() - values.mean()) / spread) if spread > 0 else 0.0


def mean_rank(values: Float[np.ndarray, "n"], chosen: Rows, among: Rows) -> float:
    """Where the chosen rows stand among some: 0 the lowest, 0.5 as random ones, 1 the highest."""
    ordered = np.sort(values[among])
    below = (np.searchsorted(ordered, values[chosen], "left") + np.searchsorted(ordered, values[chosen], "right")) / 2
    return float(below.mean() / len(ordered))


def evenness(labels: Int[np.ndarray, "q"], n_classes: int) -> float:
    """Entropy of the class counts over its largest value: 1 where all classes are asked for alike."""
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum() / np.log(n_classes))


def overlap(a: Rows, b: Rows) -> float:
    """The share of rows that two choices of one size have in common."""
    return len(np.intersect1d(a, b)) / len(a)


def nearest(
    features: Float[Tensor, "n d"], rows: Rows, among: Rows, k: int, block: int = 500
) -> Float[np.ndarray, "q k"]:
    """Distances of rows to their k nearest others among some, ascending."""
    places, wanted = (torch.from_numpy(some).to(features.device) for some in (among, rows))
    others = features[places]
    found = []
    for some in torch.split(wanted, block):
        distances = torch.cdist(features[some], others).masked_fill_(some[:, None] == places, torch.inf)
        found.append(distances.topk(k, largest=False).values.cpu().numpy())
    return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class Yardstick:
    """How the picks of one moment are measured: against random open rows, and by a learner that knows half the pool."""

    features: Float[Tensor, "n d"]
    labels: Int[np.ndarray, "n"]
    n_classes: int
    labelled: Rows
    open: Rows
    margin: Float[np.ndarray, "n"]  # 1 - (p1 - p2)
    entropy: Float[np.ndarray, "n"]
    is_right: Bool[np.ndarray, "n"]  # the learner
    learnable: Bool[np.ndarray, "n"]  # a learner of the other half of the pool has it right
    usual: tuple[float, float, float]  # distances of random rows: to neighbours, labelled rows, each other

    @classmethod
    def of(
        cls,
        features: Float[Tensor, "n d"],
        labels: np.ndarray,
        probs: np.ndarray,
        labelled: Rows,
        learnable: np.ndarray,
        n: int,
        rng: np.random.Generator,
    ) -> "Yardstick":
        is_open = np.ones(len(labels), dtype=bool)
        is_open[labelled] = False
        rows = np.flatnonzero(is_open)
        on_device = torch.from_numpy(probs).to(features.device)
        sample = rng.choice(rows, n, replace=False)
        return cls(
            features,
            labels,
            n_classes=probs.shape[1],
            labelled=labelled,
            open=rows,
            margin=margin(on_device).cpu().numpy(),
            entropy=entropy(on_device).cpu().numpy(),
            is_right=probs.argmax(1) == labels,
            learnable=learnable,
            usual=spacings(features, sample, rows, labelled),
        )

    def measure(self, chosen: Rows) -> dict[str, float]:
        """Numbers of a choice. Distances are relative to those of as many random rows."""
        near, known, apart = (a / b for a, b in zip(self._spacings(chosen), self.usual, strict=True))
        return {
            "neighbours": near,
            "to labelled": known,
            "apart": apart,
            "margin rank": mean_rank(self.margin, chosen, self.open),
            "entropy rank": mean_rank(self.entropy, chosen, self.open),
            "right": float(self.is_right[chosen].mean()),
            "right, pool": float(self.is_right[self.open].mean()),
            "learnable": float(self.learnable[chosen].mean()),
            "learnable, pool": float(self.learnable[self.open].mean()),
            # wrong now and right once enough is known: what a label can mend
            "mendable": float((self.learnable & ~self.is_right)[chosen].mean()),
            "mendable, pool": float((self.learnable & ~self.is_right)[self.open].mean()),
            "evenness": evenness(self.labels[chosen], self.n_classes),
            "evenness, all": evenness(self.labels[np.concatenate([self.labelled, chosen])], self.n_classes),
        }

    def _spacings(self, rows: Rows) -> tuple[float, float, float]:
        return spacings(self.features, rows, self.open, self.labelled)


def spacings(features: Float[Tensor, "n d"], rows: Rows, among: Rows, labelled: Rows) -> tuple[float, float, float]:
    """Mean distances of rows: to their 10 nearest of the pool, to the nearest labelled one, to the nearest of them."""
    k = min(NEIGHBOURS, len(among) - 1)
    return (
        float(nearest(features, rows, among, k).mean()),
        float(nearest(features, rows, labelled, 1).mean()),
        float(nearest(features, rows, rows, 1).mean()) if len(rows) > 1 else float("nan"),
    )
