"""Bringing the tables of a store to this version: made where there are none, migrated where they are older."""

import threading
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, select
from sqlalchemy.exc import DBAPIError

from understudy.errors import Conflict, NotFound, UnderstudyError
from understudy.messages import UPGRADE
from understudy.sessions.log.stores import Store
from understudy.sessions.log.tables import REVISIONS, SERVERS

SCRIPTS: Final = Path(__file__).parent / "migrations"
PATIENCE: Final = 10.0  # seconds to wait for another process that does the same
ONE_AT_A_TIME: Final = threading.Lock()  # alembic's context is the whole process's


def bring_to_head(store: Store) -> None:
    """Tables as this version knows them; a line where that cannot be."""
    with store.engine.connect() as connection:
        if _is_at_head(connection, store):
            return
        connection.rollback()
        if not store.hold(connection, PATIENCE):
            raise Conflict(f"{store.name} is of an older version and in use; {holder(connection)}: stop it first")
        try:
            with connection.begin():
                store.begin_writing(connection)
                if not _is_at_head(connection, store):  # by another process, meanwhile
                    store.make_room(connection)
                    _upgrade(connection)
        finally:
            store.let_go()


def _is_at_head(connection: Connection, store: Store) -> bool:
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
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with ONE_AT_A_TIME:
        command.upgrade(config, "head")


def holder(connection: Connection) -> str:
    """Who serves the log, in words."""
    try:
        with connection.begin():
            row = connection.execute(select(SERVERS)).first()
    except DBAPIError:  # there is no such table yet
        row = None
    if row is None:
        return "another process uses it"
    return f"process {row.pid} on {row.host} serves it" + (f" at {row.url}" if row.url else "")
