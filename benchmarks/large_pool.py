"""A pool that is larger than memory: built, killed in the middle, built on, and picked from; beside a bare pass.

    python benchmarks/large_pool.py [--rows 10000000] [--columns 64] [--basis 256] [--classes 10] [--memory "8 GiB"]
        [--picks 30] [--folder FOLDER] [--out FILE]

Features and predictions are made as files. A first process is killed (SIGKILL) when half of the segments are on the
disk. A second one goes on, anchors and picks; its anonymous memory (RssAnon of /proc/self/status: all but the page
cache) is read twenty times a second. A pass is one product of the mapped rows with one vector, as torch makes it; a
read adds up every number of the file. Needs 4 bytes x rows x (columns + basis + classes) of disk, which is given back.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy import Surrogate
from understudy.core.rows import Rows
from understudy.row_files import FileRows, InFiles

ROWS_AT_A_TIME = 100_000
CLUSTERS_PER_CLASS = 20
TRAINED_ON = 1_000
SEED = 0


def make_files(folder: Path, n: int, d: int, c: int) -> None:
    """Clusters in d dimensions, and predictions that are right about two times in three."""
    centres = np.random.default_rng(SEED).normal(scale=1.5, size=(CLUSTERS_PER_CLASS * c, d)).astype(np.float32)
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, (n, d))
    probs = np.lib.format.open_memmap(folder / "probs.npy", "w+", np.float32, (n, c))
    labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", np.int64, (n,))
    for first in range(0, n, ROWS_AT_A_TIME):
        rng, size = np.random.default_rng([SEED, first]), min(ROWS_AT_A_TIME, n - first)
        some = slice(first, first + size)
        member = rng.integers(len(centres), size=size)
        labels[some] = member % c
        features[some] = centres[member] + rng.standard_normal((size, d), np.float32)
        logits = rng.standard_normal((size, c), np.float32) + 1.5 * np.eye(c, dtype=np.float32)[labels[some]]
        weights = np.exp(logits)
        probs[some] = weights / weights.sum(1, keepdims=True)


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say how much memory is anonymous; run it on Linux")


class Peaks:
    """The most anonymous memory in use in each phase, sampled by a thread of its own."""

    def __init__(self) -> None:
        self.phase, self.peaks = "start", dict[str, int]()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.peaks[self.phase] = max(self.peaks.get(self.phase, 0), anonymous_bytes())
            time.sleep(0.05)


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def build(folder: Path, c: int, k: int, memory: str) -> Surrogate:
    features = np.load(folder / "features.npy", mmap_mode="r")
    return Surrogate(features, c, basis_size=k, storage=InFiles(folder / "rows", memory))


def live(folder: Path, c: int, k: int, memory: str, picks: int) -> dict[str, Any]:
    """What the second process does, and what it took."""
    peaks, result = Peaks(), dict[str, Any]()
    peaks.phase = "set-up"
    start = time.perf_counter()
    s = build(folder, c, k, memory)
    result["rest_of_set_up_s"] = time.perf_counter() - start
    probs, labels = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("probs", "labels"))
    peaks.phase = "anchor"
    result["anchor_s"] = timed(lambda: s.anchor(probs, np.arange(TRAINED_ON)))
    peaks.phase = "picks"

    def pick() -> None:
        row = s.ask()
        s.tell(row, labels[row])

    timed(pick)
    assert isinstance(s.parts.rows, FileRows)
    block = s.parts.rows.blocks[0]
    assert isinstance(block, Rows)
    W, vector = block.W, torch.randn(k)
    seconds: dict[str, list[float]] = {"pick": [], "pass": [], "read": []}
    for turn in range(picks):  # in turn, so that whatever else the machine is at befalls all of them alike
        seconds["pick"].append(timed(pick))
        if turn % 5 == 0:
            seconds["pass"].append(timed(lambda: W @ vector))
            seconds["read"].append(timed(lambda: W.sum()))
    for name, of in seconds.items():
        result[f"{name}_s"], result[f"{name}_worst_s"] = statistics.median(of), max(of)
    result["pick_over_pass"] = result["pick_s"] / result["pass_s"]
    result["accuracy"] = s.accuracy
    result["peak_anonymous_gib"] = {name: size / 2**30 for name, size in peaks.peaks.items()}
    return result


def kill_halfway(command: list[str], folder: Path) -> dict[str, float]:
    """Start a process that builds, and kill it when half of the segments are done."""
    start = time.perf_counter()
    process = subprocess.Popen(command)
    basis = None
    while process.poll() is None:
        time.sleep(0.05)
        if basis is None and list(folder.glob("rows/basis-*.npz")):
            basis = time.perf_counter() - start
        for path in folder.glob("rows/*/progress.json"):
            finished = json.loads(path.read_text())["finished"]
            (rows,) = path.parent.glob("rows.partial")
            if finished * SEGMENT >= rows.stat().st_size / 2:
                process.send_signal(signal.SIGKILL)
                process.wait()
                seconds = time.perf_counter() - start
                return {"basis_s": basis or 0.0, "killed_after_s": seconds, "segments_kept": finished}
    raise RuntimeError("the first process ended before it was killed")


SEGMENT = 2**26  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--basis", type=int, default=256)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--memory", default="8 GiB")
    parser.add_argument("--picks", type=int, default=30)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", choices=["build", "live"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child == "build":
        build(given.folder, given.classes, given.basis, given.memory)
        return
    if given.child == "live":
        result = live(given.folder, given.classes, given.basis, given.memory, given.picks)
        (given.folder / "result.json").write_text(json.dumps(result))
        return
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    numbers = ("rows", "columns", "basis", "classes", "memory", "picks")
    command = [sys.executable, __file__, "--folder", str(folder)]
    command += [text for name in numbers for text in (f"--{name}", str(getattr(given, name)))]
    try:
        result = {name: getattr(given, name) for name in numbers}
        result["features_s"] = timed(lambda: make_files(folder, given.rows, given.columns, given.classes))
        result["load_before"] = os.getloadavg()[0]
        result |= kill_halfway([*command, "--child", "build"], folder)
        subprocess.run([*command, "--child", "live"], check=True)
        result |= json.loads((folder / "result.json").read_text())
        result["file_gb"] = sum(path.stat().st_size for path in folder.glob("rows/*/rows")) / 1e9
        result |= {"load_after": os.getloadavg()[0], "cores": os.cpu_count(), "torch": torch.__version__}
        result["machine"] = platform.processor() or platform.machine()
        print(json.dumps(result, indent=1))
        if given.out:
            given.out.write_text(json.dumps(result, indent=1) + "\n")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
