"""The plan of a comparison: at how many labels the learner is trained, and who draws which random numbers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from understudy.checks import check_whole_number
from understudy.errors import UsageError

# Each purpose draws from a stream of its own, so that what one draws changes nothing for another.
STREAM_SPLIT, STREAM_INITIAL, STREAM_RUN = range(3)
PAPER: Final = (600, 800, *range(1000, 11_001, 1000))
LARGE: Final = 20_000  # rows above which the paper's schedule is the default
STEPS: Final = 10  # trainings of the schedule for smaller pools
A_CLASS: Final = 2  # labels a class that it starts from

Protocol = Literal["paper", "small"]


@dataclass(frozen=True)
class Plan:
    """All that decides the numbers of a run, beside its strategy and repetition."""

    dataset: str
    digest: str  # of the items' names, features, images held in memory, and labels
    classes: tuple[str, ...]
    pool_rows: int
    test_rows: int
    learner: str
    schedule: tuple[int, ...]
    seed: int = 0
    start: int | None = None  # 0: who can choose without a learner chooses its first rows; None: all share them

    def __post_init__(self) -> None:
        if self.start not in (None, 0):
            raise UsageError(f"start is 0, or leave it out for first labels that all share; got {self.start!r}")
        object.__setattr__(self, "schedule", checked_schedule(self.schedule, self.pool_rows, len(self.classes)))

    def as_json(self) -> dict[str, Any]:
        """What a folder is known by. A shared start goes without saying, as it did when there was no other."""
        known = asdict(self) | {"schedule": list(self.schedule), "classes": list(self.classes)}
        return {name: value for name, value in known.items() if (name, value) != ("start", None)}

    def initial_rows(self, repeat: int) -> np.ndarray:
        """The first labelled rows of a repetition where the start is shared, the same for all strategies."""
        rng = np.random.default_rng([self.seed, STREAM_INITIAL, repeat])
        return rng.choice(self.pool_rows, self.schedule[0], replace=False)

    def run_seed(self, repeat: int) -> int:
        """What learners and strategies of a repetition draw from, the same for all of them."""
        return int(np.random.default_rng([self.seed, STREAM_RUN, repeat]).integers(2**63))


def default_schedule(
    protocol: Protocol | None, pool_rows: int, n_classes: int, start: int | None = None
) -> tuple[int, ...]:
    """The paper's numbers of labels, or for pools up to 20,000 rows ten from two a class to half the pool.

    Without a shared start: one label a class, two, four and so on, ten times at most and up to half the pool.
    """
    if start == 0 and protocol is None:
        doubled = [n_classes * 2**step for step in range(STEPS)]
        return tuple(labels for labels in doubled if labels <= max(pool_rows // 2, n_classes))
    if protocol == "paper" or (protocol is None and pool_rows > LARGE):
        return PAPER
    steps = np.geomspace(A_CLASS * n_classes, max(pool_rows // 2, A_CLASS * n_classes), STEPS)
    return tuple(sorted({round(float(step)) for step in steps}))


def checked_schedule(schedule: Sequence[int], pool_rows: int, n_classes: int) -> tuple[int, ...]:
    """Numbers of labels that grow, from at least one a class to at most the pool."""
    steps = tuple(check_whole_number("a number of labels in the schedule", step, 1) for step in schedule)
    if not steps or list(steps) != sorted(set(steps)):
        raise UsageError(f"a schedule is numbers of labels that grow; got {','.join(map(str, steps)) or 'none'}")
    if steps[-1] > pool_rows:
        raise UsageError(
            f"the schedule goes to {steps[-1]:,} labels, but the pool has {pool_rows:,} rows; "
            f"end it at {pool_rows:,} or before"
        )
    if steps[0] < n_classes:
        raise UsageError(
            f"the schedule starts from {steps[0]:,} labels for {n_classes:,} classes; start from {n_classes:,} or more"
        )
    return steps


def parsed_schedule(text: str) -> tuple[int, ...]:
    """A schedule as it is typed: `600,800,1000`, or `1000:5000:1000` for equal steps."""
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
            f"a schedule is numbers of labels, 600,800,1000 or 1000:5000:1000 for equal steps; got {text!r}"
        ) from None
    return tuple(steps)


def finer(schedule: Sequence[int], times: int) -> tuple[int, ...]:
    """The same schedule with `times` as many trainings between two of its numbers, where there are labels enough."""
    between = [np.linspace(a, b, times + 1)[1:] for a, b in pairwise(schedule)]
    return tuple(sorted({schedule[0], *(round(float(step)) for steps in between for step in steps)}))
