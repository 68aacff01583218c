"""Nothing is lost or doubled when a process is killed, a disk is full, or a database goes and comes back."""

import json
import os
import pwd
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from tests.sessions import postgres
from tests.sessions.stores import Place, labelled, place_in
from tests.waiting import wait_until
from understudy.errors import NotStored, UnderstudyError
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.log.sqlite_store import make_durable
from understudy.store_urls import sqlite_url

cluster = postgres.cluster
WRITER = Path(__file__).with_name("log_writer.py")


@pytest.fixture
def team(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return place_in("postgresql", tmp_path, request)


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_what_was_acknowledged_is_there_once_after_every_kill(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = place_in(database, tmp_path, request)
    lottery = random.Random(6)
    acknowledged: dict[int, int] = {}
    for kill in range(5):
        command = [sys.executable, str(WRITER), place.url, place.project, str(1_000_000 * kill)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            first = writer.stdout.readline()
            assert first, "the writer before was killed, and yet this one was not let in"
            time.sleep(lottery.uniform(0.0, 0.2))
            writer.kill()
            lines = [first, *writer.stdout]
        # The last line may have been cut short.
        acknowledged |= {int(item): int(seq) for item, seq in (line.split() for line in lines if line.endswith("\n"))}
    with place.opened() as log:
        log.lock()
        events = list(log.read())
    assert len(acknowledged) > 20
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    stored = {event.item: event.seq for event in events if event.kind == "labelled"}
    assert acknowledged.items() <= stored.items()
    assert [event.item for event in events[::2]] == list(stored), "an item was labelled twice"
    assert [event.item for event in events[1::2]] == list(stored), "one event of a pair is missing"
    assert len(stored) <= len(acknowledged) + 5


def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    with closing(EventLog.open(sqlite_url(tmp_path / "log.sqlite3"))) as log:
        log.lock()
        log.append(labelled(1))
        connection = log._connect()
        with connection.begin():
            connection.exec_driver_sql("PRAGMA max_page_count = 8")
        with pytest.raises(NotStored, match=r"is full .*make room on it, then send this again") as caught:
            log.append(labelled(2), labelled(3, note="x" * 100_000))
        assert "\n" not in str(caught.value)
        assert [event.item for event in log.read()] == [1], "reading works on, and nothing is stored by half"
        with connection.begin():
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        assert log.append(labelled(2), labelled(3, note="x" * 100_000))[1].seq == 3


def test_a_disk_that_fails_in_the_middle_is_said_and_survived(tmp_path: Path) -> None:
    program = """
        import json, resource, sys
        from understudy.errors import NotStored
        from understudy.sessions.log.events import Event
        from understudy.sessions.log.log import EventLog

        log = EventLog.open(sys.argv[1])
        log.lock()
        said, stored = [], []
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        for item in range(40):
            event = Event("labelled", item=item, annotator="ann", key=f"k{item}", data={"note": "x" * 5000})
            try:
                stored.append([item, log.append(event)[0].seq])
            except NotStored as error:
                said.append(str(error))
                if len(said) == 3:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(json.dumps([said, stored]))
        log.close()
    """
    url = sqlite_url(tmp_path / "log.sqlite3")
    command = [sys.executable, "-c", textwrap.dedent(program), url]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, stored = json.loads(done.stdout)
    assert len(said) >= 3
    assert all("then send this again" in line and "\n" not in line for line in said)
    with closing(EventLog.open(url)) as log:
        assert [[event.item, event.seq] for event in log.read()] == stored
    assert len(stored) + len(said) == 40
    assert stored[-1][0] == 39


def test_a_database_that_another_keeps_to_itself_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.sessions.log.sqlite_store.WAIT_SECONDS", 0.2)
    path = tmp_path / "log.sqlite3"
    with closing(EventLog.open(sqlite_url(path))) as log, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(NotStored, match=r"another program has locked .* .database is locked.; close it"):
            log.append(labelled(1))
        other.rollback()
        assert log.append(labelled(1))[0].seq == 1


def test_a_file_that_was_deleted_or_put_back_is_not_written_into_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite3"
    with closing(EventLog.open(sqlite_url(path))) as log:
        log.append(labelled(1))
        path.rename(tmp_path / "moved")
        for _ in range(2):
            with pytest.raises(NotStored, match="moved, deleted or replaced"):
                log.append(labelled(2))
            log._disconnect()  # as after a failure of the disk: an empty file must not take its place
            with pytest.raises(NotStored, match="cannot be opened"):
                log.append(labelled(2))
            assert not path.exists()
            (tmp_path / "moved").rename(path)
            log.last()
            path.rename(tmp_path / "moved")
        shutil.copy(tmp_path / "moved", path)
        with pytest.raises(NotStored, match="replaced"):
            log.append(labelled(2))
        path.unlink()
        (tmp_path / "moved").rename(path)
        assert log.append(labelled(2))[0].seq == 2


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that others may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Be somebody who may read the folder, and not write in it."""
    folder.chmod(0o555)
    before = os.geteuid()
    if before == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(before)
        folder.chmod(0o755)


def test_a_log_that_may_only_be_read_is_read(shelf: Path) -> None:
    url = sqlite_url(shelf / "log.sqlite3")
    with closing(EventLog.open(url)) as log:
        log.append(labelled(1))
    with without_rights(shelf):
        with closing(EventLog.open(url, read_only=True)) as log:
            assert [event.item for event in log.read()] == [1]
        with pytest.raises(UnderstudyError, match=r"cannot be written|cannot be opened|readonly"):
            EventLog.open(url).close()


def test_where_no_write_ahead_log_is_possible_a_journal_is_as_safe(tmp_path: Path) -> None:
    with closing(sqlite3.connect(f"file:{tmp_path}/log.sqlite3?vfs=unix-dotfile", uri=True)) as connection:
        assert make_durable(connection) is False
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
    with closing(sqlite3.connect(tmp_path / "log.sqlite3")) as connection:
        assert make_durable(connection) is True
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_log_waits_for_whoever_is_writing_the_first_bytes_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite3"
    first = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with closing(first), closing(sqlite3.connect(path, isolation_level=None)) as second:
        first.execute("CREATE TABLE words (word TEXT)")
        first.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):  # SQLite itself does not wait
            second.execute("PRAGMA journal_mode = WAL")
        ending = threading.Timer(0.3, first.execute, ["COMMIT"])
        ending.start()
        assert make_durable(second) is True
        ending.join()


def test_a_log_that_another_program_keeps_locked_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.sessions.log.sqlite_store.WAIT_SECONDS", 0.1)
    path = tmp_path / "log.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE words (word TEXT)")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnderstudyError, match=r"another program has locked .*; close it"):
            EventLog.open(sqlite_url(path))


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_postgresql_may_be_stopped_and_started_between_events(team: Place, cluster: postgres.Cluster, how: str) -> None:
    with team.opened() as log:
        log.lock()
        log.append(labelled(1))
        cluster.stop(how)
        try:
            for _ in range(2):
                with pytest.raises(NotStored, match="cannot be reached") as caught:
                    log.append(labelled(2))
                assert "\n" not in str(caught.value)
        finally:
            cluster.start()
        assert log.append(labelled(2))[0].seq == 2
        cluster.stop(how)
        cluster.start()
        assert log.append(labelled(3))[0].seq == 3, "nobody noticed"
        with team.opened() as other:
            assert not other.store.hold(other._connect(), 0.1), "the lock was taken again with the new connection"


def test_a_commit_of_which_no_answer_came_is_looked_up(team: Place, cluster: postgres.Cluster) -> None:
    """PostgreSQL waits for a second machine that does not exist, and is cut off when the commit is on its own disk."""
    stored: list[Event] = []
    with team.opened() as log, psycopg.connect(cluster.url(), autocommit=True) as admin:
        log.append(labelled(1))
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        admin.execute("SELECT pg_reload_conf()")
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        with meanwhile(lambda: stored.extend(log.append(Event("asked", item=2), Event("released", item=3)))):
            try:
                wait_until(lambda: admin.execute(waiting).fetchone())
            finally:
                admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
            found = admin.execute(waiting).fetchone()
            assert found is not None
            admin.execute("SELECT pg_terminate_backend(%s)", found)
            admin.execute("SELECT pg_reload_conf()")
        assert [event.seq for event in stored] == [2, 3]
        assert [event.kind for event in log.read()] == ["labelled", "asked", "released"]


def test_a_transaction_that_is_cut_off_before_its_commit_is_sent_again(team: Place, cluster: postgres.Cluster) -> None:
    stored: list[Event] = []
    with team.opened() as log, team.opened() as other, psycopg.connect(cluster.url(), autocommit=True) as admin:
        blocking = other._connect()
        with blocking.begin():
            other.store.keep_others_out(blocking)
            with meanwhile(lambda: stored.extend(log.append(labelled(1), labelled(2)))):
                waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                wait_until(lambda: admin.execute(waiting).fetchone())
                admin.execute(f"SELECT pg_terminate_backend(pid) FROM ({waiting}) AS found")
                wait_until(lambda: admin.execute(waiting).fetchone())
                blocking.rollback()
        assert [event.seq for event in stored] == [1, 2]
        assert list(log.read()) == stored


def test_a_server_that_lost_its_lock_to_another_stops_writing(
    team: Place, cluster: postgres.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.sessions.log.log.RELOCK_WAIT_SECONDS", 0.2)
    with team.opened() as first, team.opened() as second, psycopg.connect(cluster.url(), autocommit=True) as admin:
        first.lock()
        first.append(labelled(1))
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        second.lock("http://second")
        with pytest.raises(NotStored, match=r"another server has taken over .*: process .* serves it at http://second"):
            first.append(labelled(2))
        assert second.append(labelled(2))[0].seq == 2
        second.close()
        assert first.append(labelled(3))[0].seq == 3


def test_a_database_that_was_put_back_to_an_older_state_is_noticed(team: Place) -> None:
    with team.opened() as log:
        log.append(labelled(1), labelled(2))
        with log.store.engine.begin() as connection:
            connection.execute(text("ALTER TABLE events DISABLE TRIGGER ALL"))
            connection.execute(text("DELETE FROM events WHERE seq = 2"))
        with pytest.raises(NotStored, match="ends at event 1, but 2 were stored"):
            log.append(labelled(3))
