"""What is played to prove the default: lists of jobs, by study and data set, and how long each may take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from prepare import files_of

from understudy.experiments.plan import PAPER_SCHEDULE

TEN: Final = tuple(range(10))
FIVE: Final = tuple(range(5))
THREE: Final = tuple(range(3))
FOUR_SETS: Final = ("fashion_mnist", "cifar10", "cifar100", "tiny_imagenet")
TWO_SETS: Final = ("cifar100", "fashion_mnist")
N_CLASSES: Final = {
    "fashion_mnist": 10,
    "cifar10": 10,
    "cifar100": 100,
    "tiny_imagenet": 200,
    "fashion_pixels": 10,
    "reviews": 2,
}

RIVALS: Final = (
    "random",
    "margin",
    "entropy",
    "coreset",
    "badge",
    "typiclust",
    "max_herding",
    "uherding",
    "drop_query",
    "surrogate",
)
# From nothing what is known to be worst is left out.
EARLY_RIVALS: Final = tuple(name for name in RIVALS if name not in ("entropy", "coreset"))
SIX: Final = ("understudy", "uherding", "badge", "margin", "typiclust", "random")

CURVE: Final = (600, 800, 1000, 2000, 3000, 4000, 5000)
LONG: Final = (600, 1000, 2000, 3000, 5000, 7000, 9000, 11000)
HELD_OUT: Final = (200, 400, 800, 1500, 3000)
CONDITION: Final = (200, 400, 800, 1500, 3000)
BOARD: Final = (600, 800, 1000, 2000, 3000)  # as far as the leaderboard goes
NETWORK: Final = (300, 600, 1000, 2000)
FROM_NOTHING: Final = {
    10: (10, 20, 40, 80, 200, 500, 1000),
    100: (100, 200, 400, 800, 1000),
    200: (200, 400, 800, 1000),
}
HELD_OUT_OF: Final = {"fashion_mnist": "held_out20000", "cifar100": "held_out"}  # a third of 60,000 tells as much
THOUSAND_ROWS: Final = {"fashion_mnist": (20, 40, 80, 160, 320), "cifar100": (100, 200, 400, 800)}

# What the leaderboard has besides what `curves` and `benchmarks/paper` keep.
BOARD_ONLY: Final = ("probcover", "cluster_margin", "dcom", "tcm", "active_ft")
PARTS: Final = ("surrogate_influence", "surrogate_uncertainty")
CONTENDERS: Final = ("understudy", *RIVALS, *BOARD_ONLY, "gradnorm", *PARTS)
REGIMES: Final = ("imbalanced", "wrong", "duplicates")
# What the paper's claims to 11,000 labels are judged by.
TO_THE_END: Final = ("surrogate", "badge", "random", "margin", "understudy", "typiclust", "uherding")

# Settings of the paper's method that it says do not matter, or only so far; the first is the reference.
SWEEPS: Final = (
    "surrogate",
    *(f"surrogate(width={width})" for width in (0.015, 0.05, 0.15, 1.0, 2.0, 4.0)),
    *(f"surrogate(output_width={width})" for width in (0.3, 1.0, 3.0, 20.0, 40.0, 80.0)),
    *(f"surrogate(noise={noise}, dtype='float64')" for noise in (1e-8, 1e-9, 1e-10, 1e-11, 1e-12)),
    *(f"surrogate(basis_size={size})" for size in (100, 250, 1000, 2000, 4000)),
)

# Settings of the default, each changed alone; the default itself is the first.
ABLATIONS: Final = (
    "understudy",
    "understudy(width=0.5)",
    "understudy(width=2.0)",
    "understudy(explained=0.8)",
    "understudy(weighting='even')",
    "understudy(doubt='standing')",
    "understudy(mode='uniform')",
    "understudy(mode='influence')",
    "understudy(bias=None)",
    "understudy(basis_size=250)",
    "understudy(basis_size=1000)",
    "understudy(noise=0.5)",
    "understudy(floor=1e-6)",
    "understudy(floor=0.1)",
)
DECLINE: Final = (
    "surrogate",
    "surrogate(width=1.0)",
    "surrogate(width=1.3)",
    "surrogate(basis_size=1000)",
    "surrogate(basis_size=2000)",
)

# What `benchmarks/paper` keeps of the very same protocol, ten repetitions to the end: not played again.
OLD: Final = ("random", "margin", "entropy", "coreset", "badge", "typiclust", "surrogate")
KEPT: Final = {(name, "paper"): OLD for name in FOUR_SETS} | {
    ("cifar100", "modern"): ("random", "margin", "entropy", "badge", "surrogate")
}

Start = Literal["shared", "own"]  # random rows, the same for all; or what a strategy chooses from no label at all


@dataclass(frozen=True)
class Job:
    """What one process plays at a time: some repetitions of one strategy in one experiment."""

    study: str
    data: str  # SET or SET+VARIANT, see prepare.py
    learner: str
    strategy: str
    schedule: tuple[int, ...]
    repeats: tuple[int, ...]
    start: Start = "shared"
    variant: str = ""

    @property
    def experiment(self) -> str:
        """The folder of the jobs that are compared with one another."""
        parts = (self.study, *self.data.split("+"), self.learner, self.variant)
        return "-".join(part for part in parts if part)

    @property
    def key(self) -> str:
        return f"{self.experiment}/{self.strategy}/{self.repeats[0]}-{self.repeats[-1]}"

    @property
    def set(self) -> str:
        return self.data.partition("+")[0]

    @property
    def seconds(self) -> float:
        return estimate(self)


# -- the studies ------------------------------------------------------------------------------------------------------


def curves() -> Iterator[Job]:
    for name in FOUR_SETS:
        for learner in ("paper", "modern"):
            for strategy in ("understudy", *RIVALS):
                yield from split(Job("curves", name, learner, strategy, CURVE, TEN))


def nothing() -> Iterator[Job]:
    for name in FOUR_SETS:
        for learner in ("paper", "modern"):
            for strategy in ("understudy", *EARLY_RIVALS):
                schedule = FROM_NOTHING[N_CLASSES[name]]
                yield from split(
                    Job(
                        "nothing", name, learner=learner, strategy=strategy, schedule=schedule, repeats=TEN, start="own"
                    )
                )


def bait() -> Iterator[Job]:
    """Over all rows of the pool a pick takes BAIT several times as long as all others together: it looks at 5,000."""
    for name in ("fashion_mnist", "cifar10"):
        yield from split(Job("curves", name, "modern", "bait_binary(subset_size=5000)", CURVE, TEN))


def long() -> Iterator[Job]:
    for name in ("cifar100", "tiny_imagenet"):
        for strategy in ("understudy", "random", "margin", "badge", "uherding"):
            yield from split(Job("long", name, "modern", strategy, LONG, TEN))


def board() -> Iterator[Job]:
    """What the leaderboard needs beside `curves`: four sets with both heads, and two sets in three regimes."""
    for name in FOUR_SETS:
        for strategy in BOARD_ONLY:
            yield from split(Job("board", name, "paper", strategy, BOARD, FIVE))
        for strategy in (*BOARD_ONLY, "gradnorm", *PARTS):
            yield from split(Job("board", name, "modern", strategy, BOARD, FIVE))
    for name in TWO_SETS:
        for regime in REGIMES:
            kept = () if regime == "duplicates" else SIX  # `conditions` has these, of the same plan
            for strategy in (name for name in CONTENDERS if name not in kept):
                yield from split(Job("board", f"{name}+{regime}", "modern", strategy, CONDITION, FIVE))


def paper_long() -> Iterator[Job]:
    """The paper's own budgets to their end."""
    for name in FOUR_SETS:
        for strategy in TO_THE_END:
            yield from split(Job("long", name, "paper", strategy, PAPER_SCHEDULE, TEN))


def paper_gcn() -> Iterator[Job]:
    """What `benchmarks/paper` did not come to the end of."""
    for name in FOUR_SETS:
        yield from split(Job("gcn", name, "paper", "core_gcn", CURVE, TEN))


def paper_sweeps() -> Iterator[Job]:
    for strategy in SWEEPS:
        yield from split(Job("sweep10", "cifar10", "paper", strategy, CURVE, TEN))


def ablations() -> Iterator[Job]:
    for name in TWO_SETS:
        for strategy in ABLATIONS:
            yield from split(Job("ablations", f"{name}+{HELD_OUT_OF[name]}", "modern", strategy, HELD_OUT, TEN))


def decline() -> Iterator[Job]:
    for strategy in DECLINE:
        yield from split(Job("decline", "cifar100", "modern", strategy, CURVE, TEN))


def conditions() -> Iterator[Job]:
    one = Job("conditions", "", "modern", "", CONDITION, FIVE)
    for name in TWO_SETS:
        yield from each(replace(one, data=f"{name}+imbalanced"))
        yield from each(replace(one, data=f"{name}+wrong"))
        yield from each(replace(one, data=f"{name}+rows1000", schedule=THOUSAND_ROWS[name]))
        # Many trainings: the pool is a part, so that predicting it does not take longest.
        part = replace(one, data=f"{name}+rows20000")
        yield from each(replace(part, variant="every100", schedule=tuple(range(200, 3001, 100))))
        yield from each(replace(part, variant="every1000", schedule=(200, 1000, 2000, 3000)))
    yield from each(replace(one, data="reviews"))
    yield from each(replace(one, data="fashion_pixels"))


def singly() -> Iterator[Job]:
    """A training after every label: of the conditions, but so long that one may want to play it elsewhere, on a CPU."""
    few = Job("conditions", "", "modern", "", tuple(range(200, 1001, 10)), FIVE, variant="every10")
    for name in TWO_SETS:
        yield from each(replace(few, data=f"{name}+rows20000"))
    schedule = tuple(range(20, 301))
    yield from each(Job("conditions", "fashion_mnist+rows5000", "modern", "", schedule, FIVE, variant="every1"))


def network() -> Iterator[Job]:
    """ResNet18 on the pixels. Strategies that look at features are shown those of the frozen encoder."""
    for strategy in ("understudy", "margin", "badge", "random"):
        yield from split(Job("network", "fashion_pixels+images", "resnet18", strategy, NETWORK, THREE))


ALL: Final = (
    curves, nothing, bait, long, ablations, decline, conditions, singly, network,
    board, paper_long, paper_gcn, paper_sweeps,
)  # fmt: skip
STUDIES: Final = {study.__name__: study for study in ALL}


def each(job: Job) -> Iterator[Job]:
    for strategy in SIX:
        yield from split(replace(job, strategy=strategy))


def split(job: Job) -> Iterator[Job]:
    """The same in blocks of repetitions, where all of them in one process would be the last to end.

    By a fixed rule, not by an estimate: what is stored of a block is found again when estimates have changed.
    """
    size = len(job.repeats)
    if job.learner == "resnet18":
        size = 1  # its networks are trained one after another in any case
    elif job.variant == "every1":
        size = 2
    elif "basis_size=4000" in job.strategy:
        size = 1
    elif "basis_size=2000" in job.strategy and job.study == "sweep10":
        size = 2
    elif (
        job.strategy.startswith(("coreset", "surrogate(basis_size=2000"))
        or job.schedule == LONG
        or job.schedule == PAPER_SCHEDULE
        or job.strategy == "core_gcn"
    ):
        size = 5
    for first in range(0, len(job.repeats), size):
        yield replace(job, repeats=job.repeats[first : first + size])


def is_kept(job: Job) -> bool:
    """Whether `benchmarks/paper` has it already."""
    same = (
        job.study != "sweep10"
        and job.schedule == CURVE
        and job.repeats[-1] < 10
        and job.start == "shared"
        and not job.variant
    )
    return same and job.strategy in KEPT.get((job.data, job.learner), ())


def jobs_of(studies: Sequence[str], sets: Sequence[str] = (), again: bool = False) -> list[Job]:
    """The jobs of these studies, in this order, each study's longest first; of all data sets unless some are named."""
    found = []
    for study in studies:
        jobs = [job for job in STUDIES[study]() if again or not is_kept(job)]
        jobs = [job for job in jobs if not sets or set(files_of(job.data)) <= set(sets)]
        found += sorted(jobs, key=lambda job: -job.seconds)
    return found


def for_trial(job: Job) -> Job:
    """The same on almost nothing, to see that it runs."""
    n = max(N_CLASSES[job.set], 10)
    step = 1 if job.variant == "every1" else 10
    schedule = (n, n + step) if job.learner == "resnet18" else (n, n + step, n + 2 * step)
    return replace(job, schedule=schedule, repeats=job.repeats[:2])


# -- how long it takes ------------------------------------------------------------------------------------------------

# Seconds of one process among fifteen on one H200, by what the kept comparisons took; * is a guess.
TRAIN_A_LABEL: Final = {"paper": 2.1e-4, "modern": 5e-5, "resnet18": 1.5e-2}  # a repetition of ten trained together
CHOOSE_A_PICK: Final = {
    "understudy": 2.6e-3,  # *
    "surrogate": 2.3e-3,
    "badge": 1.2e-3,
    "coreset": 4e-3,
    "typiclust": 1.8e-3,
    "max_herding": 1.4e-3,  # *
    "uherding": 1.6e-3,  # *
    "drop_query": 1.5e-3,  # *
    "bait_binary": 3e-3,  # *
    "core_gcn": 9e-3,
    "active_ft": 1e-3,  # *
    "dcom": 2e-3,  # *
    "probcover": 2e-3,  # *
    "cluster_margin": 2e-3,  # *
}
# What a round costs a repetition however few picks it has: predictions, k-means, kernels.
A_ROUND: Final = {
    "understudy": 0.3,
    "badge": 0.3,
    "typiclust": 0.6,
    "uherding": 0.6,
    "max_herding": 0.3,
    "drop_query": 1.6,  # its own head, with masks drawn on the CPU
}
A_TRAINING: Final = 0.15  # and every training, with what it is judged by
POOL_ROWS: Final = {"tiny_imagenet": 100_000, "fashion_mnist": 60_000, "fashion_pixels": 20_000, "reviews": 6_530}

PART_ROWS: Final = {
    "rows1000": 1_000,
    "rows5000": 5_000,
    "rows20000": 20_000,
    "held_out20000": 20_000,
    "imbalanced": 16_000,
    "duplicates": 71_000,
}


def estimate(job: Job) -> float:
    """Process-seconds of a job."""
    name, _, settings = job.strategy.partition("(")
    variant = job.data.partition("+")[2]
    rows = PART_ROWS.get(variant, POOL_ROWS.get(job.set, 50_000))
    scale = 0.4 + 0.6 * rows / 50_000  # launches take as long for a small pool
    if "basis_size=2000" in settings:
        scale *= 4
    elif "basis_size=4000" in settings:
        scale *= 10
    elif "basis_size=1000" in settings:
        scale *= 2
    repeats, rounds = len(job.repeats), len(job.schedule)
    picks = job.schedule[-1] - (0 if job.start == "own" else job.schedule[0])
    train = (
        TRAIN_A_LABEL.get(job.learner, 5e-5) * sum(job.schedule) * max(repeats, 5 if job.learner != "resnet18" else 1)
    )
    choose = repeats * scale * CHOOSE_A_PICK.get(name, 0.0) * picks
    look = repeats * rounds * (0.03 + (0.1 + A_ROUND.get(name, 0.0)) * rows / 50_000)
    return train + choose + look + A_TRAINING * rounds
