"""Pools made harder: fewer rows of some classes, and near-copies of rows. Test items stay as they are.

Wrong answers, the third regime, are of a repetition and stand in the plan.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from jaxtyping import Float, Int, Shaped
from threadpoolctl import threadpool_limits

from understudy.core.blocks import block_slices, rows_that_fit
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError
from understudy.experiments.bench import Bench
from understudy.experiments.plan import STREAM_DUPLICATES, STREAM_IMBALANCE, Regime
from understudy.frames import take_rows

NOISE: Final = 0.1  # of the distance to the nearest other row, as the length of what is added to a near-copy
MAX_NEIGHBOURS: Final = 20_000  # random rows among which the nearest is looked for
BYTES_OF_DISTANCES: Final = 64 * 2**20  # at once


def apply_regime(bench: Bench, regime: Regime, seed: int) -> tuple[Bench, Int[np.ndarray, "m"]]:
    """The bench with the pool that the regime makes of its own, and which row of that each row comes from."""
    rows = np.arange(len(bench.pool))
    if regime.imbalance is not None:
        rows = thinned_rows(bench.truth, regime.imbalance, bench.pool.classes, seed)
        bench = replace(bench, pool=bench.pool.take(rows))
    if regime.duplicates is not None:
        pool, sources = _with_copies(bench.pool, regime.duplicates, seed)
        bench, rows = replace(bench, pool=pool), rows[sources]
    return bench, rows


def thinned_rows(
    truth: Int[np.ndarray, "n"], ratio: float, classes: tuple[str, ...], seed: int
) -> Int[np.ndarray, "m"]:
    """Random rows, ascending, whose class sizes fall geometrically; the classes come in a random order.

    As many rows as can be: the sizes are those of the largest such sequence that the pool has rows for.
    """
    rng = np.random.default_rng([seed, STREAM_IMBALANCE])
    order = rng.permutation(np.unique(truth))  # classes without a row stay without
    shares = ratio ** -np.linspace(0, 1, len(order))
    counts = np.bincount(truth, minlength=len(classes))[order]
    largest = (counts / shares).min()
    if round(largest * shares[-1]) < 1:
        scarce = int((counts / shares).argmin())
        raise UnderstudyError(
            f"the pool has too few rows for classes of which the largest is {ratio:g} times the smallest: "
            f"{classes[order[scarce]]} has {counts[scarce]:,}; pass a smaller imbalance"
        )
    kept = [
        rng.permutation(np.flatnonzero(truth == label))[: min(count, round(largest * share))]
        for label, count, share in zip(order, counts, shares, strict=True)
    ]
    return np.sort(np.concatenate(kept))


def _with_copies(pool: Pool, share: float, seed: int) -> tuple[Pool, Int[np.ndarray, "m"]]:
    """The pool and near-copies after its rows, with the row that each comes from.

    No row is copied again before all others were. Features get noise; raw items are the same once more.
    """
    rng = np.random.default_rng([seed, STREAM_DUPLICATES])
    n = len(pool)
    n_copies = round(share / (1 - share) * n)
    copied = np.concatenate([rng.permutation(n) for _ in range(-(-n_copies // n))] or [np.arange(0)])[:n_copies]
    rows = np.concatenate([np.arange(n), copied])
    made = Pool(  # not taken of the pool: identities must differ
        (*pool.ids, *_new_names(pool.ids, copied)),
        items=None if pool.items is None else pool.items.take(rows.tolist()),
        features=None if pool.features is None else _with_noise(np.asarray(pool.features), copied, rng),
        labels=None if pool.labels is None else pool.labels[rows],
        classes=pool.classes,
        faults=pool.faults,
        inputs=None if pool.inputs is None else take_rows(pool.inputs, rows),
    )
    return made, rows


def _new_names(ids: tuple[str, ...], copied: Int[np.ndarray, "m"]) -> list[str]:
    """An identity for each copy, which no item has yet."""
    taken, found = set(ids), []
    for row in copied.tolist():
        number = 1
        while (name := f"{ids[row]} (copy {number})") in taken:
            number += 1
        taken.add(name)
        found.append(name)
    return found


def _with_noise(
    features: Shaped[np.ndarray, "n d"], copied: Int[np.ndarray, "m"], rng: np.random.Generator
) -> Float[np.ndarray, "_ d"]:
    """The features of all rows and of their near-copies, each a tenth of the way to its nearest row off its source."""
    values = features if features.dtype.kind == "f" else features.astype(np.float32)
    direction = rng.standard_normal((len(copied), values.shape[1]))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    among = np.sort(rng.permutation(len(values))[:MAX_NEIGHBOURS])
    lengths = NOISE * distances_to_nearest(values, copied, among)
    copies = values[copied].astype(np.float64) + lengths[:, None] * direction
    return np.concatenate([values, copies.astype(values.dtype)])


def distances_to_nearest(
    features: Shaped[np.ndarray, "n d"], rows: Int[np.ndarray, "m"], among: Int[np.ndarray, "q"]
) -> Float[np.ndarray, "m"]:
    """The distance of each of these rows to the nearest other row among some; 0 where there is no other."""
    there = features[among].astype(np.float32)
    squares = (there.astype(np.float64) ** 2).sum(1).astype(np.float32)
    found = np.zeros(len(rows))
    # One thread: the same nearest row wherever several are about as near.
    with threadpool_limits(1):
        for part in block_slices(len(rows), rows_that_fit(BYTES_OF_DISTANCES, 4 * len(among))):
            here = features[rows[part]].astype(np.float32)
            apart = squares - 2 * here @ there.T
            apart[rows[part][:, None] == among] = np.inf
            nearest = apart.argmin(1)
            gap = here.astype(np.float64) - there[nearest]
            found[part] = np.where(np.isinf(apart.min(1)), 0.0, np.sqrt((gap**2).sum(1)))
    return found
