"""The log of a project: all events in order, each on the disk before `append` returns."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from understudy.errors import Conflict, NotFound, NotStored, UnderstudyError
from understudy.sessions.log.events import Event, RowValues, check_text, from_row, to_rows
from understudy.sessions.log.stores import LogStore, make_store, require_room
from understudy.sessions.log.tables import EVENTS, SERVERS, describe_server, upgrade_tables

EVENTS_PER_PAGE: Final = 1000  # read at once
MAX_SINGLE_INSERTS: Final = 8  # psycopg complains in its log when events inserted together are refused
MAX_TRIES: Final = 5
LOCK_WAIT_SECONDS: Final = 2.0  # in which the lock of a server that was killed is freed
RELOCK_WAIT_SECONDS: Final = 5.0  # the same for a connection of our own that was lost

INSERT: Final = insert(EVENTS)
LAST: Final = select(func.coalesce(func.max(EVENTS.c.seq), 0).label("seq"))
BY_KEY: Final = select(EVENTS).where(EVENTS.c.annotator == bindparam("annotator"), EVENTS.c.key == bindparam("key"))
AFTER: Final = select(EVENTS).where(EVENTS.c.seq > bindparam("after")).order_by(EVENTS.c.seq).limit(EVENTS_PER_PAGE)
BETWEEN: Final = (
    select(EVENTS).where(EVENTS.c.seq.between(bindparam("first"), bindparam("last"))).order_by(EVENTS.c.seq)
)


class AlreadyThere(Conflict):
    """The annotator's key was used before; `stored` is the event it stands for. Nothing new was stored."""

    def __init__(self, stored: Event) -> None:
        super().__init__(f"key {stored.key!r} of {stored.annotator} was used before, for event {stored.seq}")
        self.stored = stored


class EventLog:
    """An append-only log of events. May be called from several threads.

    After NotStored the log goes on: the next call connects again. Where the connection was lost for good in the
    middle of a commit, the events may be in the log all the same; sent again with their keys they are AlreadyThere,
    and `read` has them for whoever keeps a record of their own.
    """

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.is_closed = False
        self._busy = threading.RLock()
        self._connection: Connection | None = None
        self._seen = 0  # the last number that was certainly stored
        self._serves = False  # whether we hold the lock

    @classmethod
    def open(cls, url: str, project: str = "", *, read_only: bool = False) -> "EventLog":
        """Open the log at `sqlite:///PATH` or `postgresql://…`; it is made or migrated if need be.

        `project` is a name that never changes, by which a PostgreSQL database tells its logs apart.
        """
        log = cls(make_store(url, project, read_only=read_only))
        try:
            upgrade_tables(log.store)
            log._seen = log.last()
        except DBAPIError as error:
            raise UnderstudyError(log.store.reason(error)) from error
        except BaseException:
            log.close()
            raise
        return log

    @classmethod
    def check_new(cls, url: str, project: str = "") -> None:
        """Raise what would keep a new log from being made there; nothing is written."""
        if require_room(url):
            return
        try:
            with closing(cls.open(url, project, read_only=True)) as log:
                if log.last():
                    raise Conflict(f"{log.store.name} holds the log of a project already; give another --store")
        except NotFound:  # as it should be
            store = make_store(url, project, read_only=True)
            with store.engine.connect() as connection:
                store.require_right_to_make(connection)

    def append(self, *events: Event) -> list[Event]:
        """Store all of the events or none; they come back with their numbers, and the time where it was not given."""
        if self.store.read_only:
            raise UnderstudyError(f"{self.store.name} was opened for reading only; open it without read_only")
        rows = to_rows(events)
        with self._busy:
            numbered = self._store_rows(rows) if rows else []
        return [from_row(row) for row in numbered]

    def _store_rows(self, rows: list[RowValues]) -> list[RowValues]:
        tries = 0
        while True:
            tries += 1
            numbered: list[RowValues] = []
            try:
                connection = self._connect()
                with connection.begin():
                    self.store.begin_writing(connection)
                    numbered = self._number_rows(connection, rows)
                    for part in [numbered] if len(numbered) > MAX_SINGLE_INSERTS else numbered:
                        connection.execute(INSERT, part)
            except IntegrityError as error:
                self._require_new(rows)
                if tries == MAX_TRIES:  # numbers were taken while we wrote: somebody writes without the lock
                    raise Conflict(f"others write to {self.store.name}; end them, then send this again") from error
                continue
            except DBAPIError as error:
                is_lost = self._disconnect_after(error)
                is_open = bool(numbered) and not self.store.was_rolled_back(error)
                if not (is_open and self._was_committed(numbered)):
                    if is_lost and tries == 1:
                        continue
                    raise self._refusal(error) from error
            self._seen = numbered[-1]["seq"]
            return numbered

    def _number_rows(self, connection: Connection, rows: list[RowValues]) -> list[RowValues]:
        last = connection.scalar(LAST) or 0
        if last < self._seen:
            raise NotStored(
                f"{self.store.name} ends at event {last}, but {self._seen} were stored: it was put back to an older "
                "state; stop the server, and start it again on what is there"
            )
        return [{"seq": number, **row} for number, row in enumerate(rows, last + 1)]

    def _require_new(self, rows: list[RowValues]) -> None:
        for row in rows:
            if row["key"] is not None and (stored := self.find(row["annotator"], row["key"])) is not None:
                raise AlreadyThere(stored)

    def _was_committed(self, numbered: list[RowValues]) -> bool:
        """Whether a commit that was never confirmed did happen. Other transactions are waited for."""
        try:
            connection = self._connect()
            with connection.begin():
                self.store.keep_others_out(connection)
                ends = {"first": numbered[0]["seq"], "last": numbered[-1]["seq"]}
                found = [dict(row) for row in connection.execute(BETWEEN, ends).mappings()]
        except DBAPIError as error:
            self._disconnect_after(error)
            raise self._refusal(error, "; whether it was stored will be seen then") from error
        return found == numbered

    def read(self, after: int = 0) -> Iterator[Event]:
        """The events after a number, in order, up to the last that is there when it is reached."""
        while page := self._query(AFTER, {"after": after}):
            yield from map(from_row, page)
            after = page[-1]["seq"]

    def find(self, annotator: str, key: str) -> Event | None:
        """The event that an annotator's key stands for."""
        values = {"annotator": check_text(annotator, "an annotator's name"), "key": check_text(key, "a key")}
        found = self._query(BY_KEY, values)
        return from_row(found[0]) if found else None

    def last(self) -> int:
        """The number of the last event; 0 where nothing has happened."""
        return int(self._query(LAST, {})[0]["seq"])

    def _query(self, statement: Any, values: RowValues) -> list[RowValues]:
        with self._busy:
            is_first = True
            while True:
                try:
                    connection = self._connect()
                    with connection.begin():
                        return [dict(row) for row in connection.execute(statement, values).mappings()]
                except DBAPIError as error:
                    if not (self._disconnect_after(error) and is_first):
                        raise self._refusal(error) from error
                is_first = False

    def lock(self, url: str = "") -> None:
        """Become the only server of the project, or raise Conflict that says who is. `url` is where people find us.

        Call it again when the address is known. The lock ends with `close`, or with the process however it ends.
        """
        if self.store.read_only:
            raise UnderstudyError(f"{self.store.name} was opened for reading only; open it without read_only")
        with self._busy:
            try:
                connection = self._connect()
                if not self._serves and not self.store.hold(connection, LOCK_WAIT_SECONDS):
                    raise Conflict(
                        f"{self.store.name} is in use: {describe_server(connection)}; go there, or stop it first"
                    )
                self._serves = True
                about = {"host": socket.gethostname(), "pid": os.getpid(), "url": url, "since": time.time()}
                with connection.begin():
                    self.store.begin_writing(connection)
                    connection.execute(delete(SERVERS))
                    connection.execute(insert(SERVERS), {"id": 1, **about})
            except DBAPIError as error:
                self._disconnect_after(error)
                raise self._refusal(error) from error

    def _connect(self) -> Connection:
        """The open connection, or a new one where it was lost: with the lock, if we had it."""
        if self.is_closed:
            raise UnderstudyError("the log is closed; open it again")
        if self._connection is not None and self._connection.invalidated:
            self._disconnect()  # by Ctrl-C, say: SQLAlchemy would reconnect, but without the lock
        if self._connection is None:
            connection = self.store.engine.connect()
            try:
                if self._serves and not self.store.hold(connection, RELOCK_WAIT_SECONDS):
                    raise NotStored(f"another server has taken over {self.store.name}: {describe_server(connection)}")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        self.store.require_there()
        return self._connection

    def _refusal(self, error: DBAPIError, more: str = "") -> NotStored:
        return NotStored(self.store.reason(error) + more, self.store.public_reason(error))

    def _disconnect_after(self, error: DBAPIError) -> bool:
        """Close a connection that may be of no more use; whether it was lost, so that a new one may work."""
        if error.connection_invalidated or not self.store.was_rolled_back(error):
            self._disconnect()
        return error.connection_invalidated

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if not connection.invalidated:
                connection.invalidate()
            connection.close()

    def close(self) -> None:
        """Let others serve. What was appended is stored."""
        with self._busy:
            self.is_closed = True
            connection, self._connection = self._connection, None
            try:
                if connection is not None and self._serves:
                    with connection.begin():
                        self.store.begin_writing(connection)
                        connection.execute(delete(SERVERS))
            except DBAPIError:
                pass  # nobody reads that row once the lock is gone
            finally:
                if connection is not None:
                    connection.close()
                self.store.let_go()
                self._serves = False
