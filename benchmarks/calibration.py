"""Confidences before and after calibration, and tiles that are offered at once: what is promised, what holds.

    python benchmarks/calibration.py --data FOLDER --out benchmarks/results/calibration.json

Labelling projects with the defaults of `understudy label` (the learner `modern`, the method `understudy`, one question
in ten an audit item), answered truthfully, up to 50, 200, 700 and 1,000 labels, audit items included. Everything goes
through a session as on the page; only the training job runs in this process instead of one of its own, and
cross-fitting is left out of trainings that are not judged, since it changes neither models nor questions. FOLDER has
`cifar10_resnet50_pca128.npz` and `fashion_mnist_resnet50_pca128.npz` (arrays X, y, Xt, yt) and, for the pixels,
Fashion-MNIST's four official files. Each repetition draws other items of the training set for its pool, and is judged
on items of the test set, which the project never meets.

The expected calibration error has 15 bins of equally many items, sorted by confidence: the mean over items of how far
their bin's mean confidence is from its share of right ones, in points. *Exported* is the last model's, before and
after calibration. *Shown* is what the page says at that moment: before, the surrogate's shares; after, their geometric
mean with the model's probabilities, calibrated. *Shown on the pool* is the same for its items that may still be asked.

What was looked at when: the form of the model's calibration and its constants come from CIFAR-100, Tiny-ImageNet and
the digits. What is shown was first calibrated in other ways, and repetitions 20 to 28 and some before them were seen
with these; the last of the ways made CIFAR-10 at 1,000 labels worse. How it is done now was chosen on CIFAR-100,
Tiny-ImageNet and the digits alone (60 projects), and repetitions 40 to 49 were then made once.
"""

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial, partialmethod
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from understudy import defaults
from understudy.core.surrogate import Surrogate
from understudy.data.encoders.protocol import identity_of
from understudy.errors import UnderstudyError
from understudy.learners.model_files import load_model
from understudy.learners.registry import make_learner
from understudy.projects.opening import create_or_open
from understudy.sessions import learning as learning_module
from understudy.sessions.calibrations import audit_labels, class_shares, folds_for, shares_to_show
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.learning import Learning, labels_at_next_training
from understudy.sessions.opening import open_session
from understudy.sessions.session import Session
from understudy.sessions.training import training_job
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.training.trainer import Trainer, TrainingRun
from understudy.sessions.training.training_job import attempt

TASKS: Final = ("fashion_mnist", "cifar10", "fashion_mnist_pixels")
LABELS: Final = (50, 200, 700, 1000)  # 700 for more offers with a promise
N_ITEMS: Final = 3000  # of a pool
N_FRESH: Final = 5000  # items of the test set that confidences are judged on
N_CLASSES: Final = 10
BINS: Final = 15
TILES: Final = 60  # asked for at once
WHO: Final = "ann"
WHAT: Final = ("exported", "shown", "shown_on_pool")
START: Final = Learning._start


# -- data -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Task:
    """Features and labels of a pool, and of fresh items."""

    features: np.ndarray
    labels: np.ndarray
    fresh: np.ndarray
    fresh_labels: np.ndarray


def draw_task(name: str, folder: Path, seed: int) -> Task:
    X, y, Xt, yt = _pixels(folder) if name.endswith("_pixels") else _arrays(folder / f"{name}_resnet50_pca128.npz")
    rng = np.random.default_rng([seed, 15])
    rows, fresh = rng.permutation(len(y))[:N_ITEMS], rng.permutation(len(yt))[:N_FRESH]
    return Task(*(np.asarray(part, kind) for part, kind in (
        (X[rows], np.float32), (y[rows], np.int64), (Xt[fresh], np.float32), (yt[fresh], np.int64)
    )))  # fmt: skip


def _arrays(file: Path) -> Iterator[np.ndarray]:
    data = np.load(file)
    return (data[name] for name in ("X", "y", "Xt", "yt"))


def _pixels(folder: Path) -> Iterator[np.ndarray]:
    """Fashion-MNIST as `pixels?size=28&grey=1` gives it: 784 columns from 0 to 1."""
    for part in ("train", "t10k"):
        images = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
        yield np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
        yield np.frombuffer(gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)


class Lookup:
    """An encoder of texts that are numbers: each becomes that row of a file."""

    name, kind = "lookup", "text"

    def __init__(self, weights: Path) -> None:
        self.features = load_file(weights)["features"]
        self.dim = self.features.shape[1]
        self.identity = identity_of(kind="lookup", file=str(weights))

    def prepare(self, item: Any) -> np.ndarray:
        return self.features[int(item)]

    def encode(self, batch: Any) -> np.ndarray:
        return np.stack(list(batch))


def lookup(weights: Path, device: str) -> Lookup:  # noqa: ARG001
    """What `python:calibration.py:lookup@FILE` stands for."""
    return Lookup(weights)


# -- a project --------------------------------------------------------------------------------------------


def train_here(_: Trainer, run: TrainingRun, folder: Path, gently: bool) -> dict[str, Any]:  # noqa: ARG001
    """Do a training job in this process, which has torch imported already."""
    result = attempt(folder)
    if "failed" in result:
        raise UnderstudyError(result["failed"])
    return result


def is_last_before(count: int, stops: tuple[int, ...]) -> bool:
    """Whether a training on so many labels is the one that is in use at one of these numbers of labels and audits."""
    following = labels_at_next_training(count, 2, count, defaults.RETRAIN_GROWTH, defaults.RETRAIN_AT_MOST)
    assert following is not None
    return any(count <= stop - round(defaults.AUDIT_SHARE * stop) < following for stop in stops)


def _replace(place: Any, **values: Any) -> None:
    for name, value in values.items():
        setattr(place, name, value)


def start_training(learning: Learning, *given: Any, stops: tuple[int, ...]) -> None:
    """Cross-fit only with the trainings that are judged: what it finds changes neither models nor questions."""
    count = len(given[0])
    _replace(learning_module, folds_for=folds_for if is_last_before(count, stops) else lambda _: 0)
    START(learning, *given)


def play(
    name: str, data: Path, seed: int, labels: tuple[int, ...] = LABELS, device: str = "cpu"
) -> list[dict[str, Any]]:
    """One project, judged at each number of labels."""
    torch.set_num_threads(1)
    _replace(Trainer, _wait=train_here)
    _replace(training_job, make_feature_learner=partial(make_learner, device=device))
    _replace(Learning, _start=partialmethod(start_training, stops=labels))
    task = draw_task(name, data, seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_file({"features": task.features}, folder / "features.safetensors")
        lines = (json.dumps({"id": f"{row}", "text": f"{row}"}) for row in range(len(task.labels)))
        (folder / "items.jsonl").write_text("\n".join(lines))
        project = create_or_open(
            folder / "items.jsonl", project=folder / "project", device="cpu", seed=seed,
            encoder=f"python:{Path(__file__).resolve()}:lookup@{folder / 'features.safetensors'}",
            classes=[f"class {number}" for number in range(N_CLASSES)],
        )  # fmt: skip
        session = open_session(project)
        try:
            return [
                {"task": name, "seed": seed, **judge(session, task)} for _ in answer_until(session, task.labels, labels)
            ]
        finally:
            session.close()


def answer_until(session: Session, truth: np.ndarray, labels: tuple[int, ...]) -> Iterator[int]:
    """Answer questions truthfully; stop to be judged at each of these numbers of labels."""
    for turn in range(max(labels)):
        question = session.next(WHO)
        assert question.item is not None, question.reason
        session.label(question.item, int(truth[question.item]), WHO, f"{turn}")
        while session.learning.is_busy:
            time.sleep(0.01)
        if turn + 1 in labels:
            yield turn + 1


# -- how good ---------------------------------------------------------------------------------------------


def calibration_error(probs: np.ndarray, truth: np.ndarray) -> float:
    """The expected calibration error in points, with bins of equally many items."""
    confidence, hits = probs.max(1), probs.argmax(1) == truth
    bins = np.array_split(np.argsort(confidence, kind="stable"), BINS)
    return 100 * float(sum(abs(confidence[rows].mean() - hits[rows].mean()) * len(rows) for rows in bins) / len(truth))


def judge(session: Session, task: Task) -> dict[str, Any]:
    record, project = session.record, session.project
    artifacts = Artifacts(project.artifacts)
    exported = collect_labels(record, project.pool, artifacts).calibration
    model = load_model(artifacts.path(record.trainings[-1].data["model"]))
    probs = np.asarray(model.predict_proba(task.fresh), np.float64)
    shown, truth = session.calibration().temperature, task.fresh_labels
    surrogate = session.learning.chooser.surrogate
    means, rows = means_of_fresh(session, task.fresh, probs), surrogate.askable
    pooled = shares_to_show(surrogate.mean[rows], surrogate.anchor_probs(rows))
    return {
        "labels": len(record.effective), "audited": len(audit_labels(record)),
        "trained_on": record.trainings[-1].data["labels"], "cross_fit": record.trainings[-1].data["calibration"],
        "accuracy": float((probs.argmax(1) == truth).mean()),
        "exported": _errors(probs, _temper(probs, exported.temperature), truth) | {"temperature": exported.temperature},
        "shown": _errors(class_shares(means), _temper(shares_to_show(means, probs), shown), truth),
        "shown_on_pool": _errors(class_shares(surrogate.mean[rows]), _temper(pooled, shown), task.labels[rows]),
        "offers": [offer_of(session, label, task.labels) for label in range(N_CLASSES)],
        "tiles_before": tiles_before(session, task.labels),
    }  # fmt: skip


def _temper(probs: np.ndarray, temperature: float) -> np.ndarray:
    powers = probs ** (1 / temperature)
    return powers / powers.sum(1, keepdims=True)


def _errors(before: np.ndarray, after: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    found = {}
    for when, probs in (("before", before), ("after", after)):
        found[when] = calibration_error(probs, truth)
        found[f"confidence_{when}"] = float(probs.max(1).mean())
        found[f"accuracy_{when}"] = float((probs.argmax(1) == truth).mean())
    return found


def means_of_fresh(session: Session, fresh: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """What the surrogate of this moment says of items that join the pool now."""
    surrogate = session.learning.chooser.surrogate
    features = session.project.features
    copy = Surrogate.restore(features, surrogate.state_dict(whole=True), check=False)
    copy.extend(fresh, probs.astype(np.float32))
    return copy.mean[len(features) :]


def offer_of(session: Session, label: int, truth: np.ndarray) -> dict[str, Any]:
    """The tiles that are offered for a class, and how many of them are right. Nobody confirms them."""
    offer = session.grid(label, TILES)
    right = sum(int(truth[tile.item]) == label for tile in offer.items)
    return {"tiles": len(offer.items), "right": right, "promised": offer.promised, "reason": offer.reason}


def tiles_before(session: Session, truth: np.ndarray) -> dict[str, int]:
    """What the page showed before: of the twenty surest of each class, those with "> 95 %", not calibrated."""
    surrogate = session.learning.chooser.surrogate
    shares, rows, tiles, right = class_shares(surrogate.mean), surrogate.askable, 0, 0
    for label in range(N_CLASSES):
        likely = rows[shares[rows].argmax(1) == label]
        best = likely[np.argsort(-shares[likely, label], kind="stable")[:20]]
        best = best[shares[best, label] > 0.95]
        tiles, right = tiles + len(best), right + int((truth[best] == label).sum())
    return {"tiles": tiles, "right": right}


# -- summary ----------------------------------------------------------------------------------------------


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over repetitions, and the worst, for each task and number of labels."""
    found = []
    for task, labels in sorted({(run["task"], run["labels"]) for run in runs}):
        group = [run for run in runs if (run["task"], run["labels"]) == (task, labels)]
        line: dict[str, Any] = {
            "task": task, "labels": labels, "repetitions": len(group),
            "accuracy": float(np.mean([run["accuracy"] for run in group])),
        }  # fmt: skip
        for what in WHAT:
            before, after = ([run[what][when] for run in group] for when in ("before", "after"))
            line |= {
                f"{what}_before": float(np.mean(before)), f"{what}_after": float(np.mean(after)),
                f"{what}_after_worst": max(after),
                f"{what}_worse": sum(b < a for b, a in zip(before, after, strict=True)),
            }  # fmt: skip
        line |= _tally([offer for run in group for offer in run["offers"]])
        tiles = sum(run["tiles_before"]["tiles"] for run in group)
        line["tiles_before"] = tiles
        line["right_before"] = sum(run["tiles_before"]["right"] for run in group) / tiles if tiles else None
        found.append(line)
    return found


def _tally(offers: list[dict[str, Any]]) -> dict[str, Any]:
    """Offers with a promise and without: how many, with how many tiles, and the share that is right."""
    line: dict[str, Any] = {}
    for name, chosen in (
        ("promised", [offer for offer in offers if offer["promised"] is not None]),
        ("unpromised", [offer for offer in offers if offer["promised"] is None and offer["tiles"]]),
    ):
        tiles = sum(offer["tiles"] for offer in chosen)
        right = sum(offer["right"] for offer in chosen)
        line |= {
            f"{name}_offers": len(chosen),
            f"{name}_tiles": tiles,
            f"{name}_right": right / tiles if tiles else None,
        }
    promised = [offer for offer in offers if offer["promised"] is not None]
    line["promises_kept"] = sum(offer["right"] >= offer["promised"] * offer["tiles"] for offer in promised)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=40)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--device", default="cpu", help="that heads are trained on")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="results so far are kept and not made again")
    given = parser.parse_args()
    runs: list[dict[str, Any]] = json.loads(given.out.read_text())["runs"] if given.out and given.out.exists() else []
    done = {(run["task"], run["seed"]) for run in runs}
    seeds = range(given.first_seed, given.first_seed + given.repeats)
    wanted = [(task, seed) for seed in seeds for task in given.tasks.split(",")]
    left = [(task, seed) for task, seed in wanted if (task, seed) not in done]
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        jobs = [pool.submit(play, task, given.data, seed, device=given.device) for task, seed in left]
        for job in as_completed(jobs):
            runs += job.result()
            for run in job.result():
                errors = (f"{what} {run[what]['before']:.1f} to {run[what]['after']:.1f}" for what in WHAT)
                print(f"{run['task']} {run['seed']} at {run['labels']}: {', '.join(errors)}", flush=True)
            if given.out is not None:
                runs.sort(key=lambda run: (TASKS.index(run["task"]), run["seed"], run["labels"]))
                given.out.write_text(json.dumps({"summary": summary(runs), "runs": runs}, indent=1) + "\n")
    for line in summary(runs):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
