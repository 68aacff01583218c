"""A labelling session: the one place that writes to the log, and keeps everything else in step with it.

A decision is first written to the log, and only then does anything else change: the record, the surrogate, who has
which item. So what a crash loses is replayed from the log, and no answer is ever lost.

It is long because all that people can do passes here, under one lock; most of it is methods of a few lines that check,
store or read. What takes thought is elsewhere: in the record, in learning, in turns, in the views.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from understudy.data.class_names import check_class
from understudy.data.items import make_printable
from understudy.errors import Conflict, NotFound, NotStored, PoolExhausted, UnderstudyError
from understudy.labels.imported_labels import Imported, ImportedLabel, check_new_classes
from understudy.learners.calibration import Calibration
from understudy.projects.project import Project
from understudy.projects.settings import check_changes
from understudy.sessions import people_changes, progress, views, why
from understudy.sessions.assignments import FIELDS, Assignments, check_assignment
from understudy.sessions.browsing import Browser
from understudy.sessions.bulk_decisions import BulkDecision, bulk_events
from understudy.sessions.calibrations import Audits
from understudy.sessions.class_changes import check_new_class, check_values, possible_change, why_gone
from understudy.sessions.classes import CHANGEABLE
from understudy.sessions.copies import items_to_follow, show_copies
from understudy.sessions.disputes import Wanted, list_disputes, require_disputed
from understudy.sessions.growth import Growth
from understudy.sessions.learning import Learning
from understudy.sessions.log.events import BESIDE_LEASES, SOURCE_ANNOTATOR, Ask, Event, Kind, Source
from understudy.sessions.log.log import AlreadyThere, EventLog
from understudy.sessions.map_colours import map_colours
from understudy.sessions.models import Models
from understudy.sessions.near_copies import NearCopies
from understudy.sessions.outside import AGAIN, OutsideDecision, events_of_known_answer, events_to_match
from understudy.sessions.pace import start_of_day
from understudy.sessions.people_progress import people_progress
from understudy.sessions.pool_map import ItemMap
from understudy.sessions.record import BY_MODEL, Lease, Move, Replay, replay_events, require_untouched
from understudy.sessions.replies import (
    ClassList,
    Copies,
    DisputeList,
    Doubt,
    Entry,
    GridOffer,
    ItemCard,
    Likely,
    PeopleList,
    Progress,
    ProjectSettings,
    Question,
    Shown,
    Status,
    Stored,
    Training,
    Undone,
    Why,
)
from understudy.sessions.review import LabelsToReview, find_suspects
from understudy.sessions.settings_changes import describe_change, settings_event, show_settings
from understudy.sessions.stopping import Guesswork
from understudy.sessions.training.trainer import Trainer
from understudy.sessions.turns import Turns

MAX_ITEMS: Final = 100  # confirmed in one call
MAX_NAME_LENGTH: Final = 64  # of an annotator and of a key
LABELS_PER_BATCH: Final = 1_000  # of an import, stored in one transaction
ESSENCE: Final = (
    "label",
    "items",
    "what",
    "on",
    "note",
    "settings",
    "class",
    "into",
    "order",
    "undoes",
    "of",
    "role",
    "person",
    "retired",
    *FIELDS,
    *CHANGEABLE,
)
# data by which a call is the same
SECONDS_FOR_NEWS: Final = 0.5  # that the page's numbers wait for somebody who waits for a block of rows
MIN_WAIT_SECONDS: Final = 1.0  # from which a decision that waited for the server keeps its own time
MAX_WAIT_SECONDS: Final = 366 * 86_400.0
SAME_KIND: Final = {"relabelled": "labelled"}  # a label that is sent twice finds itself there the second time
log = logging.getLogger(__name__)


class Session:
    """All that people do with a project, from any number of threads. Made by `open_session`."""

    def __init__(
        self,
        project: Project,
        events: EventLog,
        replay: Replay,
        models: Models,
        trainer: Trainer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.project, self.record, self.models = project, replay.record, models
        self.suspicious = 0  # labels that the last review found surprising
        self._cross_checked: tuple[str | None, Guesswork] | None = None  # of the model with this version
        self._near_copies = NearCopies(project.features, project.digests, self.record.settings.seed)
        self.assignments = Assignments(self.record, lambda: self.models.probs)
        self.turns = Turns(self.record, self.assignments)
        self._audits = Audits(self.record)
        self._log, self._clock = events, clock
        self._lock = threading.RLock()
        self.browser = Browser(project, self.record, models, self._audits, self._lock)  # lists of items
        self.map = ItemMap(project, self._note_change)
        self.browser.rows_inside = self.map.rows_inside
        self._changed = threading.Condition()
        self._version = 1
        self._last_status: Status | None = None
        self._last_slow_or_lost: Sequence[str] = ()
        self._online: Counter[str] = Counter()
        self._deadlines = {item: clock() + lease.seconds for item, lease in self.record.leases.items()}
        self._closed = False
        self._last_trouble = ""  # why nobody could be asked, as it was last said
        self.learning = Learning(
            project, models, replay, trainer, lock=self._lock,
            store=self._store, note_change=self._note_change, after_training=self.look_at_labels,
        )  # fmt: skip
        self.growth = Growth(
            project, self.learning, lock=self._lock, store=self._store_new_items, note_change=self._note_change
        )

    # -- asking -------------------------------------------------------------------------------------------

    def next(self, annotator: str) -> Question:
        """The item that is leased to the annotator already, or else the next one, leased to them from now on."""
        check_name(annotator)
        with self._lock:
            return self._next(annotator)

    def preview(self, annotator: str, n: int = 4) -> list[Shown]:
        """Items that the annotator may well be asked next, so that they can be fetched. Nothing changes."""
        check_name(annotator)
        with self._lock:
            held = [lease.item for lease in self.record.held_by(annotator)[1:]]
            if self.assignments.is_full(annotator):
                return [views.show_item(self.project, item) for item in held]
            audit = self.turns.next_audit(annotator) if self.turns.audit_is_due(annotator) else None
            other = [item for item in (audit, self.turns.next_second(annotator)) if item is not None]
            likely = self.learning.chooser.preview(min(max(n, 1), 8), self.assignments.rows_for(annotator))
            return [views.show_item(self.project, item) for item in dict.fromkeys([*held, *other, *likely])][:n]

    def _next(self, annotator: str) -> Question:
        if self.record.people.is_retired(annotator):  # while their last decision was on its way
            return Question(None, reason="You have retired from this project.")
        try:
            self._expire()
            held = self.record.held_by(annotator)
            if not held:
                return self._ask(annotator)
        except NotStored as error:  # earlier decisions are safe; nobody can be asked until the log can be written
            return self._ask_nothing(error)
        self._deadlines[held[0].item] = self._clock() + held[0].seconds
        return self._question(held[0])

    def _ask_nothing(self, error: NotStored) -> Question:
        """No question, and why in words for annotators; those for whoever runs the server go to its output, once."""
        if str(error) != self._last_trouble:
            self._last_trouble = str(error)
            log.warning("nobody can be asked: %s", error)
        return Question(None, reason=error.public)

    def _ask(self, annotator: str) -> Question:
        turns, rows = self.turns, self.assignments.rows_for(annotator)
        if self.assignments.is_full(annotator):
            return self._nothing_for(annotator)
        if turns.audit_is_due(annotator) and (item := turns.next_audit(annotator)) is not None:
            return self._lease(item, annotator, "audit")
        if (item := turns.next_second(annotator)) is not None:
            return self._lease(item, annotator, "second")
        try:
            choice = self.learning.chooser.choose(rows)
        except PoolExhausted:
            if (item := turns.next_audit(annotator)) is not None:
                return self._lease(item, annotator, "audit")
            if (item := turns.next_skipped(annotator)) is not None:
                return self._lease(item, annotator, "again")
            return self._nothing_for(annotator)
        try:
            return self._lease(choice.item, annotator, "choice", views.reason_for_choice(self._state, choice))
        except BaseException:
            if choice.item not in self.record.leases:
                self.learning.chooser.cancel(choice.item)
            raise

    def _nothing_for(self, annotator: str) -> Question:
        reason = self.assignments.reason_for_nothing(annotator) or views.reason_for_nothing(self.record, annotator)
        return Question(None, reason=reason, work=self.assignments.own_work(annotator))

    def _lease(self, item: int, annotator: str, ask: Ask, reason: dict[str, Any] | None = None) -> Question:
        seconds = self.record.settings.lease_seconds
        kept = why.reason_for_log(None, self.record.classes, ask) if reason is None else reason
        data = {"lease": ask, "seconds": seconds, "why": kept, "model": self.models.version}
        self._store(Event("asked", item, annotator, data=data))
        return self._question(self.record.leases[item])

    def _question(self, lease: Lease) -> Question:
        remaining = max(0.0, self._deadlines[lease.item] - self._clock())
        asked = views.question(self._state, lease, remaining, time.time())
        return replace(asked, work=self.assignments.own_work(lease.annotator))

    def _expire(self) -> None:
        """Take back items that nobody answered in time. By the monotonic clock: the one on the wall may jump."""
        now = self._clock()
        late = [item for item in self.record.leases if self._deadlines.get(item, now) < now]
        if late:
            self._store(*(Event("lease_expired", item, self.record.leases[item].annotator) for item in late))

    # -- deciding -----------------------------------------------------------------------------------------

    def label(
        self,
        item: int,
        label: int,
        annotator: str,
        key: str,
        *,
        seconds: float | None = None,
        suggestion: int | None = None,
        source: Source = "person",
        ago: float = 0.0,
    ) -> Stored:
        """Store an annotator's label. Anybody may label any item at any time.

        `ago`: the seconds since it was decided, where it had to wait for the server; here and in the other decisions.
        """
        with self._lock:
            self._require_label(label, annotator, key)
            data = {"label": label, "source": source, "seconds": seconds, "suggestion": suggestion}
            return self._decide("labelled", item, annotator, key, data, ago=ago)

    def label_many(
        self,
        items: Sequence[int],
        label: int,
        annotator: str,
        key: str,
        *,
        source: Literal["grid", "copies"] = "grid",
        seconds: float | None = None,
        suggestion: int | None = None,
        ago: float = 0.0,
    ) -> Stored:
        """Store the same label for several items at once; one undo takes all of them back.

        From "copies" the first item is the one that was looked at; of its near-copies, those that cannot be answered
        along any more are left out.
        """
        if not 1 <= len(items) <= MAX_ITEMS or len(set(items)) < len(items):
            raise UnderstudyError(f"give 1 to {MAX_ITEMS} different items at once; got {len(items)}")
        with self._lock:
            self._require_label(label, annotator, key)
            for item in items:
                self._require_item(item)
            data = {"label": label, "source": source, "batch": key, **_when(ago)}
            about: dict[str, Any] = {"items": list(items)}
            together = list(items)
            if source == "copies":
                together, left_out = items_to_follow(self.record, items)
                about |= {"source": "person", "seconds": seconds, "suggestion": suggestion, "left_out": left_out}
            first, *others = (self._label_event(item, annotator, None, data) for item in together)
            first = replace(first, key=key, data={**first.data, **about})
            reply = self._store_and_ask([first, *others], annotator)
            kept = self._log.find(annotator, key) if reply.repeated else first
            return replace(reply, left_out=[] if kept is None else list(kept.data.get("left_out", ())))

    def skip(self, item: int, annotator: str, key: str, *, ago: float = 0.0) -> Stored:
        """Skip an item for now: it comes back when nothing else is left."""
        with self._lock:
            return self._decide("skipped", item, annotator, key, ago=ago)

    def dont_know(self, item: int, annotator: str, key: str, *, ago: float = 0.0) -> Stored:
        """Store that this annotator does not know the item's class."""
        with self._lock:
            return self._decide("dont_know", item, annotator, key, ago=ago)

    def bad(self, item: int, annotator: str, key: str, *, ago: float = 0.0) -> Stored:
        """Leave an item out of everything: it is broken, private or off topic."""
        with self._lock:
            return self._decide("bad", item, annotator, key, ago=ago)

    def flag(self, item: int, annotator: str, key: str, *, on: bool = True, note: str = "", ago: float = 0.0) -> Stored:
        """Ask somebody to look at this item; it is still to be labelled."""
        with self._lock:
            return self._decide("flagged", item, annotator, key, {"on": on, "note": note}, ago=ago)

    def keep(self, item: int, annotator: str, key: str, *, ago: float = 0.0) -> Stored:
        """Confirm a surprising label in a review."""
        with self._lock:
            self._require_item(item)
            _check_call(annotator, key)
            known = self._log.find(annotator, key)  # a call that is sent again is about the label of that time
            label = self.record.label_of(item) if known is None else known.data.get("label")
            if label is None and known is None:
                raise NotFound(f"item {item} has no label to keep; label it first")
            return self._decide("kept", item, annotator, key, {"label": label}, ago=ago)

    def settle(self, item: int, label: int, annotator: str, key: str, *, note: str = "", ago: float = 0.0) -> Stored:
        """Store a reviewer's last word about an item on which people differ. It is not a label of their own."""
        with self._lock:
            self._require_item(item)
            self._require_label(label, annotator, key)
            if self._log.find(annotator, key) is None:
                require_disputed(self.record, item)
            return self._decide("settled", item, annotator, key, {"label": label, "note": note}, ago=ago)

    def put_back(self, what: str, annotator: str, key: str, *, own: bool = False) -> Stored:
        """Let items be asked again that were skipped, or that people did not know; or only the annotator's `own`."""
        if what not in ("skipped", "dont_know"):
            raise UnderstudyError(f"what is put back must be skipped or dont_know; got {what!r}")
        _check_call(annotator, key)
        with self._lock:
            data = {"what": what, **({"of": annotator} if own else {})}
            return self._store_and_ask([Event("put_back", None, annotator, key, data)], annotator)

    # -- people -------------------------------------------------------------------------------------------

    def people(self) -> PeopleList:
        """All people, and what was done to them lately."""
        with self._lock:
            return people_changes.show_people(self.record, self._here)

    def change_people(self, event: Event) -> PeopleList:
        """Add, rename, retire or bring back a person, give them a role, or take such a change back; the people then."""
        with self._lock:
            sent = people_changes.by_id(self.record.people, event)
            self._store_change(sent, lambda: people_changes.possible_changes(self.record, event))
            return people_changes.show_people(self.record, self._here)

    def assign(self, person: str, values: Mapping[str, Any], annotator: str, key: str) -> PeopleList:
        """Assign a person a `share` of the pool, `classes` or a `quota`: what is given; None takes it away."""
        data = {"person": person, **check_assignment(values)}
        return self.change_people(Event("person_changed", None, annotator, key, data))

    def decide_items(
        self, decision: BulkDecision, annotator: str, key: str, *, may_overrule: bool = True, ago: float = 0.0
    ) -> Stored:
        """Label, flag or put back several items at once; one undo takes all of it back.

        `may_overrule`: whether a label has the last word on items that others labelled, as in a review.
        """
        decision.check()
        _check_call(annotator, key)
        with self._lock:
            self._require_item(min(decision.items))
            self._require_item(max(decision.items))
            if decision.label is not None:
                self._require_label(decision.label, annotator, key)
            known = self._log.find(annotator, key)
            if known is not None:
                return self._store_and_ask([decision.event_like(known, annotator, key)], annotator)

            def make_label(found: int, data: dict[str, Any]) -> Event:
                return self._label_event(found, annotator, None, data)

            events = bulk_events(
                self.record, decision, annotator, key, make_label, may_overrule=may_overrule, when=_when(ago)
            )
            return self._store_and_ask(events, annotator)

    # -- classes ------------------------------------------------------------------------------------------

    def add_class(self, name: str, annotator: str, key: str, *, item: int | None = None, alike: bool = False) -> Stored:
        """Add a class, for everybody, from now on.

        `item`: the one that it is made for: when its label is undone, the class goes too, if nothing else rests on it.
        With `alike` it may be one that is easily taken for another.
        """
        data: dict[str, Any] = {"name": check_class(name)}
        _check_call(annotator, key)
        with self._lock:
            if item is not None:
                self._require_item(item)
                data["item"] = item
            if self._log.find(annotator, key) is None:
                check_new_class(self.record, data["name"], alike=alike)
            return self._store_and_ask([Event("class_added", None, annotator, key, data)], annotator)

    def classes(self) -> ClassList:
        """All classes, and what was done to them lately."""
        with self._lock:
            return views.show_classes(self._state)

    def change_class(
        self, number: int, values: Mapping[str, Any], annotator: str, key: str, *, alike: bool = False
    ) -> ClassList:
        """Change the name, shortcut, colour, description or examples of a class, or hide it."""
        data = {"class": number, **check_values(values)}
        return self._change_classes(Event("class_changed", None, annotator, key, data), alike=alike)

    def merge_class(self, number: int, into: int, annotator: str, key: str) -> ClassList:
        """Let a class be another from now on: its labels and what models predict of it count for that one."""
        return self._change_classes(Event("class_merged", None, annotator, key, {"class": number, "into": into}))

    def remove_class(self, number: int, annotator: str, key: str) -> ClassList:
        """Remove a class with its labels: items that have no other label can be asked again."""
        return self._change_classes(Event("class_removed", None, annotator, key, {"class": number}))

    def order_classes(self, order: Sequence[int], annotator: str, key: str) -> ClassList:
        """Show the classes in this order."""
        return self._change_classes(Event("classes_reordered", None, annotator, key, {"order": list(order)}))

    def undo_class_change(self, seq: int, annotator: str, key: str) -> ClassList:
        """Take one change of classes back, whoever made it, and whatever happened since."""
        with self._lock:
            changed = self.record.class_events.get(seq)
            if changed is None:
                raise NotFound(f"event {seq} is not a change of classes; see GET /api/classes")
            event = Event("undone", None, annotator, key, {"undoes": seq, "what": changed.kind})

            def possible() -> list[Event]:
                if seq in self.record.undone:
                    raise Conflict("this was taken back already")
                if (reason := self.record.reason_to_keep(changed)) is not None:
                    raise Conflict(reason)
                return [event]

            self._store_change(event, possible)
            return views.show_classes(self._state)

    def _change_classes(self, event: Event, *, alike: bool = False) -> ClassList:
        """Store a change of classes, if it is one and is possible; the classes then."""

        def possible() -> list[Event]:
            found = possible_change(self.record, event, alike=alike)
            return [] if found is None else [found]

        with self._lock:
            self._store_change(event, possible)
            return views.show_classes(self._state)

    def _store_change(self, event: Event, possible: Callable[[], Sequence[Event]]) -> None:
        """Store what comes of a change, unless the same call came before."""
        assert event.annotator is not None
        assert event.key is not None
        _check_call(event.annotator, event.key)
        known = self._log.find(event.annotator, event.key)
        if known is None:
            self._store(*possible())
        else:
            _require_same(known, event)
            self._catch_up()

    # -- settings -----------------------------------------------------------------------------------------

    def settings(self) -> ProjectSettings:
        """The project's settings, with what each means."""
        columns = self.project.columns.there()  # may read the table, so without the lock
        with self._lock:
            return show_settings(self.record.settings, columns=columns)

    def change_settings(self, changes: Mapping[str, Any], annotator: str, key: str) -> ProjectSettings:
        """Change settings by name, for everybody, from now on; the settings then, and what the change means."""
        _check_call(annotator, key)
        self.project.columns.read(check_changes(changes).get("show", ()))
        columns = self.project.columns.there()
        with self._lock:
            known = self._log.find(annotator, key)
            event = settings_event(self.record, changes, annotator, key)
            if known is not None:
                _require_same(known, Event("settings_changed", data={"settings": dict(changes)}))
                self._catch_up()
            if known is not None or event is None:
                return show_settings(self.record.settings, columns=columns)
            before = self.record.settings
            self._store(event)
            self.project.adopt_settings(self.record.settings)
            self.learning.train_if_due()
            return show_settings(self.record.settings, describe_change(event, before, self.record), columns)

    def undo(self, annotator: str, key: str) -> Undone:
        """Take back the annotator's last decision; the surrogate unlearns it, and the item is asked again."""
        _check_call(annotator, key)
        with self._lock:
            known = self._log.find(annotator, key)
            if known is not None:
                _require_same(known, Event("undone", known.item, annotator, key, known.data))
                return Undone(known.seq, True, known.data["undoes"], known.data["what"], self._next(annotator))
            last = self.record.last_decision(annotator)
            if not last:
                raise Conflict("there is nothing to undo")
            events = [
                Event(
                    "undone", event.item, annotator, None if place else key, {"undoes": event.seq, "what": event.kind}
                )
                for place, event in enumerate(last)
            ]
            stored = self._store(*events)
            of_item = [event for event in last if event.item is not None]  # the others are about classes
            asked = self._ask_again(of_item[0], annotator) if of_item else self._next(annotator)
            return Undone(stored[0].seq, False, last[0].seq, last[0].kind, asked)

    def release(self, annotator: str) -> None:
        """Take back what is leased to an annotator who leaves."""
        check_name(annotator)
        with self._lock:
            held = self.record.held_by(annotator)
            if held:
                self._store(*(Event("released", lease.item, annotator) for lease in held))

    def import_labels(self, imported: Imported, annotator: str) -> dict[str, Any]:
        """Store labels from elsewhere. Those that are there already, by the same annotator, are not stored again.

        Annotators are named as they are called now, or were formerly.
        """
        check_name(annotator)
        with self._lock:
            known = self.record.class_table.names_that_count()
            check_new_classes(imported, known)
            new = [name for name in imported.new_classes if name not in known]
            self._store(*(Event("class_added", None, annotator, data={"name": check_class(name)}) for name in new))
        added = 0
        for start in range(0, len(imported.labels), LABELS_PER_BATCH):  # others label in between
            with self._lock:
                added += self._import(imported.labels[start : start + LABELS_PER_BATCH], annotator)
        with self._lock:
            self.learning.train_if_due()
        return {"added": added, "unchanged": len(imported.labels) - added}

    def _import(self, labels: Sequence[ImportedLabel], annotator: str) -> int:
        """Store those of these labels that are new, and count them."""
        table, people = self.record.class_table, self.record.people
        numbers = {name: table.counts_as(name) for name in {found.label_name for found in labels}}
        events: list[Event] = []
        for found in labels:
            who, number = people.id_or_name(found.annotator or annotator), numbers[found.label_name]
            mark = self.record.decisions(found.row).marks.get(who)
            if number is not None and (mark is None or mark.label != number):  # None: removed a moment ago
                event = self._label_event(found.row, who, None, {"label": number, "source": "import"})
                events.append(event if found.at is None else replace(event, at=found.at))
        self._store(*events)
        return len(events)

    def label_by_model(self, labels: Mapping[int, tuple[int, float]], annotator: str) -> int:
        """Store a model's labels, (class, probability) by item, of items that are open still; how many.

        They are marked as such for ever. None answers an audit item, and a person's label of the same item decides.
        """
        check_name(annotator)
        with self._lock:
            events = [
                self._label_event(
                    item, annotator, None, {"label": label, "source": BY_MODEL, "probability": probability}
                )
                for item, (label, probability) in labels.items()
                if self.record.state_of(item)[0] == "open"
            ]
            self._store(*events)
        return len(events)

    def take_back_by_model(self, annotator: str) -> int:
        """Take back all labels that a model gave under this name; how many."""
        with self._lock:
            given = [
                event
                for event in self.record.history.get(annotator, {}).values()
                if event.data.get("source") == BY_MODEL
            ]
            self._store(
                *(
                    Event("undone", event.item, annotator, None, {"undoes": event.seq, "what": event.kind})
                    for event in given
                )
            )
        return len(given)

    # -- in step with another tool ------------------------------------------------------------------------

    def ask_ahead(self, n: int, keep: Collection[int] = ()) -> list[Question]:
        """The next items for another tool to hand out, in their order: n of them, or all there are.

        They are leased to the source of the data until somebody answers them there. Items that it has and that are not
        to be kept are released first, so that they are chosen anew by all that is known now.
        """
        with self._lock:
            others = [lease for lease in self.record.held_by(SOURCE_ANNOTATOR) if lease.item not in keep]
            self._store(*(Event("released", lease.item, SOURCE_ANNOTATOR) for lease in others))
            while len(held := self.record.held_by(SOURCE_ANNOTATOR)) < n:
                found = self._ask(SOURCE_ANNOTATOR).item
                if found is None:
                    break
                if self.record.decisions(found).given:  # an audit item that was labelled before its turn
                    self._store(*events_of_known_answer(self.record, found, self._label_event))
            now = self._clock()
            self._deadlines |= {lease.item: now + lease.seconds for lease in held}
            return [self._question(lease) for lease in reversed(held)]

    def match_outside(self, said: Mapping[int, Sequence[OutsideDecision]], tool: str) -> list[int]:
        """Let items be as another tool says, with what each person says of each there; the items that changed."""
        changed: list[int] = []
        items = list(said)
        for start in range(0, len(items), LABELS_PER_BATCH):  # others read in between
            with self._lock:
                found = {
                    item: events_to_match(self.record, item, said[item], tool, self._label_event)
                    for item in items[start : start + LABELS_PER_BATCH]
                }
                self._store(*(self._with_free_key(event) for events in found.values() for event in events))
                changed += [item for item, events in found.items() if events]
        if changed:
            with self._lock:
                self.learning.train_if_due()
        return changed

    def _with_free_key(self, event: Event) -> Event:
        """The event with a key that nobody used: what was taken back by mistake may be said again as it was."""
        key = event.key
        while key is not None and self._log.find(str(event.annotator), key) is not None:
            key += AGAIN
        return replace(event, key=key)

    def add_outside_classes(self, names: Sequence[str]) -> None:
        """Add the classes that another tool has and the project never had."""
        with self._lock:
            new = [name for name in names if self.record.class_table.number_known_as(name) is None]
            self._store(*(Event("class_added", None, SOURCE_ANNOTATOR, data={"name": name}) for name in new))

    def drop_items(self, items: Collection[int]) -> None:
        """Leave out items that the source of the data does not have any more."""
        with self._lock:
            gone = [item for item in items if item not in self.record.bad]
            self._store(*(Event("bad", item, SOURCE_ANNOTATOR) for item in gone))

    def _decide(
        self, kind: Kind, item: int, annotator: str, key: str, data: dict[str, Any] | None = None, *, ago: float = 0.0
    ) -> Stored:
        self._require_item(item)
        _check_call(annotator, key)
        known = (data or {}) | _when(ago)
        if kind == "labelled":
            event = self._label_event(item, annotator, key, known)
        else:
            event = Event(kind, item, annotator, key, known)
        return self._store_and_ask([event], annotator)

    def _label_event(self, item: int, annotator: str, key: str | None, data: dict[str, Any]) -> Event:
        """The event of an annotator's first label for an item, or of another in its place."""
        self._require_item(item)
        mark = self.record.decisions(item).marks.get(annotator)
        known = data | {"model": self.models.version}
        if mark is None:
            return Event("labelled", item, annotator, key, known | {"guess": self.models.guess(item)})
        # A later model may have been trained on the label: what counts is the prediction before there was one.
        return Event("relabelled", item, annotator, key, known | {"guess": mark.guess, "before": mark.label})

    def _store_and_ask(self, events: Sequence[Event], annotator: str) -> Stored:
        try:
            seq, repeated = self._store(*events)[0].seq, False
        except AlreadyThere as found:
            _require_same(found.stored, events[0])
            seq, repeated = found.stored.seq, True
            self._catch_up()
        if not repeated:
            self.learning.train_if_due()
        last = self.record.trainings[-1].data["labels"] if self.record.trainings else None
        return Stored(seq, repeated, self._next(annotator), len(self.record.effective), last)

    def _ask_again(self, undone: Event, annotator: str) -> Question:
        """Lease the item of an undone decision to its annotator again, if they had been asked for it."""
        item = undone.item
        if (
            item is not None
            and undone.kind not in BESIDE_LEASES
            and undone.data.get("source") not in ("grid", "copies", "import", "model")
            and ("batch" not in undone.data or undone.data.get("source") == "person")  # with near-copies
        ):
            asked = self.record.asks.get(item)
            is_same = asked is not None and (asked.data["lease"] == "audit") == self.record.is_audit(item)
            if asked is not None and is_same and asked.annotator == annotator and item not in self.record.leases:
                try:
                    return self._lease(item, annotator, asked.data["lease"], asked.data["why"])
                except NotStored as error:
                    return self._ask_nothing(error)
        return self._next(annotator)

    # -- what happened ------------------------------------------------------------------------------------

    def _store(self, *events: Event) -> list[Event]:
        """Write events to the log, all or none; then let everything else follow."""
        if self._closed:
            raise NotStored("the session is closed; start it again")
        if not events:
            return []
        stored = self._log.append(*events)
        if stored[0].seq > self.record.seq + 1:
            self._catch_up()
        else:
            self._follow(stored)
        self._note_change()
        return stored

    def _catch_up(self) -> None:
        """Follow what is in the log without our knowing: a connection was lost while it was stored."""
        models = len(self.record.trainings)
        self._follow(list(self._log.read(after=self.record.seq)))
        if len(self.record.trainings) > models:
            self.learning.restart(replay_events(list(self._log.read())))

    def _follow(self, events: Sequence[Event]) -> None:
        moves: list[Move] = []
        for event in events:
            items = self.record.items_of(event)
            moves += self.record.apply(event)
            if event.kind == "items_added":
                self._grow()
            if event.kind == "asked" and event.item is not None:
                self._deadlines[event.item] = self._clock() + event.data["seconds"]
            self.browser.note(items)
            for item in items:
                self.assignments.update(item)
                self.turns.update(item)
            if event.kind == "settings_changed":
                self.turns = Turns(self.record, self.assignments)
                if event.data["audit"]:
                    self.models.look_up_guesses()
        if any(move.regroups for move in moves):
            self.models.regroup()
        self.learning.follow(moves)

    def _store_new_items(self, *events: Event) -> None:
        """Store that items joined, unless the log has it without our knowing."""
        try:
            self._store(*events)
        except AlreadyThere:
            self._catch_up()

    def _grow(self) -> None:
        """Know the items that have just joined."""
        self.growth.adopt()
        project = self.project
        seed = self.record.settings.seed
        self._near_copies = NearCopies(project.features, project.digests, seed, before=self._near_copies)
        self.map.note_growth()

    def _require_item(self, item: int) -> None:
        if not 0 <= item < self.record.n_items:
            raise NotFound(f"there is no item {item}; there are {self.record.n_items:,}, numbered from 0")

    def _require_label(self, label: int, annotator: str, key: str) -> None:
        """An error where items cannot be labelled with this class. With one that was merged they can, by pages that
        have not heard of it; and a call that is sent again was right when it came first."""
        _check_call(annotator, key)
        if not 0 <= label < len(self.record.classes):
            have = f"there are {len(self.record.classes)}, numbered from 0" if self.record.classes else "there are none"
            raise NotFound(f"there is no class {label}; {have}: add it first")
        if self.record.class_table.becomes[label] is None and self._log.find(annotator, key) is None:
            raise Conflict(f"{why_gone(self.record, label)}; choose another")

    def _require_class(self, label: int) -> int:
        """The class that this one counts for."""
        counts_for = self.record.class_table.becomes[label] if 0 <= label < len(self.record.classes) else None
        if counts_for is None:
            raise NotFound(f"there is no class {label}; see GET /api/classes")
        return counts_for

    # -- training -----------------------------------------------------------------------------------------

    def train(self) -> Training:
        """Train now, if there is something to learn from and no training runs."""
        with self._lock:
            self.learning.train()
            return views.training(self.record, self._training)

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def _state(self) -> views.SessionState:
        return views.SessionState(self.project, self.record, self.models, self.learning.chooser.surrogate, self._audits)

    @property
    def _training(self) -> views.TrainingFacts:
        learning = self.learning
        return views.TrainingFacts(learning.is_busy, learning.trainer.started_at, learning.next_training())

    def status(self) -> Status:
        """The numbers that are always on the page.

        Whoever waits for a block of rows that was lost holds the lock meanwhile: then they are the last ones that were
        known, with a line that says so.
        """
        while not self._lock.acquire(timeout=SECONDS_FOR_NEWS):
            if self._last_status is not None and (lines := self._slow_or_lost()):
                return replace(self._last_status, slow_or_lost=list(lines))
        try:
            self._last_status = views.status(
                self._state,
                self._training,
                online=self.online,
                suspicious=self.suspicious,
                version=self._version,
                joining=self.growth.joining,
                slow_or_lost=self._slow_or_lost(),
            )
            return self._last_status
        finally:
            self._lock.release()

    def _slow_or_lost(self) -> Sequence[str]:
        return self.learning.chooser.slow_or_lost()

    def progress(self, only: str | None = None) -> Progress:
        """The progress page, of all people or of `only` this one."""
        checked = self._cross_check()
        with self._lock:
            people = people_progress(
                self.record, self.assignments, online=self._here, today=start_of_day(time.time()), only=only
            )
            notes, data_notes = (self.assignments.notes(), self.growth.notes) if only is None else ((), ())
            return progress.progress(
                self._state, self._training,
                people=people, checked=checked, notes=notes, data_notes=data_notes, only=only,
            )  # fmt: skip

    def _cross_check(self) -> Guesswork | None:
        """What the labels say of each other, once for every model, where its audit items do not show it."""
        with self._lock:
            if not progress.needs_cross_check(self._state):
                return None
            version, known = self.models.version, self._cross_checked
            given = LabelsToReview.of(self.record)
        if known is None or known[0] != version:
            known = self._cross_checked = (version, progress.cross_check(self.project.features, given))
        return known[1]

    def why(self, item: int, only: str | None = None) -> Why:
        with self._lock:
            self._require_item(item)
            return views.explain_item(self._state, item, only)

    def copies(self, item: int) -> Copies:
        """The near-copies of an item. They are looked for without the lock: the first time it takes a second or two."""
        with self._lock:
            self._require_item(item)
        near = self._near_copies.of(item)
        with self._lock:
            return show_copies(self._state, item, near)

    def look_at_labels(self) -> None:
        """Count the labels that are worth a review. It may fail: nothing else depends on it."""
        try:
            self.review(0)
        except Exception:
            log.exception("surprising labels could not be counted")

    def review(self, n: int = 50) -> list[Doubt]:
        """Labels that the other labels speak against, worst first. They are judged without the lock: it takes long."""
        with self._lock:
            given = LabelsToReview.of(self.record)
        suspects = find_suspects(self.project.features, given)
        with self._lock:
            self.suspicious = len(suspects)
            return views.doubts(self._state, suspects[:n])

    def disputes(self, wanted: Wanted) -> DisputeList:
        """Items on which people differ or did, with what everybody said of them."""
        with self._lock:
            label, other = (
                None if each is None else self._require_class(each) for each in (wanted.label, wanted.other)
            )
            wanted = replace(wanted, label=label, other=other)
            return list_disputes(self.record, wanted, partial(views.show_item, self.project))

    def likely(self, label: int, n: int = 20) -> list[Likely]:
        with self._lock:
            return views.likely_items(self._state, self._require_class(label), n)

    def calibration(self) -> Calibration:
        """What the confidences that are shown are calibrated by."""
        with self._lock:
            return views.calibration_shown(self._state)

    def grid(self, label: int, at_most: int = 20, annotator: str | None = None) -> GridOffer:
        """The likely items of a class to confirm at once: as many as can be believed, of those for this annotator."""
        with self._lock:
            among, left = self.assignments.grid_rows(annotator)
            return views.grid_offer(self._state, self._require_class(label), min(at_most, left), among)

    def map_colours(self) -> tuple[str, bytes]:
        """What the map is coloured by, and a name for it."""
        return map_colours(self.browser.overview())

    def history(self, annotator: str, n: int = 50) -> list[Entry]:
        check_name(annotator)
        with self._lock:
            return views.history(self.record, annotator, n)

    def card(self, item: int, only: str | None = None) -> ItemCard:
        """All that is known of an item, or what `only` this person said of it."""
        with self._lock:
            self._require_item(item)
            return views.item_card(self._state, item, only)

    @property
    def lock(self) -> threading.RLock:
        """Held while something changes; views that take long hold it only where they must."""
        return self._lock

    @property
    def version(self) -> int:
        return self._version

    @property
    def online(self) -> list[str]:
        """The names of those who have the page open."""
        return sorted(self.record.people.names_of(self._here))

    @property
    def _here(self) -> list[str]:
        return [person for person, count in self._online.items() if count > 0]

    def lease_of(self, annotator: str) -> tuple[int, int] | None:
        """The item that is leased to an annotator, and the number of the event by which it was; None for nothing.

        Also None while somebody else holds the lock for long: what comes of that is news again.
        """
        if not self._lock.acquire(timeout=SECONDS_FOR_NEWS):
            return None
        try:
            held = self.record.held_by(annotator)
            return (held[0].item, held[0].seq) if held else None
        finally:
            self._lock.release()

    # -- who is here, what is new -------------------------------------------------------------------------

    def arrive(self, annotator: str) -> None:
        """Note that an annotator is here, once more if they are already."""
        with self._lock:
            self._online[annotator] += 1
        self._note_change()

    def leave(self, annotator: str) -> None:
        """Note that an annotator has gone, as often as they came."""
        with self._lock:
            self._online[annotator] -= 1
        self._note_change()

    def wait_for_change(self, version: int, timeout: float) -> int:
        """Block until something has changed since this version, or the time is over; the version now."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version or self._closed, timeout)
            if (lines := self._slow_or_lost()) != self._last_slow_or_lost:  # nobody says when that changes
                self._last_slow_or_lost = lines
                self._version += 1
            return self._version

    def _note_change(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def announce(self, url: str) -> None:
        """Say where the project is served to whoever tries to open it a second time."""
        self._log.lock(url)

    def seal(self) -> None:
        """Store nothing any more, as nobody has decided anything: the project is about to begin anew."""
        with self._lock:
            require_untouched(self.record, str(self.project.folder))
            self._closed = True

    def close(self) -> None:
        """Stop training and close the log. Every decision is in it."""
        self.growth.stop()
        self.learning.stop()
        self.map.stop()
        with self._lock:
            self._closed = True
            self._log.close()
        self._note_change()


def _when(ago: float) -> dict[str, float]:
    """When a decision was made that had to wait, for its event; nothing where it came at once.

    An annotator's clock may be wrong, so only how long it waited counts: never less than nothing, a year at most.
    """
    waited = min(ago, MAX_WAIT_SECONDS)
    return {"given_at": time.time() - waited} if waited >= MIN_WAIT_SECONDS else {}


def _require_same(stored: Event, sent: Event) -> None:
    """Refuse a key that comes with something else than it came with before."""

    def essence(event: Event) -> tuple[Any, ...]:
        kind = SAME_KIND.get(event.kind, event.kind)
        return kind, event.item, *(event.data.get(name) for name in ESSENCE)

    if essence(stored) != essence(sent):
        raise Conflict(f"the key {sent.key!r} was used for something else; make a new one for every decision")


def _check_call(annotator: str, key: str) -> None:
    check_name(annotator)
    if not 1 <= len(key) <= MAX_NAME_LENGTH or not key.isprintable():
        raise UnderstudyError(f"a key must have 1 to {MAX_NAME_LENGTH} printable characters; got {key!r}")


def check_name(annotator: str) -> None:
    if not 1 <= len(annotator) <= MAX_NAME_LENGTH or make_printable(annotator) != annotator or not annotator.strip():
        raise UnderstudyError(
            f"an annotator's name must have 1 to {MAX_NAME_LENGTH} printable characters; got {annotator!r}"
        )
