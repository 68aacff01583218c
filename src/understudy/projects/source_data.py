"""The data of a project as it is now: its items, and the classes and labels that it brings."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from understudy.data.class_names import check_classes
from understudy.data.datasets import load_named
from understudy.data.features import is_features, read_about
from understudy.data.items import ImageFiles, Kind, Stamp, StoredImages, Texts, lies_in
from understudy.data.pinned_images import real_paths
from understudy.data.pool import Pool
from understudy.data.sources import known_names, load
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of, list_some
from understudy.projects.project_file import SourceLocation, is_dataset_name

MAX_NOTES: Final = 5  # on the source as a whole, that are shown


@dataclass(frozen=True, eq=False)
class SourceData:
    """What is there: a pool, the folder that its paths are relative to, and notes for people."""

    name: str
    pool: Pool
    base: Path | None = None
    file: Path | None = None  # the one file that holds all items
    is_folder: bool = False  # of images or texts, whose folders may be classes
    made_by: str | None = None  # the identity of the encoder, where this is a features folder
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return "text" if self.pool.items is None else self.pool.items.kind

    def require_items(self) -> None:
        """Refuse data that has features only."""
        if self.pool.items is None:
            raise UsageError(f"{self.name} has features and no items, so there is nothing to encode; keep its features")

    def stamp(self, row: int) -> Stamp | None:
        """What changes when an item changes: the stamp of its file, or of the file that holds all."""
        own = None if self.pool.items is None else self.pool.items.stamp(row)
        if own is None and self.file is not None:
            return _stamp_of(self.file)
        if own is None and self.is_folder and self.base is not None and isinstance(self.pool.items, Texts):
            return _stamp_of(self.base / self.pool.ids[row])  # a text of its own file
        return own


def _stamp_of(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except (OSError, ValueError):  # gone, or a name that was spelt out
        return None
    return status.st_size, status.st_mtime_ns


def open_source(source: str | Path, columns: Mapping[str, str] | None) -> SourceData:
    """The data that people name: a data set or a path. A name that is also a path is an error."""
    dataset = load(source, columns=columns)
    return _with_notes(dataset.name, dataset.pool, None if is_dataset_name(source) else Path(source).expanduser())


def reopen_source(origin: SourceLocation, project: Path) -> SourceData | None:
    """The data of a project, or None where it is not there now."""
    if origin.name is not None:
        named = load_named(origin.name) if origin.name in known_names() else load(origin.name, columns=origin.columns)
        return _with_notes(named.name, named.pool, None)
    path = origin.find(project)
    return None if path is None else open_source(path, origin.columns)


def _with_notes(name: str, pool: Pool, path: Path | None) -> SourceData:
    notes = []
    if pool.items is None:
        notes.append(
            f"{name} has features and nothing to show: its {count_of(pool.ids, 'item')} are shown by their names"
        )
    told = [str(fault) for fault in pool.faults if fault.used]
    notes += told[:MAX_NOTES] + ([f"and {len(told) - MAX_NOTES:,} notes more"] if len(told) > MAX_NOTES else [])
    if path is None:
        return SourceData(name, pool, notes=tuple(notes))
    is_folder = path.is_dir() and pool.features is None
    base = path if path.is_dir() else path.parent
    if isinstance(pool.items, StoredImages):  # whoever labels sees what a project holds
        pool = replace(pool, items=pool.items.confined_to(base))
    if isinstance(pool.items, ImageFiles) and not path.is_dir():
        notes += _note_files_outside(path, pool.items)
    made_by = str(read_about(path)["identity"]) if path.is_dir() and is_features(path) else None
    return SourceData(
        name,
        pool,
        base=base,
        file=None if path.is_dir() else path,
        is_folder=is_folder,
        made_by=made_by,
        notes=tuple(notes),
    )


def _note_files_outside(table: Path, items: ImageFiles) -> list[str]:
    """A note on files that a table lists and that do not lie in its folder."""
    folder = os.path.realpath(table.parent)
    listed = zip(items.names, real_paths(items.paths), strict=True)
    names = [name for name, path in listed if not lies_in(path, folder)]
    if not names:
        return []
    return [
        f"{table.name} lists {count_of(names, 'file')} outside of its folder, as {names[0]}; whoever labels sees them"
    ]


def read_classes_file(path: Path) -> tuple[str, ...]:
    """Classes in a text file, one a line; empty lines do not count."""
    try:
        lines = path.expanduser().read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); give a file with one class a line") from error
    except UnicodeDecodeError as error:
        raise UnderstudyError(f"{path} is not in UTF-8; give a text file with one class a line") from error
    return check_classes([line for line in lines if line.strip()])


@dataclass(frozen=True)
class InitialClasses:
    """The classes a project begins with, whether the source gave them, and whether its labels are imported."""

    names: tuple[str, ...]
    from_source: bool
    import_labels: bool
    notes: tuple[str, ...] = ()


def initial_classes(source: SourceData, given: Sequence[str] | None, import_labels: bool) -> InitialClasses:
    """The classes that people gave, else those that the source has.

    Folders of images are not classes where their labels are not wanted, or where there is only one folder.
    """
    pool = source.pool
    labelled = Counter(label for label in labels_of(pool) if label >= 0)
    counts = {pool.classes[label]: n for label, n in sorted(labelled.items())}
    if given is not None:
        known = check_classes(given)
        notes = _note_other_classes(counts, known, source.is_folder) if import_labels else ()
        return InitialClasses(known, False, import_labels, notes)
    if source.is_folder and not import_labels:
        return InitialClasses((), False, False)
    if source.is_folder and len(pool.classes) == 1:
        note = (
            f"all images lie in one folder, {pool.classes[0]}, which is not taken for a class; name it with --classes"
        )
        return InitialClasses((), False, False, (note,))
    return InitialClasses(check_classes(pool.classes), True, import_labels)


def _note_other_classes(counts: Mapping[str, int], known: Sequence[str], in_folders: bool) -> tuple[str, ...]:
    """A note on items whose label, or whose folder, is not one of the given classes."""
    foreign = {name: n for name, n in counts.items() if name.strip() not in known}
    if not foreign:
        return ()
    which = "in folders that are" if in_folders else "with labels that are"
    return (
        f"{count_of(sum(foreign.values()), 'item')} {which} none of the classes you gave ({list_some(foreign)}) "
        "will be asked for",
    )


def labels_of(pool: Pool) -> list[int]:
    """The label of each item, -1 where it has none."""
    return [-1] * len(pool) if pool.labels is None else [int(label) for label in pool.labels]


def source_classes(pool: Pool) -> tuple[str, ...]:
    """The classes that the source has now, in its order."""
    used = set(labels_of(pool))
    return check_classes([name for row, name in enumerate(pool.classes) if row in used])
