"""Decisions made in another tool: a record comes to say what is said there, and no more than once."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.sessions.small_projects import after_a_kill, copied, label_next, opened, require_in_step, stored_events
from understudy.sessions.log.events import SOURCE_ANNOTATOR
from understudy.sessions.outside import OutsideDecision
from understudy.sessions.session import Session

TOOL = "tool:"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        yield session


KEYS = count()


def says(annotator: str, label: int | None) -> OutsideDecision:
    return OutsideDecision(annotator, label, key=f"{TOOL}{next(KEYS)}", seconds=2.5, given_at=1e9)


def asked_ahead(session: Session, n: int = 3, keep: tuple[int, ...] = ()) -> list[int]:
    found = session.ask_ahead(n, keep)
    return [question.item for question in found if question.item is not None]


def kinds(session: Session, after: int) -> list[str]:
    return [event.kind for event in stored_events(session, after)]


def test_what_is_said_twice_is_stored_once(session: Session) -> None:
    items = asked_ahead(session)
    said = {items[0]: [says("ann", 1)]}
    assert session.match_outside(said, TOOL) == [items[0]]
    before = session.record.seq
    assert session.match_outside(said, TOOL) == []
    assert session.record.seq == before
    mark = session.record.decisions(items[0]).marks["ann"]
    assert (mark.label, mark.seconds, mark.at, mark.source) == (1, 2.5, 1e9, "person")
    require_in_step(session)


def test_a_label_that_nobody_was_asked_for_counts_as_imported(session: Session) -> None:
    asked = asked_ahead(session)
    item = next(item for item in range(session.record.n_items) if session.record.state_of(item)[0] == "open")
    assert item not in asked
    session.match_outside({item: [says("ann", 0)]}, TOOL)
    assert session.record.decisions(item).marks["ann"].source == "import"
    assert session.record.was_right(item) is None
    assert asked_ahead(session, keep=tuple(asked)) == asked


def test_labels_change_are_passed_over_and_are_taken_back_as_they_are_there(session: Session) -> None:
    item = asked_ahead(session)[0]
    nothing = session.record.effective.copy()
    session.match_outside({item: [says("ann", 0)]}, TOOL)
    said = {item: [says("ann", 1)]}
    session.match_outside(said, TOOL)
    assert session.record.label_of(item) == 1
    session.match_outside({item: [says("ann", None)]}, TOOL)
    assert (session.record.label_of(item), list(session.record.skipped[item])) == (None, ["ann"])
    session.match_outside({item: [says("ann", 0), says("bob", 0)]}, TOOL)
    assert sorted(session.record.decisions(item).marks) == ["ann", "bob"]
    session.match_outside({item: [says("bob", 0)]}, TOOL)
    assert list(session.record.decisions(item).marks) == ["bob"]
    session.match_outside({item: []}, TOOL)
    assert session.record.effective == nothing
    assert item not in session.record.skipped
    session.match_outside(said, TOOL)  # as when it was taken for gone by mistake
    assert session.record.label_of(item) == 1
    require_in_step(session)


def test_an_item_whose_answer_is_taken_back_is_handed_out_again(session: Session) -> None:
    items = asked_ahead(session)
    session.match_outside({items[0]: [says("ann", 1)]}, TOOL)
    assert items[0] not in session.record.leases
    session.match_outside({items[0]: []}, TOOL)
    assert session.record.leases[items[0]].annotator == SOURCE_ANNOTATOR
    assert session.record.state_of(items[0])[0] in ("pending", "audit")


def test_decisions_on_our_own_page_are_left_alone(session: Session) -> None:
    question = session.next("cy")
    item = question.item
    assert item is not None
    label_next(session, "cy", "own", 2)
    session.match_outside({item: [says("ann", 1)]}, TOOL)
    session.match_outside({item: []}, TOOL)
    assert {who: mark.label for who, mark in session.record.decisions(item).marks.items()} == {"cy": 2}


def test_what_was_chosen_before_is_chosen_anew_unless_it_is_kept(session: Session, tmp_path: Path) -> None:
    first = asked_ahead(session)
    session.match_outside({first[0]: [says("ann", 1)]}, TOOL)
    then = asked_ahead(session, keep=(first[1],))
    assert then[0] == first[1]
    assert len(then) == 3
    leases = session.record.held_by(SOURCE_ANNOTATOR)
    assert [lease.item for lease in reversed(leases)] == then
    before = session.record.seq
    assert asked_ahead(session, keep=tuple(then)) == then
    assert session.record.seq == before
    with after_a_kill(session, tmp_path / "two") as follower:
        assert asked_ahead(follower, keep=tuple(then)) == then
    require_in_step(session)


def test_audit_items_count_for_whoever_answers_them_there(session: Session) -> None:
    audited: list[int] = []
    while not audited:
        items = asked_ahead(session, keep=tuple(lease.item for lease in session.record.leases.values()))
        audited = [item for item in items if session.record.is_audit(item)]
        session.match_outside({items[0]: [says("ann", 1)]}, TOOL)
    session.match_outside({audited[0]: [says("ann", 1)]}, TOOL)
    assert session.record.audit_label(audited[0]) == 1
    assert session.status().audited == 1


def test_an_audit_item_that_was_labelled_there_before_is_answered_in_its_turn(session: Session) -> None:
    rows = session.record.audit_rows
    session.match_outside({row: [says("ann", 0)] for row in rows}, TOOL)
    assert session.record.audit_label(rows[0]) is None
    while not any(kind == "audit" for kind in (lease.ask for lease in session.record.leases.values())):
        before = session.record.seq
        items = asked_ahead(session)
        session.match_outside({item: [says("bob", 1)] for item in items}, TOOL)
        if session.record.audit_label(rows[0]) is not None:
            break
    assert session.record.audit_label(rows[0]) == 0
    assert "relabelled" in kinds(session, before)
    assert rows[0] not in session.record.leases
    session.match_outside({rows[0]: []}, TOOL)
    assert session.record.label_of(rows[0]) is None


def test_items_that_are_gone_there_are_left_out(session: Session) -> None:
    items = asked_ahead(session)
    session.drop_items(items[:1])
    assert session.record.state_of(items[0])[0] == "dropped"
    assert items[0] not in asked_ahead(session)
    before = session.record.seq
    session.drop_items(items[:1])
    assert session.record.seq == before


def test_an_item_that_is_gone_is_not_handed_out_when_its_label_is_taken_back(session: Session) -> None:
    item = asked_ahead(session)[0]
    session.match_outside({item: [says("ann", 1)]}, TOOL)
    session.drop_items([item])
    session.match_outside({item: []}, TOOL)
    assert item not in session.record.leases
    assert item not in asked_ahead(session)
    require_in_step(session)


def test_classes_that_the_other_tool_has_are_added_once(session: Session) -> None:
    known = list(session.record.classes)
    session.add_outside_classes([*known, "heron"])
    session.add_outside_classes([*known, "heron"])
    assert session.record.classes == [*known, "heron"]


def test_the_queue_of_another_tool_is_nobody_in_the_list_of_people(session: Session) -> None:
    before = [person.name for person in session.people().people]
    asked_ahead(session)
    assert [person.name for person in session.people().people] == before
    assert [person.name for person in session.progress().people] == before
