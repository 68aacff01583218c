"""A labelling session whose pool lies on workers goes on as if it lay here, whatever befalls them."""

from pathlib import Path

import pytest

from tests.distributed.one_process import ray_in_this_process
from tests.sessions.small_projects import copied, opened, require_in_step
from tests.sessions.test_growth import put, take_turns
from understudy.core.protocol import RowStorage
from understudy.distributed.remote_rows import RayStorage, RemoteRows
from understudy.projects import source_watch
from understudy.sessions.session import Session

PEOPLE = ("ann", "bob")


def label_in_turn(session: Session, labels: int, first: int = 0) -> list[tuple[str, int]]:
    """Two people label, each with an item before them all the time; who was asked what."""
    asked = []
    questions = {name: session.next(name) for name in PEOPLE}
    for turn in range(labels):
        name = PEOPLE[turn % 2]
        item = questions[name].item
        assert item is not None
        asked.append((name, item))
        if turn % 7 == 3:
            session.undo(name, f"u{first + turn}")
            item = session.next(name).item
            assert item is not None
            asked.append((name, item))
        session.label(item, (item * 7) % 3, name, f"k{first + turn}")
        questions[name] = session.next(name)
    return asked


def session_on(storage: RowStorage | None, folder: Path, labels: int = 24) -> tuple[list[tuple[str, int]], int]:
    with opened(copied(folder, n=60, taught=2), storage=storage) as session:
        asked = label_in_turn(session, labels)
        rows = session.learning.chooser.surrogate.parts.rows
        assert isinstance(rows, RemoteRows) is (storage is not None)
        return asked, len(session.record.labels)


def session_that_grows(storage: RowStorage | None, folder: Path) -> list[tuple[str, int]]:
    """Images join, twice, while two people label."""
    with opened(copied(folder, n=60, taught=2), storage=storage) as session:
        asked = label_in_turn(session, 8)
        for more in (3, 12):
            before = session.learning.chooser.surrogate.parts.rows
            put(session, more, first=100 * more)
            take_turns(session, session.record.n_items + more)
            asked += label_in_turn(session, 8, first=100 * more)
            now = session.learning.chooser.surrogate.parts.rows
            assert now is not before
            if storage is not None:
                assert isinstance(before, RemoteRows)
                assert isinstance(now, RemoteRows)
                assert now.holders.actors is before.holders.actors, "a copy has the same workers"
        asked += [("ann", int(row)) for row in session.learning.chooser.surrogate.leaders(8)]
        require_in_step(session)
        return asked


@pytest.fixture(autouse=True)
def _still_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watch, "STILL_SECONDS", 0.0)
    monkeypatch.setattr(source_watch, "SETTLING_SECONDS", 0.0)


@pytest.mark.parametrize("faults", [0.0, 0.05])
def test_items_join_while_people_label_as_they_do_where_rows_lie_here(tmp_path: Path, faults: float) -> None:
    here = session_that_grows(None, tmp_path / "here")
    assert max(item for _, item in here) >= 60, "new items are asked for, too"
    with ray_in_this_process(faults=faults) as process:
        there = session_that_grows(RayStorage(4), tmp_path / "there")
        assert (process.losses > 5) is (faults > 0)
    assert there == here


def test_two_people_are_asked_the_same_while_workers_are_lost(tmp_path: Path) -> None:
    here = session_on(None, tmp_path / "here")
    with ray_in_this_process(faults=0.05) as process:
        there = session_on(RayStorage(4), tmp_path / "there")
        assert process.losses > 5
    assert there == here
