"""Set-up of a large pool before and after a change: seconds, and whether basis, width and rows are as good.

    git worktree add --detach /tmp/before COMMIT
    python benchmarks/set_up.py --before /tmp/before/src [--file FEATURES.npz ...] [--times 3] [--out FILE]

Each set-up runs in a process of its own, before and after in turn, so that whatever else the machine does meets both.
Features are synthetic, or those of an .npz with an array X: its 128 to 256 columns turned at random into 2,048, with a
fifth of their variance as noise in the others and an offset; `--as-they-are`: not turned. `--full` also runs Lloyd's
algorithm to its end, seeded on all rows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from synthetic import pool

from understudy import Surrogate
from understudy.core.basis import centre_and_spread, find_centres
from understudy.core.features import Features
from understudy.core.kernels import mean_distance

ROWS, COLUMNS, BASIS = 60_000, 2_048, 500
CPU: Final = torch.device("cpu")


def turned(X: np.ndarray, columns: int = COLUMNS, seed: int = 0) -> np.ndarray:
    """Rows of X in random directions of a wider space; noise elsewhere, whose variance falls as a power of its rank."""
    rng = np.random.default_rng(seed)
    d = X.shape[1]
    Q = np.linalg.qr(rng.normal(size=(columns, d)))[0].astype(np.float32)
    out: np.ndarray = X @ Q.T
    rest = np.arange(1, columns - d + 1) ** -0.7
    rest *= 0.2 * float(X.astype(np.float64).var(0).sum()) / rest.sum()
    for start in range(0, len(out), 5000):
        block = out[start : start + 5000, : columns - d]
        block += rng.normal(size=block.shape).astype(np.float32) * np.sqrt(rest).astype(np.float32)
    return out + 0.4 * np.abs(rng.normal(size=columns)).astype(np.float32)


def measure(path: Path, method: str, seed: int, judge: bool) -> dict[str, Any]:
    """One set-up by the code that was imported; with `judge` also what was found."""
    X = np.load(path)
    start = time.perf_counter()
    s = Surrogate(X, 10, basis_size=BASIS, random_state=seed, method=method)  # type: ignore[arg-type]
    found: dict[str, Any] = {"method": method, "seed": seed}
    if not judge:
        found["seconds"] = time.perf_counter() - start
    else:
        features, kernel = Features(X), s.parts.kernel
        distance = mean_distance(features, *centre_and_spread(features, CPU), np.random.default_rng(0))
        found |= {"inertia": inertia(features, kernel.U), "width": kernel.input_bandwidth**0.5 / distance}
        if method == "understudy":
            found["explained"] = float(s.parts.rows.W.square().sum(1).double().mean())  # type: ignore[attr-defined]
    return found


def inertia(features: Features, U: torch.Tensor) -> float:
    """The summed squared distance of all rows to the nearest centre."""
    return sum(float(torch.cdist(block, U).min(1).values.square().sum()) for _, block in features.blocks(U.dtype, CPU))


def run_to_end(path: Path) -> dict[str, Any]:
    features = Features(X := np.load(path))
    origin, spread = centre_and_spread(features, CPU)
    full = find_centres(features, BASIS, origin, spread, np.random.default_rng(1), 300, 0.0, seeding_rows=len(X))
    return {"iterations": full.iterations, "inertia": inertia(features, full.centres)}


def in_a_process(source: Path, threads: int, *arguments: str) -> dict[str, Any]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONPATH": str(source)}
    command = [sys.executable, __file__, "--child", *arguments]
    line = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(line.splitlines()[-1])
    return found


def compare(name: str, path: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    sources = {"before": given.before, "after": Path(__file__).parents[1] / "src"}
    found = []
    for threads in given.threads:
        for method in given.methods:
            for time_number in range(given.times):
                for which, source in sources.items():
                    seed = time_number if given.judge else 0
                    arguments = (str(path), method, str(seed), str(int(given.judge)))
                    row = in_a_process(source, threads, *arguments)
                    found.append({"features": name, "code": which, "threads": threads, **row})
                    print(json.dumps(found[-1]), flush=True)
    if given.full:
        found.append({"features": name, "code": "to the end", **in_a_process(sources["after"], 2, str(path), "full")})
        print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the source folder of the other version")
    parser.add_argument("--file", type=Path, nargs="*", default=[])
    parser.add_argument("--as-they-are", action="store_true")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--methods", nargs="*", default=["understudy", "paper"])
    parser.add_argument("--judge", action="store_true", help="another seed each time; inertia, width, explained share")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path, help="results are added to those that are there")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        path, method, *rest = given.child
        if method == "full":
            print(json.dumps(run_to_end(Path(path))))
        else:
            print(json.dumps(measure(Path(path), method, seed=int(rest[0]), judge=bool(int(rest[1])))))
        return
    results = json.loads(given.out.read_text()) if given.out and given.out.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for file in given.file or [None]:
            path = Path(folder) / "features.npy"
            if file is None:
                np.save(path, np.maximum(pool(ROWS, 10, COLUMNS)[0], 0.0))
            else:
                with np.load(file) as data:
                    X = data["X"].astype(np.float32)
                if not given.as_they_are:
                    X = turned(X[np.sort(np.random.default_rng(0).permutation(len(X))[:ROWS])])
                np.save(path, X)
            name = "synthetic" if file is None else file.stem + ("" if given.as_they_are else ", turned")
            results += compare(name, path, given)
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
