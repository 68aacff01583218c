"""The URL of a project's log: SQLite or PostgreSQL, and without a password wherever it is written or shown."""

import re
from pathlib import Path
from typing import Final

from understudy.errors import UsageError

SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql", "postgres", "postgresql+psycopg")


def sqlite_url(path: Path) -> str:
    """The URL of a log in an SQLite file."""
    return f"{SQLITE}{path}"


def without_password(url: str) -> str:
    """The URL as it may be shown and written down. PostgreSQL itself reads a password from PGPASSWORD or ~/.pgpass."""
    if url.startswith(SQLITE):
        return url
    scheme, separator, rest = url.partition("://")
    place, mark, query = rest.partition("?")
    place = re.sub(r"^([^:/@]*):.*@", r"\1@", place)  # up to the last @: a password may hold one
    kept = "&".join(part for part in query.split("&") if not part.lower().startswith(("password=", "sslpassword=")))
    return scheme + separator + place + (mark and kept and mark) + kept


def kept_url(url: str) -> str:
    """The full URL of a log without a password, as project.json keeps it."""
    return without_password(full_url(url))


def full_url(url: str) -> str:
    """The URL of a log with an absolute path: a relative one would name another log in another folder."""
    if url.startswith(SQLITE):
        path = url.removeprefix(SQLITE)
        if path in ("", ":memory:"):
            raise UsageError("a store in memory would forget every label; write sqlite:///FILE")
        return sqlite_url(Path(path).expanduser().absolute())
    if url.partition("://")[0] not in POSTGRES or "://" not in url:
        raise UsageError("a store is postgresql://USER@HOST/DATABASE or sqlite:///FILE; this is neither")
    return url
