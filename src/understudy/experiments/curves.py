"""Learning curves of several strategies.

Statistics of them are in `statistics.py`, tables and figures in `tables.py` and `figures.py`.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
from jaxtyping import Float

from understudy.errors import UnderstudyError
from understudy.experiments.metrics import ACCURACY, Metric, metric_named

CEILING: Final = "ceiling"  # the learner with all labels
OFTEN: Final = "margin_x10"  # margin, retrained ten times as often
ORACLE: Final = "oracle"  # a choice that looks at labels
# Shown with the strategies, never compared with them: they had more labels or trainings, or saw labels.
CONTROLS: Final = (OFTEN, ORACLE, CEILING)
# What those of them with curves are, in a sentence.
CONTROL_WORDS: Final = {
    OFTEN: f"{OFTEN} is margin retrained ten times as often",
    ORACLE: f"{ORACLE} is a choice that looks at labels",
}
SELECTION_ONLY: Final = " (selection only)"  # picks of a system that changes training, judged by the common learner


@dataclass(frozen=True)
class Curves:
    """The values of a metric, usually accuracy, for each strategy: (repeats, rounds).

    Row j of every strategy is the same repetition: the same seeds and, unless strategies chose their first rows
    themselves, the same initial labels.
    """

    dataset: str
    schedule: tuple[int, ...]
    values: dict[str, np.ndarray]
    metric: str = ACCURACY

    def __post_init__(self) -> None:
        title = "accuracies" if self.metric == ACCURACY else f"values of {self.measure.title}"
        for name, values in self.values.items():
            if values.ndim != 2 or values.shape[1] != len(self.schedule) or len(values) != self.repeats:
                expected = f"({self.repeats}, {len(self.schedule)})"
                raise UnderstudyError(f"{title} of {name} are {values.shape}; pass {expected}, repeats by budgets")

    @property
    def repeats(self) -> int:
        return len(next(iter(self.values.values())))

    @property
    def measure(self) -> Metric:
        """What is measured, and whether lower is better."""
        return metric_named(self.metric)

    @property
    def accuracy(self) -> dict[str, np.ndarray]:
        """The values, if they are accuracies; an error otherwise."""
        if self.metric != ACCURACY:
            raise UnderstudyError(f"these curves of {self.dataset} are of {self.metric}, not of accuracy; use .values")
        return self.values

    def upwards(self, values: np.ndarray) -> np.ndarray:
        """Values or differences of this metric, turned so that higher is better."""
        return self.measure.sign * values

    def _repr_html_(self) -> str | None:
        from understudy.experiments.curves_card import draw_comparison  # which knows curves
        from understudy.notebook import draw_safely

        return draw_safely(lambda: draw_comparison(self))

    def area(self, strategy: str) -> np.ndarray:
        """(repeats,): the area under each curve over its width, a mean of the metric."""
        return area_over_width(self.values[strategy], np.array(self.schedule, dtype=float))

    def only(self, strategies: Iterable[str]) -> "Curves":
        """The curves of these strategies only, in this order."""
        return replace(self, values={name: self.of(name) for name in strategies})

    def of(self, strategy: str) -> np.ndarray:
        """(repeats, rounds): the values of a strategy; raises an error that lists the others if it is missing."""
        if strategy not in self.values:
            raise UnderstudyError(f"{self.dataset} has no curves of {strategy!r}; it has {', '.join(self.values)}")
        return self.values[strategy]

    def first(self, n_budgets: int) -> "Curves":
        """The curves at the first `n_budgets` budgets."""
        values = {name: values[:, :n_budgets] for name, values in self.values.items()}
        return replace(self, schedule=self.schedule[:n_budgets], values=values)


class Role(IntEnum):
    """What a strategy is in a comparison, in the order in which they are listed."""

    CONTESTANT = 0  # compared and ranked
    SYSTEM = 1  # changes training, so only its selection is compared
    CONTROL = 2  # shown for orientation


def role_of(name: str, among: Container[str]) -> Role:
    """The role of a strategy among those that were run."""
    if name in CONTROLS:
        return Role.CONTROL
    return Role.SYSTEM if name + SELECTION_ONLY in among else Role.CONTESTANT


def area_over_width(curves: Float[np.ndarray, "r t"], positions: Float[np.ndarray, "t"]) -> Float[np.ndarray, "r"]:
    """The area under each curve, by the trapezoidal rule, divided by its width: a mean. A single point is its own."""
    if len(positions) == 1:
        return curves[:, 0]
    area: np.ndarray = np.trapezoid(curves, positions, axis=1) / (positions[-1] - positions[0])
    return area


def standard_deviation(values: np.ndarray) -> float:
    """Standard deviation of a sample; NaN for a single value."""
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
