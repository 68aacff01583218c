"""What a session replies, made of what it knows at the moment. Nothing here changes anything.

All but `find_suspects` are called with the session's lock held.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

from understudy.core.explanation import Explanation, shares_of
from understudy.core.surrogate import Surrogate
from understudy.data.faults import ItemFault
from understudy.projects.project import Project
from understudy.sessions import agreement, review, stopping, why
from understudy.sessions.audit import counted_rows, wilson
from understudy.sessions.chooser import Choice
from understudy.sessions.models import Models, best_influence
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

MAX_TEXT_LENGTH: Final = 20_000  # of a text that is sent along with a question
RECENT_ITEMS: Final = 50  # of those asked last, among which right guesses are counted


@dataclass(frozen=True, eq=False)
class SessionState:
    """What a session knows at the moment, for reading."""

    project: Project
    record: Record
    models: Models
    surrogate: Surrogate


@dataclass(frozen=True)
class TrainingFacts:
    """Where training stands: whether one runs, since when, and at how many labels the next starts."""

    is_running: bool
    started_at: float | None  # by `time.monotonic`
    next_at: int | None  # None while a second class is missing


# -- items ------------------------------------------------------------------------------------------------


def show_item(project: Project, item: int) -> Shown:
    """An item as annotators see it."""
    return Shown(item, project.pool.ids[item], project.kind, _text_of(project, item))


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
    if lease.ask in ("choice", "again") and not record.is_audit(item) and state.models.version is not None:
        shares = _class_shares(state.surrogate.predict([item]))[0]
        suggestion, confidence = int(shares.argmax()), float(shares.max())
    mine = decisions.marks.get(lease.annotator)
    look = show_item(state.project, item)
    return Question(
        item=item, id=look.id, kind=look.kind, text=look.text, ask=lease.ask,
        lease_seconds=remaining, lease_until=now + remaining,
        suggestion=suggestion, confidence=confidence,
        flagged=lease.annotator in decisions.flags, mine=None if mine is None else mine.label,
    )  # fmt: skip


def _class_shares(means: np.ndarray) -> np.ndarray:
    """The surrogate's means as shares of the classes: means may lie a little outside 0 to 1."""
    shares = np.clip(means, 1e-9, None)
    return shares / shares.sum(1, keepdims=True)


def item_card(state: SessionState, item: int) -> ItemCard:
    """All that people decided about an item."""
    record, look = state.record, show_item(state.project, item)
    decisions = record.decisions(item)
    notes = [note for note in decisions.flags.values() if note]
    return ItemCard(
        item=item, id=look.id, kind=look.kind, text=look.text, label=record.label_of(item),
        labels={name: mark.label for name, mark in decisions.marks.items()},
        skipped_by=list(decisions.skipped), unknown_to=list(decisions.unknown),
        bad=bool(decisions.bad), flagged=bool(decisions.flags), note="; ".join(notes) or None,
    )  # fmt: skip


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
        row=choice.item, utility=choice.utility, influence=math.nan, uncertainty=math.nan,
        influence_share=influence, uncertainty_share=uncertainty,
        accuracy=math.nan, prediction=tuple((label, float(means[label])) for label in top),
        teaches=(), n_taught=0, nearest=(), reason="",
    )  # fmt: skip
    return why.reason_for_log(light, state.record.classes, "choice")


def explain_item(state: SessionState, item: int) -> Why:
    """Why an item is asked for. For audit items and second opinions without anything that could be a hint."""
    record = state.record
    lease = record.leases.get(item)
    ask = lease.ask if lease is not None else None
    if record.is_audit(item):
        ask = "audit"
    if record.decisions(item).bad or ask in ("audit", "second"):
        line = "It is a bad item." if record.decisions(item).bad else why.reason_line(None, record.classes, ask)
        return Why(item, line, ask, None, None, 0, [], [])
    surrogate = state.surrogate
    found = surrogate.explain(item)
    distance = state.models.mean_distance
    if state.models.version is None and ask != "again":
        line = why.reason_without_model(found, ask)
    else:
        line = why.reason_line(found, record.classes, ask, mean_distance=distance, guesses=False)
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


def reason_for_nothing(record: Record, annotator: str) -> str:
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


def likely_items(state: SessionState, label: int, n: int) -> list[Likely]:
    """Unlabelled items that the surrogate takes for one class, the surest first. No audit items."""
    surrogate = state.surrogate
    if state.models.version is None:
        return []
    shares = _class_shares(surrogate.mean)
    rows = surrogate.askable
    rows = rows[shares[rows].argmax(1) == label]
    best = rows[np.argsort(-shares[rows, label], kind="stable")[:n]].tolist()
    found = []
    for item in best:
        look = show_item(state.project, item)
        found.append(Likely(item, look.id, look.kind, look.text, float(shares[item, label])))
    return found


@dataclass(frozen=True, eq=False)
class LabelsToReview:
    """The labels of a moment, copied, so that they can be judged while others go on labelling."""

    labels: Mapping[int, int]  # by row
    kept: Mapping[int, int]  # those that a review found right
    n_classes: int
    seed: int


def labels_to_review(record: Record) -> LabelsToReview:
    return LabelsToReview(record.training_rows(), dict(record.kept), len(record.classes), record.settings.seed)


def find_suspects(project: Project, given: LabelsToReview) -> list[review.Suspect]:
    """The labels that the other labels speak against, worst first. It takes long: call it without the lock."""
    if len(set(given.labels.values())) < 2:
        return []
    rows, labels = np.array(list(given.labels), np.int64), np.array(list(given.labels.values()), np.int64)
    features = np.asarray(project.features[rows], np.float32)
    expected, surprise = review.surprises(features, labels, given.n_classes, given.seed)
    return review.suspects(rows, labels, expected, surprise, given.kept)


def doubts(state: SessionState, suspects: Sequence[review.Suspect]) -> list[Doubt]:
    """Suspicious labels as they are shown, without those that were changed meanwhile."""
    found = []
    for suspect in suspects:
        marks = state.record.decisions(suspect.row).marks
        if state.record.label_of(suspect.row) != suspect.label:
            continue
        by = next((name for name, mark in marks.items() if mark.label == suspect.label), "")
        look = show_item(state.project, suspect.row)
        found.append(
            Doubt(suspect.row, look.id, look.kind, look.text, suspect.label, by, suspect.expected, suspect.surprise)
        )
    return found


def history(record: Record, annotator: str, n: int) -> list[Entry]:
    """An annotator's last decisions, latest first."""
    events = record.events_by_annotator.get(annotator, [])[::-1][:n]
    return [
        Entry(e.seq, e.at, e.kind, e.item, e.data.get("label"), e.data.get("source"), e.seq in record.undone)
        for e in events
    ]


# -- numbers ----------------------------------------------------------------------------------------------


def _audit_labels(record: Record) -> dict[int, int]:
    """The audit items that were asked and answered by the annotator they were given to, with their labels."""
    asked = record.asked["audit"].keys()
    answers = {item: label for item in asked if (label := record.audit_label(item)) is not None}
    counted = counted_rows(record.audit_draws, asked, answers.keys() - record.bad.keys())
    return {item: answers[item] for item in counted}


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


def status(
    state: SessionState, facts: TrainingFacts, *, online: Sequence[str], suspicious: int, version: int
) -> Status:
    """The numbers that are always on the page."""
    record, models = state.record, state.models
    labels = _audit_labels(record)
    right, scored = models.right_on(labels) or (0, 0)
    return Status(
        project=state.project.name, phase="ready", done=record.n_items, kind=state.project.kind,
        classes=list(record.classes),
        class_counts=[record.class_counts[number] for number in range(len(record.classes))],
        labelled=len(record.effective), total=record.n_items,
        skipped=sum(item not in record.effective for item in record.skipped),
        unknown=sum(item not in record.effective for item in record.unknown),
        bad=len(record.bad), flagged=len(record.flags),
        audited=len(labels), audit_missing=_audit_missing(record), accuracy=right / scored if scored else None,
        interval=wilson(right, scored) if scored else None,
        trained_at=record.trainings[-1].data["labels"] if record.trainings else None,
        model=models.version, training=training(record, facts), online=list(online),
        suspicious=suspicious, version=version,
    )  # fmt: skip


def progress(state: SessionState, facts: TrainingFacts, *, online: Sequence[str]) -> Progress:
    """The progress page."""
    record = state.record
    labels = _audit_labels(record)
    right, judged = record.tally()
    by_name = {item: {name: mark.label for name, mark in marks.items()} for item, marks in record.labels.items()}
    shared = any(len(names) > 1 for names in by_name.values())
    return Progress(
        curve=[_curve_point(state, place, labels) for place in range(len(record.trainings))],
        hint=_hint(state, facts, labels),
        asked_accuracy=right / judged if judged else None,
        class_counts=[record.class_counts[number] for number in range(len(record.classes))],
        people=_people(record, online, agreement.with_others(by_name)),
        agreement=agreement.agreement(by_name) if shared or record.settings.agreement_share > 0 else None,
        failures=[event.data["reason"] for event in record.failures],
    )  # fmt: skip


def _curve_point(state: SessionState, place: int, labels: dict[int, int]) -> CurvePoint:
    event = state.record.trainings[place]
    right, scored = state.models.right_on(labels, place) or (0, 0)
    low, high = wilson(right, scored) if scored else (None, None)
    return CurvePoint(
        labels=event.data["labels"], accuracy=right / scored if scored else None, low=low, high=high,
        audited=scored, asked_accuracy=event.data.get("asked_accuracy"), at=event.at,
    )  # fmt: skip


def _hint(state: SessionState, facts: TrainingFacts, labels: dict[int, int]) -> stopping.Hint:
    """Whether to go on, from all models on the same audit items."""
    record, models = state.record, state.models
    counts = [event.data["labels"] for event in record.trainings]
    scored: list[stopping.ScoredModel] = []
    for place, count in enumerate(counts):
        found = models.right_on(labels, place)
        if found is None or _had_predictions(record, place):
            continue
        # Of fewer labels, not only earlier: labels may have been undone in between.
        other = max((i for i in range(place) if stopping.STRETCH * counts[i] <= count), default=None)
        change = None if other is None else models.change_on(labels, other, place)
        scored.append(stopping.ScoredModel(count, *found, None if other is None else counts[other], change))
    wanted = facts.next_at
    here = len(record.usable)
    chosen = [item for item in list(record.asked["choice"])[-RECENT_ITEMS:] if item in record.effective]
    rights = [right for item in chosen if (right := record.was_right(item)) is not None]
    left = record.n_items - len({*record.effective, *record.bad, *record.unknown})
    until = None if wanted is None else max(1, wanted - here)
    return stopping.hint(
        scored,
        class_counts={name: record.class_counts[number] for number, name in enumerate(record.classes)},
        left=left,
        promised=stopping.promise(best_influence(state.surrogate), _first_influence(state)),
        asked=(sum(rights), len(rights)),
        until_training=None if until is None or until > left else until,
        is_training=facts.is_running,
    )


def _first_influence(state: SessionState) -> float | None:
    """What the best label promised at first: of all items, or with the paper's method after the first training.

    None before the first training.
    """
    own = [event for event in state.record.trainings if event.data.get("source") != "given"]
    if not own:
        return None
    at_first = state.models.first_influence
    return own[0].data.get("best_influence") if at_first is None else at_first


def _had_predictions(record: Record, place: int) -> bool:
    """Whether a model is not ours: its predictions were brought along."""
    return bool(record.trainings[place].data.get("source") == "given")


def _people(record: Record, online: Sequence[str], agreeing: dict[str, float]) -> list[Person]:
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
