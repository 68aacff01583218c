"""Data sets by name: where they are looked for, how they are had, and how they are loaded."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from understudy.data import user_folders
from understudy.data.archives import unpack
from understudy.data.datasets.caltech256 import CALTECH256
from understudy.data.datasets.cifar import CIFAR10, CIFAR100
from understudy.data.datasets.digits import DIGITS
from understudy.data.datasets.idx import FASHION_MNIST
from understudy.data.datasets.source import DatasetSource, note_unofficial
from understudy.data.datasets.synthetic import DIVERGING_SINE, HONEYPOT
from understudy.data.datasets.tiny_imagenet import TINY_IMAGENET
from understudy.data.downloads import download, sum_of
from understudy.data.faults import Fault, check_on_error, settle
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError, UsageError

DATA: Final = "UNDERSTUDY_DATA"  # a folder of data sets that people keep themselves
DATASETS: Final[dict[str, DatasetSource]] = {
    source.name: source
    for source in (DIGITS, FASHION_MNIST, CIFAR10, CIFAR100, TINY_IMAGENET, CALTECH256, HONEYPOT, DIVERGING_SINE)
}
NAMES: Final = tuple(DATASETS)


@dataclass(frozen=True)
class DatasetStatus:
    """A data set, where it is, and where it was looked for; `found` is None if it is in none of these."""

    source: DatasetSource
    found: Path | None
    looked_in: tuple[Path, ...]


def load_named(name: str, *, folder: str | Path | None = None, on_error: str = "skip") -> Dataset:
    """The data set with its official split. Looks into `folder` only, if one is given."""
    source, chosen = _find_named(name), check_on_error(on_error)
    found = find(name, folder=folder)
    if found is None:
        raise UsageError(_missing(source, folder))
    if source.unpacked and found.is_file():
        # What people keep themselves may lie where they cannot write.
        place = home_of(name) if folder is None else found.parent
        found = _unpack(source, found, place)
    dataset = source.load(found)
    settle((*dataset.pool.faults, *(() if dataset.test is None else dataset.test.faults)), chosen)
    return replace(
        dataset,
        pool=_note_origin(_check_count(dataset.pool, source.n_pool, name), source, found),
        test=None if dataset.test is None else _check_count(dataset.test, source.n_test, f"{name}, test"),
    )


def find(name: str, *, folder: str | Path | None = None) -> Path | None:
    """What `load_named` would read: a folder or an archive; None if there is neither."""
    source = _find_named(name)
    return next((found for place in _looked_in(source, folder) if (found := source.find(place))), None)


def status() -> tuple[DatasetStatus, ...]:
    """All data sets, and where each of them is."""
    return tuple(DatasetStatus(source, find(source.name), _looked_in(source)) for source in DATASETS.values())


def fetch(name: str, *, folder: str | Path | None = None, progress: bool = True) -> Path:
    """Download the official files, unless the set is there; returns what `load_named` will read.

    They go to a folder of the set's name in `folder`, or in the usual place for downloads. What lies there already
    is checked against its sum, so a damaged file is replaced and a download that was stopped goes on.
    """
    source = _find_named(name)
    place = home_of(name) if folder is None else Path(folder) / name
    found = find(name, folder=folder)
    if found and not any((place / file.name).exists() for file in source.files):
        return found
    for file in source.files:
        download(file.url, place / file.name, checksum=file.checksum, progress=progress)
    if source.unpacked:
        _unpack(source, place / source.files[0].name, place)
        (place / source.files[0].name).unlink()
    fetched = source.find(place)
    if fetched is None:
        raise UnderstudyError(f"{place} does not hold {source.accepts} after the download; remove it and try again")
    return fetched


def _unpack(source: DatasetSource, archive: Path, place: Path) -> Path:
    """The archive's folder in `place`. If it is not the official archive, a mark beside the folder says so."""
    target = place / source.unpacked
    if not target.exists():
        try:
            place.mkdir(parents=True, exist_ok=True)
            if sum_of(archive, source.files[0].checksum) == source.files[0].checksum:
                _mark(target).unlink(missing_ok=True)
            else:
                _mark(target).touch()
        except OSError as error:
            raise UnderstudyError(
                f"cannot unpack {archive} into {target}: {error.strerror}; make room or check its permissions"
            ) from error
    return unpack(archive, target, source.unpacked, source.limits)


def _mark(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.unofficial")


def _note_origin(pool: Pool, source: DatasetSource, found: Path) -> Pool:
    """The pool, with a note if it was unpacked from an archive that is not the official one."""
    if not source.unpacked or not _mark(found).exists():
        return pool
    return replace(pool, faults=(*pool.faults, note_unofficial(source.files[0].name)))


def _looked_in(source: DatasetSource, folder: str | Path | None = None) -> tuple[Path, ...]:
    """The folders where a set may be, the first of them first."""
    if folder is not None:
        return Path(folder) / source.name, Path(folder)
    own = (Path(os.environ[DATA]).expanduser(),) if os.environ.get(DATA) else ()
    return (*(place for given in own for place in (given / source.name, given)), home_of(source.name), *source.also_in)


def home_of(name: str) -> Path:
    return user_folders.datasets_folder() / name


def _find_named(name: str) -> DatasetSource:
    if name not in DATASETS:
        raise UsageError(f"no data set is called {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]


def _missing(source: DatasetSource, folder: str | Path | None = None) -> str:
    files = " and ".join(file.name for file in source.files)
    place = home_of(source.name) if folder is None else Path(folder)
    return f"{source.name} is not here: put {files} into {place}, or run: understudy datasets --get {source.name}"


def _check_count(pool: Pool, expected: int, name: str) -> Pool:
    """The pool, with a note if it is not of the official size."""
    if len(pool) == expected or pool.faults:
        return pool
    note = Fault(name, f"{len(pool):,} items where the official set has {expected:,}", "used all the same", used=True)
    return replace(pool, faults=(note,))
