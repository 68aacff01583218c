"""The URL of the log of a project: how it is written, kept in a file, and shown."""

import re
from pathlib import Path
from typing import Final

from understudy.errors import UsageError

SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql", "postgres", "postgresql+psycopg")


def sqlite_url(path: Path) -> str:
    """The URL of a log in a file."""
    return f"{SQLITE}{path}"


def without_password(url: str) -> str:
    """The URL as it may be shown and kept. PostgreSQL finds a password in PGPASSWORD or ~/.pgpass by itself."""
    if url.startswith(SQLITE):
        return url
    scheme, found, rest = url.partition("://")
    place, asks, query = rest.partition("?")
    place = re.sub(r"^([^:/@]*):.*@", r"\1@", place)  # to the last @, lest half a password stays where it holds one
    kept = "&".join(part for part in query.split("&") if not part.lower().startswith(("password=", "sslpassword=")))
    return scheme + found + place + (asks and kept and asks) + kept


def kept_url(url: str) -> str:
    """Where a log is, without a password, as it may be written down."""
    return without_password(full_url(url))


def full_url(url: str) -> str:
    """The URL of a log, the path of a file from the root: from another folder, one from here would be another log."""
    if url.startswith(SQLITE):
        path = url.removeprefix(SQLITE)
        if path in ("", ":memory:"):
            raise UsageError("a store in memory would forget every label; write sqlite:///FILE")
        return sqlite_url(Path(path).expanduser().absolute())
    if url.partition("://")[0] not in POSTGRES or "://" not in url:
        raise UsageError("a store is postgresql://USER@HOST/DATABASE or sqlite:///FILE; this is neither")
    return url
