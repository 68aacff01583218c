"""What a session replies, made of what it knows at the moment. Nothing here changes anything.

All are called with the session's lock held.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from understudy.core.explanation import Explanation, shares_of
from understudy.core.surrogate import Surrogate
from understudy.data.faults import ItemFault
from understudy.learners.calibration import Calibration
from understudy.messages import count_of
from understudy.projects.project import Project
from understudy.sessions import why
from understudy.sessions.audit import wilson
from understudy.sessions.calibrations import Audits, shares_to_show
from understudy.sessions.chooser import Choice
from understudy.sessions.class_changes import describe_change
from understudy.sessions.grid import Offer, make_offer, offer_few
from understudy.sessions.log.events import Event
from understudy.sessions.models import Models
from understudy.sessions.record import Lease, Record
from understudy.sessions.replies import (
    AuditPlan,
    CalibrationStatus,
    ChangeShown,
    ClassList,
    ClassNews,
    ClassShown,
    ClassStyle,
    Column,
    Doubt,
    Entry,
    Factor,
    Folders,
    GridOffer,
    ItemCard,
    ItemsNews,
    Joining,
    Likely,
    Neighbour,
    Question,
    Shown,
    Status,
    Taught,
    Training,
    Why,
)
from understudy.sessions.review import Suspect
from understudy.sessions.stopping import audit_plan

MAX_TEXT_LENGTH: Final = 20_000  # of a text that is sent along with a question
MAX_CHANGES: Final = 30  # of classes, shown with what there is to take back


@dataclass(frozen=True, eq=False)
class SessionState:
    """What a session knows at the moment, for reading."""

    project: Project
    record: Record
    models: Models
    surrogate: Surrogate
    audits: Audits


@dataclass(frozen=True)
class TrainingFacts:
    """Where training stands: whether one runs, since when, and at how many labels the next starts."""

    is_running: bool
    started_at: float | None  # by `time.monotonic`
    next_at: int | None  # None while a second class is missing


# -- items ------------------------------------------------------------------------------------------------


def show_item(project: Project, item: int) -> Shown:
    """An item as annotators see it."""
    columns = [Column(name, value) for name, value in project.columns_of(item)]
    return Shown(item, project.pool.ids[item], project.kind, _text_of(project, item), columns)


def _text_of(project: Project, item: int) -> str | None:
    """A text that is short enough to be sent along; a longer one is fetched separately."""
    if project.kind != "text":
        return None
    try:
        text = project.pool.item(item)
    except ItemFault:
        return None
    return text if isinstance(text, str) and len(text) <= MAX_TEXT_LENGTH else None


def question(state: SessionState, lease: Lease, remaining: float, now: float) -> Question:
    """What is leased, as the annotator sees it, for so many more seconds from `now`, in seconds since 1970.

    Nothing is suggested for audit items.
    """
    item, record = lease.item, state.record
    decisions = record.decisions(item)
    suggestion = confidence = None
    may_suggest = record.settings.suggestions and lease.ask in ("choice", "again") and not record.is_audit(item)
    if may_suggest and state.models.version is not None:
        suggestion, confidence = _suggest(state, _shares_shown(state, [item])[0])
    mine = decisions.marks.get(lease.annotator)
    look = show_item(state.project, item)
    return Question(
        item=item,
        id=look.id,
        kind=look.kind,
        text=look.text,
        ask=lease.ask,
        lease_seconds=remaining,
        lease_until=now + remaining,
        lease=lease.seq,
        suggestion=suggestion,
        confidence=confidence,
        flagged=lease.annotator in decisions.flags,
        mine=None if mine is None else mine.label,
        columns=look.columns,
        note=decisions.flags.get(lease.annotator, ""),
    )


def _suggest(state: SessionState, shares: np.ndarray) -> tuple[int | None, float | None]:
    """The likeliest class, nothing where it is not offered; and its share, where that can be said."""
    best, classes = int(shares.argmax()), state.record.class_table.classes
    if best >= len(classes) or classes[best].hidden:
        return None, None
    return best, float(shares[best]) if calibration_shown(state).is_known else None


def _shares_shown(state: SessionState, rows: Sequence[int]) -> np.ndarray:
    """Calibrated probabilities of the classes for a few rows."""
    shares = shares_to_show(state.surrogate.predict(rows), state.surrogate.anchor_probs(rows))
    return calibration_shown(state).apply(shares)


def calibration_shown(state: SessionState) -> Calibration:
    """What the confidences that are shown are calibrated by."""
    return state.audits.calibration(state.models.probs)


def item_card(state: SessionState, item: int, only: str | None = None) -> ItemCard:
    """All that people decided about an item.

    With `only` it has what this person said, so that a second opinion stays one's own.
    """
    record, look = state.record, show_item(state.project, item)
    decisions = record.decisions(item)

    def seen(people: Iterable[str]) -> list[str]:
        return [who for who in people if only in (None, who)]

    labels = {who: decisions.marks[who].label for who in seen(decisions.marks)}
    notes = [decisions.flags[who] for who in seen(decisions.flags) if decisions.flags[who]]
    return ItemCard(
        item=item,
        id=look.id,
        kind=look.kind,
        text=look.text,
        label=record.label_of(item) if only is None else labels.get(only),
        labels={record.people.name_of(who): label for who, label in labels.items()},
        skipped_by=record.people.names_of(seen(decisions.skipped)),
        unknown_to=record.people.names_of(seen(decisions.unknown)),
        bad=bool(decisions.bad),
        flagged=bool(seen(decisions.flags)),
        note="; ".join(notes) or None,
        columns=look.columns,
    )


# -- why --------------------------------------------------------------------------------------------------


def reason_for_choice(state: SessionState, choice: Choice) -> dict[str, Any]:
    """What the log keeps of why an item was chosen: what is known without computing anything for other items."""
    if state.models.version is None:
        return why.reason_for_log(None, state.record.classes, "choice")
    surrogate = state.surrogate
    influence, uncertainty = shares_of(choice.of_influence, choice.of_uncertainty, surrogate.options)
    means = surrogate.predict([choice.item])[0]
    top = np.argsort(-means)[:3].tolist()
    light = Explanation(
        row=choice.item,
        utility=choice.utility,
        influence=math.nan,
        uncertainty=math.nan,
        influence_share=influence,
        uncertainty_share=uncertainty,
        accuracy=math.nan,
        prediction=tuple((label, float(means[label])) for label in top),
        teaches=(),
        n_taught=0,
        nearest=(),
        reason="",
    )
    return why.reason_for_log(light, state.record.classes, "choice")


def explain_item(state: SessionState, item: int, only: str | None = None) -> Why:
    """Why an item is asked for. For audit items and second opinions without anything that could be a hint.

    With `only`, labels of items nearby are those that this person gave.
    """
    record = state.record
    lease = record.leases.get(item)
    ask = lease.ask if lease is not None else None
    if record.is_audit(item):
        ask = "audit"
    if record.decisions(item).bad or ask in ("audit", "second"):
        line = "It is a bad item." if record.decisions(item).bad else why.reason_line(None, record.classes, ask)
        return Why(
            item, line, ask=ask, influence_share=None, uncertainty_share=None, n_taught=0, teaches=[], nearest=[]
        )
    surrogate = state.surrogate
    found = surrogate.explain(item)
    distance = state.models.mean_distance
    if state.models.version is None and ask != "again":
        line = why.reason_without_model(found, ask)
    else:
        line = why.reason_line(found, record.classes, ask, mean_distance=distance, guesses=False)
    names = record.classes
    near = []
    for row, label, far in found.nearest:
        own = None if only is None else record.decisions(row).marks.get(only)
        shown = label if only is None else None if own is None else own.label
        name = None if shown is None or shown >= len(names) else names[shown]
        near.append(Neighbour(row, name, far / distance if distance else far))
    shares = (found.influence_share, found.uncertainty_share)
    influence, uncertainty = (None if math.isnan(share) else share for share in shares)
    teaches = [Taught(row, share) for row, share in found.teaches if not record.is_audit(row)]
    return Why(
        item,
        line,
        ask=ask,
        influence_share=influence,
        uncertainty_share=uncertainty,
        n_taught=found.n_taught,
        teaches=teaches,
        nearest=near,
        influence=_factor(found.influence, found.influence_quartiles),
        uncertainty=_factor(found.uncertainty, found.uncertainty_quartiles),
    )


def _factor(value: float, quartiles: tuple[float, float, float]) -> Factor | None:
    """A number of an item beside those of the items that may be asked for; None where there are none of these."""
    return Factor(value, *quartiles) if all(map(math.isfinite, (value, *quartiles))) else None


def reason_for_nothing(record: Record, annotator: str) -> str:
    """Why there is nothing to ask this annotator."""
    others = [lease for lease in record.leases.values() if lease.annotator != annotator]
    if others:
        who = ", ".join(sorted({record.people.name_of(lease.annotator) for lease in others}))
        return f"The last items are with {who}. One comes to you when it is handed back, or its time is over."
    left = [item for item in record.unknown if item not in record.effective and item not in record.bad]
    unknown = sum(annotator in record.unknown[item] for item in left)
    if unknown:
        some = "1 is" if unknown == 1 else f"{unknown} are"
        return f"Every other item has an answer; {some} left that you did not know."
    return "Every item has an answer."


# -- lists ------------------------------------------------------------------------------------------------


def likely_items(state: SessionState, label: int, n: int) -> list[Likely]:
    """Unlabelled items that the surrogate takes for one class, the surest first. No audit items."""
    rows, confidences = _likely_rows(state, label)
    return _as_likely(state, rows[:n], confidences[:n])


def grid_offer(state: SessionState, label: int, at_most: int, among: np.ndarray | None = None) -> GridOffer:
    """As many of the likely items of a class, `among` these rows, as may be confirmed at once, and why not more."""
    if state.models.version is None:
        return GridOffer([], None, 0, "There is no model yet; label items of two classes first.")
    if at_most == 0:
        return GridOffer([], None, 0, "You have given as many labels as you were asked for.")
    rows, confidences = _likely_rows(state, label, among)
    offer = _offer(state, confidences, at_most)
    items = _as_likely(state, rows[: offer.count], confidences[: offer.count])
    return GridOffer(items, offer.promised, len(rows), offer.reason)


def _offer(state: SessionState, confidences: np.ndarray, at_most: int) -> Offer:
    if not calibration_shown(state).is_known:
        return offer_few(len(confidences), at_most, "too few items have a label yet.")
    labels = state.audits.labels
    given = np.array(list(labels.values()), np.int64)
    shares = _shares_shown(state, list(labels)) if labels else np.zeros((0, 1))
    return make_offer(confidences, shares.max(1), shares.argmax(1) == given, at_most)


def _likely_rows(state: SessionState, label: int, among: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The rows that may be asked and are likeliest of one class, the surest first, and their confidences."""
    if state.models.version is None:
        return np.zeros(0, np.int64), np.zeros(0)
    rows = state.surrogate.askable
    rows = rows if among is None else rows[among[rows]]
    shares = shares_to_show(state.surrogate.mean[rows], state.surrogate.anchor_probs(rows))
    is_likely = shares.argmax(1) == label
    rows, shares = rows[is_likely], calibration_shown(state).apply(shares[is_likely])
    order = np.argsort(-shares[:, label], kind="stable")
    return rows[order], shares[order, label]


def _as_likely(state: SessionState, rows: np.ndarray, confidences: np.ndarray) -> list[Likely]:
    found, is_known = [], calibration_shown(state).is_known
    for item, confidence in zip(rows.tolist(), confidences.tolist(), strict=True):
        look = show_item(state.project, item)
        found.append(Likely(item, look.id, look.kind, look.text, confidence if is_known else None))
    return found


def doubts(state: SessionState, suspects: Sequence[Suspect]) -> list[Doubt]:
    """Suspicious labels as they are shown, without those that were changed meanwhile."""
    found = []
    for suspect in suspects:
        marks = state.record.decisions(suspect.row).marks
        if state.record.label_of(suspect.row) != suspect.label:
            continue
        by = next((state.record.people.name_of(who) for who, mark in marks.items() if mark.label == suspect.label), "")
        look = show_item(state.project, suspect.row)
        found.append(
            Doubt(
                suspect.row,
                look.id,
                kind=look.kind,
                text=look.text,
                label=suspect.label,
                by=by,
                expected=suspect.expected,
                surprise=suspect.surprise,
                columns=look.columns,
            )
        )
    return found


def show_classes(state: SessionState) -> ClassList:
    """All classes, and what was done to them lately."""
    record, table = state.record, state.record.class_table
    alive = table.alive
    gone = [number for number in range(len(table.classes)) if not table.lives(number)]
    changes = [event for event in record.class_events.values() if event.seq not in record.undone]
    return ClassList(
        [_show_class(state, number) for number in (*alive, *gone)],
        [
            ChangeShown(
                event.seq,
                event.at,
                _by_whom(record, event),
                describe_change(record, event),
                record.reason_to_keep(event),
            )
            for event in changes[::-1][:MAX_CHANGES]
        ],
    )


def _show_class(state: SessionState, number: int) -> ClassShown:
    record, found = state.record, state.record.class_table.classes[number]
    return ClassShown(
        number=number,
        name=found.name,
        count=record.class_counts[number],
        shortcut=found.shortcut,
        colour=found.colour,
        description=found.description,
        hidden=found.hidden,
        examples=[show_item(state.project, item) for item in found.examples],
        former_names=list(found.former_names),
        gone=found.gone,
        into=found.into,
    )


def _class_news(record: Record) -> ClassNews | None:
    last = record.class_news
    return None if last is None else ClassNews(last.seq, _by_whom(record, last), describe_change(record, last))


def _by_whom(record: Record, event: Event) -> str | None:
    """The name of the person who did something; None for what the console did."""
    return None if event.annotator is None else record.people.name_of(event.annotator)


def _class_styles(record: Record) -> list[ClassStyle]:
    """The keys, colours and descriptions of the classes that have any."""
    alive = [(number, record.class_table.classes[number]) for number in record.class_table.alive]
    return [
        ClassStyle(number, each.shortcut, each.colour, each.description)
        for number, each in alive
        if each.shortcut or each.colour or each.description
    ]


def history(record: Record, annotator: str, n: int) -> list[Entry]:
    """An annotator's last decisions, latest first."""
    events = record.events_by_annotator.get(annotator, [])[::-1][:n]
    return [
        Entry(
            e.seq,
            e.given_at,
            what=e.kind,
            item=e.item,
            label=e.data.get("label", e.data.get("class")),
            source=e.data.get("source"),
            undone=e.seq in record.undone,
        )
        for e in events
    ]


# -- numbers ----------------------------------------------------------------------------------------------


def _audit_missing(record: Record) -> int:
    """How many audit items were asked and have no answer: they were skipped, or the annotator did not know."""
    asked = [item for item in record.asked["audit"] if item not in record.bad and item not in record.leases]
    return sum(record.audit_label(item) is None for item in asked)


def training(record: Record, facts: TrainingFacts) -> Training:
    """Where training stands."""
    last = record.trainings[-1] if record.trainings else None
    at_labels = None if last is None else last.data["labels"]
    if facts.is_running:
        seconds = None if facts.started_at is None else time.monotonic() - facts.started_at
        return Training("running", at_labels, None, seconds)
    failed = record.failures[-1] if record.failures else None
    if failed is not None and (last is None or failed.seq > last.seq or failed.seq == 0):
        return Training("failed", at_labels, facts.next_at, None, failed.data["reason"])
    return Training("waiting", at_labels, facts.next_at)


def items_news(record: Record) -> ItemsNews | None:
    """The last time that items joined the pool."""
    last = record.items_added
    if last is None:
        return None
    count = last.data["count"]
    return ItemsNews(last.seq, count, f"{count_of(count, 'new item')} joined; there are {record.n_items:,} now")


def status(
    state: SessionState,
    facts: TrainingFacts,
    *,
    online: Sequence[str],
    suspicious: int,
    version: int,
    joining: Joining | None = None,
    slow_or_lost: Sequence[str] = (),
) -> Status:
    """The numbers that are always on the page."""
    record, models = state.record, state.models
    labels = state.audits.labels
    right, scored = models.right_on(labels) or (0, 0)
    return Status(
        project=state.project.name,
        phase="ready",
        done=record.n_items,
        kind=state.project.kind,
        classes=list(record.classes),
        class_counts=[record.class_counts[number] for number in range(len(record.classes))],
        labelled=len(record.effective),
        total=record.n_items,
        skipped=sum(item not in record.effective for item in record.skipped),
        unknown=sum(item not in record.effective for item in record.unknown),
        bad=len(record.bad),
        flagged=len(record.flags),
        audited=len(labels),
        audit_missing=_audit_missing(record),
        accuracy=right / scored if scored else None,
        interval=wilson(right, scored) if scored else None,
        trained_at=record.trainings[-1].data["labels"] if record.trainings else None,
        model=models.version,
        training=training(record, facts),
        online=list(online),
        suspicious=suspicious,
        version=version,
        features=state.project.features_note,
        calibration=_calibration_status(state),
        audit=_plan(record),
        folders=_folders(state),
        class_order=record.class_table.offered,
        class_styles=_class_styles(record),
        class_news=_class_news(record),
        disputed=record.contest_counts["disputed"],
        items_news=items_news(record),
        joining=joining,
        slow_or_lost=list(slow_or_lost),
    )


def _folders(state: SessionState) -> Folders | None:
    """Folders about which something can still be decided."""
    if not state.record.is_untouched or (question := state.project.folders) is None:
        return None
    info = state.project.info
    taken = "undecided" if not info.folders_decided else "classes" if info.import_labels else "folders"
    return Folders(
        taken_for=taken,
        count=question.folders,
        names=list(question.names),
        items=question.items,
        loose=question.loose,
        looks=question.looks,
        line=question.line,
    )


def _calibration_status(state: SessionState) -> CalibrationStatus | None:
    if state.models.version is None:
        return None
    found = calibration_shown(state)
    return CalibrationStatus(found.is_rough, found.audited, found.describe())


def _plan(record: Record) -> AuditPlan:
    """What the audit items can show, and whether more of them would help."""
    taken = {*record.effective, *record.bad, *record.unknown, *record.audit_rows}
    share = record.settings.audit_share
    return audit_plan(len(record.audit_rows), record.n_items, share, record.n_items - len(taken))
