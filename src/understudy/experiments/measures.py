"""How good predictions are: accuracy, overall and class by class, and whether probabilities mean what they say."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int

BINS: Final = 15  # of confidence, for the calibration error
LEAST: Final = 1e-12  # probability that a log loss counts with


@dataclass(frozen=True, eq=False)
class Measures:
    """Judgement of predictions for test items."""

    accuracy: float
    class_accuracy: Float[np.ndarray, "c"]  # NaN for a class without test items
    ece: float
    brier: float
    log_loss: float


def judge(probs: Float[np.ndarray, "n c"], labels: Int[np.ndarray, "n"]) -> Measures:
    """All of them, of the model as it was when training ended."""
    probs = probs.astype(np.float64)
    right = probs.argmax(1) == labels
    of_truth = np.take_along_axis(probs, labels[:, None], 1)[:, 0]
    return Measures(
        float(right.mean()),
        _class_means(right, labels, probs.shape[1]),
        calibration_error(probs.max(1), right),
        float(((probs**2).sum(1) - 2 * of_truth + 1).mean()),
        float(-np.log(np.maximum(of_truth, LEAST)).mean()),
    )


def _class_means(values: np.ndarray, labels: Int[np.ndarray, "n"], n_classes: int) -> Float[np.ndarray, "c"]:
    """The mean of the values of each class; NaN where there are none."""
    count = np.bincount(labels, minlength=n_classes)
    total = np.bincount(labels, weights=values.astype(np.float64), minlength=n_classes)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def calibration_error(confidence: Float[np.ndarray, "n"], right: np.ndarray) -> float:
    """Expected calibration error: |accuracy - confidence|, averaged over the items in 15 equal bins of confidence."""
    which = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(which, weights=right.astype(np.float64) - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(right))
