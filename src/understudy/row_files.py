"""Rows of a pool that is larger than memory: computed once, kept in files, and read through the page cache.

A pool's folder is named by a digest of its features, its basis and the options that decide its rows, so rows are only
found again by the pool they belong to. They are computed in segments, and a segment counts once it is on the disk: a
process that is killed has lost at most the one it was at, and the next goes on from there. The finished file gets its
name last.
"""

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.core.blocks import block_slices, rows_that_fit
from understudy.core.checks import bytes_of, in_gib
from understudy.core.features import Features
from understudy.core.kernels import Kernel
from understudy.core.options import Options
from understudy.core.protocol import PoolRows
from understudy.core.rows import Rows, bytes_besides_rows, compute_rows
from understudy.core.split_rows import SplitRows
from understudy.errors import UnderstudyError, UsageError

BYTES_PER_SEGMENT: Final = 2**26
BYTES_OF_THE_PROCESS: Final = 3 * 2**28  # libraries, and what they allocate on first use
SPARSE_ERRORS: Final = (errno.EOPNOTSUPP, errno.EINVAL)  # of file systems that cannot reserve space
FULL_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class InFiles:
    """Whitened rows are kept in a folder and memory-mapped; the rest of a row's state stays in memory.

    `memory`: how much of it the surrogate may take, the page cache apart, in bytes or as in "8 GiB". On the CPU only.
    Rows that join the pool later are kept in memory until it is set up again.
    """

    folder: Path | str
    memory: int | str | None = None
    is_lasting: bool = field(default=True, init=False)

    def require_room(self, n_rows: int, n_basis: int, n_classes: int, options: Options, device: torch.device) -> None:
        if device.type != "cpu":
            raise UsageError(f"rows in files are read by the CPU, but device is {str(device)!r}; leave storage out")
        needed = BYTES_OF_THE_PROCESS + 2 * BYTES_PER_SEGMENT + n_rows * bytes_besides_rows(n_classes, options)
        limit = None if self.memory is None else bytes_of(self.memory)
        if limit is not None and needed > limit:
            raise UnderstudyError(
                f"{n_rows:,} rows with {n_classes} classes take {in_gib(needed)} of memory besides the rows in files, "
                f"more than memory={self.memory!r}; allow more, or make the pool smaller"
            )

    def recall(self, name: str) -> Mapping[str, np.ndarray] | None:
        path = Path(self.folder) / f"{name}.npz"
        if not path.exists():
            return None
        with np.load(path) as kept:
            return {key: kept[key] for key in kept.files}

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        path = Path(self.folder) / f"{name}.npz"
        with _in_words(path.parent, sum(array.nbytes for array in arrays.values())):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _whole_file(path) as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]

    def place(self, features: Features) -> Features:
        return features

    def make(self, kernel: Kernel, options: Options, features: Features) -> PoolRows:
        folder = Path(self.folder) / _digest(kernel, options, features)
        shape = len(features), len(kernel.U)
        numbers = _RowFile(folder, shape, options.torch_dtype, is_whitened=not options.sees_predictions)
        found, lam = numbers.open_or_compute(kernel, features)
        if not options.sees_predictions:
            return FileRows(options, Rows.over(options, None, found, lam))
        return FileRows(options, Rows.over(options, found, numbers.scratch(), lam))

    def load(
        self,
        options: Options,
        of_features: Float[Tensor, "n k"] | None,
        W: Float[Tensor, "n k"],
        stats: Float[Tensor, "n 4"],
    ) -> PoolRows:
        """Rows of a whole state, which are read where they are."""
        return FileRows(options, Rows.from_whitened(options, of_features, W, stats))


class FileRows(SplitRows):
    """Rows in a file, and a block in memory for those that joined since."""

    def __init__(self, options: Options, rows: Rows) -> None:
        super().__init__(options, [rows])
        self.has_learner = False

    def anchor(self, kernel: Kernel, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        super().anchor(kernel, probs, has_learner)
        self.has_learner = has_learner

    def adopt(self, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        super().adopt(probs, has_learner)
        self.has_learner = has_learner

    def extend(self, kernel: Kernel, features: Features, probs: Float[Tensor, "b c"] | None) -> None:
        if len(self.blocks) > 1:
            super().extend(kernel, features, probs)
            return
        joined = Rows(kernel, self.options, features)
        if probs is not None:
            joined.anchor(kernel, probs, self.has_learner)
            joined.set_turn(self.turn())
        self.blocks.append(joined)
        self._count()

    def state(self, whole: bool) -> dict[str, Tensor]:
        """Never whole: what would be saved besides is in files already."""
        return super().state(whole=False)


class _RowFile:
    """A file of n x k numbers, one row after another, with λ in a second one and the number of finished segments."""

    def __init__(self, folder: Path, shape: tuple[int, int], dtype: torch.dtype, is_whitened: bool) -> None:
        self.folder, self.shape, self.dtype, self.is_whitened = folder, shape, dtype, is_whitened
        self.rows, self.partial, self.progress = (folder / name for name in ("rows", "rows.partial", "progress.json"))
        self.lam = folder / "unexplained"
        self.size = shape[0] * shape[1] * dtype.itemsize

    def open_or_compute(self, kernel: Kernel, features: Features) -> tuple[Tensor, Tensor]:
        """The numbers, mapped so that writing to them changes no file, and λ (zeros where rows are not whitened)."""
        if not self.rows.exists():
            with _in_words(self.folder, self.size + 8 * self.shape[0]):
                self.folder.mkdir(parents=True, exist_ok=True)
                with _sole_use(self.folder):
                    if not self.rows.exists():  # another process may have finished it meanwhile
                        self._compute(kernel, features)
        found = np.memmap(self.rows, mode="c", shape=self.shape, dtype=str(self.dtype).removeprefix("torch."))
        if not self.is_whitened:
            return torch.from_numpy(found), torch.zeros(self.shape[0], dtype=torch.float64)
        return torch.from_numpy(found), torch.from_numpy(np.fromfile(self.lam))

    def scratch(self) -> Tensor:
        """Room for as many numbers again, which is gone with the process."""
        path = self.folder / f"whitened-{os.getpid()}"
        with _in_words(self.folder, self.size), path.open("w+b") as file:
            path.unlink()
            _reserve(file, self.size)
            room = np.memmap(file, mode="r+", shape=self.shape, dtype=str(self.dtype).removeprefix("torch."))
        return torch.from_numpy(room)

    def _compute(self, kernel: Kernel, features: Features) -> None:
        (n, k), row = self.shape, self.shape[1] * self.dtype.itemsize
        segments = _segments(features, row)
        finished = self._finished(len(segments))
        with (
            self.partial.open("r+b" if finished else "w+b") as rows,
            self.lam.open("r+b" if finished else "w+b") as lam,
        ):
            _reserve(rows, n * row)
            _reserve(lam, 8 * n)
            for number, span in list(enumerate(segments))[finished:]:
                W = torch.empty((span.stop - span.start, k), dtype=self.dtype)
                unexplained = torch.empty(len(W), dtype=torch.float64) if self.is_whitened else None
                compute_rows(kernel, features.between(span.start, span.stop), W, unexplained)
                _write(rows, W, span.start * row)
                if unexplained is not None:
                    _write(lam, unexplained, span.start * 8)
                os.fsync(rows.fileno())
                os.fsync(lam.fileno())
                with _whole_file(self.progress) as file:
                    file.write(json.dumps({"finished": number + 1}).encode())
        self.partial.replace(self.rows)
        _sync(self.folder)
        self.progress.unlink()

    def _finished(self, count: int) -> int:
        """How many segments are on the disk, of an earlier process that was stopped."""
        if not (self.partial.exists() and self.lam.exists() and self.progress.exists()):
            return 0
        return min(count, int(json.loads(self.progress.read_text())["finished"]))


def _digest(kernel: Kernel, options: Options, features: Features) -> str:
    """Of all that decides the numbers in a file."""
    state = hashlib.blake2b(features.digest().encode(), digest_size=12)
    decides = (options.method, options.dtype, len(features), kernel.input_bandwidth)
    state.update(repr(decides).encode())
    for points in (kernel.U, kernel.origin):
        state.update(points.contiguous().numpy().tobytes())
    return f"rows-{state.hexdigest()}"


def _segments(features: Features, bytes_per_row: int) -> list[slice]:
    """Consecutive rows that are computed together. They begin where blocks of features do: so all is as in memory."""
    block = features.rows_per_block(torch.float64, torch.device("cpu"))
    size = block * max(1, rows_that_fit(BYTES_PER_SEGMENT, bytes_per_row) // block)
    found: list[slice] = []
    first = 0
    for part in features.parts:
        found += [slice(first + some.start, first + some.stop) for some in block_slices(len(part), size)]
        first += len(part)
    return found


def _reserve(file: IO[bytes], size: int) -> None:
    """Make room for a whole file at once, so that a full disk shows before anything is computed."""
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        if error.errno not in SPARSE_ERRORS:
            raise
        os.truncate(file.fileno(), size)


def _write(file: IO[bytes], values: Tensor, at: int) -> None:
    left = memoryview(values.numpy().view(np.uint8).reshape(-1))  # type: ignore[arg-type]
    while left:
        written = os.pwrite(file.fileno(), left, at)
        left, at = left[written:], at + written


@contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that has its name only once all of it is on the disk."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Put the names in a folder on the disk."""
    with suppress(OSError):  # some file systems cannot, and keep names well enough
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _sole_use(folder: Path) -> Iterator[None]:
    """Compute rows in a folder alone: the lock is gone with the process that holds it."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UnderstudyError(
                f"another process is computing the rows in {folder}; wait for it, and they are read from there"
            ) from error
        yield


@contextmanager
def _in_words(folder: Path, size: int) -> Iterator[None]:
    """Say in one line that a disk is full or a folder cannot be written to. What is finished there stays."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK:
            raise UnderstudyError(
                f"the disk of {folder} is full: {in_gib(size)} are needed there for the rows of this pool; free some "
                "space and start again, which goes on from where this stopped, or pass another folder"
            ) from error
        raise UnderstudyError(f"cannot write rows to {folder}: {error.strerror}; pass another folder") from error
