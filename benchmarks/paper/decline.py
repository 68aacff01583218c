"""Why the paper's method leads early and falls behind later: its protocol with instruments, variant by variant.

    python benchmarks/paper/decline.py --data cifar100.npz --one-round --out one-round.json
    python benchmarks/paper/decline.py --data cifar100.npz --variants literal margin 'literal>margin@2000' --out a.json
    python benchmarks/paper/decline_report.py a.json b.json --out docs/decline

`--one-round`: from the same labelled rows (random ones, and those that the method chose) and the same learner, every
variant chooses one round, and several heads are trained on each choice: the gain is of the choice, not of the course.
Without it whole paths are played. `A>B@2000` goes by A up to 2,000 labels and by B from there on. Learners are trained
from scratch each time, all variants and repetitions together; in a repetition all start from the same rows and seeds.
Every process writes a file of its own, and `decline_report.py` takes any number of them.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from decline_instruments import Yardstick, overlap
from decline_variants import VARIANTS, Basis, Chosen, Rows, Seeded, Situation, Variant, choose, make_basis, variant
from torch import Tensor

import understudy
from understudy.errors import UnderstudyError
from understudy.learners.protocol import Job, Learner, fit_many
from understudy.learners.registry import make_learner

SCHEDULE: Final = (600, 800, 1000, 2000, 3000, 4000, 5000)
INITIAL, HEADS, HALVES = range(3)  # streams of random numbers
COMPARED: Final = ("literal", "margin", "badge", "entropy", "random")  # whose rows others' are compared with


@dataclass(frozen=True, eq=False)
class Pool:
    """Features and labels, on the host for learners and on the device for the rest."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    features: Tensor
    device: str

    @classmethod
    def read(cls, path: Path, device: str, rows: int | None) -> "Pool":
        data = understudy.load(str(path))
        assert data.test is not None
        (X, y), (Xt, yt) = data.pool.arrays(), data.test.arrays()
        if rows is not None:
            kept = np.sort(np.random.default_rng(0).choice(len(X), rows, replace=False))
            X, y = X[kept], y[kept]
        X, Xt = X.astype(np.float32), Xt.astype(np.float32)
        return cls(
            data.name,
            X,
            y=y.astype(np.int64),
            X_test=Xt,
            y_test=yt.astype(np.int64),
            features=torch.from_numpy(X).to(device),
            device=device,
        )

    @property
    def n_classes(self) -> int:
        return int(max(self.y.max(), self.y_test.max())) + 1

    def situation(self, model: Any, labelled: Rows, tally: tuple[int, int], seed: int) -> Situation:
        return Situation(
            self.features,
            self.y,
            n_classes=self.n_classes,
            labelled=labelled,
            probs=model.predict_proba(self.X),
            hidden=lambda: model.features(self.X),
            tally=tally,
            basis=lambda k: self.basis(k, seed),
            seed=seed,
            device=self.device,
        )

    def trained(self, learner: Learner, labelled: Rows, tally: tuple[int, int], repeat: int) -> Situation:
        """The situation after one training."""
        job = Job(self.X[labelled], self.y[labelled], seed_of(repeat, len(labelled)))
        return self.situation(fit_many(learner, [job], self.n_classes)[0], labelled, tally, repeat)

    def accuracy(self, model: Any) -> float:
        return float((model.predict_proba(self.X_test).argmax(1) == self.y_test).mean())

    @cache  # noqa: B019  # as long as the pool, which is as long as the process
    def basis(self, k: int, seed: int) -> Basis:
        return make_basis(self.features, k, Seeded(seed, self.n_classes))

    def initial(self, n: int, repeat: int) -> Rows:
        return np.random.default_rng([repeat, INITIAL]).choice(len(self.X), n, replace=False)

    def learnable(self, learner: Learner) -> np.ndarray:
        """Which rows a learner has right that was trained on the other half of the pool."""
        halves = np.array_split(np.random.default_rng(HALVES).permutation(len(self.X)), 2)
        models = fit_many(learner, [Job(self.X[half], self.y[half]) for half in halves], self.n_classes)
        is_right = np.empty(len(self.X), dtype=bool)
        for model, rows in zip(models, halves[::-1], strict=True):
            is_right[rows] = model.predict_proba(self.X[rows]).argmax(1) == self.y[rows]
        return is_right


def seed_of(repeat: int, labels: int, head: int = 0) -> int:
    """A head's seed: the same for all variants."""
    return int(np.random.default_rng([repeat, HEADS, labels, head]).integers(2**31))


# -- whole paths ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Course:
    """One variant in one repetition, and where it stands."""

    name: str
    repeat: int
    labelled: Rows
    tally: tuple[int, int] = (0, 0)

    def how(self) -> Variant:
        """The variant by which the next rows are chosen: of `A>B@2000` the one whose turn it is."""
        first, second, at = parts_of(self.name)
        return second if len(self.labelled) >= at else first

    def go_on(self, chosen: Chosen) -> None:
        self.labelled, self.tally = np.concatenate([self.labelled, chosen.rows]), chosen.tally


def parts_of(name: str) -> tuple[Variant, Variant, int]:
    """Of `A>B@2000`: A, B, and 2,000 labels; of `A`: A, A, and 0."""
    first, _, rest = name.partition(">")
    if not rest:
        return variant(first), variant(first), 0
    second, _, at = rest.rpartition("@")
    if not at.isdigit() or not second:
        raise UnderstudyError(
            f"a switch is written A>B@2000, with the number of labels at which it comes; got {name!r}"
        )
    return variant(first), variant(second), int(at)


def play(
    pool: Pool,
    learner: Learner,
    names: Sequence[str],
    schedule: Sequence[int],
    repeats: Sequence[int],
    snapshots: int,
    learnable: np.ndarray,
) -> Iterator[dict[str, Any]]:
    """Every variant along the schedule: a record a round, of the learner trained and of the rows chosen next."""
    courses = [Course(name, r, pool.initial(schedule[0], r)) for r in repeats for name in names]
    for labels, target in pairwise([*schedule, 0]):
        jobs = [
            Job(pool.X[course.labelled], pool.y[course.labelled], seed_of(course.repeat, labels)) for course in courses
        ]
        models = fit_many(learner, jobs, pool.n_classes)
        for course, model in zip(courses, models, strict=True):
            record: dict[str, Any] = {"variant": course.name, "repeat": course.repeat, "labels": labels}
            record["accuracy"] = pool.accuracy(model)
            if target:
                now = pool.situation(model, course.labelled, course.tally, course.repeat)
                start = time.perf_counter()
                chosen = choose(course.how(), now, target - labels, snapshots)
                record |= described(now, chosen, learnable, course.repeat) | {"seconds": time.perf_counter() - start}
                course.go_on(chosen)
            yield record


def described(now: Situation, chosen: Chosen, learnable: np.ndarray, repeat: int) -> dict[str, Any]:
    yardstick = yardstick_for(now, len(chosen.rows), learnable, repeat)
    return {
        "asked accuracy": chosen.tally[0] / max(1, chosen.tally[1]),
        "pool accuracy": now.accuracy_of_pool(),
        "picks": yardstick.measure(chosen.rows),
        "gauges": chosen.gauges,
    }


def yardstick_for(now: Situation, n: int, learnable: np.ndarray, repeat: int) -> Yardstick:
    rng = np.random.default_rng([repeat, len(now.labelled)])
    return Yardstick.of(now.features, now.labels, now.probs, now.labelled, learnable, n, rng)


# -- one round from one state -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """A state to choose one round from: who chose its labels, how many they are, and how many rows are added."""

    kind: str  # random, or a variant that played the schedule up to here
    labels: int
    picked: int

    @classmethod
    def parse(cls, text: str) -> "Start":
        kind, labels, picked = text.rsplit(":", 2)
        return cls(kind, int(labels), int(picked))

    def situation(self, pool: Pool, learner: Learner, repeat: int) -> Situation:
        """The learner trained on those labels."""
        if self.kind == "random":
            rows = pool.initial(self.labels, repeat)
            now = pool.trained(learner, rows, (0, 0), repeat)
            # As if all but the first had been asked for, and been predicted as well as the others are.
            judged = max(0, self.labels - SCHEDULE[0])
            return replace(now, tally=(round(now.accuracy_of_pool() * judged), judged))
        budgets = [budget for budget in SCHEDULE if budget < self.labels] + [self.labels]
        course = Course(self.kind, repeat, pool.initial(budgets[0], repeat))
        for labels, target in pairwise(budgets):
            now = pool.trained(learner, course.labelled, course.tally, repeat)
            course.go_on(choose(course.how(), now, target - labels))
        return pool.trained(learner, course.labelled, course.tally, repeat)


def one_round(
    pool: Pool,
    learner: Learner,
    names: Sequence[str],
    starts: Sequence[Start],
    repeats: Sequence[int],
    heads: int,
    snapshots: int,
    learnable: np.ndarray,
) -> Iterator[dict[str, Any]]:
    """What one round by each variant is worth, from each start: a record a variant."""
    for repeat, start in product(repeats, starts):
        now = start.situation(pool, learner, repeat)
        yardstick = yardstick_for(now, start.picked, learnable, repeat)
        shared = {"state": start.kind, "labels": start.labels, "picked": start.picked, "repeat": repeat}
        shared |= {"P before": now.tally[0] / max(1, now.tally[1]), "pool accuracy": now.accuracy_of_pool()}
        chosen: dict[str, Chosen] = {}
        for name in names:
            begun = time.perf_counter()
            chosen[name] = choose(variant(name), now, start.picked, snapshots)
            print(f"{time.perf_counter() - begun:7.1f} s  {name}: {start}", flush=True)
        choices = [now.labelled, *(np.concatenate([now.labelled, chosen[name].rows]) for name in names)]
        before, *after = accuracies(pool, learner, choices, repeat, start.labels + start.picked, heads)
        for name, accuracy in zip(names, after, strict=True):
            yield {
                **shared,
                "variant": name,
                "before": before,
                "after": accuracy,
                "picks": yardstick.measure(chosen[name].rows),
                "overlap": {
                    other: overlap(chosen[name].rows, chosen[other].rows) for other in COMPARED if other in chosen
                },
                "gauges": chosen[name].gauges,
            }


def accuracies(
    pool: Pool, learner: Learner, choices: Sequence[Rows], repeat: int, labels: int, heads: int
) -> list[list[float]]:
    """Test accuracies of several heads on each choice of rows, with the same seeds for all."""
    seeds = [seed_of(repeat, labels, head) for head in range(heads)]
    jobs = [Job(pool.X[rows], pool.y[rows], seed) for rows in choices for seed in seeds]
    found = np.array([pool.accuracy(model) for model in fit_many(learner, jobs, pool.n_classes)])
    return found.reshape(-1, heads).tolist()


# -- the command ------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--learner", default="modern")
    parser.add_argument("--repeats", default="0-4", help="which: 3, or 0-4")
    parser.add_argument("--schedule", type=numbers, default=SCHEDULE, help="600,800,1000")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--rows", type=int, help="of the pool, at random; all unless given")
    parser.add_argument("--snapshots", type=int, default=4, help="looks into the surrogate a round")
    parser.add_argument("--one-round", action="store_true")
    parser.add_argument(
        "--states", nargs="+", default=["random:2000:1000", "literal:2000:1000"], metavar="KIND:LABELS:PICKS"
    )
    parser.add_argument("--heads", type=int, default=5, help="trained on each choice of one round")
    parser.add_argument("--learnable", type=Path, help="a file that keeps which rows are learnable, for the next run")
    options = parser.parse_args(arguments)
    try:
        for name in options.variants:
            parts_of(name)
    except UnderstudyError as error:
        parser.error(str(error))
    start = time.perf_counter()
    pool = Pool.read(options.data, options.device, options.rows)
    learner = make_learner(options.learner, options.device)
    repeats = span(options.repeats)
    learnable = kept_or_made(options.learnable, lambda: pool.learnable(learner))
    about = {
        "data": pool.name, "rows": len(pool.X), "learner": options.learner, "device": device_name(options.device),
        "torch": torch.__version__, "python": platform.python_version(), "learnable": float(learnable.mean()),
        "kind": "one round" if options.one_round else "paths", "repeats": repeats,
        "schedule": list(options.schedule), "heads": options.heads,
    }  # fmt: skip
    if options.one_round:
        starts = [Start.parse(text) for text in options.states]
        records = one_round(
            pool,
            learner,
            names=options.variants,
            starts=starts,
            repeats=repeats,
            heads=options.heads,
            snapshots=options.snapshots,
            learnable=learnable,
        )
    else:
        records = play(
            pool,
            learner,
            names=options.variants,
            schedule=options.schedule,
            repeats=repeats,
            snapshots=options.snapshots,
            learnable=learnable,
        )
    kept: list[dict[str, Any]] = []
    for record in records:
        kept.append(record)
        about["seconds"] = time.perf_counter() - start
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"about": about, "records": kept}))
        accuracy = float(np.mean(record["after"] if options.one_round else record["accuracy"]))
        place = f"{record['repeat']}  {record['labels']:5d}  {record['variant']}"
        print(f"{about['seconds']:7.1f} s  {100 * accuracy:.2f} %  {place}", flush=True)


def kept_or_made(path: Path | None, make: Callable[[], np.ndarray]) -> np.ndarray:
    if path is not None and path.exists():
        return np.asarray(np.load(path))
    made = make()
    if path is not None:
        partial = path.with_suffix(f".{os.getpid()}.npy")
        np.save(partial, made)
        partial.replace(path)
    return made


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def span(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else f"CPU, {torch.get_num_threads()} threads"


if __name__ == "__main__":
    main()
