"""Temperature scaling: probabilities calibrated so that predictions of 90 % confidence are right nine times in ten.

A temperature T turns the probabilities p of an item into p^(1/T), normalised. Above 1 it makes them less confident,
below 1 more confident; the predicted class stays the same. It is fitted by the log loss plus a prior on
log T, so that a handful of items never gives an extreme value. How the constants were chosen:
docs/accuracy-and-stopping.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, log1p
from typing import Any, Final, Protocol

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar

MAX_LOG_TEMPERATURE: Final = log(10)  # T is from 0.1 to 10
AUDIT_ITEMS_NEEDED: Final = 30  # with fewer, a calibration is rough
ITEMS_TO_SHOW: Final = 10  # audited or cross-fitted; with fewer, no confidence is shown
PRIOR_DEVIATION: Final = 0.5  # prior standard deviation of log T around 0, with audit items only
CROSS_FIT_DEVIATION: Final = 0.7  # the same, for cross-fitted labelled items
AUDIT_SCALE: Final = 0.15  # of log T around the cross-fitted value, before audit items
DEGREES: Final = 3  # of freedom of Student's prior around the cross-fitted value: audit items may clearly disagree
LABEL_NOISE: Final = 0.02  # share of labels that may be random: one wrong label must not dominate
SMALLEST: Final = 1e-6  # lower bound of a probability in the log loss
GRID_PLACES: Final = 17  # of log T; the search continues around the best

Loss = Callable[[float], float]  # of 1/T
CrossFit = tuple[float, int]  # the temperature that cross-fitting found, and on how many items


@dataclass(frozen=True)
class Calibration:
    """A temperature, and the numbers of answered audit items and cross-fitted labelled items it was fitted on."""

    temperature: float = 1.0
    audited: int = 0
    cross_fitted: int = 0

    @property
    def is_rough(self) -> bool:
        return self.audited < AUDIT_ITEMS_NEEDED

    @property
    def is_known(self) -> bool:
        """Whether so many items were predicted and answered that a confidence says anything."""
        return self.audited + self.cross_fitted >= ITEMS_TO_SHOW

    def apply(self, probs: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Calibrated probabilities, of the same type."""
        return temper(probs, self.temperature)

    def to_json(self) -> dict[str, Any]:
        """The entry in a model's file."""
        return {
            "method": "temperature", "temperature": self.temperature, "audited": self.audited,
            "cross_fitted": self.cross_fitted, "is_rough": self.is_rough,
        }  # fmt: skip

    def describe(self) -> str:
        """One sentence for users: how reliable the confidences are."""
        if not self.is_rough:
            return f"Confidences are calibrated on {self.audited:,} audit items."
        if not self.is_known:
            return "Confidences could not be checked yet: too few items have a label."
        if self.audited == 0:
            return "Confidences are rough: no audit item has an answer yet."
        items = "1 audit item has" if self.audited == 1 else f"{self.audited} audit items have"
        return f"Confidences are rough: only {items} an answer yet."


def temper(probs: Float[np.ndarray, "n c"], temperature: float) -> Float[np.ndarray, "n c"]:
    """p^(1/T), normalised; zeros stay zero."""
    if temperature == 1.0 or probs.size == 0:
        return probs
    powers = _relative(probs) ** (1 / temperature)
    return (powers / np.maximum(powers.sum(1, keepdims=True), 1.0)).astype(probs.dtype)


# -- fitting ----------------------------------------------------------------------------------------------


def cross_fitted(probs: Float[np.ndarray, "n c"], labels: Int[np.ndarray, "n"]) -> float:
    """The temperature fitted to out-of-fold predictions for labelled items.

    By the log loss of the label. Labelled items are harder than average, but how a model spreads its probabilities
    over the classes carries over to other items; its accuracy does not.
    """
    return _fit(_class_loss(probs, labels), _Prior(0.0, CROSS_FIT_DEVIATION))


def calibrate_model(
    probs: Float[np.ndarray, "n c"], labels: Int[np.ndarray, "n"], cross_fit: CrossFit | None = None
) -> Calibration:
    """The calibration of a model from its predictions for audit items and their labels.

    `cross_fit` is the cross-fitted temperature and its number of items; audit items correct it. A label of
    a class that the model does not know counts as a wrong prediction.
    """
    prior = _Prior(0.0, PRIOR_DEVIATION) if cross_fit is None else _Prior(log(cross_fit[0]), AUDIT_SCALE, DEGREES)
    return Calibration(_fit(_hit_loss(probs, labels), prior), len(labels), 0 if cross_fit is None else cross_fit[1])


@dataclass(frozen=True)
class _Prior:
    """A prior on log T: a normal distribution, or Student's with its heavy tails."""

    mean: float
    scale: float
    degrees: int | None = None  # of freedom; None: normal

    def loss(self, log_temperature: float) -> float:
        """Its negative logarithm, up to a constant."""
        square = ((log_temperature - self.mean) / self.scale) ** 2
        return square / 2 if self.degrees is None else (self.degrees + 1) / 2 * log1p(square / self.degrees)


def _fit(loss: Loss, prior: _Prior) -> float:
    """The maximum a posteriori T, by a coarse grid of log T and a bounded search around its best point."""

    def objective(log_temperature: float) -> float:
        return loss(exp(-log_temperature)) + prior.loss(log_temperature)

    high = MAX_LOG_TEMPERATURE
    places = [*np.linspace(-high, high, GRID_PLACES).tolist(), min(max(prior.mean, -high), high)]
    best, step = min(places, key=objective), 2 * high / (GRID_PLACES - 1)
    bounds = max(best - step, -high), min(best + step, high)
    return exp(float(minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x))


def _hit_loss(probs: Float[np.ndarray, "n c"], labels: Int[np.ndarray, "n"]) -> Loss:
    """The log loss of confidences: whether the predicted class is the label."""
    hits = probs.argmax(1) == labels if len(labels) else np.zeros(0, bool)
    ratios = _relative(probs)

    def loss(power: float) -> float:
        confidence = np.clip(1 / (ratios**power).sum(1), SMALLEST, 1 - SMALLEST)
        return -float(np.log(np.where(hits, confidence, 1 - confidence)).sum())

    return loss


def _class_loss(probs: Float[np.ndarray, "n c"], labels: Int[np.ndarray, "n"]) -> Loss:
    """The log loss of the labels, each of which is a random class with a small probability."""
    ratios = _relative(probs)
    of_label = ratios[np.arange(len(labels)), labels]

    def loss(power: float) -> float:
        found = of_label**power / (ratios**power).sum(1)
        return -float(np.log((1 - LABEL_NOISE) * found + LABEL_NOISE / ratios.shape[1]).sum())

    return loss


def _relative(probs: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
    """Probabilities divided by the largest of their row, in float64: powers of these do not overflow."""
    values = np.asarray(probs, np.float64)
    if not values.size:
        return values
    largest = values.max(1, keepdims=True)
    return values / np.where(largest > 0, largest, 1.0)


# -- cross-fitting ----------------------------------------------------------------------------------------


class Predicts(Protocol):
    """The model of a fold."""

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray: ...


def cross_fit_probs(
    fit: Callable[[np.ndarray], Predicts], inputs: np.ndarray, labels: Int[np.ndarray, "n"], folds: int, seed: int
) -> tuple[Float[np.ndarray, "m c"], Int[np.ndarray, "m"]] | None:
    """Out-of-fold predictions, and the positions of their items.

    `fit` trains on the items at the given positions. None if there are too few items, or a single class.
    """
    fold = deal_folds(labels, folds, seed)
    found, places = [], []
    for number in range(folds):
        rest, out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        if len(out) and len(set(labels[rest].tolist())) > 1:
            found.append(np.asarray(fit(rest).predict_proba(inputs[out]), np.float64))
            places.append(out)
    return (np.concatenate(found), np.concatenate(places)) if found else None


def deal_folds(labels: Int[np.ndarray, "n"], folds: int, seed: int) -> Int[np.ndarray, "n"]:
    """A stratified random fold for each item; the classes are dealt out one after the other."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), np.int64)
    fold[order] = np.arange(len(labels)) % folds
    return fold
