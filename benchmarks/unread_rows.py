"""Which rows could a pick leave unread, by bounds that are proven? A simulation on real features.

    python benchmarks/unread_rows.py FEATURES.npz [--rows N] [--labels 300] [--basis 256] [--start 600] [--out FILE]

The file has features `X` (n, d) and labels `y` (n); `--rows` takes a random part of them. A linear learner is trained
on `--start` random rows, then the default method asks for rows and is told their labels. A row that was last read some
labels ago has bounds, and that no utility is above them is checked at every pick:

- g falls with every label, so g now is at most g then; the covariance with a row l is at most √(g g_l);
- h = wᵀRMRw is at most λ_max(RM) g; and a label adds at most 2 √(g g_l h h_l)/d + a g g_l to it, where a is what the
  step multiplies the squared covariance by, if that is positive. The influence h/(ν + g) is at most the smaller of
  λ g/(ν + g) with g then, and the grown h over ν;
- its doubt rises by at most (max e - min e) √(g g_l)/d with a label.

A row is read when the product of its bounds reaches the utility of the row that is picked. A block is read when one of
its askable rows would be; blocks are of consecutive rows, in a random order or sorted by the nearest basis point. The
table says which share of rows and of blocks is read at a pick on average, and over the last third of the labels.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from understudy import Surrogate
from understudy.core.rows import Rows

ROWS_PER_BLOCK = (16, 256, 4096)  # 16 rows of 256 float32 numbers are four pages of memory


class Bounds:
    """What is known of rows that were last read some labels ago; a row may be brought up to date at any time."""

    def __init__(self, nu: torch.Tensor) -> None:
        self.nu = nu
        self.g, self.h, self.grown, self.doubt = torch.zeros((4, len(nu)), dtype=torch.float64)

    def read(self, which: torch.Tensor, rows: Rows) -> None:
        g = (rows.var - self.nu).clamp_min(0.0)
        for kept, now in ((self.g, g), (self.h, rows.h), (self.grown, rows.h), (self.doubt, rows.means.uncertainty())):
            kept[which] = now[which]

    def tell(self, g: float, h: float, d: float, on_square: float, spread: float) -> None:
        """A label of a row with these numbers."""
        crossed = 2 * (self.g * g * self.grown.clamp_min(0.0) * h).sqrt() / d
        self.grown += crossed + max(0.0, on_square) * self.g * g
        self.doubt = (self.doubt + spread * (self.g * g).sqrt() / d).clamp_max(1.0)

    def utility(self, largest: float) -> torch.Tensor:
        of_g = largest * self.g / (self.nu + self.g)
        return torch.minimum(of_g, self.grown / self.nu) * self.doubt


def measure(path: Path, n_labels: int, k: int, n_start: int, n_rows: int | None) -> dict[str, Any]:
    data = np.load(path)
    order = np.random.default_rng(0).permutation(len(data["y"]))[:n_rows]
    features, labels = data["X"][order].astype(np.float32), data["y"][order].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    start = order[:n_start]
    learner = LogisticRegression(max_iter=200).fit(features[start], labels[start])
    c = int(labels.max()) + 1
    probs = np.zeros((len(labels), c))
    probs[:, learner.classes_] = learner.predict_proba(features)
    s = Surrogate(features, c, basis_size=k).anchor(probs, start)
    engine, rows = s._read(), s.parts.rows
    assert isinstance(rows, Rows)
    n = len(rows)
    nearest = torch.cdist(torch.from_numpy(features), s.parts.kernel.U.float()).argmin(1)
    orders = {"random": torch.arange(n), "by basis point": nearest.argsort(stable=True)}
    ways = [("rows", 1, "random")] + [("blocks", size, name) for size in ROWS_PER_BLOCK for name in orders]
    bounds = [Bounds(rows.stats[:, 0].clone()) for _ in ways]
    everything = torch.arange(n)
    for bound in bounds:
        bound.read(everything, rows)
    shares: list[list[float]] = [[] for _ in ways]
    for _ in range(n_labels):
        row = int(s.ask()[0])
        best = float(engine.best)
        engine = s._read()
        closed = ~torch.from_numpy(s.parts.ledger.askable_mask())
        largest = float(torch.linalg.eigvals(engine.posterior.R @ engine.posterior.M).real.max())
        exact = rows.h.clamp_min(0.0) / rows.var * rows.means.uncertainty()
        for (_, size, name), bound, its in zip(ways, bounds, shares, strict=True):
            assert bool((exact <= bound.utility(largest) * (1 + 1e-6) + 1e-12).all()), "a bound does not hold"
            could = (bound.utility(largest) >= best).masked_fill_(closed, False)
            if size > 1:
                padded = torch.zeros(-(-n // size) * size, dtype=torch.bool)
                padded[:n] = could[orders[name]]
                is_read = padded.view(-1, size).any(1)
                its.append(float(is_read.double().mean()))
                could = torch.zeros(n, dtype=torch.bool)
                could[orders[name]] = is_read.repeat_interleave(size)[:n]
            else:
                its.append(float(could.double().mean()))
            bound.read(could.nonzero()[:, 0], rows)
        seen = engine.look(torch.tensor([row]))
        g, h = float(seen.g), float(seen.h)
        error = torch.nn.functional.one_hot(torch.tensor(labels[row]), c) - seen.mean[0]
        d = float(seen.nu) + g
        s.tell([row], [labels[row]])
        step = engine.influence_steps[-1] if engine.influence_steps else None
        on_square = float(step.on_square) if step is not None else h / d**2
        for bound in bounds:
            bound.tell(g, h, d, on_square, float(error.max() - error.min()))
    found = [
        {"what": what, "rows": size, "order": name, "read": np.mean(its), "read_later": np.mean(its[-n_labels // 3 :])}
        for (what, size, name), its in zip(ways, shares, strict=True)
    ]
    return {"pool": path.stem, "n": n, "k": k, "c": c, "labels": n_labels, "start": n_start, "read": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--basis", type=int, default=256)
    parser.add_argument("--start", type=int, default=600)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = measure(given.features, given.labels, given.basis, given.start, given.rows)
    print(json.dumps(result, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
