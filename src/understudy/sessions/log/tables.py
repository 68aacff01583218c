"""The tables of the log, and their versions. The migrations make them, and refuse changes to `events` with triggers."""

from typing import Final

from sqlalchemy import BigInteger, Column, Double, Index, Integer, MetaData, Table, Text, text

REVISIONS: Final = ("0001",)  # oldest first; the last is what this version of the package reads and writes

METADATA: Final = MetaData()

EVENTS: Final = Table(
    "events",
    METADATA,
    # Counted by the writer: 1, 2, 3 without gaps, in the order of the commits. Who read up to a number misses nothing.
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("item", BigInteger),
    Column("annotator", Text),
    Column("key", Text),
    # Text, since PostgreSQL's own JSON cannot hold \u0000.
    Column("data", Text, nullable=False),
)
Index(
    "events_by_key",
    EVENTS.c.annotator,
    EVENTS.c.key,
    unique=True,
    sqlite_where=text("key IS NOT NULL"),
    postgresql_where=text("key IS NOT NULL"),
)

# Who holds the lock, for those who come second. One row, and no part of the truth.
SERVERS: Final = Table(
    "servers",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("since", Double, nullable=False),
)
