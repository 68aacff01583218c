from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.small_projects import after_a_kill, copied, label_next, opened, require_in_step, stored_events
from understudy.errors import Conflict, NotFound, UnderstudyError
from understudy.sessions.browsing import Filter
from understudy.sessions.bulk_decisions import MAX_ITEMS, BulkDecision
from understudy.sessions.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(copied(tmp_path / "one", taught=2)) as session:
        yield session


def listed(session: Session, **fields: Any) -> list[int]:
    return [shown.item for shown in session.browser.page(Filter(**fields)).items]


def facts(session: Session) -> list[Any]:
    """What is known of every item, but for leases."""
    record = session.record
    found = [record.decisions(item) for item in range(record.n_items)]
    return [
        [
            (list(each.marks.items()), dict(each.skipped), dict(each.unknown), dict(each.bad), dict(each.flags))
            for each in found
        ],
        dict(record.effective),
    ]


def unlabelled(session: Session, n: int) -> tuple[int, ...]:
    taken = {*session.record.effective, *session.record.leases, *session.record.audit_rows}
    return tuple(item for item in range(session.record.n_items) if item not in taken)[:n]


def test_a_selection_is_labelled_at_once_and_one_undo_takes_all_of_it_back(session: Session, tmp_path: Path) -> None:
    before, items = facts(session), unlabelled(session, 6)
    session.decide_items(BulkDecision("label", items, 2), "ann", "k1")
    assert {session.record.label_of(item) for item in items} == {2}
    assert listed(session, labels=(2,)) == sorted(items)
    require_in_step(session)
    with after_a_kill(session, tmp_path / "two") as follower:
        assert facts(follower) == facts(session)
        assert listed(follower, labels=(2,)) == sorted(items)
    session.undo("ann", "u1")
    assert facts(session) == before
    require_in_step(session)
    with pytest.raises(Conflict, match="nothing to undo"):
        session.undo("ann", "u2")


def test_a_call_that_is_sent_twice_is_one_even_when_nothing_is_left_to_change(session: Session) -> None:
    items = unlabelled(session, 3)
    decision = BulkDecision("label", items, 1)
    first = session.decide_items(decision, "ann", "k1")
    stored = len(stored_events(session))
    again = session.decide_items(decision, "ann", "k1")
    assert (again.stored, again.repeated, first.repeated) == (first.stored, True, False)
    assert [event.kind for event in stored_events(session)[stored:] if event.kind != "asked"] == []
    for other in (BulkDecision("label", items, 0), BulkDecision("label", items[:2], 1), BulkDecision("bad", items)):
        with pytest.raises(Conflict, match="used for something else"):
            session.decide_items(other, "ann", "k1")
    with pytest.raises(Conflict, match="nothing to do: 3 items labelled 'dog' by you already"):
        session.decide_items(decision, "ann", "k2")


def test_a_bulk_label_has_the_last_word_only_where_it_may(session: Session) -> None:
    one, two, three = unlabelled(session, 3)
    session.label(one, 0, "bob", "b1")
    session.label(two, 0, "bob", "b2")
    session.decide_items(BulkDecision("label", (one, three), 1), "ann", "k1")
    session.decide_items(BulkDecision("label", (two,), 1), "ann", "k2", may_overrule=False)
    assert [session.record.label_of(item) for item in (one, two, three)] == [1, 0, 1]
    sources = {item: session.record.decisions(item).marks["ann"].source for item in (one, two, three)}
    assert sources == {one: "review", two: "browse", three: "browse"}
    with pytest.raises(Conflict, match="nothing to do"):
        session.decide_items(BulkDecision("label", (two,), 1), "ann", "k3", may_overrule=False)
    session.decide_items(BulkDecision("label", (two,), 1), "ann", "k4")
    assert session.record.label_of(two) == 1


def test_a_bulk_label_of_who_may_settles_anew_what_was_settled(session: Session, tmp_path: Path) -> None:
    one, two = unlabelled(session, 2)
    session.label(one, 0, "bob", "b1")
    session.label(one, 1, "cy", "c1")
    session.settle(one, 0, "rex", "s1", note="so")
    session.decide_items(BulkDecision("label", (one, two), 1), "bob", "k0", may_overrule=False)
    assert session.record.label_of(one) == 0, "who may not overrule others does not settle"
    before = facts(session)
    decision = BulkDecision("label", (one, two), 2)
    stored = session.decide_items(decision, "ann", "k1")
    assert (session.record.label_of(one), session.record.label_of(two)) == (2, 2)
    settled = session.record.decisions(one).settled
    assert settled is not None
    assert (settled.by, settled.label) == ("ann", 2)
    again = session.decide_items(decision, "ann", "k1")
    assert (again.stored, again.repeated) == (stored.stored, True)
    with pytest.raises(Conflict, match="used for something else"):
        session.decide_items(BulkDecision("label", (one, two), 0), "ann", "k1")
    with after_a_kill(session, tmp_path / "later") as follower:
        assert facts(follower) == facts(session)
    session.undo("ann", "u1")
    assert facts(session) == before
    require_in_step(session)


def test_a_label_from_a_list_does_not_say_how_good_the_learner_is(session: Session) -> None:
    before = session.record.tally()
    session.decide_items(BulkDecision("label", unlabelled(session, 5), 1), "ann", "k1")
    assert session.record.tally() == before


def test_flags_with_a_note_come_and_go_together(session: Session) -> None:
    items = unlabelled(session, 3)
    session.decide_items(BulkDecision("flag", items, note="look again"), "ann", "k1")
    session.flag(items[0], "bob", "b1", note="mine")
    assert [shown.flags[0].note for shown in session.browser.page(Filter(states=("flagged",))).items][1:] == [
        "look again"
    ] * 2
    session.decide_items(BulkDecision("unflag", items), "ann", "k2")
    assert listed(session, states=("flagged",)) == [items[0]], "bob's is his own"
    session.undo("ann", "u1")
    assert listed(session, states=("flagged",)) == sorted(items)
    with pytest.raises(Conflict, match="3 items flagged by you with this note"):
        session.decide_items(BulkDecision("flag", items, note="look again"), "ann", "k3")
    session.decide_items(BulkDecision("flag", items[:2], note="another note"), "ann", "k4")
    assert session.record.flags[items[1]] == {"ann": "another note"}


def test_what_others_put_aside_is_put_back_and_aside_again_by_undo(session: Session, tmp_path: Path) -> None:
    skipped, unknown, bad, flagged, other = unlabelled(session, 5)
    session.skip(skipped, "bob", "b1")
    session.dont_know(unknown, "bob", "b2")
    session.bad(bad, "bob", "b3")
    session.flag(flagged, "bob", "b4", note="blurred")
    session.skip(other, "bob", "b5")
    before = facts(session)
    everything = (skipped, unknown, bad, flagged)
    session.decide_items(BulkDecision("put_back", everything), "ann", "k1")
    assert listed(session, states=("skipped", "unknown", "bad", "flagged")) == [other]
    assert {session.record.state_of(item)[0] for item in everything} <= {"open", "pending"}
    require_in_step(session)
    with after_a_kill(session, tmp_path / "two") as follower:
        assert facts(follower) == facts(session)
    session.undo("bob", "u0")
    assert listed(session, states=("skipped", "unknown", "bad", "flagged")) == [], "bob's skip of the other is undone"
    session.undo("ann", "u1")
    require_in_step(session)
    assert sorted(listed(session, states=("skipped", "unknown", "bad", "flagged"))) == sorted(everything)
    before[0][other] = ([], {}, {}, {}, {})
    assert facts(session)[0] == before[0]


def test_only_what_is_asked_for_is_put_back(session: Session) -> None:
    one, two = unlabelled(session, 2)
    session.bad(one, "bob", "b1")
    session.flag(one, "bob", "b2", note="blurred")
    session.skip(two, "bob", "b3")
    session.decide_items(BulkDecision("put_back", (one, two), what="bad"), "ann", "k1")
    assert listed(session, states=("bad",)) == []
    assert listed(session, states=("flagged",)) == [one]
    assert listed(session, states=("skipped",)) == [two]
    with pytest.raises(Conflict, match="of 2 items, none is bad"):
        session.decide_items(BulkDecision("put_back", (one, two), what="bad"), "ann", "k2")


def test_an_audit_item_that_was_put_back_is_asked_again(session: Session) -> None:
    item = session.record.audit_rows[0]
    while (question := session.next("ann")).item != item:
        assert question.item is not None
        label_next(session, "ann", f"to {question.item}", 0)
    session.dont_know(item, "ann", "k1")
    assert session.turns.next_audit("bob") != item
    session.decide_items(BulkDecision("put_back", (item,)), "ann", "k2")
    assert session.turns.next_audit("bob") == item


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (BulkDecision("bad", ()), "got 0"),
        (BulkDecision("bad", (1, 1)), "different items"),
        (BulkDecision("bad", tuple(range(MAX_ITEMS + 1))), "got 5,001"),
        (BulkDecision("label", (1,)), "needs a label"),
        (BulkDecision("bad", (1,), 0), "the action bad takes no label"),
    ],
)
def test_what_cannot_be_decided_is_refused_and_nothing_is_stored(
    session: Session, decision: BulkDecision, said: str
) -> None:
    before = len(stored_events(session))
    with pytest.raises(UnderstudyError, match=said):
        session.decide_items(decision, "ann", "k1")
    assert len(stored_events(session)) == before


def test_an_item_or_class_that_there_is_not_stops_the_whole_selection(session: Session) -> None:
    for decision in (BulkDecision("bad", (0, 999)), BulkDecision("label", (0, 1), 9)):
        with pytest.raises(NotFound):
            session.decide_items(decision, "ann", "k1")
    assert session.record.bad == {}
