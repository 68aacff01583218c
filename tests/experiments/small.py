"""A small comparison to test on: 120 rows, three classes, learners that are quick."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.strategies.pools import make_arrays
from understudy.data.items import ArrayImages
from understudy.data.pool import Dataset, Pool
from understudy.experiments.bench import Bench
from understudy.experiments.compare import plan_of
from understudy.experiments.results import RESULT_COLUMNS, TIMING_COLUMNS, Round
from understudy.experiments.run import Experiment, Unit, play
from understudy.learners.heads import Head
from understudy.learners.training import Recipe

ARRAYS = make_arrays(170)
SCHEDULE = (9, 14, 20, 26)
CLASSES = ("a", "b", "c")
LEARNER = f"{__name__}:QUICKLY"
QUICKLY = Head(hidden=(8, 5), dropout=0.2, recipe=Recipe("adamw", 0.01, batch_size=16, epochs=4))
OTHERWISE = replace(QUICKLY, hidden=(6,))


def part(rows: Iterable[int], **more: Any) -> Pool:
    some = np.array(list(rows))
    ids = tuple(f"item {row}" for row in some)
    known = {"features": ARRAYS.features[some], "labels": ARRAYS.truth[some], "classes": CLASSES}
    return Pool(ids, **{**known, **more})


def images_of(rows: Iterable[int]) -> Pool:
    rows = list(rows)
    return part(rows, items=ArrayImages(ARRAYS.images[np.array(rows)]))


def dataset() -> Dataset:
    return Dataset("small", part(range(120)), part(range(120, 170)))


def only_results(out: Path) -> bytes:
    """What must be the same, whoever played it."""
    return (out / "results.parquet").read_bytes()


def experiment(schedule: Sequence[int] = SCHEDULE, learner: str = LEARNER, seed: int = 0) -> Experiment:
    found = dataset()
    assert found.test is not None
    bench = Bench(found.name, found.pool, found.test)
    return Experiment(plan_of(bench, learner, schedule, seed), bench)


def rounds_of(given: Experiment, strategy: str, repeats: Sequence[int] = (0,)) -> list[list[Round]]:
    """The rounds of one unit, from the first to the last."""
    return list(play(given, Unit(strategy, tuple(repeats)), {}))


def same_of(found: Round) -> dict[str, Any]:
    """What must not depend on where or when a round was played."""
    return {name: value for name, value in asdict(found).items() if name in RESULT_COLUMNS.names}


def a_round(strategy: str = "margin", repeat: int = 0, labels: int = 9, **more: Any) -> Round:
    """A round that nobody played."""
    values: dict[str, Any] = {"dataset": "small", "strategy": strategy, "repeat": repeat, "round": 0, "labels": labels}
    values |= {"accuracy": 0.5, "class_accuracy": [0.5, None, 1.0], "ece": 0.1, "brier": 0.2, "log_loss": 0.3}
    values |= {"asked_accuracy": None, "class_counts": [1, 2, 3], "picks": [3, 1], "scores": None, "was_right": None}
    values |= {"memory": "{}", "device": "cpu", "versions": "{}", "finished": ""}
    values |= {name: 0 for name in TIMING_COLUMNS.names if name not in values}
    return Round(**{**values, **more})
