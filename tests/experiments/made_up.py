"""Results that nobody computed: what a comparison would store, made up in a moment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.pool import Dataset
from understudy.experiments.bench import bench_of
from understudy.experiments.plan import Plan
from understudy.experiments.results import (
    CEILING,
    RESULT_COLUMNS,
    RESULTS,
    ROUND_COLUMNS,
    TIMING_COLUMNS,
    TIMINGS,
    Results,
    Round,
    RoundStore,
)


def made_up(
    folder: Path,
    strategies: Sequence[str] = ("surrogate", "margin", "random"),
    repeats: int = 3,
    schedule: Sequence[int] = (6, 12, 24, 48),
    dataset: Dataset | None = None,
    classes: Sequence[str] = ("cat", "dog", "owl"),
    ended: Mapping[str, int] | None = None,
    ceiling: bool = True,
    wanted: Sequence[str] | None = None,
) -> Results:
    """A folder of results. `ended`: how many repetitions of a strategy there are, where not all; `wanted`: whom the
    settings name."""
    n, digest = 200, "0"
    if dataset is not None:
        bench = bench_of(dataset)
        classes, n, digest = bench.pool.classes, len(bench.pool), bench.digest()
    plan = Plan(
        "made up" if dataset is None else dataset.name, digest, tuple(classes), n, 50, "modern", tuple(schedule)
    )
    also = {
        "source": "some where/pool.npz",
        "protocol": "own schedule",
        "strategies": list(strategies if wanted is None else wanted),
        "repeats": repeats,
        "device": "cpu",
        "together": 1,
    }
    RoundStore(folder).begin(plan, also)
    rounds = [
        one
        for place, name in enumerate(strategies)
        for repeat in range((ended or {}).get(name, repeats))
        for one in run_of(plan, name, place, repeat)
    ]
    if ceiling:
        rounds += [
            round_of(plan, CEILING, repeat, 0, labels=n, accuracy=0.97, picks=[], rng=np.random.default_rng(repeat))
            for repeat in range(repeats)
        ]
    whole = pa.Table.from_pylist([asdict(one) for one in rounds], schema=ROUND_COLUMNS)
    for name, schema in ((RESULTS, RESULT_COLUMNS), (TIMINGS, TIMING_COLUMNS)):
        pq.write_table(whole.select(schema.names), folder / name)
    return Results.open(folder)


def run_of(plan: Plan, name: str, place: int, repeat: int) -> list[Round]:
    """Curves that rise with the logarithm of the labels; whoever comes first in the list is a little better."""
    rng = np.random.default_rng([place, repeat])
    order = np.concatenate(
        [initial := plan.initial_rows(repeat), rng.permutation(np.setdiff1d(np.arange(plan.pool_rows), initial))]
    )
    out, before = [], 0
    for number, labels in enumerate(plan.schedule):
        way = np.log(labels / plan.schedule[0]) / np.log(1 + plan.schedule[-1] / plan.schedule[0])
        accuracy = 0.5 + (0.42 - 0.012 * place) * way + rng.normal(0, 0.004)
        picks = order[before:labels].tolist()
        out.append(round_of(plan, name, repeat, number, labels=labels, accuracy=accuracy, picks=picks, rng=rng))
        before = labels
    return out


def round_of(
    plan: Plan, name: str, repeat: int, number: int, *, labels: int, accuracy: float, picks: list[int], rng: Any
) -> Round:
    c = len(plan.classes)
    share = rng.dirichlet(np.full(c, 30.0))
    return Round(
        dataset=plan.dataset, strategy=name, repeat=repeat, round=number, labels=labels,
        accuracy=accuracy, class_accuracy=[accuracy] * c, ece=0.2 * (1 - accuracy),
        brier=1 - accuracy**2, log_loss=float(-np.log(accuracy)),
        asked_accuracy=None if number == 0 else accuracy - 0.1, class_counts=(share * labels).astype(int).tolist(),
        picks=picks, scores=[0.0] * len(picks), was_right=None if number == 0 else [bool(row % 3) for row in picks],
        memory="{}", train_seconds=0.5, predict_seconds=0.001, choose_seconds=10.0 ** -rng.uniform(1, 4),
        peak_memory=10**8, peak_device_memory=0, together=1, device="a machine",
        versions=json.dumps({"torch": "2.11", "understudy": "0"}), finished="2026-01-02T03:04:05+00:00",
    )  # fmt: skip
