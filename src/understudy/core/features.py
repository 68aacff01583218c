"""Reading a pool's features a block at a time, so that no copy of them is ever made."""

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from understudy.core.blocks import ROWS_PER_BLOCK, block_slices, rows_that_fit
from understudy.errors import UnderstudyError
from understudy.frames import as_numbers, is_frame, is_sparse

BYTES_PER_BLOCK = {"cpu": 2**22, "cuda": 2**29}
Found = TypeVar("Found")
OnRead = Callable[[int], None]  # gets how many rows have just been read


class Features:
    """The (n, d) features of a pool, as the caller holds them: an array, a memory map or a tensor.

    Only a reference is kept; of a frame or a sparse matrix, a copy as an array. Half precision and integers are cast
    block by block, because sums of them overflow.

    What is computed from all of them goes through `each_part` and `spread_out`, so that features that lie elsewhere
    are worked on there.
    """

    def __init__(self, *parts: Any) -> None:
        self.parts = [_check_part(part) for part in parts]
        self.n_columns = int(self.parts[0].shape[1])
        self._digest: str | None = None
        self._on_read: OnRead | None = None

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def with_rows(self, part: Any) -> "Features":
        part = _check_part(part)
        if part.shape[1] != self.n_columns:
            raise UnderstudyError(
                f"the new features have {part.shape[1]} columns, the pool has {self.n_columns}; "
                "use the encoder the pool was made with"
            )
        return Features(*self.parts, part)

    def between(self, start: int, stop: int) -> "Features":
        """The same features of some consecutive rows; nothing is copied."""
        if (start, stop) == (0, len(self)):
            return self
        parts, first = [], 0
        for part in self.parts:
            here = slice(max(0, start - first), max(0, stop - first))
            if here.start < min(here.stop, len(part)):
                parts.append(part[here])
            first += len(part)
        some = Features(*parts)
        some._on_read = self._on_read
        return some

    def watched(self, on_read: OnRead) -> "Features":
        """The same features, which say of every read how many rows it was. Reads that happen elsewhere say nothing."""
        same = copy.copy(self)
        same._on_read = on_read
        return same

    def on(self, device: torch.device) -> "Features":
        """The same features on a GPU, copied there once; on the CPU nothing is copied."""
        if device.type == "cpu":
            return self
        moved = Features.__new__(Features)
        moved.parts = [as_tensor(part).to(device) for part in self.parts]
        moved.n_columns, moved._digest, moved._on_read = self.n_columns, self._digest, self._on_read
        return moved

    def rows_per_block(self, dtype: torch.dtype, device: torch.device) -> int:
        fitting = rows_that_fit(BYTES_PER_BLOCK[device.type], self.n_columns * dtype.itemsize)
        return min(ROWS_PER_BLOCK[device.type], fitting)

    def blocks(self, dtype: torch.dtype, device: torch.device) -> Iterator[tuple[int, Tensor]]:
        """The features in order, as (first row, block) pairs; a block is a few megabytes."""
        size = self.rows_per_block(dtype, device)
        first = 0
        for part in self.parts:
            for some in block_slices(len(part), size):
                yield first + some.start, as_tensor(part[some]).to(device, dtype)
                self._note_read(some.stop - some.start)
            first += len(part)

    def take(self, rows: np.ndarray, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The features of some rows, in the order given."""
        out = torch.empty((len(rows), self.n_columns), dtype=dtype, device=device)
        first = 0
        for part in self.parts:
            inside = (rows >= first) & (rows < first + len(part))
            if inside.any():
                index: Any = rows[inside] - first
                if isinstance(part, Tensor):
                    index = torch.from_numpy(index).to(part.device)
                where = torch.from_numpy(np.flatnonzero(inside)).to(device)
                out[where] = as_tensor(part[index]).to(device, dtype)
            first += len(part)
        self._note_read(len(rows))
        return out

    def _note_read(self, n_rows: int) -> None:
        if self._on_read is not None:
            self._on_read(n_rows)

    def each_part(self, function: Callable[..., Found], *arguments: Any) -> list[tuple[int, Found]]:
        """`function(features, *arguments)` of every part that lies in a place of its own, with the part's first row.

        Here that is one. A function must be one that a module has, since it may be called on another machine.
        """
        return [(0, function(self, *arguments))]

    def spread_out(self, function: Callable[..., Found], tasks: Iterable[Any], *arguments: Any) -> Iterator[Found]:
        """`function(features, task, *arguments)` of each task, in their order, each with all features at hand."""
        return (function(self, task, *arguments) for task in tasks)

    def require_finite(self) -> None:
        for first, found in self.each_part(_find_not_finite):
            if found is not None:
                row, column, value = found
                raise UnderstudyError(
                    f"features must be finite numbers within float32's range, but row {first + row}, column {column} "
                    f"is {value}; fix or remove such items"
                )

    def digest(self) -> str:
        """A hash of the values, independent of their dtype; computed once, then cached."""
        if self._digest is None:
            state = hashlib.blake2b(f"{len(self)}x{self.n_columns}".encode(), digest_size=16)
            for _, block in self.blocks(torch.float32, torch.device("cpu")):
                state.update(block.contiguous().numpy().tobytes())
            self._digest = state.hexdigest()
        return self._digest


def _find_not_finite(features: Features) -> tuple[int, int, float] | None:
    for first, block in features.blocks(torch.float32, torch.device("cpu")):
        bad = ~torch.isfinite(block)
        if bool(bad.any()):
            row, column = (int(i) for i in bad.nonzero()[0])
            return first + row, column, float(block[row, column])
    return None


def _check_part(part: Any) -> Any:
    if not isinstance(part, Tensor):
        part = as_numbers(part) if is_frame(part) or is_sparse(part) else as_array("features", part)
        if part.dtype.kind not in "fiub":
            raise UnderstudyError(
                f"features must be numbers; got an array of type {part.dtype}; encode the items first"
            )
    elif part.is_complex() or part.layout is not torch.strided:
        raise UnderstudyError(f"features must be a dense real tensor; got {part.dtype} with layout {part.layout}")
    if part.ndim != 2 or 0 in part.shape:
        raise UnderstudyError(
            f"features must be a 2-D array with one row per item and at least one column; got shape {tuple(part.shape)}"
        )
    return part


def as_array(name: str, values: Any) -> np.ndarray:
    try:
        return np.asanyarray(values)
    except (TypeError, ValueError) as error:
        raise UnderstudyError(f"{name} cannot be converted to an array: {error}") from error


def as_tensor(block: Any) -> Tensor:
    if isinstance(block, Tensor):
        return block.detach()
    block = np.ascontiguousarray(block)
    if block.dtype.kind == "f" and block.dtype.itemsize > 8:
        block = block.astype(np.float64)
    if not block.dtype.isnative:
        block = block.astype(block.dtype.newbyteorder("="))
    # torch warns about read-only arrays; a block is small, so copy it.
    return torch.from_numpy(block if block.flags.writeable else block.copy())
