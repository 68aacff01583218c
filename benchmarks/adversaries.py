"""One round of VAAL, TA-VAAL and LearningLoss on FashionMNIST, with two classes that nobody has labelled.

    python benchmarks/adversaries.py --images train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz
        [--device cuda] [--out FOLDER] [--iterations 1500] [--epochs 60] [--pool 60000] ...
    python benchmarks/adversaries.py --images ... --labels ... --plot FOLDER/adversaries.json

The labelled rows are random, but hold no sneaker and no bag. Whoever looks for what is unlike the labelled rows must
find those: `share` is theirs among the picks, `share_of_pool` theirs among all that could be picked, and `auc` is the
probability that one of them is scored above a row of another class. Runs:

- vaal, ta_vaal: settings as published, except for the number of iterations;
- vaal_mild, ta_vaal_mild: with a mean KL of weight 0.01, so that latents hold something;
- vaal_weak, vaal_open: the mild one whose autoencoder hardly hides, or not at all: what there is to be found;
- learning_loss: with the rank correlation of predicted and true losses over the unlabelled rows.

TA-VAAL and LearningLoss have ResNet18 trained with their hooks. The seed fixes all that is random.
"""

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata, spearmanr

from understudy.data.datasets.idx import CLASSES, content_of, parse
from understudy.learners.network import Network, NetworkModel
from understudy.strategies.learning_loss import LearningLoss
from understudy.strategies.ta_vaal import TaVaal
from understudy.strategies.vaal import Vaal
from understudy.strategies.view import UNLABELLED, Picks, PoolView

PLANTED = (CLASSES.index("Sneaker"), CLASSES.index("Bag"))
MILD: dict[str, Any] = {"kl": "mean", "beta": 0.01}
RUNS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "vaal": (Vaal, {}),
    "vaal_mild": (Vaal, MILD),
    "ta_vaal": (TaVaal, {}),
    "ta_vaal_mild": (TaVaal, MILD),
    "learning_loss": (LearningLoss, {}),
    "vaal_weak": (Vaal, {**MILD, "adversary_weight": 0.1}),
    "vaal_open": (Vaal, {**MILD, "adversary_weight": 0.0}),
}
LOSSES = ("reconstruction", "kl", "adversary", "discriminator")
SETTINGS = ("pool", "labelled", "picks", "iterations", "batch_size", "epochs", "seed")
POINTS = 300  # of each loss that are kept
THUMBNAILS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--plot", type=Path, help="only draw what such a file tells")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--pool", type=int, default=60_000)
    parser.add_argument("--labelled", type=int, default=1000)
    parser.add_argument("--picks", type=int, default=1000)
    parser.add_argument("--iterations", type=int, default=1500)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=60, help="of ResNet18")
    parser.add_argument("--seconds", type=float, default=330, help="after which no further run is begun")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    images = parse(content_of(options.images.parent, options.images.name), options.images.name, axes=3)
    truth = parse(content_of(options.labels.parent, options.labels.name), options.labels.name, axes=1).astype(np.int64)
    images, truth = images[: options.pool], truth[: options.pool]
    if options.plot is not None:
        draw(json.loads(options.plot.read_text()), images, truth, options.plot.with_suffix(".png"))
        return
    report = measure(options, images, truth)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "adversaries.json"
    file.write_text(json.dumps(report, indent=1) + "\n")
    draw(report, images, truth, file.with_suffix(".png"))


def measure(options: argparse.Namespace, images: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    start = time.perf_counter()
    rng = np.random.default_rng(options.seed)
    known = rng.choice(np.flatnonzero(~np.isin(truth, PLANTED)), options.labelled, replace=False)
    labels = np.full(len(truth), UNLABELLED)
    labels[known] = truth[known]
    machine = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    report: dict[str, Any] = {
        "device": machine,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "settings": {name: getattr(options, name) for name in SETTINGS},
        "planted": [CLASSES[c] for c in PLANTED],
        "share_of_pool": float(np.isin(truth[labels == UNLABELLED], PLANTED).mean()),
        "classes_of_pool": np.bincount(truth[labels == UNLABELLED], minlength=len(CLASSES)).tolist(),
        "runs": {},
    }
    for name in options.runs:
        if time.perf_counter() - start > options.seconds:
            print(f"{name}: left out, time is up")
            continue
        report["runs"][name] = one_run(name, options, images, truth, labels)
        shown = {key: value for key, value in report["runs"][name].items() if isinstance(value, float)}
        print(name, json.dumps({key: round(value, 3) for key, value in shown.items()}), flush=True)
    report["seconds"] = time.perf_counter() - start
    return report


def one_run(
    name: str, options: argparse.Namespace, images: np.ndarray, truth: np.ndarray, labels: np.ndarray
) -> dict[str, Any]:
    kind, settings = RUNS[name]
    if kind is not LearningLoss:
        settings = {**settings, "iterations": options.iterations, "batch_size": options.batch_size}
    strategy = kind(**settings)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    supplies: dict[str, Any] = {} if kind is LearningLoss else {"images": images}
    found: dict[str, Any] = {}
    model = None
    if kind is not Vaal:
        start = time.perf_counter()
        model = trained_with_hook(strategy, options, images, labels)
        found["training_seconds"] = time.perf_counter() - start
        supplies["activations"] = model.activations(images)
    view = PoolView(labels, len(CLASSES), device=options.device, **supplies)
    # All rows that may be picked, in their order: the first are the picks, the rest tells how good the order is.
    most = int(view.is_open.sum())
    n = most if kind is Vaal else min(most, max(strategy.subset_size, options.picks))
    start = time.perf_counter()
    picks = strategy.select(view, n, np.random.default_rng(options.seed))
    found["select_seconds"] = time.perf_counter() - start
    found |= judged(picks, truth, options.picks)
    if kind is not LearningLoss:
        found["seconds_per_iteration"] = found["select_seconds"] / options.iterations
        found["losses"] = {loss: sampled(strategy.history[loss]) for loss in LOSSES}
    if kind is LearningLoss and model is not None:
        found |= correlations(strategy, view, model, images, truth)
    if options.device == "cuda":
        found["peak_gpu_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return found


def trained_with_hook(
    strategy: TaVaal | LearningLoss, options: argparse.Namespace, images: np.ndarray, labels: np.ndarray
) -> NetworkModel:
    learner = Network(device=options.device)
    learner = replace(learner, recipe=replace(learner.recipe, epochs=options.epochs))
    known = np.flatnonzero(labels != UNLABELLED)
    hook = strategy.training_hook(None, np.random.default_rng(options.seed))
    return learner.fit(images[known], labels[known], len(CLASSES), seed=options.seed, hook=hook)


def judged(picks: Picks, truth: np.ndarray, n: int) -> dict[str, Any]:
    planted = np.isin(truth[picks.rows], PLANTED)
    ranks = rankdata(picks.scores)
    hits, misses = int(planted.sum()), int((~planted).sum())
    auc = (ranks[planted].sum() - hits * (hits + 1) / 2) / max(1, hits * misses)
    return {
        "share": float(planted[:n].mean()),
        "auc": float(auc),
        "classes": np.bincount(truth[picks.rows[:n]], minlength=len(CLASSES)).tolist(),
        "first_rows": picks.rows[:THUMBNAILS].tolist(),
        "scores": [float(picks.scores[place]) for place in (0, n - 1, len(picks) - 1)],
    }


def correlations(
    strategy: LearningLoss, view: PoolView, model: NetworkModel, images: np.ndarray, truth: np.ndarray
) -> dict[str, float]:
    """Rank correlation of predicted and true loss over unlabelled rows: all, and those of classes it has seen."""
    unlabelled = (~view.is_labelled).cpu().numpy()
    predicted = strategy.hook.predict(view.activations).cpu().numpy()
    logits = torch.from_numpy(model.logits(images))
    losses = torch.nn.functional.cross_entropy(logits, torch.from_numpy(truth), reduction="none").numpy()
    seen = unlabelled & ~np.isin(truth, PLANTED)
    right = logits.numpy().argmax(1) == truth
    return {
        "spearman": float(spearmanr(predicted[unlabelled], losses[unlabelled]).statistic),
        "spearman_seen_classes": float(spearmanr(predicted[seen], losses[seen]).statistic),
        "accuracy_seen_classes": float(right[seen].mean()),
    }


def sampled(losses: np.ndarray) -> list[float]:
    """Means of stretches of iterations."""
    return [float(part.mean()) for part in np.array_split(losses, min(POINTS, len(losses)))]


def draw(report: dict[str, Any], images: np.ndarray, truth: np.ndarray, file: Path) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        print(f"no picture without matplotlib; elsewhere: --plot {file.with_suffix('.json')}")
        return
    mpl.use("Agg")
    from matplotlib import pyplot

    runs = report["runs"]
    figure, axes = pyplot.subplots(len(runs), 3, figsize=(15, 2.7 * len(runs)), squeeze=False, layout="constrained")
    pool = np.array(report["classes_of_pool"]) / sum(report["classes_of_pool"])
    for (name, run), (left, middle, right) in zip(runs.items(), axes, strict=True):
        for loss, values in run.get("losses", {}).items():
            steps = np.linspace(0, report["settings"]["iterations"], len(values))
            left.plot(steps, np.maximum(values, 1e-6), label=loss, linewidth=1)
        if "losses" in run:
            left.set(yscale="log", xlabel="iteration")
            left.legend(fontsize=7)
        else:
            text = "\n".join(f"{key}: {value:.3f}" for key, value in run.items() if key.startswith(("spear", "accur")))
            left.text(0.05, 0.5, text, transform=left.transAxes)
            left.set_axis_off()
        left.set_title(name, loc="left", fontweight="bold")
        places = np.arange(len(CLASSES))
        colours = ["tab:orange" if c in PLANTED else "tab:blue" for c in places]
        middle.bar(places, np.array(run["classes"]) / sum(run["classes"]), color=colours)
        middle.step(np.append(places - 0.5, 9.5), np.append(pool, pool[-1]), "k", where="post", linewidth=1)
        middle.set_xticks(places, CLASSES, rotation=40, ha="right", fontsize=7)
        share = f"{run['share']:.0%} of the picks, {report['share_of_pool']:.0%} of the pool; AUC {run['auc']:.2f}"
        middle.set_title(f"not labelled at all: {share}", fontsize=8)
        rows = run["first_rows"]
        tiles = [images[row] for row in rows] + [np.zeros_like(images[0])] * (-len(rows) % 10)
        right.imshow(np.block([tiles[start : start + 10] for start in range(0, len(tiles), 10)]), cmap="gray")
        right.set_title("first picks: " + ", ".join(CLASSES[truth[row]] for row in rows[:5]), fontsize=8)
        right.set_axis_off()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
