"""The file of a backup: a zip of a project's files and its log, with the size and SHA-256 of each in `backup.json`.

The log is a JSON object a line, whatever database it came from, so that it can be restored into any other.
"""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from understudy.errors import UnderstudyError, UsageError
from understudy.messages import UPGRADE, reason_of
from understudy.sessions.log.events import Event, from_row

FORMAT: Final = 1
MANIFEST: Final = "backup.json"
LOG: Final = "log.jsonl"
FILES: Final = ("project.json", "items.parquet", "faults.jsonl", "tokens.json")  # of the project's folder, as they are
FOLDERS: Final = ("artifacts", "features")
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}")  # of a file in one of the folders
BYTES_PER_READ: Final = 2**20
MAX_MANIFEST_BYTES: Final = 2**26
SUFFIXES_TO_COMPRESS: Final = (".json", ".jsonl")  # the others are compressed already, or hardly can be
UNREADABLE: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError, ValueError, TypeError,
    AttributeError, OSError,
)  # fmt: skip


@dataclass(frozen=True)
class Manifest:
    """What stands in `backup.json`. `events` is the number of the last event in the log."""

    name: str
    identity: str
    made_at: str  # ISO 8601, in UTC
    version: str
    events: int
    files: dict[str, tuple[int, str]]  # bytes and SHA-256


class BackupWriter:
    """Writes the files of a backup one after another; `finish` writes what is known about them."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w")
        self.files: dict[str, tuple[int, str]] = {}

    def add(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write a file of these blocks."""
        entry = zipfile.ZipInfo(name)
        entry.external_attr = 0o600 << 16
        is_text = name.endswith(SUFFIXES_TO_COMPRESS)
        entry.compress_type = zipfile.ZIP_DEFLATED if is_text else zipfile.ZIP_STORED
        state, size = hashlib.sha256(), 0
        with self._zip.open(entry, "w", force_zip64=True) as file:
            for block in blocks:
                state.update(block)
                size += len(block)
                file.write(block)
        self.files[name] = size, state.hexdigest()

    def finish(self, *, name: str, identity: str, made_at: str, version: str, events: int) -> Manifest:
        """Write `backup.json` and the end of the zip."""
        manifest = Manifest(name, identity, made_at, version, events, dict(self.files))
        self._zip.writestr(MANIFEST, json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1))
        self._zip.close()
        return manifest


class BackupReader:
    """An open backup. All that is read is checked; a file that is cut short or was changed is refused in one line."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest, name: str) -> None:
        self._zip, self.manifest, self._name = archive, manifest, name

    def blocks(self, name: str) -> Iterator[bytes]:
        """The content of a file, a block at a time; an error at its end where it is not what was written."""
        size, digest = self.manifest.files[name]
        state, left = hashlib.sha256(), size
        with errors_of_backup(self._name), self._zip.open(name) as file:
            while block := file.read(BYTES_PER_READ):
                left -= len(block)
                if left < 0:  # before it fills the disk
                    break
                state.update(block)
                yield block
        if left or state.hexdigest() != digest:
            raise UnderstudyError(f"{self._name} is damaged: {name} is not what was written; use another backup")

    def events(self) -> list[Event]:
        """The whole log, as it was when the backup was made; each event without its number, to be stored anew."""
        content = b"".join(self.blocks(LOG))
        with errors_of_backup(self._name):
            rows = [json.loads(line) for line in content.splitlines()]
            if [row["seq"] for row in rows] != list(range(1, self.manifest.events + 1)):
                raise ValueError("its log has gaps")
            return [from_row({**row, "seq": 0, "data": json.dumps(row["data"])}) for row in rows]

    def verify(self) -> None:
        """Read every file once, which finds what is damaged."""
        for name in self.manifest.files:
            for _ in self.blocks(name):
                pass


@contextmanager
def open_backup(path: Path) -> Iterator[BackupReader]:
    """The backup in a file; a line where there is none, where it is cut short, or of a newer version."""
    name = str(path)
    if not path.is_file():
        raise UsageError(f"{name} is not a file; give a backup that `understudy backup` made")
    with errors_of_backup(name):
        archive = zipfile.ZipFile(path)
    with archive:
        with errors_of_backup(name):
            manifest = _read_manifest(archive, name)
            _check_names([entry.filename for entry in archive.infolist()], manifest)
        yield BackupReader(archive, manifest, name)


def _read_manifest(archive: zipfile.ZipFile, name: str) -> Manifest:
    if archive.getinfo(MANIFEST).file_size > MAX_MANIFEST_BYTES:
        raise ValueError(f"{MANIFEST} is too large")
    found: dict[str, Any] = json.loads(archive.read(MANIFEST))
    if int(found["format"]) > FORMAT:
        raise UnderstudyError(f"{name} has format {found['format']}, this version reads {FORMAT}; upgrade: {UPGRADE}")
    files = {str(path): (int(size), str(digest)) for path, (size, digest) in found["files"].items()}
    texts = {key: str(found[key]) for key in ("name", "identity", "made_at", "version")}
    return Manifest(**texts, events=int(found["events"]), files=files)


def _check_names(there: list[str], manifest: Manifest) -> None:
    """Refuse files that no backup has: one of them could lie outside of the folder that it is restored to."""
    if sorted(there) != sorted([*manifest.files, MANIFEST]):
        raise ValueError(f"its files are not those that {MANIFEST} lists")
    missing = {LOG, *FILES[:2]} - manifest.files.keys()
    if missing:
        raise ValueError(f"{min(missing)} is missing")
    for name in manifest.files:
        folder, _, rest = name.rpartition("/")
        if not (name in (*FILES, LOG) or (folder in FOLDERS and NAME.fullmatch(rest))):
            raise ValueError(f"it holds {name[:100]!r}, which is not a file of a project")


@contextmanager
def errors_of_backup(name: str) -> Iterator[None]:
    """Turn what goes wrong while a backup is read into one line."""
    try:
        yield
    except UnderstudyError:
        raise
    except UNREADABLE as error:
        reason = f"it has no {MANIFEST}" if isinstance(error, KeyError) else reason_of(error)
        raise UnderstudyError(f"{name} is not a whole backup ({reason}); use another one") from error


def log_lines(events: Iterable[Event]) -> Iterator[bytes]:
    """The log of a backup: an event a line."""
    for event in events:
        row = {
            "seq": event.seq, "at": event.at, "kind": event.kind, "item": event.item,
            "annotator": event.annotator, "key": event.key, "data": dict(event.data),
        }  # fmt: skip
        yield json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def blocks_of(path: Path) -> Iterator[bytes]:
    """The content of a file, a block at a time."""
    with path.open("rb") as file:
        while block := file.read(BYTES_PER_READ):
            yield block
