"""What every strategy costs on a large pool: seconds a pick and memory, beside the same methods of other libraries.

    python benchmarks/strategies.py [--only badge coreset] [--no-peers] [--rows 3000 --columns 64] [--out FILE]
    python benchmarks/strategies.py --write-pages     # the kept results onto the strategies' pages and the README here

60,000 x 512 features in float32, 10 classes and 100 where predictions are looked at, 600 labelled rows, two threads.
Only the selection is timed: features, predictions and what a learner was trained to give are there before the clock
starts, for ours and for the others. Every case has a process of its own, which warms up on 200 rows and then makes two
batches, a short one several times for the median. Memory is the growth of the peak over all. A batch that takes longer
than the limit, or needs more than 16 GiB of addresses, is recorded as just that. `modes.py` makes the pool, `peers.py`
calls the others, `measured.py` writes sentences.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import measured
import numpy as np
import torch
from measured import OURS, Report, Row
from modes import stochastic_file, write_pool
from peers import PEERS, Given
from rich.console import Console
from rich.table import Table

from understudy.errors import UnderstudyError
from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.strategies.protocol import ChangesTraining, Needs, Strategy
from understudy.strategies.registry import STRATEGIES, make_strategy
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.view import PoolView

CLASSES: Final = (10, 100)
LABELLED: Final = 600
WARM_UP: Final = 200  # rows
MEMORY_GIB: Final = 16
REPEATS, ENOUGH_S = 9, 1.0  # short batches are repeated: at most so often, and until so many seconds are spent

# Two batches a strategy: what both cost alike is fixed, the rest is by the pick.
BATCHES: Final = (10, 100)
OTHER_BATCHES: Final[dict[str, tuple[tuple[int, int], str]]] = {
    "batchbald": ((2, 10), "nobody takes more: the joint entropy of a batch is estimated worse with every pick"),
    "bait": ((2, 10), "full Fisher matrices of classes times columns: seconds to minutes a pick"),
    "dal": ((20, 100), "it picks in twenty portions, so that fewer than twenty rows are another method"),
    "surrogate_lookahead": ((2, 10), "it takes the effect of 200 rows on all others at every pick"),
    "elhamifar": ((10, 20), "all rows are chosen at once, by one convex programme"),
}
# What is shorter than a user would have it, so that there are figures at all: networks are trained for fewer steps, and
# other libraries' BatchBALD would not end with the hundred passes that ours takes by default. They get as many as ours.
# The adversaries look at features: on images a single step and the scores of 1,500 rows took half a minute on one core.
SHORTENED: Final[dict[str, dict[str, Any]]] = {
    "batchbald": {"passes": 20},
    "dal": {"max_epochs": 20},
    "vaal": {"iterations": 20, "on": "features"},
    "ta_vaal": {"iterations": 20, "on": "features"},
    "sraal": {"iterations": 20, "on": "features"},
}
# Goals at full size, with 10 classes: words, and whether a row meets them.
GOALS: Final[dict[str, tuple[str, Callable[[Row], bool]]]] = {
    "badge": ("10 ms a pick", lambda row: measured.pick_ms(row) <= 10),
    "coreset": ("20 ms a pick", lambda row: measured.pick_ms(row) <= 20),
    "typiclust": ("100 picks in 5 s", lambda row: row["picks"][-1] == 100 and row["seconds"][-1] < 5),
    "probcover": ("within 4 GiB", lambda row: row["peak_mib"] <= 4096),
}
FULL_SIZE: Final = (60_000, 512)


@dataclass(frozen=True)
class Case:
    """One strategy of one library with so many classes."""

    name: str
    who: str
    classes: int

    @property
    def picks(self) -> tuple[int, int]:
        return OTHER_BATCHES[self.name][0] if self.name in OTHER_BATCHES else BATCHES

    def __str__(self) -> str:
        return f"{self.name} of {self.who}, {self.classes} classes"


def cases(names: list[str], with_peers: bool) -> Iterator[Case]:
    for name in names:
        needs = made(name).needs
        looks = {"probs", "stochastic"} & (needs.supplies | needs.optional)
        for classes in CLASSES if looks else CLASSES[:1]:
            yield Case(name, OURS, classes)
            for who in PEERS.get(name, ()) if with_peers else ():
                yield Case(name, who, classes)


def made(name: str, warms_up: bool = False) -> Strategy:
    """The strategy as it is measured; to warm up, one step of a training is enough."""
    settings = SHORTENED.get(name, {})
    if warms_up:
        settings = {key: 1 if key in ("iterations", "max_epochs") else value for key, value in settings.items()}
    return make_strategy(name, **settings)


# -- in a process of its own ------------------------------------------------------------------------------------------


def run_case(case: Case, folder: Path, report: Path, threads: int) -> None:
    """Measure here, and write every result to `report` as soon as it is there."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_GIB * 2**30, MEMORY_GIB * 2**30))
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    with report.open("w") as lines:

        def say(**found: Any) -> None:
            lines.write(json.dumps(found) + "\n")
            lines.flush()

        try:
            prepare = our_choice if case.who == OURS else peer_choice
            small, large = prepare(case, folder)
            small(2)
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            before = peak_mib()
            if isinstance(large, Kept):
                say(begins=0)
                say(setup_s=large.set_up())
            for n in case.picks:
                say(begins=n)
                spent: list[float] = []
                while not spent or (len(spent) < REPEATS and sum(spent) < ENOUGH_S):
                    start = time.perf_counter()
                    rows = large(n)
                    spent.append(time.perf_counter() - start)
                if (distinct := len(set(np.asarray(rows).tolist()))) != n:
                    raise ValueError(f"{distinct} rows where {n} were asked for")
                say(picks=n, seconds=statistics.median(spent), repeats=len(spent), peak_mib=peak_mib() - before)
        except Exception as error:
            say(failure=in_words(error))


def our_choice(case: Case, folder: Path) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    """A strategy made anew for every call, on a few rows and on all. Where it has a hook, that is trained before."""
    needs = made(case.name).needs
    arrays = load_arrays(folder, needs)
    labels = arrays.pop("labels")

    def chooser(rows: np.ndarray | None) -> Callable[[int], Any]:
        known = labels if rows is None else labels[rows]
        supplies: dict[str, Any] = {name: all_[rows] if rows is not None else all_ for name, all_ in arrays.items()}
        features = supplies.get("features")
        if not (needs.images_or_features or "features" in needs.supplies):
            supplies.pop("features", None)
        if "activations" in needs.supplies and not needs.hook:
            assert features is not None
            supplies["activations"] = (features, features)
        trained = None
        if needs.hook:
            assert features is not None
            trained = made(case.name, warms_up=rows is not None)
            activations = trained_with(trained, features, known, case.classes)
            if "activations" in needs.supplies:
                supplies["activations"] = activations
        view = PoolView(known, case.classes, round=1, **supplies)
        warms_up = rows is not None
        if isinstance(strategy := made(case.name, warms_up), SurrogateStrategy):
            return Kept(strategy, view)
        return lambda n: (trained or made(case.name, warms_up)).select(view, n, np.random.default_rng(0)).rows

    known, unknown = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    few = np.sort(np.concatenate([known[: WARM_UP // 2], unknown[: WARM_UP // 2]]))
    return chooser(few), chooser(None)


class Kept:
    """A strategy that is set up once a pool and goes on from what it asked for, as in a session."""

    def __init__(self, strategy: Strategy, view: PoolView) -> None:
        self.strategy, self.view, self.asked = strategy, view, list[int]()

    def __call__(self, n: int) -> np.ndarray:
        view = self.view.after(self.view.labels, pending=self.asked)
        rows = self.strategy.select(view, n, np.random.default_rng(0)).rows
        self.asked += rows.tolist()
        return rows

    def set_up(self) -> float:
        """Seconds to the first pick."""
        start = time.perf_counter()
        self(1)
        return time.perf_counter() - start


def load_arrays(folder: Path, needs: Needs) -> dict[str, np.ndarray]:
    """What the strategy asked for, in memory. `hidden` are the features."""
    arrays = {"labels": np.load(folder / "labels.npy")}
    wanted = set(needs.supplies) | ({"images"} if needs.images_or_features else set())
    if {"features", "activations"} & wanted or needs.hook:
        arrays["features"] = np.load(folder / "features.npy")
    wanted |= set(needs.optional)  # as from the first training on
    for name in wanted - {"features", "activations", "stochastic", "hidden"}:
        arrays[name] = np.load(folder / f"{name}.npy")
    if "hidden" in wanted:
        arrays["hidden"] = np.load(folder / "features.npy")
    if "stochastic" in wanted:
        arrays["stochastic"] = np.load(stochastic_file(folder, needs.passes))
    return arrays


def trained_with(strategy: Strategy, features: np.ndarray, labels: np.ndarray, n_classes: int) -> tuple[Any, ...]:
    """A strategy's hook goes through a short training; what the learner's layers say afterwards."""
    if not isinstance(strategy, ChangesTraining):
        return (features,)
    hook = strategy.training_hook(None, np.random.default_rng(0))
    known = np.flatnonzero(labels >= 0)
    learner = Head(hidden=(300, 300), recipe=Recipe(epochs=3))
    model = learner.fit(features[known], labels[known], n_classes, hook=hook)
    return tuple(model.activations(features))


def peer_choice(case: Case, folder: Path) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    needs = made(case.name).needs if case.name in STRATEGIES else Needs()
    passes = needs.passes if "stochastic" in needs.supplies else 0
    stochastic = np.load(stochastic_file(folder, passes)) if passes else None
    features, probs = np.load(folder / "features.npy"), np.load(folder / "probs.npy")
    given = Given(np.load(folder / "labels.npy"), case.classes, features, probs, stochastic)
    prepare, _ = PEERS[case.name][case.who]
    return prepare(given.few(WARM_UP)), prepare(given)


def peak_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def in_words(error: BaseException) -> str:
    """A failure as what it is."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "MemoryError"
    if isinstance(error, ModuleNotFoundError):
        return f"not installed: {error.name}"
    if isinstance(error, UnderstudyError):
        return f"refused: {error}"
    words = str(error).strip().split("\n")[0][:100]
    return f"{type(error).__name__}: {words}"


# -- in the process that waits ----------------------------------------------------------------------------------------


def measure(case: Case, folder: Path, threads: int, limit_s: float) -> Row:
    """Run a case beside this process; end it when one of its batches takes too long."""
    row: Row = {**asdict(case), "picks": [], "seconds": [], "peak_mib": None, "failure": ""}
    settings = SHORTENED.get(case.name, {}) if case.who == OURS else {}
    row["settings"] = ", ".join(f"{key}={value}" for key, value in settings.items())
    row["note"] = PEERS[case.name][case.who][1] if case.who != OURS else ""
    report = folder / "report.jsonl"
    report.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--case", case.name, case.who, str(case.classes)]
    command += ["--data", str(folder), "--report", str(report), "--threads", str(threads)]
    few = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    child = subprocess.Popen(
        command, env=os.environ | few, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    stopped = wait_for(child, report, limit_s)
    lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    for found in lines:
        if "seconds" in found:
            row["picks"].append(found["picks"])
            row["seconds"].append(found["seconds"])
            row["peak_mib"] = found["peak_mib"]
        if "setup_s" in found:
            row["setup_s"] = found["setup_s"]
        row["failure"] = found.get("failure", row["failure"])
    if stopped:
        row["failure"] = stopped
    elif child.returncode < 0:
        row["failure"] = f"killed by signal {-child.returncode}"
    elif child.returncode and not row["failure"]:
        assert child.stderr is not None
        row["failure"] = (child.stderr.read().strip().splitlines() or [f"exit status {child.returncode}"])[-1][:120]
    return row


def wait_for(child: "subprocess.Popen[str]", report: Path, limit_s: float) -> str:
    """Until the child ends, or one batch has taken longer than the limit: then its end, and words for it."""
    ready_s = 3 * limit_s
    deadline, said = time.monotonic() + ready_s, 0
    while True:
        try:
            child.communicate(timeout=0.2)
            return ""
        except subprocess.TimeoutExpired:
            lines = report.read_text().splitlines() if report.exists() else []
            if len(lines) != said:
                deadline, said = time.monotonic() + limit_s, len(lines)
            if time.monotonic() > deadline:
                child.kill()
                child.communicate()
                return f"timeout after {limit_s:g} s" if said else f"not ready after {ready_s:g} s"


def prepare_data(folder: Path, case: Case, rows: int, columns: int, labelled: int) -> Path:
    """The folder of the pool with so many classes, made where it is missing."""
    home = folder / f"{case.classes}-classes"
    if not (home / "images.npy").exists():
        found = write_pool(home, rows, columns, case.classes, labelled)
        (home / "about.json").write_text(json.dumps(found))
    needs = made(case.name).needs
    if "stochastic" in needs.supplies:
        stochastic_file(home, needs.passes)
    return home


def about(given: argparse.Namespace, labelled: int) -> dict[str, Any]:
    versions = {}
    for package in ("torch", "numpy", "scikit-learn", "scikit-activeml", "small-text", "baal"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": given.threads,
        "python": platform.python_version(),
        "versions": versions,
        "date": date.today().isoformat(),
        "rows": given.rows,
        "columns": given.columns,
        "classes": list(CLASSES),
        "labelled": labelled,
        "limit_s": given.limit,
        "memory_limit_gib": MEMORY_GIB,
        "timed": "the selection only, with features and predictions at hand",
        "batches": {name: reason for name, (_, reason) in OTHER_BATCHES.items()},
    }


# -- for people -------------------------------------------------------------------------------------------------------


def show(report: Report) -> None:
    full = (report["about"]["rows"], report["about"]["columns"]) == FULL_SIZE
    title = f"{report['about']['rows']:,} x {report['about']['columns']}, {report['about']['threads']} threads"
    table = Table("strategy", "who", "classes", "picks", "start s", "ms a pick", "further", "peak", title=title)
    table.add_column("best peer / ours", justify="right")
    table.add_column("goal, or what is to be known")
    for row in report["results"]:
        table.add_row(*cells_of(report, row, full))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def cells_of(report: Report, row: Row, full: bool) -> list[str]:
    ours = row["who"] == OURS
    remarks = [text for text in (row["settings"], row["note"], row["failure"]) if text]
    if ours and row["name"] in GOALS and row["classes"] == CLASSES[0]:
        words, met = GOALS[row["name"]]
        verdict = ("met" if met(row) else "missed") if full and row["picks"] else "at full size"
        remarks.insert(0, f"{words}: {verdict}")
    start = [row["name"] if ours else "", row["who"], str(row["classes"])]
    if not row["picks"]:
        return [*start, *[""] * 6, "; ".join(remarks)]
    fixed, further = measured.fixed_s(row), measured.further_ms(row)
    best = measured.best_peer(report, row) if ours else None
    return [
        *start,
        str(row["picks"][-1]),
        "" if fixed is None else measured.number(fixed),
        measured.number(measured.pick_ms(row)),
        "" if further is None else measured.number(further),
        measured.memory(row["peak_mib"]),
        "" if best is None else measured.number(best[0]) + ("" if best[1] == row["picks"][-1] else f" at {best[1]}"),
        "; ".join(remarks),
    ]


def main() -> None:
    given = arguments()
    if given.case:
        name, who, classes = given.case
        run_case(Case(name, who, int(classes)), given.data, given.report, given.threads)
        return
    if given.write_pages:
        for file in measured.write_pages(measured.load(given.out or measured.KEPT)):
            print(f"wrote {file}")
        return
    if unknown := set(given.only) - set(STRATEGIES):
        raise SystemExit(f"there is no strategy {', '.join(sorted(unknown))}; there are {', '.join(STRATEGIES)}")
    labelled = min(LABELLED, given.rows // 5)
    names = given.only or list(STRATEGIES)
    report: Report = {"about": about(given, labelled), "results": kept_rows(given, names)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.data or Path(temporary)
        for case in cases(names, given.peers):
            home = prepare_data(folder, case, given.rows, given.columns, labelled)
            row = measure(case, home, given.threads, given.limit)
            report["about"][f"learner of {case.classes} classes"] = json.loads((home / "about.json").read_text())
            report["results"].append(row)
            report["results"].sort(key=lambda row: list(STRATEGIES).index(row["name"]))
            done = ", ".join(f"{n} in {s:.3g} s" for n, s in zip(row["picks"], row["seconds"], strict=True))
            print(f"{case}: {'; '.join(part for part in (done, row['failure']) if part)}", flush=True)
            if given.out:
                given.out.parent.mkdir(parents=True, exist_ok=True)
                given.out.write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def kept_rows(given: argparse.Namespace, names: list[str]) -> list[Row]:
    """What a file that is there already says of other strategies: a few can be measured again without the rest."""
    if not (given.only and given.out and given.out.exists()):
        return []
    old = measured.load(given.out)
    for key in ("rows", "columns", "threads"):
        if old["about"][key] != getattr(given, key):
            raise SystemExit(f"{given.out} was made with {old['about'][key]} {key}; give the same, or another --out")
    return [row for row in old["results"] if row["name"] not in names and row["name"] in STRATEGIES]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these; the rest of --out is kept")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="other libraries too")
    parser.add_argument("--rows", type=int, default=FULL_SIZE[0])
    parser.add_argument("--columns", type=int, default=FULL_SIZE[1])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that one batch may take")
    parser.add_argument("--data", type=Path, help="folder to keep the pools in")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write-pages", action="store_true", help="measure nothing, write the kept results down")
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
