"""Quality of predictions: accuracy, overall and per class, and calibration; and the metrics one may choose by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int

from understudy.errors import UsageError
from understudy.messages import list_some

CONFIDENCE_BINS: Final = 15  # of the calibration error
MIN_PROBABILITY: Final = 1e-12  # lower bound of a probability in the log loss
LEAST_DIFFERENCE: Final = 1e-10  # what is smaller comes from rounding, and has no sign


@dataclass(frozen=True, eq=False)
class Metrics:
    """The quality of predictions for test items."""

    accuracy: float
    class_accuracy: Float[np.ndarray, "c"]  # NaN for a class without test items
    ece: float
    brier: float
    log_loss: float


@dataclass(frozen=True)
class Metric:
    """A metric by which strategies can be compared, and how it is read from a stored round."""

    name: str
    title: str
    lower_is_better: bool
    is_share: bool  # shown in %, and differences in points; otherwise shown as it is
    column: str  # of results.parquet
    read: Callable[[Any], float]  # from the value in that column

    @property
    def sign(self) -> float:
        """1 if higher is better, -1 if lower is."""
        return -1.0 if self.lower_is_better else 1.0

    @property
    def scale(self) -> float:
        """What a value is multiplied by when it is shown."""
        return 100.0 if self.is_share else 1.0

    @property
    def decimals(self) -> int:
        """How many are shown of a value; areas and differences have one more."""
        return 1 if self.is_share else 3

    @property
    def in_unit(self) -> str:
        """The title with its unit, for a sentence or the title of a table."""
        return f"{self.title} in %" if self.is_share else self.title

    @property
    def heading(self) -> str:
        """The title with its unit, for an axis."""
        return f"test {self.title} (%)" if self.is_share else f"test {self.title}"

    @property
    def unit(self) -> str:
        """The unit of a difference; empty for what is not a share."""
        return "points" if self.is_share else ""

    def signed(self, difference: float) -> str:
        """A difference in that unit, as +1.20: everywhere alike, in tables, figures and sentences."""
        return signed_text(self.scale * difference, self.decimals + 1)

    def text(self, value: float) -> str:
        """A value with its unit: 87.3 %, or 0.412."""
        return f"{self.scale * value:.{self.decimals}f}" + (" %" if self.is_share else "")


def signed_text(value: float, decimals: int) -> str:
    """A number with the sign that it has before rounding: -0.0026 is -0.00, not +0.00. Nothing is 0.00."""
    if abs(value) < LEAST_DIFFERENCE:
        return f"{0:.{decimals}f}"
    return f"{value:+.{decimals}f}"


def _mean_of_classes(class_accuracy: Sequence[float | None]) -> float:
    """The mean over the classes that the test set has."""
    found = [value for value in class_accuracy if value is not None and not np.isnan(value)]
    return float(np.mean(found)) if found else float("nan")


ACCURACY: Final = "accuracy"
METRICS: Final[dict[str, Metric]] = {
    one.name: one
    for one in (
        Metric(ACCURACY, "accuracy", False, True, "accuracy", float),
        Metric("balanced_accuracy", "balanced accuracy", False, True, "class_accuracy", _mean_of_classes),
        Metric("log_loss", "log loss", True, False, "log_loss", float),
        Metric("brier", "Brier score", True, False, "brier", float),
        Metric("ece", "calibration error", True, True, "ece", float),
    )
}


def parse_metrics(text: str) -> tuple[str, ...]:
    """Names of metrics from the command line, separated by commas, each once."""
    return tuple(dict.fromkeys(metric_named(name.strip()).name for name in text.split(",")))


def metric_named(name: str) -> Metric:
    """A metric by its name; an unknown one is an error that lists them."""
    if name not in METRICS:
        raise UsageError(f"there is no metric {name!r}; choose {', '.join(METRICS)}")
    return METRICS[name]


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


def untested_line(names: Sequence[str]) -> str:
    """A line that names the classes of which the test set has no item."""
    them = "it is" if len(names) == 1 else "they are"
    return f"the test set has no item of {list_some(names)}, so no metric says how well {them} predicted"


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
