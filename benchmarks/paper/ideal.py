"""Retraining after every label: the ideal that the surrogate imitates, and how near it comes, on the digits.

    python benchmarks/paper/ideal.py [--repeats 10] [--judges 3] [--out benchmarks/paper/results/ideal.json]

From 20 random labels to 200. Margin and entropy are retrained after every label, which is the ideal, and after every
20, which is how batches are chosen. The surrogate is anchored after every 20 and told each label in between. Right
after anchoring its uncertainty u² is the learner's entropy, so that `entropy after every label` is what
`surrogate_uncertainty` would be if it imitated retraining perfectly. In a repetition all start from the same labels,
and a training's seed depends on the repetition and the number of labels only. Every 20 labels all are judged by the
same learner, the mean of a few seeds. Then, from the ideal run's own states: which of its next 20 and 40 rows do others
choose for their batch of 20? The same ideal with other seeds says how much of that can be hoped for.
"""

import argparse
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from study import Clock, Task, about, save, stream, summary, whole_number

from understudy.data.datasets import load_named
from understudy.experiments.statistics import paired_difference
from understudy.learners.heads import Head
from understudy.learners.protocol import Job
from understudy.learners.training import Recipe
from understudy.strategies.protocol import Rehearses, Strategy
from understudy.strategies.registry import make_strategy
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.view import UNLABELLED, PoolView

FIRST, LAST, BATCH = 20, 200, 20
STATES: Final = (40, 100, 160)  # labels, where batches are compared with what the ideal does next
IDEALS: Final = ("margin", "entropy")
OURS: Final = ("surrogate", "surrogate_uncertainty", "surrogate_blind")
BATCHES: Final = (*IDEALS, *OURS, "random")
STREAM_INITIAL, STREAM_LEARNER, STREAM_STRATEGY, STREAM_BOOTSTRAP = range(4)
RESAMPLES: Final = 10_000
TINY: Final = 1e-6  # a gap that some resample may make as small
# The demo's network, as a head so that all repetitions are trained at once: whole batches, a constant rate. Its
# settings were chosen there with random labels, before any strategy was run.
LEARNER: Final = Head(
    (128,), "relu", recipe=Recipe("adamw", 0.01, weight_decay=1e-3, batch_size=256, epochs=100, gamma=1.0)
)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--judges", type=int, default=3, help="seeds of the learner that judges; their mean counts")
    parser.add_argument("--last", type=int, default=LAST, help="labels at the end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    given.device = "cpu"
    torch.set_num_threads(1)
    clock, task = Clock("cpu"), digits()
    runs = {every_label(name): labelled_by(task, name, 1, given) for name in IDEALS}
    runs |= {name: labelled_by(task, name, BATCH, given) for name in BATCHES}
    schedule = range(FIRST, given.last + 1, BATCH)
    accuracy = {name: judged(task, rows, schedule, given) for name, rows in runs.items()}
    print_accuracies(accuracy, schedule)
    report = about(given, task)
    report["learner"] = repr(LEARNER)
    report["schedule"] = list(schedule)
    report["accuracy"] = {
        name: {"area": summary(area(values, schedule).tolist()), "values": values.tolist()}
        for name, values in accuracy.items()
    }
    report["gaps"] = [gaps(accuracy, name, schedule, given.seed) for name in IDEALS]
    print_gaps(report["gaps"])
    states = [n for n in STATES if n + 2 * BATCH <= given.last]
    report["overlap"] = {name: overlaps(task, runs[every_label(name)], name, states, given) for name in IDEALS}
    print_overlaps(report["overlap"])
    report["seconds"] = clock.seconds()
    print(f"{report['seconds']:.0f} s")
    save(report, given.out)


def every_label(name: str) -> str:
    return f"{name} after every label"


def digits() -> Task:
    data = load_named("digits")
    assert data.test is not None
    (X, y), (Xt, yt) = data.pool.arrays(), data.test.arrays()
    return Task("digits", X, y, Xt, yt, len(data.pool.classes))


# -- runs, all repetitions in step ------------------------------------------------------------------------------------


def labelled_by(task: Task, name: str, step: int, given: argparse.Namespace) -> np.ndarray:
    """(repeats, labels): the rows in the order they were labelled, with a training every `step`."""
    choosers = [make_strategy(name) for _ in range(given.repeats)]
    rngs = [stream(given.seed, STREAM_STRATEGY, repeat) for repeat in range(given.repeats)]
    initial = [stream(given.seed, STREAM_INITIAL, repeat) for repeat in range(given.repeats)]
    rows = np.stack([rng.choice(len(task.X), FIRST, replace=False) for rng in initial])
    return continued(task, choosers, rows=rows, last=given.last, step=step, rngs=rngs, given=given)


def continued(
    task: Task,
    choosers: Sequence[Strategy],
    rows: np.ndarray,
    last: int,
    step: int,
    rngs: Sequence[np.random.Generator],
    given: argparse.Namespace,
    draw: int = 0,
) -> np.ndarray:
    """The same rows and those that are labelled until there are `last`."""
    while (n := rows.shape[1]) < last:
        views = views_of(task, rows, given.seed, draw)
        new = [chosen(*each, min(step, last - n), task.y) for each in zip(choosers, views, rngs, strict=True)]
        rows = np.concatenate([rows, np.stack(new)], axis=1)
    return rows


def views_of(task: Task, rows: np.ndarray, seed: int, draw: int = 0) -> list[PoolView]:
    """What strategies see once the learner was trained on these rows; one view a repetition."""
    views = []
    for labelled, model in zip(rows, trained(task, rows, seed, [draw])[0], strict=True):
        labels = np.full(len(task.X), UNLABELLED)
        labels[labelled] = task.y[labelled]
        probs = model.predict_proba(task.X)
        views.append(PoolView(labels, task.n_classes, features=task.X, probs=probs, round=len(labelled)))
    return views


def trained(task: Task, rows: np.ndarray, seed: int, draws: Sequence[int]) -> list[list[Any]]:
    """The learner of each draw and repetition: its seed depends on these and the number of labels, nothing else."""
    jobs = [
        Job(task.X[labelled], task.y[labelled], whole_number(seed, STREAM_LEARNER, repeat, len(labelled), draw))
        for draw in draws
        for repeat, labelled in enumerate(rows)
    ]
    models = LEARNER.fit_many(jobs, task.n_classes)
    return [models[i * len(rows) : (i + 1) * len(rows)] for i in range(len(draws))]


def chosen(strategy: Strategy, view: PoolView, rng: np.random.Generator, n: int, truth: np.ndarray) -> np.ndarray:
    """n rows; who learns from single labels is told each before the next choice."""
    if isinstance(strategy, Rehearses):
        return strategy.rehearse(view, n, truth, rng).rows
    return strategy.select(view, n, rng).rows


# -- judging ----------------------------------------------------------------------------------------------------------


def judged(task: Task, rows: np.ndarray, schedule: Sequence[int], given: argparse.Namespace) -> np.ndarray:
    """(repeats, budgets): test accuracy, the mean of all judges. The first is the learner that the strategy saw."""
    found = np.empty((len(rows), len(schedule)))
    for i, n in enumerate(schedule):
        for repeat, models in enumerate(zip(*trained(task, rows[:, :n], given.seed, range(given.judges)), strict=True)):
            found[repeat, i] = np.mean([(model.predict_proba(task.Xt).argmax(1) == task.yt).mean() for model in models])
    return found


def area(accuracy: np.ndarray, schedule: Sequence[int]) -> np.ndarray:
    """(repeats,): the area under each curve over its width, a mean accuracy."""
    whole: np.ndarray = np.trapezoid(accuracy, schedule, axis=1) / (schedule[-1] - schedule[0])
    return whole


def gaps(accuracy: dict[str, np.ndarray], name: str, schedule: Sequence[int], seed: int) -> dict[str, Any]:
    """What retraining after every label gains over batches in area, and how much of that others gain."""
    batch = area(accuracy[name], schedule)
    gap = area(accuracy[every_label(name)], schedule) - batch
    found: dict[str, Any] = {"ideal": every_label(name), "batches": name, "gap": difference(gap), "others": {}}
    for other in (*OURS, "random"):
        gain = area(accuracy[other], schedule) - batch
        found["others"][other] = {
            "gain": difference(gain),
            "beyond_ideal": difference(gain - gap),
            "share_closed": share_closed(gain, gap, seed),
        }
    return found


def difference(values: np.ndarray) -> dict[str, Any]:
    """A paired difference and its 95 % interval."""
    found = paired_difference(values)
    return {"mean": found.mean, "interval": found.interval, "values": values.tolist()}


def share_closed(gain: np.ndarray, gap: np.ndarray, seed: int) -> tuple[float, tuple[float, float]] | None:
    """Mean gain over mean gap, and the middle 95 % of it over repetitions drawn with replacement.

    None where the gap may as well be nothing: a share of that says nothing either.
    """
    interval = paired_difference(gap).interval
    if interval is None or interval[0] <= 0:
        return None
    draws = stream(seed, STREAM_BOOTSTRAP).integers(len(gap), size=(RESAMPLES, len(gap)))
    shares = gain[draws].mean(1) / np.maximum(gap[draws].mean(1), TINY)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(gain.mean() / gap.mean()), (float(low), float(high))


# -- overlaps ---------------------------------------------------------------------------------------------------------


def overlaps(
    task: Task, ideal: np.ndarray, name: str, states: Sequence[int], given: argparse.Namespace
) -> dict[str, Any]:
    """For each way of choosing 20 rows: the share of them that the ideal labels within its next 20 and 40."""
    followers = {who: [make_strategy(who) for _ in range(given.repeats)] for who in (name, *OURS, "random")}
    again = f"{every_label(name)}, other seeds"
    found: dict[str, dict[int, list[list[float]]]] = {who: {BATCH: [], 2 * BATCH: []} for who in (*followers, again)}
    for n in states:
        rows = ideal[:, :n]
        rngs = [stream(given.seed, STREAM_STRATEGY, repeat, n) for repeat in range(given.repeats)]
        views = views_of(task, rows, given.seed)
        picks = {
            who: [from_here(*each, task.y) for each in zip(choosers, views, rngs, strict=True)]
            for who, choosers in followers.items()
        }
        others = [make_strategy(name) for _ in range(given.repeats)]
        picks[again] = list(
            continued(task, others, rows=rows, last=n + BATCH, step=1, rngs=rngs, given=given, draw=given.judges)[:, n:]
        )
        for who, batches in picks.items():
            for reach, shares in found[who].items():
                following = ideal[:, n : n + reach]
                shares.append([shared(*pair) for pair in zip(batches, following, strict=True)])
    return {
        who: {str(reach): summary(np.mean(shares, axis=0).tolist()) for reach, shares in by_reach.items()}
        for who, by_reach in found.items()
    }


def from_here(strategy: Strategy, view: PoolView, rng: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    """A batch from this state. The strategy stays as it was, but for what it learnt on the way to it."""
    if isinstance(strategy, SurrogateStrategy):
        strategy.follow(view, rng)
    return chosen(deepcopy(strategy), view, rng, BATCH, truth)


def shared(batch: np.ndarray, following: np.ndarray) -> float:
    """The share of a batch that is among the rows that follow."""
    return len(np.intersect1d(batch, following)) / len(batch)


# -- tables -----------------------------------------------------------------------------------------------------------


def print_accuracies(accuracy: dict[str, np.ndarray], schedule: Sequence[int]) -> None:
    print("test accuracy in %, mean over repetitions")
    print(f"{'labels':28}" + "".join(f"{n:6}" for n in schedule) + "  whole curve")
    for name, values in accuracy.items():
        means = "".join(f"{100 * mean:6.1f}" for mean in values.mean(0))
        print(f"{name:28}{means}  {100 * area(values, schedule).mean():6.2f}")


def print_gaps(found: list[dict[str, Any]]) -> None:
    for each in found:
        print(f"\n{each['ideal']} minus batches of {BATCH}: {points(each['gap'])} of area")
        for other, values in each["others"].items():
            text = (
                f"  {other:24} minus batches: {points(values['gain'])}; minus ideal: {points(values['beyond_ideal'])}"
            )
            if values["share_closed"] is None:
                print(f"{text}; no clear gap to close")
            else:
                share, (low, high) = values["share_closed"]
                print(f"{text}; share of the gap {share:.2f} [{low:.2f}, {high:.2f}]")


def points(found: dict[str, Any]) -> str:
    text = f"{100 * found['mean']:+.2f}"
    if found["interval"] is None:
        return text
    low, high = found["interval"]
    return f"{text} [{100 * low:+.2f}, {100 * high:+.2f}]"


def print_overlaps(found: dict[str, dict[str, Any]]) -> None:
    for name, by_who in found.items():
        print(f"\nshare of a batch of {BATCH} among the next {BATCH} and {2 * BATCH} of {every_label(name)}")
        for who, by_reach in by_who.items():
            print(f"  {who:40}" + "".join(f"{values['mean']:8.2f}" for values in by_reach.values()))


if __name__ == "__main__":
    main()
