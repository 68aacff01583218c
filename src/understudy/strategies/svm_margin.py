"""Support vector machines: the rows nearest to a decision boundary, or those that halve the version space."""

import logging
import warnings
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from torch import Tensor

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.core.kernels import gaussian, squared_distances
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import in_blocks, top
from understudy.strategies.view import Picks, PoolView

LOG: Final = logging.getLogger(__name__)
Rule = Literal["simple", "maxmin", "ratio"]
Multiclass = Literal["closest", "top_two"]
KernelKind = Literal["linear", "rbf"]
ROWS_PER_BLOCK: Final = 1024
LEAST_LENGTH: Final = 1e-9  # a shorter |w| is rounding
# Of the solver, in units of f. It rounds kernels to float32, after which they need not be positive definite:
# with a tighter tolerance it may never converge.
TOLERANCE: Final = 1e-4
MAX_STEPS: Final = 100_000  # of the solver: with a large penalty on overlapping classes it may need any number


@dataclass(frozen=True, eq=False)
class Machines:
    """One-vs-rest machines, one per class; a single one for two classes. f(x) = Σ_l α_l k(x_l, x) + b."""

    alphas: Float[np.ndarray, "k l"]
    offsets: Float[np.ndarray, "k"]
    lengths: Float[np.ndarray, "k"]  # |w|, one over the margin


@dataclass(frozen=True)
class SVMMargin:
    """Machines are trained on the labelled rows at every call; `rule` and `multiclass` say how they are used."""

    rule: Rule = "simple"
    multiclass: Multiclass = "closest"
    kernel: KernelKind = "linear"
    penalty: float = 1.0
    max_candidates: int = 100

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, get_args(Rule))
        check_choice("multiclass", self.multiclass, get_args(Multiclass))
        check_choice("kernel", self.kernel, get_args(KernelKind))
        check_number("penalty", self.penalty, above=0)
        check_whole_number("max_candidates", self.max_candidates, 1)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}), labelled=2, classes=2)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        features = view.features
        rows = view.candidates(n)
        view.require_labelled("svm_margin", 2, 2)
        if self.rule != "simple":
            rows = view.candidates(n, self.max_candidates, rng)
        known = view.labels[view.labelled].cpu().numpy()
        is_class = known == np.unique(known)[:, None]  # (k, l)
        targets = np.where(is_class if len(is_class) > 2 else is_class[1:], 1.0, -1.0)
        inputs = Inputs.of(features, view.labelled, self.kernel)
        gram = inputs.kernel_with(view.labelled).cpu().numpy()
        machines = train_machines(gram, targets, self.penalty)
        values = decisions(inputs, rows, machines)
        if self.rule == "simple":
            return top(rows, -_clearance(values, self.multiclass), n)
        # Of several machines, the one with the nearest boundary counts.
        nearest = values.abs().argmin(1).tolist()
        scores = [
            _split(inputs.gram_with(gram, rows[[i]]), targets[which], machines.lengths[which], self.penalty, self.rule)
            for i, which in enumerate(nearest)
        ]
        return top(rows, torch.tensor(scores, dtype=torch.float64, device=rows.device), n)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Features, centred and scaled to a mean squared norm of 1, and those of the labelled rows."""

    features: Float[Tensor, "n d"]
    mean: Float[Tensor, "d"]
    spread: float
    known: Float[Tensor, "l d"]
    kernel: KernelKind

    @classmethod
    def of(
        cls,
        features: Float[Tensor, "n d"],
        labelled: Int[Tensor, "l"],
        kernel: KernelKind,
        rows_per_block: int = ROWS_PER_BLOCK,
    ) -> "Inputs":
        blocks = torch.split(features, rows_per_block)  # never the whole pool in float64
        mean = torch.stack([block.sum(0, dtype=torch.float64) for block in blocks]).sum(0) / len(features)
        squares = sum((float((block.double() - mean).square().sum()) for block in blocks), 0.0)
        spread = (squares / len(features)) ** 0.5 or 1.0
        return cls(features, mean, spread, (features[labelled].double() - mean) / spread, kernel)

    def take(self, rows: Int[Tensor, "b"]) -> Float[Tensor, "b d"]:
        return (self.features[rows].double() - self.mean) / self.spread

    def kernel_with(self, rows: Int[Tensor, "b"]) -> Float[Tensor, "b l"]:
        """k of some rows with the labelled ones: xᵀx', or exp(-|x - x'|²)."""
        X = self.take(rows)
        if self.kernel == "linear":
            return X @ self.known.T
        return gaussian(squared_distances(X, self.known), 1.0)

    def gram_with(self, gram: Float[np.ndarray, "l l"], row: Int[Tensor, "1"]) -> Float[np.ndarray, "m m"]:
        """The kernel of the labelled rows and one more row, which comes last."""
        own = float(self.take(row).square().sum()) if self.kernel == "linear" else 1.0
        beside = self.kernel_with(row).cpu().numpy()
        return np.block([[gram, beside.T], [beside, np.array([[own]])]])


def train_machines(
    gram: Float[np.ndarray, "l l"], targets: Float[np.ndarray, "k l"], penalty: float, max_steps: int = MAX_STEPS
) -> Machines:
    """A machine for each row of targets, 1 and -1. One that has not converged after `max_steps` is used as it is."""
    alphas, offsets = np.zeros(targets.shape), np.zeros(len(targets))
    for i, target in enumerate(targets):
        # It uses no random numbers, but would seed itself from the global generator.
        machine = SVC(C=penalty, kernel="precomputed", tol=TOLERANCE, max_iter=max_steps, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.fit(gram, target)
        if machine.n_iter_[0] >= max_steps:
            LOG.warning("an SVM has not converged after %s steps; a penalty below %g may help", max_steps, penalty)
        alphas[i, machine.support_] = machine.dual_coef_[0]
        offsets[i] = machine.intercept_[0]
    lengths = np.sqrt(np.maximum(((alphas @ gram) * alphas).sum(1), 0.0))
    return Machines(alphas, offsets, lengths)


def decisions(inputs: Inputs, rows: Int[Tensor, "m"], machines: Machines) -> Float[Tensor, "m k"]:
    """f of every row under every machine. A linear machine needs d weights, however many support vectors it has."""
    device = inputs.mean.device
    alphas, offsets = torch.from_numpy(machines.alphas).to(device), torch.from_numpy(machines.offsets).to(device)
    weights = alphas @ inputs.known if inputs.kernel == "linear" else None

    def values(some: Int[Tensor, "b"]) -> Float[Tensor, "b k"]:
        products = inputs.kernel_with(some) @ alphas.T if weights is None else inputs.take(some) @ weights.T
        return products + offsets

    return in_blocks(rows, ROWS_PER_BLOCK, values)


def _clearance(values: Float[Tensor, "m k"], multiclass: Multiclass) -> Float[Tensor, "m"]:
    """The margin of a row: to the nearest boundary, or between its two best classes."""
    if multiclass == "closest" or values.shape[1] == 1:
        return values.abs().amin(1)
    first, second = values.topk(2, dim=1).values.unbind(1)
    return first - second


def _split(
    extended: Float[np.ndarray, "m m"], target: Float[np.ndarray, "l"], length: float, penalty: float, rule: Rule
) -> float:
    """How evenly one more row, the last of the extended kernel, splits the version space: its margin with either label.

    `maxmin`: the smaller of the two new margins as a share of the old one. `ratio`: the smaller over the larger.
    """
    either = np.stack([np.append(target, label) for label in (1.0, -1.0)])
    shorter, longer = np.sort(train_machines(extended, either, penalty).lengths).tolist()
    if longer < LEAST_LENGTH:  # the labels are not separable: whatever the label, nothing changes
        return 1.0
    return (length if rule == "maxmin" else shorter) / longer
