"""What the scripts of this folder share: their options, the task, labelling by a schedule, and the report."""

import argparse
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from understudy import Surrogate
from understudy.learners.protocol import Job, fit_many
from understudy.learners.registry import make_learner
from understudy.version import __version__

SCHEDULE: Final = (600, 800, 1000, 2000)  # the paper's, up to where these studies begin
LEARNERS: Final = ("paper", "paper_slow", "modern")
# Each purpose draws from a stream of its own, so that what one draws changes nothing for another.
STREAM_POOL, STREAM_INITIAL, STREAM_LEARNER, STREAM_SURROGATE, STREAM_OTHER = range(5)


@dataclass(frozen=True, eq=False)
class Task:
    """A pool whose labels are known to us alone, and test rows."""

    name: str
    X: np.ndarray
    y: np.ndarray
    Xt: np.ndarray
    yt: np.ndarray
    n_classes: int


@dataclass(eq=False)
class Run:
    """One repetition: its surrogate, the rows labelled so far, and what the latest network says of the pool."""

    repeat: int
    surrogate: Surrogate
    labelled: np.ndarray
    probs: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


def options(about: str | None, repeats: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=".npz with X, y, Xt, yt")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, help="a random part of the pool of this size; all of it unless given")
    parser.add_argument("--basis", type=int, default=500, help="basis points of the surrogate")
    return parser


def read_task(file: Path, rows: int | None, seed: int) -> Task:
    """The whole task, or one with a random part of the pool."""
    arrays = np.load(file)
    X, y = arrays["X"], arrays["y"].astype(np.int64)
    if rows is not None and rows < len(X):
        some = np.sort(stream(seed, STREAM_POOL).choice(len(X), rows, replace=False))
        X, y = X[some], y[some]
    Xt, yt = arrays["Xt"].astype(np.float32), arrays["yt"].astype(np.int64)
    return Task(file.stem, X.astype(np.float32), y, Xt, yt, int(arrays["y"].max()) + 1)


def stream(seed: int, *purpose: int) -> np.random.Generator:
    return np.random.default_rng([seed, *purpose])


def whole_number(*purpose: int) -> int:
    return int(stream(*purpose).integers(2**63))


# -- labelling --------------------------------------------------------------------------------------------------------


def initial_rows(task: Task, n: int, seed: int, repeat: int) -> np.ndarray:
    return stream(seed, STREAM_INITIAL, repeat).choice(len(task.X), n, replace=False)


def make_surrogate(task: Task, given: argparse.Namespace, repeat: int, **settings: Any) -> Surrogate:
    """Ours with the paper's settings. The same repetition has the same basis, searched for unless given."""
    seed = whole_number(given.seed, STREAM_SURROGATE, repeat)
    return Surrogate(task.X, task.n_classes, given.basis, seed, given.device, method="paper", **settings)


def basis_of(surrogate: Surrogate) -> tuple[np.ndarray, np.ndarray]:
    """U and V, for another surrogate of the same pool: the search for them takes longest."""
    kernel = surrogate.parts.kernel
    assert kernel.V is not None  # the paper's
    return kernel.U.cpu().numpy(), kernel.V.cpu().numpy()


def train(task: Task, learner: str, device: str, labelled: Sequence[np.ndarray], seeds: Sequence[int]) -> list[Any]:
    """A network for each set of labelled rows, all at once."""
    jobs = [Job(task.X[rows], task.y[rows], seed) for rows, seed in zip(labelled, seeds, strict=True)]
    return fit_many(make_learner(learner, device), jobs, task.n_classes)


def train_and_anchor(task: Task, learner: str, given: argparse.Namespace, runs: Sequence[Run]) -> list[Any]:
    """New networks for all repetitions; their surrogates start from them."""
    seeds = [whole_number(given.seed, STREAM_LEARNER, run.repeat, len(run.labelled)) for run in runs]
    models = train(task, learner, given.device, [run.labelled for run in runs], seeds)
    for run, model in zip(runs, models, strict=True):
        run.probs = model.predict_proba(task.X)
        run.surrogate.anchor(run.probs, run.labelled)
    return models


def label_to(task: Task, runs: Sequence[Run], n: int) -> None:
    """Each repetition chooses rows one by one, told each label at once, until n are labelled."""
    for run in runs:
        picks = run.surrogate.rehearse(task.y, n - len(run.labelled))
        run.labelled = np.concatenate([run.labelled, picks])


def follow_schedule(
    task: Task, learner: str, given: argparse.Namespace, runs: Sequence[Run], schedule: Sequence[int]
) -> list[Any]:
    """Label and train by the schedule; the networks of its end."""
    models = train_and_anchor(task, learner, given, runs)
    for n in schedule[1:]:
        label_to(task, runs, n)
        models = train_and_anchor(task, learner, given, runs)
    return models


def accuracy(model: Any, task: Task) -> float:
    return float((model.predict_proba(task.Xt).argmax(1) == task.yt).mean())


def unlabelled(task: Task, labelled: np.ndarray) -> np.ndarray:
    return np.setdiff1d(np.arange(len(task.X)), labelled)


# -- the report -------------------------------------------------------------------------------------------------------


def summary(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Mean and deviation over repetitions, and each of them."""
    found = np.asarray(values, dtype=np.float64)
    std = float(found.std(ddof=1)) if len(found) > 1 else None
    return {"mean": float(found.mean()), "std": std, "values": found.tolist()}


def in_words(found: dict[str, Any], factor: float = 1.0, digits: int = 2) -> str:
    text = f"{factor * found['mean']:.{digits}f}"
    return text if found["std"] is None else f"{text} ± {factor * found['std']:.{digits}f}"


def about(given: argparse.Namespace, task: Task) -> dict[str, Any]:
    """Settings, machine and versions, without where files lie."""
    cuda = given.device != "cpu"
    settings = {key: value for key, value in vars(given).items() if key not in ("data", "out", "device")}
    return {
        "data": task.name,
        "pool_rows": len(task.X),
        "columns": task.X.shape[1],
        "classes": task.n_classes,
        "settings": settings,
        "device": torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads",
        "versions": {
            "understudy": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def synchronise(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


class Clock:
    """Seconds since it was made, all that the device was given to do included."""

    def __init__(self, device: str) -> None:
        self.device = device
        synchronise(device)
        self.start = time.perf_counter()

    def seconds(self) -> float:
        synchronise(self.device)
        return time.perf_counter() - self.start


def save(report: dict[str, Any], out: Path | None) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=1) + "\n")
