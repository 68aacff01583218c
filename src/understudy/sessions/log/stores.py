"""Where a log is kept, by its URL: a SQLite file, or a schema of a PostgreSQL database."""

import os
from pathlib import Path
from typing import Protocol, runtime_checkable

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from understudy.errors import UnderstudyError, UsageError
from understudy.sessions.log.postgres_store import PostgresStore
from understudy.sessions.log.sqlite_store import SqliteStore
from understudy.store_urls import POSTGRES, SQLITE, without_password


@runtime_checkable
class LogStore(Protocol):
    """What the two databases do differently."""

    name: str  # for messages; without a password
    engine: Engine
    read_only: bool

    def make_schema(self, connection: Connection) -> None:
        """Make what must be there before the tables."""

    def require_right_to_make(self, connection: Connection) -> None:
        """Raise where a new log could not be made here."""

    def begin_writing(self, connection: Connection) -> None:
        """Called first in a transaction that writes."""

    def keep_others_out(self, connection: Connection) -> None:
        """Called first in a transaction; returns when no other is under way, not even one whose client is gone."""

    def require_there(self) -> None:
        """Raise NotStored where writing would seem to work but would be lost."""

    def hold(self, connection: Connection, at_most: float) -> bool:
        """Become the only server; False where another still is after so many seconds. It ends with this process."""

    def let_go(self) -> None:
        """Let others serve, where closing the connection is not enough."""

    def was_rolled_back(self, error: DBAPIError) -> bool:
        """Whether it is certain that nothing of the transaction that failed was stored."""

    def reason(self, error: DBAPIError) -> str:
        """What went wrong and what to do, in one line."""

    def public_reason(self, error: DBAPIError) -> str:
        """The same for those who only label: without paths, addresses and the words of the database."""


def require_room(url: str) -> bool:
    """Whether a new SQLite file can be made where the URL says: there is none, and its folder can be written.

    False where a file is there already, and for a database.
    """
    if not url.startswith(SQLITE):
        return False
    path = Path(url.removeprefix(SQLITE))
    if path.exists():
        return False
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a folder, so {path.name} cannot be made there; give another --store")
    if not os.access(path.parent, os.W_OK):
        raise UnderstudyError(f"{path.parent} cannot be written; check its permissions, or give another --store")
    return True


def make_store(url: str, project: str = "", *, read_only: bool = False) -> LogStore:
    """The store that a URL names. `project` is the name by which a database tells its logs apart."""
    if url.startswith(SQLITE):
        # All that follows is the path: a question mark in the name of a folder is part of it.
        return SqliteStore(Path(url.removeprefix(SQLITE)), read_only=read_only)
    scheme, found, rest = url.partition("://")
    if found and scheme in POSTGRES:
        return PostgresStore(f"postgresql://{rest}", project, read_only=read_only)
    raise UnderstudyError(
        f"a log cannot be kept at {without_password(url)!r}; give sqlite:///PATH or postgresql://USER@HOST/DATABASE"
    )
