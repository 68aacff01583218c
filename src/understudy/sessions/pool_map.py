"""A map of the pool: where every item lies in two dimensions, and which items lie inside a lasso.

The first map, along the principal axes of the features, is there at once. A better one, on which neighbours lie
together, is made meanwhile by a process with low priority, and kept in the project's `work` folder.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import torch

from understudy.core.features import Features
from understudy.core.projection import first_axes, to_unit_square
from understudy.errors import UnderstudyError
from understudy.projects.project import Project
from understudy.sessions.replies import MapShown
from understudy.sessions.training.map_job import MAP, KeptMap, make_map, read_map
from understudy.sessions.training.side_process import SideProcess

Layout = Literal["axes", "neighbours"]
STEPS: Final = 2**16 - 1  # in which a place on the map is told, along each axis
SMALL_POOL: Final = 2_000  # items whose map is made without a process of its own: about a second
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MapPoints:
    """Where every item lies, in steps, and how these places came about.

    A lasso is held against these steps too, so that it finds exactly what a page shows inside it.
    """

    steps: np.ndarray  # (n, 2) uint16, along both axes
    layout: Layout

    @classmethod
    def of(cls, places: torch.Tensor, layout: Layout) -> "MapPoints":
        """Places of any scale, fitted into the unit square."""
        return cls(np.round(to_unit_square(places).astype(np.float64) * STEPS).astype(np.uint16), layout)

    @property
    def points(self) -> np.ndarray:
        """(n, 2) float64: the places, from 0 to 1."""
        return self.steps / float(STEPS)

    @cached_property
    def tag(self) -> str:
        """A name for these places: others have another."""
        return tag_of(self.to_bytes())

    def to_bytes(self) -> bytes:
        """x and y of each item as 16-bit numbers, the low byte first."""
        return self.steps.astype("<u2").tobytes()


class ItemMap:
    """The map of a project's pool. Making a better one begins when the map is first wanted."""

    def __init__(self, project: Project, note_change: Callable[[], None]) -> None:
        self.project, self._note_change = project, note_change
        self.trouble: str | None = None  # why no better map could be made, in a line
        self._lock = threading.Lock()
        self._shown: MapPoints | None = None
        self._process = SideProcess(project.work, MAP)
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    @property
    def seed(self) -> int:
        return self.project.settings.seed % 2**32

    @property
    def is_being_made(self) -> bool:
        """Whether a better map is on its way."""
        with self._lock:
            return self._thread is not None

    def shown(self) -> MapPoints:
        """The best map there is by now. The first call begins to make a better one, unless it is kept already."""
        with self._lock:
            if self._shown is None:
                kept = self._read()
                self._shown = self._first_axes() if kept is None else _points_of(kept)
                if (kept is None or kept.is_outgrown) and self._thread is None and not self._is_stopped:
                    self._thread = threading.Thread(target=self._make, name="map", daemon=True)
                    self._thread.start()
            return self._shown

    def tagged_points(self) -> tuple[str, bytes]:
        """A name for the places of the items as they are shown, another where they changed; and the places."""
        shown = self.shown()
        return shown.tag, shown.to_bytes()

    def describe(self, colours: str) -> MapShown:
        """What is shown, and the names of places and colours by which one sees that they changed."""
        shown = self.shown()
        return MapShown(
            items=len(shown.steps),
            layout=shown.layout,
            is_being_made=self.is_being_made,
            trouble=self.trouble,
            points=shown.tag,
            colours=colours,
        )

    def note_growth(self) -> None:
        """Items joined the pool: they get places when the map is wanted next."""
        with self._lock:
            self._shown = None

    def rows_inside(self, polygon: Sequence[tuple[float, float]]) -> np.ndarray:
        """The items inside a polygon on the map that is shown, by row."""
        return rows_inside(self.shown().points, polygon)

    def stop(self) -> None:
        """End what is being made, and wait until it is gone."""
        with self._lock:
            self._is_stopped = True
            thread = self._thread
        self._process.stop()
        if thread is not None:
            thread.join()

    def _first_axes(self) -> MapPoints:
        return MapPoints.of(first_axes(Features(self.project.features), self.seed), "axes")

    def _read(self) -> KeptMap | None:
        version = self.project.info.features_version
        return read_map(self.project.work / MAP, self.project.features, version, self.seed)

    def _make(self) -> None:
        """Have a better map made, and show it."""
        started = time.monotonic()
        kept, trouble = None, "the map that was made cannot be read"
        try:
            if len(self.project.features) <= SMALL_POOL:
                make_map(self.project.features, self._job())
            else:
                self._process.run(self._job())
            kept = self._read()
        except UnderstudyError as error:
            trouble = str(error)
        except Exception as error:  # a thread that dies silently would leave "being made" on the page for ever
            trouble = f"{type(error).__name__}: {' '.join(str(error).split())}"
        with self._lock:
            self._thread = None
            if self._is_stopped:
                return
            if kept is None:
                self.trouble = trouble
            else:  # where items joined since it was read, it is read again
                self._shown = _points_of(kept) if len(kept.places) == len(self.project.features) else None
        if kept is None:
            log.warning("no better map could be made: %s", trouble)
        else:
            log.info("the map of %s items took %.0f s", f"{len(kept.places):,}", time.monotonic() - started)
        self._note_change()

    def _job(self) -> dict[str, Any]:
        project = self.project
        return {
            "kind": "map",
            "work": str(project.work.absolute()),
            "features": str(project.features_path.absolute()),
            "version": project.info.features_version,
            "seed": self.seed,
        }


def _points_of(kept: KeptMap) -> MapPoints:
    return MapPoints.of(torch.from_numpy(kept.places), "neighbours")


def rows_inside(points: np.ndarray, polygon: Sequence[tuple[float, float]]) -> np.ndarray:
    """The rows of points inside a polygon: those from which a ray to the right crosses its border an odd time.

    A border that crosses itself leaves out what it encloses twice. Of points on the border some are inside, some not.
    """
    corners = np.asarray(polygon, np.float64).reshape(-1, 2)
    if len(corners) < 3:
        return np.zeros(0, np.int64)
    low, high = corners.min(0), corners.max(0)
    near = np.flatnonzero(((points >= low) & (points <= high)).all(1))
    x, y = points[near].T
    is_inside = np.zeros(len(near), bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, 0), strict=True):
        if y0 == y1:
            continue
        if y0 > y1:  # the same side belongs to two neighbouring polygons, and no point to both of them
            x0, y0, x1, y1 = x1, y1, x0, y0
        crosses = (y0 > y) != (y1 > y)
        is_inside ^= crosses & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return near[is_inside]


def tag_of(content: bytes) -> str:
    """A name for some bytes."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()
