"""Pools from arrays: `.npy`, `.npz` and `.safetensors` files, mapped rather than read when they are large.

Features keep the type they are stored in, half precision included; whoever computes with them casts to float32,
block by block. Nothing is ever unpickled.
"""

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np
from numpy.lib import format as npy
from safetensors import SafetensorError, safe_open

from understudy.data import class_names
from understudy.data.faults import Fault
from understudy.data.items import ArrayImages, make_printable
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import reason_of

SUFFIXES: Final = (".npy", ".npz", ".safetensors")
MAX_BYTES_READ: Final = 2**26  # an array above this is mapped
BYTES_PER_BLOCK: Final = 2**24  # of features that are checked at a time

# The names an array may have in its file, by what it is.
KEYS: Final = {
    "features": ("X", "features"),
    "labels": ("y", "labels"),
    "test features": ("Xt", "test_features"),
    "test labels": ("yt", "test_labels"),
    "identities": ("ids",),
    "classes": ("classes",),
}
SAFE_TYPES: Final = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "I16": "<i2", "U16": "<u2",
    "I32": "<i4", "U32": "<u4", "I64": "<i8", "U64": "<u8",
}  # fmt: skip


def load_arrays(path: Path, classes: Sequence[str] | None = None, *, max_bytes_read: int = MAX_BYTES_READ) -> Dataset:
    """The pool in an array file, and the test set if the file has one. Rows that are not finite are its faults.

    An array of more than `max_bytes_read` is mapped, not read.
    """
    readers: dict[str, Callable[[Path, int], Mapping[str, np.ndarray]]] = {
        ".npy": _read_npy, ".npz": _read_npz, ".safetensors": _read_safetensors
    }  # fmt: skip
    try:
        found = readers[path.suffix.lower()](path, max_bytes_read)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, SafetensorError, ValueError) as error:
        if isinstance(error, UnderstudyError):
            raise
        reason = reason_of(error)
        raise UnderstudyError(
            f"{path}: broken, truncated or not a {path.suffix} file ({reason}); write it again"
        ) from error
    return from_arrays(found, path.stem, classes)


def from_arrays(arrays: Mapping[str, np.ndarray], name: str, classes: Sequence[str] | None = None) -> Dataset:
    """The pool in arrays that are named as in a file."""
    parts = _by_role(arrays, name)
    own = [make_printable(str(class_)) for class_ in parts["classes"].tolist()] if "classes" in parts else None
    columns: dict[str, np.ndarray] = {
        role: _label_column(parts[role], role) for role in ("labels", "test labels") if role in parts
    }
    named, known = _name_labels(columns, own, classes)
    pool = _one_pool(parts["features"], parts.get("identities"), named.get("labels"), known, "row")
    if "test features" not in parts:
        return Dataset(name, pool)
    test = _one_pool(parts["test features"], None, named.get("test labels"), known, "test row")
    if pool.features is not None and test.features is not None and pool.features.shape[1] != test.features.shape[1]:
        raise UnderstudyError(
            f"{name}: the pool has {pool.features.shape[1]} columns, the test set {test.features.shape[1]}; "
            "use the same encoder for both"
        )
    return Dataset(name, pool, test)


def _by_role(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    there = ", ".join(arrays) or "none"
    parts: dict[str, np.ndarray] = {}
    for role, keys in KEYS.items():
        present = [key for key in keys if key in arrays]
        if len(present) > 1:
            raise UnderstudyError(f"{name} has both {' and '.join(present)}; keep one of them as its {role}")
        if present:
            parts[role] = arrays[present[0]]
    lone = _lone_array(list(arrays))
    if lone is not None:
        parts["features"] = arrays[lone]
    if "features" not in parts:
        raise UnderstudyError(f"{name} has no array X or features; it has {there}: name one of them X")
    if "test labels" in parts and "test features" not in parts:
        raise UnderstudyError(f"{name} has labels but no features of a test set (Xt); it has {there}")
    return parts


def _lone_array(names: Sequence[str]) -> str | None:
    """The one array that has a name of its own, where none is called features: it can be nothing else."""
    known = {key for keys in KEYS.values() for key in keys}
    others = [name for name in names if name not in known]
    return others[0] if len(others) == 1 and not set(KEYS["features"]) & set(names) else None


def _one_pool(
    values: np.ndarray, given_ids: np.ndarray | None, names: Sequence[str] | None, classes: tuple[str, ...], unit: str
) -> Pool:
    """A pool of features, or of images where the array holds those, less the rows that cannot be used."""
    if values.ndim == 0 or len(values) == 0:
        raise UnderstudyError(f"the array of features has no rows (shape {values.shape}); write it again with some")
    n = len(values)
    ids = tuple(f"{unit} {row}" for row in range(n)) if given_ids is None else _check_ids(given_ids, n)
    if names is not None and len(names) != n:
        raise UnderstudyError(f"{n:,} rows of features but {len(names):,} labels; give one label a row, -1 for none")
    rows, faulty = (None, {}) if names is None else class_names.rows_of(names, classes, ids)
    if values.dtype == np.uint8 and values.ndim in (3, 4):
        grey = values[..., 0] if values.ndim == 4 and values.shape[3] == 1 else values
        return Pool(ids, items=ArrayImages(grey), labels=rows, classes=classes).without(faulty)
    _check_features(values)
    for row, problem in rows_not_finite(values).items():
        faulty.setdefault(row, Fault(ids[row], problem, "mend its features or leave it out"))
    return Pool(ids, features=values, labels=rows, classes=classes).without(dict(sorted(faulty.items())))


def _check_features(values: np.ndarray) -> None:
    if values.dtype.kind not in "fiub":
        raise UnderstudyError(f"features must be numbers, got an array of type {values.dtype}; encode the items first")
    if values.ndim != 2 or values.shape[1] == 0:
        raise UnderstudyError(
            f"features must have two axes, items and columns (images: uint8 with three or four axes); "
            f"got {values.dtype} of shape {values.shape}"
        )


def rows_not_finite(features: np.ndarray) -> dict[int, str]:
    """What is wrong with rows that are not all finite in float32, read a block at a time."""
    found: dict[int, str] = {}
    if features.dtype.kind != "f":
        return found
    size = max(1, BYTES_PER_BLOCK // (features.shape[1] * features.dtype.itemsize))
    for first in range(0, len(features), size):
        with np.errstate(over="ignore"):
            finite = np.isfinite(features[first : first + size].astype(np.float32))
        for row in np.flatnonzero(~finite.all(1)):
            column = int(np.argmin(finite[row]))
            found[first + int(row)] = f"not finite in float32: column {column} is {features[first + row, column]}"
    return found


def _check_ids(given: np.ndarray, n: int) -> tuple[str, ...]:
    if given.shape != (n,):
        raise UnderstudyError(f"{n:,} rows of features but identities of shape {given.shape}; give one a row")
    return tuple(_texts_of(given) if given.dtype.kind in "US" else map(str, given.tolist()))


def _label_column(values: np.ndarray, role: str) -> np.ndarray:
    """A column of labels as int64 or as strings."""
    column = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if column.ndim != 1:
        raise UnderstudyError(f"{role} must be one value a row; got shape {values.shape} (argmax makes one of one-hot)")
    if column.dtype.kind in "US":
        return column
    if column.dtype.kind not in "fiub":
        raise UnderstudyError(f"{role} must be whole numbers or strings; got {column.dtype}")
    return class_names.whole_numbers(column, role)


def _name_labels(
    columns: Mapping[str, np.ndarray], own: Sequence[str] | None, known: Sequence[str] | None
) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Every label by the name of its class, and the classes: the caller's, else the file's, else what is found."""
    numbers = [column for column in columns.values() if column.dtype.kind == "i"]
    numbering = own or known or class_names.number_classes(*numbers)
    named = {
        role: class_names.names_of(column, numbering) if column.dtype.kind == "i" else _texts_of(column)
        for role, column in columns.items()
    }
    if known or own:
        return named, tuple(known or own or ())
    found = class_names.sorted_classes(name for names in named.values() for name in names)
    return named, tuple(numbering) if len(numbers) == len(columns) else found


def _texts_of(values: np.ndarray) -> list[str]:
    texts = np.char.decode(values, "utf-8", "replace") if values.dtype.kind == "S" else values
    return [make_printable(text.strip()) for text in texts.tolist()]


def _read_npy(path: Path, max_bytes_read: int) -> dict[str, np.ndarray]:
    size = path.stat().st_size
    with path.open("rb") as stream:
        return {"X": _array_at(stream, path.name, size, path if size > max_bytes_read else None)}


def _read_npz(path: Path, max_bytes_read: int) -> dict[str, np.ndarray]:
    """The arrays that mean something to us; others are named but not read."""
    known = {key for keys in KEYS.values() for key in keys}
    found: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as stream:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if (lone := _lone_array(list(members))) is not None:
            known = known | {lone}
        if not known & set(members):
            raise UnderstudyError(f"{path.name} has no array X or features; it has {', '.join(members) or 'none'}")
        for key in [key for key in members if key in known]:
            info = members[key]
            is_plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
            if is_plain and info.file_size > max_bytes_read:
                stream.seek(_data_offset(stream, info))
                found[key] = _array_at(stream, key, info.file_size, path)
            else:
                with cast(BufferedIOBase, archive.open(info)) as member:
                    found[key] = _array_at(member, key, info.file_size, None)
    return found


def _data_offset(stream: BufferedIOBase, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin; its own header says, since its length may differ from the directory's."""
    stream.seek(info.header_offset + 26)
    name, extra = stream.read(2), stream.read(2)
    return info.header_offset + 30 + int.from_bytes(name, "little") + int.from_bytes(extra, "little")


def _array_at(stream: BufferedIOBase, name: str, size: int, mapped: Path | None) -> np.ndarray:
    """The array in numpy's format that begins here, read or, where a path is given, mapped from it."""
    version = npy.read_magic(stream)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran_order, dtype = header(stream)
    if dtype.hasobject:
        raise UnderstudyError(f"{name} holds Python objects, which are never unpickled; save numbers or strings")
    if mapped is not None:
        order: Literal["C", "F"] = "F" if fortran_order else "C"
        return np.memmap(mapped, dtype, "r", stream.tell(), shape, order)
    count = int(np.prod(shape, dtype=object))
    if count * dtype.itemsize > size:
        raise ValueError(f"{name} should have {count * dtype.itemsize:,} bytes and has {size:,}")
    content = bytearray(count * dtype.itemsize)
    space = memoryview(content)
    while space and (got := stream.readinto(space)):
        space = space[got:]
    if space:
        raise ValueError(f"{name} ends {len(space):,} bytes early")
    stream.read(1)  # a zip compares its checksum when it meets the end
    values = np.frombuffer(content, dtype)
    return values.reshape(shape[::-1]).T if fortran_order else values.reshape(shape)


def _read_safetensors(path: Path, max_bytes_read: int) -> dict[str, np.ndarray]:
    with safe_open(path, framework="numpy") as checked:  # it looks over the header, sizes and all
        keys = list(checked.keys())
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header: dict[str, Any] = json.loads(stream.read(length))
    found: dict[str, np.ndarray] = {}
    for key in keys:
        entry = header[key]
        if entry["dtype"] not in SAFE_TYPES:
            raise UnderstudyError(
                f"{key} holds {entry['dtype']}, which numpy does not know; save it as float16 or float32"
            )
        first, last = entry["data_offsets"]
        dtype, shape = np.dtype(SAFE_TYPES[entry["dtype"]]), tuple(entry["shape"])
        if last - first > max_bytes_read:
            found[key] = np.memmap(path, dtype, "r", 8 + length + first, shape)
        else:
            content = np.fromfile(path, np.uint8, last - first, offset=8 + length + first)
            found[key] = content.view(dtype).reshape(shape)
    return found
