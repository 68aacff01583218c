"""What a session answers, made of its record, its surrogate and its models. Nothing here changes anything.

All but `review` are called with the session's lock held.
"""

import math
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from understudy.core.explanation import Explanation, shares_of
from understudy.data.faults import ItemFault
from understudy.projects.project import Project
from understudy.sessions import agreement, stopping, why
from understudy.sessions import review as reviewing
from understudy.sessions.audit import counted_rows, wilson
from understudy.sessions.chooser import Choice
from understudy.sessions.models import best_influence
from understudy.sessions.record import Lease, Record
from understudy.sessions.replies import (
    CurvePoint,
    Doubt,
    Entry,
    Factor,
    ItemCard,
    Likely,
    Neighbour,
    Person,
    Progress,
    Question,
    Shown,
    Status,
    Taught,
    Training,
    Why,
)

if TYPE_CHECKING:
    from understudy.sessions.session import Session

INLINE: Final = 20_000  # characters of a text that travel along with a question
RECENT: Final = 50  # of the items asked last, whose share of right guesses is worth a word


# -- items ------------------------------------------------------------------------------------------------


def shown(project: Project, item: int) -> Shown:
    return Shown(item, project.pool.ids[item], project.kind, _text_of(project, item))


def _text_of(project: Project, item: int) -> str | None:
    """A text that is short enough to travel along; a longer one is fetched by itself."""
    if project.kind != "text":
        return None
    try:
        text = project.pool.item(item)
    except ItemFault:
        return None
    return text if isinstance(text, str) and len(text) <= INLINE else None


def question(session: "Session", lease: Lease, remaining: float) -> Question:
    """What is leased, as the annotator sees it. Nothing is suggested for items that measure the model."""
    item, record = lease.item, session.record
    decisions = record.decisions(item)
    suggestion = confidence = None
    if lease.ask in ("choice", "again") and not record.is_audit(item) and session.models.version is not None:
        shares = _clipped(session.learning.chooser.surrogate.predict([item]))[0]
        suggestion, confidence = int(shares.argmax()), float(shares.max())
    mine = decisions.marks.get(lease.annotator)
    look = shown(session.project, item)
    return Question(
        item=item, id=look.id, kind=look.kind, text=look.text, ask=lease.ask,
        lease_seconds=remaining, lease_until=session.wall_clock() + remaining,
        suggestion=suggestion, confidence=confidence,
        flagged=lease.annotator in decisions.flags, mine=None if mine is None else mine.label,
    )  # fmt: skip


def _clipped(means: np.ndarray) -> np.ndarray:
    """Means of the surrogate as shares of classes: they may leave the interval from 0 to 1 a little."""
    shares = np.clip(means, 1e-9, None)
    return shares / shares.sum(1, keepdims=True)


def card(session: "Session", item: int) -> ItemCard:
    record, look = session.record, shown(session.project, item)
    decisions = record.decisions(item)
    notes = [note for note in decisions.flags.values() if note]
    return ItemCard(
        item=item, id=look.id, kind=look.kind, text=look.text, label=record.label_of(item),
        labels={name: mark.label for name, mark in decisions.marks.items()},
        skipped_by=list(decisions.skipped), unknown_to=list(decisions.unknown),
        bad=bool(decisions.bad), flagged=bool(decisions.flags), note="; ".join(notes) or None,
    )  # fmt: skip


# -- why --------------------------------------------------------------------------------------------------


def reason(session: "Session", choice: Choice) -> dict[str, Any]:
    """What the log keeps of why an item was chosen: as much as is known without looking at the others again."""
    if session.models.version is None:
        return why.short(None, session.record.classes, "choice")
    surrogate = session.learning.chooser.surrogate
    influence, uncertainty = shares_of(choice.of_influence, choice.of_uncertainty, surrogate.options)
    means = surrogate.predict([choice.item])[0]
    top = np.argsort(-means)[:3].tolist()
    light = Explanation(
        row=choice.item, utility=choice.utility, influence=math.nan, uncertainty=math.nan,
        influence_share=influence, uncertainty_share=uncertainty,
        accuracy=math.nan, prediction=tuple((label, float(means[label])) for label in top),
        teaches=(), n_taught=0, nearest=(), reason="",
    )  # fmt: skip
    return why.short(light, session.record.classes, "choice")


def why_asked(session: "Session", item: int) -> Why:
    """Why an item is asked for. Of items drawn by lot and second opinions nothing is told that could be a hint."""
    record = session.record
    lease = record.leases.get(item)
    ask = lease.ask if lease is not None else None
    if record.is_audit(item):
        ask = "audit"
    if record.decisions(item).bad or ask in ("audit", "second"):
        line = "It is a bad item." if record.decisions(item).bad else why.line(None, record.classes, ask)
        return Why(item, line, ask, None, None, 0, [], [])
    surrogate = session.learning.chooser.surrogate
    found = surrogate.explain(item)
    distance = session.models.mean_distance
    if session.models.version is None and ask != "again":
        line = why.without_model(found, ask)
    else:
        line = why.line(found, record.classes, ask, mean_distance=distance, guesses=False)
    names = record.classes
    near = [
        Neighbour(
            row, None if label is None or label >= len(names) else names[label], far / distance if distance else far
        )
        for row, label, far in found.nearest
    ]
    shares = (found.influence_share, found.uncertainty_share)
    influence, uncertainty = (None if math.isnan(share) else share for share in shares)
    teaches = [Taught(row, share) for row, share in found.teaches if not record.is_audit(row)]
    return Why(
        item, line, ask, influence, uncertainty, found.n_taught, teaches, near,
        influence=_factor(found.influence, found.influence_quartiles),
        uncertainty=_factor(found.uncertainty, found.uncertainty_quartiles),
    )  # fmt: skip


def _factor(value: float, quartiles: tuple[float, float, float]) -> Factor | None:
    """A number of an item beside those of the items that may be asked for; None where there are none of these."""
    return Factor(value, *quartiles) if all(map(math.isfinite, (value, *quartiles))) else None


def why_nothing(record: Record, annotator: str) -> str:
    """Why there is nothing to ask this annotator."""
    others = [lease for lease in record.leases.values() if lease.annotator != annotator]
    if others:
        who = ", ".join(sorted({lease.annotator for lease in others}))
        return f"The last items are with {who}. One comes to you when it is handed back, or its time is over."
    left = [item for item in record.unknown if item not in record.effective and item not in record.bad]
    unknown = sum(annotator in record.unknown[item] for item in left)
    if unknown:
        some = "1 is" if unknown == 1 else f"{unknown} are"
        return f"Every other item has an answer; {some} left that you could not tell."
    return "Every item has an answer."


# -- lists ------------------------------------------------------------------------------------------------


def likely(session: "Session", label: int, n: int) -> list[Likely]:
    """Unlabelled items that the surrogate takes for one class, the surest first. None that measures the model."""
    surrogate = session.learning.chooser.surrogate
    if session.models.version is None:
        return []
    shares = _clipped(surrogate.mean)
    rows = surrogate.askable
    rows = rows[shares[rows].argmax(1) == label]
    best = rows[np.argsort(-shares[rows, label], kind="stable")[:n]].tolist()
    found = []
    for item in best:
        look = shown(session.project, item)
        found.append(Likely(item, look.id, look.kind, look.text, float(shares[item, label])))
    return found


def review(session: "Session", n: int) -> list[Doubt]:
    """Labels that the others speak against, worst first. The lock is held only to look, not to compute."""
    with session.lock:
        record = session.record
        rows = record.training_rows()
        kept, n_classes, seed = dict(record.kept), len(record.classes), record.settings.seed
    if len(set(rows.values())) < 2:
        return []
    places, labels = np.array(list(rows), np.int64), np.array(list(rows.values()), np.int64)
    features = np.asarray(session.project.features[places], np.float32)
    expected, surprise = reviewing.surprises(features, labels, n_classes, seed)
    suspects = reviewing.suspects(places, labels, expected, surprise, kept)
    with session.lock:
        session.suspicious = len(suspects)
        doubts = []
        for suspect in suspects[:n]:
            marks = session.record.decisions(suspect.row).marks
            if session.record.label_of(suspect.row) != suspect.label:
                continue  # changed meanwhile
            by = next((name for name, mark in marks.items() if mark.label == suspect.label), "")
            look = shown(session.project, suspect.row)
            doubts.append(
                Doubt(suspect.row, look.id, look.kind, look.text, suspect.label, by, suspect.expected, suspect.surprise)
            )
        return doubts


def history(record: Record, annotator: str, n: int) -> list[Entry]:
    events = record.events_by_annotator.get(annotator, [])[::-1][:n]
    return [
        Entry(e.seq, e.at, e.kind, e.item, e.data.get("label"), e.data.get("source"), e.seq in record.undone)
        for e in events
    ]


# -- numbers ----------------------------------------------------------------------------------------------


def _audit_labels(record: Record) -> dict[int, int]:
    """The items that were asked by lot and answered by whom they were asked of, with their labels."""
    asked = record.asked["audit"].keys()
    answers = {item: label for item in asked if (label := record.audit_label(item)) is not None}
    counted = counted_rows(record.audit_draws, asked, answers.keys() - record.bad.keys())
    return {item: answers[item] for item in counted}


def _audit_missing(record: Record) -> int:
    """How many items were asked by lot and have no answer, since they were skipped or could not be told."""
    asked = [item for item in record.asked["audit"] if item not in record.bad and item not in record.leases]
    return sum(record.audit_label(item) is None for item in asked)


def training(session: "Session") -> Training:
    record = session.record
    last = record.trainings[-1] if record.trainings else None
    at_labels = None if last is None else last.data["labels"]
    if session.learning.is_busy:
        started = session.learning.trainer.started_at
        return Training("running", at_labels, None, None if started is None else time.monotonic() - started)
    failed = record.failures[-1] if record.failures else None
    if failed is not None and (last is None or failed.seq > last.seq or failed.seq == 0):
        return Training("failed", at_labels, session.learning.next_training(), None, failed.data["reason"])
    return Training("waiting", at_labels, session.learning.next_training())


def status(session: "Session") -> Status:
    record, models = session.record, session.models
    labels = _audit_labels(record)
    right, scored = models.right_on(labels) or (0, 0)
    return Status(
        project=session.project.name, phase="ready", done=record.n_items, kind=session.project.kind,
        classes=list(record.classes),
        class_counts=[record.class_counts[number] for number in range(len(record.classes))],
        labelled=len(record.effective), total=record.n_items,
        skipped=sum(item not in record.effective for item in record.skipped),
        unknown=sum(item not in record.effective for item in record.unknown),
        bad=len(record.bad), flagged=len(record.flags),
        audited=len(labels), audit_missing=_audit_missing(record), accuracy=right / scored if scored else None,
        interval=wilson(right, scored) if scored else None,
        trained_at=record.trainings[-1].data["labels"] if record.trainings else None,
        model=models.version, training=training(session), online=session.online,
        suspicious=session.suspicious, version=session.version,
    )  # fmt: skip


def progress(session: "Session") -> Progress:
    record = session.record
    labels = _audit_labels(record)
    right, judged = record.tally()
    by_name = {item: {name: mark.label for name, mark in marks.items()} for item, marks in record.labels.items()}
    shared = any(len(names) > 1 for names in by_name.values())
    return Progress(
        curve=[_point(session, place, labels) for place in range(len(record.trainings))],
        hint=_hint(session, labels),
        asked_accuracy=right / judged if judged else None,
        class_counts=[record.class_counts[number] for number in range(len(record.classes))],
        people=_people(session, agreement.with_others(by_name)),
        agreement=agreement.agreement(by_name) if shared or record.settings.agreement_share > 0 else None,
        failures=[event.data["reason"] for event in record.failures],
    )  # fmt: skip


def _point(session: "Session", place: int, labels: dict[int, int]) -> CurvePoint:
    event = session.record.trainings[place]
    right, scored = session.models.right_on(labels, place) or (0, 0)
    low, high = wilson(right, scored) if scored else (None, None)
    return CurvePoint(
        labels=event.data["labels"], accuracy=right / scored if scored else None, low=low, high=high,
        audited=scored, asked_accuracy=event.data.get("asked_accuracy"), at=event.at,
    )  # fmt: skip


def _hint(session: "Session", labels: dict[int, int]) -> stopping.Hint:
    """Whether to go on, from all models on the same items drawn by lot."""
    record, models = session.record, session.models
    counts = [event.data["labels"] for event in record.trainings]
    scored: list[stopping.Model] = []
    for place, count in enumerate(counts):
        found = models.right_on(labels, place)
        if found is None or _event_is_given(record, place):
            continue
        # Of fewer labels, not only earlier: labels may have been undone in between.
        other = max((i for i in range(place) if stopping.STRETCH * counts[i] <= count), default=None)
        change = None if other is None else models.change_on(labels, other, place)
        scored.append(stopping.Model(count, *found, None if other is None else counts[other], change))
    wanted = session.learning.next_training()
    here = len(record.usable)
    chosen = [item for item in list(record.asked["choice"])[-RECENT:] if item in record.effective]
    rights = [right for item in chosen if (right := record.was_right(item)) is not None]
    left = record.n_items - len({*record.effective, *record.bad, *record.unknown})
    until = None if wanted is None else max(1, wanted - here)
    return stopping.hint(
        scored,
        class_counts={name: record.class_counts[number] for number, name in enumerate(record.classes)},
        left=left,
        promised=stopping.promise(best_influence(session.learning.chooser.surrogate), _first_influence(session)),
        asked=(sum(rights), len(rights)),
        until_training=None if until is None or until > left else until,
        is_training=session.learning.is_busy,
    )


def _first_influence(session: "Session") -> float | None:
    """What the best label promised at first: of all items, or with the paper's method after the first training.

    None before the first training.
    """
    own = [event for event in session.record.trainings if event.data.get("source") != "given"]
    if not own:
        return None
    at_first = session.models.first_influence
    return own[0].data.get("best_influence") if at_first is None else at_first


def _event_is_given(record: Record, place: int) -> bool:
    return bool(record.trainings[place].data.get("source") == "given")


def _people(session: "Session", agreeing: dict[str, float]) -> list[Person]:
    record, online = session.record, set(session.online)
    found = []
    for name in record.annotators:
        events = [event for event in record.events_by_annotator.get(name, []) if event.seq not in record.undone]
        kinds = [event.kind for event in events]
        seconds = [event.data["seconds"] for event in events if event.data.get("seconds") is not None]
        found.append(
            Person(
                name=name,
                online=name in online,
                labels=kinds.count("labelled"),
                skipped=kinds.count("skipped"),
                unknown=kinds.count("dont_know"),
                median_seconds=median(seconds) if seconds else None,
                agreement=agreeing.get(name),
            )
        )
    return found
