"""The formulas of both methods, evaluated one by one with dense inverses: slow, plain, and what all else is held to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy import Surrogate
from understudy.core.options import OWN_BASIS_JITTER

Array = NDArray[Any]


def gaussian(a: Array, b: Array, bandwidth: float) -> Array:
    return np.exp(-((a[:, None, :] - b[None, :, :]) ** 2).sum(2) / bandwidth)


def entropy(p: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(p > 0, p * np.log(p), 0.0).sum(-1)


def rho(z: Array, probs: Array, link: str) -> Array:
    """Class probabilities from a mean, by each of the four readings."""
    if link == "simplex":
        q = np.maximum(z, 1e-6)
    elif link == "softmax":
        q = np.exp(z)
    elif link == "logit":
        q = np.maximum(probs, 1e-6) * np.exp(z - probs)
    else:
        q = np.exp(z - probs)
    return q / q.sum(-1, keepdims=True)


def doubt(mean: Array, floor: float) -> Array:
    """What the margin between the largest and the second largest entry leaves of 1."""
    if mean.shape[1] == 1:
        return np.ones(len(mean))
    ordered = np.sort(mean, axis=1)
    return np.minimum(np.maximum(1.0 - (ordered[:, -1] - ordered[:, -2]), floor), 1.0)


@dataclass
class Literal:
    """A surrogate's utilities from scratch, given which rows are told, pending, trained on, skipped, dropped.

    With V the paper's; without, the kernel is over features alone, rows count by ω, and the utility is a product.
    """

    features: Array
    probs: Array
    U: Array
    V: Array | None
    input_bandwidth: float
    output_bandwidth: float
    told: dict[int, int] = field(default_factory=dict)  # row -> label
    trained: Sequence[int] = ()
    pending: Sequence[int] = ()
    skipped: Sequence[int] = ()
    dropped: Sequence[int] = ()
    noise: float = 1e-10
    floor: float = 1e-8
    link: str = "softmax"
    accuracy: float = 0.0
    exclude_self: bool = False
    old_targets: str | None = "zero"
    least: float = 1e-3  # doubt
    weighting: str | None = "even"
    live: bool = True
    bias: float | None = None
    mode: str = "combined"
    jitter: float = 0.0
    weighed_by: Array | None = None  # the predictions at the anchor, where a class was added since

    def __post_init__(self) -> None:
        self.phi = gaussian(self.features, self.U, self.input_bandwidth)
        self.K = gaussian(self.U, self.U, self.input_bandwidth) + self.jitter * np.eye(len(self.U))
        if self.V is not None:
            self.phi = self.phi * gaussian(self.probs, self.V, self.output_bandwidth)
            self.K = self.K * gaussian(self.V, self.V, self.output_bandwidth)
        weighed_by = self.probs if self.weighed_by is None else self.weighed_by
        self.omega = doubt(weighed_by, self.least) if self.weighting == "margin" else np.ones(len(self.features))
        self.classes = 1 if self.V is None else self.probs.shape[1]  # that influence is summed over
        self.lam = np.maximum(0.0, 1.0 - np.einsum("ik,kl,il->i", self.phi, np.linalg.inv(self.K), self.phi))
        self.nu = np.maximum(self.lam + self.noise, self.floor)
        n = len(self.features)
        self.labelled = sorted(set(self.told) | set(self.trained))
        gone = set(self.labelled) | set(self.pending) | set(self.dropped)
        self.open = [i for i in range(n) if i not in gone]
        self.askable = [i for i in self.open if i not in set(self.skipped)]
        self.in_pool = [i for i in range(n) if i not in set(self.dropped)]
        # the pool's mean row, as if it had been answered as predicted, with variance `bias`
        self.middle = self.phi[self.in_pool].mean(0)

    def Qinv(self, rows: Sequence[int]) -> Array:
        phi = self.phi[list(rows)]
        Q = self.K + (phi / self.nu[list(rows), None]).T @ phi
        if self.bias is not None:
            Q = Q + np.outer(self.middle, self.middle) / self.bias
        return np.linalg.inv(Q)

    def mean(self) -> Array:
        """F + Φ Q⁻¹ Φ_Lᵀ (Λ + σ²)⁻¹ (Y - F), with residual zero at rows that the learner was trained on."""
        c = self.probs.shape[1]
        residuals = np.zeros((len(self.labelled), c))
        for i, row in enumerate(self.labelled):
            if row in self.told and (self.old_targets == "residual" or row not in set(self.trained)):
                residuals[i] = np.eye(c)[self.told[row]] - self.probs[row]
        phi = self.phi[self.labelled]
        return self.probs + self.phi @ self.Qinv(self.labelled) @ phi.T @ (residuals / self.nu[self.labelled, None])

    def explained(self) -> list[int]:
        return [*self.labelled, *self.pending]

    def variance(self, rows: Sequence[int] | None = None) -> Array:
        """1 - kᵀ(K⁻¹ - Q⁻¹)k + σ², as λ + kᵀ Q⁻¹ k + σ²."""
        Qinv = self.Qinv(self.explained() if rows is None else rows)
        return self.lam + np.einsum("ik,kl,il->i", self.phi, Qinv, self.phi) + self.noise

    def influence(self) -> Array:
        """The fall of the summed variance of the open rows when Q is inverted again with one row more.

        Each row counts ω; the paper's sum is over classes too.
        """
        before = self.variance()
        out = np.empty(len(self.features))
        for i in range(len(self.features)):
            after = self.variance([*self.explained(), i])
            members = [j for j in self.open if not (self.exclude_self and j == i)]
            out[i] = self.classes * (self.omega[members] * (before[members] - after[members])).sum()
        return out

    def influence_by_formula(self) -> Array:
        """The same by the rank-one identity: Σ_j ω_j c_ij² / (ν_i + c_ii), with the covariances c = Φ Q⁻¹ Φᵀ."""
        left = self.phi @ self.Qinv(self.explained())
        covariances = left @ self.phi[self.open].T
        diagonal = (left * self.phi).sum(1)
        squares = (covariances**2 * self.omega[self.open]).sum(1)
        if self.exclude_self:
            squares[self.open] -= self.omega[self.open] * diagonal[self.open] ** 2
        return self.classes * squares / (self.nu + diagonal)

    def uncertainty(self) -> Array:
        """Ent(f) Ent(ρ(f^)) / Ent(ρ(f)); without V what the margin of f^ leaves."""
        if self.V is None:
            return doubt(self.mean() if self.live else self.probs, self.least)
        now = entropy(rho(self.mean(), self.probs, self.link))
        then = entropy(rho(self.probs, self.probs, self.link))
        return entropy(self.probs) * now / then

    def utility(self, brute: bool = True) -> Array:
        """(1 - P) u¹/std + P u²/std, or the product, or what else the mode is named after."""
        total = np.zeros(len(self.features))
        if self.mode in ("uncertainty", "variance"):
            return self.uncertainty() if self.mode == "uncertainty" else self.variance()
        u1 = self.influence() if brute else self.influence_by_formula()
        if self.mode in ("product", "influence"):
            return u1 * self.uncertainty() if self.mode == "product" else u1
        P = 0.5 if self.mode == "uniform" else self.accuracy
        for share, values in ((1 - P, u1), (P, self.uncertainty())):
            std = values[self.in_pool].std()
            if std > 1e-9 * abs(values[self.in_pool].mean()):
                total += share * values / std
        return total


def literal_of(s: Surrogate, features: Array, probs: Array, **more: object) -> Literal:
    """What a surrogate should say, from its basis and its book-keeping alone."""
    ledger, kernel, options = s.parts.ledger, s.parts.kernel, s.options
    arguments: dict[str, object] = {
        "told": {row: answer.label for row, answer in ledger.answers.items()},
        "trained": np.flatnonzero(ledger.is_trained).tolist(),
        "pending": list(ledger.pending),
        "skipped": np.flatnonzero(ledger.is_skipped).tolist(),
        "dropped": np.flatnonzero(ledger.is_dropped).tolist(),
        "noise": options.noise,
        "floor": 1e-8 if options.dtype == "float64" else 1e-6,
        "link": options.link,
        "accuracy": s.accuracy,
        "exclude_self": options.exclude_self,
        "old_targets": options.old_targets,
        "least": options.floor,
        "weighting": options.weighting,
        "live": options.doubt == "live" and s.parts.is_anchored,
        "bias": options.bias,
        "mode": options.mode,
        "jitter": 0.0 if options.sees_predictions else OWN_BASIS_JITTER,
    }
    return Literal(
        np.asarray(features, dtype=np.float64),
        np.asarray(probs, dtype=np.float64),
        kernel.U.numpy(),
        None if kernel.V is None else kernel.V.numpy(),
        kernel.input_bandwidth,
        kernel.output_bandwidth,
        **{**arguments, **more},  # type: ignore[arg-type]
    )
