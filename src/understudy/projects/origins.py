"""From what people point at to a pool to label: what is in it now, and the classes and labels it brings."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from understudy.data import hub
from understudy.data.class_names import checked_classes
from understudy.data.datasets import load_named
from understudy.data.features import is_features, read_about
from understudy.data.items import ImageFiles, Kind, Stamp, StoredImages, lies_in
from understudy.data.pool import Pool
from understudy.data.shown_items import real_paths
from understudy.data.sources import known_names, load
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of, list_some
from understudy.projects.project_file import Origin


@dataclass(frozen=True, eq=False)
class Source:
    """What was found: a pool, the folder its files are named from, and what a person should know of it."""

    name: str
    pool: Pool
    base: Path | None = None
    file: Path | None = None  # where all items are in one
    is_folder: bool = False  # of images: classes are folders
    made_by: str | None = None  # the identity of the encoder, of a features folder
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return "text" if self.pool.items is None else self.pool.items.kind

    def stamp(self, place: int) -> Stamp | None:
        """What changes when an item changes: of its file, or of the file that holds all."""
        own = None if self.pool.items is None else self.pool.items.stamp(place)
        if own is None and self.file is not None:
            status = self.file.stat()
            own = status.st_size, status.st_mtime_ns
        return own


def is_named(source: str | Path) -> bool:
    """Whether this is the name of a data set and no path."""
    return isinstance(source, str) and (source in known_names() or source.startswith(hub.PREFIX))


def opened(source: str | Path, columns: Mapping[str, str] | None) -> Source:
    """The source that people name now. A name that is a path as well is an error."""
    dataset = load(source, columns=columns)
    return _of_pool(dataset.name, dataset.pool, None if is_named(source) else Path(source).expanduser())


def reopened(origin: Origin, project: Path) -> Source | None:
    """The source of a project, or None where it is not there now."""
    if origin.name is not None:
        named = load_named(origin.name) if origin.name in known_names() else load(origin.name, columns=origin.columns)
        return _of_pool(named.name, named.pool, None)
    place = origin.place(project)
    return None if place is None else opened(place, origin.columns)


def _of_pool(name: str, pool: Pool, path: Path | None) -> Source:
    notes = []
    if pool.items is None:
        notes.append(
            f"{name} has features and nothing to show: its {count_of(pool.ids, 'item')} are shown by their names"
        )
    if path is None:
        return Source(name, pool, notes=tuple(notes))
    is_folder = path.is_dir() and pool.features is None
    base = path if path.is_dir() else path.parent
    if isinstance(pool.items, StoredImages):  # what a project holds is shown to others
        pool = replace(pool, items=pool.items.confined_to(base))
    if isinstance(pool.items, ImageFiles) and not path.is_dir():
        notes += _outside(path, pool.items)
    made_by = str(read_about(path)["identity"]) if path.is_dir() and is_features(path) else None
    return Source(name, pool, base, None if path.is_dir() else path, is_folder, made_by, tuple(notes))


def _outside(table: Path, items: ImageFiles) -> list[str]:
    """A note on files that a table lists and that do not lie in its folder."""
    folder = os.path.realpath(table.parent)
    listed = zip(items.names, real_paths(items.paths), strict=True)
    names = [name for name, path in listed if not lies_in(path, folder)]
    if not names:
        return []
    return [
        f"{table.name} lists {count_of(names, 'file')} outside of its folder, as {names[0]}; whoever labels sees them"
    ]


def from_file(path: Path) -> tuple[str, ...]:
    """Classes in a text file, one a line; empty lines do not count."""
    try:
        lines = path.expanduser().read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); give a file with one class a line") from error
    except UnicodeDecodeError as error:
        raise UnderstudyError(f"{path} is not in UTF-8; give a text file with one class a line") from error
    return checked_classes([line for line in lines if line.strip()])


@dataclass(frozen=True)
class Classes:
    """The classes a project begins with, whether the source gave them, and whether its labels are taken."""

    names: tuple[str, ...]
    from_source: bool
    import_labels: bool
    notes: tuple[str, ...] = ()


def classes_of(source: Source, given: Sequence[str] | None, import_labels: bool) -> Classes:
    """What people gave, else what the source has. Folders are no classes where their labels are not wanted, or where
    there is one alone.
    """
    pool = source.pool
    labelled = Counter(label for label in labels_of(pool) if label >= 0)
    counts = {pool.classes[label]: n for label, n in sorted(labelled.items())}
    if given is not None:
        known = checked_classes(given)
        return Classes(known, False, import_labels, _others(counts, known) if import_labels else ())
    if source.is_folder and not import_labels:
        return Classes((), False, False)
    if source.is_folder and len(pool.classes) == 1:
        note = f"all images lie in one folder, {pool.classes[0]}, which is taken for no class; name it with --classes"
        return Classes((), False, False, (note,))
    return Classes(checked_classes(pool.classes), True, import_labels)


def _others(counts: Mapping[str, int], known: Sequence[str]) -> tuple[str, ...]:
    """A note on labels that are none of the classes given."""
    foreign = {name: n for name, n in counts.items() if name.strip() not in known}
    if not foreign:
        return ()
    return (
        f"{sum(foreign.values()):,} items are of no class you gave ({list_some(foreign)}); they are to be labelled",
    )


def labels_of(pool: Pool) -> list[int]:
    """The label of each item, -1 where it has none."""
    return [-1] * len(pool) if pool.labels is None else [int(label) for label in pool.labels]


def source_classes(pool: Pool) -> tuple[str, ...]:
    """The classes that the source has now, in its order."""
    used = set(labels_of(pool))
    return checked_classes([name for row, name in enumerate(pool.classes) if row in used])
