"""Do deferred means change what the paper's method picks? The same labels with and without, on real features.

    python benchmarks/deferral.py FEATURES.npz ... [--picks 300] [--out FILE]

Each file has arrays X and y. A small network is trained on 2,000 random labels of 30,000 random rows; then picks are
rehearsed with `mean_tolerance` 0 (every mean exact after every label) and with its default, from the same basis.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy import Surrogate
from understudy.core.rows import Rows

ROWS, LABELS = 30_000, 2000


def predictions(features: np.ndarray, labels: np.ndarray, trained_on: np.ndarray) -> np.ndarray:
    """Probabilities for all rows from a network with one hidden layer."""
    torch.manual_seed(0)
    n_classes = int(labels.max()) + 1
    inputs = torch.from_numpy((features - features.mean(0)) / features.std())
    net = torch.nn.Sequential(torch.nn.Linear(features.shape[1], 512), torch.nn.ReLU(), torch.nn.Linear(512, n_classes))
    optimiser = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=1e-2)
    rows = torch.from_numpy(trained_on)
    for _ in range(20):
        for batch in torch.split(rows[torch.randperm(len(rows))], 64):
            loss = torch.nn.functional.cross_entropy(net(inputs[batch]), torch.from_numpy(labels)[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    with torch.no_grad():
        return net(inputs).softmax(1).numpy()


def compare(path: Path, link: str, n_picks: int) -> dict[str, Any]:
    with np.load(path) as data:
        rng = np.random.default_rng(0)
        rows = rng.choice(len(data["y"]), ROWS, replace=False)
        features, labels = data["X"][rows].astype(np.float32), data["y"][rows].astype(np.int64)
    trained_on = rng.choice(ROWS, LABELS, replace=False)
    probs = predictions(features, labels, trained_on)
    basis = None
    picks, milliseconds, behind = [], [], 0.0
    for tolerance in (0.0, None):
        options: dict[str, Any] = {} if tolerance is None else {"mean_tolerance": tolerance}
        s = Surrogate(features, probs.shape[1], basis=basis, method="paper", link=link, **options)
        basis = (s.parts.kernel.U, s.parts.kernel.V)
        s.anchor(probs, trained_on)
        chosen = []
        start = time.perf_counter()
        for _ in range(n_picks):
            row = s.ask()
            s.tell(row, labels[row])
            chosen.append(int(row[0]))
            assert isinstance(s.parts.rows, Rows)
            behind = max(behind, s.parts.rows.means.behind_by())
        milliseconds.append(1e3 * (time.perf_counter() - start) / n_picks)
        picks.append(chosen)
    result = {
        "pool": path.stem, "link": link, "n_classes": int(probs.shape[1]), "picks": n_picks,
        "same_row_at_same_place": sum(a == b for a, b in zip(*picks, strict=True)),
        "same_rows": len(set(picks[0]) & set(picks[1])),
        "furthest_behind": behind, "exact_ms": milliseconds[0], "deferred_ms": milliseconds[1],
    }  # fmt: skip
    print(
        f"{path.stem} {link}: {result['same_row_at_same_place']} of {n_picks} picks the same, "
        f"{result['same_rows']} in any order; a mean was at most {behind:.3f} behind; "
        f"{milliseconds[0]:.1f} ms a pick exact, {milliseconds[1]:.1f} ms deferred",
        flush=True,
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--picks", type=int, default=300)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = [compare(path, link, arguments.picks) for path in arguments.files for link in ("softmax", "logit")]
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
