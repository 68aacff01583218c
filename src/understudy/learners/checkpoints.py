"""Checkpoints: what a training had reached when it was killed, so that the same training goes on from there.

A training is known by its learner's settings, its items, their classes and its seed. Its folder is there while it runs,
stays when it is killed or interrupted, and is removed when it is complete.
"""

import hashlib
import io
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, Final

import numpy as np
import torch
from filelock import FileLock, Timeout
from PIL import Image

from understudy.data.files import write_atomically
from understudy.data.user_folders import cache_folder
from understudy.journal import describe

STATE: Final = "state.pt"
SECONDS_BETWEEN: Final = 60.0  # a shorter training is repeated sooner than its checkpoints are written


def _default_folder() -> Path:
    """Where checkpoints are kept unless a learner is told otherwise."""
    return cache_folder() / "checkpoints"


@dataclass(eq=False)
class Checkpoints:
    """The checkpoints of one training, in a folder of its own."""

    folder: Path
    seconds_between: float = SECONDS_BETWEEN
    is_complete: bool = True  # set to False by a training that the user interrupted
    _last: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        """Whether enough time has passed since the last one, or since the start."""
        return time.monotonic() - self._last >= self.seconds_between

    def note_saved(self) -> None:
        self._last = time.monotonic()

    def save(self, state: dict[str, Any]) -> None:
        """Put this state in the place of the one before; it is written whole or not at all."""
        stream = io.BytesIO()
        torch.save(state, stream)
        write_atomically(self.folder / STATE, stream.getvalue())
        self.note_saved()

    def load(self, device: str = "cpu") -> dict[str, Any] | None:
        """The state saved last; None where there is none that can be read. Nothing in the file is run."""
        try:
            found: dict[str, Any] = torch.load(self.folder / STATE, map_location=device, weights_only=True)
        except Exception:  # missing, or of another version
            return None
        return found


@contextmanager
def keep_checkpoints(root: Path | None, key: str, seconds_between: float) -> Iterator[Checkpoints]:
    """The checkpoints of a training while it runs. The folder is removed when the training is complete.

    Where another process is at the same training, or the folder cannot be written to, they are kept for this process
    alone.
    """
    folder = (_default_folder() if root is None else root) / key
    lock = FileLock(folder.with_suffix(".lock"))
    try:
        if math.isinf(seconds_between):
            raise Timeout(lock.lock_file)  # none are wanted
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        with tempfile.TemporaryDirectory(prefix="understudy-") as scratch:
            yield Checkpoints(Path(scratch), seconds_between)
        return
    try:
        kept = Checkpoints(folder, seconds_between)
        yield kept
        if kept.is_complete:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        with suppress(OSError):
            folder.rmdir()  # nothing was saved
        lock.release()
        with suppress(OSError):
            folder.with_suffix(".lock").unlink()


def key_of_training(learner: Any, inputs: Any, labels: np.ndarray, n_classes: int, seed: int) -> str:
    """What a training is known by. Two have the same only if they would make the same model."""
    about = (describe(learner), _code_of(learner), getattr(learner, "device", ""), n_classes, seed, labels.tolist())
    found = hashlib.sha256(repr(about).encode())
    for part in [inputs] if isinstance(inputs, np.ndarray) else inputs:
        found.update(_content_of(part))
    return found.hexdigest()[:32]


def _code_of(learner: Any) -> list[str]:
    """The compiled code of the functions, and of the classes' methods, that a learner was made with."""
    given = vars(learner).values()
    functions = [each for value in given for each in (vars(value).values() if isinstance(value, type) else [value])]
    return [_text_of_code(each.__code__) for each in functions if hasattr(each, "__code__")]


def _text_of_code(code: CodeType) -> str:
    """What code does, constants and inner functions included; the same in every process."""
    constants = [_text_of_code(value) if isinstance(value, CodeType) else _in_order(value) for value in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _in_order(constant: Any) -> str:
    """A constant as text; those of a set have another order in each process."""
    return str(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def _content_of(item: Any) -> bytes:
    """An item in bytes, from which it is told from others."""
    if isinstance(item, str):
        content = item.encode("utf-8", "surrogatepass")
        return len(content).to_bytes(8, "big") + content
    if isinstance(item, Image.Image):
        return repr((item.size, item.mode)).encode() + item.tobytes()
    values = np.ascontiguousarray(item)
    return repr((values.shape, values.dtype.str)).encode() + values.tobytes()
