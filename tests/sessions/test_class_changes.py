from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.sessions.small_projects import copied, opened
from tests.sessions.test_record import ITEMS, PEOPLE, Story, looks
from understudy.errors import Conflict, UnderstudyError
from understudy.sessions.class_changes import (
    change_classes,
    check_new_class,
    check_values,
    classes_as_rows,
    describe_change,
    list_classes,
    possible_change,
)
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record

NAMES = ("owl", "elk", "cat", "dog")
KINDS = ["kept", "add", "make", "rename", "hide", "merge", "remove", "order", "undo", "back"]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["label"] * 4 + KINDS),
        st.integers(0, ITEMS - 1),
        st.sampled_from(PEOPLE),
        st.integers(0, 7),
    ),
    max_size=40,
)  # fmt: skip


def change(story: Story, kind: Any, data: Mapping[str, Any], who: str = "ann") -> Event:
    event = Event(kind, None, who, data=data, seq=len(story.events) + 1, at=float(len(story.events)))
    story.events.append(event)
    story.record.apply(event)
    return event


def attempt(story: Story, kind: Any, who: str, **data: Any) -> None:
    """A change of classes, if it is possible, as a session makes it."""
    try:
        event = possible_change(story.record, Event(kind, None, who, data=data))
    except UnderstudyError:
        return
    if event is not None:
        change(story, kind, event.data, who)


def lived(deeds: list[tuple[str, int, str, int]]) -> tuple[Story, set[int]]:
    """A story with changes of classes, and the numbers of what was undone and of the undoing."""
    story, gone = Story(), set[int]()
    for kind, item, who, pick in deeds:
        record = story.record
        number, before = pick % len(record.classes), len(story.events)
        if kind == "label" and record.class_table.becomes[number] is not None:
            story.label(item, number, who, guess=(item + pick) % 3)
        elif kind == "kept" and record.label_of(item) is not None:
            story.say("kept", item, who, label=record.label_of(item))
        elif kind in ("add", "make"):
            name = NAMES[pick % len(NAMES)]
            try:
                check_new_class(record, name)
            except Conflict:
                continue
            change(story, "class_added", {"name": name, **({"item": item} if kind == "make" else {})}, who)
            if kind == "make":
                story.label(item, len(record.classes) - 1, who)
        elif kind == "rename":
            attempt(story, "class_changed", who, **{"class": number, "name": NAMES[item % len(NAMES)]})
        elif kind == "hide":
            attempt(story, "class_changed", who, **{"class": number, "hidden": bool(item % 2)})
        elif kind == "merge":
            attempt(story, "class_merged", who, **{"class": number, "into": item % len(record.classes)})
        elif kind == "remove":
            attempt(story, "class_removed", who, **{"class": number})
        elif kind == "order":
            attempt(story, "classes_reordered", who, order=record.class_table.alive[::-1])
        elif kind == "undo":
            gone |= {event.seq for event in story.undo(who)}
            gone |= {event.seq for event in story.events[before:]}
        elif kind == "back":
            changes = [event for seq, event in record.class_events.items() if seq not in record.undone]
            if changes and record.reason_to_keep(changed := changes[pick % len(changes)]) is None:
                story.say("undone", None, who, undoes=changed.seq)
                gone |= {changed.seq, story.events[-1].seq}
    return story, gone


def classes(record: Record) -> dict[str, Any]:
    table = record.class_table
    return {"classes": table.classes, "becomes": table.becomes, "alive": table.alive, "names": record.classes}


@examples(max_examples=300, deadline=None)
@given(CHANGES)
def test_any_story_of_labels_and_classes_replays_to_the_same_record(deeds: list[tuple[str, int, str, int]]) -> None:
    story, gone = lived(deeds)
    again = Record.from_events(story.events)
    assert (looks(again), classes(again)) == (looks(story.record), classes(story.record))
    # Without what was undone it is the same too; a class that was taken back keeps its number, so it is added still.
    kept = {seq for seq in gone if story.events[seq - 1].kind == "class_added"}
    undoing = {event.seq for event in story.events if event.kind == "undone" and event.data["undoes"] in kept}
    without = Record.from_events(event for event in story.events if event.seq not in gone - kept - undoing)
    assert (looks(without), classes(without)) == (looks(story.record), classes(story.record))


@examples(max_examples=150, deadline=None)
@given(CHANGES)
def test_names_differ_and_every_label_is_of_a_class_that_is_alive(deeds: list[tuple[str, int, str, int]]) -> None:
    record = lived(deeds)[0].record
    alive = record.class_table.alive
    names = [record.classes[number] for number in alive]
    assert len(set(names)) == len(names)
    assert set(record.effective.values()) | set(record.kept.values()) <= set(alive)
    assert {mark.label for marks in record.labels.values() for mark in marks.values()} <= set(alive)


@examples(max_examples=100, deadline=None)
@given(CHANGES)
def test_every_change_of_an_items_state_is_a_move(deeds: list[tuple[str, int, str, int]]) -> None:
    record, states = Record(), dict[int, Any]()
    for event in lived(deeds)[0].events:
        becomes = list(record.class_table.becomes)
        moves = record.apply(event)
        for move in moves:
            if move.item is not None:
                assert states.get(move.item, ("audit" if move.item == 4 else "open", None)) == move.before
                states[move.item] = move.after
        assert all(record.state_of(item) == state for item, state in states.items())
        regrouped = record.class_table.becomes[: len(becomes)] != becomes
        assert any(move.regroups for move in moves) == regrouped


def test_undoing_the_label_that_made_a_class_takes_the_class_back() -> None:
    story = Story()
    before = looks(story.record)
    change(story, "class_added", {"name": "owl", "item": 2})
    story.label(2, 3)
    story.undo()
    assert (looks(story.record), story.record.class_table.alive) == (before, [0, 1, 2])


@pytest.mark.parametrize("use", ["a label", "a merge", "a name"])
def test_unless_others_have_used_the_class(use: str) -> None:
    story = Story()
    change(story, "class_added", {"name": "owl", "item": 2})
    story.label(2, 3)
    if use == "a label":
        story.label(1, 3, "bob")
    elif use == "a merge":
        change(story, "class_merged", {"class": 0, "into": 3}, "bob")
    else:
        change(story, "class_changed", {"class": 3, "name": "eagle owl", "before": "owl"}, "bob")
    assert [event.kind for event in story.undo()] == ["labelled"]
    assert story.record.class_table.lives(3)


def test_a_change_that_cannot_be_taken_back_says_why_and_undo_passes_over_it() -> None:
    story = Story()
    story.label(0, 0)
    renamed = change(story, "class_changed", {"class": 0, "name": "Katze", "before": "cat"})
    added = story.say("class_added", None, "bob", name="cat")
    assert story.record.reason_to_keep(renamed) == "there is another class 'cat' now; rename that one first"
    assert [event.kind for event in story.undo()] == ["labelled"]
    story.label(1, 3)
    assert story.record.reason_to_keep(added) == (
        "1 label of 'cat' would be lost; remove the class instead, or merge it"
    )


def test_a_guess_of_a_class_that_was_merged_is_right_if_the_merged_ones_agree() -> None:
    story = Story()
    story.label(0, 0, guess=1)
    story.label(1, 2, guess=1)
    assert story.record.tally() == (0, 2)
    merged = change(story, "class_merged", {"class": 1, "into": 0})
    assert story.record.tally() == (1, 2)
    story.say("undone", None, undoes=merged.seq)
    change(story, "class_removed", {"class": 1})
    assert story.record.tally() == (0, 0), "what it would have said instead is not known"


@pytest.mark.parametrize("name", ["Cat", "cät", "ca t", "c\u200bat", "ｃａｔ", "CA\u0308T"])
def test_look_alikes_are_asked_about(name: str) -> None:
    record = Story().record
    with pytest.raises(Conflict, match="easily taken for"):
        check_new_class(record, name)
    check_new_class(record, name, alike=True)
    check_new_class(record, "coat")


def test_what_cannot_be_is_said_in_a_sentence() -> None:
    story = Story()
    record = story.record
    for values, words in (
        ({"name": " "}, "is empty"),
        ({"shortcut": "Enter"}, "a letter or a digit"),
        ({"colour": "red"}, "six digits"),
        ({"description": "x" * 501}, "at most 500"),
        ({"description": "x\x07y"}, "cannot be seen"),
        ({"examples": list(range(13))}, "at most 12"),
        ({"size": 3}, "a class has no size"),
    ):
        with pytest.raises(UnderstudyError, match=words):
            check_values(values)
    change(story, "class_changed", {"class": 1, "shortcut": "q"})
    change(story, "class_merged", {"class": 2, "into": 1})
    for kind, data, words in (
        ("class_changed", {"class": 0, "name": "dog"}, "already is a class 'dog'"),
        ("class_changed", {"class": 0, "name": "Dog"}, "easily taken"),
        ("class_changed", {"class": 0, "shortcut": "q"}, "that of 'dog'"),
        ("class_changed", {"class": 0, "examples": [99]}, "no item 99"),
        ("class_changed", {"class": 2, "hidden": True}, "merged into 'dog'; take that back first"),
        ("class_removed", {"class": 9}, "no class 9"),
        ("class_merged", {"class": 0, "into": 0}, "into itself"),
        ("classes_reordered", {"order": [0, 1, 2]}, "changed meanwhile"),
    ):
        with pytest.raises(UnderstudyError, match=words):
            possible_change(record, Event(kind, annotator="ann", data=data))  # type: ignore[arg-type]
    same = Event("class_changed", annotator="ann", data={"class": 1, "name": "dog", "shortcut": "q"})
    assert possible_change(record, same) is None
    assert possible_change(record, Event("classes_reordered", data={"order": [0, 1]})) is None


def test_every_change_is_a_sentence() -> None:
    story = Story()
    said = [
        story.say("class_added", name="owl"),
        change(story, "class_changed", {"class": 0, "name": "Katze", "before": "cat"}),
        change(story, "class_changed", {"class": 3, "hidden": True}),
        change(story, "class_changed", {"class": 3, "colour": "#112233", "shortcut": "q"}),
        change(story, "class_merged", {"class": 1, "into": 0}),
        change(story, "class_removed", {"class": 2}),
        story.say("classes_reordered", order=[3, 0]),
    ]
    assert [describe_change(story.record, event) for event in said] == [
        "“owl” was added.", "“cat” was renamed “Katze”.", "“owl” was hidden.", "“owl”: key and colour changed.",
        "“dog” was merged into “Katze”.", "“fox” was removed, and its labels with it.",
        "The classes were put in another order.",
    ]  # fmt: skip


def test_the_command_changes_classes_of_a_project_that_nobody_serves(tmp_path: Path) -> None:
    folder = str(copied(tmp_path, taught=6))
    before = classes_as_rows(list_classes(folder))
    assert [(row["name"], row["labels"]) for row in before] == [("cat", 3), ("dog", 3), ("fox", 0)]
    for words, line in (
        ("rename cat Katze", "“cat” was renamed “Katze”."),
        ("key Katze q", "“Katze”: key changed."),
        ("key Katze q", "Nothing to change: the classes are like that already."),
        ("merge dog fox", "“dog” was merged into “fox”."),
        ("order fox", "The classes were put in another order."),
        ("hide Katze", "“Katze” was hidden."),
        ("undo", "Taken back: “Katze” was hidden."),
        ("add owl", "“owl” was added."),
        ("remove owl", "“owl” was removed, and its labels with it."),
    ):
        record, said = change_classes(folder, words.split())
        assert said == line
    assert [(row["name"], row["labels"], row["key"]) for row in classes_as_rows(record)] == [
        ("fox", 3, None), ("Katze", 3, "q"),
    ]  # fmt: skip
    for words, wrong in (
        ("rename dog hound", "there is no class 'dog'; there are fox, Katze"),
        ("rename fox", "write rename CLASS NAME"),
        ("destroy fox", "write one of: add NAME"),
        ("add Fox", "easily taken"),
    ):
        with pytest.raises(UnderstudyError, match=wrong):
            change_classes(folder, words.split())
    assert change_classes(folder, ["add", "Fox"], alike=True)[1] == "“Fox” was added."
    with opened(Path(folder)) as session:
        assert session.status().class_order == [2, 0, 4]
        with pytest.raises(Conflict, match="Its page changes classes too"):
            change_classes(folder, ["undo"])
