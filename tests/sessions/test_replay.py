"""Stories in which everything happens that a log can hold: replayed or followed step by step they come to the same."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.sessions.test_record import ITEMS, PEOPLE, Story, created, looks
from understudy.errors import UnderstudyError
from understudy.sessions.assignments import Assignments
from understudy.sessions.class_changes import check_new_class, possible_change
from understudy.sessions.item_columns import ItemColumns
from understudy.sessions.log.events import KINDS, Event, Kind
from understudy.sessions.people_changes import people_as_rows, possible_changes, show_people
from understudy.sessions.record import Record, replay_events
from understudy.sessions.settings_changes import settings_event
from understudy.sessions.turns import Turns

NAMES = ("ann", "Ann B", "cy", "Zed", "owl")
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(
            [*sorted(KINDS), *["labelled"] * 5, *["person_changed"] * 3, *["undone"] * 4, "undo class", "undo people"]
        ),
        st.integers(0, ITEMS - 1),
        st.sampled_from(PEOPLE),
        st.integers(0, 11),
    ),
    max_size=45,
)  # fmt: skip


class Life(Story):
    """A story that is followed as a session follows it: by what each event says it is about."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        self.assignments = Assignments(self.record, lambda: None)
        self.turns = Turns(self.record, self.assignments)
        self.columns = {only: ItemColumns(self.record, only) for only in (None, "ann")}

    def store(self, event: Event) -> None:
        event = replace(event, seq=len(self.events) + 1, at=float(len(self.events)))
        self.events.append(event)
        items = self.record.items_of(event)
        self.record.apply(event)
        for item in items:
            self.assignments.update(item)
            self.turns.update(item)
        for columns in self.columns.values():
            columns.note(items)
            columns.update(99)
        if event.kind == "settings_changed":
            self.turns = Turns(self.record, self.assignments)
        elif event.kind == "restarted":  # the project is opened anew
            self.begin()

    def say(self, kind: Any, item: int | None = None, who: str | None = "ann", **data: Any) -> Event:
        self.store(Event(kind, item, who, data=data))
        return self.events[-1]


def live(deeds: list[tuple[str, int, str, int]]) -> Life:
    life = Life()
    for number, (kind, item, who, pick) in enumerate(deeds):
        try:
            for event in happen(life, kind, item, who, pick):
                life.store(replace(event, key=event.key and f"{event.key} {number}"))
        except UnderstudyError:  # what is refused is not stored
            continue
    return life


def happen(life: Life, kind: Any, item: int, who: str, pick: int) -> list[Event]:
    """What a session would store of a deed."""
    record = life.record
    item = (item + pick) % record.n_items
    classes, label = len(record.classes), pick % max(1, len(record.classes))
    becomes = record.class_table.becomes
    is_class = classes > 0 and becomes[label] is not None
    if kind in ("labelled", "relabelled"):
        known = record.decisions(item).marks.get(who)
        source = ("person", "review", "grid", "browse", "import")[pick % 5]
        data = {"label": label, "source": source, "guess": pick % classes if classes else None}
        named: Kind = "labelled" if known is None else "relabelled"
        return [Event(named, item, who, None if source == "import" else "k", data)] if is_class else []
    if kind == "settled":
        return (
            [Event(kind, item, who, "k", {"label": label, "note": "so"})]
            if is_class and record.labels.get(item)
            else []
        )
    if kind == "kept":
        return [Event(kind, item, who, "k", {"label": record.label_of(item)})] if item in record.effective else []
    if kind in ("skipped", "dont_know", "bad"):
        return [Event(kind, item, who, "k")]
    if kind == "flagged":
        return [Event(kind, item, who, "k", {"on": bool(pick % 3), "note": f"note {pick}"})]
    if kind == "put_back":
        what = ("skipped", "dont_know", "bad", "flagged", "any")[pick % 5]
        if pick > 5:
            return [Event(kind, item, who, "k", {"what": what})]
        return [
            Event(
                kind, None, who, "k", {"what": ("skipped", "dont_know")[pick % 2], **({"of": who} if pick > 2 else {})}
            )
        ]
    if kind == "undone":
        last = record.last_decision(who)
        return [Event(kind, each.item, who, None, {"undoes": each.seq, "what": each.kind}) for each in last]
    if kind == "asked":
        lease = ("choice", "audit", "second", "again")[pick % 4]
        free = item not in record.leases
        return (
            [Event(kind, item, who, None, {"lease": lease, "seconds": 60.0, "why": None, "model": None})]
            if free
            else []
        )
    if kind in ("lease_expired", "released"):
        return [Event(kind, lease.item, lease.annotator) for lease in list(record.leases.values())[:1]]
    if kind == "trained":
        return [Event(kind, data={"model": "m", "predictions": "p", "until": record.seq, "labels": 3, "learner": "l"})]
    if kind == "training_failed":
        return [Event(kind, data={"reason": "no luck", "until": record.seq})]
    if kind == "encoder_changed":
        return [Event(kind, data={"encoder": "pixels", "features": f"v{pick}"})]
    if kind == "items_added":
        return [Event(kind, data={"count": 1, "audit": [record.n_items] if pick % 2 else []})]
    if kind == "settings_changed":
        changes = ({"audit_share": pick / 20}, {"agreement_share": pick / 12}, {"suggestions": bool(pick % 2)})[
            pick % 3
        ]
        found = settings_event(record, changes, who, "k")
        return [] if found is None else [found]
    if kind == "restarted":
        begin = created().data
        data = {**begin, "classes": begin["classes"][: pick % 4], "folder_labels": bool(pick % 2)}
        return [Event(kind, data=data)] if record.is_untouched else []
    return [*happen_to_classes(record, kind, item, who, pick), *happen_to_people(record, kind, who, pick)]


def happen_to_classes(record: Record, kind: Any, item: int, who: str, pick: int) -> list[Event]:
    number = pick % max(1, len(record.classes))
    changes: dict[str, dict[str, Any]] = {
        "class_changed": {"class": number, **({"name": f"name {item}"} if pick % 2 else {"hidden": pick % 4 == 0})},
        "class_merged": {"class": number, "into": item % max(1, len(record.classes))},
        "class_removed": {"class": number},
        "classes_reordered": {"order": record.class_table.alive[::-1]},
    }
    if kind == "class_added":
        check_new_class(record, f"class {pick}")
        return [Event(kind, None, who, "k", {"name": f"class {pick}", **({"item": item} if pick % 2 else {})})]
    if kind in changes:
        found = possible_change(record, Event(kind, None, who, "k", changes[kind]))
        return [] if found is None else [found]
    done = [event for seq, event in record.class_events.items() if seq not in record.undone]
    if kind == "undo class" and done and record.reason_to_keep(changed := done[pick % len(done)]) is None:
        return [Event("undone", None, who, "k", {"undoes": changed.seq, "what": changed.kind})]
    return []


def happen_to_people(record: Record, kind: Any, who: str, pick: int) -> list[Event]:
    name = NAMES[pick % len(NAMES)]
    values: dict[str, Any] = (
        {"name": f"{name} {pick}"}, {"role": ("annotator", "reviewer", "owner")[pick % 3]}, {"retired": bool(pick % 4)},
        {"share": (pick % 4) / 4 or None, "quota": pick % 3 or None}, {"classes": [pick % 4]}, {"name": name},
    )[pick % 6]  # fmt: skip
    if kind == "person_added":
        role = ("annotator", "reviewer", "owner")[pick % 3]
        return possible_changes(record, Event(kind, None, who, "k", {"name": name, "role": role}))
    if kind == "person_changed":
        return possible_changes(record, Event(kind, None, who, "k", {"person": name if pick % 2 else who, **values}))
    if kind == "undo people" and (events := list(record.people.events.values())):
        changed = events[pick % len(events)]
        return possible_changes(record, Event("undone", None, who, "k", {"undoes": changed.seq, "what": changed.kind}))
    return []


def whole(record: Record) -> dict[str, Any]:
    """All that can be seen of a record."""
    people = record.people
    return {
        **looks(record),
        "classes": (record.classes, record.class_table.classes, record.class_table.becomes, record.class_table.alive),
        "people": (people.by_id, people._ids, list(people.events), people.undone),
        "leases": (record.leases, record.asked, record.last_ask, record.audited_by),
        "audit": (record.audit_rows, record.later_audit_rows),
        "rest": (
            record.settings,
            record.batches,
            record.seq,
            record.annotators,
            record.undone,
            record.features_version,
        ),
        "models": ([event.seq for event in record.trainings], [event.seq for event in record.failures]),
    }


def test_a_story_may_have_every_kind_of_event() -> None:
    met = {"created"}
    for pick in range(12):
        deeds = [
            (kind, item, who, pick)
            for item, who in enumerate(PEOPLE)
            for kind in (
                "restarted",
                "labelled",
                *sorted(KINDS),
                "asked",
                "released",
                "asked",
                "lease_expired",
                "undone",
            )
        ]
        met |= {event.kind for event in live(deeds).events}
    assert met == set(get_args(Kind))


@examples(max_examples=400, deadline=None)
@given(DEEDS)
def test_any_story_of_everything_replays_to_the_same_record(deeds: list[tuple[str, int, str, int]]) -> None:
    life = live(deeds)
    assert whole(Record.from_events(life.events)) == whole(life.record)
    assert whole(replay_events(life.events).record) == whole(life.record)
    show_people(life.record, ())
    people_as_rows(life.record)


@examples(max_examples=400, deadline=None)
@given(DEEDS)
def test_what_follows_a_story_step_by_step_is_what_is_made_of_its_end(deeds: list[tuple[str, int, str, int]]) -> None:
    life = live(deeds)
    fresh = Assignments(life.record, lambda: None)
    assert +life.assignments.labels == +fresh.labels
    assert np.array_equal(life.assignments.is_decided, fresh.is_decided)
    turns = Turns(life.record, fresh)
    for who in PEOPLE:
        assert life.turns.next_second(who) == turns.next_second(who)
        assert life.turns.next_skipped(who) == turns.next_skipped(who)
        rows = zip(life.assignments.rows_for(who), fresh.rows_for(who), strict=True)
        assert all(one is two or np.array_equal(np.asarray(one), np.asarray(two)) for one, two in rows)
        assert life.assignments.own_work(who) == fresh.own_work(who)
    for only, columns in life.columns.items():
        again = ItemColumns(life.record, only)
        assert columns.update(99) and again.update(99)  # noqa: PT018
        one, two = columns.copy(), again.copy()
        assert np.array_equal(one.labels, two.labels)
        assert np.array_equal(one.states, two.states)
        assert np.array_equal(one.times, two.times, equal_nan=True)
        assert columns.people == again.people
