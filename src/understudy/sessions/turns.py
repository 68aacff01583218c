"""Which item an annotator gets next apart from the surrogate's choices: audit items, second opinions, skipped items."""

from bisect import bisect_left, insort
from collections.abc import Mapping
from heapq import merge

from understudy.sessions import audit
from understudy.sessions.agreement import wants_second
from understudy.sessions.assignments import Assignments
from understudy.sessions.record import Record


class Turns:
    """Reads the record; keeps only the queues of items that wait for a second opinion, by the first annotator."""

    def __init__(self, record: Record, assignments: Assignments | None = None) -> None:
        self.record, self.assignments = record, assignments or Assignments(record)
        self.queues: dict[str, list[tuple[int, int]]] = {}  # event and item, in the order of the events
        self.places: dict[int, tuple[str, int]] = {}  # where an item stands: in whose queue, by which event
        for item in record.labels:
            self.update(item)

    def update(self, item: int) -> None:
        """Put an item that something was decided about into its queue, or take it out."""
        settings = self.record.settings
        if settings.agreement_share == 0 or self.record.is_audit(item):
            return
        decisions = self.record.decisions(item)
        place = None
        if len(decisions.marks) == 1 and not decisions.bad and decisions.settled is None:
            ((who, mark),) = decisions.marks.items()
            if wants_second(item, settings.agreement_share, settings.seed):
                place = who, mark.seq
        before = self.places.get(item)
        if before == place:
            return
        if before is not None:
            queue = self.queues[before[0]]
            del queue[bisect_left(queue, (before[1], item))]
            del self.places[item]
        if place is not None:
            insort(self.queues.setdefault(place[0], []), (place[1], item))
            self.places[item] = place

    def audit_is_due(self, annotator: str) -> bool:
        record = self.record
        asked = record.asked
        return audit.audit_is_due(
            len(asked["choice"]),
            len(asked["audit"]),
            record.settings.audit_share,
            after_audit=record.last_ask.get(annotator) == "audit",
        )

    def next_audit(self, annotator: str) -> int | None:
        """The next audit item. Those that others skipped come last; those the annotator skipped do not come again.

        An item that was labelled otherwise is asked in its turn all the same, or the sample would not be random.
        """
        record = self.record
        refused = {**record.skipped, **record.unknown, **record.bad}
        met = {
            item
            for item in record.asked["audit"]
            if item in record.effective or item in refused  # otherwise it was put back or undone
        }
        asked = {*met, *record.leases, *record.bad, *record.unknown}
        skipped = [item for item in _in_order(record.skipped) if annotator not in record.skipped[item]]
        left = [item for item in skipped if record.is_audit(item) and _is_free(record, item)]
        again = [item for item in left if item not in record.unknown]
        return audit.next_in_turn(record.audit_draws, asked, again, record.audit_turns)

    def next_second(self, annotator: str) -> int | None:
        """An item that another annotator labelled and this one may label too, the earliest first."""
        of_others = [queue for name, queue in self.queues.items() if name != annotator]
        for _, item in merge(*of_others):
            if item in self.record.leases or self.has_refused(annotator, item):
                continue
            if self.assignments.may_give_second(annotator, item):
                return item
        return None

    def next_skipped(self, annotator: str) -> int | None:
        """An item that somebody skipped or did not know: those of others first, then the annotator's own skips.

        Of those that are for this annotator.
        """
        record = self.record
        skipped, unknown = record.skipped, record.unknown
        passed = (*_in_order(skipped), *_in_order(unknown))
        by_others = [item for item in passed if not self.has_refused(annotator, item)]
        own = {item: who[annotator] for item, who in skipped.items() if annotator in who}
        mine = [item for item in sorted(own, key=lambda item: own[item]) if annotator not in unknown.get(item, ())]
        free = (item for item in (*by_others, *mine) if _is_free(record, item))
        return next((item for item in free if self.assignments.may_answer(annotator, item)), None)

    def has_refused(self, annotator: str, item: int) -> bool:
        decisions = self.record.decisions(item)
        return annotator in decisions.skipped or annotator in decisions.unknown


def _in_order(refused: Mapping[int, Mapping[str, int]]) -> list[int]:
    """Items in the order in which they were first skipped or not known."""
    return sorted(refused, key=lambda item: min(refused[item].values()))


def _is_free(record: Record, item: int) -> bool:
    """Whether an item is with nobody and neither labelled nor bad."""
    return item not in record.leases and item not in record.effective and item not in record.bad
