"""A copy of a project in one file, made while people label, and a project made of such a file again.

The log is read first, up to its last event of that moment: since it only grows, that is a state the project was in.
What the log refers to was written before the event that refers to it, so it is there when it is copied afterwards.

The file is a zip of the project's files and its log, with the size and SHA-256 of each in `backup.json`. The log is a
JSON object a line, whatever database it came from, so that it can be restored into any other.
"""

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow.parquet as pq

from understudy.data.files import BYTES_PER_READ, atomic_file, atomic_folder, is_draft, read_blocks, write_atomically
from understudy.errors import Conflict, UnderstudyError, UsageError
from understudy.messages import UPGRADE, count_of, list_some, reason_of
from understudy.projects.item_table import FEATURES_FOLDER, features_path
from understudy.projects.project_file import FILE, existing_folder, name_of, read_info, store_url_of
from understudy.projects.project_file import LOG as SQLITE_LOG
from understudy.sessions.log.events import Event, from_row
from understudy.sessions.log.log import EventLog
from understudy.sessions.opening import require_log
from understudy.store_urls import SQLITE, full_url, kept_url, sqlite_url, without_password
from understudy.version import __version__

FORMAT: Final = 1
MANIFEST: Final = "backup.json"
LOG: Final = "log.jsonl"
FILES: Final = ("project.json", "items.parquet", "faults.jsonl", "columns.parquet", "tokens.json")  # as they are
ARTIFACTS: Final = "artifacts"
FOLDERS: Final = (ARTIFACTS, FEATURES_FOLDER)
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}")  # of a file in one of the folders
MAX_MANIFEST_BYTES: Final = 2**26
SUFFIXES_TO_COMPRESS: Final = (".json", ".jsonl")  # the others are compressed already, or hardly can be
UNREADABLE: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError, ValueError, TypeError,
    AttributeError, OSError,
)  # fmt: skip
SUFFIX: Final = ".backup.zip"
HASH: Final = re.compile("[0-9a-f]{64}")  # by which an event refers to a file in `artifacts`
PRIVATE: Final = 0o600  # a backup holds people's names and what they labelled
ITEMS: Final = FILES[1]
MAX_TRIES: Final = 10  # to read items and features that belong together


# -- the file -----------------------------------------------------------------------------------------------


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
        with _errors_of_backup(self._name), self._zip.open(name) as file:
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
        with _errors_of_backup(self._name):
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
    with _errors_of_backup(name):
        archive = zipfile.ZipFile(path)
    with archive:
        with _errors_of_backup(name):
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
def _errors_of_backup(name: str) -> Iterator[None]:
    """Turn what goes wrong while a backup is read into one line."""
    try:
        yield
    except UnderstudyError:
        raise
    except UNREADABLE as error:
        reason = f"it has no {MANIFEST}" if isinstance(error, KeyError) else reason_of(error)
        raise UnderstudyError(f"{name} is not a whole backup ({reason}); use another one") from error


def _log_lines(events: Iterable[Event]) -> Iterator[bytes]:
    """The log of a backup: an event a line."""
    for event in events:
        row = {
            "seq": event.seq, "at": event.at, "kind": event.kind, "item": event.item,
            "annotator": event.annotator, "key": event.key, "data": dict(event.data),
        }  # fmt: skip
        yield json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n"


# -- made and restored ---------------------------------------------------------------------------------------


def back_up(source: str, file: Path | None = None, *, store: str | None = None) -> Iterator[str]:
    """Copy a project into one file, also while people label; lines that say what became of it.

    The file is written whole or not at all, and read once more before it takes its place. A backup of the same project
    that is there already is replaced; any other file is not.
    """
    folder = existing_folder(source)
    info = read_info(folder)
    url = store_url_of(folder, info.store, store)
    if not (folder / ITEMS).exists():
        raise UsageError(f"{folder} was never labelled; begin with: understudy label {folder}")
    require_log(folder, url, info.identity)
    now = datetime.now(UTC)
    path = _path_of_backup(file, f"{name_of(folder)}-{now:%Y%m%d-%H%M%S}{SUFFIX}", info.identity)
    with closing(EventLog.open(url, info.identity, read_only=True)) as log:
        last = log.last()
        if not last:
            raise UsageError(f"{folder} was never labelled; begin with: understudy label {folder}")
        with atomic_file(path, mode=PRIVATE, parents=True) as draft:
            writer, wanted = BackupWriter(draft), set[str]()
            events = takewhile(lambda event: event.seq <= last, log.read())
            writer.add(LOG, _log_lines(_note_files(events, wanted)))
            _add_files(writer, folder)
            about = {"name": info.name, "identity": info.identity, "version": __version__}
            manifest = writer.finish(**about, made_at=now.isoformat(timespec="seconds"), events=last)
            draft.flush()
            with open_backup(Path(draft.name)) as written:
                written.verify()
    yield f"{path}: {path.stat().st_size:,} bytes, {count_of(last, 'event')}, {count_of(len(manifest.files), 'file')}"
    kept = {name.partition("/")[2].partition(".")[0] for name in manifest.files if name.startswith("artifacts/")}
    if missing := sorted(wanted - kept):
        shown = list_some([f"{name[:12]}…" for name in missing])
        yield f"left out, since it is missing in the project: {shown}"
    yield f"back again with: understudy restore {path} NEW-FOLDER"


def _path_of_backup(file: Path | None, usual: str, identity: str) -> Path:
    """Where the backup goes: the file given, or one of the usual name in the folder given or here."""
    if file is None or file.is_dir():
        return (Path() if file is None else file) / usual
    if file.exists():
        try:
            with open_backup(file) as found:
                is_same = found.manifest.identity == identity
        except UnderstudyError:
            is_same = False
        if not is_same:
            raise UsageError(f"{file} is there and is not a backup of this project; give another name")
    return file


def _note_files(events: Iterator[Event], wanted: set[str]) -> Iterator[Event]:
    """The events as they are; the files that they refer to are noted."""
    for event in events:
        if event.kind == "trained":
            wanted.update(value for value in event.data.values() if isinstance(value, str) and HASH.fullmatch(value))
        yield event


def _add_files(writer: BackupWriter, folder: Path) -> None:
    """Write the files of a project; Conflict where it was opened or changed meanwhile, so that they may not fit.

    Items may join all the time. Those of one moment are written, with the features that belong to them.
    """
    items, features = _read_items(folder)
    with features:
        for name in FILES:
            if name == ITEMS:
                writer.add(name, [items])
            elif (folder / name).exists():
                writer.add(name, read_blocks(folder / name))
        writer.add(f"{FEATURES_FOLDER}/{Path(features.name).name}", iter(lambda: features.read(BYTES_PER_READ), b""))
    try:
        paths = sorted((folder / ARTIFACTS).iterdir()) if (folder / ARTIFACTS).is_dir() else []
        for path in paths:
            if path.is_file() and not is_draft(path.name) and not path.name.startswith("."):
                writer.add(f"{ARTIFACTS}/{path.name}", read_blocks(path))
        is_same = hashlib.sha256((folder / FILE).read_bytes()).hexdigest() == writer.files[FILE][1]
    except FileNotFoundError:
        is_same = False
    if not is_same:
        raise Conflict(f"{folder} was changed while it was copied; run this again")


def _read_items(folder: Path) -> tuple[bytes, BinaryIO]:
    """The items of a project, and the open file of their features, which stays whole whatever joins meanwhile."""
    for _ in range(MAX_TRIES):
        items = (folder / ITEMS).read_bytes()
        n = pq.ParquetFile(io.BytesIO(items)).metadata.num_rows
        path = features_path(folder, n, read_info(folder).features_version)
        with suppress(FileNotFoundError):  # items joined just now, and the features of before are gone
            return items, path.open("rb")
    raise UnderstudyError(f"{path} is missing; restore {folder} from an earlier backup")


def restore_backup(file: Path, folder: Path, *, store: str | None = None) -> Iterator[str]:
    """Make the project of a backup in a new folder; lines that say what became of it.

    Everything is checked before the folder appears. Without `store` the log goes where it was: into the folder, or
    into the same PostgreSQL database; never over a log that is there.
    """
    folder = folder.expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already; give a folder that is new or empty")
    own = sqlite_url(folder.absolute() / SQLITE_LOG)
    wanted = None if store is None else full_url(store)
    with open_backup(file) as backup, atomic_folder(folder) as draft:
        manifest = backup.manifest
        _extract(backup, draft)
        about = _read_project_file(draft / FILE, str(file))
        was = about.get("store")
        url = wanted or (own if was is None or str(was).startswith(SQLITE) else str(was))
        about["store"] = None if url == own else kept_url(url)
        write_atomically(draft / FILE, (json.dumps(about, indent=1, ensure_ascii=True) + "\n").encode())
        _store_events(sqlite_url(draft / SQLITE_LOG) if url == own else url, manifest, backup.events())
    info = read_info(folder)
    where = folder if url == own else without_password(url)
    yield f"{folder}: {info.name}, as it was at {manifest.made_at}; {count_of(manifest.events, 'event')} in {where}"
    if info.origin.name is None and info.origin.find(folder) is None:
        yield f"its data is not at {info.origin}; open it with: understudy label DATA --project {folder}"
    else:
        yield f"go on with: understudy label {folder}"


def _extract(backup: BackupReader, draft: Path) -> None:
    for name in backup.manifest.files:
        if name != LOG:
            mode = PRIVATE if name == "tokens.json" else None
            write_atomically(draft / name, backup.blocks(name), mode=mode, parents=True)


def _read_project_file(path: Path, name: str) -> dict[str, Any]:
    with _errors_of_backup(name):
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"{FILE} is not what it was")
    read_info(path.parent)  # an error where this version cannot open it
    return found


def _store_events(url: str, manifest: Manifest, events: list[Event]) -> None:
    """Store the events in a log that is empty, all or none."""
    with closing(EventLog.open(url, manifest.identity)) as log:
        log.lock()
        if there := log.last():
            raise Conflict(
                f"{log.store.name} has a log of this project already ({count_of(there, 'event')}), which is kept; "
                "give --store another database, or sqlite:///FOLDER/log.sqlite3"
            )
        log.append(*events)
