"""Kept accuracies and statistics of them, for recompute.py: nothing here comes from the package."""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import t as student

CONTROLS = ("margin_x10", "ceiling")


# -- what is kept -----------------------------------------------------------------------------------------------------

Table = dict[str, dict[tuple[int, int], float]]  # strategy: (repetition, labels): accuracy


def table_of(folder: Path) -> Table:
    columns = pq.read_table(
        folder / "results.parquet", columns=["strategy", "repeat", "labels", "accuracy"]
    ).to_pydict()
    found: Table = defaultdict(dict)
    for name, repeat, labels, accuracy in zip(*columns.values(), strict=True):
        found[plain(name)][repeat, labels] = accuracy
    return dict(found)


def plain(name: str) -> str:
    """Settings without what says nothing: blanks, the fraction of whole numbers, the noise that the paper has."""
    if not name.endswith(")") or " (" in name:
        return name
    name = re.sub(r"(?<==)(\d+)\.0(?=[,)])", r"\1", name.replace(", ", ","))
    return name.replace("noise=1e-10,", "") if name.startswith("surrogate(") else name


def whole_curves(table: Table) -> tuple[list[int], dict[str, np.ndarray]]:
    """The budgets, and accuracies by repetition and budget, of what was played to the end in all repetitions."""
    keys = set(itertools.chain.from_iterable(table.values()))
    keys = {key for key in keys if not all(key not in runs for name, runs in table.items() if name not in CONTROLS)}
    repeats, budgets = sorted({r for r, _ in keys}), sorted({b for _, b in keys})
    out = {}
    for name, runs in table.items():
        if all((r, b) in runs for r in repeats for b in budgets):
            out[name] = np.array([[runs[r, b] for b in budgets] for r in repeats])
    return budgets, out


# -- statistics, each in its own way ----------------------------------------------------------------------------------


def area(values: np.ndarray, at: Sequence[float]) -> np.ndarray:
    total = np.zeros(len(values))
    for i in range(len(at) - 1):
        total += (values[:, i] + values[:, i + 1]) / 2 * (at[i + 1] - at[i])
    return total / (at[-1] - at[0])


def interval(values: np.ndarray) -> tuple[float, float, float]:
    n, mean = len(values), math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((values - mean) ** 2) / (n - 1))
    half = float(student.isf(0.025, n - 1)) * deviation / math.sqrt(n)
    return mean, mean - half, mean + half


def ranks_of(values: np.ndarray) -> list[float]:
    """1 for the smallest; the mean rank where values are equal."""
    return [
        sum(other < value for other in values) + (1 + sum(other == value for other in values)) / 2 for value in values
    ]


def signed_ranks(values: np.ndarray) -> float:
    """Two-sided p by trying every choice of signs; zeros are ranked and left out."""
    values = np.array([round(float(value), 10) for value in values])
    ranks = [rank for rank, value in zip(ranks_of(abs(values)), values, strict=True) if value != 0]
    seen = sum(rank for rank, value in zip(ranks_of(abs(values)), values, strict=True) if value > 0)
    sums = [sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
            for signs in itertools.product((False, True), repeat=len(ranks))]  # fmt: skip
    low, high = sum(one <= seen for one in sums), sum(one >= seen for one in sums)
    return min(1.0, 2 * min(low, high) / len(sums))


def holm(p: Sequence[float]) -> list[float]:
    """Each p times how many are not smaller, and never below one that is smaller."""
    out = []
    for own in p:
        steps = [other * sum(third >= other for third in p) for other in p if other <= own]
        out.append(min(1.0, max(steps)))
    return out


def never_falling(values: Sequence[float]) -> list[float]:
    """The nearest curve that does not fall, by pooling neighbours that do."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            last, before = blocks.pop(), blocks.pop()
            n = last[1] + before[1]
            blocks.append([(last[0] * last[1] + before[0] * before[1]) / n, n])
    return [value for value, n in blocks for _ in range(int(n))]


def labels_for(curve: Sequence[float], budgets: Sequence[int], level: float) -> float | None:
    """The labels at which a curve that does not fall reaches an accuracy."""
    for i, value in enumerate(curve):
        if value >= level - 1e-15:
            if i == 0 or value == curve[i - 1]:
                return float(budgets[i])
            share = (level - curve[i - 1]) / (value - curve[i - 1])
            return budgets[i - 1] + share * (budgets[i] - budgets[i - 1])
    return None


def beats(one: np.ndarray, other: np.ndarray) -> float:
    """The share of budgets at which the first is significantly better, by the paired t-test."""
    n, better = len(one), 0
    for column in range(one.shape[1]):
        d = np.round(one[:, column] - other[:, column], 12)
        deviation = d.std(ddof=1)
        better += bool(
            d.mean() > 0 and (deviation == 0 or d.mean() / deviation * math.sqrt(n) > student.isf(0.025, n - 1))
        )
    return better / one.shape[1]
