"""The plan of a comparison: at how many labels the learner is trained, and the seeds of all random draws."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from understudy.checks import check_number, check_whole_number
from understudy.errors import UsageError

# Each purpose has its own random stream, so that draws for one do not affect another.
(
    STREAM_SPLIT,
    STREAM_INITIAL,
    STREAM_RUN,
    STREAM_IMBALANCE,
    STREAM_DUPLICATES,
    STREAM_WRONG,
    STREAM_ORACLE,
) = range(7)
PAPER_SCHEDULE: Final = (600, 800, *range(1000, 11_001, 1000))
MAX_ROWS_SMALL: Final = 20_000  # the paper's schedule is the default for larger pools
STEPS_IN_SCHEDULE: Final = 10  # for smaller pools
LABELS_PER_CLASS: Final = 2  # at the start of that schedule

MOST_DUPLICATES: Final = 0.9  # of the resulting pool, which is then ten times as large

Protocol = Literal["paper", "small"]
LEFT_OUT: Final = ("start", "predictions")  # of what is stored, where absent


@dataclass(frozen=True)
class Regime:
    """What is made harder than the data set is; nothing by default."""

    imbalance: float | None = None  # of the pool: the largest class is so many times the smallest
    wrong: float | None = None  # the probability that an answer is another class
    duplicates: float | None = None  # the share of near-copies in the resulting pool

    def __post_init__(self) -> None:
        for name, bounds in (
            ("imbalance", {"above": 1.0}),
            ("wrong", {"above": 0.0, "below": 1.0}),
            ("duplicates", {"above": 0.0, "most": MOST_DUPLICATES}),
        ):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_number(name, value, **bounds))

    @property
    def settings(self) -> dict[str, float]:
        """Those that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def texts(self) -> dict[str, str]:
        """The same as they are typed."""
        return {name: str(value).removesuffix(".0") for name, value in self.settings.items()}

    def describe(self) -> list[str]:
        """What it is, a few words for each setting."""
        said = []
        if self.imbalance is not None:
            said.append(f"class sizes of the pool fall to 1/{self.imbalance:g}")
        if self.duplicates is not None:
            said.append(f"{100 * self.duplicates:g} % of the pool are near-copies")
        if self.wrong is not None:
            said.append(f"{100 * self.wrong:g} % of the answers are wrong")
        return said


def regime_of(stored: Mapping[str, Any]) -> Regime:
    """The regime of a stored plan."""
    return Regime(**{one.name: stored.get(one.name) for one in fields(Regime)})


@dataclass(frozen=True)
class Plan:
    """Everything that determines the results of a run, apart from its strategy and repetition."""

    dataset: str
    digest: str  # of the items' names, features, images held in memory, and labels, before any regime
    classes: tuple[str, ...]
    pool_rows: int
    test_rows: int
    learner: str
    schedule: tuple[int, ...]
    seed: int = 0
    start: int | None = None  # 0: strategies that need no learner choose their first rows; None: all share them
    predictions: str | None = None  # a digest of those that all strategies start from, if there are any
    regime: Regime = Regime()

    def __post_init__(self) -> None:
        if self.start not in (None, 0):
            raise UsageError(f"start must be 0 or None (all strategies share their first labels); got {self.start!r}")
        if self.predictions is not None and self.start is None:
            raise UsageError("predictions are seen only where the first labels are not shared; pass start=0 with them")
        object.__setattr__(self, "schedule", check_schedule(self.schedule, self.pool_rows, len(self.classes)))

    def as_json(self) -> dict[str, Any]:
        """The plan as it is stored. What is absent is left out, as in earlier versions, which did not know it."""
        known = asdict(self) | {"schedule": list(self.schedule), "classes": list(self.classes)}
        del known["regime"]
        kept = {name: value for name, value in known.items() if value is not None or name not in LEFT_OUT}
        return kept | self.regime.settings

    def initial_rows(self, repeat: int) -> np.ndarray:
        """The first labelled rows of a repetition with a shared start, the same for all strategies."""
        rng = np.random.default_rng([self.seed, STREAM_INITIAL, repeat])
        return rng.choice(self.pool_rows, self.schedule[0], replace=False)

    def answers(self, truth: np.ndarray, repeat: int) -> np.ndarray:
        """(n,): the class that is told for every row, the same for all strategies of a repetition.

        Some are wrong if the regime says so: any other class, with equal probability.
        """
        if self.regime.wrong is None:
            return truth
        rng = np.random.default_rng([self.seed, STREAM_WRONG, repeat])
        is_wrong = rng.random(len(truth)) < self.regime.wrong
        shift = rng.integers(1, len(self.classes), len(truth))
        return np.where(is_wrong, (truth + shift) % len(self.classes), truth)

    def run_seed(self, repeat: int) -> int:
        """The seed of learners and strategies in a repetition, the same for all strategies."""
        return int(np.random.default_rng([self.seed, STREAM_RUN, repeat]).integers(2**63))


def default_schedule(
    protocol: Protocol | None, pool_rows: int, n_classes: int, start: int | None = None, first: int = 1
) -> tuple[int, ...]:
    """The paper's schedule; for pools up to 20,000 rows, ten steps from two labels per class to half the pool.

    Without a shared start: one label per class (or `first`), two, four and so on, at most ten steps, up to half the
    pool.
    """
    if start == 0 and protocol is None:
        doubled = [first * n_classes * 2**step for step in range(STEPS_IN_SCHEDULE)]
        return tuple(labels for labels in doubled if labels <= pool_rows // 2) or (n_classes,)
    if protocol == "paper" or (protocol is None and pool_rows > MAX_ROWS_SMALL):
        return PAPER_SCHEDULE
    steps = np.geomspace(
        LABELS_PER_CLASS * n_classes, max(pool_rows // 2, LABELS_PER_CLASS * n_classes), STEPS_IN_SCHEDULE
    )
    return tuple(sorted({round(float(step)) for step in steps}))


def check_schedule(schedule: Sequence[int], pool_rows: int, n_classes: int) -> tuple[int, ...]:
    """The schedule as a tuple; it must increase from at least one label per class to at most the whole pool."""
    steps = tuple(check_whole_number("a number of labels in the schedule", step, 1) for step in schedule)
    if not steps or list(steps) != sorted(set(steps)):
        raise UsageError(f"a schedule must be increasing numbers of labels; got {','.join(map(str, steps)) or 'none'}")
    if steps[-1] > pool_rows:
        raise UsageError(
            f"the schedule ends at {steps[-1]:,} labels, but the pool has {pool_rows:,} rows; "
            f"end it at {pool_rows:,} or fewer"
        )
    if steps[0] < n_classes:
        raise UsageError(
            f"the schedule starts from {steps[0]:,} labels for {n_classes:,} classes; start from {n_classes:,} or more"
        )
    return steps


def parse_schedule(text: str) -> tuple[int, ...]:
    """A schedule from the command line: `600,800,1000`, or `1000:5000:1000` for equal steps."""
    steps: list[int] = []
    try:
        for part in text.replace("_", "").split(","):
            numbers = [int(number) for number in part.split(":")]
            if len(numbers) == 3 and numbers[2] > 0:
                steps += range(numbers[0], numbers[1] + 1, numbers[2])
            elif len(numbers) == 1:
                steps += numbers
            else:
                raise ValueError(part)
    except ValueError:
        raise UsageError(
            f"a schedule must be numbers of labels, 600,800,1000 or 1000:5000:1000 for equal steps; got {text!r}"
        ) from None
    return tuple(steps)


def refine_schedule(schedule: Sequence[int], times: int) -> tuple[int, ...]:
    """The same schedule with `times` as many trainings, where there are enough labels in between."""
    between = [np.linspace(a, b, times + 1)[1:] for a, b in pairwise(schedule)]
    return tuple(sorted({schedule[0], *(round(float(step)) for steps in between for step in steps)}))
