"""A map of the pool: where every item lies in two dimensions, and which items lie inside a lasso.

The first map, along the principal axes of the features, is there at once. A better one, on which neighbours lie
together, is made meanwhile by a process with low priority, and kept in the project's `work` folder.
"""

import hashlib
import logging
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch

from understudy.core.features import Features
from understudy.core.projection import first_axes, to_unit_square
from understudy.projects.project import Project
from understudy.sessions.replies import MapShown
from understudy.sessions.training import trainer
from understudy.sessions.training.map_job import MAP, KeptMap, read_map
from understudy.sessions.training.training_job import OUTPUT, RESULT, write_job

Layout = Literal["axes", "neighbours"]
STEPS: Final = 2**16 - 1  # in which a place on the map is told, along each axis
NO_CLASS: Final = 0xFF  # for up to 255 classes; twice as wide beyond
NO_CONFIDENCE: Final = 0xFF
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MapPoints:
    """Where every item lies, from 0 to 1 along both axes, and how these places came about."""

    points: np.ndarray  # (n, 2) float32
    layout: Layout

    def to_bytes(self) -> bytes:
        """x and y of each item as 16-bit numbers, the low byte first."""
        return np.round(self.points * np.float32(STEPS)).astype("<u2").tobytes()


class PoolMap:
    """The map of a project's pool. Making a better one begins when the map is first wanted."""

    def __init__(self, project: Project, note_change: Callable[[], None]) -> None:
        self.project, self._note_change = project, note_change
        self.trouble: str | None = None  # why no better map could be made, in a line
        self._lock = threading.Lock()
        self._shown: MapPoints | None = None
        self._tag = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    @property
    def seed(self) -> int:
        return self.project.settings.seed % 2**32

    @property
    def is_being_made(self) -> bool:
        """Whether a better map is on its way."""
        return self._thread is not None and self._thread.is_alive()

    def shown(self) -> MapPoints:
        """The best map there is by now. The first call begins to make a better one, unless it is kept already."""
        with self._lock:
            if self._shown is None:
                kept = self._read()
                self._show(self._first_axes() if kept is None else _points_of(kept))
                if (kept is None or kept.is_outgrown) and not self._is_stopped:
                    self._thread = threading.Thread(target=self._make, name="map", daemon=True)
                    self._thread.start()
            assert self._shown is not None
            return self._shown

    def tag(self) -> str:
        """A name for the places of the items as they are shown: another where they changed."""
        self.shown()
        return self._tag

    def describe(self, colours: str) -> MapShown:
        """What is shown, and the names of places and colours by which one sees that they changed."""
        shown = self.shown()
        return MapShown(
            items=len(shown.points),
            layout=shown.layout,
            is_being_made=self.is_being_made,
            trouble=self.trouble,
            points=self._tag,
            colours=colours,
        )

    def rows_inside(self, polygon: Sequence[tuple[float, float]]) -> np.ndarray:
        """The items inside a polygon on the map that is shown, by row."""
        return rows_inside(self.shown().points, polygon)

    def stop(self) -> None:
        """End what is being made, and wait until it is gone."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                trainer.end_process(self._process)
            thread = self._thread
        if thread is not None:
            thread.join()

    def _show(self, points: MapPoints) -> None:
        self._shown, self._tag = points, tag_of(points.to_bytes())

    def _first_axes(self) -> MapPoints:
        return MapPoints(to_unit_square(first_axes(Features(self.project.features), self.seed)), "axes")

    def _read(self) -> KeptMap | None:
        version = self.project.info.features_version
        return read_map(self.project.work / MAP, self.project.features, version, self.seed)

    def _make(self) -> None:
        """Have a better map made, and show it."""
        started = time.monotonic()
        folder = self.project.work / f"{MAP}-{uuid.uuid4().hex[:8]}"
        try:
            reason = self._run_process(folder)
            kept = None if reason is not None or self._is_stopped else self._read()
        except Exception as error:  # a thread that dies silently would leave "being made" unexplained
            reason, kept = f"{type(error).__name__}: {' '.join(str(error).split())}", None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if self._is_stopped:
            return
        if kept is not None:
            with self._lock:
                self._show(_points_of(kept))
            log.info("the map of %s items took %.0f s", f"{len(kept.places):,}", time.monotonic() - started)
        else:
            self.trouble = reason or "the map that was made cannot be read"
            log.warning("no better map could be made: %s", self.trouble)
        self._thread = None
        self._note_change()

    def _run_process(self, folder: Path) -> str | None:
        """Run the process that makes the map; why it failed, None where it did not."""
        project = self.project
        job = {
            "kind": "map", "features": str(project.features_path.absolute()), "work": str(project.work.absolute()),
            "version": project.info.features_version, "seed": self.seed,
            "path": [str(Path(path).absolute()) for path in sys.path],
        }  # fmt: skip
        write_job(folder, job, {})
        with (folder / OUTPUT).open("wb") as output:
            with self._lock:
                if self._is_stopped:
                    return None
                self._process = process = trainer.start_process(folder, output, gently=True)
            code = process.wait()
            with self._lock:
                self._process = None
            assert process.stdin is not None
            process.stdin.close()
        result = trainer.read_result(folder / RESULT)
        return trainer.reason_for(code, folder / OUTPUT, MAP) if result is None else result.get("failed")


def _points_of(kept: KeptMap) -> MapPoints:
    return MapPoints(to_unit_square(torch.from_numpy(kept.places)), "neighbours")


def rows_inside(points: np.ndarray, polygon: Sequence[tuple[float, float]]) -> np.ndarray:
    """The rows of points inside a polygon: those from which a ray to the right crosses its border an odd time.

    A border that crosses itself leaves out what it encloses twice. Of points on the border some are inside, some not.
    """
    corners = np.asarray(polygon, np.float64).reshape(-1, 2)
    if len(corners) < 3:
        return np.zeros(0, np.int64)
    low, high = corners.min(0), corners.max(0)
    near = np.flatnonzero(((points >= low) & (points <= high)).all(1))
    x, y = points[near, 0].astype(np.float64), points[near, 1].astype(np.float64)
    is_inside = np.zeros(len(near), bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, 0), strict=True):
        if y0 != y1:
            crosses = (y0 > y) != (y1 > y)
            is_inside ^= crosses & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return near[is_inside]


def encode_colours(
    classes: np.ndarray, confidence: np.ndarray, states: np.ndarray, n_classes: int
) -> bytes:  # fmt: skip
    """What the map is coloured by: for all items the class, then for all the confidence, then for all the state.

    A class is one byte, or two with the low one first where there are more than 255; all bits set: none, as -1 is. A
    confidence is a byte, in hundredths rounded down; 255: none, as nan is. A state is a byte.
    """
    wide = n_classes > NO_CLASS
    shares = np.full(len(confidence), NO_CONFIDENCE, np.uint8)
    is_known = ~np.isnan(confidence)
    shares[is_known] = np.floor(100 * confidence[is_known] + 1e-9).astype(np.uint8)
    return b"".join(
        (classes.astype("<u2" if wide else "u1").tobytes(), shares.tobytes(), states.astype(np.uint8).tobytes())
    )


def tag_of(content: bytes) -> str:
    """A name for some bytes."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()
