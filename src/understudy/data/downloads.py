"""Downloads: resumed after a break, checked against a checksum, complete or not there at all."""

import errno
import hashlib
import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from understudy.data.files import replace_durably, sync_file
from understudy.errors import UnderstudyError

BYTES_PER_READ: Final = 1 << 18
TEMPORARY_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})  # answers that may be better next time
TRY_AGAIN: Final = "check the address and the network, then run it again"

Advance = Callable[[int, int | None], None]  # bytes so far, bytes in all if the server says


class Dropped(Exception):
    """The connection broke, or the server was busy; what came before it is kept."""


@dataclass(frozen=True)
class Part:
    """A download that is not yet whole: its bytes, and beside them which remote file they are from."""

    path: Path

    @property
    def notes(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def validator(self, url: str) -> str | None:
        """What the server called this version of the file; None if these bytes cannot be continued."""
        try:
            notes = json.loads(self.notes.read_text())
            return str(notes["validator"]) if notes["url"] == url and notes["validator"] else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def start(self, url: str, validator: str | None) -> None:
        # Emptied first: a kill between the two lines must not leave old bytes under a new name.
        self.path.write_bytes(b"")
        self.notes.write_text(json.dumps({"url": url, "validator": validator}))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)


def download(
    url: str,
    target: str | Path,
    *,
    checksum: str | None = None,
    progress: bool = True,
    attempts: int = 5,
    wait: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """The file at `url` as `target`, complete or not at all.

    `checksum` is "md5:...", "sha256:..." or "git:...", the number that git gives a file's content. A file that is there
    already is kept if it has this sum, or if none is given. After a break the download goes on where it was, also in
    another process and on another day, unless the remote file has changed. It gives up after `attempts` in a row that
    brought nothing; the pause between them
    starts at `wait` seconds and doubles.
    """
    target = Path(target)
    if urlsplit(url).scheme not in ("http", "https"):
        raise UnderstudyError(f"only http and https addresses can be downloaded; got {url}")
    if checksum is not None:
        _split_checksum(checksum)
    part = Part(target.with_name(target.name + ".part"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            # Looked at under the lock: the process that held it before may have done the work.
            if target.exists() and (checksum is None or sum_of(target, checksum) == checksum):
                return target
            with _bar(target.name, progress) as advance:
                _receive_all(url, part, advance, attempts, wait, timeout)
            if checksum is not None and (found := sum_of(part.path, checksum)) != checksum:
                part.remove()
                raise UnderstudyError(
                    f"{url} has {found} where {checksum} was expected, and was removed; "
                    "run it again, and if it stays so the file is not the official one"
                )
            replace_durably(part.path, target)
            part.notes.unlink(missing_ok=True)
            return target
    except OSError as error:
        raise _disk_error(error, target, part) from error


def _receive_all(url: str, part: Part, advance: Advance, attempts: int, wait: float, timeout: float) -> None:
    """All bytes of the remote file in the part file, however often the connection breaks."""
    failures = 0
    while True:
        before = part.size()
        try:
            return _receive(url, part, advance, timeout)
        except Dropped as error:
            failures = 1 if part.size() > before else failures + 1
            if failures >= attempts:
                raise UnderstudyError(
                    f"{url} could not be downloaded ({error}); {TRY_AGAIN}: what has come is kept"
                ) from error
        time.sleep(wait * 2 ** (failures - 1))


def _receive(url: str, part: Part, advance: Advance, timeout: float) -> None:
    """One request: the rest of the file if the server still has the version we began with, else all of it."""
    headers = {"User-Agent": "understudy", "Accept-Encoding": "identity"}
    validator = part.validator(url)
    if part.size() and validator:
        headers |= {"Range": f"bytes={part.size()}-", "If-Range": validator}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            _handle_refusal(url, part, error)
        return
    except (OSError, http.client.HTTPException) as error:
        raise Dropped(str(getattr(error, "reason", error)) or type(error).__name__) from error
    with response:
        if response.status != 206:
            part.start(url, _validator_of(response))
        elif "Range" not in headers or _range_start(response) != part.size():
            part.remove()
            raise Dropped("the server sent another range than was asked for")
        _copy(response, part, advance)


def _copy(response: http.client.HTTPResponse, part: Part, advance: Advance) -> None:
    here, length = part.size(), response.headers.get("Content-Length")
    total = here + int(length) if length and length.isdigit() else None
    with part.path.open("ab") as file:
        advance(here, total)
        for chunk in _chunks(response):
            file.write(chunk)
            here += len(chunk)
            advance(here, total)
        sync_file(file)
        if total is not None and here < total:
            raise Dropped(f"the connection ended after {here:,} of {total:,} bytes")


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """What comes over the line. Its errors are told apart here from those of the disk."""
    try:
        while chunk := response.read(BYTES_PER_READ):
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise Dropped(f"the connection broke: {error}") from error


def _handle_refusal(url: str, part: Part, error: urllib.error.HTTPError) -> None:
    """What an answer above 400 means; returns only if there is nothing left to fetch."""
    if error.code == 416:
        total = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
        if total and int(total[1]) == part.size():
            return
        part.remove()
        raise Dropped("the part file was longer than the remote one") from error
    if error.code in TEMPORARY_STATUSES:
        raise Dropped(f"the server answered {error.code} {error.reason}") from error
    raise UnderstudyError(f"{url}: the server answered {error.code} {error.reason}; {TRY_AGAIN}") from error


def _validator_of(response: http.client.HTTPResponse) -> str | None:
    """What changes with the file: ETag or Last-Modified. A weak ETag does not promise equal bytes, so is not used."""
    etag = response.headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")


def _range_start(response: http.client.HTTPResponse) -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _split_checksum(checksum: str) -> tuple[str, str]:
    algorithm, _, digits = checksum.partition(":")
    if algorithm not in ("md5", "sha256", "git") or not re.fullmatch(r"[0-9a-f]+", digits):
        raise UnderstudyError(f"a checksum is 'md5:...', 'sha256:...' or 'git:...' in small letters; got {checksum!r}")
    return algorithm, digits


def sum_of(path: Path, like: str) -> str:
    """The file's checksum, of the same kind as the given one."""
    algorithm, _ = _split_checksum(like)
    start = b"" if algorithm != "git" else f"blob {path.stat().st_size}\0".encode()
    with path.open("rb") as file:
        name = "sha1" if algorithm == "git" else algorithm
        digest = hashlib.file_digest(file, lambda: hashlib.new(name, start, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"


@contextmanager
def _bar(name: str, shown: bool) -> Iterator[Advance]:
    """A progress bar on standard error that is gone when it is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
               TimeRemainingColumn())  # fmt: skip
    console = Console(stderr=True)
    shown = shown and console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task(name, total=None)
        yield lambda here, total: progress.update(task, completed=here, total=total)


def _disk_error(error: OSError, target: Path, part: Part) -> UnderstudyError:
    """Network trouble never gets here: what is left is the disk's."""
    kept = f"; what has come is kept in {part.path}" if part.path.exists() else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UnderstudyError(f"the disk is full while writing {target}: make room, then run it again{kept}")
    problem = error.strerror or str(error)
    return UnderstudyError(
        f"cannot write {target}: {problem}; choose another folder or mend it, then run it again{kept}"
    )
