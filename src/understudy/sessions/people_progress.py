"""Progress by person: how much, how fast, how alike with others, and how far with what they were assigned."""

from collections import Counter
from collections.abc import Collection
from statistics import median

from understudy.sessions import agreement
from understudy.sessions.assignments import Assignments
from understudy.sessions.pace import pace_of
from understudy.sessions.record import Decisions, Record
from understudy.sessions.replies import Person


def people_progress(
    record: Record, assignments: Assignments, *, online: Collection[str], today: float, only: str | None = None
) -> list[Person]:
    """A row for everybody who did something or may, most labels first; with `only`, for this person.

    `today`: when the day began, in seconds since 1970.
    """
    labels = record.labels_of_people()
    alike, kappas = agreement.with_others(labels), agreement.kappas_with_others(labels)
    reviews = review_counts(record)
    added = [each.id for each in record.people.by_id.values() if each.is_added and not each.retired]
    people = [who for who in dict.fromkeys((*record.annotators, *added)) if only is None or who == only]
    return [
        _person(
            record,
            assignments,
            who,
            today=today,
            online=who in online,
            agreement=alike.get(who),
            kappa=kappas.get(who),
            reviewed=reviews.get(who, (0, 0)),
        )
        for who in sorted(people, key=lambda who: -assignments.labels[who])
    ]


def _person(
    record: Record,
    assignments: Assignments,
    who: str,
    *,
    today: float,
    online: bool,
    agreement: float | None,
    kappa: float | None,
    reviewed: tuple[int, int],
) -> Person:
    events = record.events_by_annotator.get(who, [])
    counted = [event for event in events if event.seq not in record.undone]
    kinds = Counter(event.kind for event in counted)
    seconds = [event.data["seconds"] for event in counted if event.data.get("seconds") is not None]
    labels, skipped, unknown = assignments.labels[who], kinds["skipped"], kinds["dont_know"]
    answers = labels + skipped + unknown
    overall, of_today = pace_of(events, record.undone), pace_of(events, record.undone, since=today)
    assigned, (done, part), (kept, n_reviewed) = assignments.of(who), assignments.part_of(who), reviewed
    return Person(
        name=record.people.name_of(who),
        online=online,
        labels=labels,
        skipped=skipped,
        unknown=unknown,
        median_seconds=median(seconds) if seconds else None,
        agreement=agreement,
        kappa=kappa,
        skipped_share=skipped / answers if answers else None,
        unknown_share=unknown / answers if answers else None,
        pace=overall.per_hour,
        pace_today=of_today.per_hour,
        labels_today=of_today.labels,
        active_seconds=overall.seconds,
        reviewed=n_reviewed,
        review_agreement=kept / n_reviewed if n_reviewed else None,
        retired=record.people.is_retired(who),
        share=assigned.share,
        classes=sorted(assigned.classes),
        quota=assigned.quota,
        remaining=None if assigned.quota is None else max(0, assigned.quota - labels),
        part=part,
        part_done=done,
    )


def review_counts(record: Record) -> dict[str, tuple[int, int]]:
    """Of everybody's labels that somebody else reviewed: how many the last review left as they are, of how many."""
    kept: Counter[str] = Counter()
    met: Counter[str] = Counter()
    for item, marks in record.labels.items():
        review = _last_review(record.decisions(item))
        for who, mark in marks.items() if review is not None else ():
            if review is not None and who != review[0]:
                met[who] += 1
                kept[who] += mark.label == review[1]
    return {who: (kept[who], met[who]) for who in met}


def _last_review(found: Decisions) -> tuple[str, int] | None:
    """Who reviewed or settled an item last, and the label they gave or kept."""
    reviews = [(mark.seq, who, mark.label) for who, mark in found.marks.items() if mark.source == "review"]
    keeping = [event for event in found.events if event.kind == "kept"]
    if keeping and found.kept is not None:
        reviews.append((keeping[-1].seq, keeping[-1].annotator or "", found.kept))
    if found.settled is not None:
        reviews.append((found.settled.seq, found.settled.by, found.settled.label))
    return max(reviews)[1:] if reviews else None
