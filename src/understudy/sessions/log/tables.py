"""The tables of the log, made where there are none and migrated where they are of an older version.

The migrations also make triggers that refuse changes to `events`.
"""

import threading
from pathlib import Path
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from understudy.errors import Conflict, NotFound, UnderstudyError
from understudy.messages import UPGRADE
from understudy.sessions.log.stores import LogStore

MIGRATIONS: Final = Path(__file__).parent / "migrations"
WAIT_SECONDS: Final = 10.0  # for another process that migrates the same tables
ONE_AT_A_TIME: Final = threading.Lock()  # alembic's context is the whole process's
REVISIONS: Final = ("0001",)  # oldest first; the last is what this version of the package reads and writes

METADATA: Final = MetaData()

EVENTS: Final = Table(
    "events",
    METADATA,
    # Counted by the writer: 1, 2, 3 without gaps, in the order of the commits. A reader up to a number misses nothing.
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

# Who holds the lock, for those who come second. One row, which is not part of the log.
SERVERS: Final = Table(
    "servers",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("since", Double, nullable=False),
)


def upgrade_tables(store: LogStore) -> None:
    """Bring the tables of a store to this version; a message in one line where that is not possible."""
    with store.engine.connect() as connection:
        if _is_at_head(connection, store):
            return
        connection.rollback()
        if not store.hold(connection, WAIT_SECONDS):
            raise Conflict(
                f"{store.name} is of an older version and in use; {describe_server(connection)}: stop it first"
            )
        try:
            with connection.begin():
                store.begin_writing(connection)
                if not _is_at_head(connection, store):  # another process may have done it meanwhile
                    store.make_schema(connection)
                    _upgrade(connection)
        finally:
            store.let_go()


def _is_at_head(connection: Connection, store: LogStore) -> bool:
    found = _revision_of(connection)
    if found is not None and found not in REVISIONS:
        raise UnderstudyError(f"{store.name} was written by a newer version of understudy; upgrade: {UPGRADE}")
    if found != REVISIONS[-1] and store.read_only:
        if found is None:
            raise NotFound(f"there is no log of this project in {store.name}; start labelling first")
        raise UnderstudyError(f"{store.name} is of an older version of understudy; open it once with understudy label")
    return found == REVISIONS[-1]


def _revision_of(connection: Connection) -> str | None:
    # Not asked of alembic, whose import takes longer than opening a log.
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none()
    return None if found is None else str(found)


def _upgrade(connection: Connection) -> None:
    """Run the migrations that are missing, inside the transaction of this connection."""
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with ONE_AT_A_TIME:
        command.upgrade(config, "head")


def describe_server(connection: Connection) -> str:
    """Which process serves the log, in words."""
    try:
        with connection.begin():
            row = connection.execute(select(SERVERS)).first()
    except DBAPIError:  # there is no such table yet
        row = None
    if row is None:
        return "another process uses it"
    return f"process {row.pid} on {row.host} serves it" + (f" at {row.url}" if row.url else "")
