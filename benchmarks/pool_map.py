"""The map of a pool: how long it takes, and how many of an item's neighbours it keeps, beside principal axes.

    python benchmarks/pool_map.py [--file FEATURES.npz ...] [--out FILE]

On the digits, and on an array X in each file. The share of kept neighbours and the trustworthiness are of the 15
nearest, on a random sample of items against all of them; both are 1 for a perfect map. Trustworthiness asks how far
from an item those really are that the map shows as its neighbours.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from understudy.core.features import Features
from understudy.core.neighbour_graph import nearest_neighbours, principal_axes
from understudy.core.projection import AXES, first_axes, neighbour_map, place_rows

NEAREST = 15
SAMPLE = 1000
PLACED_SHARE = 0.1  # of the items, placed among the others


def ranks(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(m, n): for each of these rows the place of every row when they are sorted by distance; itself first."""
    squares = (X * X).sum(1)
    gaps = squares[None] - 2 * X[rows] @ X.T
    gaps[np.arange(len(rows)), rows] = -np.inf
    order = gaps.argsort(1)
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(len(X))[None], 1)
    return found


def judge(in_features: np.ndarray, on_map: np.ndarray) -> dict[str, float]:
    """How many neighbours are kept, and trustworthiness, by the ranks of both."""
    n = in_features.shape[1]
    is_shown = (on_map > 0) & (on_map <= NEAREST)
    kept = (is_shown & (in_features <= NEAREST)).sum(1).mean() / NEAREST
    excess = np.where(is_shown, np.maximum(in_features - NEAREST, 0), 0).sum(1).mean()
    worst = NEAREST * (2 * n - 3 * NEAREST - 1) / 2
    return {"kept_neighbours": round(float(kept), 4), "trustworthiness": round(float(1 - excess / worst), 4)}


def measure(name: str, X: np.ndarray) -> dict[str, Any]:
    features, n = Features(X), len(X)
    rows = np.sort(np.random.default_rng(0).permutation(n)[:SAMPLE])
    truth = ranks(X.astype(np.float64), rows)
    started = time.perf_counter()
    flat = first_axes(features, 0)
    axes_seconds = time.perf_counter() - started
    started = time.perf_counter()
    ours = neighbour_map(features, 0)
    seconds = time.perf_counter() - started
    most = n - int(PLACED_SHARE * n)
    started = time.perf_counter()
    placed = place_rows(features, ours[:most], 0)
    placing_seconds = time.perf_counter() - started
    along = principal_axes(features, AXES, 0).project(features)
    found, _ = nearest_neighbours(along, NEAREST, 0)
    exact = torch.cdist(along[rows], along)
    exact[torch.arange(len(rows)), torch.from_numpy(rows)] = torch.inf
    true = exact.topk(NEAREST, largest=False).indices
    recall = np.mean([len(set(a) & set(b)) for a, b in zip(true.tolist(), found[rows].tolist(), strict=True)]) / NEAREST
    result = {
        "features": name,
        "items": n,
        "columns": X.shape[1],
        "axes": {"seconds": round(axes_seconds, 2), **judge(truth, ranks(flat.numpy().astype(np.float64), rows))},
        "neighbours": {"seconds": round(seconds, 1), **judge(truth, ranks(ours.numpy().astype(np.float64), rows))},
        "a_tenth_placed_later": {
            "seconds": round(placing_seconds, 2),
            **judge(truth, ranks(placed.numpy().astype(np.float64), rows)),
        },
        "neighbours_found_in_cells": round(float(recall), 4),
    }
    print(json.dumps(result), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = [measure("digits", load_digits().data.astype(np.float32))]
    for path in given.file:
        found.append(measure(path.stem, np.load(path)["X"].astype(np.float32)))
    load = round(os.getloadavg()[0], 1)
    report = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": 1,
        "load_at_the_end": load,
        "maps": found,
    }
    if given.out is not None:
        given.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
