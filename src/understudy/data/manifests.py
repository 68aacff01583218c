"""Pools from a manifest: a CSV, JSONL or Parquet file with one item a row, its class and its split beside it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data import class_names, splits
from understudy.data.faults import Fault, list_faults
from understudy.data.items import ImageFiles, Items, StoredImages, Texts, make_printable
from understudy.data.pool import UNLABELLED, Dataset, Pool
from understudy.data.tables import Cells, Table, read_table
from understudy.errors import UnderstudyError

NO_NUMBER = str(UNLABELLED)  # how "no label" is written where classes are numbers


def load_manifest(
    path: Path, classes: Sequence[str] | None = None, columns: Mapping[str, str] | None = None
) -> Dataset:
    """The items a manifest lists. `columns` names those that hold "path" or "text", "label", "split" and "id"."""
    table = read_table(path, columns or {})
    return from_table(table, path.stem, path.parent, classes)


def from_table(table: Table, name: str, folder: Path, classes: Sequence[str] | None = None) -> Dataset:
    """Pool and test set in the rows of a table; paths are relative to the folder."""
    rows = _sort_rows(table, name, folder, classes)
    every = Pool(
        ids=tuple(rows.ids[row] for row in rows.kept),
        items=rows.items.take(rows.kept),
        labels=rows.numbers[rows.kept] if "label" in table.values else None,
        classes=rows.classes,
    )
    parts = rows.parts[rows.kept]
    pool, test = (every.take(np.flatnonzero(parts == part)) for part in ("pool", "test"))
    return Dataset(name, replace(pool, faults=rows.faults), test if len(test) else None)


def pool_rows(table: Table, name: str, folder: Path) -> dict[str, int]:
    """Which row of a table each item of its pool is, by identity."""
    rows = _sort_rows(table, name, folder, None)
    return {rows.ids[row]: row for row in rows.kept if rows.parts[row] == "pool"}


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a table: what they are, and which can be used."""

    items: Items
    ids: list[str]
    classes: tuple[str, ...]
    numbers: np.ndarray  # (n,): the class of each
    parts: np.ndarray  # (n,): "pool", "test" or ""
    kept: list[int]
    faults: tuple[Fault, ...]


def _sort_rows(table: Table, name: str, folder: Path, classes: Sequence[str] | None) -> _Rows:
    """What the rows of a table are, and which of them can be used."""
    faulty: dict[int, Fault] = {}
    items, ids = _items_of(table, folder, faulty)
    names = label_names(table, faulty)
    parts, note = _split_of(table, name, faulty)
    found = table.classes or class_names.sorted_classes(name for row, name in enumerate(names) if row not in faulty)
    known = tuple(classes) if classes is not None else found
    numbers, unknown = class_names.rows_of(names, known, table.names)
    faulty = unknown | faulty
    faulty |= _doubles(ids, table.names, faulty)
    faults = (*table.faults, *(faulty[row] for row in sorted(faulty)), *note)
    kept = [row for row in range(len(ids)) if row not in faulty and parts[row]]
    if "pool" not in parts[kept]:
        reason = f":{list_faults(faults)}" if faults else ", since it has no rows for the pool"
        raise UnderstudyError(f"nothing in {name} can be used{reason}")
    return _Rows(items, ids, known, numbers, parts, kept, faults)


def _items_of(table: Table, folder: Path, faulty: dict[int, Fault]) -> tuple[Items, list[str]]:
    """The raw items and their identities; rows without an item go to the faults."""
    given = table.values.get("id")
    ids = list(table.names) if given is None else [class_names.text_of(value) or "" for value in given]
    if given is not None:
        for row in [row for row, name in enumerate(ids) if not name]:
            faulty[row] = Fault(table.names[row], "no identity", "fill in its id")
    if "text" in table.values:
        texts = _strings(table.values["text"], "text", table.names, faulty)
        return Texts(texts, table.names), ids
    cells = table.values["path"]
    if isinstance(cells, Cells):
        return StoredImages(cells.__getitem__, table.names, folder=folder), ids
    written = _strings(cells, "path", table.names, faulty)
    names = [make_printable(path) for path in written]
    paths = [folder / path for path in written]
    _check_files(paths, table.names, names, faulty)
    return ImageFiles(paths, names), names if given is None else ids


def _strings(values: Sequence[Any], what: str, names: Sequence[str], faulty: dict[int, Fault]) -> list[str]:
    """The column as strings; what is empty or no string goes to the faults."""
    for row, value in enumerate(values):
        if not isinstance(value, str):
            kind = "empty" if value is None else f"a {type(value).__name__}, not a string"
            faulty.setdefault(row, Fault(names[row], f"the {what} is {kind}", "fill it in or remove the row"))
        elif not value.strip():
            faulty.setdefault(row, Fault(names[row], f"the {what} is empty", "fill it in or remove the row"))
    return [value if isinstance(value, str) else "" for value in values]


def _check_files(paths: Sequence[Path], lines: Sequence[str], names: Sequence[str], faulty: dict[int, Fault]) -> None:
    """Files that are missing or listed before go to the faults. Folders are listed once: no look-up a file."""
    folders: dict[str, set[str]] = {}
    seen: dict[str, int] = {}
    for row, path in enumerate(map(os.path.normpath, paths)):
        if row in faulty:
            continue
        first = seen.setdefault(path, row)
        folder, file = os.path.split(path)
        if folder not in folders:
            folders[folder] = _files_in(folder)
        if first != row:
            problem = f"{names[row]} is in {lines[first]} already"
            faulty[row] = Fault(lines[row], problem, "remove one of the two; the first is used")
        elif file not in folders[folder] and (problem := _missing(paths[row], names[row])):
            faulty[row] = Fault(lines[row], problem, "put it there (paths start at the manifest) or remove the row")


def _missing(path: Path, name: str) -> str:
    """What is wrong if there is no such file. It may be there: on some systems names may differ in case."""
    try:
        return "" if path.exists() else f"there is no file {name}"
    except OSError as error:  # a name that is too long, a folder that may not be entered
        return f"{name} cannot be looked up ({error.strerror})"


def _files_in(folder: str) -> set[str]:
    try:
        with os.scandir(folder or ".") as entries:
            return {entry.name for entry in entries}
    except (OSError, ValueError):
        return set()


def _doubles(ids: Sequence[str], names: Sequence[str], faulty: Mapping[int, Fault]) -> dict[int, Fault]:
    """The faults of rows whose identity an earlier usable row has."""
    seen: dict[str, int] = {}
    found: dict[int, Fault] = {}
    for row, identity in enumerate(ids):
        if row not in faulty and seen.setdefault(identity, row) != row:
            problem = f"its identity {identity!r} is that of {names[seen[identity]]} already"
            found[row] = Fault(names[row], problem, "give each item its own")
    return found


def label_names(table: Table, faulty: dict[int, Fault]) -> list[str]:
    """The name of each row's class, "" where it has none."""
    values = table.values.get("label")
    if values is None:
        return [""] * len(table.names)
    names = [class_names.text_of(value) for value in values]
    for row in [row for row, name in enumerate(names) if name is None]:
        problem = f"the label is a {type(values[row]).__name__}"
        faulty.setdefault(row, Fault(table.names[row], problem, "give the name or the number of a class"))
    if table.classes is None:
        numbered = all(name == NO_NUMBER or name.isdigit() for name in names if name)
        return ["" if name is None or (numbered and name == NO_NUMBER) else name for name in names]
    known = {str(number): name for number, name in enumerate(table.classes)} | {NO_NUMBER: ""}
    return [known.get(name or "", name or "") for name in names]


def _split_of(table: Table, name: str, faulty: dict[int, Fault]) -> tuple[np.ndarray, tuple[Fault, ...]]:
    """(n,): "pool" or "test" for each row, "" for those that stay out; and a note on the latter."""
    values = table.values.get("split")
    if values is None:
        return np.full(len(table.names), "pool"), ()
    given = ["" if value is None else str(value) for value in values]
    parts = [splits.part_of(value) for value in given]
    for row in [row for row, part in enumerate(parts) if part is None]:
        faulty.setdefault(row, splits.fault_of_split(table.names[row], given[row]))
    tested = splits.part_to_test(parts)
    place: dict[splits.Part | None, str] = {"pool": "pool", tested: "test"}
    aside = parts.count("validation") if tested == "test" else 0
    note = (splits.note_unused_validation(name, aside),) if aside else ()
    return np.array([place.get(part, "") for part in parts], dtype="<U4"), note
