"""Decisions that people make in another tool, as the events by which a record comes to say the same.

The other tool says what each person says of an item now. What the record says otherwise is labelled, skipped or taken
back. So what is reported twice is stored once, and what was missed while nobody listened comes with the next report.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from understudy.sessions.log.events import SOURCE_ANNOTATOR, Event
from understudy.sessions.record import Record

AGAIN: Final = "+"  # after the key of what is said once more
MakeLabel = Callable[[int, str, str | None, dict[str, Any]], Event]  # of item, annotator, key and data


@dataclass(frozen=True)
class OutsideDecision:
    """What a person says of an item in another tool: a class, or None where they passed it over.

    `key` is the tool's name for it: another one whenever the person decides anew. `seconds` is how long they took,
    `given_at` when it was, in seconds since 1970. `suggestion` is the class that they were shown.
    """

    annotator: str
    label: int | None
    key: str
    seconds: float | None = None
    given_at: float | None = None
    suggestion: int | None = None


def events_to_match(
    record: Record, item: int, said: Sequence[OutsideDecision], tool: str, make_label: MakeLabel
) -> list[Event]:
    """The events after which an item is as the other tool says; none where it is already.

    `said` has one decision a person, and whoever is not in it has taken theirs back. Keys of the tool begin with
    `tool`, and decisions with other keys are left alone. An item that the tool was to hand out counts as asked of
    whoever answers it first; one whose last answer is taken back is handed out again, unless it is left out.
    """
    found, events = record.decisions(item), list[Event]()
    people = {decision.annotator for decision in said}
    becomes = record.class_table.becomes
    lease = record.leases.get(item)
    was_asked = lease is not None and lease.annotator == SOURCE_ANNOTATOR
    for who in dict.fromkeys(event.annotator for event in found.events):
        if who is not None and who not in people:
            events += _undo_events(record, item, who, tool)
    for decision in said:
        who, mark = decision.annotator, found.given.get(decision.annotator)
        if decision.label is None:
            if who in found.skipped and mark is None:
                continue
            events += _undo_events(record, item, who, tool)
            decided = Event("skipped", item, who, decision.key, _when(decision))
        elif mark is not None and becomes[mark.label] == decision.label:
            continue
        else:
            source = "person" if was_asked or mark is not None else "import"
            data = {
                "label": decision.label, "source": source, "seconds": decision.seconds,
                "suggestion": decision.suggestion, **_when(decision),
            }  # fmt: skip
            decided = make_label(item, who, decision.key, data)
        if was_asked:
            events.append(Event("asked", item, who, data=record.asks[item].data))
            was_asked = False
        events.append(decided)
    asked = record.asks.get(item)
    if events and not said and lease is None and asked is not None and not found.bad:
        events.append(Event("asked", item, SOURCE_ANNOTATOR, data=asked.data))
    return events


def events_of_known_answer(record: Record, item: int, make_label: MakeLabel) -> list[Event]:
    """The events by which an audit item that was labelled before its turn is asked and answered in its turn.

    The other tool would not hand it out again, and whoever labelled it would say the same.
    """
    found = record.decisions(item)
    who, mark = next(iter(found.given.items()))
    key = next(event.key for event in found.events if event.seq == mark.seq)
    data = {"label": mark.label, "source": mark.source, "seconds": mark.seconds}
    return [
        Event("asked", item, who, data=record.asks[item].data),
        make_label(item, who, None if key is None else f"{key}{AGAIN}", data),
    ]


def _undo_events(record: Record, item: int, annotator: str, tool: str) -> list[Event]:
    """The events that take back all that a person decided about an item in the tool, the latest first."""
    decided = [
        event
        for event in record.decisions(item).events
        if event.annotator == annotator and (event.key or "").startswith(tool)
    ]
    return [
        Event("undone", item, annotator, data={"undoes": event.seq, "what": event.kind}) for event in reversed(decided)
    ]


def _when(decision: OutsideDecision) -> dict[str, float]:
    return {} if decision.given_at is None else {"given_at": decision.given_at}
