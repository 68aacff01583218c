"""How the cost of a pick grows with rows n, basis points k and classes c: a plot with fitted exponents.

    python benchmarks/scale/cost_of_picks.py [--picks 60] [--threads 1] [--folder benchmarks/scale]

A pick is `ask` and `tell` of one row by the default method. One of the three is varied at a time, the others stay at
40,000, 256 and 10. All pools of a series are picked from in turn, so that whatever else the machine is at befalls them
alike; the exponent is the slope of log seconds over log size, of the upper half of the sizes, where fixed costs matter
least. It is fitted to the tenth percentile, the time of quiet moments; medians stand beside. Writes
`cost_of_picks.json` and `cost_of_picks.svg`.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch

from understudy import Surrogate

USUAL = {"n": 40_000, "k": 256, "c": 10}
SERIES = {
    "n": [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000],
    "k": [32, 64, 128, 256, 512, 1024],
    "c": [2, 5, 10, 20, 50, 100, 200, 400],
}
COLUMNS = 16
WARM_UP = 10
IN_A_TURN = 5


def make(n: int, k: int, c: int) -> tuple[Surrogate, np.ndarray]:
    """A pool of clusters with random rows as basis points: set up in moments, and picked from as any other."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=1.5, size=(3 * max(c, 20), COLUMNS)).astype(np.float32)
    member = rng.integers(len(centres), size=n)
    features = centres[member] + rng.standard_normal((n, COLUMNS), np.float32)
    labels = member % c
    probs = np.exp(rng.standard_normal((n, c), np.float32) + 1.5 * np.eye(c, dtype=np.float32)[labels])
    probs /= probs.sum(1, keepdims=True)
    basis = features[rng.choice(n, k, replace=False)]
    s = Surrogate(features, c, basis=basis, width=1.0).anchor(probs, np.arange(min(200, n // 10)))
    return s, labels


def measure(name: str, picks: int) -> list[dict[str, Any]]:
    pools = [make(**(USUAL | {name: size})) for size in SERIES[name]]
    seconds: list[list[float]] = [[] for _ in pools]
    for turn in range((picks + WARM_UP) // IN_A_TURN):
        for (s, labels), its in zip(pools, seconds, strict=True):
            for _ in range(IN_A_TURN):
                start = time.perf_counter()
                row = s.ask()
                s.tell(row, labels[row])
                if turn * IN_A_TURN >= WARM_UP:
                    its.append(time.perf_counter() - start)
    return [
        {"size": size, "median_ms": 1e3 * statistics.median(its), "tenth_ms": 1e3 * float(np.quantile(its, 0.1))}
        for size, its in zip(SERIES[name], seconds, strict=True)
    ]


def exponent(points: list[dict[str, Any]]) -> float:
    upper = points[len(points) // 2 :]
    sizes, times = (np.log([point[key] for point in upper]) for key in ("size", "tenth_ms"))
    return float(np.polyfit(sizes, times, 1)[0])


def draw(result: dict[str, Any], path: Path) -> None:
    mpl.rcParams["svg.hashsalt"] = "scale"  # the same numbers make the same file
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
    for axis, (name, said) in zip(axes, {"n": "rows n", "k": "basis points k", "c": "classes c"}.items(), strict=True):
        points = result["series"][name]
        sizes = [point["size"] for point in points]
        axis.loglog(sizes, [point["median_ms"] for point in points], "o--", color="0.7", label="median")
        axis.loglog(sizes, [point["tenth_ms"] for point in points], "o-", color="#1f6fb4", label="tenth percentile")
        axis.set_xlabel(said)
        axis.set_title(f"grows with the power {result['exponents'][name]:.2f}", fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("milliseconds a pick")
    axes[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picks", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    result: dict[str, Any] = {
        "usual": USUAL,
        "threads": given.threads,
        "picks": given.picks,
        "torch": torch.__version__,
    }
    result["load_before"] = os.getloadavg()[0]
    result["series"] = {name: measure(name, given.picks) for name in SERIES}
    result["exponents"] = {name: exponent(points) for name, points in result["series"].items()}
    result["load_after"] = os.getloadavg()[0]
    (given.folder / "cost_of_picks.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, given.folder / "cost_of_picks.svg")
    print(json.dumps(result["exponents"]))


if __name__ == "__main__":
    main()
