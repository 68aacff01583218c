"""`items.parquet`, the items of a project in an order that never changes, and the features that belong to it.

A row is an item for ever; new ones come at the end. The features of n items are in `features/features-n.npy`, written
before `items.parquet` is replaced: whichever version of the table a kill leaves, its features are there.
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

from understudy.data.features import digest_of, replace_unwritable, write_array
from understudy.data.files import atomic_file, replace_durably
from understudy.data.items import ArrayImages, ImageFiles, Items, Texts, lies_in
from understudy.data.pinned_images import PinnedImageFiles, PinnedSourceImages, real_paths
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError
from understudy.messages import UPGRADE
from understudy.projects.source_data import labels_of

FORMAT: Final = 1
FILE: Final = "items.parquet"
FEATURES_FOLDER: Final = "features"
ROWS_PER_BLOCK: Final = 4096  # copied at a time
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


def read_item_table(folder: Path) -> Any | None:
    """The items of a project, or None where there are none yet."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        table = pq.read_table(path)
        version = int((table.schema.metadata or {}).get(b"understudy.items", b"0"))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UnderstudyError(f"{path} is damaged; restore it from a backup: labels belong to its rows") from error
    if version > FORMAT:
        raise UnderstudyError(f"{path} has format {version}, this version reads up to {FORMAT}; upgrade: {UPGRADE}")
    if not table.schema.equals(SCHEMA) or table["row"].to_pylist() != list(range(len(table))):
        raise UnderstudyError(f"{path} is damaged; restore it from a backup: labels belong to its rows")
    return table


def stamp_of_table(folder: Path) -> tuple[int, ...] | None:
    """What changes when a project's items do; None where there are none yet."""
    try:
        status = (folder / FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def features_path(folder: Path, n: int, version: str | None = None) -> Path:
    """The file of the features of n items; a `version` where the encoder was changed since the project was made."""
    return folder / FEATURES_FOLDER / f"features-{n}{'' if version is None else f'.{version}'}.npy"


def open_features(folder: Path, n: int, version: str | None = None) -> np.ndarray:
    """(n, d): the features of the first n items, memory-mapped."""
    path = features_path(folder, n, version)
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UnderstudyError(f"{path} is missing or damaged; restore it from a backup") from error
    if found.ndim != 2 or len(found) != n:
        raise UnderstudyError(f"{path} has shape {found.shape} for {n:,} items; restore it from a backup")
    return found


def append_items(folder: Path, before: Any | None, added: Any, features: np.ndarray, version: str | None = None) -> Any:
    """Add rows to a project's items and return the new table.

    The features of all items are written first; once the table is there, the new items are part of the project.
    """
    n_before = 0 if before is None else len(before)
    old = None if before is None else open_features(folder, n_before, version)
    if old is not None and old.shape[1] != features.shape[1]:
        raise UnderstudyError(f"new features have {features.shape[1]} columns, the project's {old.shape[1]}")
    table = added if before is None else pa.concat_tables([before, added])
    rows = pa.array(range(len(table)), pa.int64())
    table = table.set_column(0, SCHEMA.field("row"), rows).replace_schema_metadata(SCHEMA.metadata)
    path = features_path(folder, len(table), version)
    _write_features(path, [*([] if old is None else [old]), features], (len(table), features.shape[1]))
    with atomic_file(folder / FILE) as file:
        pq.write_table(table, file)
    # Who has just read the table before may be about to open the features that belong to it.
    remove_other_features(folder, path, features_path(folder, n_before, version))
    return table


def write_features(folder: Path, features: np.ndarray, version: str) -> Path:
    """Write features of all items beside those in use; they are used once the project names this version."""
    path = features_path(folder, len(features), version)
    _write_features(path, [features], (len(features), features.shape[1]))
    return path


def _write_features(path: Path, arrays: Sequence[np.ndarray], shape: tuple[int, int]) -> None:
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(".features.draft")  # always this name: what a kill leaves is overwritten
    write_array(draft, _blocks(arrays), shape)
    replace_durably(draft, path)


def _blocks(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for array in arrays:
        for start in range(0, len(array), ROWS_PER_BLOCK):
            yield array[start : start + ROWS_PER_BLOCK]


def remove_other_features(folder: Path, *kept: Path) -> None:
    """Delete the features of fewer items or of another encoder. Whoever has them mapped keeps them."""
    for path in (folder / FEATURES_FOLDER).glob("features-*.npy"):
        if path not in kept:
            with suppress(OSError):
                path.unlink()


def make_rows(
    pool: Pool, base: Path | None, ids: Sequence[str], marks: Mapping[str, Sequence[Any]], with_labels: bool
) -> Any:
    """A pool's items as rows of the table. `marks` are the digest, size and mtime_ns of each, where they are known."""
    nothing = [None] * len(pool)
    items = pool.items
    texts: Sequence[str | None] = nothing
    if isinstance(items, Texts):
        texts = [replace_unwritable(text) for text in items.texts]
    elif items is None:
        texts = [replace_unwritable(name) for name in pool.ids]  # there is nothing else to show
    paths = _relative_paths(items.paths, base) if isinstance(items, ImageFiles) else nothing
    labels = [pool.classes[label] if label >= 0 else None for label in labels_of(pool)] if with_labels else nothing
    columns = {"row": range(len(pool)), "id": ids, "path": paths, "text": texts, "label": labels, **marks}
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in SCHEMA}, schema=SCHEMA)


def replace_labels(folder: Path, table: Any, labels: Mapping[int, str]) -> Any:
    """Let these be the labels that the items came with, by row; the new table."""
    column = pa.array([labels.get(row) for row in range(len(table))], pa.string())
    changed = table.set_column(SCHEMA.get_field_index("label"), SCHEMA.field("label"), column)
    with atomic_file(folder / FILE) as file:
        pq.write_table(changed, file)
    return changed


def content_marks(pool: Pool) -> dict[str, list[Any]]:
    """The digests of items that are in memory. Files that came with features are not read: their marks are empty."""
    nothing: list[Any] = [None] * len(pool)
    return {"digest": _digests(pool.items) or nothing, "size": nothing, "mtime_ns": nothing}


def _digests(items: Items | None) -> list[str] | None:
    """Digests of items that are in memory; None for others."""
    if not isinstance(items, Texts | ArrayImages):
        return None
    return [digest_of(items.read(row)).hex() for row in range(len(items))]


def _relative_paths(paths: Sequence[Path], base: Path | None) -> list[bytes]:
    """Real paths: relative to the base where they lie in it, else absolute."""
    root = None if base is None else os.path.realpath(base)
    found = []
    for path in real_paths(paths):
        inside = root is not None and lies_in(path, root)
        found.append(os.fsencode(os.path.relpath(path, root) if inside else path))
    return found


def match_items(table: Any, pool: Pool) -> tuple[dict[int, int], list[int]]:
    """The row of the source that each known item has now, and the rows of the source that are new.

    An item is known by its name. Where names only number the lines of a file or the rows of an array, it is known by
    its content: a line put in at the top moves all names and no item.
    """
    ids = table["id"].to_pylist()
    known: dict[int, int] = {}
    contents = _digests(pool.items) if _names_are_numbers(pool) else None
    if contents is None:
        rows = {name: row for row, name in enumerate(ids)}
        names = [replace_unwritable(name) for name in pool.ids]
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


def _names_are_numbers(pool: Pool) -> bool:
    """Whether the names of items say no more than which line or row they are."""
    names = getattr(pool.items, "names", None)
    if isinstance(pool.items, Texts) and names is not None:
        return tuple(names) == pool.ids
    return all(name == f"row {row}" for row, name in enumerate(pool.ids))


def number_taken_names(wanted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The names, with a number after each that is taken already."""
    used, found = set(taken), []
    for name in map(replace_unwritable, wanted):
        free, number = name, 1
        while free in used:
            number += 1
            free = f"{name} ({number})"
        used.add(free)
        found.append(free)
    return found


def make_pool(
    table: Any, features: np.ndarray, classes: tuple[str, ...], base: Path | None, source: Pool | None
) -> Pool:
    """The pool of a project. `base` and `source` are the folder and the pool of its data now, if it is there."""
    ids = tuple(table["id"].to_pylist())
    known = {} if source is None else match_items(table, source)[0]
    return Pool(ids, items=_raw_items(table, ids, base, source, known), features=features, classes=classes)


def _raw_items(
    table: Any, ids: tuple[str, ...], base: Path | None, source: Pool | None, known: Mapping[int, int]
) -> Items:
    """Texts as they were when they were embedded, files where they are now, and images read from the source."""
    texts, paths = table["text"].to_pylist(), table["path"].to_pylist()
    items = None if source is None else source.items
    if None not in texts:
        return Texts(texts, ids)
    if None in paths:
        if isinstance(items, ArrayImages) and len(known) == len(ids):
            return _take_rows(items, [known[row] for row in range(len(ids))])
        return PinnedSourceImages(items, known, ids, table["digest"].to_pylist())
    root = Path() if base is None else Path(os.path.realpath(base))
    now: dict[int, str] = {}
    if isinstance(items, ImageFiles):
        # Where the source lists a file now, in case it has moved.
        now = dict(zip(known, real_paths(items.paths[place] for place in known.values()), strict=True))
    kept = [Path(now[row]) if row in now else root / os.fsdecode(path) for row, path in enumerate(paths)]
    return PinnedImageFiles(kept, ids)


def _take_rows(items: ArrayImages, rows: list[int]) -> ArrayImages:
    """These rows of an array; the array itself, uncopied, where they are all of it: it may be large."""
    return items if rows == list(range(len(items))) else items.take(rows)
