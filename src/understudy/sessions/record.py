"""What the events of a project add up to. Pure book-keeping: no clock, no files, no surrogate.

An item's own decisions are kept in order. When one is undone, the item is worked out again from the others, so that
undoing leaves things as if the decision had never been made, at any depth.

An event may change what an item is to the surrogate, its *state*. Each such change is a *move*. Moves are all that a
surrogate is given, so one that starts later, from a newer model, catches up by the same moves.

Labels are kept as they were given. What they count for follows from the classes as they are now, so a merge that is
undone leaves every label as it was.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final, Literal, TypeVar

from understudy.core.ledger import Answer, Ledger
from understudy.errors import Conflict, UnderstudyError
from understudy.messages import count_of
from understudy.projects.settings import Settings
from understudy.sessions.classes import ClassTable
from understudy.sessions.log.events import (
    BESIDE_LEASES,
    CLASS_KINDS,
    DECISIONS,
    SOURCE_ANNOTATOR,
    Ask,
    Event,
    PutBack,
    Source,
)
from understudy.sessions.people import PeopleTable

ItemState = Literal["open", "pending", "told", "skipped", "dropped", "audit"]  # what an item is to the surrogate
Resolution = Literal[
    "single", "agreed", "settled", "majority", "review", "model"
]  # how the label that counts came about
Contest = Literal["disputed", "review", "settled"]  # people differ: nobody has decided, a review has, it was settled
REGROUPING = frozenset({"class_merged", "class_removed", "undone"})
GIVES_UP_LABEL = frozenset({"dont_know", "bad"})
BY_MODEL: Final = "model"  # the source of labels that no person gave
NOT_ASKED_FOR = frozenset(
    {"grid", "copies", "import", "browse", BY_MODEL}
)  # where labels come from that nobody was asked for
T = TypeVar("T")


@dataclass(frozen=True)
class Mark:
    """What one annotator says of an item."""

    label: int
    seq: int
    at: float
    source: Source = "person"
    seconds: float | None = None
    guess: int | None = None  # what the learner had predicted
    model: str | None = None


@dataclass(frozen=True)
class Settlement:
    """A reviewer's last word about an item."""

    label: int
    by: str
    seq: int
    at: float
    note: str = ""


@dataclass(frozen=True)
class Lease:
    """An item is with an annotator. `seconds` is how long it is kept from when it was asked."""

    item: int
    annotator: str
    ask: Ask
    seq: int
    seconds: float


@dataclass
class Decisions:
    """All that people decided about one item, and what it comes to."""

    events: list[Event] = field(default_factory=list)
    given: dict[str, Mark] = field(default_factory=dict)  # by annotator, in the classes of the time
    marks: dict[str, Mark] = field(default_factory=dict)  # what they come to now; without those of removed classes
    skipped: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    kept_as: int | None = None  # the label that a review kept, in the classes of the time
    kept: int | None = None
    settled_as: Settlement | None = None  # the latest, in the classes of the time
    settled: Settlement | None = None

    def add(self, event: Event) -> None:
        """Take one decision into account."""
        who, data = event.annotator or "", event.data
        if event.kind in ("labelled", "relabelled"):
            self.given[who] = Mark(
                data["label"],
                event.seq,
                at=event.given_at,
                source=data.get("source", "person"),
                seconds=data.get("seconds"),
                guess=data.get("guess"),
                model=data.get("model"),
            )
            for refusals in (self.skipped, self.unknown, self.bad):
                refusals.pop(who, None)
        elif event.kind == "skipped":
            self.skipped[who] = event.seq
        elif event.kind == "dont_know":
            self.unknown[who] = event.seq
        elif event.kind == "bad":
            self.bad[who] = event.seq
        elif event.kind == "flagged":
            self.flags.pop(who, None)
            if data.get("on", True):
                self.flags[who] = data.get("note", "")
        elif event.kind == "kept":
            self.kept_as = data["label"]
        elif event.kind == "settled":
            self.settled_as = Settlement(data["label"], who, event.seq, event.given_at, data.get("note") or "")
        elif event.kind == "put_back":
            self._put_back(data["what"], data.get("of"))
        if event.kind in GIVES_UP_LABEL:
            self.given.pop(who, None)

    def _put_back(self, what: PutBack, of: str | None) -> None:
        """Forget why the item was put aside, whoever did it; or only what one person said."""
        aside: dict[str, dict[str, Any]] = {
            "skipped": self.skipped, "dont_know": self.unknown, "bad": self.bad, "flagged": self.flags,
        }  # fmt: skip
        for name, found in aside.items():
            if what in (name, "any") and of is not None:
                found.pop(of, None)
            elif what in (name, "any"):
                found.clear()

    def settle(self, classes: ClassTable) -> None:
        """Work out what the labels come to, the classes being what they are."""
        if classes.is_whole:
            self.marks, self.kept, self.settled = self.given, self.kept_as, self.settled_as
            return
        becomes = classes.becomes
        self.kept = None if self.kept_as is None else becomes[self.kept_as]
        settled_as = None if self.settled_as is None else becomes[self.settled_as.label]
        self.settled = (
            None if self.settled_as is None or settled_as is None else replace(self.settled_as, label=settled_as)
        )
        self.marks = {
            who: replace(mark, label=label, guess=None if mark.guess is None else becomes[mark.guess])
            for who, mark in self.given.items()
            if (label := becomes[mark.label]) is not None
        }

    def names_any(self, classes: Collection[int]) -> bool:
        """Whether a label, a guess, a review or a settlement names one of these classes."""
        settled_as = None if self.settled_as is None else self.settled_as.label
        return (
            self.kept_as in classes
            or settled_as in classes
            or any(mark.label in classes or mark.guess in classes for mark in self.given.values())
        )

    @property
    def said(self) -> "list[Mark | Settlement]":
        """Every label and the settlement, in the classes of the time."""
        return [*self.given.values(), *([] if self.settled_as is None else [self.settled_as])]

    @property
    def label(self) -> int | None:
        """The label that counts: the settled one, else the last review's, else the majority's, else the earlier one."""
        if self.settled is not None:
            return self.settled.label
        if (reviewed := self._last_review()) is not None:
            return reviewed.label
        return self.majority

    @property
    def majority(self) -> int | None:
        """The label that most people give, or models where nobody gives one; of equally frequent ones the earlier."""
        in_order = sorted(self.voices, key=lambda mark: mark.seq)
        return majority([mark.label for mark in in_order]) if in_order else None

    @property
    def voices(self) -> list[Mark]:
        """The labels that decide: those of people, or else those of models."""
        of_people = [mark for mark in self.marks.values() if mark.source != BY_MODEL]
        return of_people or list(self.marks.values())

    @property
    def people_differ(self) -> bool:
        return len({mark.label for mark in self.voices}) > 1

    @property
    def resolution(self) -> Resolution | None:
        """How the label that counts came about; None where there is none."""
        if self.settled is not None:
            return "settled"
        if not self.marks:
            return None
        voices = self.voices
        if voices[0].source == BY_MODEL:
            return "review" if self.kept is not None else BY_MODEL
        if len(voices) > 1 and not self.people_differ:
            return "agreed"
        if self._last_review() is not None:
            return "review"
        return "majority" if self.people_differ else "single"

    @property
    def contest(self) -> Contest | None:
        """What became of people's differing; None where they do not differ and nothing was settled.

        A label given in a review decides over those before it. Who labels otherwise after it disputes it.
        """
        if self.bad:
            return None
        if self.settled is not None:
            return "settled"
        if not self.people_differ:
            return None
        last = self._last_review()
        if last is None or any(mark.seq > last.seq and mark.label != last.label for mark in self.voices):
            return "disputed"
        return "review"

    def _last_review(self) -> Mark | None:
        reviewed = (mark for mark in self.marks.values() if mark.source == "review")
        return max(reviewed, key=lambda mark: mark.seq, default=None)


@dataclass(frozen=True)
class Move:
    """An item changed its state.

    Without an item: so many items were `added` from row `first` on, or unlabelled ones became audit items, or classes
    count for others, or there is one class more.
    """

    item: int | None = None
    before: tuple[ItemState, int | None] = ("open", None)
    after: tuple[ItemState, int | None] = ("open", None)
    judge: bool = True  # whether a label counts in how often the learner is right
    added: int = 0
    first: int = 0
    audit_rows: tuple[int, ...] = ()  # the audit items among those added, or those that became audit items
    regroups: bool = False  # classes were merged, removed or taken back, or came back: predictions are others too


class Record:
    """The state of a project after some events, brought up to date by `apply`, one event at a time."""

    def __init__(self) -> None:
        self.audit_version = 0  # grows whenever the answers to audit items may have changed
        self.people = PeopleTable()  # they stay when a project begins anew
        self._begin()

    def _begin(self) -> None:
        """Know nothing yet."""
        self.settings = Settings()
        self.folder_labels: bool | None = None  # what a restart chose; None: there was none
        self.class_table = ClassTable()
        self.classes: list[str] = []  # names by number, those of classes that are gone included
        self.class_events: dict[int, Event] = {}  # what happened to classes, by number of the event; also undone ones
        self.regroupings = 0  # how often classes came to count for others
        self.class_news: Event | None = None  # the last that happened to classes, also that something was taken back
        self._first_classes: tuple[str, ...] = ()
        self.n_items = 0
        self.batches: list[int] = []  # the first of all items that were added at once
        self._sizes: list[tuple[int, int]] = []  # of the pool: number of the event by which it came, and items
        self.basis_rows = 0  # items at the start of the pool that the surrogate's set-up was made of
        self.items_added: Event | None = None  # by which items joined last
        # One for each time the pool grew or the share was raised, in the order they are asked.
        self.audit_draws: list[tuple[int, ...]] = []
        self.audit_turns: list[tuple[float, ...] | None] = []  # of each draw; None: evenly, as in earlier versions
        self.largest_audit_share = 0.0  # that the project ever had
        self.later_audit_rows: set[int] = set()  # those that were in the pool before they became audit items
        self.seq = 0
        self.leases: dict[int, Lease] = {}
        self.asks: dict[int, Event] = {}  # by which an item was last asked
        self.last_ask: dict[str, Ask] = {}  # of each annotator
        self.audited_by: dict[int, str] = {}  # which annotator an audit item was last given to
        self.asked: dict[Ask, dict[int, None]] = {"choice": {}, "audit": {}, "second": {}, "again": {}}
        self.features_version: str | None = None  # of the features in use; None for those the project was made with
        self.features_since = 0  # the event by which they came into use
        self.trainings: list[Event] = []
        self.failures: list[Event] = []
        self.annotators: dict[str, None] = {}
        self.history: dict[str, dict[int, Event]] = {}  # decisions that can be undone, by annotator, in order
        self.effective: dict[int, int] = {}  # the label that counts, of every labelled item
        self.class_counts: Counter[int] = Counter()
        self.events_by_annotator: dict[str, list[Event]] = {}
        self.undone: set[int] = set()
        # By item, then annotator. Kept up to date rather than searched for: they are read with every label.
        self.labels: dict[int, dict[str, Mark]] = {}
        self.skipped: dict[int, dict[str, int]] = {}
        self.unknown: dict[int, dict[str, int]] = {}
        self.bad: dict[int, dict[str, int]] = {}
        self.flags: dict[int, dict[str, str]] = {}
        self.kept: dict[int, int] = {}  # the label that a review kept
        self.contests: dict[int, Contest] = {}  # items on which people differ, or that were settled
        self.contest_counts: Counter[Contest] = Counter()
        self.usable: dict[int, int] = {}  # item and label of all that models may be trained on
        self.usable_counts: Counter[int] = Counter()  # the same by class
        self.audit_rows: tuple[int, ...] = ()
        self._audit: frozenset[int] = frozenset()
        self._of_item: dict[int, Decisions] = {}
        self._decisions: dict[int, Event] = {}
        self._put_backs: list[Event] = []

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> "Record":
        record = cls()
        for event in events:
            record.apply(event)
        return record

    # -- what is known ------------------------------------------------------------------------------------

    def label_of(self, item: int) -> int | None:
        """The label that counts: the settled one, else the last review's, else the majority's, else the earlier one."""
        return self.effective.get(item)

    def audit_label(self, item: int) -> int | None:
        """An audit item's label by the annotator it was given to: a label that came otherwise is not a sample.

        Where a reviewer settled it, theirs is the truth. A settlement brings no item into the sample, so that which
        items are scored does not depend on what people said of them.
        """
        found = self.decisions(item)
        mark = found.marks.get(self.audited_by.get(item, ""))
        if mark is None:
            return None
        return mark.label if found.settled is None else found.settled.label

    @property
    def is_untouched(self) -> bool:
        """Whether nobody has decided anything about any item or class, apart from labels that came with the data."""
        return not any(
            event.seq not in self.undone
            for name, events in self.events_by_annotator.items()
            if name != SOURCE_ANNOTATOR
            for event in events
        )

    @property
    def classes_of_people(self) -> list[str]:
        """The classes that annotators added."""
        table = self.class_table
        return [table.classes[number].name for number in table.alive if table.classes[number].added_by is not None]

    def is_audit(self, item: int) -> bool:
        return item in self._audit

    def decisions(self, item: int) -> Decisions:
        return self._of_item.get(item, Decisions())

    def decided_items(self) -> Iterable[int]:
        """The items about which there is or was a decision."""
        return self._of_item.keys()

    def state_of(self, item: int) -> tuple[ItemState, int | None]:
        """What an item is to the surrogate, and its label where the surrogate is told it."""
        decisions = self._of_item.get(item)
        if decisions is not None and decisions.bad:
            return "dropped", None
        if item in self._audit:
            return "audit", None
        if (label := self.effective.get(item)) is not None:
            return "told", label
        if item in self.leases:
            return "pending", None
        if decisions is not None and (decisions.skipped or decisions.unknown):
            return "skipped", None
        return "open", None

    def held_by(self, annotator: str) -> list[Lease]:
        """The items that are with an annotator, the latest first."""
        held = [lease for lease in self.leases.values() if lease.annotator == annotator]
        return sorted(held, key=lambda lease: -lease.seq)

    def last_decision(self, annotator: str) -> list[Event]:
        """What an annotator would undo next: one decision, or all that were made in one call.

        A change of classes that cannot be taken back any more is passed over. With a label goes the class that was made
        for it, if nothing else rests on that class.
        """
        latest_first = reversed(self.history.get(annotator, {}).values())
        last = next((event for event in latest_first if self.reason_to_keep(event) is None), None)
        if last is None:
            return []
        if (made := self._class_made_for(last)) is not None:
            return [last, made]
        batch = last.data.get("batch")
        same = takewhile(lambda event: batch is not None and event.data.get("batch") == batch, latest_first)
        return [last, *same][::-1]

    def reason_to_keep(self, event: Event) -> str | None:
        """Why a change of classes cannot be taken back; None where it can, and for other decisions."""
        if event.kind not in CLASS_KINDS:
            return None
        if event.kind == "class_added":
            return self._use_of_class(self._number_added_by(event))
        table = self._table_without(event.seq)
        names = Counter(table.classes[number].name for number in table.alive)
        now = Counter(self.classes[number] for number in self.class_table.alive)
        twice = next((name for name, count in names.items() if count > 1 and now[name] < count), None)
        return None if twice is None else f"there is another class {twice!r} now; rename that one first"

    def _use_of_class(self, number: int, apart_from: Event | None = None) -> str | None:
        """What rests on a class, in words, apart from one label; None for nothing."""
        name = self.classes[number]
        labels = sum(
            said.label == number and (apart_from is None or said.seq != apart_from.seq)
            for found in self._of_item.values()
            for said in found.said
        )
        if labels:
            return f"{count_of(labels, 'label')} of {name!r} would be lost; remove the class instead, or merge it"
        for event in self.class_events.values():
            about = (event.data.get("class"), event.data.get("into"))
            if event.seq not in self.undone and number in about:
                return f"{name!r} was changed since; take that back first"
        return None

    def _class_made_for(self, event: Event) -> Event | None:
        """The event that made a class for this label, if nothing else rests on the class."""
        if event.kind not in ("labelled", "relabelled"):
            return None
        for made in self.class_events.values():
            if made.kind == "class_added" and made.data.get("item") == event.item and made.annotator == event.annotator:
                number = self._number_added_by(made)
                if number == event.data["label"] and self.class_table.lives(number):
                    return made if self._use_of_class(number, apart_from=event) is None else None
        return None

    def _number_added_by(self, event: Event) -> int:
        added = [seq for seq, other in self.class_events.items() if other.kind == "class_added"]
        return len(self._first_classes) + added.index(event.seq)

    def _table_without(self, seq: int) -> ClassTable:
        return ClassTable.from_events(self._first_classes, self.class_events.values(), {*self.undone, seq})

    def labels_of_people(self) -> dict[int, dict[str, int]]:
        """By item and person, what each says; whether people agree has nothing to do with what models say."""
        found = {
            item: {who: mark.label for who, mark in marks.items() if mark.source != BY_MODEL}
            for item, marks in self.labels.items()
        }
        return {item: by_person for item, by_person in found.items() if by_person}

    def training_rows(self) -> dict[int, int]:
        """Item and label of all that models may be trained on, by row: labelled, not audit items, not bad."""
        return dict(sorted(self.usable.items()))

    def tally(self) -> tuple[int, int]:
        """P of the paper: how many items the learner had right before their labels were known, of how many."""
        rights = [self.was_right(item) for item in self.effective if item not in self._audit]
        judged = [right for right in rights if right is not None]
        return sum(judged), len(judged)

    def was_right(self, item: int) -> bool | None:
        """Whether the learner had predicted an item's label.

        None where there was no learner or it knew the label, and where nobody was asked: items that are confirmed many
        at once are the easy ones, near-copies are one answer, and imported or browsed ones were chosen by somebody.
        """
        first = next(iter(self._of_item[item].marks.values()), None)  # all of a settled item may be taken back
        if first is None or first.guess is None or first.source in NOT_ASKED_FOR:
            return None
        return first.guess == self.effective[item]

    def to_ledger(self) -> Ledger:
        """The record as the surrogate's own book-keeping."""
        ledger = Ledger(self.n_items)
        for item, label in self.effective.items():
            if self.state_of(item)[0] == "told":
                ledger.answers[item] = Answer(label, self.was_right(item), item in self.asks)
        ledger.pending = {item: None for item in self.leases if self.state_of(item)[0] == "pending"}
        ledger.is_skipped[list(self.audit_rows)] = True
        for items in (self.skipped, self.unknown):
            ledger.is_skipped[[item for item in items if self.state_of(item)[0] == "skipped"]] = True
        ledger.is_dropped[list(self.bad)] = True
        return ledger

    def items_at(self, seq: int) -> int:
        """How many items there were after the event with this number."""
        return next((items for since, items in reversed(self._sizes) if since <= seq), 0)

    def knows_features(self, event: Event) -> bool:
        """Whether a training, or one that failed, was on the features in use now."""
        # By when it began: a failure that could not be stored has no number.
        return bool(event.data["until"] >= self.features_since)

    # -- what happens -------------------------------------------------------------------------------------

    def items_of(self, event: Event) -> list[int]:
        """The items that an event which is about to be applied is about."""
        if event.kind in ("class_merged", "class_removed") or event.data.get("undoes") in self.class_events:
            regrouped = self._regrouped_by(event)
            return [item for item, found in self._of_item.items() if regrouped and found.names_any(regrouped)]
        if event.kind == "undone":
            undone = self._decisions.get(event.data["undoes"])
            return [] if undone is None or undone.item is None else [undone.item]
        if event.kind == "put_back" and event.item is None:
            refused = self.skipped if event.data["what"] == "skipped" else self.unknown
            return [item for item, who in refused.items() if event.data.get("of", next(iter(who))) in who]
        return [] if event.item is None else [event.item]

    def _regrouped_by(self, event: Event) -> frozenset[int]:
        """The classes that count for something else after this event, which is about to be applied."""
        if event.kind == "undone":
            after = self._table_without(event.data["undoes"])
        else:
            after = self.class_table.copy()
            after.apply(event)
        now = self.class_table.becomes
        return frozenset(number for number, into in enumerate(after.becomes) if into != now[number])

    def apply(self, event: Event) -> list[Move]:
        """Take an event into account; the moves that come of it."""
        becomes = self.class_table.becomes
        before = {item: self.state_of(item) for item in self.items_of(event)}
        self._apply(event)
        moves = [
            Move(item, old, new, judge=self._is_judged(item, old[0], new[0]))
            for item, old in before.items()
            if (new := self.state_of(item)) != old
        ]
        if event.kind == "class_added" and len(self.classes) > 1:  # a surrogate has one class from the start
            moves.append(Move())
        elif event.kind in REGROUPING and self.class_table.becomes is not becomes != self.class_table.becomes:
            self.regroupings += 1
            moves.append(Move(regroups=True))
        if event.kind == "items_added":
            count = event.data["count"]
            moves.append(Move(added=count, first=self.n_items - count, audit_rows=tuple(event.data["audit"])))
        if event.kind == "settings_changed" and event.data["audit"]:
            moves.append(Move(audit_rows=tuple(event.data["audit"])))
        return moves

    def _is_judged(self, item: int, before: ItemState, after: ItemState) -> bool:
        """Whether a label says how often the learner is right: the first of an item that it did not know."""
        return after == "told" and before != "told" and self.was_right(item) is not None

    def _apply(self, event: Event) -> None:
        self.seq = event.seq
        self.people.apply(event)
        # The source of the data counts as an annotator where it brought labels, not where it hands items out.
        if event.annotator is not None and (event.annotator != SOURCE_ANNOTATOR or event.kind == "labelled"):
            self.annotators.setdefault(event.annotator)
        if event.kind == "restarted":
            self._begin()
            self.seq, self.folder_labels = event.seq, event.data["folder_labels"]
        if event.kind in ("created", "restarted"):
            self.settings = Settings.from_json(event.data["settings"])
            self._first_classes = tuple(event.data["classes"])
            self.class_table = ClassTable(self._first_classes)
            self.classes = self.class_table.names
            self.batches, self.n_items = [0], event.data["n_items"]
            self.basis_rows = self.n_items
            self._sizes = [(event.seq, self.n_items)]
            self.largest_audit_share = self.settings.audit_share
            self._add_audit_rows(event.data["audit"])
        elif event.kind == "items_added":
            self._add_items(event)
        elif event.kind in CLASS_KINDS:
            self._change_classes(event)
        elif event.kind == "settings_changed":
            self.settings = Settings.from_json({**self.settings.to_json(), **event.data["settings"]})
            self.largest_audit_share = max(self.largest_audit_share, self.settings.audit_share)
            if event.data["audit"]:
                self.later_audit_rows.update(event.data["audit"])
                self._add_audit_rows(event.data["audit"])
        elif event.kind == "encoder_changed":
            self.features_version, self.features_since = event.data["features"], event.seq
        elif event.kind == "asked":
            self._ask(event)
        elif event.kind in ("lease_expired", "released"):
            self._end_lease(event)
        elif event.kind in DECISIONS or (event.kind == "put_back" and event.item is not None):
            self._decide(event)
        elif event.kind == "put_back":
            self._put_backs.append(event)
            for item in self.items_of(event):
                self._of_item[item].events.append(event)
                self._of_item[item].add(event)
                self._file(item)
        elif event.kind == "undone":
            self._undo(event)
        elif event.kind == "trained":
            self.trainings.append(event)
            # In logs of earlier versions every training made the set-up of all items that it knew.
            self.basis_rows = event.data.get("basis_rows", self.items_at(event.data["until"]))
        elif event.kind == "training_failed":
            self.failures.append(event)

    def _add_items(self, event: Event) -> None:
        self.batches.append(self.n_items)
        self.n_items += event.data["count"]
        self._sizes.append((event.seq, self.n_items))
        self.items_added = event
        # In logs of earlier versions items came while a project was opened, and then the set-up was made of all.
        if not self.trainings:
            self.basis_rows = event.data.get("basis_rows", self.n_items)
        self._add_audit_rows(event.data["audit"], event.data.get("turns"))

    def _add_audit_rows(self, rows: Iterable[int], turns: Iterable[float] | None = None) -> None:
        self.audit_version += 1
        self.audit_draws.append(tuple(rows))
        self.audit_turns.append(None if turns is None else tuple(turns))
        self.audit_rows = tuple(row for draw in self.audit_draws for row in draw)
        self._audit = frozenset(self.audit_rows)

    def _ask(self, event: Event) -> None:
        assert event.item is not None
        assert event.annotator is not None
        ask: Ask = event.data["lease"]
        self.leases[event.item] = Lease(event.item, event.annotator, ask, event.seq, event.data["seconds"])
        self.asks[event.item] = event
        self.asked[ask][event.item] = None
        self.last_ask[event.annotator] = ask
        if ask == "audit":
            self.audit_version += 1
            self.audited_by[event.item] = event.annotator

    def _end_lease(self, event: Event) -> None:
        assert event.item is not None
        lease = self.leases.get(event.item)
        if lease is not None and lease.annotator == event.annotator:
            del self.leases[event.item]
            if event.kind in ("lease_expired", "released"):  # it is as if nobody had been asked
                self.asked[lease.ask].pop(event.item, None)
                self.audit_version += lease.ask == "audit"

    def _decide(self, event: Event) -> None:
        assert event.item is not None
        assert event.annotator is not None
        if event.kind not in BESIDE_LEASES:
            self._end_lease(event)
        decisions = self._of_item.setdefault(event.item, Decisions())
        decisions.events.append(event)
        decisions.add(event)
        self._decisions[event.seq] = event
        self.history.setdefault(event.annotator, {})[event.seq] = event
        self.events_by_annotator.setdefault(event.annotator, []).append(event)
        self._file(event.item)

    def _change_classes(self, event: Event) -> None:
        affected = self.items_of(event)
        self.class_events[event.seq] = self.class_news = event
        if event.annotator is not None:
            if event.kind != "class_added":
                self.events_by_annotator.setdefault(event.annotator, []).append(event)
            if event.data.get("item") is None:  # a class that was made for a label goes with that label
                self.history.setdefault(event.annotator, {})[event.seq] = event
        self.class_table.apply(event)
        if event.kind == "class_added":
            self.classes.append(event.data["name"])
        else:
            self._settle_again(affected)

    def _take_class_change_back(self, event: Event) -> None:
        changed = self.class_events[event.data["undoes"]]
        if changed.seq in self.undone:
            return
        affected = self.items_of(event)
        self.class_news = event
        self.undone.add(changed.seq)
        if changed.annotator is not None:
            self.history.get(changed.annotator, {}).pop(changed.seq, None)
        self.class_table = ClassTable.from_events(self._first_classes, self.class_events.values(), self.undone)
        self._settle_again(affected)

    def _settle_again(self, items: Iterable[int]) -> None:
        self.classes = self.class_table.names
        for item in items:
            self._file(item)

    def _undo(self, event: Event) -> None:
        if event.data["undoes"] in self.class_events:
            self._take_class_change_back(event)
            return
        undone = self._decisions.pop(event.data["undoes"], None)
        if undone is None:
            return
        assert undone.item is not None
        assert undone.annotator is not None
        self.undone.add(undone.seq)
        del self.history[undone.annotator][undone.seq]
        # What was put back while the decision hid it counts now.
        left = {other.seq: other for other in (*self._put_backs, *self._of_item[undone.item].events)}
        del left[undone.seq]
        self.replace_decisions(undone.item, [left[seq] for seq in sorted(left)])

    def replace_decisions(self, item: int, events: Iterable[Event]) -> None:
        """Let these be the decisions about an item, and no others."""
        self._of_item[item] = decisions = Decisions(list(events))
        for event in decisions.events:
            decisions.add(event)
        self._file(item)

    def decision_events(self) -> dict[int, tuple[Event, ...]]:
        """The decisions about every item that has any, in order."""
        return {item: tuple(found.events) for item, found in self._of_item.items()}

    def _file(self, item: int) -> None:
        """Bring what is kept by item up to date after its decisions have changed."""
        found = self._of_item[item]
        self.audit_version += item in self._audit
        found.settle(self.class_table)
        _put(self.labels, item, found.marks or None)
        _put(self.skipped, item, found.skipped or None)
        _put(self.unknown, item, found.unknown or None)
        _put(self.bad, item, found.bad or None)
        _put(self.flags, item, found.flags or None)
        _put(self.kept, item, found.kept)
        _count(self.contests, self.contest_counts, item, found.contest)
        label = found.label
        _count(self.effective, self.class_counts, item, label)
        _count(self.usable, self.usable_counts, item, None if found.bad or item in self._audit else label)


@dataclass(frozen=True, eq=False)
class Replay:
    """What a log comes to, as a session needs it to go on from the last model."""

    record: Record
    ledger: Ledger  # what was known of every item when the last model was trained; without a model, now
    moves: list[Move]  # since then


def replay_events(events: Sequence[Event]) -> Replay:
    """Apply the events of a whole log; those before a restart are void, but for what they say of people."""
    restarts = [place for place, event in enumerate(events) if event.kind == "restarted"]
    before, events = (events[: restarts[-1]], events[restarts[-1] :]) if restarts else ((), events)
    trained = [event for event in events if event.kind == "trained"]
    until = trained[-1].data["until"] if trained else 0
    record, moves = Record(), list[Move]()
    for event in before:
        record.people.apply(event)
    ledger: Ledger | None = None
    for event in events:
        if event.seq > until and ledger is None and trained:
            ledger = record.to_ledger()
        caused = record.apply(event)
        if event.seq > until:
            moves += caused
    return Replay(record, record.to_ledger() if ledger is None else ledger, moves)


def require_untouched(record: Record, where: str) -> None:
    """An error where somebody has decided something, so that it is too late for another choice about folders."""
    if not record.is_untouched:
        raise Conflict(
            f"items of {where} are labelled or skipped already, so it stays as it is whether its folders are classes; "
            "for another choice undo those, or begin another project with --project"
        )


def majority(labels: Iterable[int]) -> int:
    """The most frequent label; of equally frequent ones the one that came first. In the order of arrival."""
    counts = Counter(labels)  # keeps that order
    if not counts:
        raise UnderstudyError("a majority needs labels; give at least one")
    return max(counts, key=lambda label: counts[label])


def _put(index: dict[int, T], item: int, value: T | None) -> None:
    if value is None:
        index.pop(item, None)
    else:
        index[item] = value


def _count(labels: dict[int, T], counts: Counter[T], item: int, label: T | None) -> None:
    """Put an item's label, or that it has none, where labels are counted."""
    before = labels.get(item)
    if before == label:
        return
    if before is not None:
        counts[before] -= 1
        del labels[item]
    if label is not None:
        counts[label] += 1
        labels[item] = label
