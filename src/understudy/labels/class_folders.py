"""Class folders in and out: one folder a class with its items in it, on the disk or in a zip.

Coming in, a file is known by its name, else by its content. Going out, folders on the disk hold links to the items or
copies of them.
"""

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
from understudy.data.files import atomic_folder
from understudy.data.items import Items, content_of, make_printable
from understudy.errors import NotStored, UnderstudyError, UsageError
from understudy.labels.export_data import ExportData
from understudy.labels.imported_labels import ImportEntry, UnusableEntry, label_of_entry
from understudy.labels.item_files import FILES, distinct_names, item_file, item_names, safe_name, with_suffix
from understudy.labels.matching import LINE_NUMBER, Matcher
from understudy.labels.streams import encode_utf8, zip_stream
from understudy.version import __version__

FOLDERS_FILE: Final = ".understudy.json"  # which class a folder is; hidden, so that it is not taken for an item
LEFT_OUT_FILE: Final = "left-out.txt"  # in a zip: items whose file could not be read
MAX_FILES: Final = 2_000_000
MAX_ITEM_BYTES: Final = 256 * 2**20  # of a file in a zip that is unpacked to compare it
MAX_UNPACKED_BYTES: Final = 4 * 2**30  # of all of them together
MAX_EXPANSION: Final = 10  # times the zip itself: images are compressed already, and texts hardly shrink further
MIN_UNPACKED_BYTES: Final = 2**24  # that every zip may unpack to
BYTES_PER_READ: Final = 2**16
SAFE_COMPRESSION: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})  # others may expand a thousandfold


# -- in --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassFile:
    """A file below the folder of a class: its path from there on, and how to read its content."""

    folder: str
    rest: str
    read: Callable[[], bytes | None]


def read_class_folders(path: Path, matcher: Matcher, columns: Mapping[str, str]) -> Iterator[ImportEntry]:
    """Each file's class, or why it has none. Files beside the folders and hidden ones do not count."""
    del columns  # there are none
    with ExitStack() as stack:
        files, about = _files_in_zip(path, stack) if path.is_file() else _files_in_folder(path)
        classes = _classes_of_folders(about)
        matches = [(file, _matching_rows(matcher, file)) for file in files]
        if not matches:
            raise UsageError(f"{path} has no files in folders; give a folder with one folder a class")
        claims: dict[frozenset[int], set[str]] = {}
        for file, rows in matches:
            claims.setdefault(rows, set()).add(file.folder)
        for file, rows in matches:
            # cat/1.png and dog/1.png cannot both be the item 1.png: which of them is, only their content says.
            name = make_printable(f"{file.folder}/{file.rest}")
            is_claimed_twice = len(rows) == 1 and len(claims[rows]) > 1
            if is_claimed_twice and not (same := _rows_of_content(matcher, file)):
                yield UnusableEntry("ambiguous", name)
                continue
            label = classes.get(file.folder, file.folder)
            yield label_of_entry(same if is_claimed_twice else rows, name, label)


def _matching_rows(matcher: Matcher, file: ClassFile) -> frozenset[int]:
    """By the name below the class's folder, or the name with it, or its end; the content decides between several."""
    by_name = matcher.by_file_name(file.rest) | matcher.by_file_name(f"{file.folder}/{file.rest}")
    by_name = by_name or matcher.by_end(file.rest)
    if len(by_name) == 1 and not _is_contradicted(matcher, next(iter(by_name)), file):
        return by_name
    if len(by_name) == 1:
        return _rows_of_content(matcher, file)
    same = _rows_of_content(matcher, file)
    return (by_name & same or by_name) if by_name else same


def _is_contradicted(matcher: Matcher, row: int, file: ClassFile) -> bool:
    """Whether a file that is called after a line of a table holds another text than that line."""
    if not LINE_NUMBER.fullmatch(matcher.ids[row]):
        return False
    content = file.read()
    return content is not None and matcher.is_contradicted(row, content.decode("utf-8", "replace"))


def _rows_of_content(matcher: Matcher, file: ClassFile) -> frozenset[int]:
    content = file.read()
    return frozenset() if content is None else matcher.by_content(content)


def _classes_of_folders(about: Any) -> dict[str, str]:
    """The class of each folder whose name had to be changed, as our own export notes it."""
    folders = about.get("folders") if isinstance(about, dict) else None
    if not isinstance(folders, dict):
        return {}
    return {folder: name for folder, name in folders.items() if isinstance(name, str)}


def _files_in_folder(path: Path) -> tuple[Iterator[ClassFile], Any]:
    about = path / FOLDERS_FILE
    return _walk_classes(path), _parse_json(about.read_bytes()) if about.is_file() and not about.is_symlink() else None


def _walk_classes(path: Path) -> Iterator[ClassFile]:
    """Every file below a class's folder, sorted by name. Links to files count; links to folders are not followed."""
    for place, inside, files in os.walk(path):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        here = Path(place).relative_to(path).as_posix()
        folder, _, below = here.partition("/")
        for name in sorted(files) if here != "." else []:
            if not name.startswith("."):
                rest = f"{below}/{name}" if below else name
                yield ClassFile(folder, rest, lambda file=Path(place) / name: _content_or_none(file))  # type: ignore[misc]


def _content_or_none(file: Path) -> bytes | None:
    try:
        return content_of(file, file.name)
    except ItemFault:
        return None


def _files_in_zip(path: Path, stack: ExitStack) -> tuple[Iterator[ClassFile], Any]:
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnderstudyError(f"{path} is not a zip file that can be read ({error}); make it again") from error
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > MAX_FILES:
        raise UnderstudyError(f"{path} has {len(members):,} files; it must have at most {MAX_FILES:,}")
    unpacker = ZipUnpacker(archive, path.stat().st_size)
    about = next((member for member in members if member.filename == FOLDERS_FILE), None)
    return _class_files(members, unpacker), None if about is None else _parse_json(unpacker.read(about) or b"")


def _class_files(members: list[zipfile.ZipInfo], unpacker: "ZipUnpacker") -> Iterator[ClassFile]:
    for member in sorted(members, key=lambda member: member.filename):
        parts = [part for part in member.filename.replace("\\", "/").split("/") if part not in ("", ".")]
        if len(parts) > 1 and not any(part.startswith(".") or part == "__MACOSX" for part in parts):
            yield ClassFile(parts[0], "/".join(parts[1:]), lambda member=member: unpacker.read(member))  # type: ignore[misc]


class ZipUnpacker:
    """Files of a zip, unpacked in memory one at a time and within limits: a zip bomb is not unpacked."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self.archive = archive
        self.bytes_left = min(MAX_UNPACKED_BYTES, max(MIN_UNPACKED_BYTES, MAX_EXPANSION * size))

    def read(self, member: zipfile.ZipInfo) -> bytes | None:
        """The content of a file, or None where it is damaged, encrypted or too large."""
        most = min(MAX_ITEM_BYTES, self.bytes_left)
        if member.compress_type not in SAFE_COMPRESSION or member.file_size > most or member.flag_bits & 1:  # encrypted
            return None
        content = bytearray()
        # What was read counts even if it turns out damaged: many members may share the same bytes of the file.
        self.bytes_left -= member.compress_size
        try:
            with self.archive.open(member) as file:
                while len(content) <= most:  # its header may lie about its size
                    self.bytes_left -= BYTES_PER_READ  # before reading: a wrong checksum raises only after unpacking
                    piece = file.read(BYTES_PER_READ)
                    self.bytes_left += BYTES_PER_READ - len(piece)
                    if not piece:
                        return bytes(content)
                    content += piece
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
            return None
        return None


def _parse_json(content: bytes) -> Any:
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError):
        return None


# -- out -------------------------------------------------------------------------------------------------------


def write_class_folders(data: ExportData, folder: Path, *, copy: bool = False) -> tuple[int, list[str]]:
    """Write one folder a class, with links to its items or copies. How many items; and those left out, each with why.

    Texts, and images that are not files of their own, are always written. The folder appears complete or not at all.
    """
    items = _require_items(data)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already; give a new folder, so that nothing old is left in it")
    left_out: list[str] = []
    count = 0
    with atomic_folder(folder) as draft:
        (draft / FOLDERS_FILE).write_text(_describe_folders(data), encoding="utf-8")
        for row, place in _item_places(data):
            try:
                if isinstance(items, FILES) and not copy:
                    _link(items.paths[row], draft / place, items.names[row])
                else:
                    content, suffix = item_file(items, row)
                    _write_new(draft / with_suffix(place, suffix), content)
                count += 1
            except ItemFault as error:
                left_out.append(str(error))
    return count, left_out


def _link(target: Path, place: Path, name: str) -> None:
    if not target.is_file():
        content_of(target, name)  # raises an ItemFault that says what is wrong with it
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.symlink_to(target.absolute())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise NotStored(f"cannot link {name}: {reason}; copy the items with --copy, or choose another place") from error


def _write_new(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as file:  # never through a link, never over another file
        file.write(content)


def write_zip(data: ExportData) -> Iterator[bytes]:
    """The folders in a zip, one file after another. Items that cannot be read are listed in a file beside them."""
    return zip_stream(_zip_files(data, _require_items(data)))  # an error at once where there are no items


def _zip_files(data: ExportData, items: Items) -> Iterator[tuple[str, bytes, int]]:
    yield FOLDERS_FILE, encode_utf8(_describe_folders(data)), zipfile.ZIP_STORED
    left_out: list[str] = []
    for row, place in _item_places(data):
        try:
            content, suffix = item_file(items, row)
        except ItemFault as error:
            left_out.append(str(error))
            continue
        compression = zipfile.ZIP_DEFLATED if suffix == ".txt" else zipfile.ZIP_STORED  # images are compressed already
        yield with_suffix(place, suffix), content, compression
    if left_out:
        yield LEFT_OUT_FILE, encode_utf8("".join(f"{line}\n" for line in left_out)), zipfile.ZIP_STORED


def folder_names(classes: tuple[str, ...]) -> dict[str, str]:
    """A folder for each class: safe, and distinct also where A and a are the same."""
    return dict(zip(classes, distinct_names([safe_name(name) for name in classes]), strict=True))


def _describe_folders(data: ExportData) -> str:
    """The JSON from which our import learns which class a folder is: not every name of a class can name a folder."""
    folders = {folder: name for name, folder in folder_names(data.classes).items()}
    return json.dumps({"format": 1, "made_by": f"understudy {__version__}", "folders": folders}, indent=1)


def _item_places(data: ExportData) -> Iterator[tuple[int, str]]:
    """Each labelled item and its path below the top folder, in the order of the pool."""
    folders, names = folder_names(data.classes), item_names(data.ids, data.items)
    for row in sorted(data.effective):
        yield row, f"{folders[data.effective[row]]}/{names[row]}"


def _require_items(data: ExportData) -> Items:
    if data.items is None:
        raise UsageError("this pool has features only, no images or texts to put into folders; export csv")
    return data.items
