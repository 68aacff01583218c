"""Items on which people differ: which they are, what everybody said of them, and what a reviewer may settle.

A settlement is a reviewer's last word, not a label of their own: it does not count in the agreement, and it stands
whatever people say afterwards. Until there is one the label of the majority, or of the last review, counts.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from understudy.errors import Conflict
from understudy.sessions.agreement import peace
from understudy.sessions.record import Contest, Decisions, Record
from understudy.sessions.replies import Dispute, DisputeList, Opinion, SettlementShown, Shown

ORDER: Final[tuple[Contest, ...]] = ("disputed", "review", "settled")  # in which they are listed


@dataclass(frozen=True)
class Wanted:
    """Which disputes to list: all that fit everything that is given."""

    state: Contest | None = None
    label: int | None = None  # somebody says this class
    other: int | None = None  # and somebody else this
    person: str | None = None  # who labelled it or settled it
    first: int = 0  # how many of them to pass over
    n: int = 50


def require_disputed(record: Record, item: int) -> None:
    """An error where there is nothing to settle: fewer than two people gave a label, and no review changed one."""
    found = record.decisions(item)
    is_reviewed = any(mark.source == "review" for mark in found.marks.values())
    if len(found.marks) < 2 and not is_reviewed and found.settled_as is None:
        have = "no label" if not found.marks else "the label of one person only, and no review has changed it"
        raise Conflict(f"item {item} has {have}, so there is nothing to settle; label it instead")


def _fitting_items(record: Record, wanted: Wanted) -> list[int]:
    """The items that fit, unsettled ones first and of these the most disputed; of settled ones those that somebody
    has contradicted since, then the latest."""
    fitting = [item for item, state in record.contests.items() if _fits(record.decisions(item), state, wanted)]
    return sorted(fitting, key=lambda item: _place(record, item))


def list_disputes(record: Record, wanted: Wanted, show: Callable[[int], Shown]) -> DisputeList:
    """The reply. `show` gives an item as annotators see it."""
    counts, items = record.contest_counts, _fitting_items(record, wanted)
    return DisputeList(
        [_describe(record, show(item)) for item in items[wanted.first : wanted.first + wanted.n]],
        len(items),
        disputed=counts["disputed"],
        review=counts["review"],
        settled=counts["settled"],
    )


def _fits(found: Decisions, state: Contest, wanted: Wanted) -> bool:
    said = {mark.label for mark in found.marks.values()}
    people = {*found.marks, *([] if found.settled is None else [found.settled.by])}
    return (
        wanted.state in (None, state)
        and all(label is None or label in said for label in (wanted.label, wanted.other))
        and (wanted.person is None or wanted.person in people)
    )


def _place(record: Record, item: int) -> tuple[float, ...]:
    found = record.decisions(item)
    state = ORDER.index(record.contests[item])
    if found.settled is not None:
        return state, not _contradicted_by(found), -found.settled.seq, item
    return state, *peace({who: mark.label for who, mark in found.marks.items()}), item


def _contradicted_by(found: Decisions) -> list[str]:
    """Who labelled an item otherwise after it was settled."""
    settled = found.settled
    if settled is None:
        return []
    return [who for who, mark in found.marks.items() if mark.seq > settled.seq and mark.label != settled.label]


def _describe(record: Record, look: Shown) -> Dispute:
    found = record.decisions(look.item)
    resolution, label = found.resolution, found.label
    assert resolution is not None
    assert label is not None
    settled = found.settled
    counts = Counter(mark.label for mark in found.marks.values()).most_common(2)
    return Dispute(
        look.item,
        look.id,
        kind=look.kind,
        text=look.text,
        state=record.contests[look.item],
        label=label,
        resolution=resolution,
        majority=found.majority,
        is_tie=len(counts) == 2 and counts[0][1] == counts[1][1],
        opinions=list(_opinions(record, found)),
        settlement=None
        if settled is None
        else SettlementShown(
            settled.label,
            record.people.name_of(settled.by),
            settled.at,
            settled.note,
            record.people.names_of(_contradicted_by(found)),
        ),
        columns=look.columns,
    )


def _opinions(record: Record, found: Decisions) -> Iterator[Opinion]:
    name_of = record.people.name_of
    settled_at = None if found.settled is None else found.settled.seq
    for who, mark in sorted(found.marks.items(), key=lambda each: each[1].seq):
        is_later = settled_at is not None and mark.seq > settled_at
        yield Opinion(
            name_of(who), mark.label, mark.at, mark.source, found.flags.get(who), who in found.unknown, is_later
        )
    for who in dict.fromkeys((*found.flags, *found.unknown)):
        if who not in found.marks:
            yield Opinion(name_of(who), None, None, None, found.flags.get(who), who in found.unknown, is_later=False)
