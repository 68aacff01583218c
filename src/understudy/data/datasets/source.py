"""What there is to know of a data set before it is loaded: its size, its files, who finds and who reads it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from understudy.data.archives import USUAL, Limits
from understudy.data.faults import Fault
from understudy.data.pool import Dataset


@dataclass(frozen=True)
class Remote:
    """A file, where its makers offer it, and its official checksum."""

    name: str
    url: str
    checksum: str


@dataclass(frozen=True)
class DatasetSource:
    """A data set that has a name.

    `find` looks into one folder and returns what `load` reads, or None. `load` leaves its faults with the pools.
    `accepts` says in words what it looks for. `also_in` are folders where an operating system puts it, and `package`
    is what brings it there. `unpacked` is the folder that `load` wants where an archive is all there is; empty where
    it reads archives itself.
    """

    name: str
    title: str
    n_pool: int
    n_test: int
    n_classes: int
    find: Callable[[Path], Path | None]
    load: Callable[[Path], Dataset]
    files: tuple[Remote, ...] = ()
    accepts: str = ""
    also_in: tuple[Path, ...] = ()
    package: str = ""
    unpacked: str = ""
    limits: Limits = USUAL


def has_all(folder: Path, names: tuple[str, ...]) -> bool:
    return all((folder / name).exists() for name in names)


def note_differing(contents: Mapping[str, bytes], official: Mapping[str, str]) -> tuple[Fault, ...]:
    """A note on each file that is not the official one, whatever it was packed with."""
    return tuple(
        note_unofficial(name)
        for name, content in contents.items()
        if name in official and hashlib.md5(content, usedforsecurity=False).hexdigest() != official[name]
    )


def note_unofficial(name: str) -> Fault:
    return Fault(
        name, "not the official content", "used all the same; download it again if that is not meant", used=True
    )
