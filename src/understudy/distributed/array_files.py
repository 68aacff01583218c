"""Features as workers find them: a piece of a file that all machines can read, or an array in Ray's object store."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from understudy.core.features import Features, as_tensor
from understudy.distributed.cluster import ray_library
from understudy.errors import UnderstudyError


@dataclass(frozen=True)
class ArrayFile:
    """An array that lies in a file from this byte on, row by row; `stamp` is the file's size and time of change."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    stamp: tuple[int, int]

    def open(self) -> np.ndarray:
        """The array, mapped from the file and not read."""
        try:
            found = _stamp(self.path)
            if found != self.stamp:
                raise UnderstudyError(
                    f"{self.path} is another file here than where it was opened ({found[0]:,} bytes, expected "
                    f"{self.stamp[0]:,}); put the same file on every machine, or a folder that they share"
                )
            return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
        except (OSError, ValueError) as error:
            if isinstance(error, UnderstudyError):
                raise
            raise UnderstudyError(
                f"{self.path} cannot be read here ({error}); put it where all machines of the cluster can read it"
            ) from error


Source: TypeAlias = "ArrayFile | StoredArray"


@dataclass(frozen=True)
class StoredArray:
    """An array in Ray's object store."""

    ref: Any

    def open(self) -> np.ndarray:
        found: np.ndarray = ray_library().get(self.ref)
        return found


def _file_of(part: Any) -> ArrayFile | None:
    """Where in a file this array lies, if it is a memory map of consecutive rows that nobody may change."""
    root = part
    while isinstance(root, np.memmap) and isinstance(root.base, np.memmap):
        root = root.base
    if not isinstance(part, np.memmap) or not isinstance(root, np.memmap) or root.filename is None:
        return None
    if not part.flags.c_contiguous or root.mode == "c":  # what was changed there is not in the file
        return None
    skipped = part.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    path = str(Path(root.filename).resolve())
    return ArrayFile(path, part.dtype.str, part.shape, root.offset + skipped, _stamp(path))


def _stamp(path: str) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns


def cut(features: Features, spans: Sequence[tuple[int, int]], put: Any) -> list[list[Source]]:
    """Where the rows of each span are found. What lies in no file is put into the store, once a span."""
    return [
        [_file_of(part) or StoredArray(put(as_tensor(part).cpu().numpy())) for part in features.between(*span).parts]
        for span in spans
    ]


def open_sources(sources: Sequence[Source]) -> Features:
    return Features(*(source.open() for source in sources))
