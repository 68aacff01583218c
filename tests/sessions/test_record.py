from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from understudy.errors import UnderstudyError
from understudy.projects.settings import Settings
from understudy.sessions.calibrations import Audits, audit_labels
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record, majority

PEOPLE = ("ann", "bob", "cy")
ITEMS = 5
AUDIT = (4,)


def created(**given: Any) -> Event:
    settings = Settings(classes=("cat", "dog", "fox"), **given)
    data = {"settings": settings.to_json(), "classes": list(settings.classes), "n_items": ITEMS, "audit": list(AUDIT)}
    return Event("created", data=data, seq=1)


class Story:
    """Events as a session would store them."""

    def __init__(self) -> None:
        self.events = [created()]
        self.record = Record.from_events(self.events)

    def say(self, kind: Any, item: int | None = None, who: str | None = "ann", **data: Any) -> Event:
        event = Event(kind, item, who, data=data, seq=len(self.events) + 1, at=float(len(self.events)))
        self.events.append(event)
        self.record.apply(event)
        return event

    def label(self, item: int, label: int, who: str = "ann", **data: Any) -> Event:
        known = self.record.decisions(item).marks.get(who)
        return self.say("labelled" if known is None else "relabelled", item, who, label=label, **data)

    def undo(self, who: str = "ann") -> list[Event]:
        last = self.record.last_decision(who)
        for event in last:
            self.say("undone", event.item, who, undoes=event.seq)
        return last


def looks(record: Record) -> dict[str, Any]:
    """All that can be seen of a record but numbers of events and leases."""
    items = range(record.n_items)
    return {
        "state": [record.state_of(item) for item in items],
        "marks": [
            {who: (mark.label, mark.seq, mark.guess) for who, mark in record.decisions(item).marks.items()}
            for item in items
        ],
        "order": [list(record.decisions(item).marks) for item in items],
        "others": [
            (
                record.decisions(item).skipped, record.decisions(item).unknown, record.decisions(item).bad,
                record.decisions(item).flags, record.decisions(item).kept,
            )
            for item in items
        ],
        "indices": (record.labels, record.skipped, record.unknown, record.bad, record.flags, record.kept),
        "effective": record.effective, "usable": record.usable,
        "counts": +record.class_counts, "usable counts": +record.usable_counts,
        "history": {who: list(events) for who, events in record.history.items() if events},
        "tally": record.tally(),
    }  # fmt: skip


DEEDS = st.lists(
    st.tuples(
        st.sampled_from(
            ["label", "label", "label", "skipped", "dont_know", "bad", "flagged", "kept", "put_back", "undo", "undo"]
        ),
        st.integers(0, ITEMS - 1),
        st.sampled_from(PEOPLE),
        st.integers(0, 2),
    ),
    max_size=40,
)


def lived(deeds: list[tuple[str, int, str, int]]) -> tuple[Story, set[int]]:
    """A story, and the numbers of what was undone and of the undoing."""
    story, gone = Story(), set[int]()
    for kind, item, who, label in deeds:
        if kind == "label":
            story.label(item, label, who, guess=(item + label) % 3)
        elif kind == "undo":
            before = len(story.events)
            gone |= {event.seq for event in story.undo(who)}
            gone |= {event.seq for event in story.events[before:]}
        elif kind == "put_back" and label == 2:
            story.say("put_back", item, who, what=("any", "bad", "flagged", "skipped", "dont_know")[item])
        elif kind == "put_back":
            story.say("put_back", None, who, what="skipped" if label else "dont_know")
        elif kind == "flagged":
            story.say("flagged", item, who, on=bool(label), note="look")
        elif kind == "kept":
            if story.record.label_of(item) is not None:
                story.say("kept", item, who, label=story.record.label_of(item))
        else:
            story.say(kind, item, who)
    return story, gone


@examples(max_examples=300)
@given(DEEDS)
def test_what_was_undone_never_happened(deeds: list[tuple[str, int, str, int]]) -> None:
    story, gone = lived(deeds)
    without = Record.from_events(event for event in story.events if event.seq not in gone)
    assert looks(story.record) == looks(without)
    assert looks(Record.from_events(story.events)) == looks(story.record)
    assert story.record.undone <= gone


@examples(max_examples=150)
@given(DEEDS)
def test_counts_and_lists_are_what_one_finds_by_looking(deeds: list[tuple[str, int, str, int]]) -> None:
    record = lived(deeds)[0].record
    decisions = {item: record.decisions(item) for item in range(ITEMS)}
    assert record.effective == {item: found.label for item, found in decisions.items() if found.marks}
    assert +record.class_counts == Counter(record.effective.values())
    usable = {item: label for item, label in record.effective.items() if item not in AUDIT and not decisions[item].bad}
    assert record.usable == usable == record.training_rows()
    assert list(record.training_rows()) == sorted(usable)
    assert +record.usable_counts == Counter(usable.values())
    assert record.skipped == {item: found.skipped for item, found in decisions.items() if found.skipped}
    assert record.unknown == {item: found.unknown for item, found in decisions.items() if found.unknown}
    assert record.bad == {item: found.bad for item, found in decisions.items() if found.bad}
    assert record.flags == {item: found.flags for item, found in decisions.items() if found.flags}
    for item, found in decisions.items():
        if found.marks:
            said = [mark.label for mark in found.marks.values()]
            most = max(map(said.count, said))
            assert record.label_of(item) == next(label for label in said if said.count(label) == most)


@examples(max_examples=100)
@given(DEEDS)
def test_everything_can_be_undone_down_to_nothing(deeds: list[tuple[str, int, str, int]]) -> None:
    story = lived(deeds)[0]
    for who in PEOPLE:
        while story.record.last_decision(who):
            story.undo(who)
    assert looks(story.record) == looks(Record.from_events(story.events[:1]))


AUDIT_DEEDS = st.lists(
    st.tuples(
        st.sampled_from(
            ["asked", "asked", "label", "label", "released", "bad", "skipped", "put_back", "undo", "audit"]
        ),
        st.sampled_from([*AUDIT, 3]),
        st.sampled_from(PEOPLE),
        st.integers(0, 2),
    ),
    max_size=20,
)


@examples(max_examples=200)
@given(AUDIT_DEEDS)
def test_audit_labels_that_are_kept_are_those_one_finds_by_looking(deeds: list[tuple[str, int, str, int]]) -> None:
    story = Story()
    audits = Audits(story.record)
    for kind, item, who, label in deeds:
        if kind == "label":
            story.label(item, label, who)
        elif kind == "undo":
            story.undo(who)
        elif kind == "put_back":
            story.say("put_back", None, who, what="skipped")
        elif kind == "asked":
            story.say("asked", item, who, lease="audit", seconds=9.0)
        elif kind == "audit":
            share = {"audit_share": 0.4}
            story.say("settings_changed", None, who, settings=share, audit=[] if story.record.is_audit(3) else [3])
        else:
            story.say(kind, item, who)
        assert audits.labels == audit_labels(story.record)


def test_one_undo_takes_back_all_that_was_confirmed_in_one_go() -> None:
    story = Story()
    story.label(0, 1)
    for item in (1, 2, 3):
        story.say("labelled", item, "ann", label=2, batch="grid")
    story.label(0, 2, "bob")
    assert [event.item for event in story.record.last_decision("ann")] == [1, 2, 3]
    story.undo()
    assert story.record.effective == {0: 1}
    assert [event.item for event in story.record.last_decision("ann")] == [0]


def test_what_is_undone_twice_is_undone_once() -> None:
    story = Story()
    said = story.label(0, 1)
    story.label(0, 2)
    story.say("undone", 0, undoes=said.seq)
    before = looks(story.record)
    story.say("undone", 0, undoes=said.seq)
    assert looks(story.record) == before
    assert story.record.label_of(0) == 2


def test_the_majority_counts_else_the_earlier_label() -> None:
    story = Story()
    for who, label in zip(PEOPLE, (0, 1, 1), strict=True):
        story.label(0, label, who)
    assert story.record.label_of(0) == 1
    story.undo("cy")
    assert story.record.label_of(0) == 0
    story.label(0, 2)
    assert story.record.label_of(0) == 1, "of a label that was changed since, the other is the earlier one"


def test_a_review_has_the_last_word() -> None:
    story = Story()
    story.label(0, 0, "source", source="import")
    story.label(0, 0, "bob")
    story.label(0, 1, "ann", source="review")
    assert story.record.state_of(0) == ("told", 1)
    story.label(0, 2, "bob", source="review")
    assert story.record.label_of(0) == 2
    story.undo("bob")
    assert story.record.label_of(0) == 1
    story.undo("ann")
    assert story.record.label_of(0) == 0


def test_an_audit_item_has_the_label_of_the_annotator_it_was_given_to() -> None:
    story = Story()
    story.label(4, 0, "source", source="import")
    assert story.record.audit_label(4) is None
    story.say("asked", 4, "bob", lease="audit", seconds=9.0)
    assert story.record.audit_label(4) is None
    story.label(4, 1, "bob")
    assert story.record.label_of(4) == 0
    assert story.record.audit_label(4) == 1


def test_what_was_confirmed_many_at_once_or_imported_does_not_judge_the_learner() -> None:
    story = Story()
    story.label(0, 1, guess=1, source="grid")
    story.label(1, 1, guess=1, source="import")
    story.label(2, 1, guess=0)
    assert story.record.tally() == (0, 1)


def test_somebody_who_cannot_tell_takes_their_own_label_back_and_nobody_elses() -> None:
    story = Story()
    story.label(0, 1)
    story.label(0, 2, "bob")
    story.say("dont_know", 0)
    assert story.record.label_of(0) == 2
    assert story.record.state_of(0) == ("told", 2)
    story.say("bad", 0, "bob")
    assert story.record.state_of(0) == ("dropped", None)
    assert story.record.label_of(0) is None
    story.undo("bob")
    assert story.record.state_of(0) == ("told", 2)


def test_a_bad_item_that_a_reviewer_puts_back_can_be_asked_again_and_bad_again_by_undo() -> None:
    story = Story()
    story.say("bad", 0, "bob")
    story.say("flagged", 0, "bob", on=True, note="blurred")
    story.say("put_back", 0, "ann", what="bad")
    assert story.record.state_of(0) == ("open", None)
    assert story.record.flags == {0: {"bob": "blurred"}}
    story.say("put_back", 0, "ann", what="any")
    assert story.record.flags == {}
    story.undo("ann")
    story.undo("ann")
    assert story.record.state_of(0) == ("dropped", None)
    assert story.record.flags == {0: {"bob": "blurred"}}


def test_what_is_put_back_by_name_leaves_other_items_and_whoever_holds_it_alone() -> None:
    story = Story()
    story.say("skipped", 0, "bob")
    story.say("skipped", 1, "bob")
    story.say("asked", 1, "ann", lease="again", seconds=9.0)
    story.say("put_back", 1, "ann", what="skipped")
    assert list(story.record.skipped) == [0]
    assert list(story.record.leases) == [1]


def test_leases_end_with_an_answer_of_their_holder_and_of_nobody_else() -> None:
    story = Story()
    for item in range(4):
        story.say("asked", item, lease="choice", seconds=9.0)
    story.label(0, 1, "bob")
    story.say("flagged", 1, on=True, note="")
    assert sorted(story.record.leases) == [0, 1, 2, 3]
    assert [lease.item for lease in story.record.held_by("ann")] == [3, 2, 1, 0]
    assert story.record.state_of(0) == ("told", 1)
    story.label(0, 2)
    story.say("skipped", 1)
    story.say("lease_expired", 2)
    story.say("released", 3, "bob")
    assert sorted(story.record.leases) == [3]
    assert sorted(story.record.asked["choice"]) == [0, 1, 3], "nobody was asked for what expired"
    story.undo("bob")
    assert story.record.state_of(0) == ("told", 2)


def test_the_learner_is_judged_by_what_it_said_before_anybody_had() -> None:
    story = Story()
    story.label(0, 1, guess=1)
    story.label(0, 1, "bob", guess=0)
    story.label(1, 2, guess=0)
    story.label(2, 2)
    story.label(4, 2, guess=2)
    assert story.record.tally() == (1, 2), "neither audit items nor what came before the first model"
    story.label(0, 0, guess=1)
    story.label(0, 0, "bob", guess=0)
    assert story.record.tally() == (0, 2)


def test_a_pool_grows_and_classes_are_added() -> None:
    story = Story()
    story.say("items_added", None, None, count=3, audit=[7, 5])
    story.say("class_added", None, name="owl")
    assert (story.record.n_items, story.record.audit_rows) == (ITEMS + 3, (4, 7, 5))
    assert story.record.classes == ["cat", "dog", "fox", "owl"]
    assert story.record.is_audit(5)
    assert story.record.state_of(7) == ("audit", None)


@pytest.mark.parametrize(
    ("labels", "expected"), [([2], 2), ([1, 0], 1), ([0, 1, 1], 1), ([2, 1, 1, 2], 2), ([3, 1, 2], 3)]
)
def test_the_majority_counts_and_of_equals_the_earlier(labels: list[int], expected: int) -> None:
    assert majority(labels) == expected


def test_there_is_no_majority_of_nothing() -> None:
    with pytest.raises(UnderstudyError, match="at least one"):
        majority([])
