"""Set-up of a large pool: seconds, and how near the early stop comes to Lloyd's algorithm run to its end.

    python benchmarks/kmeans.py [--sizes 60000,2048,500 ...] [--file FEATURES.npz] [--out FILE]

The reference is seeded by k-means++ over all rows and iterates until nothing changes (at most 300 times).
`--file` takes an .npz with an array X and compares on it as well.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from synthetic import pool

from understudy import Surrogate
from understudy.core.basis import centre_and_spread, find_centres
from understudy.core.features import Features


def compare(name: str, features: np.ndarray, k: int, n_classes: int, device: str) -> dict[str, Any]:
    where = torch.device(device)
    start = time.perf_counter()
    s = Surrogate(features, n_classes, basis_size=k, device=device, method="paper")
    set_up = time.perf_counter() - start
    held = Features(features).on(where)
    start = time.perf_counter()
    ours = find_centres(held, k, *centre_and_spread(held, where), np.random.default_rng(1))
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    standard = centre_and_spread(held, where)
    full = find_centres(held, k, *standard, np.random.default_rng(1), 300, 0.0, seeding_rows=len(features))
    result = {
        "pool": name, "n": len(features), "d": features.shape[1], "k": len(s.parts.kernel.U), "device": device,
        "set_up_s": set_up, "kmeans_s": seconds, "iterations": ours.iterations, "inertia": ours.inertia,
        "full_s": time.perf_counter() - start, "full_iterations": full.iterations, "full_inertia": full.inertia,
        "over_full": ours.inertia / full.inertia - 1,
    }  # fmt: skip
    print(
        f"{name}: n={result['n']:,} d={result['d']} k={result['k']} {device}  set-up {set_up:.1f} s, of which k-means "
        f"{seconds:.1f} s ({ours.iterations} iterations); to the end {result['full_s']:.1f} s ({full.iterations}); "
        f"inertia {100 * result['over_full']:+.2f} %",
        flush=True,
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=["60000,2048,500"])
    parser.add_argument("--file", type=Path, nargs="*", default=[])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
    results = []
    for size in arguments.sizes:
        n, d, k = (int(part) for part in size.split(","))
        # What a network's pooled activations look like: not negative, a few clusters, uneven.
        features = np.maximum(pool(n, 10, d)[0], 0.0)
        results.append(compare("synthetic", features, k, 10, arguments.device))
    for path in arguments.file:
        with np.load(path) as data:
            results.append(compare(path.stem, data["X"].astype(np.float32), 500, 10, arguments.device))
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
