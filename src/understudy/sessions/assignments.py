"""Who is asked for what: shares of the pool, classes, and numbers of labels that owners assign to people.

Every item is for somebody at any time, so nothing is out of reach:

- if the model takes it for a class that is assigned, for the people of that class; where it also lies in the part of
  one of them, for that one alone;
- else for the person in whose part it lies;
- else for everybody.

Whoever retired or has given all the labels they were asked for does not count: what was theirs alone is everybody's.
Audit items are not assigned at all, since a sample of some people's items would not be one of the pool.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from understudy.data.items import make_printable
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of, list_some
from understudy.sessions.people import PeopleTable, ProjectPerson
from understudy.sessions.record import Record
from understudy.sessions.replies import OwnWork

UNITS: Final = 1_000_000  # the pool is divided in millionths: whole numbers, so that shares add up exactly
STREAM: Final = 0x73686172  # keeps these random numbers apart from others of the same seed
NOBODY: Final = -1
MAX_QUOTA: Final = 1_000_000_000
FIELDS: Final = ("share", "classes", "quota")

Spans = tuple[tuple[int, int], ...]  # from, until: a part of the units


@dataclass(frozen=True)
class Assignment:
    """What one person is to do. Without any of it they are asked for what is assigned to nobody else."""

    share: float | None = None  # of the pool; nobody else is asked for these items
    classes: frozenset[int] = frozenset()
    quota: int | None = None  # labels in all

    @classmethod
    def from_details(cls, details: Mapping[str, Any]) -> "Assignment":
        """The assignment in what events say of a person."""
        return cls(details.get("share"), frozenset(details.get("classes") or ()), details.get("quota"))

    def counting_as(self, becomes: Sequence[int | None]) -> "Assignment":
        """The same with the classes that its classes count for now; those that were removed are left out."""
        known = (becomes[number] for number in self.classes if number < len(becomes))
        return Assignment(self.share, frozenset(number for number in known if number is not None), self.quota)


# -- parts of the pool --------------------------------------------------------------------------------------


def _to_units(share: float | None) -> int:
    return 0 if share is None else round(share * UNITS)


def divide(changes: Iterable[tuple[str, float | None]], now: Mapping[str, float | None]) -> dict[str, Spans]:
    """The part of everybody, after shares were changed in this order: disjoint spans as long as the shares.

    Whoever gets more keeps what they have and takes of what is free, the first of it; whoever gets less gives back the
    end of theirs. So nobody's part moves when another's changes. `now`: the shares in the end; they differ from the
    changes where one of these was undone or a person retired.
    """
    parts: dict[str, Spans] = {}
    for person, share in changes:
        parts[person] = _resize(parts, person, _to_units(share))
    for person in parts:  # who gives back first, so that there is room
        parts[person] = _resize(parts, person, min(_length(parts[person]), _to_units(now.get(person))))
    for person, share in now.items():
        parts[person] = _resize(parts, person, _to_units(share))
    return {person: spans for person, spans in parts.items() if spans}


def _resize(parts: Mapping[str, Spans], person: str, units: int) -> Spans:
    spans = list(parts.get(person, ()))
    for start, end in _free(parts) if units > _length(spans) else ():
        missing = units - _length(spans)
        if missing > 0:
            spans.append((start, min(end, start + missing)))
    while (surplus := _length(spans) - units) > 0:
        start, end = spans.pop()
        if end - start > surplus:
            spans.append((start, end - surplus))
    return tuple(spans)


def _length(spans: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


def _free(parts: Mapping[str, Spans]) -> list[tuple[int, int]]:
    """What is nobody's, in order."""
    taken = sorted(span for spans in parts.values() for span in spans)
    starts = [0, *(end for _, end in taken)]
    ends = [*(start for start, _ in taken), UNITS]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]


def place_rows(batches: Sequence[int], n_items: int, seed: int) -> Int[np.ndarray, "n"]:
    """Where every row lies in the units: at random, decided by the seed and the row, and spread evenly.

    `batches` has the first row of everything that was added at once. The rows of a batch lie at even distances in a
    random order, from a random start: a share gets that share of each batch, up to an item, and rows that come later
    move no others.
    """
    places = np.empty(n_items, np.int64)
    for first, end in zip(batches, [*batches[1:], n_items], strict=True):
        rng = np.random.default_rng([seed, STREAM, first])
        start, order = rng.integers(UNITS), rng.permutation(end - first)
        places[first:end] = (start + order * UNITS // max(1, end - first)) % UNITS
    return places


# -- who is asked for which item ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Division:
    """Whom every item is for, among the people who are asked at all. `people` have an assignment each.

    `holder`: the place in `people` of the one in whose part a row lies. `predicted`: the class that the model takes it
    for. Both -1 for none.
    """

    people: tuple[str, ...]
    holder: Int[np.ndarray, "n"]
    predicted: Int[np.ndarray, "n"]
    of_class: Mapping[int, frozenset[str]]  # the people of every class that is assigned
    _own: dict[str, Bool[np.ndarray, "n"]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        assigned: Mapping[str, Assignment],
        parts: Mapping[str, Spans],
        places: Int[np.ndarray, "n"],
        predicted: Int[np.ndarray, "q"] | None,
    ) -> "Division":
        """From the assignments and parts of those who are asked at all. `predicted` may stop before the last rows."""
        people = tuple(assigned)
        holder = np.full(len(places), NOBODY, np.int64)
        for place, person in enumerate(people):
            for start, end in parts.get(person, ()):
                holder[(places >= start) & (places < end)] = place
        classes = np.full(len(places), NOBODY, np.int64)
        if predicted is not None:
            classes[: len(predicted)] = predicted[: len(places)]
        numbers = {number for assignment in assigned.values() for number in assignment.classes}
        of_class = {
            number: frozenset(person for person, found in assigned.items() if number in found.classes)
            for number in sorted(numbers)
        }
        return cls(people, holder, classes, of_class)

    @property
    def is_open(self) -> bool:
        """Whether everything is for everybody."""
        return bool(self.everybodys().all())

    def people_for(self, row: int) -> frozenset[str] | None:
        """Whom an item is for; None: for everybody."""
        holder = None if self.holder[row] == NOBODY else self.people[self.holder[row]]
        of_class = self.of_class.get(int(self.predicted[row]))
        if of_class is None:
            return None if holder is None else frozenset({holder})
        return frozenset({holder}) if holder in of_class else of_class

    def own(self, person: str) -> Bool[np.ndarray, "n"]:
        """The items that are for this person and not for everybody."""
        if person not in self._own:
            mine = np.zeros(len(self.holder), bool)
            if person in self.people:
                mine = self.holder == self.people.index(person)
            for number, people in self.of_class.items():
                rows = np.flatnonzero(self.predicted == number)
                held = np.isin(self.holder[rows], [self.people.index(each) for each in people])
                mine[rows] = np.where(held, mine[rows], person in people)
            self._own[person] = mine
        return self._own[person]

    def everybodys(self) -> Bool[np.ndarray, "n"]:
        """The items that are for everybody."""
        return (self.holder == NOBODY) & ~np.isin(self.predicted, list(self.of_class))


# -- as people label ----------------------------------------------------------------------------------------


class Assignments:
    """Whom items are for, as the record and the model in use have it.

    Reads the record; keeps how many items everybody labelled and which are decided, by `update`. `predictions` are
    those of the model in use. What follows from them all is worked out anew only when one of them was replaced.
    """

    def __init__(
        self, record: Record, predictions: Callable[[], Float[np.ndarray, "q c"] | None] = lambda: None
    ) -> None:
        self.record, self._predictions = record, predictions
        self.labels: Counter[str] = Counter()  # items that carry a label of each person
        self._givers: dict[int, tuple[str, ...]] = {}
        self._is_decided = np.zeros(record.n_items, bool)
        self._people: Mapping[str, ProjectPerson] = {}
        self._quotas: dict[str, int] = {}
        self._known: tuple[object, ...] = ()
        self._division: Division | None = None
        self._is_audit = np.zeros(0, bool)
        for item in record.decision_events():
            self.update(item)

    def update(self, item: int) -> None:
        """Count an item that something was decided about."""
        found = self.record.decisions(item)
        for who in self._givers.pop(item, ()):
            self.labels[who] -= 1
        if found.given:
            self._givers[item] = tuple(found.given)
            self.labels.update(found.given.keys())
        self.is_decided[item] = item in self.record.effective or bool(found.bad or found.unknown)

    # -- who is asked -------------------------------------------------------------------------------------

    def of(self, person: str) -> Assignment:
        """What a person was assigned; nothing where they retired."""
        known = self.record.people.by_id.get(person)
        if known is None or known.retired:
            return Assignment()
        return Assignment.from_details(known.details).counting_as(self.record.class_table.becomes)

    def is_full(self, person: str) -> bool:
        """Whether somebody gave all the labels that they were asked for."""
        return person in self._full()

    def rows_for(self, person: str) -> list[Bool[np.ndarray, "n"] | None]:
        """The rows to choose among for a person: first those for them alone, then those for everybody. None: all."""
        if self.is_full(person):
            return []
        division = self.division
        if division is None:
            return [None]
        return [rows for rows in (division.own(person), division.everybodys()) if rows.any()]

    def grid_rows(self, person: str | None) -> tuple[Bool[np.ndarray, "n"] | None, int]:
        """The rows that a person may be shown many of at once, None for all, and how many labels they may yet give."""
        if person is None:
            return None, MAX_QUOTA
        quota, division = self.of(person).quota, self.division
        left = MAX_QUOTA if quota is None else max(0, quota - self.labels[person])
        return None if division is None else division.own(person) | division.everybodys(), left

    def may_answer(self, person: str, item: int) -> bool:
        """Whether a person may be asked for an item that was skipped or not known: it is for them, or for everybody.

        When all whom it is for do not know it, it is for everybody.
        """
        people = None if self.division is None else self.division.people_for(item)
        unknown = self.record.unknown.get(item, {})
        return people is None or person in people or all(each in unknown for each in people)

    def may_give_second(self, person: str, item: int) -> bool:
        """Whether a person may be asked for a second opinion: those of its class first, else anybody.

        Parts do not matter: whoever has the item's part has labelled it.
        """
        if self.division is None:
            return True
        of_class = self.division.of_class.get(int(self.division.predicted[item]), frozenset())
        others = of_class - set(self._givers.get(item, ()))
        return not others or person in others

    @property
    def division(self) -> Division | None:
        """Whom every item is for, among those who are asked at all; None: everything is for everybody."""
        record, full = self.record, self._full()
        probs, becomes = self._predictions(), record.class_table.becomes
        known = (record.people.by_id, probs, becomes, record.audit_rows, full, record.n_items)
        if len(known) != len(self._known) or any(
            new is not old and (place < 4 or new != old)  # arrays and tables are replaced, never changed
            for place, (new, old) in enumerate(zip(known, self._known, strict=True))
        ):
            self._known, self._division = known, self._make_division(full, probs)
        return self._division

    def _full(self) -> frozenset[str]:
        """Those who gave all the labels that they were asked for."""
        if self._people is not self.record.people.by_id:
            self._people = self.record.people.by_id
            quotas = {person: found.quota for person, found in _assignments_in(self.record.people).items()}
            self._quotas = {person: quota for person, quota in quotas.items() if quota is not None}
        return frozenset(person for person, quota in self._quotas.items() if self.labels[person] >= quota)

    def _make_division(self, full: frozenset[str], probs: Float[np.ndarray, "q c"] | None) -> Division | None:
        record = self.record
        assigned = {person: self.of(person) for person in record.people.by_id if person not in full}
        assigned = {person: found for person, found in assigned.items() if found.share or found.classes}
        if not assigned:
            return None
        self._is_audit = np.zeros(record.n_items, bool)
        self._is_audit[list(record.audit_rows)] = True
        predicted = probs.argmax(1) if probs is not None and any(each.classes for each in assigned.values()) else None
        places = place_rows(record.batches, record.n_items, record.settings.seed)
        division = Division.of(assigned, _parts_of(record.people), places, predicted)
        return None if division.is_open else division

    # -- how far they are ---------------------------------------------------------------------------------

    @property
    def is_decided(self) -> Bool[np.ndarray, "n"]:
        """Which items have a label, are bad, or are not known."""
        missing = self.record.n_items - len(self._is_decided)
        if missing:
            self._is_decided = np.concatenate([self._is_decided, np.zeros(missing, bool)])
        return self._is_decided

    def part_of(self, person: str) -> tuple[int, int]:
        """How many items that are assigned to a person are decided, of how many. Without audit items."""
        if self.division is None:
            return 0, 0
        own = self.division.own(person) & ~self._is_audit
        return int((own & self.is_decided).sum()), int(own.sum())

    def own_work(self, person: str) -> OwnWork | None:
        """What a person sees of their assignment; None where they have none."""
        quota, (done, part) = self.of(person).quota, self.part_of(person)
        return None if quota is None and not part else OwnWork(self.labels[person], quota, done, part)

    def left_with_others(self, person: str) -> dict[str, int]:
        """How many undecided items are for other people and not for this one, by person, most first."""
        if self.division is None:
            return {}
        mine = self.division.own(person) | self.division.everybodys()
        left = ~(mine | self.is_decided | self._is_audit)
        counts = {each: int((self.division.own(each) & left).sum()) for each in self.division.people}
        return {each: count for each, count in sorted(counts.items(), key=lambda pair: -pair[1]) if count}

    def reason_for_nothing(self, person: str) -> str | None:
        """Why there is nothing to ask somebody, if their assignment is the reason."""
        quota, name_of = self.of(person).quota, self.record.people.name_of
        if quota is not None and self.is_full(person):
            given = count_of(self.labels[person], "label")
            asked = "as many as you were asked for" if self.labels[person] == quota else f"you were asked for {quota:,}"
            return f"You have given {given}, {asked}. Thank you! To go on, ask an owner for a larger quota."
        left = self.left_with_others(person)
        if not left or self._is_with_others(person):
            return None
        done, part = self.part_of(person)
        first = f"Your part is done: {done:,} of {count_of(part, 'item')}." if part else "Nothing is left for you."
        rest = list_some((f"{name_of(each)} ({count_of(count, 'item')})" for each, count in left.items()), 4)
        return f"{first} The rest is with {rest}; an owner can assign you more."

    def _is_with_others(self, person: str) -> bool:
        """Whether somebody else is looking at an item that may come to this person when it is handed back."""
        leases = self.record.leases.values()
        return any(lease.annotator != person and self.may_answer(person, lease.item) for lease in leases)

    def notes(self) -> list[str]:
        """What owners should know of their assignments: what is everybody's since somebody is not asked any more."""
        people, found = self.record.people, list[str]()
        for each in people.by_id.values():
            assignment = Assignment.from_details(each.details)
            if not assignment.share and not assignment.classes:
                continue
            if each.retired:
                found.append(f"{each.name} retired: what was assigned to them goes to everybody.")
            elif self.is_full(each.id):
                found.append(f"{each.name} has reached the quota: what is left of their part goes to everybody.")
        asked = [each for each in people.by_id.values() if each.is_added and not each.retired]
        left = self.record.n_items - int(self.is_decided.sum())
        if left and asked and all(self.is_full(each.id) for each in asked):
            found.append(
                f"All have reached their quotas, and {count_of(left, 'item')} are left: raise a quota or add people."
            )
        return found


def _parts_of(table: PeopleTable) -> dict[str, Spans]:
    """The part of everybody who did not retire, after all that was done to people."""
    changes = [
        (event.data["person"], event.data["share"])
        for event in table.events.values()
        if event.kind == "person_changed" and "share" in event.data
    ]
    return divide(changes, {person: found.share for person, found in _assignments_in(table).items()})


def _assignments_in(table: PeopleTable) -> dict[str, Assignment]:
    """What everybody who did not retire was assigned."""
    return {each.id: Assignment.from_details(each.details) for each in table.by_id.values() if not each.retired}


# -- what owners may assign ---------------------------------------------------------------------------------


def check_share(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UnderstudyError(f"a share of the pool must be a number from 0 to 1, 0.5 for half of it; got {value!r}")
    return float(value) or None


def check_quota(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_QUOTA:
        raise UnderstudyError(
            f"a quota must be a whole number of labels from 1 to {MAX_QUOTA:,}, or null for none; got {value!r}"
        )
    return value


def check_assignment(values: Mapping[str, Any]) -> dict[str, Any]:
    """What of these values is an assignment, as it is stored: classes by number, in order."""
    found: dict[str, Any] = {}
    if "share" in values:
        found["share"] = check_share(values["share"])
    if "classes" in values:
        found["classes"] = sorted(set(values["classes"] or ()))
    if "quota" in values:
        found["quota"] = check_quota(values["quota"])
    return found


def require_possible(record: Record, table: PeopleTable, values: Mapping[str, Any]) -> None:
    """An error where these values name classes that cannot be assigned, or leave more than the pool to people."""
    alive = record.class_table.alive
    for number in values.get("classes") or ():
        if number not in alive:
            known = list_some((record.classes[each] for each in alive), 10)
            raise UnderstudyError(f"there is no class {number} to assign; the classes are {known or 'none yet'}")
    require_room({table.name_of(person): found.share for person, found in _assignments_in(table).items()})


def describe_assignment(values: Mapping[str, Any], classes: Sequence[str]) -> str:
    """What somebody is asked for since a change, for the middle of a sentence. `classes`: the names by number."""
    parts = []
    if "share" in values:
        share = values["share"]
        parts.append("no part of the pool" if share is None else f"{100 * share:.4g} % of the pool")
    if "classes" in values:
        numbers = values["classes"] or ()
        names = list_some((classes[number] for number in numbers if number < len(classes)), 5)
        none = "classes that were there before" if numbers else "no classes of their own"
        parts.append(f"the classes {names}" if names else none)
    if "quota" in values:
        quota = values["quota"]
        parts.append("any number of labels" if quota is None else count_of(quota, "label"))
    return "; ".join(parts)


def read_assignment(words: Sequence[str], record: Record) -> dict[str, Any]:
    """Values from `share=0.5 classes=cat,dog quota=200`; `none` takes one away."""
    values: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in FIELDS or not text:
            raise UsageError(
                f"write share=0.5, classes=cat,dog or quota=200, or none for none; got {make_printable(word)!r}"
            )
        if text == "none":
            values[name] = None
        elif name == "classes":
            values[name] = [_number_of_class(record, each.strip()) for each in text.split(",")]
        else:
            values[name] = _read_number(name, text)
    return values


def _read_number(name: str, text: str) -> float:
    try:
        return float(text) if name == "share" else int(text)
    except ValueError:
        raise UsageError(f"{name} must be a number; got {make_printable(text)!r}") from None


def _number_of_class(record: Record, name: str) -> int:
    number = record.class_table.number_of(name)
    if number is None:
        known = list_some((record.classes[each] for each in record.class_table.alive), 10)
        raise UsageError(f"there is no class {make_printable(name)!r}; the classes are {known or 'none yet'}")
    return number


def require_room(shares: Mapping[str, float | None]) -> None:
    """An error where the shares of all people, by name, are more than the pool."""
    if sum(map(_to_units, shares.values())) > UNITS:
        said = ", ".join(f"{name} {share:.4g}" for name, share in shares.items() if share)
        raise UnderstudyError(f"the shares of all people must add up to 1 at most; got {said}: lower one of them first")
