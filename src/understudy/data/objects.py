"""Pools from objects in memory: arrays, tensors, frames and sparse matrices, with labels and identities beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.data import arrays, columns, hub, torch_datasets
from understudy.data.arrays import rows_not_finite
from understudy.data.items import ArrayImages, Texts
from understudy.data.manifests import from_table
from understudy.data.pool import Dataset, Pool
from understudy.data.tables import Table
from understudy.errors import UnderstudyError, UsageError
from understudy.frames import (
    as_numbers,
    cells_of,
    column_names,
    count_rows,
    is_frame,
    is_sparse,
    is_tensor,
    row_names,
    take_rows,
    texts_in,
    without_columns,
)

NO_ROWS: Final = "the pool has no rows; pass one with an item in each row"


def is_in_memory(source: Any) -> bool:
    """Whether `from_object` takes this."""
    return (
        isinstance(source, np.ndarray)
        or is_tensor(source)
        or is_frame(source)
        or is_sparse(source)
        or torch_datasets.is_torch_dataset(source)
        or texts_in(source) is not None
    )


def from_object(
    source: Any,
    labels: Any = None,
    ids: Any = None,
    classes: Sequence[str] | None = None,
    named: Mapping[str, str] | None = None,
) -> Dataset:
    """The pool in an object in memory, less the rows that cannot be used."""
    if torch_datasets.is_torch_dataset(source):
        found = torch_datasets.read(source)
        if found.texts is not None:
            return from_table(found.as_table(labels, ids), "texts", Path(), classes or found.classes)
        labels = found.labels if labels is None else labels
        return _from_rows(found.values, labels, ids, classes or found.classes)
    if (texts := texts_in(source)) is not None:
        names = ids if ids is not None else row_names(source)
        table = torch_datasets.TorchItems(None, tuple(texts), None, None).as_table(labels, names)
        return from_table(table, "texts", Path(), classes)
    if not is_frame(source):
        return _from_rows(source, labels, ids, classes)
    roles = _roles_of(source, named or {})
    given = {role: cells_of(source, column) for role, column in roles.items()}
    given |= {role: _as_list(role, values) for role, values in (("label", labels), ("id", ids)) if values is not None}
    if "text" in given or "path" in given:
        names = row_names(source) or [f"row {row}" for row in range(len(source))]
        return from_table(Table(given, list(names)), "frame", Path(), classes)
    rows = without_columns(source, list(roles.values()))
    return _from_rows(rows, given.get("label"), given.get("id") or row_names(source), classes)


def _roles_of(frame: Any, named: Mapping[str, str]) -> dict[str, str]:
    """Which columns of a frame are not features, by what they hold."""
    there = column_names(frame)
    for role, column in named.items():
        if role not in columns.USUAL_NAMES or column not in there:
            columns.choose_columns(there, named, "the frame")  # says what is wrong
    usual = {role: named.get(role) or columns.usual_column(role, there) for role in columns.USUAL_NAMES}
    found = {role: column for role, column in usual.items() if column}
    for role in ("path", "text"):  # a column of numbers may well be called content
        if role in found and role not in named and not any(isinstance(c, str) for c in cells_of(frame, found[role])):
            del found[role]
    if "path" in found or "text" in found:
        return columns.choose_columns(there, named, "the frame")
    return {role: column for role, column in found.items() if role in ("label", "id")}


def _from_rows(values: Any, labels: Any, ids: Any, classes: Sequence[str] | None) -> Dataset:
    given: dict[str, np.ndarray] = {"X": as_numbers(values)}
    if labels is not None:
        given["y"] = _label_array(_as_list("labels", labels))
    if ids is not None:
        given["ids"] = np.array([str(name) for name in _as_list("ids", ids)])
    found = arrays.from_arrays(given, "array", classes)
    if not is_frame(values) and not is_sparse(values):
        return found
    if len(found.pool) < count_rows(values):
        everyone = given["ids"].tolist() if "ids" in given else [f"row {row}" for row in range(count_rows(values))]
        place = {name: row for row, name in enumerate(everyone)}
        values = take_rows(values, np.array([place[name] for name in found.pool.ids], dtype=np.int64))
    return replace(found, pool=replace(found.pool, inputs=values))


def _as_list(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise UsageError(f"{name} must be a list, an array or a series, one value an item; got {values!r}")
    return [value.item() if hasattr(value, "item") and not getattr(value, "shape", ()) else value for value in values]


def _label_array(labels: list[Any]) -> np.ndarray:
    """Labels as an array of numbers, or of names with "" where there is none."""
    known = [None if value is None or value != value or type(value).__name__ == "NAType" else value for value in labels]
    if any(isinstance(value, str) for value in known):
        return np.array(["" if value is None else str(value) for value in known])
    return np.array([np.nan if value is None else value for value in known])


def pool_of(source: Any, features: Any = None) -> Pool:
    """The pool in an object in memory as it is: row i stays row i, whatever is in it.

    `features` is what strategies see, where that is not what the learner is given. Without it, and where the rows
    cannot be written as finite numbers, the pool has none.
    """
    if isinstance(source, Dataset | Pool):
        pool = source.pool if isinstance(source, Dataset) else source
        return pool if features is None else replace(pool, features=as_numbers(features), inputs=pool.features)
    if hub.is_of_datasets(source) or torch_datasets.is_torch_dataset(source):
        found = (hub.from_datasets(source) if hub.is_of_datasets(source) else from_object(source)).pool
        return found if features is None else replace(found, features=as_numbers(features))
    if is_frame(source) or is_sparse(source):
        n, inputs = count_rows(source), source.tocsr() if is_sparse(source) else source
        if not n:
            raise UsageError(NO_ROWS)
        ids = row_names(source) if is_frame(source) else None
        table = as_numbers(features) if features is not None else _numbers_or_none(inputs)
        return Pool(ids or _number_rows(n), features=table, inputs=inputs)
    if (texts := texts_in(source)) is not None:
        seen = None if features is None else as_numbers(features)
        ids = row_names(source) or _number_rows(len(texts))
        return Pool(ids, items=Texts(texts.tolist()), features=seen, inputs=texts)
    table = _rows_of(source)
    seen = None if features is None else as_numbers(features)
    if table.dtype == np.uint8 and table.ndim in (3, 4) and len(table):
        return Pool(_number_rows(len(table)), items=ArrayImages(table), features=seen)
    if table.ndim and not len(table):
        raise UsageError(NO_ROWS)
    if table.ndim != 2:
        raise UnderstudyError(
            f"pool must be a Pool, a frame or a 2-D array, one row per item; got {_describe_rows(table)}"
        )
    ids = _number_rows(len(table))
    if features is None and (numbers := _numbers_or_none(table)) is not None:
        return Pool(ids, features=numbers)
    return Pool(ids, features=seen, inputs=table)


def _describe_rows(table: np.ndarray) -> str:
    """Why an array is not a pool: of texts with gaps, the first gap; of others, the shape."""
    are_texts = [isinstance(value, str) for value in table] if table.ndim == 1 else []
    if any(are_texts):
        place = are_texts.index(False)
        return f"texts, of which the one at place {place} is {table[place]!r}; leave it out, or pass ''"
    way_out = "; reshape(len(X), -1) makes a row of each" if table.ndim else ""
    return f"shape {table.shape}{way_out}"


def _rows_of(source: Any) -> np.ndarray:
    """An array of anything, one row an item."""
    if isinstance(source, str | Path):
        raise UsageError(f"a loop takes what is in memory; pass load({str(source)!r})")
    if source is None or not (hasattr(source, "__len__") or hasattr(source, "__array__")) or isinstance(source, dict):
        raise UsageError(f"a pool cannot be made of a {type(source).__name__}; pass a Pool, an array or a frame")
    if torch_datasets.is_loader(source):
        raise UsageError("a DataLoader gives batches, and no item by its number; pass its data set, loader.dataset")
    if is_tensor(source):
        return as_numbers(source)
    try:
        return np.asanyarray(source)
    except (TypeError, ValueError) as error:
        raise UnderstudyError(f"pool cannot be converted to an array: {error}") from error


def finite_numbers(values: Any) -> np.ndarray:
    """Features as an array that any strategy can use; an error names the first row that is not finite."""
    table = as_numbers(values)
    if table.ndim == 2 and (problems := rows_not_finite(table)):
        row, problem = next(iter(problems.items()))
        raise UnderstudyError(
            f"row {row} is {problem}; fill it in (SimpleImputer of scikit-learn) or leave the row out"
        )
    return table


def _numbers_or_none(inputs: Any) -> np.ndarray | None:
    try:
        return finite_numbers(inputs)
    except UnderstudyError:  # strategies that need features say why there are none
        return None


def _number_rows(n: int) -> tuple[str, ...]:
    return tuple(map(str, range(n)))
