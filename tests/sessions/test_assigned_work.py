"""Assignments as people label: who is asked for what, and that a restart changes nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sessions.small_projects import after_a_kill, copied, label_next, opened, require_in_step
from understudy.errors import Conflict, UnderstudyError
from understudy.sessions.log.events import Event
from understudy.sessions.replies import Question
from understudy.sessions.session import Session

PEOPLE = ("ann", "bob")


def assign(session: Session, person: str, **values: Any) -> None:
    """What an owner does on the page."""
    assign.times += 1  # type: ignore[attr-defined]
    key = f"assign {assign.times}"  # type: ignore[attr-defined]
    session.assign(person, values, "teacher", key)


assign.times = 0  # type: ignore[attr-defined]


def add(session: Session, *names: str) -> None:
    for name in names:
        session.change_people(
            Event("person_added", None, "teacher", f"add {name}", {"name": name, "role": "annotator"})
        )


def label_until_nothing(session: Session, people: Sequence[str], most: int = 400) -> dict[str, Question]:
    """Let people label in turn until nobody is asked for anything more; their last questions."""
    last = {who: session.next(who) for who in people}
    turn = 0
    while any(question.item is not None for question in last.values()):
        for who in people:
            last[who] = session.next(who)
            if last[who].item is not None:
                turn += 1
                last[who] = label_next(session, who, f"{who} {turn}", turn % 3)
        assert turn < most, "somebody is asked without an end"
    return last


def asked_of(session: Session, who: str, ask: str) -> set[int]:
    return {
        event.item
        for event in session._log.read()
        if event.kind == "asked" and event.annotator == who and event.data["lease"] == ask and event.item is not None
    }


def test_two_people_with_disjoint_parts_never_meet_but_for_audit_items_and_second_opinions(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=60, taught=4, agreement_share=0.3)) as session:
        add(session, *PEOPLE)
        assign(session, "ann", share=0.5)
        assign(session, "bob", share=0.5)
        division = session.assignments.division
        assert division is not None
        last = label_until_nothing(session, PEOPLE)
        mine, theirs = (asked_of(session, who, "choice") for who in PEOPLE)
        assert mine
        assert theirs
        assert not mine & theirs
        assert division.own("ann")[list(mine)].all()
        assert division.own("bob")[list(theirs)].all()
        both = {item for item, marks in session.record.labels.items() if len({*marks} & {*PEOPLE}) == 2}
        assert both <= asked_of(session, "ann", "second") | asked_of(session, "bob", "second")
        audits = asked_of(session, "ann", "audit"), asked_of(session, "bob", "audit")
        assert all(audits), "anybody is asked for the sample of the whole pool"
        assert len(session.record.effective) == 60
        assert {question.reason for question in last.values()} == {"Every item has an answer."}
        require_in_step(session)


@pytest.mark.parametrize("method", ["understudy", "paper"])
def test_what_is_asked_is_the_best_of_ones_own_part_by_the_same_utility(tmp_path: Path, method: str) -> None:
    with opened(copied(tmp_path / "one", taught=4, method=method, audit_share=0.0)) as session:
        add(session, *PEOPLE)
        assign(session, "ann", share=0.4)
        division = session.assignments.division
        assert division is not None
        for turn in range(8):
            who = PEOPLE[turn % 2]
            rows = division.own("ann") if who == "ann" else division.everybodys()
            surrogate = session.learning.chooser.surrogate
            askable = np.intersect1d(surrogate.askable, np.flatnonzero(rows))
            best = askable[int(np.argmax(surrogate.utility[askable]))]
            assert session.preview(who, 1)[0].item == best
            assert session.next(who).item == best
            label_next(session, who, f"k{turn}", turn % 3)
            session.release(who)


def test_after_a_kill_the_same_items_are_asked_of_the_same_people(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=60, taught=4)) as session:
        add(session, *PEOPLE, "cy")
        assign(session, "ann", share=0.3, classes=[0])
        assign(session, "bob", share=0.5, quota=20)
        for turn in range(6):
            for who in (*PEOPLE, "cy"):
                label_next(session, who, f"{who} {turn}", turn % 2)
        for who in (*PEOPLE, "cy"):
            session.release(who)
        with after_a_kill(session, tmp_path / "two") as follower:
            for who in (*PEOPLE, "cy"):
                ours, theirs = session.next(who), follower.next(who)
                assert (ours.item, ours.ask, ours.work) == (theirs.item, theirs.ask, theirs.work)
                assert ours.item is not None
            require_in_step(follower)


def test_a_quota_that_is_reached_is_said_and_undo_or_a_larger_one_goes_on(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=4)) as session:
        add(session, *PEOPLE)
        assign(session, "ann", quota=3)
        for turn in range(2):
            asked = label_next(session, "ann", f"k{turn}", turn)
            assert asked.work is not None
            assert (asked.work.labels, asked.work.quota) == (turn + 1, 3)
        done = label_next(session, "ann", "k2", 0)
        assert done.item is None
        assert done.reason is not None
        assert done.reason.startswith("You have given 3 labels, as many as you were asked for. Thank you!")
        assert session.next("bob").item is not None, "others go on"
        assert session.next("bob").work is None
        again = session.undo("ann", "u1").next
        assert again.item is not None
        assert again.work is not None
        assert again.work.labels == 2
        assert session.label(again.item, 1, "ann", "k3").next.item is None
        assign(session, "ann", quota=4)
        assert session.next("ann").item is not None
        assert session.label_many([30, 31, 32], 1, "ann", "k4").stored, "what somebody labels anyhow is not lost"


def test_an_item_that_somebody_has_stays_theirs_when_the_assignment_changes(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=4, audit_share=0.0)) as session:
        add(session, *PEOPLE)
        held = session.next("ann").item
        assert held is not None
        assign(session, "bob", share=1.0)
        assert session.next("ann").item == held
        after = session.label(held, 1, "ann", "k1").next
        assert after.item is None
        assert after.reason == (
            f"Nothing is left for you. The rest is with bob ({40 - len(session.record.effective)} items); an owner can "
            "assign you more."
        )
        assign(session, "bob", share=None)
        assert session.next("ann").item is not None


def test_items_of_who_retires_or_reached_the_quota_come_to_the_others(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=4, audit_share=0.0)) as session:
        add(session, *PEOPLE)
        assign(session, "bob", share=0.9, quota=2)
        label_next(session, "bob", "b1", 0), label_next(session, "bob", "b2", 1)
        assert session.progress().notes == ["bob has reached the quota: what is left of their part goes to everybody."]
        last = label_until_nothing(session, ["ann"])
        assert len(session.record.effective) == 40
        assert last["ann"].reason == "Every item has an answer."


def test_items_that_the_model_takes_for_a_class_go_to_its_people(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=60, taught=8, audit_share=0.0)) as session:
        add(session, *PEOPLE)
        assign(session, "ann", classes=[1])
        probs = session.models.probs
        assert probs is not None
        dogs = set(np.flatnonzero(probs.argmax(1) == 1).tolist())
        assert dogs
        for turn in range(10):
            for who in PEOPLE:
                item = session.next(who).item
                assert (item in dogs) == (who == "ann"), "ann's class comes first, and to her alone"
                label_next(session, who, f"{who} {turn}", turn % 2)


def test_what_cannot_be_assigned_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=4)) as session:
        add(session, *PEOPLE)
        assign(session, "ann", share=0.7)
        before = session.record.seq
        with pytest.raises(UnderstudyError, match=r"must add up to 1 at most; got ann 0\.7, bob 0\.5: lower one"):
            assign(session, "bob", share=0.5)
        with pytest.raises(UnderstudyError, match="no class 7 to assign; the classes are cat, dog, fox"):
            assign(session, "bob", classes=[7])
        with pytest.raises(UnderstudyError, match="no class -1 to assign"):
            assign(session, "bob", classes=[-1])
        with pytest.raises(UnderstudyError, match="quota must be a whole number"):
            assign(session, "bob", quota=0)
        with pytest.raises(UnderstudyError, match="there is no person 'nobody'"):
            assign(session, "nobody", quota=3)
        assert session.record.seq == before
        session.change_people(Event("person_changed", None, "teacher", "r1", {"person": "ann", "retired": True}))
        assign(session, "bob", share=0.5)
        with pytest.raises(UnderstudyError, match="must add up to 1 at most"):
            session.change_people(Event("person_changed", None, "teacher", "r2", {"person": "ann", "retired": False}))


def test_the_same_call_sent_twice_is_one_change_and_another_under_its_key_is_refused(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", taught=4)) as session:
        add(session, "ann")
        session.assign("ann", {"quota": 5}, "teacher", "k")
        seq = session.record.seq
        session.assign("ann", {"quota": 5}, "teacher", "k")
        assert session.record.seq == seq
        with pytest.raises(Conflict, match="was used for something else"):
            session.assign("ann", {"quota": 6}, "teacher", "k")


def test_the_grid_offers_ones_own_items_and_no_more_than_the_quota_leaves(tmp_path: Path) -> None:
    with opened(copied(tmp_path / "one", n=60, taught=8, audit_share=0.0)) as session:
        add(session, *PEOPLE)
        for who in PEOPLE:
            assign(session, who, share=0.5)
        division, probs = session.assignments.division, session.models.probs
        assert division is not None
        assert probs is not None
        label = int(np.bincount(probs.argmax(1)).argmax())
        offers = {who: session.grid(label, annotator=who) for who in PEOPLE}
        assert all(division.own("ann")[tile.item] for tile in offers["ann"].items)
        assert all(division.own("bob")[tile.item] for tile in offers["bob"].items)
        assert offers["ann"].likely + offers["bob"].likely == session.grid(label).likely
        assert len(offers["ann"].items) > 1
        assign(session, "ann", quota=1)
        assert len(session.grid(label, annotator="ann").items) == 1
        label_next(session, "ann", "k", label)
        full = session.grid(label, annotator="ann")
        assert (full.items, full.reason) == ([], "You have given as many labels as you were asked for.")
        assert session.preview("ann") == []
