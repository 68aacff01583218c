"""A log in a SQLite file: the default. A commit is on the disk when it returns."""

import logging
import sqlite3
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

import filelock
from sqlalchemy import Connection, NullPool, create_engine
from sqlalchemy.exc import DBAPIError

from understudy.errors import NotFound, NotStored, UnderstudyError
from understudy.messages import DISK_FAILED, DISK_IS_FULL

LOG: Final = logging.getLogger(__name__)
WAIT_SECONDS: Final = 5.0  # for another process that is writing
SECONDS_BETWEEN_TRIES: Final = 0.01
REASONS: Final = {
    "SQLITE_FULL": "the disk of {name} is full ({error}); make room on it, then send this again",
    "SQLITE_BUSY": "another program has locked {name} ({error}); close it, then send this again",
    "SQLITE_IOERR": "the disk of {name} failed ({error}); check that it is there and has room, then send this again",
    "SQLITE_READONLY": "{name} cannot be written ({error}); check its permissions, then send this again",
    "SQLITE_CANTOPEN": "{name} cannot be opened ({error}); check that its folder is there and can be written",
    "SQLITE_NOTADB": "{name} is not a log ({error}); restore it from a copy",
    "SQLITE_CORRUPT": "{name} is damaged ({error}); restore it from a copy",
}
PUBLIC_REASONS: Final = {
    "SQLITE_FULL": DISK_IS_FULL,
    "SQLITE_IOERR": DISK_FAILED,
    "SQLITE_BUSY": "another program has locked the log; close it, then send this again",
}


class SqliteStore:
    """One file, one log."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        if path.name in ("", ":memory:"):
            raise UnderstudyError("a log in memory would be lost; give the path of a file: sqlite:///PATH")
        self.path = path.absolute()
        self.name = str(path)
        self.read_only = read_only
        if not self.path.parent.is_dir():
            raise NotFound(f"{self.path.parent} is not a folder; make it first, or give another path")
        if read_only and not self.path.exists():
            raise NotFound(f"there is no log at {path}; give the path of one")
        self.identity: tuple[int, int] | None = None
        self.server = filelock.FileLock(self.path.with_name("server.lock"), thread_local=False)
        self.engine = create_engine("sqlite://", creator=self._connect, poolclass=NullPool)

    def _connect(self) -> sqlite3.Connection:
        # Made only once: a file that was deleted while it was in use must not come back empty.
        connection = (
            self._connect_to_read() if self.read_only else _open(self.path, "rwc" if self.identity is None else "rw")
        )
        try:
            if not self.read_only and not make_durable(connection):
                LOG.warning("%s: its disk does not allow a write-ahead log, so storing a label takes longer", self.name)
            found = self.path.stat()
        except BaseException:
            connection.close()
            raise
        self.identity = found.st_dev, found.st_ino
        return connection

    def _connect_to_read(self) -> sqlite3.Connection:
        connection = _open(self.path, "ro")
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            connection.close()
            # Readers write files beside the log, too, unless they are told that nobody writes: on a read-only disk.
            is_forbidden = error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))
            if not is_forbidden or self.path.with_name(f"{self.path.name}-wal").exists():
                raise
            return _open(self.path, "ro&immutable=1")
        return connection

    def make_schema(self, connection: Connection) -> None:
        """A file needs nothing."""

    def require_right_to_make(self, connection: Connection) -> None:
        """A file that can be read says nothing more."""

    def begin_writing(self, connection: Connection) -> None:
        # At once, since a transaction that begins by reading cannot write if another wrote in between.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def keep_others_out(self, connection: Connection) -> None:
        self.begin_writing(connection)

    def require_there(self) -> None:
        """A deleted file can still be written as long as it is open; what is written is gone afterwards."""
        try:
            found = self.path.stat()
            is_same = self.identity in (None, (found.st_dev, found.st_ino))
        except OSError:
            is_same = False
        if not is_same:
            raise NotStored(f"{self.name} was moved, deleted or replaced while in use; put it back and start again")

    def hold(self, connection: Connection, at_most: float) -> bool:
        try:
            if not self.server.is_locked:
                self.server.acquire(timeout=at_most)
        except filelock.Timeout:
            return False
        except OSError as error:
            raise NotStored(
                f"{self.server.lock_file} cannot be written ({error.strerror}); check its permissions"
            ) from error
        return True

    def let_go(self) -> None:
        self.server.release(force=True)

    def was_rolled_back(self, error: DBAPIError) -> bool:
        # After a failed sync the commit may be in the file, and count when it is opened again.
        return _code(error).startswith(("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_CONSTRAINT"))

    def reason(self, error: DBAPIError) -> str:
        found = _code(error)
        known = next((line for start, line in REASONS.items() if found.startswith(start)), None)
        return (known or "{name} could not be used ({error}); send this again").format(name=self.name, error=error.orig)

    def public_reason(self, error: DBAPIError) -> str:
        found = _code(error)
        return next((line for start, line in PUBLIC_REASONS.items() if found.startswith(start)), "")


def _open(path: Path, mode: str) -> sqlite3.Connection:
    # Without an isolation level the module begins no transactions behind our back.
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def make_durable(connection: sqlite3.Connection) -> bool:
    """Let commits be on the disk when they return; whether by a write-ahead log, which is quicker."""
    mode = _choose_write_ahead_log(connection)
    if mode != "wal":
        connection.execute("PRAGMA journal_mode = DELETE")
    # With a rollback journal, EXTRA is what FULL is for a write-ahead log: the journal's end is on the disk as well.
    wanted = 2 if mode == "wal" else 3
    connection.execute(f"PRAGMA synchronous = {wanted}")
    for pragma in ("fullfsync", "checkpoint_fullfsync"):  # where a plain sync leaves data in the disk's cache: macOS
        connection.execute(f"PRAGMA {pragma} = ON")
    found = connection.execute("PRAGMA synchronous").fetchone()[0]
    if found != wanted:
        raise NotStored(f"this build of SQLite does not sync (synchronous is {found}, not {wanted}); use another one")
    return mode == "wal"


def _choose_write_ahead_log(connection: sqlite3.Connection) -> str:
    """Ask for a write-ahead log; the journal that the file has then."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            # Of a new file that somebody else is writing, SQLite says so at once, however long the connection may wait.
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > until:
                raise
            time.sleep(SECONDS_BETWEEN_TRIES)


def _code(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlite_errorname", ""))
