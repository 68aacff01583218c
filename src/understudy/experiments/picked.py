"""What was picked: the first items each strategy asked for, the classes they are of, and where they lie in the pool."""

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int
from PIL import Image

from understudy.data.faults import ItemFault
from understudy.data.items import make_printable
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError
from understudy.experiments.bench import bench_of
from understudy.experiments.curves import CEILING
from understudy.experiments.results import Results

FIRST: Final = 24  # images shown of each strategy
FIRST_TEXTS: Final = 6
SIDE: Final = 64  # pixels of a thumbnail, at most
LONGEST: Final = 180  # letters of a text
MAP_ROWS: Final = 5_000
MAP_PICKS: Final = 200
TURNS: Final = 30  # of the search for the two axes


@dataclass(frozen=True)
class Shown:
    """An item for a page: an image as a data address, or a text; neither where it cannot be read."""

    name: str
    label: str
    was_right: bool | None  # whether the learner had its label right when it was asked for
    image: str = ""
    text: str = ""


def pool_of(results: Results, dataset: Dataset | None) -> tuple[Pool | None, str]:
    """The pool whose rows were picked, or why it cannot be shown."""
    if dataset is None:
        return None, "The data set was not at hand when this page was made, so its items and their map are not shown."
    plan = results.settings.get("plan", {})
    try:
        bench = bench_of(dataset, int(plan.get("seed", 0)))
        same = len(bench.pool) == plan.get("pool_rows") and bench.digest() == plan.get("digest")
    except UnderstudyError:
        same = False
    if not same:
        return None, f"{dataset.name} is not what was compared on: its items have changed, so none are shown."
    return bench.pool, ""


def rounds(results: Results, strategy: str, repeat: int | None = None) -> list[dict[str, Any]]:
    """The rounds of a repetition of a strategy, by default its first; the initial labels come first."""
    table = results.table.filter(pc.equal(results.table["strategy"], pa.scalar(strategy)))
    first = pc.min(table["repeat"]) if repeat is None else pa.scalar(repeat, table["repeat"].type)
    found: list[dict[str, Any]] = table.filter(pc.equal(table["repeat"], first)).sort_by("labels").to_pylist()
    return found


def _asked_for(results: Results, strategy: str, repeat: int | None = None) -> list[dict[str, Any]]:
    """The rounds whose rows the strategy chose: all but the first, and that too if the choice was its own."""
    found = rounds(results, strategy, repeat)
    is_own = results.settings.get("plan", {}).get("start") == 0 and bool(found) and found[0]["scores"] is not None
    return found if is_own else found[1:]


def first_asked(
    results: Results, strategy: str, n: int = FIRST, repeat: int | None = None
) -> tuple[list[int], list[bool | None]]:
    """The first rows that the strategy chose itself, and whether the learner, where there was one, had them right."""
    rows: list[int] = []
    right: list[bool | None] = []
    for one in _asked_for(results, strategy, repeat):
        picks = one["picks"] or []  # where they were not kept there are none
        rows += picks
        right += [None] * len(picks) if one["was_right"] is None else one["was_right"][: len(picks)]
        if len(rows) >= n:
            break
    return rows[:n], right[:n]


def shown(pool: Pool, rows: Sequence[int], was_right: Sequence[bool | None]) -> list[Shown]:
    """These items of the pool, small enough for a page."""
    return [item(pool, row, right) for row, right in zip(rows, was_right, strict=True)]


def item(pool: Pool, row: int, right: bool | None) -> Shown:
    label = "" if pool.labels is None or pool.labels[row] < 0 else make_printable(pool.classes[pool.labels[row]])
    name = make_printable(pool.ids[row])
    try:
        found = pool.item(row)
    except (ItemFault, UnderstudyError):
        return Shown(name, label, right)
    if isinstance(found, str):
        return Shown(name, label, right, text=_shortened(found))
    return Shown(name, label, right, image=_thumbnail(found))


def _shortened(text: str) -> str:
    line = make_printable(" ".join(text.split()))
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"


def _thumbnail(image: Image.Image) -> str:
    """A small picture as an address that holds it whole."""
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE))
    file = BytesIO()
    # Drawings of few colours stay sharp as PNG; a photograph as PNG would be four times as long.
    tiny = small.width * small.height <= 32 * 32
    small.save(file, "PNG" if tiny else "JPEG", **({"optimize": True} if tiny else {"quality": 82}))
    return f"data:image/{'png' if tiny else 'jpeg'};base64,{base64.b64encode(file.getvalue()).decode()}"


def class_counts(
    results: Results, strategies: Sequence[str], labels: int, repeats: Collection[int] | None = None
) -> dict[str, Int[np.ndarray, "c"]]:
    """How many labels of each class every strategy had at this number of labels, over these repetitions or all."""
    table = results.table.select(["strategy", "repeat", "labels", "class_counts"]).to_pylist()
    counts: dict[str, np.ndarray] = {}
    for one in table:
        counted = one["class_counts"] and (repeats is None or one["repeat"] in repeats)
        if counted and one["labels"] == labels and one["strategy"] in strategies:
            counts[one["strategy"]] = counts.get(one["strategy"], 0) + np.array(one["class_counts"], np.int64)
    return {name: counts[name] for name in strategies if name in counts}


def pool_counts(results: Results, pool: Pool | None) -> Int[np.ndarray, "c"] | None:
    """How many rows of the pool are of each class; the ceiling knows, if nobody else does."""
    if pool is not None and pool.labels is not None:
        return np.bincount(pool.labels[pool.labels >= 0], minlength=len(pool.classes))
    ceilings = results.table.filter(pc.equal(results.table["strategy"], pa.scalar(CEILING)))
    counts = ceilings["class_counts"][0].as_py() if len(ceilings) else None
    return np.array(counts, np.int64) if counts else None


@dataclass(frozen=True)
class Map:
    """The pool and what was picked of it, in two dimensions."""

    points: Float[np.ndarray, "n 2"]
    picks: Mapping[str, Float[np.ndarray, "_ 2"]]


def pool_map(results: Results, features: np.ndarray, strategies: Sequence[str], repeat: int | None = None) -> Map:
    """At most 5,000 rows of the pool along the two axes on which they differ most, and each strategy's first picks."""
    rng = np.random.default_rng(0)
    n = len(features)
    rows = np.sort(rng.choice(n, MAP_ROWS, replace=False)) if n > MAP_ROWS else np.arange(n)
    sample = np.asarray(features[rows], dtype=np.float64)
    centre = sample.mean(0)
    axes = principal_axes(sample - centre, rng)
    picks = {}
    for strategy in strategies:
        asked = [row for one in _asked_for(results, strategy, repeat) for row in one["picks"] or ()][:MAP_PICKS]
        if asked:
            picks[strategy] = (np.asarray(features[asked], dtype=np.float64) - centre) @ axes
    return Map((sample - centre) @ axes, picks)


def principal_axes(centred: Float[np.ndarray, "n d"], rng: np.random.Generator) -> Float[np.ndarray, "d 2"]:
    """The two directions of largest variance, by subspace iteration: no d x d matrix is taken apart."""
    d = centred.shape[1]
    guess = rng.standard_normal((d, min(d, 8)))
    for _ in range(TURNS):
        guess, _ = np.linalg.qr(centred.T @ (centred @ guess))
    _, _, turned = np.linalg.svd(centred @ guess, full_matrices=False)
    axes = guess @ turned.T[:, :2]
    if axes.shape[1] < 2:
        axes = np.hstack([axes, np.zeros((d, 2 - axes.shape[1]))])
    # A direction and its opposite are the same axis; the larger side looks up and right.
    signs = np.sign(axes[np.abs(axes).argmax(0), range(2)])
    return axes * np.where(signs == 0, 1, signs)
