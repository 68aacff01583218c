"""Many items decided at once: the events of a selection, which one undo takes back together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from understudy.errors import Conflict, UnderstudyError
from understudy.messages import count_of
from understudy.sessions.log.events import Event, Kind, PutBack
from understudy.sessions.record import Decisions, Record

Action = Literal["label", "flag", "unflag", "bad", "put_back"]
MAX_ITEMS: Final = 5_000  # decided in one call
KIND_OF: Final[Mapping[Action, Kind]] = {
    "label": "labelled", "flag": "flagged", "unflag": "flagged", "bad": "bad", "put_back": "put_back",
}  # fmt: skip
MakeLabel = Callable[[int, dict[str, Any]], Event]  # item and data of a label: its event


@dataclass(frozen=True)
class BulkDecision:
    """What is decided about several items: a label, a flag with its note, or what is to be put back."""

    action: Action
    items: tuple[int, ...]
    label: int | None = None
    note: str = ""
    what: PutBack = "any"

    def check(self) -> None:
        """An error where it is not something that can be decided."""
        if not 1 <= len(self.items) <= MAX_ITEMS or len(set(self.items)) < len(self.items):
            raise UnderstudyError(f"give 1 to {MAX_ITEMS:,} different items at once; got {len(self.items):,}")
        if (self.action == "label") != (self.label is not None):
            needs = "needs a label; give the number or the name of a class"
            raise UnderstudyError(
                f"the action label {needs}" if self.label is None else f"the action {self.action} takes no label"
            )

    @property
    def data(self) -> dict[str, Any]:
        """What its events say."""
        if self.action == "label":
            return {"label": self.label}
        if self.action in ("flag", "unflag"):
            return {"on": self.action == "flag", "note": self.note if self.action == "flag" else ""}
        return {"what": self.what} if self.action == "put_back" else {}

    def event_like(self, known: Event, annotator: str, key: str) -> Event:
        """The event that stands for the whole call when it is sent again, like the one that was stored first."""
        is_label = self.action == "label" and known.kind == "settled"
        kind: Kind = "settled" if is_label else KIND_OF[self.action]
        note = {"note": ""} if is_label else {}
        return Event(kind, known.item, annotator, key, {**self.data, **note, "items": list(self.items)})


def bulk_events(
    record: Record,
    decision: BulkDecision,
    annotator: str,
    key: str,
    make_label: MakeLabel,
    *,
    may_overrule: bool,
    when: Mapping[str, float],
) -> list[Event]:
    """An event for every item that the decision changes, the first with the key; Conflict where it changes none.

    A label for an item that others labelled is that of a review, which has the last word, if the annotator
    `may_overrule` them; otherwise it is one label among theirs. An item that was settled is settled anew: a review
    would not count beside a settlement.
    """
    data = {**decision.data, "batch": key, **when}
    events = []
    for item in decision.items:
        found = record.decisions(item)
        if not _changes(record, decision, item, found, annotator, may_overrule):
            continue
        if decision.action == "label" and may_overrule and found.settled and found.settled.label != decision.label:
            events.append(Event("settled", item, annotator, None, {**data, "note": ""}))
        elif decision.action == "label":
            is_review = may_overrule and any(who != annotator for who in found.marks)
            events.append(make_label(item, {**data, "source": "review" if is_review else "browse"}))
        else:
            events.append(Event(KIND_OF[decision.action], item, annotator, None, data))
    if not events:
        raise Conflict(_nothing_to_do(record, decision))
    first = events[0]
    return [
        Event(first.kind, first.item, annotator, key, {**first.data, "items": list(decision.items)}),
        *events[1:],
    ]


def _changes(
    record: Record, decision: BulkDecision, item: int, found: Decisions, annotator: str, may_overrule: bool
) -> bool:
    """Whether a decision says something new of an item."""
    if decision.action == "label":
        mark = found.marks.get(annotator)
        is_said = mark is not None and mark.label == decision.label
        return not is_said or (may_overrule and record.label_of(item) != decision.label)
    if decision.action == "flag":
        return found.flags.get(annotator) != decision.note
    if decision.action == "unflag":
        return annotator in found.flags
    if decision.action == "bad":
        return annotator not in found.bad
    return any(kept for name, kept in _kept_aside(found).items() if decision.what in (name, "any"))


def _kept_aside(found: Decisions) -> dict[PutBack, Mapping[str, object]]:
    return {"skipped": found.skipped, "dont_know": found.unknown, "bad": found.bad, "flagged": found.flags}


def _nothing_to_do(record: Record, decision: BulkDecision) -> str:
    count = count_of(len(decision.items), "item")
    if decision.action == "label":
        assert decision.label is not None
        return f"nothing to do: {count} labelled {record.classes[decision.label]!r} by you already"
    if decision.action == "put_back":
        aside = "skipped, not known, bad or flagged"
        of = aside if decision.what == "any" else decision.what.replace("dont_know", "not known")
        return f"nothing to put back: of {count}, none is {of}"
    said = {"flag": "flagged by you with this note already", "unflag": "not flagged by you", "bad": "bad already"}
    return f"nothing to do: {count} {said[decision.action]}"
