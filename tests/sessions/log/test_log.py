"""The log gives back what it was given, in order, once, from either database."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.sessions import postgres
from tests.sessions.stores import Place, labelled, place_in
from understudy.errors import Conflict, NotFound, UnderstudyError
from understudy.sessions.log.events import KINDS, Event
from understudy.sessions.log.log import AlreadyThere, EventLog
from understudy.sessions.log.tables import METADATA, MIGRATIONS, REVISIONS
from understudy.store_urls import sqlite_url, without_password

cluster = postgres.cluster
both = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=64)
letters = st.characters(exclude_categories=())  # NUL and halves of a pair, too
numbers = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(letters),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(letters), inner, max_size=3),
    max_leaves=8,
)
events = st.builds(
    Event,
    kind=st.sampled_from(sorted(KINDS)),
    item=st.none() | st.integers(0, 2**63 - 1),
    annotator=names,
    data=st.dictionaries(st.text(letters), values, max_size=4),
    at=st.floats(1.0, 1e18),
)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_in(request.param, tmp_path, request)


@pytest.fixture
def log(place: Place) -> Iterator[EventLog]:
    with place.opened() as opened:
        yield opened


@both
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(events, max_size=4), keys=st.lists(names, min_size=4, max_size=4, unique=True))
def test_what_goes_in_comes_out(log: EventLog, given: list[Event], keys: list[str]) -> None:
    before = log.last()
    given = [replace(event, key=f"{before} {key}") for event, key in zip(given, keys, strict=False)]
    stored = log.append(*given)
    assert stored == list(log.read(before))
    assert [event.seq for event in stored] == list(range(before + 1, before + 1 + len(given)))
    # Halves of a pair that come together are a character, as JSON has it.
    expected = [replace(event, data=json.loads(json.dumps(dict(event.data)))) for event in given]
    assert [replace(event, seq=0) for event in stored] == expected
    assert [log.find(event.annotator or "", event.key or "") for event in stored] == stored


@both
@pytest.mark.parametrize("letter", ["\0", "\ud800", "\udc80x", "🦊", "\u2028", "\x1b", "'; DROP TABLE events; --"])
def test_any_letter_survives(log: EventLog, letter: str) -> None:
    log.append(Event("flagged", data={letter: [letter]}))
    assert next(log.read()).data == {letter: [letter]}


@both
def test_the_time_is_now_where_it_was_not_said_and_tuples_come_back_as_lists(log: EventLog) -> None:
    stored = log.append(Event("created", data={"classes": ("cat", "dog")}), Event("released", at=5.0))
    assert stored[0].at > 1.7e9
    assert stored[1].at == 5.0
    assert stored[0].data == {"classes": ["cat", "dog"]}
    assert log.append() == []
    assert log.last() == 2
    assert log.find("ann", "never used") is None


@both
def test_a_key_twice_is_one_event(log: EventLog) -> None:
    first, _ = log.append(labelled(1, "same"), labelled(2, "other"))
    with pytest.raises(AlreadyThere, match="key 'same' of ann was used before, for event 1") as caught:
        log.append(labelled(3, "new"), labelled(1, "same"))
    assert caught.value.stored == first
    assert isinstance(caught.value, Conflict)
    assert log.last() == 2, "nothing of the call that was refused is stored"
    assert log.append(Event("labelled", item=1, annotator="bob", key="same"))[0].seq == 3


@both
@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event("labelled", data={"p": float("nan")}), "data.p of an event is nan"),
        (Event("labelled", data={"p": [1.0, float("inf")]}), r"data.p\[1\] of an event is inf"),
        (Event("labelled", data={"p": {1: 2}}), "keys must be text"),
        (Event("labelled", data={"p": {1, 2}}), "data.p of an event is a set"),
        (Event("labelled", data={"p": 10**5000}), "write it as text"),
        (Event("labelled", item=-1), "0 or more; got -1"),
        (Event("labelled", item=2**63), "0 or more"),
        (Event("labelled", at=float("inf")), "seconds since 1970"),
        (Event("labelled", key="k"), "without an annotator"),
        (Event("labelled", annotator="", key="k"), "1 to 256 characters"),
        (Event("labelled", annotator="a" * 257), "got 257"),
        (Event("labelled", annotator="a\0b"), "must be text"),
        (Event("labelled", annotator="a", key="\ud800"), "must be text"),
        (Event("labelled", seq=3), "stored already"),
    ],
)
def test_what_no_database_could_give_back_is_refused(log: EventLog, event: Event, words: str) -> None:
    with pytest.raises(UnderstudyError, match=words) as caught:
        log.append(labelled(1), event)
    assert "\n" not in str(caught.value)
    assert log.last() == 0


@both
def test_data_that_holds_itself_and_a_key_for_two_are_refused(log: EventLog) -> None:
    endless: dict[str, Any] = {}
    endless["me"] = endless
    with pytest.raises(UnderstudyError, match="nested too deep"):
        log.append(Event("created", data=endless))
    with pytest.raises(UnderstudyError, match="two events at once"):
        log.append(labelled(1, "k"), labelled(2, "k"))


@both
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET item = 9",
        "DELETE FROM events",
        "DELETE FROM events WHERE seq = 2",
        "TRUNCATE events",
        "INSERT OR REPLACE INTO events (seq, at, kind, data) VALUES (1, 0, 'bad', '{}')",
        "INSERT OR REPLACE INTO events (seq, at, kind, annotator, key, data) VALUES (3, 0, 'bad', 'ann', 'k1', '{}')",
        "INSERT INTO events SELECT * FROM events ON CONFLICT (seq) DO UPDATE SET item = 9",
    ],
)
def test_the_database_itself_refuses_changes(log: EventLog, statement: str) -> None:
    before = log.append(labelled(1), labelled(2))
    with log.store.engine.connect() as connection, pytest.raises(DBAPIError):
        connection.execute(text(statement))
    assert list(log.read()) == before


@both
def test_threads_may_append_at_once(log: EventLog) -> None:
    found: list[int] = []

    def work(worker: int) -> None:
        for item in range(20):
            found.extend(event.seq for event in log.append(labelled(item, f"{worker}-{item}")))
            found.extend(0 for event in log.read(log.last() - 1) if event.seq == 0)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 81))


@both
def test_two_writers_without_the_lock_still_count_in_one_row(place: Place, log: EventLog) -> None:
    with place.opened() as other:
        stored = [who.append(labelled(item))[0].seq for item in range(10) for who in (log, other)[item % 2 :][:1]]
    assert stored == list(range(1, 11))


@both
def test_reading_goes_on_in_pages_and_sees_what_came_meanwhile(log: EventLog) -> None:
    log.append(*(Event("asked", item=item) for item in range(2500)))
    reading = log.read(after=10)
    first = next(reading)
    log.append(Event("released"))
    assert [first.seq, *(event.seq for event in reading)] == list(range(11, 2502))


@both
def test_a_log_is_read_while_another_process_would_write(place: Place, log: EventLog) -> None:
    log.lock()
    log.append(labelled(1))
    with place.opened(read_only=True) as reader:
        assert [event.item for event in reader.read()] == [1]
        log.append(labelled(2))
        assert [event.item for event in reader.read()] == [1, 2]
        for call in (lambda: reader.append(labelled(3)), reader.lock):
            with pytest.raises(UnderstudyError, match="reading only"):
                call()
        with reader.store.engine.connect() as connection, pytest.raises(DBAPIError):
            connection.execute(text("INSERT INTO events (seq, at, kind, data) VALUES (3, 0, 'bad', '{}')"))
    assert log.last() == 2


@both
def test_there_is_nothing_to_read_before_somebody_wrote(place: Place) -> None:
    with pytest.raises(NotFound, match="there is no log"):
        place.open(read_only=True)


@both
def test_whoever_comes_second_is_told_who_was_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.sessions.log.log.LOCK_WAIT_SECONDS", 0.1)
    with place.opened() as first, place.opened() as second:
        first.lock()
        first.lock("http://127.0.0.1:8000")
        with pytest.raises(Conflict, match=r"process \d+ on .+ serves it at http://127.0.0.1:8000; go there") as caught:
            second.lock()
        assert "\n" not in str(caught.value)
        first.close()
        second.lock()
        assert second.append(labelled(1))[0].seq == 1
    with pytest.raises(UnderstudyError, match="closed"):
        second.last()


@both
def test_a_connection_that_was_given_up_comes_back_with_its_lock(place: Place) -> None:
    with place.opened() as log, place.opened() as other:
        log.lock()
        log._connect().invalidate()
        assert log.append(labelled(1))[0].seq == 1
        assert not other.store.hold(other._connect(), 0.1)


@both
def test_what_is_no_text_is_not_looked_for(log: EventLog) -> None:
    for annotator, key in (("a\0", "k"), ("a", "\udc80"), ("a", "")):
        with pytest.raises(UnderstudyError, match=r"must be text|1 to 256 characters"):
            log.find(annotator, key)


@both
def test_migrations_make_the_tables_of_this_version(log: EventLog) -> None:
    with log.store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == REVISIONS[-1]


def test_the_revisions_are_those_of_the_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(script.revision for script in scripts)[::-1] == REVISIONS


@both
@pytest.mark.parametrize("read_only", [True, False])
def test_a_log_of_a_newer_version_is_left_alone(place: Place, read_only: bool) -> None:
    with place.opened() as log:
        log.append(labelled(1))
        with log.store.engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UnderstudyError, match="written by a newer version of understudy; upgrade"):
        place.open(read_only=read_only)


@both
def test_a_log_is_not_migrated_while_another_server_is_at_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.sessions.log.tables.WAIT_SECONDS", 0.1)
    with place.opened() as log:
        log.lock("http://127.0.0.1:8000")
        with log.store.engine.begin() as connection:
            connection.execute(text("DELETE FROM alembic_version"))
        with pytest.raises(Conflict, match=r"is of an older version and in use; process .* at http://127.0.0.1:8000"):
            place.open()


@both
def test_an_event_of_an_unknown_kind_is_not_passed_over(log: EventLog) -> None:
    with log.store.engine.begin() as connection:
        connection.execute(text("INSERT INTO events (seq, at, kind, data) VALUES (1, 0, 'danced', '{}')"))
    with pytest.raises(UnderstudyError, match=r"a kind that this version does not know .danced.; upgrade"):
        list(log.read())


@both
def test_logs_may_be_made_by_several_at_once(place: Place) -> None:
    logs: list[EventLog] = []
    threads = [threading.Thread(target=lambda: logs.append(place.open())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [log.last() for log in logs] == [0, 0, 0, 0]
    for log in logs:
        log.close()


def test_projects_of_one_database_know_nothing_of_each_other(cluster: postgres.Cluster) -> None:
    with (
        closing(EventLog.open(cluster.url(), "Cats & dogs")) as cats,
        closing(EventLog.open(cluster.url(), "cats and dogs")) as dogs,
    ):
        cats.lock()
        dogs.lock()
        assert [log.append(labelled(7))[0].seq for log in (cats, dogs)] == [1, 1]
    with pytest.raises(UnderstudyError, match="give the name of this one"):
        EventLog.open(cluster.url())


def test_a_password_is_never_shown(cluster: postgres.Cluster) -> None:
    with closing(EventLog.open(cluster.url(), "p")) as log, log.store.engine.begin() as connection:
        connection.execute(text("CREATE ROLE ann LOGIN PASSWORD 'right'"))
    access = cluster.data / "pg_hba.conf"
    access.write_text(f"local all ann scram-sha-256\n{access.read_text()}")
    cluster.call("pg_ctl", "reload", "-D", str(cluster.data))
    for url in (
        f"postgresql://ann:s3cret@/postgres?host={cluster.folder}",
        "postgresql://ann:s3cret@127.0.0.1:1/labels",
        "postgresql://ann:s3cret@127.0.0.1:s3cret/labels",
        "postgresql://ann:s3cret@[::1/labels",
        "mysql://ann:s3cret@127.0.0.1/labels",
        "mysql://ann:s3cret@[::1/labels",
        "mysql://ann:s3@cret@/s3cret@host/labels?password=s3cret",
    ):
        with pytest.raises(UnderstudyError) as caught:
            EventLog.open(url, "p")
        assert "\n" not in str(caught.value)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(UnderstudyError, match="GRANT CREATE ON DATABASE postgres TO ann"):
        EventLog.open(f"postgresql://ann:right@/postgres?host={cluster.folder}", "of ann")


def test_a_database_that_cannot_hold_all_letters_is_refused(cluster: postgres.Cluster) -> None:
    with closing(EventLog.open(cluster.url(), "p")) as log, log.store.engine.connect() as connection:
        own = connection.execution_options(isolation_level="AUTOCOMMIT")
        own.execute(text("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0"))
    with pytest.raises(UnderstudyError, match="LATIN1; make one with: createdb -E UTF8"):
        EventLog.open(cluster.url("old"), "p")


def test_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UnderstudyError, match=r"pip install 'understudy-al\[postgres\]'"):
        EventLog.open("postgresql://127.0.0.1/labels", "p")


def test_addresses_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite3").write_text("no database at all, but long enough to be taken for one\n" * 20)
    for url, words in (
        ("sqlite:///:memory:", "in memory would be lost"),
        ("sqlite:///", "in memory would be lost"),
        (sqlite_url(tmp_path / "none" / "log.sqlite3"), "is not a folder"),
        (sqlite_url(tmp_path / "text.sqlite3"), "is not a log"),
        (sqlite_url(tmp_path), "cannot be opened"),
        ("photos", "give sqlite:///PATH or postgresql://"),
    ):
        with pytest.raises(UnderstudyError, match=words) as caught:
            EventLog.open(url)
        assert "\n" not in str(caught.value)


def test_any_name_of_a_folder_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "what? 100% #1 ümläut&mode=ro"
    folder.mkdir()
    with closing(EventLog.open(sqlite_url(folder / "log.sqlite3"))) as log:
        log.append(labelled(1))
    assert (folder / "log.sqlite3").stat().st_size > 0


def test_an_address_is_kept_without_its_password() -> None:
    assert without_password("postgresql://ann:p%40ss@host:5432/db?sslmode=require") == (
        "postgresql://ann@host:5432/db?sslmode=require"
    )
    assert without_password("postgresql:///db?host=/run&password=x&user=ann") == "postgresql:///db?host=/run&user=ann"
    assert without_password("sqlite:////home/ann:x@y/log.sqlite3") == "sqlite:////home/ann:x@y/log.sqlite3"
