"""The picks of strategies: their first items, classes, and position in the pool."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from understudy.data.faults import ItemFault
from understudy.data.images import thumbnail_uri
from understudy.data.items import make_printable
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError
from understudy.experiments.bench import bench_of
from understudy.experiments.curves import CEILING
from understudy.experiments.plan import regime_of
from understudy.experiments.regimes import apply_regime
from understudy.experiments.results import Results

IMAGES_PER_STRATEGY: Final = 24  # shown
TEXTS_PER_STRATEGY: Final = 6
THUMBNAIL_PIXELS: Final = 64  # of the longer side
LETTERS_PER_TEXT: Final = 180  # shown
ROWS_ON_MAP: Final = 5_000
PICKS_ON_MAP: Final = 200
AXIS_ITERATIONS: Final = 30  # of the subspace iteration


@dataclass(frozen=True)
class PickedItem:
    """An item for a page: an image as a data URI, or a text; neither if it cannot be read."""

    name: str
    label: str
    was_right: bool | None  # whether the learner predicted its label when it was asked for
    image: str = ""
    text: str = ""


def pool_of(results: Results, dataset: Dataset | None) -> tuple[Pool | None, str]:
    """The pool whose rows were picked, or why it cannot be shown."""
    if dataset is None:
        return None, "The data set was not available when this page was made, so its items and their map are not shown."
    plan = results.settings.get("plan", {})
    try:
        seed = int(plan.get("seed", 0))
        original = bench_of(dataset, seed)
        bench, _ = apply_regime(original, regime_of(plan), seed)
        same = len(bench.pool) == plan.get("pool_rows") and original.digest() == plan.get("digest")
    except UnderstudyError:
        same = False
    if not same:
        return None, f"{dataset.name} has changed since the comparison, so its items are not shown."
    return bench.pool, ""


def _rounds_of(results: Results, strategy: str, repeat: int | None = None) -> list[dict[str, Any]]:
    """The rounds of a repetition of a strategy, by default its first; the initial labels come first."""
    table = results.table.filter(pc.equal(results.table["strategy"], pa.scalar(strategy)))
    first = pc.min(table["repeat"]) if repeat is None else pa.scalar(repeat, table["repeat"].type)
    found: list[dict[str, Any]] = table.filter(pc.equal(table["repeat"], first)).sort_by("labels").to_pylist()
    return found


def _own_rounds(results: Results, strategy: str, repeat: int | None = None) -> list[dict[str, Any]]:
    """The rounds whose rows the strategy chose: all but the first, and also that one if the strategy chose it."""
    found = _rounds_of(results, strategy, repeat)
    is_own = results.settings.get("plan", {}).get("start") == 0 and bool(found) and found[0]["scores"] is not None
    return found if is_own else found[1:]


def first_picks(
    results: Results, strategy: str, n: int = IMAGES_PER_STRATEGY, repeat: int | None = None
) -> tuple[list[int], list[bool | None]]:
    """The first rows that the strategy chose itself, and whether the learner, if there was one, predicted them."""
    rows: list[int] = []
    right: list[bool | None] = []
    for one in _own_rounds(results, strategy, repeat):
        picks = one["picks"] or []  # None if the results were stored without them
        rows += picks
        right += [None] * len(picks) if one["was_right"] is None else one["was_right"][: len(picks)]
        if len(rows) >= n:
            break
    return rows[:n], right[:n]


def items_for_page(pool: Pool, rows: Sequence[int], was_right: Sequence[bool | None]) -> list[PickedItem]:
    """These items of the pool, small enough for a page."""
    return [_item_for_page(pool, row, right) for row, right in zip(rows, was_right, strict=True)]


def _item_for_page(pool: Pool, row: int, right: bool | None) -> PickedItem:
    label = "" if pool.labels is None or pool.labels[row] < 0 else make_printable(pool.classes[pool.labels[row]])
    name = make_printable(pool.ids[row])
    try:
        found = pool.item(row)
    except (ItemFault, UnderstudyError):
        return PickedItem(name, label, right)
    if isinstance(found, str):
        return PickedItem(name, label, right, text=_shorten(found))
    return PickedItem(name, label, right, image=thumbnail_uri(found, THUMBNAIL_PIXELS))


def _shorten(text: str) -> str:
    line = make_printable(" ".join(text.split()))
    return line if len(line) <= LETTERS_PER_TEXT else line[: LETTERS_PER_TEXT - 1].rstrip() + "…"


def class_counts(
    results: Results, strategies: Sequence[str], labels: int, repeats: Collection[int] | None = None
) -> dict[str, Int[np.ndarray, "c"]]:
    """The class counts of every strategy at this number of labels, over these repetitions or all."""
    table = results.table.select(["strategy", "repeat", "labels", "class_counts"]).to_pylist()
    counts: dict[str, np.ndarray] = {}
    for one in table:
        counted = one["class_counts"] and (repeats is None or one["repeat"] in repeats)
        if counted and one["labels"] == labels and one["strategy"] in strategies:
            counts[one["strategy"]] = counts.get(one["strategy"], 0) + np.array(one["class_counts"], np.int64)
    return {name: counts[name] for name in strategies if name in counts}


def pool_counts(results: Results, pool: Pool | None) -> Int[np.ndarray, "c"] | None:
    """The class counts of the pool, from the pool itself or from the run with all labels."""
    if pool is not None and pool.labels is not None:
        return np.bincount(pool.labels[pool.labels >= 0], minlength=len(pool.classes))
    ceilings = results.table.filter(pc.equal(results.table["strategy"], pa.scalar(CEILING)))
    counts = ceilings["class_counts"][0].as_py() if len(ceilings) else None
    return np.array(counts, np.int64) if counts else None


@dataclass(frozen=True)
class PoolMap:
    """The pool and the picks, in two dimensions."""

    points: Float[np.ndarray, "n 2"]
    picks: Mapping[str, Float[np.ndarray, "_ 2"]]


def pool_map(
    results: Results,
    features: np.ndarray,
    strategies: Sequence[str],
    repeat: int | None = None,
    n_rows: int = ROWS_ON_MAP,
    n_picks: int = PICKS_ON_MAP,
) -> PoolMap:
    """A sample of the pool along its two principal axes, and each strategy's first picks."""
    rng = np.random.default_rng(0)
    n = len(features)
    rows = np.sort(rng.choice(n, n_rows, replace=False)) if n > n_rows else np.arange(n)
    sample = np.asarray(features[rows], dtype=np.float64)
    centre = sample.mean(0)
    axes = principal_axes(sample - centre, rng)
    picks = {}
    for strategy in strategies:
        asked = [row for one in _own_rounds(results, strategy, repeat) for row in one["picks"] or ()][:n_picks]
        if asked:
            picks[strategy] = (np.asarray(features[asked], dtype=np.float64) - centre) @ axes
    return PoolMap((sample - centre) @ axes, picks)


def principal_axes(centred: Float[np.ndarray, "n d"], rng: np.random.Generator) -> Float[np.ndarray, "d 2"]:
    """The two directions of largest variance, by subspace iteration, without decomposing a d x d matrix."""
    d = centred.shape[1]
    guess = rng.standard_normal((d, min(d, 8)))
    for _ in range(AXIS_ITERATIONS):
        guess, _ = np.linalg.qr(centred.T @ (centred @ guess))
    _, _, turned = np.linalg.svd(centred @ guess, full_matrices=False)
    axes = guess @ turned.T[:, :2]
    if axes.shape[1] < 2:
        axes = np.hstack([axes, np.zeros((d, 2 - axes.shape[1]))])
    # The sign of an axis is arbitrary; the larger side points up and right.
    signs = np.sign(axes[np.abs(axes).argmax(0), range(2)])
    return axes * np.where(signs == 0, 1, signs)
