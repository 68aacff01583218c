"""The progress page: the learning curve, the hint whether to go on, scores by class, and who did what.

All but `cross_check` are called with the session's lock held.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from understudy.sessions import agreement, stopping
from understudy.sessions.audit import wilson
from understudy.sessions.models import best_influence
from understudy.sessions.record import Record
from understudy.sessions.replies import ClassScore, Confusion, CurvePoint, Person, Progress
from understudy.sessions.review import LabelsToReview, expectations
from understudy.sessions.stopping import Guesswork, against_guessing
from understudy.sessions.views import SessionState, TrainingFacts

MAX_CROSS_CHECKED: Final = 300  # labels whose classes are predicted from the others; enough to tell from guesses
ROWS_LOOKED_AT: Final = 1_000  # to see whether a model gives all items one class
RECENT_ITEMS: Final = 50  # of those asked last, among which right guesses are counted


def progress(
    state: SessionState,
    facts: TrainingFacts,
    *,
    people: Sequence[Person],
    checked: Guesswork | None = None,
    notes: Sequence[str] = (),
    data_notes: Sequence[str] = (),
    only: str | None = None,
) -> Progress:
    """The progress page. `checked`: what `cross_check` found, where it was needed; `notes`: on assignments.

    With `only` it shows one person and nothing that others said, so that people go on deciding for themselves.
    """
    record = state.record
    labels = state.audits.labels
    right, judged = record.tally()
    by_name = {
        item: {record.people.name_of(who): label for who, label in by_person.items()}
        for item, by_person in record.labels_of_people().items()
    }
    is_measured = record.settings.agreement_share > 0 or any(len(names) > 1 for names in by_name.values())
    return Progress(
        curve=[_curve_point(state, place, labels) for place in range(len(record.trainings))],
        hint=_hint(state, facts, labels, checked),
        asked_accuracy=right / judged if judged else None,
        class_counts=[record.class_counts[number] for number in range(len(record.classes))],
        people=list(people),
        agreement=agreement.agreement(by_name) if only is None and is_measured else None,
        failures=[event.data["reason"] for event in record.failures],
        by_class=_by_class(state, labels),
        confusions=_confusions(state, labels),
        notes=list(notes),
        data_notes=list(data_notes),
    )


def _scored_pairs(state: SessionState, labels: Mapping[int, int]) -> list[tuple[int, int]]:
    """Label and prediction of every audit item that the last model met."""
    guesses = (state.models.guesses[-1] if state.models.guesses else None) or {}
    return [(label, guesses[item]) for item, label in labels.items() if item in guesses]


def _by_class(state: SessionState, labels: Mapping[int, int]) -> list[ClassScore]:
    pairs = _scored_pairs(state, labels)
    found = []
    for label in state.record.class_table.alive if pairs else ():
        guesses = [guess for truth, guess in pairs if truth == label]
        right, n = guesses.count(label), len(guesses)
        low, high = wilson(right, n) if n else (None, None)
        predicted = sum(guess == label for _, guess in pairs)
        accuracy = right / n if n else None
        found.append(ClassScore(label, right, audited=n, accuracy=accuracy, low=low, high=high, predicted=predicted))
    return found


def _confusions(state: SessionState, labels: Mapping[int, int]) -> list[Confusion]:
    """The cells of the confusion matrix that are not zero, in the order of the classes."""
    counts = Counter(_scored_pairs(state, labels))
    return [Confusion(label, guess, count) for (label, guess), count in sorted(counts.items())]


def _curve_point(state: SessionState, place: int, labels: Mapping[int, int]) -> CurvePoint:
    event = state.record.trainings[place]
    right, scored = state.models.right_on(labels, place) or (0, 0)
    low, high = wilson(right, scored) if scored else (None, None)
    return CurvePoint(
        labels=event.data["labels"],
        accuracy=right / scored if scored else None,
        low=low,
        high=high,
        audited=scored,
        asked_accuracy=event.data.get("asked_accuracy"),
        at=event.at,
    )


def _hint(
    state: SessionState, facts: TrainingFacts, labels: Mapping[int, int], checked: Guesswork | None
) -> stopping.Hint:
    """Whether to go on, from all models on the same audit items."""
    record, models = state.record, state.models
    counts = [event.data["labels"] for event in record.trainings]
    scored: list[stopping.ScoredModel] = []
    for place, count in enumerate(counts):
        found = models.right_on(labels, place)
        if found is None or _had_predictions(record, place):
            continue
        # Of fewer labels, not only earlier: labels may have been undone in between.
        other = max((i for i in range(place) if stopping.GROWTH_COMPARED * counts[i] <= count), default=None)
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
        class_counts={record.classes[number]: record.class_counts[number] for number in record.class_table.alive},
        left=left,
        promised=stopping.promise(best_influence(state.surrogate), _first_influence(state)),
        asked=(sum(rights), len(rights)),
        until_training=None if until is None or until > left else until,
        is_training=facts.is_running,
        weakness=stopping.find_weakness(
            labels=here,
            audit=_guesswork(state, labels),
            cross_check=checked,
            is_constant=_is_constant(state),
            failures=_failures_in_a_row(record),
        ),
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


# -- whether the model is better than guessing --------------------------------------------------------------


def cross_check(features: np.ndarray, given: LabelsToReview) -> Guesswork:
    """What the other labels expect of each label, beside guesses. It takes a moment: call it without the lock."""
    rows, labels = given.rows, given.labels
    if len(rows) > MAX_CROSS_CHECKED:
        some = np.random.default_rng(given.seed).permutation(len(rows))[:MAX_CROSS_CHECKED]
        rows, labels = rows[some], labels[some]
    means = expectations(np.asarray(features[rows], np.float32), labels, given.n_classes, given.seed)
    return against_guessing(means.argmax(1).tolist(), labels.tolist())


def needs_cross_check(state: SessionState) -> bool:
    """Whether the audit items leave it open that the model is better than guessing."""
    record = state.record
    if len(record.usable) < stopping.FEWEST_LABELS_TO_DOUBT or len({*record.training_rows().values()}) < 2:
        return False
    audit = _guesswork(state, state.audits.labels)
    return audit is not None and not audit.is_above_chance()


def _guesswork(state: SessionState, labels: Mapping[int, int]) -> Guesswork | None:
    """The last model on the audit items beside guesses; None without a model of our own."""
    guesses = state.models.guesses[-1] if state.models.guesses else None
    if guesses is None or _had_predictions(state.record, -1):
        return None
    met = [item for item in labels if item in guesses]
    return against_guessing([guesses[item] for item in met], [labels[item] for item in met])


def _is_constant(state: SessionState) -> bool:
    """Whether the last model gives all items one class although it has seen several of two."""
    counts = sorted(np.bincount(list(state.record.training_rows().values()) or [0]).tolist())
    probs = state.models.probs
    if probs is None or len(counts) < 2 or counts[-2] < stopping.FEWEST_OF_A_CLASS:
        return False
    return len(set(probs[:: max(1, len(probs) // ROWS_LOOKED_AT)].argmax(1).tolist())) == 1


def _failures_in_a_row(record: Record) -> list[str]:
    last = record.trainings[-1].seq if record.trainings else 0
    return [event.data["reason"] for event in record.failures if event.seq > last or event.seq == 0]
