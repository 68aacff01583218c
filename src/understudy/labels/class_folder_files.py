"""Folders of classes out: one folder a class with links to the items or copies of them, or the same in a zip."""

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from understudy.data.faults import ItemFault
from understudy.data.items import Items, content_of
from understudy.errors import NotStored, UsageError
from understudy.labels.class_folders import ABOUT
from understudy.labels.item_files import FILES, distinct, item_file, item_names, safe_name, with_suffix
from understudy.labels.outgoing import Outgoing
from understudy.labels.streams import Drain, encoded
from understudy.version import __version__

LEFT_OUT: Final = "left-out.txt"  # beside the folders: items whose file could not be read
THEN: Final = (1980, 1, 1, 0, 0, 0)  # the time of every file in a zip, so that the same labels make the same zip


def folder_names(classes: tuple[str, ...]) -> dict[str, str]:
    """A folder for each class: safe, and distinct also where A and a are the same."""
    return dict(zip(classes, distinct([safe_name(name) for name in classes]), strict=True))


def _about_folders(out: Outgoing) -> str:
    """What our import reads to know the classes again whose names no folder can have."""
    folders = {folder: name for name, folder in folder_names(out.classes).items()}
    return json.dumps({"format": 1, "made_by": f"understudy {__version__}", "folders": folders}, indent=1)


def write_class_folders(out: Outgoing, folder: Path, *, copy: bool = False) -> tuple[int, list[str]]:
    """One folder a class, links to the items in it, or copies. How many, and those that were left out and why.

    Texts and images that are no files of their own are always written. The folder is there whole or not at all.
    """
    items = _require_items(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already; give a new folder, so that nothing old is left in it")
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    left_out: list[str] = []
    count = 0
    try:
        draft.mkdir(parents=True)
        (draft / ABOUT).write_text(_about_folders(out), encoding="utf-8")
        for row, place in _places(out):
            try:
                if isinstance(items, FILES) and not copy:
                    _link(items.paths[row], draft / place, items.names[row])
                else:
                    content, suffix = item_file(items, row)
                    _write_new(draft / with_suffix(place, suffix), content)
                count += 1
            except ItemFault as error:
                left_out.append(str(error))
        if folder.exists():
            folder.rmdir()
        draft.replace(folder)
    except OSError as error:
        said = error.strerror or type(error).__name__
        advice = "try --copy, or choose another place" if not copy else "make room or choose another place"
        raise NotStored(f"cannot write {folder}: {said}; {advice}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return count, left_out


def _link(target: Path, place: Path, name: str) -> None:
    if not target.is_file():
        content_of(target, name)  # which says what is wrong with it
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target.absolute())


def _write_new(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as file:  # never through a link, never over another
        file.write(content)


def class_folders_zip(out: Outgoing) -> Iterator[bytes]:
    """The folders in a zip, one file after another. Items that cannot be read are listed in a file beside them."""
    return _zipped_folders(out, _require_items(out))  # which is found out before the first byte is sent


def _zipped_folders(out: Outgoing, items: Items) -> Iterator[bytes]:
    drain = Drain()
    left_out: list[str] = []
    with zipfile.ZipFile(drain, "w") as archive:
        archive.writestr(member(ABOUT), encoded(_about_folders(out)))
        for row, place in _places(out):
            try:
                content, suffix = item_file(items, row)
            except ItemFault as error:
                left_out.append(str(error))
                continue
            packed = zipfile.ZIP_DEFLATED if suffix == ".txt" else zipfile.ZIP_STORED  # pictures are packed already
            archive.writestr(member(with_suffix(place, suffix)), content, packed)
            yield drain.taken()
        if left_out:
            archive.writestr(member(LEFT_OUT), encoded("".join(f"{line}\n" for line in left_out)))
    yield drain.taken()


def member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, THEN)
    info.external_attr = 0o644 << 16
    info.create_system = 3  # said to be from Unix wherever it is made
    return info


def _places(out: Outgoing) -> Iterator[tuple[int, str]]:
    """Each labelled item and its path from the top folder on, in the order of the pool."""
    folders, names = folder_names(out.classes), item_names(out.ids, out.items)
    for row in sorted(out.effective):
        yield row, f"{folders[out.effective[row]]}/{names[row]}"


def _require_items(out: Outgoing) -> Items:
    if out.items is None:
        raise UsageError("this pool has features only, no images or texts to put into folders; export csv")
    return out.items
