"""Quality of predictions: accuracy, overall and per class, and calibration."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int

CONFIDENCE_BINS: Final = 15  # of the calibration error
MIN_PROBABILITY: Final = 1e-12  # lower bound of a probability in the log loss


@dataclass(frozen=True, eq=False)
class Metrics:
    """The quality of predictions for test items."""

    accuracy: float
    class_accuracy: Float[np.ndarray, "c"]  # NaN for a class without test items
    ece: float
    brier: float
    log_loss: float


def measure_predictions(probs: Float[np.ndarray, "n c"], labels: Int[np.ndarray, "n"]) -> Metrics:
    """All metrics of predicted probabilities."""
    probs = probs.astype(np.float64)
    right = probs.argmax(1) == labels
    of_truth = np.take_along_axis(probs, labels[:, None], 1)[:, 0]
    return Metrics(
        accuracy=float(right.mean()),
        class_accuracy=_class_means(right, labels, probs.shape[1]),
        ece=calibration_error(probs.max(1), right),
        brier=float(((probs**2).sum(1) - 2 * of_truth + 1).mean()),
        log_loss=float(-np.log(np.maximum(of_truth, MIN_PROBABILITY)).mean()),
    )


def _class_means(values: np.ndarray, labels: Int[np.ndarray, "n"], n_classes: int) -> Float[np.ndarray, "c"]:
    """The mean of the values of each class; NaN where there are none."""
    count = np.bincount(labels, minlength=n_classes)
    total = np.bincount(labels, weights=values.astype(np.float64), minlength=n_classes)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def calibration_error(confidence: Float[np.ndarray, "n"], right: np.ndarray) -> float:
    """Expected calibration error: |accuracy - confidence|, averaged over the items in 15 bins of equal width."""
    which = np.minimum((confidence * CONFIDENCE_BINS).astype(np.int64), CONFIDENCE_BINS - 1)
    gaps = np.bincount(which, weights=right.astype(np.float64) - confidence, minlength=CONFIDENCE_BINS)
    return float(np.abs(gaps).sum() / len(right))
