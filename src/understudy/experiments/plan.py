"""The plan of a comparison: at how many labels the learner is trained, and the seeds of all random draws."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from understudy.checks import check_whole_number
from understudy.errors import UsageError

# Each purpose has its own random stream, so that draws for one do not affect another.
STREAM_SPLIT, STREAM_INITIAL, STREAM_RUN = range(3)
PAPER_SCHEDULE: Final = (600, 800, *range(1000, 11_001, 1000))
MAX_ROWS_SMALL: Final = 20_000  # the paper's schedule is the default for larger pools
STEPS_IN_SCHEDULE: Final = 10  # for smaller pools
LABELS_PER_CLASS: Final = 2  # at the start of that schedule

Protocol = Literal["paper", "small"]


@dataclass(frozen=True)
class Plan:
    """Everything that determines the results of a run, apart from its strategy and repetition."""

    dataset: str
    digest: str  # of the items' names, features, images held in memory, and labels
    classes: tuple[str, ...]
    pool_rows: int
    test_rows: int
    learner: str
    schedule: tuple[int, ...]
    seed: int = 0
    start: int | None = None  # 0: strategies that need no learner choose their first rows; None: all share them

    def __post_init__(self) -> None:
        if self.start not in (None, 0):
            raise UsageError(f"start must be 0 or None (all strategies share their first labels); got {self.start!r}")
        object.__setattr__(self, "schedule", check_schedule(self.schedule, self.pool_rows, len(self.classes)))

    def as_json(self) -> dict[str, Any]:
        """The plan as it is stored. A shared start is left out, as in earlier versions, which had no other."""
        known = asdict(self) | {"schedule": list(self.schedule), "classes": list(self.classes)}
        return {name: value for name, value in known.items() if (name, value) != ("start", None)}

    def initial_rows(self, repeat: int) -> np.ndarray:
        """The first labelled rows of a repetition with a shared start, the same for all strategies."""
        rng = np.random.default_rng([self.seed, STREAM_INITIAL, repeat])
        return rng.choice(self.pool_rows, self.schedule[0], replace=False)

    def run_seed(self, repeat: int) -> int:
        """The seed of learners and strategies in a repetition, the same for all strategies."""
        return int(np.random.default_rng([self.seed, STREAM_RUN, repeat]).integers(2**63))


def default_schedule(
    protocol: Protocol | None, pool_rows: int, n_classes: int, start: int | None = None
) -> tuple[int, ...]:
    """The paper's schedule; for pools up to 20,000 rows, ten steps from two labels per class to half the pool.

    Without a shared start: one label per class, two, four and so on, at most ten steps, up to half the pool.
    """
    if start == 0 and protocol is None:
        doubled = [n_classes * 2**step for step in range(STEPS_IN_SCHEDULE)]
        return tuple(labels for labels in doubled if labels <= max(pool_rows // 2, n_classes))
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
