"""Files by the hash of their content: predictions and models that the event log refers to.

A file is `HASH.suffix`, HASH being its SHA-256. It is written beside its place, put on the disk, and then renamed. So
it is there complete or not at all, and two that write the same at the same time do no harm.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from understudy.data.files import draft_file, read_blocks, remove_drafts
from understudy.errors import NotFound, UnderstudyError
from understudy.messages import reason_of

HASH: Final = re.compile("[0-9a-f]{64}")
SUFFIX: Final = re.compile(r"[a-z0-9]{1,20}(\.[a-z0-9]{1,20})?")


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's predictions for a whole pool, and what it was trained on: nothing, where it came from elsewhere."""

    probs: Float[np.ndarray, "n c"]
    trained_on: Int[np.ndarray, "m"]
    labels: Int[np.ndarray, "m"]


class Artifacts:
    """A folder of files that never change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, source: Path | bytes, suffix: str) -> str:
        """Keep the content of a file, or bytes; its hash is its name from now on."""
        if not SUFFIX.fullmatch(suffix):
            raise UnderstudyError(f"a suffix must be a few letters, such as safetensors; got {suffix!r}")
        state = hashlib.sha256()
        with draft_file(self.folder, mode=0o644) as draft:
            for block in [source] if isinstance(source, bytes) else read_blocks(source):
                state.update(block)
                draft.file.write(block)
            # Over one that is there already: it is the same, or was damaged.
            draft.move_to(self.folder / f"{state.hexdigest()}.{suffix}")
        return state.hexdigest()

    def path(self, key: str) -> Path:
        """The file of this hash."""
        if not HASH.fullmatch(key):
            raise NotFound(f"{key[:80]!r} is not the hash of a file, which has 64 digits from 0 to f")
        found = next(self.folder.glob(f"{key}.*"), None)
        if found is None:
            raise NotFound(f"{self.folder} has no file {key[:12]}…; put it back from a copy of the project")
        return found

    def verify(self, key: str) -> bool:
        """Whether the file is there and its content is what it was."""
        try:
            state = hashlib.sha256()
            for block in read_blocks(self.path(key)):
                state.update(block)
        except (NotFound, OSError):
            return False
        return state.hexdigest() == key

    def put_predictions(self, predictions: Predictions) -> str:
        """Keep predictions; the same ones have the same hash."""
        tensors: dict[str, np.ndarray] = {
            "probs": np.ascontiguousarray(predictions.probs, dtype=np.float32),
            "trained_on": np.ascontiguousarray(predictions.trained_on, dtype=np.int64),
            "labels": np.ascontiguousarray(predictions.labels, dtype=np.int64),
        }
        return self.put(save(tensors), "safetensors")

    def predictions(self, key: str) -> Predictions:
        """The predictions of this hash."""
        path = self.path(key)
        try:
            tensors = load_file(path)
            return Predictions(tensors["probs"], tensors["trained_on"], tensors["labels"])
        except (OSError, SafetensorError, KeyError) as error:
            reason = reason_of(error)
            raise UnderstudyError(
                f"{path} has no predictions ({reason}); put it back from a copy of the project"
            ) from error

    def tidy(self) -> None:
        """Remove files that a killed process left half written. Call it only while nobody writes."""
        remove_drafts(self.folder)
