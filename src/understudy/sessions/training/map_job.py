"""Making a map of the pool in a process of its own: `work/map/`, which is made again where it is missing.

It holds the places of all items as they were laid out, and of which features. Items that came later are placed among
their neighbours; once they are many, all are laid out anew, beginning where they are, so that the map stays alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from understudy.core.features import Features
from understudy.core.projection import neighbour_map, place_rows
from understudy.errors import UnderstudyError
from understudy.sessions.training.array_folders import read_about, read_arrays, write_arrays

MAP: Final = "map"
PLACES: Final = "places"
MAX_GROWTH: Final = 1.1  # of a pool, before all of it is laid out anew


@dataclass(frozen=True, eq=False)
class KeptMap:
    """The places of all items, and how many of them were laid out rather than placed later."""

    places: np.ndarray  # (n, 2)
    laid_out: int

    @property
    def is_outgrown(self) -> bool:
        return len(self.places) > MAX_GROWTH * self.laid_out


def read_map(folder: Path, features: np.ndarray, version: str | None, seed: int) -> KeptMap | None:
    """The map that is kept in a folder, with a place for every item; None where there is none of these features."""
    about = read_about(folder)
    if about is None or about.get("features") != version:
        return None
    try:
        places = np.array(read_arrays(folder)[PLACES])
    except (UnderstudyError, KeyError):
        return None  # damaged: it is made again
    if not 0 < len(places) <= len(features):
        return None
    placed = place_rows(Features(features), torch.from_numpy(places), seed)
    return KeptMap(placed.numpy(), len(places))


def make_map(features: np.ndarray, job: Mapping[str, Any]) -> None:
    """Lay out all items and keep the map, beginning with the one that is kept where it is of the same features."""
    folder, version, seed = Path(job["work"]) / MAP, job["version"], job["seed"]
    known = read_map(folder, features, version, seed)
    start = None if known is None else torch.from_numpy(known.places)
    places = neighbour_map(Features(features), seed, start=start)
    write_arrays(folder, {PLACES: places.numpy()}, {"features": version})
