"""Validation of arguments: each check returns the value in the form the core uses, or says what is wrong."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.core.blocks import ROWS_PER_BLOCK, block_slices
from understudy.core.features import as_array, as_tensor
from understudy.errors import UnderstudyError, UsageError
from understudy.frames import is_series

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
SUM_TOLERANCE = 1e-3  # half-precision softmax outputs are off by about half of it


def make_seed(random_state: Any) -> int:
    """The one seed from which all random numbers derive."""
    try:
        return int(np.random.default_rng(random_state).integers(2**63))
    except (TypeError, ValueError) as error:
        raise UnderstudyError(
            f"random_state must be a whole number of at least 0, a numpy Generator or None; got {random_state!r}"
        ) from error


def bytes_of(memory: Any) -> int:
    """A size in bytes, from a whole number of them or a text such as "8 GiB"."""
    if isinstance(memory, int) and not isinstance(memory, bool) and memory > 0:
        return memory
    found = (
        re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?B)\s*", memory, re.IGNORECASE)
        if isinstance(memory, str)
        else None
    )
    if found is None or float(found[1]) == 0:
        raise UsageError(f'memory must be a number of bytes or a text like "8 GiB"; got {memory!r}')
    return int(float(found[1]) * UNITS[found[2].upper()])


def in_gib(size: int) -> str:
    """A size as people read it."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def check_device(name: Any, needs_double: bool = False) -> torch.device:
    try:
        found = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise UsageError(f"{name!r} is not a device; use 'cpu' or 'cuda'") from error
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"device={name!r} but torch sees {torch.cuda.device_count()} GPUs here; use device='cpu'")
    if needs_double and found.type not in ("cpu", "cuda"):
        raise UsageError(f"device {name!r} does not support float64, which the engine needs; use 'cpu' or 'cuda'")
    return found


def _integers(name: str, values: Any) -> np.ndarray:
    """A flat int64 array; booleans and floats are refused, since they are usually mistakes."""
    if not isinstance(values, Tensor | np.ndarray | np.generic | int | Sequence) and not is_series(values):
        raise UnderstudyError(f"{name} must be a list, an array or one number; got {type(values).__name__}")
    array = as_array(name, values.cpu() if isinstance(values, Tensor) else values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind == "b":
        raise UnderstudyError(f"{name} must be integers; got booleans; use numpy.flatnonzero(mask) for a mask of rows")
    if array.dtype.kind in "OU" and name == "labels":
        raise UnderstudyError(
            f"labels must be integers, the places of classes in your list of them; got {array.flat[0]!r}; "
            "ActiveLoop(..., classes=[...]) takes names"
        )
    if array.dtype.kind not in "iu":
        raise UnderstudyError(f"{name} must be integers; got {array.dtype}; convert them with astype(int)")
    if array.ndim > 1:
        raise UnderstudyError(f"{name} must be one number or a flat list; got shape {array.shape}")
    if array.dtype == np.uint64:  # no row or class lies beyond int64, so clipping keeps invalid values invalid
        array = np.minimum(array, np.uint64(np.iinfo(np.int64).max))
    return array.reshape(-1).astype(np.int64)


def check_rows(name: str, values: Any, n: int) -> np.ndarray:
    rows = _integers(name, values)
    bad = rows[(rows < 0) | (rows >= n)]
    if len(bad):
        raise UnderstudyError(f"{name}: {bad[0]} is not a row of this pool; rows run from 0 to {n - 1}")
    unique, counts = np.unique(rows, return_counts=True)
    if len(unique) < len(rows):
        raise UnderstudyError(
            f"{name}: row {unique[counts > 1][0]} is given more than once; pass each row once (numpy.unique helps)"
        )
    return rows


def check_among(given: Any, n: int) -> np.ndarray:
    """A mask of the rows that are meant, by a mask of the pool or by their numbers."""
    mask = as_array("among", given.cpu() if isinstance(given, Tensor) else given)
    if mask.dtype == bool:
        if mask.shape != (n,):
            raise UnderstudyError(
                f"among: a mask must have one entry for each of the {n} rows of the pool; got shape {mask.shape}"
            )
        return mask
    found = np.zeros(n, dtype=bool)
    found[check_rows("among", given, n)] = True
    return found


def check_labels(rows: np.ndarray, values: Any, n_classes: int) -> np.ndarray:
    labels = _integers("labels", values)
    if len(labels) != len(rows):
        raise UnderstudyError(f"{len(rows)} rows but {len(labels)} labels; pass one label per row")
    bad = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(bad):
        raise UnderstudyError(
            f"label {labels[bad[0]]} of row {rows[bad[0]]} is not a class: there are {n_classes}, numbered from 0; "
            "call add_class() before telling labels of a new class"
        )
    return labels


def check_probabilities(values: Any, n: int, n_classes: int, dtype: torch.dtype, to: torch.device) -> Tensor:
    """Predictions as a new (n, c) tensor; the caller's array is never written to."""
    given = values.detach() if isinstance(values, Tensor) else as_array("probs", values)
    if isinstance(given, Tensor) and given.layout is not torch.strided:
        raise UnderstudyError(f"probs must be a dense tensor; got layout {given.layout}; call to_dense() on it")
    if given.ndim != 2 or tuple(given.shape) != (n, n_classes):
        raise UnderstudyError(
            f"probs must have one row for each of the {n} items and one column for each of the {n_classes} classes; "
            f"got shape {tuple(given.shape)}; predict for the whole pool, and call add_class() for a new class"
        )
    kind = str(given.dtype)
    if not ("float" in kind or "int" in kind):
        raise UnderstudyError(f"probs must be numbers; got {kind}; pass the learner's predicted probabilities")
    probs = torch.empty((n, n_classes), dtype=dtype, device=to)
    for some in block_slices(n, ROWS_PER_BLOCK[to.type]):
        probs[some] = as_tensor(given[some]).to(to, dtype)
    finite = torch.isfinite(probs).all(1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0])
        raise UnderstudyError(f"probs of row {row} are not finite; has the learner's training diverged?")
    least, where = probs.min(1).values.min(0)
    if float(least) < 0:
        raise UnderstudyError(f"probs of row {int(where)} contain {float(least):.4g}; pass probabilities, not logits")
    sums = probs.sum(1, dtype=torch.float64)
    off, where = (sums - 1).abs().max(0)
    if float(off) > SUM_TOLERANCE:
        raise UnderstudyError(
            f"probs of row {int(where)} sum to {float(sums[where]):.4g}, not to 1; apply a softmax or normalise them"
        )
    return probs


def check_basis(given: Any, n_columns: int, to: torch.device) -> Tensor:
    """User-supplied basis points, for a kernel over features alone."""
    try:
        U = torch.as_tensor(given if isinstance(given, Tensor) else np.array(given)).to(to, torch.float64)
    except (TypeError, ValueError) as error:
        raise UnderstudyError("basis must be an array U with one row of features per basis point") from error
    if U.ndim != 2 or len(U) == 0 or U.shape[1] != n_columns:
        raise UnderstudyError(f"basis must be an array U of shape (k, {n_columns}); got {tuple(U.shape)}")
    if not bool(torch.isfinite(U).all()):
        raise UnderstudyError("basis must be finite; it contains NaN or infinity")
    return U


def check_paired_basis(given: Any, n_columns: int, n_classes: int, to: torch.device) -> tuple[Tensor, Tensor]:
    """A user-supplied basis (U, V), for a kernel over features and predictions."""
    try:
        U, V = (
            torch.as_tensor(part if isinstance(part, Tensor) else np.array(part)).to(to, torch.float64)
            for part in given
        )
    except (TypeError, ValueError) as error:
        raise UnderstudyError(
            "basis must be a pair (U, V) of arrays: features and class probabilities of k points"
        ) from error
    if (
        U.ndim != 2
        or V.ndim != 2
        or len(U) != len(V)
        or len(U) == 0
        or U.shape[1] != n_columns
        or V.shape[1] != n_classes
    ):
        raise UnderstudyError(
            f"basis must be (U, V) with shapes (k, {n_columns}) and (k, {n_classes}); "
            f"got {tuple(U.shape)} and {tuple(V.shape)}"
        )
    if not bool(torch.isfinite(U).all() and torch.isfinite(V).all()):
        raise UnderstudyError("basis must be finite; it contains NaN or infinity")
    return U, V
