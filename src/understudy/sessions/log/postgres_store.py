"""A log in a PostgreSQL database, for a team. Every project has a schema of its own.

A schema, and not a column that names the project: so each log counts from 1 on, is migrated, backed up, moved and
dropped by itself, and no mistake in a query mixes two projects.
"""

import hashlib
import logging
import re
import time
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, NullPool, create_engine
from sqlalchemy.exc import DBAPIError

from understudy.errors import UnderstudyError
from understudy.messages import DISK_IS_FULL, install_command

if TYPE_CHECKING:
    import psycopg

LOG: Final = logging.getLogger(__name__)
MAX_REASON_LENGTH: Final = 300
CONNECTION: Final = {
    "application_name": "understudy",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "tcp_user_timeout": "20000",  # milliseconds until a server that does not answer is given up
}
# A server whose machine vanished loses its lock within a minute.
SETTINGS: Final = (
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
    "SET lock_timeout = '10s'",
)
REASONS: Final = {
    "53": "{name} has no room or memory left ({error}); make room, then send this again",
    "55P03": "another program has locked the log in {name} ({error}); end it, then send this again",
    "25006": "{name} can only be read ({error}); check that it is the primary server, then send this again",
    "42501": "{name} forbids it ({error}); let its owner run: GRANT CREATE ON DATABASE {database} TO {user}",
}


class PostgresStore:
    """One schema, one log."""

    def __init__(self, url: str, project: str, *, read_only: bool = False) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:
            raise UnderstudyError(f"PostgreSQL needs one more package: {install_command('postgres')}") from None
        if not project:
            raise UnderstudyError("a database holds many projects; give the name of this one")
        try:
            self.settings: dict[str, Any] = {**CONNECTION, **conninfo_to_dict(url)}
        except psycopg.Error:  # its words may hold the password
            raise UnderstudyError(
                "the address of the database cannot be read; it is postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "with any of :/?#[]@% in the password written as %3A and so on"
            ) from None
        place = self.settings.get("host") or "this machine"
        self.name = f"the database {self.settings.get('dbname') or ''} on {place}".replace("  ", " ")
        self.read_only = read_only
        self.schema = _schema_of(project)
        self.number = int.from_bytes(hashlib.sha256(self.schema.encode()).digest()[:8], signed=True)
        self.engine = create_engine("postgresql+psycopg://", creator=self._connect, poolclass=NullPool)

    def _connect(self) -> "psycopg.Connection[Any]":
        import psycopg

        connection = psycopg.connect(**self.settings)
        try:
            connection.autocommit = True
            for setting in SETTINGS:
                connection.execute(setting.encode())
            connection.execute(f'SET search_path = "{self.schema}"'.encode())
            # Stronger guarantees of the server's own, such as a second machine, are kept.
            if _setting_of(connection, "synchronous_commit") in ("off", "local"):
                connection.execute("SET synchronous_commit = on")
            if self.read_only:
                connection.execute("SET default_transaction_read_only = on")
            if (encoding := _setting_of(connection, "server_encoding")) != "UTF8":
                raise UnderstudyError(f"{self.name} is in {encoding}; make one with: createdb -E UTF8 NAME")
            if _setting_of(connection, "fsync") != "on":
                LOG.warning("%s runs with fsync off: a power cut may lose labels", self.name)
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise
        return connection

    def make_schema(self, connection: Connection) -> None:
        # Looked for first, since IF NOT EXISTS needs the right to make schemas even where there is one.
        found = connection.exec_driver_sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self.schema,)).first()
        if found is None:
            connection.exec_driver_sql(f'CREATE SCHEMA "{self.schema}"')

    def require_right_to_make(self, connection: Connection) -> None:
        may = connection.exec_driver_sql("SELECT has_database_privilege(current_database(), 'CREATE')").scalar_one()
        if not may:
            database, user = self.settings.get("dbname") or "...", self.settings.get("user") or "..."
            raise UnderstudyError(
                f"{self.name} forbids it; let its owner run: GRANT CREATE ON DATABASE {database} TO {user}"
            )

    def begin_writing(self, connection: Connection) -> None:
        """The first statement begins a transaction."""

    def keep_others_out(self, connection: Connection) -> None:
        connection.exec_driver_sql("LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE")

    def require_there(self) -> None:
        """A database that is gone says so itself."""

    def hold(self, connection: Connection, at_most: float) -> bool:
        """By a lock of the connection that writes: who loses the one loses the other."""
        end = time.monotonic() + at_most
        while True:
            with connection.begin():
                if connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s)", (self.number,)).scalar_one():
                    return True
            if time.monotonic() > end:
                return False
            time.sleep(0.05)

    def let_go(self) -> None:
        """The lock ends with the connection."""

    def was_rolled_back(self, error: DBAPIError) -> bool:
        return not error.connection_invalidated

    def reason(self, error: DBAPIError) -> str:
        said = "; ".join(filter(None, map(str.strip, str(error.orig).splitlines())))
        if password := self.settings.get("password"):
            said = said.replace(password, "...")
        state = getattr(error.orig, "sqlstate", None) or ""
        line = next((line for start, line in REASONS.items() if state.startswith(start)), None)
        if line is None and (error.connection_invalidated or not state):
            line = (
                "{name} cannot be reached ({error}); check that it runs and that address, user and password are right"
            )
        return (line or "{name} refused it ({error}); send this again").format(
            name=self.name,
            error=said[:MAX_REASON_LENGTH],
            database=self.settings.get("dbname") or "...",
            user=self.settings.get("user") or "...",
        )

    def public_reason(self, error: DBAPIError) -> str:
        state = getattr(error.orig, "sqlstate", None) or ""
        if state.startswith("53"):
            return DISK_IS_FULL
        if error.connection_invalidated or not state:
            return "the server cannot reach its database; this is sent again when it is back"
        return ""


def _setting_of(connection: "psycopg.Connection[Any]", name: str) -> str:
    found = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    return str(found[0]) if found else ""


def _schema_of(project: str) -> str:
    """The schema of a project: readable, and another for every project."""
    readable = re.sub(r"[^a-z0-9]+", "_", project.lower()).strip("_")[:32]
    return f"understudy_{readable}_{hashlib.sha256(project.encode()).hexdigest()[:12]}".replace("__", "_")
