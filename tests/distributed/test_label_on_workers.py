"""A labelling session whose pool lies on workers goes on as if it lay here, whatever befalls them."""

from pathlib import Path

from tests.distributed.one_process import ray_in_this_process
from tests.sessions.small_projects import copied, opened
from understudy.core.protocol import RowStorage
from understudy.distributed.remote_rows import RayStorage, RemoteRows
from understudy.sessions.session import Session

PEOPLE = ("ann", "bob")


def label_in_turn(session: Session, labels: int) -> list[tuple[str, int]]:
    """Two people label, each with an item before them all the time; who was asked what."""
    asked = []
    questions = {name: session.next(name) for name in PEOPLE}
    for turn in range(labels):
        name = PEOPLE[turn % 2]
        item = questions[name].item
        assert item is not None
        asked.append((name, item))
        if turn % 7 == 3:
            session.undo(name, f"u{turn}")
            item = session.next(name).item
            assert item is not None
            asked.append((name, item))
        session.label(item, (item * 7) % 3, name, f"k{turn}")
        questions[name] = session.next(name)
    return asked


def session_on(storage: RowStorage | None, folder: Path, labels: int = 24) -> tuple[list[tuple[str, int]], int]:
    with opened(copied(folder, n=60, taught=2), storage=storage) as session:
        asked = label_in_turn(session, labels)
        rows = session.learning.chooser.surrogate.parts.rows
        assert isinstance(rows, RemoteRows) is (storage is not None)
        return asked, len(session.record.labels)


def test_two_people_are_asked_the_same_while_workers_are_lost(tmp_path: Path) -> None:
    here = session_on(None, tmp_path / "here")
    with ray_in_this_process(faults=0.05) as process:
        there = session_on(RayStorage(4), tmp_path / "there")
        assert process.losses > 5
    assert there == here
