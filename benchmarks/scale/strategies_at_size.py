"""Every strategy on a wide and on a long pool, under a hard limit of memory: seconds, memory, or why it does not.

    python benchmarks/scale/strategies_at_size.py [--size long] [--only badge] [--again] [--alone] [--data FOLDER]
    python benchmarks/scale/strategies_at_size.py --write-page    # the kept results onto the page here

A wide pool is 20,000 rows of 768 columns and 100 classes, a long one 1,000,000 of 64 and 10; a hundred picks each, 600
rows are labelled, all settings are the defaults, one thread. Every strategy has a process of its own, which warms up on
200 rows. From then on it may map 4 GiB more of private memory (RLIMIT_DATA), on the long pool 8, inputs included: what
asks for more gets an error at once, whether or not it would have touched all of it. Memory is the peak of what was
resident, beyond the inputs. What a training gives is there before the clock starts; networks that a strategy trains
itself are on the clock. After 300 s of processor time, or what `--limit` says, it is over.

Every result is written as soon as it is there, and strategies that the file has are left out the next time: the script
can be ended and started again. Where `--alone` says that nothing else is at work, seconds are those of the clock, else
those of the processor; with it, what was not taken alone is taken again.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from understudy.strategies.protocol import Needs, Strategy
from understudy.strategies.registry import STRATEGIES, make_strategy
from understudy.strategies.view import PoolView

sys.path.append(str(Path(__file__).parents[1]))  # what benchmarks share lives there
from measured import memory, number
from modes import stochastic_file, write_pool
from page_tables import fill_tables, markdown_table
from strategies import WARM_UP, in_words, trained_with

HERE: Final = Path(__file__).parent
KEPT: Final = HERE / "strategies_at_size.json"
PAGE: Final = HERE / "README.md"
PICKS: Final = 100
LABELLED: Final = 600
LIMIT_S: Final = 300.0
READY_S: Final = 600.0  # to import, to warm up and to read the inputs
# These are measured with ten picks, too: most of their time goes by the pick, and a hundred may be over the limit.
ALSO_TEN: Final = {"batchbald", "surrogate_lookahead"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """A pool, and the memory that a strategy may have there."""

    rows: int
    classes: int
    columns: int
    memory_gib: float


SIZES: Final = {"wide": Size(20_000, 100, 768, 4.0), "long": Size(1_000_000, 10, 64, 8.0)}


def cases(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """What is measured of these strategies, and with how many picks."""
    for name in names:
        yield from ((name, picks) for picks in ((PICKS, 10) if name in ALSO_TEN else (PICKS,)))


# -- in a process of its own ------------------------------------------------------------------------------------------


def run_case(name: str, size: Size, picks: int, folder: Path, report: Path) -> None:
    """Measure here, and write to `report` when the inputs are there and when the picks are."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with report.open("w") as lines:

        def say(**found: Any) -> None:
            lines.write(json.dumps(found) + "\n")
            lines.flush()

        def choose(few: bool) -> Callable[[], int]:
            """Read the inputs; what chooses from them, and says how many rows it has chosen."""
            strategy = _made(name, few)
            view = view_for(strategy, folder, size.classes, few)
            n = 2 if few else picks
            return lambda: len(set(strategy.select(view, n, np.random.default_rng(0)).rows.tolist()))

        start = None
        try:
            choose(few=True)()
            before = in_status("VmRSS")
            limit = int(in_status("VmData") + size.memory_gib * 2**30)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            chooser = choose(few=False)
            inputs = in_status("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            say(inputs=inputs - before, resident=inputs)
            start = time.perf_counter(), time.process_time()
            chosen = chooser()
            say(**since(*start), peak=in_status("VmHWM") - inputs)
            if chosen != picks:
                say(failure=f"{chosen} rows where {picks} were asked for")
        except Exception as error:
            say(failure=in_words(error), **({} if start is None else since(*start)))


def since(clock: float, processor: float) -> dict[str, float]:
    return {"seconds": time.perf_counter() - clock, "processor_s": time.process_time() - processor}


def _made(name: str, warms_up: bool) -> Strategy:
    """The strategy with its default settings; to warm up, a single step of what it trains is enough."""
    known = signature(STRATEGIES[name]).parameters
    steps = [setting for setting in ("iterations", "max_epochs") if setting in known]
    return make_strategy(name, **(dict.fromkeys(steps, 1) if warms_up else {}))


def view_for(strategy: Strategy, folder: Path, n_classes: int, few: bool) -> PoolView:
    """What a loop would show the strategy after a training; or some of its rows, read from the files alone."""
    labels = np.load(folder / "labels.npy")
    rows: Any = slice(None)
    if few:
        rows = np.sort(np.concatenate([np.flatnonzero(part)[: WARM_UP // 2] for part in (labels >= 0, labels < 0)]))

    def read(file: Path) -> np.ndarray:
        values = np.load(file, mmap_mode="r")
        return values[rows] if few else values if values.dtype == np.uint8 else np.array(values)

    files = files_for(strategy.needs, folder)
    supplies: dict[str, Any] = {name: read(file) for name, file in files.items()}
    if strategy.needs.hook:
        features = supplies.get("features")
        found = trained_with(
            strategy, read(folder / "features.npy") if features is None else features, labels[rows], n_classes
        )
        if "activations" in strategy.needs.supplies:
            supplies["activations"] = found
    return PoolView(labels[rows], n_classes, round=1, **supplies)


def files_for(needs: Needs, folder: Path) -> dict[str, Path]:
    """The files of what the strategy asks for, but for activations; `hidden` are the features."""
    wanted = set(needs.supplies | needs.optional) | ({"features"} if needs.images_or_features else set())
    files = {name: folder / f"{name}.npy" for name in wanted - {"activations"}}
    if "hidden" in files:
        files["hidden"] = folder / "features.npy"
    if "stochastic" in files:
        files["stochastic"] = stochastic_file(folder, needs.passes)
    return files


def in_status(line: str, process: int | str = "self") -> int:
    """A size that the kernel keeps about a process, in bytes."""
    text = Path(f"/proc/{process}/status").read_text()
    return 1024 * next(int(words.split()[1]) for words in text.splitlines() if words.startswith(f"{line}:"))


# -- in the process that waits ----------------------------------------------------------------------------------------


def measure(name: str, size: Size, picks: int, folder: Path, limit_s: float) -> Row:
    """Run a case beside this process, and end it when it takes too long."""
    report = folder / f"report-{name}-{picks}.jsonl"
    report.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--case", name, str(picks), json.dumps(asdict(size))]
    command += ["--data", str(folder), "--report", str(report)]
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    load = os.getloadavg()[0]
    errors = report.with_suffix(".txt")
    with errors.open("w") as written:
        child = subprocess.Popen(command, env=os.environ | one, stdout=subprocess.DEVNULL, stderr=written)
        stopped, peak = wait_for(child, report, limit_s)
    found = said(report)
    row: Row = {"name": name, **asdict(size), "picks": picks, "failure": stopped or found.get("failure", "")}
    row |= {key: None if key not in found else round(found[key], 4) for key in ("seconds", "processor_s")}
    row["load"] = round(load, 1)
    for what, value in (("inputs_mib", found.get("inputs")), ("peak_mib", peak or found.get("peak"))):
        row[what] = None if value is None else round(value / 2**20, 1)
    if not stopped and child.returncode and not row["failure"]:
        said_last = errors.read_text().strip().splitlines() or [f"exit status {child.returncode}"]
        row["failure"] = f"killed by signal {-child.returncode}" if child.returncode < 0 else said_last[-1][:120]
    return row


def said(report: Path) -> dict[str, Any]:
    """All that a case has reported so far."""
    lines = report.read_text().splitlines() if report.exists() else []
    return {key: value for line in lines for key, value in json.loads(line).items()}


def wait_for(child: "subprocess.Popen[bytes]", report: Path, limit_s: float) -> tuple[str, int | None]:
    """Until the child ends; or its end, where it takes too long, with words for that and its peak beyond the inputs."""
    start: float | None = None
    while True:
        try:
            child.wait(timeout=0.2)
            return "", None
        except subprocess.TimeoutExpired:
            found, spent = said(report), processor_s(child.pid)
            if start is None and "inputs" in found:
                start = spent
            if spent - (start or 0.0) > (READY_S if start is None else limit_s):
                peak = None if start is None else in_status("VmHWM", child.pid) - found["resident"]
                child.kill()
                child.wait()
                return (f"not ready after {READY_S:g} s" if start is None else f"over {limit_s:g} s"), peak


def processor_s(process: int) -> float:
    """The processor time that a process has had so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prepare_data(folder: Path, size: Size, name: str) -> Path:
    """The folder of the pool of this size, made where it is missing, with all that the strategy reads."""
    home = folder / f"{size.rows}-{size.columns}-{size.classes}"
    if not (home / "about.json").exists():
        found = write_pool(home, size.rows, size.columns, size.classes, min(LABELLED, size.rows // 5))
        (home / "about.json").write_text(json.dumps(found))
    files_for(make_strategy(name).needs, home)
    return home


def load_report(file: Path) -> dict[str, Any]:
    if file.exists():
        report: dict[str, Any] = json.loads(file.read_text())
        return report
    return {"about": {}, "results": []}


def keep(file: Path, row: Row, size: Size) -> None:
    """Write a result into the file as it is by now, in the place of an older one."""
    report = load_report(file)
    old = row_of(report, row["name"], size, row["picks"])
    report["results"] = [row, *(kept for kept in report["results"] if kept is not old)]
    report["results"].sort(key=lambda row: (row["rows"], list(STRATEGIES).index(row["name"])))
    report["about"] = about(SIZES)
    whole = file.with_suffix(".new")
    whole.write_text(json.dumps(report, indent=1) + "\n")
    whole.replace(file)


def about(sizes: dict[str, Size]) -> dict[str, Any]:
    return {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": 1,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "date": date.today().isoformat(),
        "labelled": LABELLED,
        "sizes": {name: asdict(size) for name, size in sizes.items()},
    }


# -- for people -------------------------------------------------------------------------------------------------------


def row_of(report: dict[str, Any], name: str, size: Size, picks: int = PICKS) -> Row | None:
    """What was measured of a strategy at a size."""
    wanted = {"name": name, "picks": picks, **asdict(size)}
    return next((row for row in report["results"] if wanted.items() <= row.items()), None)


def table(report: dict[str, Any]) -> str:
    """A line a strategy: seconds and memory on both pools."""
    lines = []
    for name, picks in cases(STRATEGIES):
        cells = [cell for size in SIZES.values() for cell in cells_of(row_of(report, name, size, picks))]
        lines.append([f"`{name}`" if picks == PICKS else f"`{name}`, {picks} picks", *cells])
    heads = [f"{size.rows:,} x {size.columns}, {size.classes} classes | beyond inputs" for size in SIZES.values()]
    return markdown_table(["strategy", *" | ".join(heads).split(" | ")], lines)


def cells_of(row: Row | None) -> list[str]:
    if row is None:
        return ["not measured", ""]
    if row["failure"]:
        kind = "refused" if row["failure"].startswith("refused: ") else row["failure"]
        return [kind, "" if row["peak_mib"] is None else f"{memory(row['peak_mib'])} by then"]
    alone = row["alone"]
    seconds = f"{number(row['seconds' if alone else 'processor_s'])} s"
    return [seconds if alone else f"*{seconds}*", memory(max(0.0, row["peak_mib"]))]


def refusals(report: dict[str, Any]) -> str:
    """The lines of those that refuse, as they stand there."""
    lines = []
    for size in SIZES.values():
        for name in STRATEGIES:
            row = row_of(report, name, size)
            if row is not None and row["failure"].startswith("refused: "):
                lines.append(f"- `{name}` at {size.rows:,}: “{row['failure'].removeprefix('refused: ')}”")
    return "\n".join(lines)


def outcome(row: Row) -> str:
    done = row["failure"] or f"{row['seconds']:.3g} s, {row['processor_s']:.3g} of the processor"
    return done if row["peak_mib"] is None else f"{done}, {row['peak_mib']:,.0f} MiB"


TABLES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {"at size": table, "refusals at size": refusals}


def main() -> None:
    given = arguments()
    if given.case:
        name, picks, size = given.case
        run_case(name, Size(**json.loads(size)), int(picks), given.data, given.report)
        return
    if given.write_page:
        report = load_report(KEPT)
        tables = {name: partial(make, report) for name, make in TABLES.items()}
        PAGE.write_text(fill_tables(PAGE.read_text(), tables))
        return
    if unknown := set(given.only) - set(STRATEGIES):
        raise SystemExit(f"there is no strategy {', '.join(sorted(unknown))}; there are {', '.join(STRATEGIES)}")
    with tempfile.TemporaryDirectory() as temporary:
        for kind in given.size:
            size = SIZES[kind]
            for name, picks in cases(given.only or STRATEGIES):
                old = row_of(load_report(given.out), name, size, picks)
                if old is not None and not given.again and (old["failure"] or old["alone"] >= given.alone):
                    continue
                home = prepare_data(given.data or Path(temporary), size, name)
                row = {**measure(name, size, picks, home, given.limit), "alone": given.alone}
                keep(given.out, row, size)
                print(f"{kind} {name}, {picks} picks: {outcome(row)}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these; the rest of --out is kept")
    parser.add_argument("--again", action="store_true", help="also what --out has already")
    parser.add_argument("--alone", action="store_true", help="nothing else is at work on this machine")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of the processor that the picks may take")
    parser.add_argument("--data", type=Path, help="folder to keep the pools in")
    parser.add_argument("--out", type=Path, default=KEPT)
    parser.add_argument("--write-page", action="store_true", help="measure nothing, write the kept results down")
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
