from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import pytest

from tests.sessions.label_data import images, prepared
from tests.sessions.small_projects import CALM, SMALL, after_a_kill, require_in_step, stored_events
from understudy.errors import Conflict, NotFound
from understudy.sessions.opening import open_session
from understudy.sessions.replies import Stored
from understudy.sessions.session import Session

COPIES_OF_FIRST = ("0a.png", "0b.png", "0c.png")


@pytest.fixture(params=[0.0])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """Thirty images, the first of which is there four times. No audit items unless a share is given."""
    photos = images(tmp_path / "photos", [f"{row:02}.png" for row in range(30)])
    for name in COPIES_OF_FIRST:
        copyfile(photos / "00.png", photos / name)
    made = prepared(
        photos, project=tmp_path / "project", classes=["cat", "dog"], encoder=SMALL, audit_share=request.param, **CALM
    )
    session = open_session(made)
    yield session
    session.close()


def first_and_copies(session: Session) -> tuple[int, list[int]]:
    names = session.project.pool.ids
    return names.index("00.png"), sorted(names.index(name) for name in COPIES_OF_FIRST)


def together(session: Session, items: list[int], key: str = "k", label: int = 1) -> Stored:
    return session.label_many(items, label, "ann", key, source="copies", seconds=2.0)


def test_copies_of_an_item_are_shown_until_they_have_an_answer(session: Session) -> None:
    item, copies = first_and_copies(session)
    shown = session.copies(item)
    assert sorted(copy.item for copy in shown.copies) == copies
    assert all(copy.exact for copy in shown.copies)
    assert shown.line == "3 near-copies can be labelled with it."
    session.label(copies[0], 0, "bob", "b")
    session.bad(copies[1], "bob", "c")
    session.skip(copies[2], "bob", "d")
    now = session.copies(item)
    assert (now.copies, now.labelled, now.elsewhere) == ([], 2, 1)
    assert (
        now.line == "0 near-copies can be labelled with it; 2 have an answer already; 1 is with somebody, or skipped."
    )
    assert session.copies(session.project.pool.ids.index("07.png")).line == ""
    with pytest.raises(NotFound, match="there is no item 99"):
        session.copies(99)


def test_one_answer_for_an_item_and_its_copies_is_undone_in_one_step(session: Session, tmp_path: Path) -> None:
    item, copies = first_and_copies(session)
    asked = session.next("ann")
    assert asked.item is not None
    session.label(asked.item, 0, "ann", "before")
    before = dict(session.record.effective)
    free = [row for row in copies if row not in before]
    stored = together(session, [item, *free])
    assert stored.left_out == []
    assert session.record.effective == before | dict.fromkeys([item, *free], 1)
    marks = [session.record.decisions(row).marks["ann"] for row in (item, *free)]
    assert [mark.source for mark in marks] == ["person", *["copies"] * len(free)]
    assert [mark.seconds for mark in marks] == [2.0, *[None] * len(free)], "one answer was given, which took its time"
    require_in_step(session)
    with after_a_kill(session, tmp_path / "killed") as follower:
        assert follower.record.effective == session.record.effective
        undone = follower.undo("ann", "u")
        assert follower.record.effective == before
        assert undone.undone
        require_in_step(follower)


def test_the_item_that_was_looked_at_is_asked_again_after_an_undo(session: Session) -> None:
    asked = session.next("ann").item
    assert asked is not None
    other = next(row for row in range(33) if row != asked)
    together(session, [asked, other])
    assert session.undo("ann", "u").next.item == asked


def test_what_cannot_be_answered_along_any_more_is_left_out_and_said(session: Session) -> None:
    item, copies = first_and_copies(session)
    session.label(copies[0], 0, "bob", "b")
    stored = together(session, [item, *copies])
    assert stored.left_out == [copies[0]]
    assert session.record.label_of(copies[0]) == 0
    again = together(session, [item, *copies])
    assert again.repeated
    assert again.left_out == [copies[0]], "as it was said the first time"
    with pytest.raises(Conflict, match="was used for something else"):
        together(session, [item, copies[1]])


def test_a_project_that_wants_no_copies_labels_the_item_alone(session: Session) -> None:
    item, copies = first_and_copies(session)
    session.change_settings({"copies": "off"}, "ann", "s")
    assert session.copies(item).copies == []
    assert "does not look for near-copies" in session.copies(item).line
    assert together(session, [item, *copies]).left_out == copies
    assert set(session.record.effective) == {item}


@pytest.mark.parametrize("session", [0.5], indirect=True)
def test_audit_items_are_never_answered_along(session: Session) -> None:
    item, copies = first_and_copies(session)
    family = [item, *copies]
    audit = [row for row in family if session.record.is_audit(row)]
    others = [row for row in family if row not in audit]
    assert audit, "a seed with which the family has both kinds"
    assert others
    shown = session.copies(others[0])
    assert {copy.item for copy in shown.copies} == set(others[1:])
    assert shown.audit == len(audit)
    assert "asked for on" in shown.line
    assert session.copies(audit[0]).copies == []
    assert "audit item" in session.copies(audit[0]).line
    assert together(session, [others[0], *audit]).left_out == audit
    assert not any(row in session.record.effective for row in audit)
    alone = together(session, [audit[0], *others[1:]], key="two", label=0)
    assert alone.left_out == others[1:]


def test_copies_do_not_say_how_often_the_learner_was_right(session: Session) -> None:
    item, copies = first_and_copies(session)
    together(session, [item, *copies])
    assert [session.record.was_right(row) for row in copies] == [None] * 3
    events = [event for event in stored_events(session) if event.kind == "labelled"]
    assert [event.data["source"] for event in events] == ["person", "copies", "copies", "copies"]
    assert events[0].data["items"] == [item, *copies]
