"""Pools from a folder of images: flat, one folder a class, or either of these under `train` and `test`."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

from understudy.data import class_names, images, splits
from understudy.data.faults import Fault
from understudy.data.items import ImageFiles, make_printable
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of, list_some

LITTER: Final = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})  # what systems leave in folders


@dataclass
class Listing:
    """Files of images by their path relative to a folder, in order, and what was found beside them."""

    files: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def load_folder(folder: Path, classes: Sequence[str] | None = None, folder_labels: bool = True) -> Dataset:
    """The images under a folder. The first folder on the way to a file is its class, unless `folder_labels` is off."""
    name = folder.resolve().name
    split, unused = _split_folders(folder)
    if not split:
        return Dataset(name, *_pools(folder, [list_images(folder)], classes, folder_labels))
    listings = {part: list_images(folder, under) for part, under in split.items()}
    if not listings["pool"].files:
        raise _no_images(folder / split["pool"], listings["pool"])
    chosen = splits.part_to_test(part for part, listing in listings.items() if listing.files)
    kept = [listings[part] for part in ("pool", chosen) if part in listings and listings[part].files]
    if chosen == "test" and "validation" in listings and listings["validation"].files:
        note = splits.note_unused_validation(split["validation"], len(listings["validation"].files))
        listings["pool"].faults.append(note)
    listings["pool"].faults += _beside_split(folder, split, unused)
    return Dataset(name, *_pools(folder, kept, classes, folder_labels, depth=1))


def _split_folders(folder: Path) -> tuple[dict[splits.Part, str], list[str]]:
    """The subfolder for each part, if there is one to train on and one to test on; and the other subfolders."""
    found: dict[splits.Part, str] = {}
    names = sorted(entry.name for entry in _entries(folder) if entry.is_dir() and not entry.name.startswith("."))
    for name in names:
        part = splits.part_of(name)
        if part is not None:
            found.setdefault(part, name)
    if "pool" not in found or len(found) == 1:
        return {}, names
    return found, [name for name in names if name not in found.values()]


def _beside_split(folder: Path, split: dict[splits.Part, str], unused: Sequence[str]) -> Iterator[Fault]:
    """Notes on images that are in no part: a folder each, and one on files that lie loose."""
    parts = " and ".join(split.values())
    for name in unused:
        found, part = list_images(folder, name).files, splits.part_of(name)
        if found and part is not None:
            problem = f"{count_of(found, 'image')} of a second folder for the same part as {split[part]}"
            yield Fault(f"{make_printable(name)}/", problem, f"not used; move them into {split[part]}", used=True)
        elif found:
            problem = f"{count_of(found, 'image')} in a folder beside {parts}"
            yield Fault(f"{make_printable(name)}/", problem, "not used; move them into one of these", used=True)
    loose = sorted(entry.name for entry in _entries(folder) if _is_loose_image(entry))
    if loose:
        problem = f"{count_of(loose, 'image')} beside {parts}"
        yield Fault(
            list_some(map(make_printable, loose), 1), problem, "not used; move them into one of these", used=True
        )


def _is_loose_image(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and _has_image_name(entry.name) and entry.is_file()


def _pools(
    folder: Path, listings: list[Listing], classes: Sequence[str] | None, folder_labels: bool, depth: int = 0
) -> list[Pool]:
    """A pool for each listing; they share their classes, which are the folders found `depth` folders down."""
    if not listings[0].files:
        raise _no_images(folder, listings[0])
    named = [[_class_folder(name, depth) if folder_labels else "" for name in listing.files] for listing in listings]
    known = class_names.sorted_classes(chain.from_iterable(named)) if classes is None else tuple(classes)
    return [_one_pool(folder, listing, names, known) for listing, names in zip(listings, named, strict=True)]


def _one_pool(folder: Path, listing: Listing, names: list[str], classes: tuple[str, ...]) -> Pool:
    ids = tuple(map(make_printable, listing.files))
    rows, unknown = class_names.rows_of(names, classes, ids)
    pool = Pool(
        ids,
        items=ImageFiles([folder / name for name in listing.files], ids),
        labels=rows if any(names) else None,
        classes=classes,
        faults=(*listing.faults, *_other_files(listing), *_unknown_folders(names, classes)),
    )
    return pool.take([row for row in range(len(pool)) if row not in unknown]) if unknown else pool


def list_images(folder: Path, under: str = "") -> Listing:
    """Every image below a folder, links followed but never round in a circle; no file is opened or looked up."""
    listing = Listing()
    start = folder / under
    # Each folder to visit with the real paths of all folders it lies in: a link back to one of them is a circle.
    waiting: list[tuple[str, str, tuple[str, ...]]] = [
        (f"{under}/" if under else "", str(start), (os.path.realpath(start),))
    ]
    while waiting:
        prefix, place, above = waiting.pop()
        try:
            with os.scandir(place) as found:
                visible = [entry for entry in found if not entry.name.startswith(".")]
        except OSError as error:
            listing.faults.append(
                Fault(
                    make_printable(prefix) or str(folder),
                    f"cannot be listed ({error.strerror})",
                    "check its permissions",
                )
            )
            continue
        for entry in visible:
            name = prefix + entry.name
            if entry.is_dir():
                real = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(above[-1], entry.name)  # noqa: PTH118
                if real in above:
                    note = Fault(make_printable(name), "a link to a folder it lies in", "not followed", used=True)
                    listing.faults.append(note)
                else:
                    waiting.append((f"{name}/", entry.path, (*above, real)))
            elif not _has_image_name(entry.name):
                if entry.name.lower() not in LITTER:
                    listing.others.append(name)
            elif entry.is_file():
                listing.files.append(name)
            else:
                listing.faults.append(
                    Fault(make_printable(name), "a link to nothing, or not a file", "put the file there or remove it")
                )
    listing.files.sort()
    listing.others.sort()
    listing.faults.sort(key=lambda fault: fault.item)
    return listing


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError as error:
        raise UnderstudyError(
            f"{folder} cannot be listed ({error.strerror}); check the path and its permissions"
        ) from error


def _has_image_name(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in images.SUFFIXES  # noqa: PTH122


def _class_folder(name: str, depth: int) -> str:
    """The folder that names the class of this file; "" for a file beside the class folders."""
    parts = name.split("/", depth + 1)
    return make_printable(parts[depth]) if len(parts) > depth + 1 else ""


def _unknown_folders(names: Sequence[str], classes: Sequence[str]) -> Iterator[Fault]:
    """One fault a folder: a thousand files in a folder with a typing error are one mistake."""
    counts = Counter(names)
    for name, unknown in sorted(class_names.unknown_names(names, classes).items()):
        yield Fault(f"{name}/ ({counts[name]:,} files)", *unknown)


def _other_files(listing: Listing) -> Iterator[Fault]:
    if listing.others:
        yield Fault(
            list_some(map(make_printable, listing.others), 1),
            "not images, judging by their names",
            "not used; convert what is one to PNG or JPEG",
            used=True,
        )


def _no_images(folder: Path, listing: Listing) -> UnderstudyError:
    beside = f", but it has {make_printable(listing.others[0])}" if listing.others else ""
    faults = f" ({listing.faults[0]})" if listing.faults else ""
    return UsageError(
        f"{folder} has no images{beside}{faults}; give a folder with files that end in .jpg, .png, .webp or the like"
    )
