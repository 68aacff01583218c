"""Reading a pool's features a block at a time, so that no copy of them is ever made."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.core.blocks import ROWS_PER_BLOCK, block_slices, rows_that_fit
from understudy.errors import UnderstudyError

BYTES_PER_BLOCK = {"cpu": 2**22, "cuda": 2**29}


class Features:
    """The (n, d) features of a pool, as the caller holds them: an array, a memory map or a tensor.

    Only a reference is kept. Half precision and integers are cast block by block, because sums of them
    overflow.
    """

    def __init__(self, *parts: Any) -> None:
        self.parts = [_check_part(part) for part in parts]
        self.n_columns = int(self.parts[0].shape[1])
        self._digest: str | None = None

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

    def on(self, device: torch.device) -> "Features":
        """The same features on a GPU, copied there once; on the CPU nothing is copied."""
        if device.type == "cpu":
            return self
        moved = Features.__new__(Features)
        moved.parts = [as_tensor(part).to(device) for part in self.parts]
        moved.n_columns, moved._digest = self.n_columns, self._digest
        return moved

    def blocks(self, dtype: torch.dtype, device: torch.device) -> Iterator[tuple[int, Tensor]]:
        """The features in order, as (first row, block) pairs; a block is a few megabytes."""
        fitting = rows_that_fit(BYTES_PER_BLOCK[device.type], self.n_columns * dtype.itemsize)
        size = min(ROWS_PER_BLOCK[device.type], fitting)
        first = 0
        for part in self.parts:
            for some in block_slices(len(part), size):
                yield first + some.start, as_tensor(part[some]).to(device, dtype)
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
        return out

    def require_finite(self) -> None:
        for first, block in self.blocks(torch.float32, torch.device("cpu")):
            bad = ~torch.isfinite(block)
            if bool(bad.any()):
                row, column = (int(i) for i in bad.nonzero()[0])
                raise UnderstudyError(
                    f"features must be finite numbers within float32's range, but row {first + row}, column {column} "
                    f"is {float(block[row, column])}; fix or remove such items"
                )

    def digest(self) -> str:
        """A hash of the values, independent of their dtype; computed once, then cached."""
        if self._digest is None:
            state = hashlib.blake2b(f"{len(self)}x{self.n_columns}".encode(), digest_size=16)
            for _, block in self.blocks(torch.float32, torch.device("cpu")):
                state.update(block.contiguous().numpy().tobytes())
            self._digest = state.hexdigest()
        return self._digest


def _check_part(part: Any) -> Any:
    if not isinstance(part, Tensor):
        part = as_array("features", part)
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
