"""A pool on a Ray cluster beside the same pool in this process.

    python benchmarks/scale/cluster.py kills --labels 500 --out FILE
    python benchmarks/scale/cluster.py overhead --rows 60000 1000000 --blocks 1 2 4 8 --out FILE
    python benchmarks/scale/cluster.py setup --rows 1000000 --columns 256 --blocks 4 --out FILE
    python benchmarks/scale/cluster.py grid --out FILE
    python benchmarks/scale/cluster.py model FILE --plot FILE.svg --out FILE
    python benchmarks/scale/cluster.py plan MODEL --rows 1000000000 --memory 256 --machine-cores 32 --price 2.5

`kills`: two simulated machines, three workers killed at random moments; are the same rows asked for as in this process,
by one annotator and in a session of two? `overhead`: what does a label cost, and where does the time go? Sizes that are
measured later are added to the same FILE. `setup`: time, and the memory of this process, which reads no features.
`grid`: a comparison in one process, in one a core, and on Ray. `model`: the cost of a label by rows a block, fitted to
what `overhead` measured. `plan`: by that model, the machines for a pool, the seconds a label takes there, and what they
cost an hour.
"""

import argparse
import json
import logging
import math
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from ray.cluster_utils import Cluster

from understudy import Surrogate
from understudy.core.protocol import RowStorage
from understudy.core.split_rows import InMemory
from understudy.distributed.grid import on_ray
from understudy.distributed.remote_rows import RayStorage, RemoteRows
from understudy.experiments.compare import compare
from understudy.experiments.results import RESULTS
from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session
from understudy.sessions.session import Session

STORE_BYTES = 400 * 10**6
CLASSES = 10
SECONDS_BETWEEN_LABELS = 5.0  # of one person
TURNS = 20
TAUGHT = 12  # labels, in the session of `kills`
SHARE_OF_MEMORY = 0.7  # of a machine that blocks may fill


def make_features(n: int, columns: int, path: Path) -> np.ndarray:
    """Clusters with noise, written to a file a piece at a time and mapped from it."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=1.5, size=(40, columns)).astype(np.float32)
    made = np.lib.format.open_memmap(path, "w+", np.float32, (n, columns))
    for first in range(0, n, 10_000):
        here = min(10_000, n - first)
        made[first : first + here] = centres[rng.integers(0, 40, here)] + rng.normal(size=(here, columns))
    made.flush()
    del made
    return np.load(path, mmap_mode="r")


def make_probs(n: int) -> np.ndarray:
    weights = np.exp(np.random.default_rng(1).normal(size=(n, CLASSES)).astype(np.float32) * 1.5)
    return weights / weights.sum(1, keepdims=True)


@contextmanager
def machines(count: int, cpus: int) -> Iterator[Cluster]:
    """So many simulated machines, and this process joined to them."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    each: dict[str, Any] = {"num_cpus": cpus, "object_store_memory": STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={**each, "include_dashboard": False})
    for _ in range(count - 1):
        cluster.add_node(**each)
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]


@contextmanager
def one_machine(cpus: int) -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        object_store_memory=STORE_BYTES,
    )  # fmt: skip
    try:
        yield
    finally:
        ray.shutdown()


def rows_of(s: Surrogate) -> RemoteRows:
    rows = s.parts.rows
    assert isinstance(rows, RemoteRows)
    return rows


def kill_one(s: Surrogate, rng: np.random.Generator) -> str:
    """Kill the process of one of the blocks; which it was."""
    state = rows_of(s).status()[int(rng.integers(len(rows_of(s).blocks)))]
    os.kill(state.process, signal.SIGKILL)
    return f"rows {state.first:,} to {state.first + state.rows - 1:,}"


# -- kills ----------------------------------------------------------------------------------------------------


def kills(args: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(args.seed)
    with tempfile.TemporaryDirectory() as scratch, machines(2, 8):
        X = make_features(args.rows[0], 64, Path(scratch) / "features.npy")
        probs, labels = make_probs(len(X)), np.random.default_rng(2).integers(0, CLASSES, len(X))
        # The basis found by the cluster serves both: see `setup` for how near the two are that each finds alone.
        there = Surrogate(X, CLASSES, basis_size=128, storage=RayStorage(4))
        here = Surrogate(X, CLASSES, basis_size=128)
        same_basis = float((there.parts.kernel.U - here.parts.kernel.U).abs().max())
        for s in (there, here):
            s.anchor(probs, [])
        moments = set(rng.choice(np.arange(10, args.labels), 3, replace=False).tolist())
        seconds: list[float] = []
        with_kill: list[float] = []
        killed, different = [], 0
        for turn in range(args.labels):
            if turn in moments:
                killed.append(kill_one(there, rng))
            started = time.perf_counter()
            (row,) = there.ask()
            took = time.perf_counter() - started
            (with_kill if turn in moments else seconds).append(took)
            different += int(row != here.ask()[0])
            for s in (there, here):
                s.tell([row], [labels[row]])
        restarts = sum(state.restarts for state in rows_of(there).status())
        nodes = {
            node["NodeID"]
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"]
        }
        del there
        session = session_with_kills(Path(scratch), args.labels, rng)
    return {
        "rows": len(X), "labels": args.labels, "blocks": 4, "machines": len(nodes), "different_picks": different,
        "killed": killed, "restarts": restarts, "largest_difference_of_basis": same_basis,
        "median_ms": 1e3 * float(np.median(seconds)), "p99_ms": 1e3 * float(np.quantile(seconds, 0.99)),
        "seconds_of_picks_after_a_kill": with_kill, "session_of_two": session,
    }  # fmt: skip


def session_with_kills(scratch: Path, labels: int, rng: np.random.Generator) -> dict[str, Any]:
    """Two people label the digits, here and on the cluster; there three workers are killed meanwhile.

    Both begin from the same model: when a training ends is a matter of seconds, and would change what is asked.
    """
    settings: dict[str, Any] = {
        "retrain_growth": 100.0,
        "retrain_at_most": 10**6,
        "basis_size": 100,
        "learner": "quick",
    }
    session = open_session(create_or_open(project=scratch / "taught" / "project", demo=True, device="cpu", **settings))
    for turn in range(TAUGHT):
        _answer(session, "teacher", f"t{turn}")
    _wait_for_training(session)
    session.train()  # of so many labels: the next would come at a hundred times as many
    _wait_for_training(session)
    session.release("teacher")
    trainings = len(session.record.trainings)
    session.close()
    moments = set(rng.choice(np.arange(5, labels), 3, replace=False).tolist())

    def played(name: str, storage: RayStorage | None) -> tuple[list[int], int]:
        shutil.copytree(scratch / "taught", scratch / name)
        session = open_session(create_or_open(project=scratch / name / "project", device="cpu"), storage=storage)
        try:
            asked: list[int] = []
            for turn in range(labels):
                if storage is not None and turn in moments:
                    kill_one(session.learning.chooser.surrogate, rng)
                asked.append(_answer(session, ("ann", "bob")[turn % 2], f"k{turn}"))
            assert len(session.record.trainings) == trainings
            return asked, len(session.record.labels)
        finally:
            session.close()

    (here, kept_here), (there, kept) = played("here", None), played("there", RayStorage(4))
    different = sum(one != other for one, other in zip(here, there, strict=True))
    return {
        "labels": labels, "killed": 3, "different_items": different, "labels_kept": kept, "labels_kept_here": kept_here
    }  # fmt: skip


def _wait_for_training(session: Session) -> None:
    while not session.record.trainings or session.learning.is_busy:
        time.sleep(0.1)


def _answer(session: Session, name: str, key: str) -> int:
    """What was asked of somebody, who answers it before the other gets their next item."""
    item = session.next(name).item
    assert item is not None
    session.label(item, (item * 7) % 10, name, key)
    return item


# -- overhead -------------------------------------------------------------------------------------------------


def overhead(args: argparse.Namespace) -> list[dict[str, Any]]:
    found = {(one["rows"], one["blocks"]): one for one in args.earlier}
    with tempfile.TemporaryDirectory() as scratch, one_machine(2 * max(args.blocks)):
        for n in args.rows:
            X, probs = make_features(n, 64, Path(scratch) / f"{n}.npy"), make_probs(n)
            basis = np.array(X[np.sort(np.random.default_rng(3).choice(n, args.basis, replace=False))])
            here = Surrogate(X, CLASSES, basis=basis, width=1.0).anchor(probs, [])
            for blocks in args.blocks:
                there = Surrogate(X, CLASSES, basis=basis, width=1.0, storage=RayStorage(blocks)).anchor(probs, [])
                compared = _compare(here, there, args.labels, min(blocks, os.cpu_count() or 1))
                about = {"rows": n, "blocks": blocks, "basis": args.basis, "labels": args.labels}
                found[n, blocks] = {**about, "load": os.getloadavg()[0], **compared}
                print(json.dumps(found[n, blocks]), flush=True)
                del there
    return [found[key] for key in sorted(found)]


def _compare(here: Surrogate, there: Surrogate, labels: int, threads: int) -> dict[str, float]:
    """Ask and tell here, with as many threads as the blocks have together, and there; and where the time there goes.

    In turns of 20, since threads that have just computed here hold a core for a moment longer.
    """
    holders = rows_of(there).holders
    ask, spent = holders.ask, {"rounds": 0.0, "asking": 0.0, "blocks": 0.0}

    def counted(question: str, parcels: Any) -> Any:
        started = time.perf_counter()
        answers = ask(question, parcels)
        spent["asking"] += time.perf_counter() - started
        spent["blocks"] += max(holders.states[number].seconds for number in parcels)
        spent["rounds"] += 1
        return answers

    times: dict[str, list[float]] = {"local": [], "ray": []}
    for turn in range(0, labels + TURNS, TURNS):
        if turn == TURNS:
            times = {"local": [], "ray": []}
            holders.ask = counted  # type: ignore[method-assign]
        for name, s, own in (("local", here, threads), ("ray", there, 1)):
            torch.set_num_threads(own)
            for _ in range(TURNS):
                started = time.perf_counter()
                (row,) = s.ask()
                s.tell([row], [int(row) % CLASSES])
                times[name].append(time.perf_counter() - started)
    holders.ask = ask  # type: ignore[method-assign]
    empty = []
    for _ in range(100):
        started = time.perf_counter()
        rows_of(there)._ask("turn", rows_of(there)._all())
        empty.append(time.perf_counter() - started)
    per_label = {name: 1e3 * value / labels for name, value in spent.items()}
    total = 1e3 * float(np.mean(times["ray"]))
    here.undo(len(here.parts.ledger.answers))
    return {
        **{f"{name}_median_ms": 1e3 * float(np.median(each)) for name, each in times.items()},
        **{f"{name}_p99_ms": 1e3 * float(np.quantile(each, 0.99)) for name, each in times.items()},
        "rounds_per_label": spent["rounds"] / labels,
        "in_blocks_ms": per_label["blocks"],
        "messages_ms": per_label["asking"] - per_label["blocks"],
        "driver_ms": total - per_label["asking"],
        "empty_round_ms": 1e3 * float(np.median(empty)),
    }


# -- set-up ---------------------------------------------------------------------------------------------------


def setup(args: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own each, so that the peak is that of one of them."""
    n, size = args.rows[0], f"{args.rows[0]} x {args.columns}"
    about = {"rows": size, "blocks": args.blocks[0], "basis": args.basis}
    found: dict[str, Any] = {**(args.earlier or {}), **about}
    storages: dict[str, RowStorage] = {"local": InMemory(), "ray": RayStorage(args.blocks[0])}
    with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
        path = Path(scratch) / "features.npy"
        make_features(n, args.columns, path)
        for name in args.only or storages:
            found[name] = _in_a_process(partial(_set_up, path, args.basis, storages[name]))
    if storages.keys() <= found.keys():
        found["relative_difference_of_width"] = abs(found["ray"]["width"] / found["local"]["width"] - 1)
    return found


def _set_up(path: Path, basis: int, storage: RowStorage) -> dict[str, Any]:
    X = np.load(path, mmap_mode="r")
    if isinstance(storage, RayStorage):
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        ray.init(
            address="local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
            object_store_memory=STORE_BYTES,
        )  # fmt: skip
    with _peak_of("RssAnon") as peak:  # without the pages of mapped files, which the system takes back when it likes
        before, started = _own_bytes("RssAnon"), time.perf_counter()
        s = Surrogate(X, CLASSES, basis_size=basis, storage=storage)
        seconds = time.perf_counter() - started
        s.parts.rows.row_sum()  # the rows are made when they are first asked
        made = time.perf_counter() - started
    kernel = s.parts.kernel
    return {
        "seconds_of_basis_and_width": seconds, "seconds": made, "width": kernel.input_bandwidth,
        "sum_of_basis": float(kernel.U.sum()), "before_mb": before / 1e6, "peak_mb": peak[0] / 1e6,
        "peak_with_mapped_files_mb": _own_bytes("VmHWM") / 1e6,
    }  # fmt: skip


@contextmanager
def _peak_of(name: str) -> Iterator[list[int]]:
    """The most of something in this process's status while it lasts, as looked at a hundred times a second."""
    peak, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.01):
            peak[0] = max(peak[0], _own_bytes(name))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield peak
    finally:
        ended.set()
        looking.join()


def _own_bytes(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])


def _in_a_process(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, json.dumps(work()).encode())
        if ray.is_initialized():
            ray.shutdown()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(child, 0)
    return dict(json.loads(text))


# -- a comparison ---------------------------------------------------------------------------------------------


def grid(args: argparse.Namespace) -> dict[str, Any]:
    names = ("surrogate", "margin", "random")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("one process", "one a core", "ray"):
            out = Path(scratch) / name
            planned = compare(
                "digits", names, out=out, repeats=args.repeats, schedule=(20, 60, 120), learner="logistic"
            )
            started = time.perf_counter()
            if name == "ray":
                planned.run(on_ray(), progress=False)
            else:
                planned.run(jobs=1 if name == "one process" else None, progress=False)
            seconds = time.perf_counter() - started
            units = len(planned.task.units)
            found[name] = {"seconds": seconds, "units_per_second": units / seconds}
            first = Path(scratch) / "one process" / RESULTS
            found[name]["same_bytes"] = (out / RESULTS).read_bytes() == first.read_bytes()
            print(name, found[name])
    return found


# -- the model of cost ----------------------------------------------------------------------------------------


def model(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds a label = a round + what a further block costs the driver + what a row costs, in the fullest block.

    On one machine blocks share its cores: a block's rows count as often as there are blocks to a core.
    """
    measured = json.loads(args.measured.read_text())["found"]
    cores = json.loads(args.measured.read_text())["cores"]
    shares = [max(1.0, one["blocks"] / cores) for one in measured]
    A = np.array(
        [[1.0, one["blocks"], one["rows"] / one["blocks"] * share] for one, share in zip(measured, shares, strict=True)]
    )
    y = np.array([one["ray_median_ms"] for one in measured])
    # Relative errors count: a fit to the largest alone would say nothing of small pools.
    constants, *_ = np.linalg.lstsq(A / y[:, None], np.ones_like(y), rcond=None)
    predicted = A @ constants
    found = {
        "round_ms": constants[0], "block_ms": constants[1], "row_ms": constants[2],
        "basis": measured[0]["basis"], "classes": CLASSES,
        "errors": {
            f"{one['rows']} x {one['blocks']}": float(p / t - 1)
            for one, p, t in zip(measured, predicted, y, strict=True)
        },
    }  # fmt: skip
    if args.plot is not None:
        _plot(args.plot, measured, constants, cores)
    return found


def _plot(path: Path, measured: list[dict[str, Any]], constants: np.ndarray, cores: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 3.5))
    for n in sorted({one["rows"] for one in measured}):
        some = sorted((one for one in measured if one["rows"] == n), key=lambda one: one["blocks"])
        blocks = np.linspace(1, max(one["blocks"] for one in some), 50)
        line = constants[0] + constants[1] * blocks + constants[2] * n / blocks * np.maximum(1.0, blocks / cores)
        (drawn,) = axes.plot(blocks, line, label=f"{n:,} rows: model")
        axes.plot(
            [one["blocks"] for one in some], [one["ray_median_ms"] for one in some], "o", color=drawn.get_color(),
            label="measured, on Ray",
        )  # fmt: skip
        axes.plot(
            [one["blocks"] for one in some], [one["local_median_ms"] for one in some], "x", color=drawn.get_color(),
            label="measured, here",
        )  # fmt: skip
    axes.set_xlabel(f"blocks, on one machine of {cores} cores")
    axes.set_ylabel("ms a label, median")
    axes.set_yscale("log")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def plan(args: argparse.Namespace) -> dict[str, Any]:
    """Machines, seconds a label and money for a pool, by the fitted model: a block a core."""
    fitted = json.loads(args.measured.read_text())["found"]
    n, k = args.rows[0], args.basis
    # float32 rows; ν, λ, scale, ω, ν + g, h and two measures in float64; predictions and means; doubt, sums and masks
    bytes_a_row = 4 * k + 8 * 8 + 8 * CLASSES + 8 * 3
    machines = math.ceil(n * bytes_a_row / (SHARE_OF_MEMORY * args.memory * 1e9))
    blocks = machines * args.machine_cores
    a_row = fitted["row_ms"] * k / fitted["basis"]
    return {
        "rows": n, "basis": k, "bytes_a_row": bytes_a_row, "machines": machines, "blocks": blocks,
        "seconds_a_label": (fitted["round_ms"] + fitted["block_ms"] * blocks + a_row * n / blocks) / 1e3,
        "driver_gb": n * (3 + 8 * CLASSES) / 1e9, "memory_gb": n * bytes_a_row / 1e9,
        "machines_while_a_model_is_taken_over": 2 * machines, "price_an_hour": machines * args.price,
        "price_a_label_of_one_person": machines * args.price * SECONDS_BETWEEN_LABELS / 3600,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kills", "overhead", "setup", "grid", "model", "plan"])
    parser.add_argument("measured", type=Path, nargs="?", help="what `overhead` wrote, or `model`")
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000])
    parser.add_argument("--blocks", type=int, nargs="+", default=[4])
    parser.add_argument("--only", nargs="+", choices=["local", "ray"], help="of `setup`; the other is added later")
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--basis", type=int, default=256)
    parser.add_argument("--labels", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=60, help="of `grid`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=float, default=256.0, help="gigabytes of a machine")
    parser.add_argument("--machine-cores", type=int, default=32)
    parser.add_argument("--price", type=float, default=1.0, help="of a machine, an hour")
    parser.add_argument("--scratch", type=Path, help="a folder with room for the features")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.earlier = []
    load = os.getloadavg()
    if args.what in ("overhead", "setup") and args.out is not None and args.out.exists():  # measured a piece at a time
        args.earlier = json.loads(args.out.read_text())["found"]
    work: dict[str, Callable[[argparse.Namespace], Any]] = {
        "kills": kills, "overhead": overhead, "setup": setup, "grid": grid, "model": model, "plan": plan,
    }  # fmt: skip
    found = work[args.what](args)
    about = {
        "what": args.what, "cores": os.cpu_count(), "load_before": load, "load_after": os.getloadavg(),
        "processor": platform.processor() or platform.machine(), "torch": torch.__version__, "ray": ray.__version__,
    }  # fmt: skip
    text = json.dumps({**about, "found": found}, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
