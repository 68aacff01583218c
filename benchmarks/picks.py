"""What a pick costs by each method, beside one pass over the rows and the paper's own O(nk²) form, all in one run.

    python benchmarks/picks.py [--device cuda] [--threads 1 2] [--sizes 60000,500,10 ...] [--methods paper understudy]
        [--out FILE]

A pick is `ask` and `tell` of one row. Columns:

- read: every entry of the rows is added up once (the memory floor);
- pass: one product of the rows with one vector, in the better of two memory layouts (the floor the goals speak of);
- pick: median over at least 50 picks after a warm-up; `mean` and `p90` show what the median hides;
- literal: u¹ by its two matrix products in float32, with the same means and doubts and the same choice;
- memory: the peak beyond imports and inputs, set-up included, over its budget of 2.5 nk + 3 nc floats.

With both methods, picks of the two are made in turn in one process, and what the understudy costs over what the paper's
method costs stands beside: `pick_over_paper`, `rehearsed_over_paper`, `set_up_over_paper`, `anchor_over_paper`.
Each size and number of threads runs in a process of its own.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from synthetic import pool

from understudy import Surrogate
from understudy.core.options import METHODS
from understudy.core.rows import Rows

SIZES = ["60000,500,10", "50000,500,100", "100000,500,200"]
TRAINED_ON = 600
WARM_UP = 16
IN_A_TURN = 10  # picks of one method before the other's


def timed(action: Callable[[], object], repeats: int, device: str) -> list[float]:
    """Seconds of each call, the device's queue empty before and after."""
    seconds = []
    for _ in range(repeats):
        synchronise(device)
        start = time.perf_counter()
        action()
        synchronise(device)
        seconds.append(time.perf_counter() - start)
    return seconds


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def literal_pick(s: Surrogate) -> int:
    """The paper's way: u¹ of every row from R and M anew, by two n x k x k products."""
    rows, engine = s.parts.rows, s.parts.engine
    assert isinstance(rows, Rows)
    assert engine is not None
    R, M = engine.posterior.R.to(rows.W.dtype), engine.posterior.M.to(rows.W.dtype)
    Rw = rows.W @ R
    rows.var.copy_((Rw * rows.W).sum(1) + rows.stats[:, 0])
    rows.h.copy_(((Rw @ M) * Rw).sum(1))
    return int(engine.choose()[0])


def literal_tell(s: Surrogate, row: int, label: int) -> None:
    """The same means and doubts as ours; the influence is left to the next pick."""
    engine = s.parts.engine
    assert engine is not None
    engine.learn(torch.tensor([row], device=s.device), torch.tensor([label], device=s.device), judge=True)
    engine.influence_steps.clear()
    engine.apply_steps()


def peak_megabytes(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def reset_peak(device: str) -> float:
    """Forget the peak so far and say what is in use now."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 2**20
    Path("/proc/self/clear_refs").write_text("5")
    return peak_megabytes(device)


def measure(
    n: int, k: int, c: int, device: str, threads: int, picks: int, methods: Sequence[str]
) -> list[dict[str, Any]]:
    """One result a method, at the same pool."""
    torch.set_num_threads(threads)
    features, probs, labels = pool(n, c)
    results: list[dict[str, Any]] = []
    made: list[Surrogate] = []
    for method in methods:
        # Libraries allocate their own work space on first use; that is not ours to count.
        small = make(features[:2000], c, 64, device, method).anchor(probs[:2000], [0])
        small.tell(small.ask(), [0])
        before = reset_peak(device)
        start = time.perf_counter()
        s = make(features, c, k, device, method)
        synchronise(device)
        set_up = time.perf_counter() - start
        start = time.perf_counter()
        s.anchor(probs, np.arange(TRAINED_ON))
        synchronise(device)
        anchor = time.perf_counter() - start
        timed(lambda s=s: pick(s, labels), WARM_UP, device)  # type: ignore[misc]
        memory = peak_megabytes(device) - before
        made.append(s)
        results.append(
            {
                "method": method, "n": n, "k": k, "c": c, "device": device, "threads": threads, "picks": picks,
                "set_up_s": set_up, "anchor_s": anchor,
                "memory_share": memory * 2**20 / (4 * (2.5 * n * k + 3 * n * c)),
            }
        )  # fmt: skip
    # In turn, so that whatever else the machine is at befalls all of them alike.
    seconds: list[list[float]] = [[] for _ in made]
    for first in range(0, picks, IN_A_TURN):
        for s, its in zip(made, seconds, strict=True):
            its += timed(lambda s=s: pick(s, labels), min(IN_A_TURN, picks - first), device)  # type: ignore[misc]
    for s, its, result in zip(made, seconds, results, strict=True):
        result |= {
            "accuracy": s.accuracy,
            "pick_ms": 1e3 * statistics.median(its),
            "pick_mean_ms": 1e3 * statistics.fmean(its),
            "pick_p90_ms": 1e3 * float(np.quantile(its, 0.9)),
        }
        if device == "cuda":
            s.rehearse(labels, 64)  # records
            synchronise(device)
            start = time.perf_counter()
            s.rehearse(labels, 1024)
            synchronise(device)
            result["rehearsed_ms"] = 1e3 * (time.perf_counter() - start) / 1024
        result |= floors(s, labels, device)
        result["pick_over_pass"] = result["pick_ms"] / result["pass_ms"]
        result["literal_over_pick"] = result["literal_ms"] / result["pick_ms"]
    paper = next((result for result in results if result["method"] == "paper"), None)
    for result in results:
        if paper is not None and result is not paper:
            for name in ("pick_ms", "rehearsed_ms", "set_up_s", "anchor_s"):
                if name in result:
                    result[f"{name.rpartition('_')[0]}_over_paper"] = result[name] / paper[name]
    return results


def make(features: np.ndarray, n_classes: int, k: int, device: str, method: str) -> Surrogate:
    return Surrogate(features, n_classes, basis_size=k, device=device, method=method)  # type: ignore[arg-type]


def pick(s: Surrogate, labels: np.ndarray) -> None:
    row = s.ask()
    s.tell(row, labels[row])


def floors(s: Surrogate, labels: np.ndarray, device: str) -> dict[str, float]:
    """Milliseconds of a reading of the rows, a pass over them, and a literal pick."""
    assert isinstance(s.parts.rows, Rows)
    W = s.parts.rows.W
    vector = torch.randn(W.shape[1], device=device)
    read = statistics.median(timed(lambda: W.sum(), 31, device))
    row_major = statistics.median(timed(lambda: W @ vector, 31, device))
    column_major = statistics.median(timed(partial(torch.mv, W.T.contiguous().T, vector), 31, device))
    literal_s = []
    for _ in range(8 if device == "cpu" else 20):
        synchronise(device)
        start = time.perf_counter()
        row = literal_pick(s)
        literal_tell(s, row, int(labels[row]))
        synchronise(device)
        literal_s.append(time.perf_counter() - start)
        s.parts.ledger.pending.clear()
    return {
        "read_ms": 1e3 * read,
        "pass_ms": 1e3 * min(row_major, column_major),
        "literal_ms": 1e3 * statistics.median(literal_s[2:]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--picks", type=int, default=100)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["paper", "understudy"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help="measure one size here and print it as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        n, k, c = (int(part) for part in arguments.one.split(","))
        found = measure(
            n,
            k,
            c=c,
            device=arguments.device,
            threads=arguments.threads[0],
            picks=arguments.picks,
            methods=arguments.methods,
        )
        print(json.dumps(found))
        return
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
    results = []
    for size in arguments.sizes:
        for threads in arguments.threads if arguments.device == "cpu" else arguments.threads[:1]:
            command = [sys.executable, __file__, "--one", size, "--device", arguments.device]
            command += ["--threads", str(threads), "--picks", str(arguments.picks)]
            command += ["--methods", *arguments.methods]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                raise SystemExit(1)
            found = json.loads(done.stdout.splitlines()[-1])
            results += found
            print("\n".join(row_of(result) for result in found), flush=True)
    if arguments.out:
        about = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
        if arguments.device == "cuda":
            about["gpu"] = torch.cuda.get_device_name()
        arguments.out.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")


def row_of(result: dict[str, Any]) -> str:
    """One line for people."""
    text = (
        f"{result['method']:<10} n={result['n']:>9,} k={result['k']} c={result['c']:<5} {result['device']} "
        f"threads={result['threads']}  "
        f"read {result['read_ms']:.3g} ms  pass {result['pass_ms']:.3g} ms  pick {result['pick_ms']:.3g} ms "
        f"(mean {result['pick_mean_ms']:.3g}, p90 {result['pick_p90_ms']:.3g})  literal {result['literal_ms']:.4g} ms  "
        f"pick/pass {result['pick_over_pass']:.2f}  literal/pick {result['literal_over_pick']:.0f}  "
        f"memory {result['memory_share']:.2f} of budget  "
        f"set-up {result['set_up_s']:.1f} s  anchor {result['anchor_s']:.1f} s"
    )
    if "rehearsed_ms" in result:
        text += f"  rehearsed {result['rehearsed_ms']:.3g} ms"
    over = {name.removesuffix("_over_paper"): value for name, value in result.items() if name.endswith("_over_paper")}
    if over:
        text += "  over the paper's: " + ", ".join(f"{name} {value:.2f}" for name, value in over.items())
    return text


if __name__ == "__main__":
    main()
