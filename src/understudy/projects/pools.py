"""The items of a project in an order that never changes: `items.parquet`, and the features that belong to it.

A row is an item for ever; new ones come at the end. The features of n items are in `features/features-n.npy`, written
before `items.parquet` is replaced: whichever of the two tables a kill leaves, its features are there.
"""

import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.features import digest_of, writable, write_array
from understudy.data.files import atomic_file, replace_durably
from understudy.data.items import ArrayImages, ImageFiles, Items, Texts, lies_in
from understudy.data.pool import Pool
from understudy.data.shown_items import PinnedImages, SourceImages, real_paths
from understudy.errors import UnderstudyError
from understudy.projects.origins import labels_of

FORMAT: Final = 1
ITEMS: Final = "items.parquet"
FEATURES: Final = "features"
BLOCK: Final = 4096  # rows copied at a time
SCHEMA: Final = pa.schema(
    [
        ("row", pa.int64()),
        ("id", pa.string()),
        ("path", pa.binary()),  # from the source's folder where it lies there; bytes, as file systems have them
        ("text", pa.string()),
        ("label", pa.string()),  # the name of the class that the source gave
        ("digest", pa.string()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
    ],
    metadata={"understudy.items": str(FORMAT)},
)


def read_table(folder: Path) -> Any | None:
    """The frozen items of a project, or None where there are none yet."""
    path = folder / ITEMS
    if not path.exists():
        return None
    try:
        table = pq.read_table(path)
        version = int((table.schema.metadata or {}).get(b"understudy.items", b"0"))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UnderstudyError(f"{path} is damaged; put it back from a copy: labels belong to its rows") from error
    if version > FORMAT:
        raise UnderstudyError(f"{path} has format {version}, this version reads {FORMAT}; install a newer understudy")
    if not table.schema.equals(SCHEMA) or table["row"].to_pylist() != list(range(len(table))):
        raise UnderstudyError(f"{path} is damaged; put it back from a copy: labels belong to its rows")
    return table


def features_path(folder: Path, n: int) -> Path:
    return folder / FEATURES / f"features-{n}.npy"


def open_array(folder: Path, n: int) -> np.ndarray:
    """The features of the first n items, mapped."""
    path = features_path(folder, n)
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UnderstudyError(f"{path} is not there or damaged; put it back from a copy") from error
    if found.ndim != 2 or len(found) != n:
        raise UnderstudyError(f"{path} has shape {found.shape} for {n:,} items; put it back from a copy")
    return found


def freeze(folder: Path, before: Any | None, added: Any, features: np.ndarray) -> Any:
    """Add rows to a project's items: first the features of all, then the table, which makes it so."""
    n_before = 0 if before is None else len(before)
    old = None if before is None else open_array(folder, n_before)
    if old is not None and old.shape[1] != features.shape[1]:
        raise UnderstudyError(f"new features have {features.shape[1]} columns, the project's {old.shape[1]}")
    table = added if before is None else pa.concat_tables([before, added])
    rows = pa.array(range(len(table)), pa.int64())
    table = table.set_column(0, SCHEMA.field("row"), rows).replace_schema_metadata(SCHEMA.metadata)
    path = features_path(folder, len(table))
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(".features.draft")  # always the same, so that what a kill leaves is written over
    write_array(draft, _blocks([*([] if old is None else [old]), features]), (len(table), features.shape[1]))
    replace_durably(draft, path)
    with atomic_file(folder / ITEMS) as file:
        pq.write_table(table, file)
    _remove_others(folder, path)
    return table


def _blocks(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for array in arrays:
        for start in range(0, len(array), BLOCK):
            yield array[start : start + BLOCK]


def _remove_others(folder: Path, kept: Path) -> None:
    """Features of fewer items are of no use any more. Who has them open keeps them."""
    for path in (folder / FEATURES).glob("features-*.npy"):
        if path != kept:
            with suppress(OSError):
                path.unlink()


def rows_of(
    pool: Pool, base: Path | None, ids: Sequence[str], marks: Mapping[str, Sequence[Any]], with_labels: bool
) -> Any:
    """A pool's items as rows of the table. `marks`: digest, size and mtime_ns of each, where they are known."""
    nothing = [None] * len(pool)
    items = pool.items
    texts: Sequence[str | None] = nothing
    if isinstance(items, Texts):
        texts = [writable(text) for text in items.texts]
    elif items is None:
        texts = [writable(name) for name in pool.ids]  # nothing else can be shown of these
    paths = _kept_paths(items.paths, base) if isinstance(items, ImageFiles) else nothing
    labels = [pool.classes[label] if label >= 0 else None for label in labels_of(pool)] if with_labels else nothing
    columns = {"row": range(len(pool)), "id": ids, "path": paths, "text": texts, "label": labels, **marks}
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in SCHEMA}, schema=SCHEMA)


def marks_of(pool: Pool) -> dict[str, list[Any]]:
    """What an item's content is known by, where it costs little: files that came with features are not read."""
    nothing: list[Any] = [None] * len(pool)
    return {"digest": _digests(pool.items) or nothing, "size": nothing, "mtime_ns": nothing}


def _digests(items: Items | None) -> list[str] | None:
    """Digests of items that are in memory; None for others."""
    if not isinstance(items, Texts | ArrayImages):
        return None
    return [digest_of(items.read(row)).hex() for row in range(len(items))]


def _kept_paths(paths: Sequence[Path], base: Path | None) -> list[bytes]:
    """Real paths: from the base where they lie in it, whole where they do not."""
    root = None if base is None else os.path.realpath(base)
    found = []
    for path in real_paths(paths):
        inside = root is not None and lies_in(path, root)
        found.append(os.fsencode(os.path.relpath(path, root) if inside else path))
    return found


def matched(table: Any, pool: Pool) -> tuple[dict[int, int], list[int]]:
    """Which row of the source each known item is now, and the rows of the source that are new.

    An item is known by its name. Where names are no more than places in a file or an array, it is known by its
    content: a line put in at the top moves all names and no item.
    """
    ids = table["id"].to_pylist()
    known: dict[int, int] = {}
    contents = _digests(pool.items) if _counts_only(pool) else None
    if contents is None:
        rows = {name: row for row, name in enumerate(ids)}
        names = [writable(name) for name in pool.ids]
        known = {rows[name]: place for place, name in enumerate(names) if name in rows}
        return known, [place for place, name in enumerate(names) if name not in rows]
    waiting: dict[str | None, deque[int]] = defaultdict(deque)
    for row, digest in enumerate(table["digest"].to_pylist()):
        waiting[digest].append(row)
    new = []
    for place, digest in enumerate(contents):
        if waiting[digest]:
            known[waiting[digest].popleft()] = place
        else:
            new.append(place)
    return known, new


def _counts_only(pool: Pool) -> bool:
    """Whether the names of items say no more than where they stand."""
    names = getattr(pool.items, "names", None)
    if isinstance(pool.items, Texts) and names is not None:
        return tuple(names) == pool.ids
    return all(name == f"row {row}" for row, name in enumerate(pool.ids))


def free_names(wanted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The names, with a number behind each that is taken already."""
    used, found = set(taken), []
    for name in map(writable, wanted):
        free, number = name, 1
        while free in used:
            number += 1
            free = f"{name} ({number})"
        used.add(free)
        found.append(free)
    return found


def pool_of(table: Any, features: np.ndarray, classes: tuple[str, ...], base: Path | None, source: Pool | None) -> Pool:
    """The pool of a project; `base` and `source` are what its data is now, where it is there."""
    ids = tuple(table["id"].to_pylist())
    known = {} if source is None else matched(table, source)[0]
    return Pool(ids, items=_shown(table, ids, base, source, known), features=features, classes=classes)


def _shown(table: Any, ids: tuple[str, ...], base: Path | None, source: Pool | None, known: Mapping[int, int]) -> Items:
    """The raw items: texts as they were, files where they are now, and images out of the source."""
    texts, paths = table["text"].to_pylist(), table["path"].to_pylist()
    items = None if source is None else source.items
    if None not in texts:
        return Texts(texts, ids)
    if None in paths:
        if isinstance(items, ArrayImages) and len(known) == len(ids):
            return _in_place(items, [known[row] for row in range(len(ids))])
        return SourceImages(items, known, ids, table["digest"].to_pylist())
    root = Path() if base is None else Path(os.path.realpath(base))
    now: dict[int, str] = {}
    if isinstance(items, ImageFiles):
        # Where the source lists a file now, in case that it has moved since.
        now = dict(zip(known, real_paths(items.paths[place] for place in known.values()), strict=True))
    kept = [Path(now[row]) if row in now else root / os.fsdecode(path) for row, path in enumerate(paths)]
    return PinnedImages(kept, ids)


def _in_place(items: ArrayImages, rows: list[int]) -> ArrayImages:
    """These rows of an array; the array itself where they are all of it, since it may be large."""
    return items if rows == list(range(len(items))) else items.take(rows)
