"""Arrays in a folder, one `.npy` file each: written completely or not at all, and memory-mapped when large.

They hold what can be computed again, so they are not synced to the disk, which would hold up labels that must be. A
folder that a crash of the machine left damaged does not open, and is made again.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.data.files import atomic_folder
from understudy.errors import UnderstudyError
from understudy.messages import reason_of

ABOUT: Final = "about.json"
MAX_BYTES_READ: Final = 2**20  # of an array; larger ones are memory-mapped


def write_arrays(
    folder: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any], linked: Mapping[str, Path] | None = None
) -> None:
    """Write arrays in place of what the folder held. Those that are `linked` lie in another folder already."""
    with atomic_folder(folder, durable=False) as draft:
        for name, array in arrays.items():
            path = draft / f"{name}.npy"
            if not (linked and name in linked and link(linked[name], path)):
                np.save(path, array, allow_pickle=False)
        names = {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()}
        (draft / ABOUT).write_text(json.dumps({**about, "arrays": names}), encoding="utf-8")


def link(there: Path, here: Path) -> bool:
    """Give a file a second name, where the file system can."""
    try:
        os.link(there, here)
    except OSError:
        return False
    return True


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a folder. Large ones are mapped copy-on-write: a reader's changes do not reach the file."""
    about = read_about(folder)
    if about is None:
        raise UnderstudyError(f"{folder} is missing or incomplete; delete it, and it is made again")
    found: dict[str, np.ndarray] = {}
    try:
        for name, (dtype, shape) in about["arrays"].items():
            path = folder / f"{name}.npy"
            array = np.load(path, mmap_mode="c" if path.stat().st_size > MAX_BYTES_READ else None, allow_pickle=False)
            if str(array.dtype) != dtype or list(array.shape) != shape:
                raise ValueError(f"{name} has shape {array.shape}")
            found[name] = array
    except (OSError, ValueError, EOFError) as error:
        reason = reason_of(error)
        raise UnderstudyError(f"{folder} is damaged ({reason}); delete it, and it is made again") from error
    return found


def can_be_read(folder: Path) -> bool:
    """Whether `read_arrays` would read them. What is mapped is not read, so this is quick."""
    try:
        read_arrays(folder)
    except UnderstudyError:
        return False
    return True


def read_about(folder: Path) -> dict[str, Any] | None:
    """The notes that were written with the arrays; None where there are no arrays."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) and isinstance(about.get("arrays"), dict) else None
