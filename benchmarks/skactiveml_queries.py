"""Seconds a query through scikit-activeml's interface, one row at a time: ours beside its own BADGE.

All are shown the same pool, labels and classifier, and take turns in one process, so that whatever else the machine
does meets all of them alike. A query contains what it does with the classifier: the library's BADGE and ours fit it to
all labels each time; the surrogate does when it is due, and then again with `refit_after=1`. Its first
query searches the basis: so long takes an object that is made anew at some query, too.

    python benchmarks/skactiveml_queries.py --data fashion_mnist_resnet50_pca128.npz
"""

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import skactiveml
import torch
from skactiveml.classifier import SklearnClassifier
from skactiveml.pool import Badge
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from understudy.integrations.skactiveml import UnderstudyQuery

THEIRS = "scikit-activeml Badge"


def pool(path: Path | None, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes: of a file with `X` and `y`, or ten clusters in 128 dimensions."""
    if path is not None:
        with np.load(path) as saved:
            return saved["X"][:rows].astype(np.float32), saved["y"][:rows].astype(np.int64)
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 10, rows)
    centres = 0.25 * rng.standard_normal((10, 128))
    return (centres[classes] + rng.standard_normal((rows, 128))).astype(np.float32), classes


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds on the clock, seconds of processor, and the result."""
    clock, processor = time.perf_counter(), time.process_time()
    result = call()
    return time.perf_counter() - clock, time.process_time() - processor, result


def measure(X: np.ndarray, classes: np.ndarray, labelled: int, queries: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    y = np.full(len(X), np.nan)
    start = rng.permutation(len(X))[:labelled]
    y[start] = classes[start]
    clf = SklearnClassifier(LogisticRegression(max_iter=1000), classes=list(range(10)), random_state=0)
    living = UnderstudyQuery(random_state=0)
    taken: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def turn(name: str, call: Callable[[], Any]) -> Any:
        clock, processor, result = timed(call)
        taken[name].append((clock, processor))
        print(f"{name:40} {clock:8.3f} s, {processor:8.3f} s of processor", flush=True)
        return result

    row = turn("understudy, first query", lambda: living.query(X, y, clf))
    each_time = deepcopy(living).set_params(refit_after=1)
    for _ in range(queries):
        y[row] = classes[row]
        turn("fit and predict alone", lambda: clone(clf).fit(X, y).predict_proba(X))
        turn(THEIRS, lambda: Badge(random_state=0).query(X, y, clf))
        turn("badge", lambda: UnderstudyQuery("badge", random_state=0).query(X, y, clf))
        turn("understudy, refit_after=1", lambda: each_time.query(X, y, clf))
        row = turn("understudy", lambda: living.query(X, y, clf))
    return {name: summary(values, taken[THEIRS]) for name, values in taken.items()}


def summary(values: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> dict[str, Any]:
    clock, processor = np.median(values, axis=0)
    found = {"queries": len(values), "seconds": float(clock), "processor_seconds": float(processor)}
    found["slowest"] = float(max(value for value, _ in values))
    if len(values) == len(theirs):  # turn by turn
        for place, name in enumerate(("theirs_over_ours", "theirs_over_ours_of_processor")):
            found[name] = float(np.median([t[place] / v[place] for t, v in zip(theirs, values, strict=True)]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help=".npz with X and y; made up without")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--labelled", type=int, default=600)
    parser.add_argument("--queries", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    before = os.getloadavg()
    X, classes = pool(given.data, given.rows)
    found = {
        "pool": {"data": given.data.name if given.data else "made up", "rows": len(X), "columns": X.shape[1]},
        "labelled": given.labelled,
        "versions": {"scikit-activeml": skactiveml.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "cores": os.cpu_count(),
        "threads": given.threads,
        "load_before": before,
        "by": measure(X, classes, given.labelled, given.queries),
        "load_after": os.getloadavg(),
    }
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
