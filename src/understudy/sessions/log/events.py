"""What can happen in a labelling project, and how it is written as rows of a table.

The log of these events is the truth; nothing in it is ever changed. What no database could give back is refused here.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from understudy.errors import UnderstudyError
from understudy.messages import UPGRADE

Kind = Literal[
    "created",  # classes, n_items, seed, and the other settings of `Settings`
    "restarted",  # as created: all before it is void, as nobody had decided anything; folder_labels: what was chosen
    "items_added",  # count: new items at the end of the pool; audit and turns: which of them are audit items, and when;
    # basis_rows: how many items the set-up is of that the surrogate begins with while there is no model
    "class_added",  # name; item: the one whose label it was made for, if it was
    "class_changed",  # class, and any of name (before: the last), shortcut, colour, description, hidden, examples
    "class_merged",  # class, into: the class that its labels and predictions count for from now on
    "class_removed",  # class: its labels and predictions do not count any more
    "classes_reordered",  # order: the numbers of the classes as they are to be shown
    "person_added",  # name: their id from now on; role
    "person_changed",  # person, and any of name (before: the last), role, retired, and what else is known of them
    "settings_changed",  # settings: the new values by name; audit: rows that are audit items from now on
    "encoder_changed",  # encoder, features: their version; models of before know other features
    "asked",  # lease (Ask), seconds, why, model: an item is handed to an annotator
    "labelled",  # label, source, guess, seconds, suggestion, model; given_at where a decision waited for the server;
    # probability: of a label that a model gave;
    # batch, items, left_out: of several that were labelled in one call, the last two with the first of them
    "relabelled",  # the same, and before: the annotator's label until now
    "skipped",  # not now
    "dont_know",  # this annotator does not know the class
    "bad",  # left out of everything: broken, private, off topic
    "flagged",  # on, note: to be looked at by somebody
    "kept",  # label: looked at again in a review, and right as it is
    "settled",  # label, note: a reviewer's last word about an item on which people differ
    "put_back",  # what (PutBack): all that is skipped or not known, or only `of` a person; with an item, only that one
    "undone",  # undoes: the number of the event that is taken back
    "lease_expired",  # nobody answered in time
    "released",  # handed back
    "trained",  # model, predictions, until, labels, learner, source, seconds; basis_rows: items that the basis is of
    "training_failed",  # reason, until
]
Ask = Literal["choice", "audit", "second", "again"]  # chosen by the surrogate, audit item, second opinion, skipped
Source = Literal["person", "grid", "copies", "review", "import", "browse", "model"]
# copies: answered along with a near-copy; browse: items that somebody picked from a list; model: nobody looked
PutBack = Literal["skipped", "dont_know", "bad", "flagged", "any"]  # what is taken away; without an item the first two

SOURCE_ANNOTATOR: Final = "source"  # who labelled what came with the data
KINDS: Final = frozenset(get_args(Kind))
DECISIONS: Final = frozenset(
    {"labelled", "relabelled", "skipped", "dont_know", "bad", "flagged", "kept", "settled"}
)  # can be undone
BESIDE_LEASES: Final = frozenset({"flagged", "kept", "settled", "put_back"})  # decisions that answer no question
CLASS_KINDS: Final = frozenset({"class_added", "class_changed", "class_merged", "class_removed", "classes_reordered"})
PEOPLE_KINDS: Final = frozenset({"person_added", "person_changed"})
NO_DATA: Final[Mapping[str, Any]] = MappingProxyType({})
MAX_TEXT_LENGTH: Final = 256  # of an annotator's name and of a key: an index of PostgreSQL holds 2,700 bytes
MAX_INTEGER: Final = 2**63 - 1

RowValues = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """Something that happened. `seq` is its number in the log, from 1 on; 0 before it is stored.

    `at` is seconds since 1970 by the clock of the server: for people, never for decisions. `item` is a row of the pool.
    `key` is the client's name for a call, so that a call sent twice is one event.
    """

    kind: Kind
    item: int | None = None
    annotator: str | None = None
    key: str | None = None
    data: Mapping[str, Any] = field(default_factory=lambda: NO_DATA)
    at: float = 0.0
    seq: int = 0

    @property
    def given_at(self) -> float:
        """When it was decided: earlier than `at` where a decision had to wait for the server. For people, too."""
        return float(self.data.get("given_at") or self.at)


def to_rows(events: Sequence[Event]) -> list[RowValues]:
    """A row for each event, without its number; `at` is now where it is not given."""
    now = time.time()
    rows = [_to_row(event, now) for event in events]
    keys = Counter((row["annotator"], row["key"]) for row in rows if row["key"] is not None)
    if twice := [key for (_, key), times in keys.items() if times > 1]:
        raise UnderstudyError(f"the key {twice[0]!r} comes with two events at once; give it to the first only")
    return rows


def _to_row(event: Event, now: float) -> RowValues:
    if event.kind not in KINDS:
        raise UnderstudyError(f"{event.kind!r} is not a kind of event; the kinds are {', '.join(sorted(KINDS))}")
    if event.seq:
        raise UnderstudyError(f"the event is stored already, as number {event.seq}; make a new one")
    if event.item is not None and not 0 <= event.item <= MAX_INTEGER:
        raise UnderstudyError(f"item must be a row of the pool, 0 or more; got {event.item}")
    if not math.isfinite(event.at):
        raise UnderstudyError(f"the time of an event must be in seconds since 1970; got {event.at}")
    if event.key is not None and event.annotator is None:
        raise UnderstudyError(f"key {event.key!r} comes without an annotator; give the annotator too")
    return {
        "at": float(event.at) or now,
        "kind": event.kind,
        "item": event.item,
        "annotator": check_text(event.annotator, "an annotator's name"),
        "key": check_text(event.key, "a key"),
        "data": _to_json(event.data),
    }


def check_text(text: str | None, what: str) -> str | None:
    """The text of a name or key, if every database can hold it."""
    if text is None:
        return None
    if not 1 <= len(text) <= MAX_TEXT_LENGTH:
        raise UnderstudyError(f"{what} must have 1 to {MAX_TEXT_LENGTH} characters; got {len(text)}")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UnderstudyError(f"{what} must be text, without null characters or surrogates; got {text!r}")
    return text


def _to_json(data: Mapping[str, Any]) -> str:
    """JSON in ASCII, in which any character survives any database."""
    try:
        _require_plain(data, "data")
        return json.dumps(dict(data), allow_nan=False, separators=(",", ":"), default=dict)
    except RecursionError:
        raise UnderstudyError("data of an event is nested too deeply, or contains itself; make it flat") from None


def _require_plain(value: object, where: str) -> None:
    """Refuse a value that JSON does not give back as it was; tuples, which come back as lists, are let through."""
    if value is None or isinstance(value, str):
        return
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise UnderstudyError(f"{where} of an event is a number of {value.bit_length()} bits; write it as text")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise UnderstudyError(f"{where} of an event is {value}, which JSON does not have; use null")
    elif isinstance(value, Mapping):
        for key, held in value.items():
            if not isinstance(key, str):
                raise UnderstudyError(f"{where} of an event has the key {key!r}; keys must be text")
            _require_plain(held, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for place, held in enumerate(value):
            _require_plain(held, f"{where}[{place}]")
    else:
        raise UnderstudyError(f"{where} of an event is a {type(value).__name__}; JSON has numbers, text, lists, dicts")


def from_row(row: RowValues) -> Event:
    """The event that a row of the table is."""
    if row["kind"] not in KINDS:
        raise UnderstudyError(
            f"event {row['seq']} of the log is of a kind that this version does not know ({row['kind']}); "
            f"upgrade: {UPGRADE}"
        )
    return Event(**{**row, "data": json.loads(row["data"])})
