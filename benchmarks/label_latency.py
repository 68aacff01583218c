"""From the POST of a label to its answer, which holds the next item: alone, beside a training, and while items join.

    python benchmarks/label_latency.py --out benchmarks/results/label-latency.json

The server is a process of its own, started by `understudy label`. One annotator labels without a pause, but for what
the page does while a person looks: it asks which items are likely next. "While training" means that one runs all the
time: as soon as one is done the next is asked for, which swaps the surrogate in each time. "While items join": the
pool's file gets rows at its end all the time, which the server notices; the next rows come once the last ones joined.
All are timed in one run, beside the memory floor: one reading of the n x k whitened rows, measured in the same minute
on one thread.
"""

import argparse
import json
import os
import platform
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import torch

START = "from understudy.cli import main; main()"
CLASSES = 10
MOST_NEW: Final = 4  # times that items are added while labels are timed


def make_pool(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features in overlapping clusters, whose spread falls off as that of principal components does; their classes."""
    rng = np.random.default_rng(0)
    spread = (1 + np.arange(d)) ** -0.5
    centres = rng.normal(size=(6 * CLASSES, d)) * spread * 2
    cluster = rng.integers(len(centres), size=n)
    return (centres[cluster] + rng.normal(size=(n, d)) * spread).astype(np.float32), cluster % CLASSES


def reading(n: int, k: int) -> float:
    """Milliseconds of one pass over n x k single-precision numbers on one thread: the least a pick can take."""
    W, p = torch.rand((n, k)), torch.rand((2, k))
    taken = []
    for _ in range(20):
        start = time.perf_counter()
        W @ p.T
        taken.append(time.perf_counter() - start)
    return 1e3 * float(np.median(taken))


class Serving:
    """A server on a project of its own."""

    def __init__(self, pool: Path, basis: int, learner: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api"
        names = ",".join(f"class {number}" for number in range(CLASSES))
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "label", str(pool), "--no-browser", "--port", str(port), "--classes", names,
             "--basis-size", str(basis), "--learner", learner],
            start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.http = httpx.Client(timeout=60)

    def ready(self) -> float:
        start = time.perf_counter()
        while True:
            if self.process.poll() is not None:
                raise SystemExit("the server ended; see above")
            try:
                if self.http.get(f"{self.url}/status").json().get("phase") == "ready":
                    return time.perf_counter() - start
            except httpx.HTTPError:
                pass
            time.sleep(0.2)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self.http.post(f"{self.url}/{path}", json={"annotator": "ann", **body})
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.http.close()


def label(serving: Serving, truth: np.ndarray, count: int) -> list[float]:
    """Milliseconds of each of so many labels."""
    taken, question = [], serving.post("next")
    for _ in range(count):
        body = {"item": question["item"], "label": int(truth[question["item"]]), "key": secrets.token_hex(8)}
        start = time.perf_counter()
        answer = serving.post("labels", **body)
        taken.append(1e3 * (time.perf_counter() - start))
        question = answer["next"]
        serving.http.get(f"{serving.url}/ahead", params={"annotator": "ann", "n": 4}).raise_for_status()
    return taken


def keep_training(serving: Serving, over: threading.Event, swaps: list[int]) -> None:
    with httpx.Client(timeout=60) as http:
        while not over.is_set():
            state = http.get(f"{serving.url}/status").json()
            if state["training"]["state"] != "running":
                http.post(f"{serving.url}/train", json={"annotator": "trainer"}).raise_for_status()
            if not swaps or swaps[-1] != state["trained_at"]:
                swaps.append(state["trained_at"])
            over.wait(0.5)


def keep_growing(
    serving: Serving, pool: Path, features: np.ndarray, step: int, over: threading.Event, joined: list[float]
) -> None:
    """Put rows at the end of the pool's file until all of these are there; the seconds until each had joined."""
    total = len(features) - MOST_NEW * step
    with httpx.Client(timeout=60) as http:
        while total < len(features) and not over.is_set():
            total += step
            draft = pool.with_name("draft.npz")
            np.savez(draft, X=features[:total])
            draft.replace(pool)
            start = time.perf_counter()
            while http.get(f"{serving.url}/status").json()["total"] < total and not over.wait(0.2):
                pass
            joined.append(round(time.perf_counter() - start, 1))
    over.set()


def figures(taken: list[float]) -> dict[str, float]:
    low, ninety, high = np.percentile(taken, [50, 90, 99])
    return {"labels": len(taken), "median_ms": round(low, 1), "p90_ms": round(ninety, 1), "p99_ms": round(high, 1),
            "worst_ms": round(max(taken), 1)}  # fmt: skip


def measure(n: int, d: int, basis: int, count: int, learner: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        pool, step = Path(scratch) / "pool.npz", max(1, n // 100)
        features, truth = make_pool(n + MOST_NEW * step, d)
        np.savez(pool, X=features[:n])
        serving = Serving(pool, basis, learner)
        try:
            prepared = serving.ready()
            label(serving, truth, 60)  # the first trainings come close upon each other
            while serving.http.get(f"{serving.url}/status").json()["training"]["state"] == "running":
                time.sleep(0.2)
            alone = label(serving, truth, count)
            over, swaps = threading.Event(), list[int]()
            trainer = threading.Thread(target=keep_training, args=(serving, over, swaps))
            trainer.start()
            beside = label(serving, truth, count)
            over.set()
            trainer.join()
            while serving.http.get(f"{serving.url}/status").json()["training"]["state"] == "running":
                time.sleep(0.2)
            over, joined, growing = threading.Event(), list[float](), list[float]()
            grower = threading.Thread(target=keep_growing, args=(serving, pool, features, step, over, joined))
            grower.start()
            while not over.is_set() and len(growing) < 10 * count:
                growing += label(serving, truth, 20)
            over.set()
            grower.join()
        finally:
            serving.end()
    found = {
        "n": n,
        "d": d,
        "basis": basis,
        "prepared_s": round(prepared, 1),
        "one_reading_ms": round(reading(n, basis), 1),
        "as_they_come": figures(alone),
        "while_training": {**figures(beside), "models": len(swaps)},
        "while_items_join": {**figures(growing), "items_at_once": step, "seconds_until_joined": joined},
    }
    print(json.dumps(found, indent=1), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=600)
    parser.add_argument("--columns", type=int, default=512)
    parser.add_argument("--learner", default="modern")
    parser.add_argument("--sizes", type=int, nargs="*", default=[60_000, 1_000])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(n, given.columns, min(500, n // 2), min(given.labels, n // 4), given.learner) for n in given.sizes]
    found = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__,
             "learner": given.learner, "sizes": rows}  # fmt: skip
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
