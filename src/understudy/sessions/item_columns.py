"""What people decided about every item, as one array for each question, so that a list of them is found at once.

The arrays follow the record: an item that something was decided about is noted, and looked at again before the next
reading. Nobody waits for that who labels: many noted items are looked at a few at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from understudy.sessions.record import Decisions, Mark, Record

State = Literal[
    "labelled", "unlabelled", "skipped", "unknown", "bad", "flagged", "disputed", "audit", "leased"
]  # an item may be in several
STATES: Final[tuple[State, ...]] = get_args(State)
BIT: Final = {state: np.uint16(1 << place) for place, state in enumerate(STATES)}
NO_LABEL: Final = -1


@dataclass(frozen=True, eq=False)
class Columns:
    """A copy of a moment: by row, the label that counts or NO_LABEL, the states, and when it was last decided."""

    labels: np.ndarray  # (n,) int32
    states: np.ndarray  # (n,) uint16, a bit for each state
    times: np.ndarray  # (n,) float64, seconds since 1970; nan where nobody decided anything

    def is_in(self, states: Iterable[State]) -> np.ndarray:
        """(n,): the items that are in at least one of these states."""
        wanted = np.uint16(0)
        for state in states:
            wanted |= BIT[state]
        return (self.states & wanted) != 0


class ItemColumns:
    """The columns of a record, brought up to date for the items that were noted. Called with the session's lock held.

    With `only`, they show what this annotator decided, and nothing of anybody else.
    """

    def __init__(self, record: Record, only: str | None = None) -> None:
        self.record, self.only = record, only
        self._noted: set[int] = set()
        self._copy: Columns | None = None
        self._copy_of = (-1, -1)  # the event and the audit items it is of
        self._begin()

    def _begin(self) -> None:
        n = self.record.n_items
        self._labels = np.full(n, NO_LABEL, np.int32)
        self._states = np.zeros(n, np.uint16)
        self._times = np.full(n, np.nan)
        self._by_person: dict[str, set[int]] = {}
        self._people: dict[int, frozenset[str]] = {}
        self._noted = set(self.record.decided_items())

    def note(self, items: Iterable[int]) -> None:
        """Something was decided about these items, or taken back."""
        self._noted.update(items)

    def update(self, at_most: int) -> bool:
        """Look at so many of the noted items again; whether none is left."""
        if len(self._labels) > self.record.n_items:
            self._begin()
        elif missing := self.record.n_items - len(self._labels):  # items joined
            self._labels = np.concatenate([self._labels, np.full(missing, NO_LABEL, np.int32)])
            self._states = np.concatenate([self._states, np.zeros(missing, np.uint16)])
            self._times = np.concatenate([self._times, np.full(missing, np.nan)])
        for _ in range(min(at_most, len(self._noted))):
            self._update(self._noted.pop())
        return not self._noted

    def copy(self) -> Columns:
        """The columns as they are now; the same object as long as nothing happens."""
        moment = (self.record.seq, len(self.record.audit_rows))
        if self._copy is None or self._copy_of != moment:
            self._copy, self._copy_of = self._make_copy(), moment
        return self._copy

    def decided_by(self, person: str) -> np.ndarray:
        """The rows about which a person decided something."""
        found = self._by_person.get(person, set())
        return np.fromiter(found, np.int64, len(found))

    @property
    def people(self) -> list[str]:
        """The names of those who decided something about any item."""
        return sorted(self.record.people.names_of(person for person, items in self._by_person.items() if items))

    def _make_copy(self) -> Columns:
        states = self._states.copy()
        states[(states & (BIT["labelled"] | BIT["bad"])) == 0] |= BIT["unlabelled"]
        if self.only is None:
            states[list(self.record.audit_rows)] |= BIT["audit"]
            states[list(self.record.leases)] |= BIT["leased"]
        return Columns(self._labels.copy(), states, self._times.copy())

    def _update(self, item: int) -> None:
        found = self.record.decisions(item)
        states = np.uint16(0)
        for state in _decided_states(self.record, item, self.only):
            states |= BIT[state]
        label = label_shown(self.record, item, self.only)
        people = _people_of(found) if self.only is None else _people_of(found) & {self.only}
        for person in self._people.pop(item, frozenset()) - people:
            self._by_person[person].discard(item)
        for person in people:
            self._by_person.setdefault(person, set()).add(item)
        if people:
            self._people[item] = people
        time = last_decided(found, self.only)
        self._labels[item] = NO_LABEL if label is None else label
        self._states[item], self._times[item] = states, np.nan if time is None else time


def _decided_states(record: Record, item: int, only: str | None = None) -> list[State]:
    """The states an item is in by what people decided, or one person alone, in the order of STATES."""
    found = record.decisions(item)
    has_label = label_shown(record, item, only) is not None
    states: list[State] = ["labelled"] if has_label else []
    if not has_label and _counts(found.skipped, only):
        states.append("skipped")
    if not has_label and _counts(found.unknown, only):
        states.append("unknown")
    if _counts(found.bad, only):
        states.append("bad")
    if _counts(found.flags, only):
        states.append("flagged")
    if only is None and found.contest == "disputed":
        states.append("disputed")
    return states


def states_of(record: Record, item: int, only: str | None = None) -> list[State]:
    """All states of an item, in the order of STATES."""
    states = set(_decided_states(record, item, only))
    if not states & {"labelled", "bad"}:
        states.add("unlabelled")
    if only is None and record.is_audit(item):
        states.add("audit")
    if only is None and item in record.leases:
        states.add("leased")
    return [state for state in STATES if state in states]


def label_shown(record: Record, item: int, only: str | None = None) -> int | None:
    """The label that counts; of one person alone, theirs."""
    if only is None:
        return record.label_of(item)
    mark: Mark | None = record.decisions(item).marks.get(only)
    return None if mark is None else mark.label


def last_decided(found: Decisions, only: str | None = None) -> float | None:
    """When something was last decided about an item, by anybody or by one person."""
    for event in reversed(found.events):
        if event.item is not None and only in (None, event.annotator):
            return event.given_at
    return None


def _people_of(found: Decisions) -> frozenset[str]:
    """Who labelled an item, skipped it, did not know it, called it bad, flagged it or settled it."""
    settled = () if found.settled is None else (found.settled.by,)
    return frozenset().union(found.marks, found.skipped, found.unknown, found.bad, found.flags, settled)


def _counts(by_person: dict[str, int] | dict[str, str], only: str | None) -> bool:
    return bool(by_person) if only is None else only in by_person
