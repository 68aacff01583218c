"""The demo: four ways of choosing what to label, on scikit-learn's 8x8 digits.

A learner is trained from scratch whenever the schedule says so, and its accuracy on the test images is taken.
In between, each strategy chooses the next labels: `margin`, `entropy` and `random` all of them at once, from
the learner's last predictions; `surrogate` one at a time, told each label before it chooses the next.
Comparisons are paired: in one repetition all strategies start from the same labels, and their learners
from the same weights.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from understudy.core.checks import whole
from understudy.data.datasets import load_named
from understudy.errors import UnderstudyError
from understudy.experiments.curves import Curves, draw
from understudy.strategies.protocol import LearnsWithinRound, Strategy
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import UNLABELLED, PoolView

SCHEDULE = tuple(range(20, 201, 20))
STRATEGIES = ("surrogate", "margin", "entropy", "random")
COLUMNS = ("dataset", "strategy", "repeat", "labels", "accuracy")

# Each purpose draws from a stream of its own, so that what one strategy draws changes nothing for another.
STREAM_INITIAL, STREAM_LEARNER, STREAM_STRATEGY = range(3)

Predict = Callable[[np.ndarray], np.ndarray]  # images -> probs


@dataclass(frozen=True)
class Task:
    """A pool whose labels are hidden until asked for, and test images that no strategy sees."""

    pool: np.ndarray
    pool_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    n_classes: int


def run_demo(repeats: int = 10, schedule: Sequence[int] = SCHEDULE, seed: int = 0, out: str | Path = "demo") -> Curves:
    """Learning curves of all strategies; also written to `out` as they come, and drawn if matplotlib is there."""
    task, out = digits(), Path(out)
    repeats, seed = whole("repeats", repeats, 1), whole("seed", seed, 0)
    schedule = growing(schedule, len(task.pool))
    curves = Curves("digits", schedule, {name: np.empty((repeats, len(schedule))) for name in STRATEGIES})
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "digits.csv").open("w", newline="") as file, progress_bar() as bar, one_thread():
            table = csv.writer(file)
            table.writerow(COLUMNS)
            trainings = bar.add_task("", total=repeats * len(STRATEGIES) * len(schedule))
            for repeat in range(repeats):
                for name in STRATEGIES:
                    bar.update(trainings, description=f"repetition {repeat + 1}, {name}")
                    for i, accuracy in enumerate(learning_curve(task, name, schedule, seed, repeat)):
                        curves.accuracy[name][repeat, i] = accuracy
                        table.writerow((curves.dataset, name, repeat, schedule[i], accuracy))
                        bar.advance(trainings)
        return replace(curves, files=(out / "digits.csv", *draw(curves, out)))
    except OSError as error:
        raise UnderstudyError(f"cannot write to {out}: {error.strerror}; choose another folder") from error


def learning_curve(task: Task, strategy: str, schedule: Sequence[int], seed: int, repeat: int) -> Iterator[float]:
    """The learner's accuracy on the test images at each number of labels in the schedule."""
    chooser = make_strategy(strategy)
    rng = np.random.default_rng([seed, STREAM_STRATEGY, repeat, STRATEGIES.index(strategy)])
    initial = np.random.default_rng([seed, STREAM_INITIAL, repeat])
    labelled = initial.choice(len(task.pool), schedule[0], replace=False)
    for i, n_labels in enumerate(schedule):
        learner_seed = int(np.random.default_rng([seed, STREAM_LEARNER, repeat, i]).integers(2**63))
        predict = train(task.pool[labelled], task.pool_labels[labelled], task.n_classes, learner_seed)
        yield float((predict(task.test).argmax(1) == task.test_labels).mean())
        if n_labels < schedule[-1]:
            rows = chosen(chooser, task, predict(task.pool), labelled, schedule[i + 1] - n_labels, rng)
            labelled = np.concatenate([labelled, rows])


def chosen(
    strategy: Strategy, task: Task, probs: np.ndarray, labelled: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """n rows: one by one, each label told before the next choice, if the strategy learns from labels; else at once."""
    labels = np.full(len(task.pool), UNLABELLED)
    labels[labelled] = task.pool_labels[labelled]
    view = PoolView(labels, task.n_classes, features=task.pool, probs=probs, round=len(labelled))
    if not isinstance(strategy, LearnsWithinRound):
        return strategy.select(view, n, rng).rows
    picks = []
    for _ in range(n):
        row = strategy.select(view.after(labels, trained_on=labelled), 1, rng).rows
        labels[row] = task.pool_labels[row]
        picks.append(row)
    return np.concatenate(picks)


def digits() -> Task:
    """1,297 images to label and 500 to test on, the same ones whatever the seed; pixels in [0, 1]."""
    data = load_named("digits")
    (pool, pool_labels), (test, test_labels) = (part.arrays() for part in data.parts)
    return Task(pool, pool_labels, test, test_labels, n_classes=len(data.pool.classes))


def train(features: np.ndarray, labels: np.ndarray, n_classes: int, seed: int) -> Predict:
    """A network of one hidden layer, trained from scratch: a function from images to class probabilities.

    Its settings were chosen with random labels and judged on the rest of the pool, before any strategy was run.
    """
    inputs, targets = torch.from_numpy(features), torch.from_numpy(labels)
    with torch.random.fork_rng(devices=[]):  # layers draw their weights from the global stream: leave it as it was
        torch.manual_seed(seed)
        net = torch.nn.Sequential(
            torch.nn.Linear(inputs.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, n_classes)
        )
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=1e-3)
    for _ in range(100):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), targets).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    def predict(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            probs: np.ndarray = net(torch.from_numpy(images)).softmax(1).numpy()
        return probs

    return predict


# -- around the run ---------------------------------------------------------------------------------------


def growing(schedule: Sequence[int], n_pool: int) -> tuple[int, ...]:
    """The schedule, checked."""
    steps = tuple(whole("a number of labels", n_labels, 1) for n_labels in schedule)
    if not steps or list(steps) != sorted(set(steps)) or steps[-1] > n_pool:
        raise UnderstudyError(f"a schedule is numbers of labels that grow, up to {n_pool} at most; got {list(steps)}")
    return steps


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: these arrays are too small to share, and on a busy machine threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description:<25}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("trainings,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
