"""Frames, series, tensors and sparse matrices of other libraries as numpy arrays. None of them is imported here."""

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from understudy.errors import UnderstudyError
from understudy.messages import count_of, list_some

FRAMES: Final = (("pandas", "DataFrame"), ("polars", "DataFrame"))
SERIES: Final = (("pandas", "Series"), ("pandas", "Index"), ("polars", "Series"))
MAX_DENSE_BYTES: Final = 2**28  # of a sparse matrix written out as float32
SPARSE_REMEDY: Final = "reduce it with TruncatedSVD(100).fit_transform(X) of scikit-learn"


def is_frame(values: Any) -> bool:
    """Whether this is a table with named columns, of pandas or polars."""
    if _is_one_of(values, (("polars", "LazyFrame"),)):
        raise UnderstudyError("a LazyFrame has no rows yet; pass frame.collect()")
    return _is_one_of(values, FRAMES)


def is_series(values: Any) -> bool:
    return _is_one_of(values, SERIES)


def is_sparse(values: Any) -> bool:
    """Whether this is a sparse matrix or array of scipy."""
    return _is_one_of(values, (("scipy.sparse", "spmatrix"), ("scipy.sparse", "sparray")))


def is_tensor(values: Any) -> bool:
    return _is_one_of(values, (("torch", "Tensor"),))


def _is_one_of(values: Any, kinds: Sequence[tuple[str, str]]) -> bool:
    # Who holds an object of a library has imported it.
    return any(
        isinstance(values, found) for module, name in kinds if (found := getattr(sys.modules.get(module), name, None))
    )


def texts_in(values: Any) -> np.ndarray | None:
    """Strings in a list, a series or an array, as a flat array of Python strings; None where there is anything else."""
    if not isinstance(values, list | tuple | np.ndarray) and not is_series(values):
        return None
    if isinstance(values, np.ndarray) and (values.ndim != 1 or values.dtype.kind not in "OU"):
        return None
    if not len(values) or not all(isinstance(value, str) for value in values):
        return None
    texts = np.empty(len(values), dtype=object)
    texts[:] = [str(value) for value in values]
    return texts


def count_rows(values: Any) -> int:
    """The number of rows; `len` does not know that of a sparse matrix."""
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def take_rows(values: Any, rows: np.ndarray) -> Any:
    """These rows of an array, a frame or a sparse matrix, in this order."""
    if _is_one_of(values, (("pandas", "DataFrame"),)):
        return values.iloc[rows]
    return values.tocsr()[rows] if is_sparse(values) else values[rows]


def row_names(frame: Any) -> tuple[str, ...] | None:
    """The index of a pandas frame or series as names, if it tells rows apart and is not their mere number."""
    kinds = (("pandas", "DataFrame"), ("pandas", "Series"))
    if not _is_one_of(frame, kinds) or type(frame.index).__name__ == "RangeIndex":
        return None
    names = tuple(map(str, frame.index))
    return names if len(set(names)) == len(names) else None


def as_numbers(values: Any) -> np.ndarray:
    """Features as an array: the columns of a frame, which must be finite numbers, a tensor on any device, an array."""
    if is_frame(values):
        return _numbers_in(values)
    if is_sparse(values):
        return _dense(values)
    if texts_in(values) is not None:
        raise UnderstudyError(
            "features must be numbers, but these are texts; put TfidfVectorizer() before the classifier, in a pipeline"
        )
    if is_tensor(values):
        values = values.detach().cpu()
        return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()
    try:
        table = np.asanyarray(values)
    except (TypeError, ValueError) as error:
        raise UnderstudyError(f"features cannot be converted to an array: {error}") from error
    if table.dtype == object:
        table = _numbers_among(table)
    if table.dtype.kind not in "fiub":
        raise UnderstudyError(f"features must be numbers, got an array of type {table.dtype}; encode the items first")
    return table


def _numbers_among(table: np.ndarray) -> np.ndarray:
    """An array of Python numbers as one of numbers, and any other as it is: strings with digits stay strings."""
    try:
        numbers = np.array(table.tolist())
    except (TypeError, ValueError):
        return table
    return numbers if numbers.dtype.kind in "fiub" and numbers.shape == table.shape else table


def as_values(name: str, values: Any) -> np.ndarray:
    """One value an item as a flat array: of a series, a tensor, a list or a single value. None may be missing."""
    if is_tensor(values):
        values = values.detach().cpu().numpy()
    try:
        array = np.atleast_1d(np.asarray(values))
    except (TypeError, ValueError) as error:
        raise UnderstudyError(f"{name} cannot be converted to an array: {error}") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind == "f":  # whole numbers with gaps become floats
        missing = np.isnan(array)
    elif array.dtype == object:
        missing = np.array([_is_missing(value) for value in array.reshape(-1)], dtype=bool)
    else:
        return array
    if missing.any():
        place = int(np.flatnonzero(missing)[0])
        raise UnderstudyError(
            f"{name}: {count_of(int(missing.sum()), 'value')} of {len(array):,} missing, the first at place {place}; "
            "leave these rows out"
        )
    return array


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _numbers_in(frame: Any) -> np.ndarray:
    columns = _columns_of(frame)
    strange = [f"{name!r} ({kind})" for name, kind, values in columns if values is None]
    if strange:
        which = "1 column of the frame is" if len(strange) == 1 else f"{len(strange):,} columns of the frame are"
        raise UnderstudyError(
            f"features must be numbers, but {which} not: {list_some(strange)}; "
            "encode them (OneHotEncoder of scikit-learn) or leave them out"
        )
    if not columns:
        raise UnderstudyError("the frame has no columns; pass one with a column for each feature")
    for name, _, values in columns:
        if values is not None and values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
            gaps = count_of(int((~finite).sum()), "value")
            raise UnderstudyError(
                f"features must be finite, but column {name!r} has {gaps} missing or infinite, the first in row "
                f"{int(finite.argmin())}; fill them in (SimpleImputer of scikit-learn) or leave the rows out"
            )
    return np.column_stack([values for _, _, values in columns if values is not None])


def _columns_of(frame: Any) -> list[tuple[str, str, np.ndarray | None]]:
    """Name, type and values of each column; no values where they are not numbers. Missing ones are NaN."""
    if _is_one_of(frame, (("pandas", "DataFrame"),)):
        return [
            (str(name), str(kind), _pandas_numbers(frame.iloc[:, place].infer_objects()))
            for place, (name, kind) in enumerate(frame.dtypes.items())
        ]
    return [(column.name, str(column.dtype), _polars_numbers(column)) for column in frame.get_columns()]


def _pandas_numbers(column: Any) -> np.ndarray | None:
    if getattr(column.dtype, "kind", "O") not in "fiub":
        return None
    if isinstance(column.dtype, np.dtype) or not column.isna().any():
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _polars_numbers(column: Any) -> np.ndarray | None:
    if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
        return None
    is_plain = column.dtype.is_integer() or column.dtype.is_float()
    return np.asarray((column if is_plain else column.cast(float)).to_numpy())


def _dense(matrix: Any) -> np.ndarray:
    n_rows, n_columns = matrix.shape
    if 4 * n_rows * n_columns > MAX_DENSE_BYTES:
        raise UnderstudyError(
            f"a sparse matrix of {n_rows:,} x {n_columns:,} is too large to be written out as features; {SPARSE_REMEDY}"
        )
    return np.asarray(matrix.astype(np.float32).toarray())


def column_names(frame: Any) -> list[str]:
    return [str(name) for name in frame.columns]


def cells_of(frame: Any, column: str) -> list[Any]:
    """A column of a frame as Python values, None where one is missing."""
    cells = frame[column].to_list() if hasattr(frame[column], "to_list") else list(frame[column])
    return [None if _is_missing(cell) else cell for cell in cells]


def without_columns(frame: Any, columns: Sequence[str]) -> Any:
    """The frame without these columns, or itself if there are none of them."""
    if not columns:
        return frame
    return frame.drop(columns=columns) if _is_one_of(frame, (("pandas", "DataFrame"),)) else frame.drop(columns)
