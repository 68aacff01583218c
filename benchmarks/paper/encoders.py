"""Encoders compared: what a head reaches with random labels and with ours, on the same images through each of them.

    python benchmarks/paper/encoders.py --data pixels=FOLDER resnet50=FILE.npz lite0=FOLDER ... [--labels 600 1000 2000]
        [--learners modern paper] [--repeats 5] [--device cuda] [--out benchmarks/paper/results/encoders.json]
    python benchmarks/paper/encoders.py --embed SPEC --of fashion_mnist --pool 8000 --test 2000 --out FOLDER

The second makes features of a random part of a data set: SPEC is what `understudy embed --encoder` takes. The first
takes features folders of that and of `understudy embed`, and .npz files whose rows are in the official order. It uses
the images that all of them have. Features are centred and reduced to the leading principal directions of the pool, so
that all heads and kernels are of one size. Initial rows, random rows and seeds of a repetition are the same for all.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from study import Clock, Task, about, accuracy, make_surrogate, save, stream, summary, train, whole_number

from understudy import Surrogate, UnderstudyError, load
from understudy.data.embedding import embed_dataset
from understudy.data.encoders import make_encoder
from understudy.data.pool import Dataset, Pool
from understudy.experiments.statistics import paired_difference

STREAM_LABELS, STREAM_LEARNER = range(10, 12)  # study.py has the first
POOL, TEST = range(2)
STRATEGIES: Final = ("random", "surrogate")


@dataclass(frozen=True, eq=False)
class Features:
    """What one encoder makes of some images, which are known by their number in the official order."""

    numbers: np.ndarray
    X: np.ndarray
    y: np.ndarray


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=(), metavar="NAME=PATH", help="features folders or .npz files")
    parser.add_argument("--embed", metavar="SPEC", help="make features with this encoder instead")
    parser.add_argument("--of", default="fashion_mnist", help="the data set to embed a part of")
    parser.add_argument("--pool", type=int, default=8000, help="rows of the part")
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--directions", type=int, default=128)
    parser.add_argument("--labels", nargs="+", type=int, default=(600, 1000, 2000, 5000))
    parser.add_argument("--learners", nargs="+", default=("modern", "paper"))
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES)
    parser.add_argument("--basis", type=int, default=500, help="basis points of the surrogate")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if given.device == "cpu":
        torch.set_num_threads(1)
    if given.embed:
        embed_part(given)
    else:
        compare(given)


def embed_part(given: argparse.Namespace) -> None:
    """Features of a random part of a data set, which depends on the seed alone."""
    whole = load(given.of)
    if whole.test is None or given.out is None:
        raise UnderstudyError("a part to embed needs a data set with a test set, and --out FOLDER to go to")
    parts = [
        pool.take(np.sort(stream(given.seed, which).choice(len(pool), size, replace=False)))
        for which, pool, size in ((POOL, whole.pool, given.pool), (TEST, whole.test, given.test))
    ]
    encoder = make_encoder(given.embed, device=given.device)
    # Small batches stay in a CPU's cache: half the time of large ones.
    made, _ = embed_dataset(Dataset(whole.name, *parts), encoder, out=given.out, batch_size=8)
    print(f"{made.n:,} x {made.dim} in {given.out}, {made.seconds:.0f} s")


# -- the same rows of all encoders ------------------------------------------------------------------------------------


def tasks_of(paths: Sequence[str], directions: int, most: tuple[int, int], seed: int) -> dict[str, Task]:
    """A task for each NAME=PATH, of the images that all have, at most so many of pool and test set."""
    found: dict[str, tuple[Features, Features]] = {}
    for each in paths:
        name, _, path = each.partition("=")
        data = load(path)
        if not name or data.test is None:
            raise UnderstudyError(f"give NAME=PATH with features of a pool and a test set; got {each}")
        found[name] = features_of(data.pool), features_of(data.test)
    same = [aligned([parts[which] for parts in found.values()], most[which], seed, which) for which in (POOL, TEST)]
    n_classes = int(same[POOL][0].y.max()) + 1
    tasks = {}
    for name, pool, test in zip(found, *same, strict=True):
        X, Xt = reduced(pool.X, test.X, directions)
        tasks[name] = Task(name, X, pool.y, Xt, test.y, n_classes)
    return tasks


def features_of(pool: Pool) -> Features:
    X, y = pool.arrays()
    return Features(np.array([number_of(name) for name in pool.ids]), np.asarray(X), y.astype(np.int64))


def number_of(name: str) -> int:
    """The number that an identity ends with: 17 of `train/00017` and of `row 17`."""
    found = re.search(r"(\d+)\D*$", name)
    if found is None:
        raise UnderstudyError(f"the item {name!r} has no number; features must be of numbered images")
    return int(found[1])


def aligned(parts: Sequence[Features], most: int, seed: int, which: int) -> list[Features]:
    """The rows of those images that all encoders saw, in one order; a random part of them if they are too many."""
    shared = parts[0].numbers
    for part in parts[1:]:
        shared = np.intersect1d(shared, part.numbers)
    if len(shared) > most:
        shared = stream(seed, which).choice(shared, most, replace=False)
    shared = np.sort(shared)
    chosen = []
    for part in parts:
        order = np.argsort(part.numbers)
        rows = order[np.searchsorted(part.numbers, shared, sorter=order)]
        chosen.append(Features(shared, part.X[rows].astype(np.float32), part.y[rows]))
    if any((part.y != chosen[0].y).any() for part in chosen):
        raise UnderstudyError("encoders disagree about the classes of the same images; are the rows in official order?")
    return chosen


def reduced(X: np.ndarray, Xt: np.ndarray, directions: int) -> tuple[np.ndarray, np.ndarray]:
    """Both centred on the pool's mean and projected on its leading principal directions, not whitened."""
    centre = X.mean(0, dtype=np.float64)
    centred = X - centre
    values, vectors = np.linalg.eigh(centred.T @ centred)
    leading = vectors[:, np.argsort(values)[::-1][:directions]]
    return (centred @ leading).astype(np.float32), ((Xt - centre) @ leading).astype(np.float32)


# -- labelling --------------------------------------------------------------------------------------------------------


def compare(given: argparse.Namespace) -> None:
    clock, tasks = Clock(given.device), tasks_of(given.data, given.directions, (given.pool, given.test), given.seed)
    first = next(iter(tasks.values()))
    if max(given.labels) > len(first.X):
        raise UnderstudyError(f"{max(given.labels):,} labels of {len(first.X):,} rows; give fewer --labels")
    report = {**about(given, first), "data": list(tasks), "test_rows": len(first.Xt), "results": []}
    print(f"{len(first.X):,} rows, {len(first.Xt):,} to test; accuracy in %, mean ± std of {given.repeats} repetitions")
    print(f"{'':32}" + "".join(f"{n:>14,}" for n in given.labels))
    for learner in given.learners:
        for name, task in tasks.items():
            curves = {strategy: curve(task, learner, strategy, given) for strategy in given.strategies}
            row: dict[str, Any] = {"encoder": name, "learner": learner, "labels": list(given.labels)}
            for strategy, values in curves.items():
                row[strategy] = [summary(column.tolist()) for column in values.T]
                print(
                    f"{learner:8}{name:14}{strategy:10}" + "".join(f"{in_percent(each):>14}" for each in row[strategy])
                )
            if len(curves) == len(STRATEGIES):
                gains = [paired_difference(column) for column in (curves["surrogate"] - curves["random"]).T]
                row["surrogate_minus_random"] = [{"mean": gain.mean, "interval": gain.interval} for gain in gains]
            report["results"].append(row)
            report["seconds"] = clock.seconds()
            save(report, given.out)
    print(f"{report['seconds']:.0f} s")


def curve(task: Task, learner: str, strategy: str, given: argparse.Namespace) -> np.ndarray:
    """(repeats, budgets): test accuracy."""
    orders = [stream(given.seed, STREAM_LABELS, repeat).permutation(len(task.X)) for repeat in range(given.repeats)]
    labelled = [order[: given.labels[0]] for order in orders]
    ours: list[Surrogate] = []
    if strategy == "surrogate":
        ours = [make_surrogate(task, given, repeat) for repeat in range(given.repeats)]
    found = np.empty((given.repeats, len(given.labels)))
    for i, n in enumerate(given.labels):
        if i and ours:
            news = [each.rehearse(task.y, n - len(rows)) for each, rows in zip(ours, labelled, strict=True)]
            labelled = [np.concatenate(pair) for pair in zip(labelled, news, strict=True)]
        elif i:
            labelled = [order[:n] for order in orders]
        seeds = [whole_number(given.seed, STREAM_LEARNER, repeat, n) for repeat in range(given.repeats)]
        models = train(task, learner, given.device, labelled, seeds)
        found[:, i] = [accuracy(model, task) for model in models]
        if n != given.labels[-1]:
            for surrogate, model, rows in zip(ours, models, labelled, strict=False):
                surrogate.anchor(model.predict_proba(task.X), rows)
    return found


def in_percent(found: dict[str, Any]) -> str:
    text = f"{100 * found['mean']:.1f}"
    return text if found["std"] is None else f"{text} ± {100 * found['std']:.1f}"


if __name__ == "__main__":
    main()
