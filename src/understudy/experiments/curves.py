"""Learning curves of several strategies; for the demo also a table for the terminal and a picture.

What they say about the strategies is in `statistics.py`, larger tables in `tables.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from rich.table import Table

from understudy.errors import UnderstudyError

# The colours of Okabe and Ito can be told apart with any colour vision, the markers without colour.
LOOKS = {
    "surrogate": ("#D55E00", "o"),
    "margin": ("#0072B2", "s"),
    "entropy": ("#009E73", "^"),
    "random": ("#555555", "D"),
}


@dataclass(frozen=True)
class Curves:
    """The accuracies of each strategy, (repeats, rounds), and the files they were written to.

    Row j of every strategy is the same repetition: the same initial labels, the same seeds.
    """

    dataset: str
    schedule: tuple[int, ...]
    accuracy: dict[str, np.ndarray]
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        for name, values in self.accuracy.items():
            if values.ndim != 2 or values.shape[1] != len(self.schedule) or len(values) != self.repeats:
                expected = f"({self.repeats}, {len(self.schedule)})"
                raise UnderstudyError(f"accuracies of {name} are {values.shape}; give {expected}, repeats and budgets")

    @property
    def repeats(self) -> int:
        return len(next(iter(self.accuracy.values())))

    def area(self, strategy: str) -> np.ndarray:
        """(repeats,): the area under each curve over its width, a mean accuracy."""
        return area_over_width(self.accuracy[strategy], np.array(self.schedule, dtype=float))

    def gain(self, strategy: str, over: str = "random") -> tuple[float, float]:
        """How much larger the area is, paired by repetition, and the standard error of that."""
        differences = self.area(strategy) - self.area(over)
        return float(differences.mean()), spread(differences) / len(differences) ** 0.5

    def only(self, strategies: Iterable[str]) -> "Curves":
        """The same with these strategies alone, in this order."""
        return replace(self, accuracy={name: self.of(name) for name in strategies})

    def of(self, strategy: str) -> np.ndarray:
        """(repeats, rounds): the accuracies of a strategy; an error that lists the others where it is missing."""
        if strategy not in self.accuracy:
            raise UnderstudyError(f"no curves of {strategy!r} for {self.dataset}; there are {', '.join(self.accuracy)}")
        return self.accuracy[strategy]

    def first(self, n_budgets: int) -> "Curves":
        """The same up to one of the budgets."""
        accuracy = {name: values[:, :n_budgets] for name, values in self.accuracy.items()}
        return replace(self, schedule=self.schedule[:n_budgets], accuracy=accuracy)


def area_over_width(curves: Float[np.ndarray, "r t"], positions: Float[np.ndarray, "t"]) -> Float[np.ndarray, "r"]:
    """The area under each curve, by trapezoids, over its width: a mean. A single point is its own."""
    if len(positions) == 1:
        return curves[:, 0]
    area: np.ndarray = np.trapezoid(curves, positions, axis=1) / (positions[-1] - positions[0])
    return area


def spread(values: np.ndarray) -> float:
    """Standard deviation of a sample; NaN for a single value, which has none."""
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def summary(curves: Curves) -> Table:
    """A table of accuracies in per cent: one row a number of labels, then the whole curve and its gain over random."""
    names = list(curves.accuracy)
    table = Table(
        title=f"{curves.dataset}: test accuracy in %, mean ± std of {curves.repeats} repetitions",
        caption="whole curve: area / width; minus random: paired, ± standard error",
        title_justify="left",
        caption_justify="left",
    )
    for heading in ("labels", *names):
        table.add_column(heading, justify="right", no_wrap=True)
    for i, n_labels in enumerate(curves.schedule):
        table.add_row(str(n_labels), *(mean_and_std(curves.accuracy[name][:, i]) for name in names))
    table.add_section()
    table.add_row("whole curve", *(mean_and_std(curves.area(name)) for name in names))
    table.add_row(
        "minus random", *("" if name == "random" else percent(*curves.gain(name), sign="+") for name in names)
    )
    return table


def mean_and_std(values: np.ndarray) -> str:
    return percent(float(values.mean()), spread(values))


def percent(value: float, deviation: float, sign: str = "") -> str:
    shown = f"{100 * value:{sign}.1f}"
    return shown if np.isnan(deviation) else f"{shown} ± {100 * deviation:.1f}"


def draw(curves: Curves, out: Path) -> tuple[Path, ...]:
    """The curves as PNG and SVG in the folder `out`, and the paths of both; nothing where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ()
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for name in sorted(curves.accuracy, key=lambda name: -curves.area(name).mean()):  # the legend follows the curves
        values, (colour, marker) = 100 * curves.accuracy[name], LOOKS[name]
        mean, std = values.mean(0), np.nan_to_num([spread(column) for column in values.T])
        axes.fill_between(curves.schedule, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
        axes.plot(curves.schedule, mean, color=colour, marker=marker, markersize=4.5, linewidth=1.6, label=name)
    axes.set_xticks(curves.schedule)
    axes.set_xlabel("labels")
    axes.set_ylabel("test accuracy (%)")
    title = f"{curves.dataset}, {curves.repeats} repetitions: mean ± one standard deviation"
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", frameon=False)
    files = out / f"{curves.dataset}.png", out / f"{curves.dataset}.svg"
    for file in files:
        figure.savefig(file, dpi=130)
    return files
