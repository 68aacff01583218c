"""Folders of classes in: one folder a class, on the disk or in a zip. Files are known by name, else by content."""

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from understudy.data.faults import ItemFault
from understudy.data.items import content_of, printable
from understudy.errors import UnderstudyError, UsageError
from understudy.labels.found_labels import Entry, Trouble, settled
from understudy.labels.matching import Matcher

ABOUT: Final = ".understudy.json"  # hidden, so that no reader of images takes it for an item
MOST_FILES: Final = 2_000_000
LARGEST_ITEM: Final = 256 * 2**20  # bytes of a file in a zip that is unpacked to compare it
LARGEST_UNPACKED: Final = 4 * 2**30  # of all of them together
BURST: Final = 10  # and as many times the zip itself: pictures are packed already, and texts hardly shrink further
SMALL: Final = 2**24  # bytes that every zip may unpack to
PIECE: Final = 2**16  # bytes unpacked at once
PACKED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})  # others may unpack to thousands of times more


@dataclass(frozen=True)
class Found:
    """A file below the folder of a class: its path from there on, and a way to its content."""

    folder: str
    rest: str
    content: Callable[[], bytes | None]


def read_class_folders(path: Path, matcher: Matcher, named: Mapping[str, str]) -> Iterator[Entry]:
    """Each file's class, or why it has none. Files beside the folders and hidden ones are left alone."""
    del named  # there are no columns
    with ExitStack() as stack:
        files, about = _in_zip(path, stack) if path.is_file() else _in_folder(path)
        classes = _class_of_folder(about)
        meant = [(found, _rows_meant(matcher, found)) for found in files]
        if not meant:
            raise UsageError(f"{path} has no files in folders; give a folder with one folder a class")
        claims: dict[frozenset[int], set[str]] = {}
        for found, rows in meant:
            claims.setdefault(rows, set()).add(found.folder)
        for found, rows in meant:
            # cat/1.png and dog/1.png cannot both be the item 1.png: which of them is, only their content says.
            name = printable(f"{found.folder}/{found.rest}")
            is_claimed_twice = len(rows) == 1 and len(claims[rows]) > 1
            if is_claimed_twice and not (same := _same_content(matcher, found)):
                yield Trouble("ambiguous", name)
                continue
            label = classes.get(found.folder, found.folder)
            yield settled(same if is_claimed_twice else rows, name, label, None, None)


def _rows_meant(matcher: Matcher, found: Found) -> frozenset[int]:
    """By the name below the class's folder, or the name with it, or its end; the content decides between several."""
    whole = f"{found.folder}/{found.rest}"
    named = matcher.by_file_name(found.rest) | matcher.by_file_name(whole)
    named = named or matcher.by_end(found.rest)
    if len(named) == 1:
        return named
    same = _same_content(matcher, found)
    return (named & same or named) if named else same


def _same_content(matcher: Matcher, found: Found) -> frozenset[int]:
    content = found.content()
    return frozenset() if content is None else matcher.by_content(content)


def _class_of_folder(about: Any) -> dict[str, str]:
    """The class of each folder whose name had to be changed, as our own export notes it."""
    folders = about.get("folders") if isinstance(about, dict) else None
    if not isinstance(folders, dict):
        return {}
    return {folder: name for folder, name in folders.items() if isinstance(name, str)}


def _in_folder(path: Path) -> tuple[Iterator[Found], Any]:
    about = path / ABOUT
    return _files_below(path), _parsed(about.read_bytes()) if about.is_file() and not about.is_symlink() else None


def _files_below(path: Path) -> Iterator[Found]:
    """Every file below a class's folder, in the order of names. Links to files are files; to folders, not followed."""
    for place, inside, files in os.walk(path):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        here = Path(place).relative_to(path).as_posix()
        folder, _, below = here.partition("/")
        for name in sorted(files) if here != "." else []:
            if not name.startswith("."):
                rest = f"{below}/{name}" if below else name
                yield Found(folder, rest, lambda file=Path(place) / name: _content_or_none(file))  # type: ignore[misc]


def _content_or_none(file: Path) -> bytes | None:
    try:
        return content_of(file, file.name)
    except ItemFault:
        return None


def _in_zip(path: Path, stack: ExitStack) -> tuple[Iterator[Found], Any]:
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnderstudyError(f"{path} is no zip file that can be read ({error}); make it again") from error
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > MOST_FILES:
        raise UnderstudyError(f"{path} has {len(members):,} files; {MOST_FILES:,} are the most")
    unpacked = Unpacked(archive, path.stat().st_size)
    about = next((member for member in members if member.filename == ABOUT), None)
    return _zipped(members, unpacked), None if about is None else _parsed(unpacked.content(about) or b"")


def _zipped(members: list[zipfile.ZipInfo], unpacked: "Unpacked") -> Iterator[Found]:
    for member in sorted(members, key=lambda member: member.filename):
        parts = [part for part in member.filename.replace("\\", "/").split("/") if part not in ("", ".")]
        if len(parts) > 1 and not any(part.startswith(".") or part == "__MACOSX" for part in parts):
            yield Found(parts[0], "/".join(parts[1:]), lambda member=member: unpacked.content(member))  # type: ignore[misc]


class Unpacked:
    """Files of a zip, unpacked in memory one at a time and never more than the limits: a zip may be made to burst."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self.archive = archive
        self.left = min(LARGEST_UNPACKED, max(SMALL, BURST * size))

    def content(self, member: zipfile.ZipInfo) -> bytes | None:
        most = min(LARGEST_ITEM, self.left)
        if member.compress_type not in PACKED or member.file_size > most or member.flag_bits & 1:  # encrypted
            return None
        content = bytearray()
        # What was read counts, whatever comes of it: many members may be one and the same piece of the file.
        self.left -= member.compress_size
        try:
            with self.archive.open(member) as file:
                while len(content) <= most:  # its header may lie about its size
                    self.left -= PIECE  # before it is unpacked: a wrong checksum is found after that
                    piece = file.read(PIECE)
                    self.left += PIECE - len(piece)
                    if not piece:
                        return bytes(content)
                    content += piece
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
            return None
        return None


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError):
        return None
