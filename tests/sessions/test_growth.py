"""Items that join while people label: found when they stand still, the same rows for ever, taken in at once."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sessions.label_data import images
from tests.sessions.small_projects import (
    CALM,
    SMALL,
    after_a_kill,
    copied,
    label_next,
    opened,
    require_in_step,
    stored_events,
)
from tests.waiting import wait_until
from understudy.data.faults import ItemFault
from understudy.errors import NotStored
from understudy.projects import source_watch
from understudy.projects.opening import create_or_open, look_again
from understudy.sessions import growth
from understudy.sessions.browsing import Filter
from understudy.sessions.chooser import Chooser
from understudy.sessions.growth import basis_rows_for
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.learning import Learning
from understudy.sessions.log.events import Event
from understudy.sessions.opening import open_session
from understudy.sessions.record import Record
from understudy.sessions.session import Session
from understudy.sessions.training import trainer
from understudy.sessions.training.side_process import SideProcess


@pytest.fixture(autouse=True)
def _still_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there at the last look stands still, so that no test waits."""
    monkeypatch.setattr(source_watch, "STILL_SECONDS", 0.0)
    monkeypatch.setattr(source_watch, "SETTLING_SECONDS", 0.0)


def put(session: Session, n: int, first: int = 100, prefix: str = "new") -> list[str]:
    """More photos beside a project."""
    names = [f"{prefix}{first + row}.png" for row in range(n)]
    images(session.project.folder.parent / "photos", names, first=first)
    return names


def take_turns(session: Session, until: int, turns: int = 6) -> None:
    """Look as the thread would until there are so many items."""
    for _ in range(turns):
        session.growth.take_turn()
        if session.record.n_items >= until:
            break
    assert session.record.n_items == until


def added(session: Session) -> list[Event]:
    return [event for event in stored_events(session) if event.kind == "items_added"]


@contextmanager
def a_project(folder: Path, source: Path, **given: Any) -> Iterator[Session]:
    """A session of a new project."""
    options = {"encoder": "words", "device": "cpu", **CALM, **given}
    session = open_session(create_or_open(source, project=folder / "project", **options))
    try:
        yield session
    finally:
        session.close()


# -- files that come -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taught", [0, 2])
def test_items_join_a_running_session_as_the_next_rows(tmp_path: Path, taught: int) -> None:
    with opened(copied(tmp_path / "one", taught=taught)) as session:
        before = session.project.pool.ids
        held = session.next("ann").item
        names = put(session, 12)
        take_turns(session, 52)
        pool = session.project.pool
        assert pool.ids == (*before, *sorted(names))
        assert pool.features is not None
        assert pool.features.shape[0] == 52
        [event] = added(session)
        assert event.data["count"] == 12
        assert session.record.items_at(event.seq - 1) == 40
        assert session.next("ann").item == held, "nobody's item is taken away"
        session.label(45, 1, "bob", "k")
        for turn in range(3):
            label_next(session, "ann", f"a{turn}", turn % 2)
        require_in_step(session)
        status = session.status()
        assert (status.total, status.joining) == (52, None)
        assert status.items_news is not None
        assert status.items_news.line == "12 new items joined; there are 52 now"


def test_new_items_get_predictions_at_once_and_everything_knows_them(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2, audit_share=0.2)) as session:
        overview = session.browser.overview()
        assert len(overview.columns.labels) == 40
        lasso = ((-1.0, -1.0), (2.0, -1.0), (2.0, 2.0), (-1.0, 2.0))
        assert len(session.map.shown().steps) == 40
        session.copies(3)
        names = put(session, 30)
        shutil.copy(tmp_path / "one" / "photos" / "0003.png", tmp_path / "one" / "photos" / "zz-copy.png")
        take_turns(session, 71)
        probs = session.models.predictions()
        assert probs.shape == (71, 3)
        np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-4)
        assert session.models.guess(50) == int(probs[50].argmax())
        event = added(session)[0]
        audit = set(event.data["audit"])
        assert audit, "the seed draws some of 31"
        assert audit <= set(range(40, 71))
        assert audit <= set(session.record.audit_rows)
        seen = session.browser.overview()
        assert len(seen.columns.labels) == 71
        suggested = set(np.flatnonzero(seen.suggested >= 0).tolist())
        assert suggested == set(range(71)) - set(session.record.audit_rows)
        page = session.browser.page(Filter(name="new"), limit=200)
        assert sorted(found.id for found in page.items) == sorted(names)
        assert len(session.map.shown().steps) == 71
        assert len(session.browser.page(Filter(lasso=lasso), with_rows=True).rows) == 71
        assert [copy.id for copy in session.copies(3).copies] == ["zz-copy.png"]
        assert session.status().audit is not None
        assert session.status().audit.items == len(session.record.audit_rows)  # type: ignore[union-attr]
        assert {found.item for label in range(3) for found in session.likely(label, 100)} & set(range(40, 71))
        session.label(60, 2, "ann", "k")
        exported = collect_labels(session.record, session.project.pool)
        assert [(row.id, row.label) for row in exported.read_rows() if row.annotator == "ann"] == [
            (session.project.pool.ids[60], "fox")
        ]
        require_in_step(session)


def test_a_file_that_is_being_written_joins_when_it_has_stood_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_watch, "STILL_SECONDS", 2.0)
    now = [0.0]
    with opened(copied(tmp_path / "one")) as session:
        watch = source_watch.SourceWatch(session.project, lambda: now[0])
        assert watch.look() == source_watch.Look()
        whole = (images(tmp_path / "made", ["a.png"], first=200) / "a.png").read_bytes()
        path = tmp_path / "one" / "photos" / "slow.png"
        for half in (whole[:100], whole[:200], whole):
            now[0] += 1.0
            path.write_bytes(half)
            os.utime(path, ns=(0, int(now[0] * 1e9)))
            look = watch.look()
            assert (dict(look.ready), look.settling) == ({}, 1)
        now[0] += 1.9
        assert watch.look().settling == 1
        now[0] += 0.2
        look = watch.look()
        assert look.ready == {"slow.png": (len(whole), int(3e9))}
        assert look.settling == 0
        path.write_bytes(whole[:50])  # somebody writes it anew just before it is encoded
        session.growth._add(look.ready)
        assert session.record.n_items == 40
        path.write_bytes(whole)
        monkeypatch.setattr(source_watch, "STILL_SECONDS", 0.0)
        take_turns(session, 41)


def test_looking_is_cheap_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(copied(tmp_path / "one")) as session:
        session.growth.take_turn()
        session.growth.take_turn()
        listed: list[str] = []
        monkeypatch.setattr(source_watch, "look_again", lambda _: listed.append("again"))
        monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)))
        for _ in range(5):
            assert session.growth.take_turn() is None, "nobody asked for more"
        assert listed == []


def test_files_in_new_folders_below_are_found_and_hidden_ones_are_not(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        photos = tmp_path / "one" / "photos"
        session.growth.take_turn()
        images(photos, ["deep/er/1.png"], first=300)
        images(photos, [".hidden/2.png", ".part.png"], first=310)
        take_turns(session, 41)
        images(photos, ["deep/er/3.png"], first=320)
        take_turns(session, 42)
        assert session.project.pool.ids[40:] == ("deep/er/1.png", "deep/er/3.png")


def test_what_cannot_be_used_is_left_out_said_and_tried_again_when_it_has_changed(tmp_path: Path) -> None:
    said: list[str] = []
    with opened(copied(tmp_path / "one")) as session:
        session.growth._say = said.append
        broken = tmp_path / "one" / "photos" / "broken.png"
        broken.write_bytes(b"")
        put(session, 1)
        take_turns(session, 41)
        assert "broken.png" in session.project.unusable
        assert str(tmp_path) not in " ".join(session.growth.notes)
        for _ in range(3):
            session.growth.take_turn()
        assert len(said) == 2
        assert said[1].startswith("1 item cannot be used; the first: broken.png: ")
        assert session.growth.notes == said[1:]
        whole = (images(tmp_path / "made", ["a.png"], first=200) / "a.png").read_bytes()
        with broken.open("r+b") as file:  # filled in place, so that its folder looks as it did
            file.write(whole)
        take_turns(session, 42)
        session.growth.take_turn()
        assert session.growth.notes == []
        assert session.project.pool.ids[41] == "broken.png"


def test_a_file_that_comes_alone_and_broken_is_said_and_tried_again_when_it_is_mended(tmp_path: Path) -> None:
    said: list[str] = []
    with opened(copied(tmp_path / "one")) as session:
        session.growth._say = said.append
        broken = tmp_path / "one" / "photos" / "broken.png"
        whole = (images(tmp_path / "made", ["a.png"], first=200) / "a.png").read_bytes()
        broken.write_bytes(whole[:-40])  # a copy that was held up for longer than files have to stand still
        for _ in range(4):
            session.growth.take_turn()
        assert session.record.n_items == 40
        assert len(said) == 1, said
        assert said[0].startswith("1 new item could not be added: none of 1 item can be used: broken.png: ")
        assert session.growth.notes == said
        assert session.growth.look_now().new == 1, "whoever asks has it tried again"
        session.growth.stop()
        with broken.open("r+b") as file:
            file.write(whole)
    with opened(session.project.folder) as session:
        assert session.project.pool.ids[40:] == ("broken.png",)
        other = broken.with_name("other.png")
        other.write_bytes(whole[:-40])
        for _ in range(3):
            session.growth.take_turn()
        with other.open("r+b") as file:
            file.write(whole)
        take_turns(session, 42)


def test_an_item_that_is_gone_keeps_its_row_and_labels(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one")) as session:
        session.label(3, 1, "ann", "k")
        (tmp_path / "one" / "photos" / "0003.png").unlink()
        put(session, 1)
        take_turns(session, 41)
        assert session.record.label_of(3) == 1
        assert session.project.pool.ids[3] == "0003.png"
        found = session.growth.look_now()
        assert (found.new, found.gone, found.unusable) == (0, 1, 0)
        assert found.notes == ["1 item is not in photos any more; their rows stay"]
        assert session.progress().data_notes == found.notes
        assert session.progress(only="ann").data_notes == []


def test_a_folder_that_is_away_is_said_once_and_looked_for_again(tmp_path: Path) -> None:
    said: list[str] = []
    photos = images(tmp_path / "photos", [f"{row}.png" for row in range(10)])
    with a_project(tmp_path, photos, encoder=SMALL, classes=["cat", "dog"]) as session:
        session.growth._say = said.append
        photos.rename(tmp_path / "elsewhere")
        for _ in range(3):
            session.growth.take_turn()
        assert said == ["new items are not looked for: photos is not there; put it back"]
        (tmp_path / "elsewhere").rename(photos)
        put(session, 1)
        take_turns(session, 11)


def test_class_folders_label_what_joins_and_a_new_folder_is_a_new_class(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", ["cat/1.png", "dog/2.png", *(f"{row}.png" for row in range(10))])
    with a_project(tmp_path, photos, encoder=SMALL) as session:
        wait_until(lambda: not session.learning.is_busy)
        images(photos, ["cat/3.png", "owl/4.png", "loose.png"], first=50)
        take_turns(session, 15)
        names = {session.project.pool.ids[row]: label for row, label in session.record.effective.items()}
        assert names == {"cat/1.png": 0, "dog/2.png": 1, "cat/3.png": 0, "owl/4.png": 2}
        assert session.record.classes == ["cat", "dog", "owl"]
        assert not set(session.record.audit_rows) & session.record.effective.keys()
        require_in_step(session)


# -- tables --------------------------------------------------------------------------------------------------------


def rows_of(n: int, first: int = 0) -> list[dict[str, str]]:
    return [{"id": f"n{row}", "text": f"word{row * 7919} and {row}", "title": f"T{row}"} for row in range(first, n)]


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: list[dict[str, str]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_jsonl(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.mark.parametrize(
    ("name", "write"), [("t.csv", write_csv), ("t.jsonl", write_jsonl), ("t.parquet", write_parquet)]
)
def test_rows_that_are_appended_to_a_table_join_with_their_columns(
    tmp_path: Path, name: str, write: Callable[[Path, list[dict[str, str]]], None]
) -> None:
    path = tmp_path / name
    write(path, rows_of(20))
    with a_project(tmp_path, path, classes=["a", "b"], show=("title",)) as session:
        session.growth.take_turn()
        changed = rows_of(25)
        changed[2]["text"] = "quite another text"
        del changed[4]
        write(path, changed)
        take_turns(session, 25)
        pool = session.project.pool
        assert pool.ids == tuple(f"n{row}" for row in range(25)), "the one that is gone keeps its row"
        assert pool.item(2) == "word15838 and 2", "a text stays what it was when it was encoded"
        assert pool.item(24) == rows_of(25)[24]["text"]
        assert session.project.columns_of(24) == [("title", "T24")]
        assert session.project.columns_of(4) == [("title", "T4")]
        notes = session.growth.look_now().notes
        assert notes[0] == f"1 item is not in {name} any more; their rows stay"
        assert "n2 (reads differently in the source now)" in notes[1]
        assert str(tmp_path) not in " ".join(notes)
    with opened(tmp_path / "project") as session:
        assert session.record.n_items == 25
        assert session.project.columns_of(24) == [("title", "T24")]


def test_images_in_a_table_are_shown_from_where_they_are_in_it_now(tmp_path: Path) -> None:
    """Rows that move or go do not leave another image in an item's place."""
    made = images(tmp_path / "made", [f"{row}.png" for row in range(12)])
    cells = [{"id": f"n{row}", "image": (made / f"{row}.png").read_bytes()} for row in range(12)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pylist(cells[:10]), path, row_group_size=3)
    with a_project(tmp_path, path, encoder=SMALL, classes=["a", "b"]) as session:
        session.growth.take_turn()
        pq.write_table(pa.Table.from_pylist(cells[9:4:-1]), path, row_group_size=2)
        session.growth.take_turn()
        items = session.project.pool.items
        assert items is not None
        assert [items.read(row) for row in range(5, 10)] == [cell["image"] for cell in cells[5:10]]
        with pytest.raises(ItemFault):
            items.read(2)
        pq.write_table(pa.Table.from_pylist(cells[::-1]), path, row_group_size=2)
        take_turns(session, 12)
        items = session.project.pool.items
        assert items is not None
        assert dict(zip(session.project.pool.ids, map(items.read, range(12)), strict=True)) == {
            str(cell["id"]): cell["image"] for cell in cells
        }


def test_lines_without_names_are_known_by_their_text_wherever_they_move(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"word{row * 7919}\n" for row in range(20)))
    with a_project(tmp_path, path, classes=["a", "b"]) as session:
        session.label(0, 1, "ann", "k")
        path.write_text("at the top\n" + path.read_text() + "at the end\n")
        take_turns(session, 22)
        assert [session.project.pool.item(row) for row in (0, 20, 21)] == ["word0", "at the top", "at the end"]
        assert session.record.label_of(0) == 1


def test_a_table_that_cannot_be_read_is_said_and_read_when_it_can_be(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_parquet(path, rows_of(20))
    with a_project(tmp_path, path, classes=["a", "b"]) as session:
        write_parquet(path, rows_of(22))
        whole = path.read_bytes()
        path.write_bytes(whole[:-50])
        found = session.growth.look_now()
        assert found.new == 0
        assert found.notes[0].startswith("new items are not looked for at the moment: t.parquet cannot be read")
        path.write_bytes(whole)
        session.growth.stop()
        take_turns(session, 20, turns=1)
    with opened(tmp_path / "project") as session:
        assert session.record.n_items == 22


def test_a_data_set_with_a_name_does_not_grow(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", kind="digits")) as session:
        found = session.growth.look_now()
        assert found.notes == ["new items are not looked for: digits is a data set, which does not grow"]


# -- kept for ever -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("without", [(), ("work",)])
@pytest.mark.parametrize("taught", [0, 2])
def test_after_a_kill_the_items_are_there_as_the_same_rows_and_the_picks_are_the_same(
    tmp_path: Path, taught: int, without: tuple[str, ...]
) -> None:
    with opened(copied(tmp_path / "one", taught=taught)) as session:
        label_next(session, "ann", "k0", 0)
        put(session, 7)
        take_turns(session, 47)
        label_next(session, "ann", "k1", 0)
        session.label(44, 0, "bob", "k2")
        put(session, 5, first=120, prefix="a")  # before the others by name
        take_turns(session, 52)
        asked = label_next(session, "ann", "k3", 0).item
        ids, turns = session.project.pool.ids, session.record.audit_turns
        with after_a_kill(session, tmp_path / "killed", without) as follower:
            assert follower.project.pool.ids == ids
            assert follower.record.audit_turns == turns
            assert follower.next("ann").item == asked
            chosen = session.next("cy").item
            assert follower.next("cy").item == chosen
            require_in_step(follower)
            np.testing.assert_allclose(
                follower.learning.chooser.surrogate.utility, session.learning.chooser.surrogate.utility, rtol=1e-4
            )


def test_what_a_kill_left_without_an_event_joins_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files come first. A kill between them and the event leaves items that nobody has heard of."""
    with opened(copied(tmp_path / "one", taught=2)) as session:
        put(session, 6)
        with monkeypatch.context() as patch:
            patch.setattr(growth.Growth, "join", lambda *_: 0)
            session.growth.take_turn()
            session.growth.take_turn()
        assert session.project.is_behind
        assert session.record.n_items == 40
        assert len(session.project.pool) == 40, "nobody sees them yet"
        with after_a_kill(session, tmp_path / "killed") as follower:
            assert follower.record.n_items == 46
            assert len(added(follower)) == 1
            require_in_step(follower)
        session.growth.take_turn()  # without a kill they join at the next turn
        assert session.record.n_items == 46
        require_in_step(session)


def test_a_kill_while_items_are_encoded_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(copied(tmp_path / "one")) as session:
        put(session, 6)

        def die(*_: Any) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(SideProcess, "run", die)
            session.growth.take_turn()
            session.growth.take_turn()
        with after_a_kill(session, tmp_path / "killed") as follower:
            assert follower.record.n_items == 46


def test_a_log_that_cannot_be_written_holds_items_up_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Event) -> list[Event]:
        raise NotStored("the disk is full")

    said: list[str] = []
    with opened(copied(tmp_path / "one", taught=2)) as session:
        session.growth._say = said.append
        put(session, 6)
        with monkeypatch.context() as patch:
            patch.setattr(session._log, "append", refuse)
            for _ in range(3):
                session.growth.take_turn()
            assert session.record.n_items == len(session.project.pool) == 40
            assert len(session.learning.chooser.surrogate) == 40
            assert said == ["the disk is full"]
        session.growth.take_turn()
        assert session.record.n_items == 46
        assert len(added(session)) == 1
        label_next(session, "ann", "k", 1)
        require_in_step(session)


@pytest.mark.parametrize("is_found_by", ["the next turn", "a label"])
def test_a_commit_that_nobody_confirmed_is_found_with_its_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_found_by: str
) -> None:
    """The connection breaks after the event was stored: items do not join a second time."""
    with opened(copied(tmp_path / "one", taught=2)) as session:
        put(session, 6)
        append = session._log.append

        def break_off(*events: Event) -> list[Event]:
            append(*events)
            raise NotStored("the connection was lost")

        with monkeypatch.context() as patch:
            patch.setattr(session._log, "append", break_off)
            session.growth.take_turn()
        assert session.record.n_items == 40
        if is_found_by == "a label":
            session.label(5, 1, "ann", "k")
        else:
            session.growth.take_turn()
        assert session.record.n_items == len(session.project.pool) == 46
        assert len(session.learning.chooser.surrogate) == 46
        session.growth.take_turn()
        assert len(added(session)) == 1
        require_in_step(session)


def test_items_that_come_while_a_project_is_closed_join_the_same_way_at_the_start(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", taught=2)
    images(tmp_path / "one" / "photos", [f"new{row}.png" for row in range(9)], first=100)
    with opened(folder) as session:
        [event] = added(session)
        assert (event.data["count"], event.data["basis_rows"]) == (9, 40)
        assert len(event.data["turns"]) == len(event.data["audit"])
        session.next("ann")
        require_in_step(session)
        again = session.learning.make_chooser().surrogate
        assert len(again) == 49
    with opened(folder) as session:
        assert len(added(session)) == 1


def test_a_log_of_an_earlier_version_makes_the_surrogate_of_all_items(tmp_path: Path) -> None:
    """There items came while a project was opened, each time with a sample of their own."""
    folder = copied(tmp_path / "one")
    with opened(folder) as session:
        images(tmp_path / "one" / "photos", [f"new{row}.png" for row in range(9)], first=100)
        new = look_again(session.project)
        new.prepare()
        session.growth._next = new, None
        session._store(Event("items_added", data={"count": 9, "audit": [44, 41]}))
        assert session.record.audit_turns == [None, None]
    with opened(folder) as session:
        assert (session.record.n_items, session.record.basis_rows) == (49, 49)
        assert session.turns.next_audit("ann") == session.record.audit_rows[0]
        require_in_step(session)


# -- the surrogate -------------------------------------------------------------------------------------------------


def test_people_go_on_labelling_while_items_are_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow part holds no lock; what was decided meanwhile is known to what takes over."""
    with opened(copied(tmp_path / "one", taught=2)) as session:
        put(session, 6)
        begun, go_on = threading.Event(), threading.Event()
        take_in = Chooser.take_in

        def slowly(chooser: Any, *given: Any) -> None:
            begun.set()
            assert go_on.wait(60)
            take_in(chooser, *given)

        monkeypatch.setattr(Chooser, "take_in", slowly)
        thread = threading.Thread(target=take_turns, args=(session, 46))
        thread.start()
        assert begun.wait(60)
        for turn in range(7):
            label_next(session, "ann", f"k{turn}", turn % 3)
        session.add_class("owl", "ann", "c")
        assert session.record.n_items == 40
        go_on.set()
        thread.join()
        assert session.learning.chooser.surrogate.n_classes == 4
        require_in_step(session)
        label_next(session, "ann", "k", 3)
        require_in_step(session)


def test_a_model_that_comes_while_items_are_taken_in_knows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        for item in [item for item in range(40) if session.record.state_of(item)[0] == "open"][:6]:
            session.label(item, item % 3, "ann", f"k{item}")
        put(session, 6)
        take_in, calls = Chooser.take_in, list[int]()

        def train_first(chooser: Any, *given: Any) -> None:
            if not calls:
                session.train()
                wait_until(lambda: len(session.record.trainings) == 2 and not session.learning.is_busy)
            calls.append(len(chooser.surrogate))
            take_in(chooser, *given)

        monkeypatch.setattr(Chooser, "take_in", train_first)
        take_turns(session, 46)
        assert calls == [40, 40], "what was prepared for the former model is of no use"
        assert len(added(session)) == 1
        np.testing.assert_allclose(
            session.learning.chooser.surrogate.anchor_probs(range(46)), session.models.predictions(), rtol=1e-5
        )
        require_in_step(session)


def test_items_that_join_while_a_model_is_trained_are_predicted_by_that_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        for item in [item for item in range(40) if session.record.state_of(item)[0] == "open"][:6]:
            session.label(item, item % 3, "ann", f"k{item}")
        swap = Learning._swap

        def grow_first(learning: Learning, trained: Any) -> None:
            put(session, 6)
            take_turns(session, 46)
            swap(learning, trained)

        monkeypatch.setattr(Learning, "_swap", grow_first)
        session.train()
        wait_until(lambda: len(session.record.trainings) == 2 and not session.learning.is_busy)
        chooser = session.learning.chooser.surrogate
        assert len(chooser) == 46
        np.testing.assert_allclose(chooser.anchor_probs(range(46)), session.models.predictions(), rtol=1e-5)
        assert session.record.trainings[-1].data["basis_rows"] == 40
        require_in_step(session)
        with after_a_kill(session, tmp_path / "killed") as follower:
            assert follower.next("ann").item == session.next("ann").item
            require_in_step(follower)


def test_a_training_takes_another_basis_once_the_pool_has_grown_by_a_tenth(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=2, basis_size=None)) as session:
        put(session, 3)
        take_turns(session, 43)
        for turn in range(4):
            label_next(session, "ann", f"k{turn}", turn % 3)
        session.train()
        wait_until(lambda: len(session.record.trainings) == 2 and not session.learning.is_busy)
        assert session.record.basis_rows == 40
        assert len(session.learning.chooser.surrogate.parts.kernel.U) == 10
        require_in_step(session)
        put(session, 5, first=200)
        take_turns(session, 48)
        session.train()
        wait_until(lambda: len(session.record.trainings) == 3 and not session.learning.is_busy)
        assert session.record.basis_rows == 48
        assert len(session.learning.chooser.surrogate.parts.kernel.U) == 12
        require_in_step(session)
        with after_a_kill(session, tmp_path / "killed", ("work",)) as follower:
            assert follower.next("ann").item == session.next("ann").item
            require_in_step(follower)


def test_a_pool_that_has_grown_as_labels_would_have_to_is_trained_on_at_once(tmp_path: Path) -> None:
    folder = copied(tmp_path / "one", taught=2)
    with opened(folder) as session:
        session.change_settings({"retrain_growth": 1.5}, "ann", "s")
        session.train()
        wait_until(lambda: not session.learning.is_busy)
        models = len(session.record.trainings)
        put(session, 19)
        take_turns(session, 59)
        assert not session.learning.is_busy
        put(session, 1, first=300)
        take_turns(session, 60)
        wait_until(lambda: len(session.record.trainings) == models + 1 and not session.learning.is_busy)
        assert session.record.trainings[-1].data["labels"] == session.record.trainings[-2].data["labels"]
        assert session.learning.next_training() != len(session.record.usable), "once is enough"


def test_without_a_model_a_pool_of_a_few_items_gets_a_basis_of_all_that_came(tmp_path: Path) -> None:
    """A basis of three files would be no basis for fifty. What was decided meanwhile is known on it."""
    photos = images(tmp_path / "photos", [f"{row}.png" for row in range(8)])
    with a_project(tmp_path, photos, encoder=SMALL, classes=["cat", "dog"], basis_size=None) as session:
        assert len(session.learning.chooser.surrogate.parts.kernel.U) == 2
        first = session.next("ann").item
        assert first is not None
        session.label(first, 0, "ann", "k")
        images(photos, ["one.png"], first=100)
        take_turns(session, 9)
        assert session.record.basis_rows == 8
        assert len(session.learning.chooser.surrogate.parts.kernel.U) == 2
        images(photos, [f"new{row}.png" for row in range(40)], first=200)
        take_turns(session, 49)
        assert session.record.basis_rows == 49
        assert added(session)[-1].data["basis_rows"] == 49
        assert len(session.learning.chooser.surrogate.parts.kernel.U) == 13
        assert session.models.first_influence is not None
        require_in_step(session)
        for turn in range(3):
            label_next(session, "ann", f"k{turn}", 0)
        with after_a_kill(session, tmp_path / "killed") as follower:
            assert follower.next("ann").item == session.next("ann").item
            require_in_step(follower)


def test_a_basis_is_made_anew_without_a_model_only_where_half_as_many_came() -> None:
    record = Record()
    record.basis_rows = 100
    assert [basis_rows_for(record, n) for n in (101, 150, 151)] == [100, 100, 151]
    record.trainings.append(Event("trained"))
    assert basis_rows_for(record, 1000) == 100


# -- the thread ----------------------------------------------------------------------------------------------------


def test_the_thread_looks_by_itself_or_when_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "LOOK_SECONDS", 0.05)
    said: list[str] = []
    with opened(copied(tmp_path / "one")) as session:
        put(session, 2)
        session.growth.start(polls=False, say=said.append)
        found = session.growth.look_now()
        assert found.new == 2
        wait_until(lambda: session.record.n_items == 42)
    with opened(copied(tmp_path / "two")) as session:
        put(session, 3)  # before anything looks: what comes while it looks may join one by one
        session.growth.start(say=said.append)
        wait_until(lambda: session.record.n_items == 43)
        version = session.version
        put(session, 1, first=200)
        wait_until(lambda: session.record.n_items == 44)
        assert session.version > version
    assert said == [
        "2 new items joined; there are 42 now", "3 new items joined; there are 43 now",
        "1 new item joined; there are 44 now",
    ]  # fmt: skip
    assert session.growth._thread is not None
    assert not session.growth._thread.is_alive()


def test_a_session_that_closes_does_not_wait_for_what_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def never_ready(_: Path, output: Any, gently: bool) -> subprocess.Popen[bytes]:  # noqa: ARG001
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, start_new_session=True))
        return started[-1]

    monkeypatch.setattr(growth, "LOOK_SECONDS", 0.05)
    with opened(copied(tmp_path / "one")) as session:
        put(session, 2)
        monkeypatch.setattr(trainer, "start_process", never_ready)
        session.growth.start()
        wait_until(lambda: started)
        assert session.status().joining is not None
        session.close()
        assert started[0].poll() == -signal.SIGKILL
        assert not list(session.project.work.glob("new-items-*"))
        assert session.growth._thread is not None
        assert not session.growth._thread.is_alive()
