"""Runs for TensorBoard: a folder for the whole, and one within it for each part (the extra `tensorboard`)."""

import shutil
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from understudy.errors import UnderstudyError
from understudy.messages import install_command
from understudy.tracking import LABELS

FILES: Final = "files"  # TensorBoard keeps none, so they lie beside the events
PARAMETERS: Final = "parameters"
TEXTS: Final = (".md", ".json")


class TensorBoardTracker:
    """A folder of event files. An earlier start of the same run is read, so that no point is written twice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parts: dict[str, TensorBoardTracker] = {}
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UnderstudyError(
                f"TensorBoard is not installed; get it with: {install_command('tensorboard')}"
            ) from error
        self._known = self._read()  # before the writer adds a file
        try:
            self._writer = SummaryWriter(str(folder))
        except OSError as error:
            raise UnderstudyError(f"cannot write to {folder}: {error.strerror}; choose another folder") from error

    def _read(self) -> Any:
        if not any(self.folder.glob("events.out.tfevents.*")):
            return None
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        return EventAccumulator(str(self.folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()

    @cached_property
    def _tags(self) -> Mapping[str, Any]:
        return {} if self._known is None else self._known.Tags()

    def part(self, name: str) -> "TensorBoardTracker":
        if name not in self._parts:
            self._parts[name] = TensorBoardTracker(self.folder / name)
        return self._parts[name]

    def logged_at(self) -> Collection[int]:
        if LABELS not in self._tags.get("scalars", ()):
            return set()
        return {event.step for event in self._known.Scalars(LABELS)}

    def log_parameters(self, parameters: Mapping[str, Any]) -> None:
        if f"{PARAMETERS}/text_summary" in self._tags.get("tensors", ()):
            return
        rows = [f"| {name} | {value} |" for name, value in parameters.items()]
        self._writer.add_text(PARAMETERS, "\n".join(["| parameter | value |", "|---|---|", *rows]))

    def log_metrics(self, metrics: Mapping[str, float], labels: int) -> None:
        # LABELS comes last: if it is there, so are the others.
        for name, value in {**metrics, LABELS: labels}.items():
            self._writer.add_scalar(name, float(value), labels)
        self._writer.flush()

    def log_file(self, path: Path, folder: str = "") -> None:
        target = self.folder / FILES / folder
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / path.name)
        name = f"{folder}/{path.stem}" if folder else path.stem
        if path.suffix == ".png":
            with Image.open(path) as picture:
                self._writer.add_image(name, np.asarray(picture.convert("RGB")), dataformats="HWC")
        elif path.suffix in TEXTS:
            content = path.read_text(encoding="utf-8")
            self._writer.add_text(name, content if path.suffix == ".md" else f"```\n{content}\n```")

    def close(self) -> None:
        for part in self._parts.values():
            part.close()
        self._writer.close()
