"""Pools from a folder of images or of texts: flat, one folder a class, or either of these under `train` and `test`."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final

from understudy.data import class_names, images, splits
from understudy.data.faults import Fault, ItemFault
from understudy.data.items import ImageFiles, Texts, content_of, make_printable
from understudy.data.pool import Dataset, Pool
from understudy.data.text_encodings import decode_text
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of, install_command, list_some

TEXT_SUFFIX: Final = ".txt"
MAX_KINDS_LISTED: Final = 6
LITTER: Final = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})  # what systems leave in folders


@dataclass
class Listing:
    """Files of one kind by their path relative to a folder, in order, and what was found beside them."""

    files: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    are_texts: bool = False
    faults: list[Fault] = field(default_factory=list)


def load_folder(folder: Path, classes: Sequence[str] | None = None, folder_labels: bool = True) -> Dataset:
    """The images under a folder, or its texts (.txt) where it has no images.

    The first folder on the way to a file is its class, unless `folder_labels` is off.
    """
    name = folder.resolve().name
    split, unused = _split_folders(folder)
    if not split:
        listing = list_images(folder)
        if not listing.files and any(_suffix_of(other) == TEXT_SUFFIX for other in listing.others):
            listing = _take_texts(listing)
        return Dataset(name, *_pools(folder, [listing], classes, folder_labels))
    listings = {part: list_images(folder, under) for part, under in split.items()}
    if not any(listing.files for listing in listings.values()):
        listings = {part: _take_texts(listing) for part, listing in listings.items()}
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
    items: ImageFiles | Texts = ImageFiles([folder / name for name in listing.files], ids)
    notes: list[Fault] = []
    if listing.are_texts:
        items, broken, notes = _read_texts(folder, listing.files, ids)
        unknown = {**unknown, **broken}
        notes += broken.values()
    pool = Pool(
        ids,
        items=items,
        labels=rows if any(names) else None,
        classes=classes,
        faults=(*listing.faults, *_other_files(listing), *_unknown_folders(names, classes), *notes),
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
    suffix = _suffix_of(name)
    return suffix in images.SUFFIXES or (suffix in images.HEIC_SUFFIXES and images.reads_heic())


def _suffix_of(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122


def _take_texts(listing: Listing) -> Listing:
    """The listing of a folder without images, with its texts as the files."""
    texts = [name for name in listing.others if _suffix_of(name) == TEXT_SUFFIX]
    others = [name for name in listing.others if _suffix_of(name) != TEXT_SUFFIX]
    return Listing(texts, others, are_texts=True, faults=listing.faults)


def _read_texts(folder: Path, files: Sequence[str], ids: Sequence[str]) -> tuple[Texts, dict[int, Fault], list[Fault]]:
    """The texts of files, the faults of those that cannot be used, and a note on those that are not in UTF-8."""
    texts, faulty, foreign = [], dict[int, Fault](), list[Fault]()
    for row, name in enumerate(files):
        text = ""
        try:
            text, encoding = decode_text(content_of(folder / name, ids[row]), ids[row])
            if encoding.note is not None:
                foreign.append(encoding.note)
            if not text.strip():
                faulty[row] = Fault(ids[row], "the text is empty", "fill it in or remove the file")
        except ItemFault as error:
            faulty[row] = error.fault
        except UnderstudyError:
            faulty[row] = Fault(ids[row], "neither in UTF-8 nor in an encoding that is recognised", "save it as UTF-8")
        texts.append(text)
    if len(foreign) > 1:
        first = replace(foreign[0], item=f"{foreign[0].item} and {len(foreign) - 1:,} more")
        foreign = [first]
    return Texts(texts, [f"file {name}" for name in ids]), faulty, foreign


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
    """A note on files that are not used, by the ends of their names; one of its own on HEIC that could be read."""
    heic = [name for name in listing.others if _suffix_of(name) in images.HEIC_SUFFIXES]
    others = [name for name in listing.others if name not in set(heic)]
    if heic:
        yield Fault(
            f"{count_of(heic, '.heic file')}",
            "left out, as HEIC needs one more package",
            f"{install_command('heic')}, then open this again",
            used=True,
        )
    if others:
        counts = Counter(_suffix_of(name) or "without an ending" for name in others)
        kinds = [f"{number:,} {kind}" for kind, number in counts.most_common()]
        what = "not texts" if listing.are_texts else "not images"
        yield Fault(
            count_of(others, "file"),
            f"left out, {what} judging by their names: {list_some(kinds, MAX_KINDS_LISTED)} "
            f"({list_some(map(make_printable, others), 1)})",
            "convert what is one to PNG or JPEG" if not listing.are_texts else "save what is one as .txt",
            used=True,
        )


def _no_images(folder: Path, listing: Listing) -> UnderstudyError:
    heic = [name for name in listing.others if _suffix_of(name) in images.HEIC_SUFFIXES]
    if heic:
        found = count_of(heic, ".heic file")
        return UsageError(f"{folder} has {found}, and HEIC needs one more package: {install_command('heic')}")
    beside = f", but it has {make_printable(listing.others[0])}" if listing.others else ""
    faults = f" ({listing.faults[0]})" if listing.faults else ""
    return UsageError(
        f"{folder} has no images or texts{beside}{faults}; give a folder with files that end in .jpg, .png, .txt or so"
    )
