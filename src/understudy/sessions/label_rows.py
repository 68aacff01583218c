"""The labels that a project exports, as rows: who labelled which item as what, when, and why it was asked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import numpy as np

from understudy.data.pool import Pool
from understudy.labels.export_data import ExportData, LabelRow
from understudy.sessions.calibrations import audit_labels, calibration_of_model
from understudy.sessions.classes import ClassTable
from understudy.sessions.log.events import Ask, Event
from understudy.sessions.people import PeopleTable
from understudy.sessions.record import Decisions, Mark, Record
from understudy.sessions.training.artifacts import Artifacts

NOT_ASKED: Final = "unasked"
REFUSALS: Final = {"dont_know": "unknown", "bad": "bad", "skipped": "skipped"}  # decision, and the record's field


@dataclass(frozen=True, eq=False)
class RecordCopy:
    """What a record knew at one moment. Taken in milliseconds: events never change, so they need not be copied."""

    classes: ClassTable
    effective: Mapping[int, int]
    asks: Mapping[int, Event]
    asked: Mapping[Ask, dict[int, None]]
    events: Mapping[int, tuple[Event, ...]]
    people: PeopleTable

    @classmethod
    def of(cls, record: Record) -> "RecordCopy":
        asked = {ask: dict(items) for ask, items in record.asked.items()}
        classes = record.class_table.copy()
        return cls(
            classes, dict(record.effective), dict(record.asks), asked, record.decision_events(), record.people.copy()
        )

    def to_record(self) -> Record:
        """The record of that moment, as far as rows of labels need it."""
        record = Record()
        record.class_table, record.classes, record.effective = self.classes, self.classes.names, dict(self.effective)
        record.asks, record.asked, record.people = dict(self.asks), dict(self.asked), self.people
        for item, events in self.events.items():
            record.replace_decisions(item, events)
        return record


def collect_labels(
    record: Record, pool: Pool, artifacts: Artifacts | None = None, *, is_raw: bool = False
) -> ExportData:
    """What can be exported now. Call it while nothing changes: it takes milliseconds, rows are made when written.

    Probabilities are calibrated by the audit items of this moment, unless they are to be `is_raw`.
    """
    last = next((event for event in reversed(record.trainings) if event.data.get("predictions")), None)
    data: Mapping[str, Any] = {} if last is None else last.data
    read = model_file = None
    table = record.class_table.copy()
    outputs = [table.becomes[number] for number in data.get("outputs") or range(len(table.classes))]
    columns = {number: column for column, number in enumerate(sorted(table.alive))}
    if artifacts is not None and data:
        read = partial(_probabilities, artifacts, data["predictions"], table)
        model_file = artifacts.path(data["model"]) if data.get("model") else None
    return ExportData(
        ids=pool.ids,
        classes=tuple(table.classes[number].name for number in table.alive),
        read_rows=partial(_rows_of_copy, RecordCopy.of(record), pool.ids),
        effective={item: record.classes[label] for item, label in record.effective.items()},
        items=pool.items,
        model_classes=tuple(table.classes[number].name for number in columns),
        predictions=read,
        model=data.get("model"),
        model_file=model_file,
        model_outputs=[None if number is None else table.classes[number].name for number in outputs],
        about_model={name: data[name] for name in ("until", "labels", "learner", "source") if name in data},
        calibrate=partial(
            calibration_of_model,
            labels={item: columns[label] for item, label in audit_labels(record).items()},
            training=data,
        ),
        is_raw=is_raw,
    )


def _probabilities(artifacts: Artifacts, key: str, classes: ClassTable) -> np.ndarray:
    """Predictions of the classes alive, by number; without those that came after the model."""
    probs = artifacts.predictions(key).probs
    known = {into for into in classes.becomes[: probs.shape[1]] if into is not None}
    return classes.project(probs)[:, [number for number in sorted(classes.alive) if number <= max(known, default=-1)]]


def _rows_of_copy(copy: RecordCopy, ids: Sequence[str]) -> Iterator[LabelRow]:
    return label_rows(copy.to_record(), ids)


def label_rows(record: Record, ids: Sequence[str]) -> Iterator[LabelRow]:
    """The rows of all decided items in the order of the pool; those of one item in the order they were made in."""
    refused: dict[str, Mapping[int, Mapping[str, int]]] = {
        decision: getattr(record, kept) for decision, kept in REFUSALS.items()
    }
    decided = record.effective.keys() | record.flags.keys()
    for item in sorted(decided.union(*(found.keys() for found in refused.values()))):
        yield from _rows_of_item(record, ids[item], item)


def _rows_of_item(record: Record, name: str, item: int) -> Iterator[LabelRow]:
    decisions = record.decisions(item)
    effective = record.label_of(item)
    effective_name = None if effective is None else _class_name(record, effective)
    made: list[tuple[int, str, str, Mark | None]] = [
        (mark.seq, "label", who, mark) for who, mark in decisions.marks.items()
    ]
    for decision, kept in REFUSALS.items():
        made += [(seq, decision, who, None) for who, seq in getattr(decisions, kept).items()]
    made += [(_flag_seq(decisions, who), "flagged", who, None) for who in decisions.flags]
    settled = decisions.settled
    if settled is not None:
        made.append((settled.seq, "settled", settled.by, None))
    times = {event.seq: event.given_at for event in decisions.events}
    made.sort(key=lambda each: each[:3])
    for seq, decision, who, mark in made:
        asked, ask = (NOT_ASKED, None) if decision == "settled" else _find_ask(record, item, who, seq, mark)
        why, share = _reason(ask)
        yield LabelRow(
            id=name,
            item=item,
            label=_class_name(record, mark.label) if mark else effective_name if decision == "settled" else None,
            effective=effective_name,
            decision=decision,
            annotator=record.people.name_of(who),
            labelled_at=iso_utc(times.get(seq, 0.0) if mark is None else mark.at),
            asked=asked,
            why=why,
            influence_share=share,
            model=None if mark is None else mark.model,
            guess=None if mark is None or mark.guess is None else _class_name(record, mark.guess),
            source=None if mark is None else mark.source,
            seconds=None if mark is None else mark.seconds,
            flagged=bool(decisions.flags),
            note=decisions.flags.get(who) or None,
            resolution=decisions.resolution,
            disputed=decisions.contest == "disputed",
            settled_by=None if settled is None else record.people.name_of(settled.by),
            settled_note=None if settled is None else settled.note or None,
        )


def _flag_seq(decisions: Decisions, who: str) -> int:
    """The number of the event by which somebody's flag was set last."""
    return max(
        (event.seq for event in decisions.events if event.kind == "flagged" and event.annotator == who), default=0
    )


def _find_ask(record: Record, item: int, who: str, seq: int, mark: Mark | None) -> tuple[str, Event | None]:
    """How an item came to an annotator, and the event that says so.

    The record keeps the last such event of an item. An earlier annotator's is known by its kind only.
    """
    if mark is not None and mark.source != "person":
        return NOT_ASKED, None
    last = record.asks.get(item)
    if last is not None and last.annotator == who and last.seq < seq:
        return last.data["lease"], last
    before = [ask for ask in ("audit", "choice") if item in record.asked[ask]]
    return (before[0] if before else NOT_ASKED), None


def _reason(ask: Event | None) -> tuple[str | None, float | None]:
    """The plain line why an item was asked, and the share of the influence in it."""
    why: Any = None if ask is None else ask.data.get("why")
    if isinstance(why, Mapping):
        return why.get("line"), why.get("influence_share")
    return why, None if ask is None else ask.data.get("influence_share")


def _class_name(record: Record, label: int) -> str:
    return record.classes[label]


def iso_utc(at: float) -> str:
    """A time as ISO 8601 in UTC, to the microsecond: 2026-03-01T12:00:00.250000Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
