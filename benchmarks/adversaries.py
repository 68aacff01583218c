"""One round of VAAL, TA-VAAL and LearningLoss on FashionMNIST, with two classes that nobody has labelled.

    python benchmarks/adversaries.py --images train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz
        [--device cuda] [--out FOLDER] [--runs vaal:6000 ta_vaal:published] [--iterations 1500] [--epochs 60] ...
    python benchmarks/adversaries.py --images ... --labels ... --plot FOLDER/adversaries.json

The labelled rows are random, but hold no sneaker and no bag. Whoever looks for what is unlike the labelled rows must
find those: `share` is theirs among the picks, `share_of_pool` theirs among all that could be picked, and `auc` is the
probability that one of them is scored above a row of another class. Runs:

- vaal, ta_vaal: settings as published, except for the number of iterations, unless it is asked for as well;
- vaal_mild, ta_vaal_mild: with a mean KL of weight 0.01, so that latents hold something;
- vaal_weak, vaal_open: the mild one whose autoencoder hardly hides, or not at all: what there is to be found;
- learning_loss: with the rank correlation of predicted and true losses over the unlabelled rows.

A run may have its own number of iterations after a colon, or `published`, a hundred passes over what it sees. TA-VAAL
and LearningLoss have ResNet18 trained with their hooks. The seed fixes all that is random.
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
PUBLISHED = "published"
POINTS = 300  # of each loss that are kept
THUMBNAILS = 16
ACROSS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--plot", type=Path, help="only draw what such a file tells")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--runs", nargs="+", type=run_of, default=[(name, "") for name in RUNS], metavar="NAME[:ITERATIONS]"
    )
    parser.add_argument("--pool", type=int, default=60_000)
    parser.add_argument("--labelled", type=int, default=1000)
    parser.add_argument("--picks", type=int, default=1000)
    parser.add_argument("--iterations", type=int, default=1500, help="where a run does not say")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=60, help="of ResNet18")
    parser.add_argument("--seconds", type=float, default=330, help="after which no further run is begun")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    images = parse(content_of(options.images.parent, options.images.name), options.images.name, axes=3)
    truth = parse(content_of(options.labels.parent, options.labels.name), options.labels.name, axes=1).astype(np.int64)
    images, truth = images[: options.pool], truth[: options.pool]
    if options.plot is not None:
        draw(json.loads(options.plot.read_text()), images, options.plot.with_suffix(".png"))
        return
    report = measure(options, images, truth)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "adversaries.json"
    file.write_text(json.dumps(report, indent=1) + "\n")
    draw(report, images, file.with_suffix(".png"))


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
    for name, iterations in options.runs:
        if time.perf_counter() - start > options.seconds:
            print(f"{name}: left out, time is up")
            continue
        run = f"{name}:{iterations}" if iterations else name
        report["runs"][run] = one_run(name, iterations, options, images, truth, labels)
        shown = {key: value for key, value in report["runs"][run].items() if isinstance(value, float)}
        print(run, json.dumps({key: round(value, 3) for key, value in shown.items()}), flush=True)
    report["seconds"] = time.perf_counter() - start
    return report


def run_of(text: str) -> tuple[str, str]:
    """A run and its number of iterations, as they are asked for: "" where nothing is said."""
    name, _, iterations = text.partition(":")
    if name not in RUNS:
        raise argparse.ArgumentTypeError(f"no run {name!r}; there are {', '.join(RUNS)}")
    if iterations not in ("", PUBLISHED) and not (iterations.isdecimal() and int(iterations)):
        raise argparse.ArgumentTypeError(f"iterations are a number above 0 or {PUBLISHED!r}; got {iterations!r}")
    return name, iterations


def one_run(
    name: str,
    iterations: str,
    options: argparse.Namespace,
    images: np.ndarray,
    truth: np.ndarray,
    labels: np.ndarray,
) -> dict[str, Any]:
    kind, settings = RUNS[name]
    if kind is not LearningLoss:
        count = None if iterations == PUBLISHED else int(iterations or options.iterations)
        settings = {**settings, "iterations": count, "batch_size": options.batch_size}
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
        found["steps"] = len(strategy.hook.history)
        found["pair_loss"] = sampled(strategy.hook.history[:, 0])
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
        found["iterations"] = len(strategy.history["kl"])
        found["seconds_per_iteration"] = found["select_seconds"] / found["iterations"]
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


def draw(report: dict[str, Any], images: np.ndarray, file: Path) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        print(f"no picture without matplotlib; elsewhere: --plot {file.with_suffix('.json')}")
        return
    mpl.use("Agg")
    from matplotlib import pyplot

    runs = report["runs"]
    figure, axes = pyplot.subplots(
        len(runs),
        3,
        figsize=(15, 2.3 * len(runs)),
        squeeze=False,
        gridspec_kw={"width_ratios": [1, 1, 1.6]},
    )
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02, wspace=0.01, hspace=0.02)
    pool = np.array(report["classes_of_pool"]) / sum(report["classes_of_pool"])
    places = np.arange(len(CLASSES))
    for (asked, run), (left, middle, right) in zip(runs.items(), axes, strict=True):
        left.set_title(caption(asked.partition(":")[0], run, report), loc="left", fontsize=9).set_in_layout(False)
        draw_losses(run, left)
        colours = ["tab:orange" if c in PLANTED else "tab:blue" for c in places]
        middle.bar(places, np.array(run["classes"]) / sum(run["classes"]), color=colours)
        middle.step(np.append(places - 0.5, 9.5), np.append(pool, pool[-1]), "k", where="post", linewidth=1)
        middle.set_xticks(places, CLASSES, rotation=30, ha="right", rotation_mode="anchor", fontsize=7)
        middle.tick_params(axis="y", labelsize=7)
        rows = run["first_rows"][:THUMBNAILS]
        tiles = [images[row] for row in rows] + [np.zeros_like(images[0])] * (-len(rows) % ACROSS)
        right.imshow(np.block([tiles[start : start + ACROSS] for start in range(0, len(tiles), ACROSS)]), cmap="gray")
        right.set_axis_off()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def caption(name: str, run: dict[str, Any], report: dict[str, Any]) -> str:
    """One line for a row of panels: what ran, and how much of what it chose was planted."""
    parts = [f"{run['iterations']:,} iterations"] if "iterations" in run else []
    parts.append(f"not labelled at all: {run['share']:.0%} of the picks, {report['share_of_pool']:.0%} of the pool")
    parts.append(f"AUC {run['auc']:.2f}")
    if "spearman" in run:
        seen = run["spearman_seen_classes"]
        parts.append(
            f"predicted and true loss: rank correlation {run['spearman']:.2f}, {seen:.2f} of classes it has seen"
        )
    return f"{name}: " + "; ".join(parts)


def draw_losses(run: dict[str, Any], axis: Any) -> None:
    """Losses of the game by iteration, and of the hook's pairs by step of the learner's training."""
    curves = [(loss, values, run["iterations"]) for loss, values in run.get("losses", {}).items()]
    if "pair_loss" in run:
        curves.append(("pairs, in training", run["pair_loss"], run["steps"]))
    for loss, values, length in curves:
        # Two kinds of steps on one axis: each runs over its own whole length.
        axis.plot(np.linspace(0, 1, len(values)), np.maximum(values, 1e-6), label=f"{loss} ({length:,})", linewidth=1)
    axis.set(yscale="log" if "losses" in run else "linear", xticks=[0, 1], xticklabels=["start", "end"])
    axis.tick_params(labelsize=7)
    axis.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, handlelength=1)


if __name__ == "__main__":
    main()
