"""What can happen in a labelling project. The log of these is the truth; nothing in it is ever changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

Kind = Literal[
    "created",  # classes, n_items, seed, and the other settings of `Settings`
    "items_added",  # count: new items at the end of the pool
    "class_added",  # name
    "asked",  # lease (Ask), seconds, why, model: an item is handed to an annotator
    "labelled",  # label, source, guess, seconds, suggestion, model
    "relabelled",  # the same, and before: the annotator's label until now
    "skipped",  # not now
    "dont_know",  # this annotator cannot tell
    "bad",  # no item of this pool: broken, private, off topic
    "flagged",  # on, note: to be looked at by somebody
    "kept",  # label: looked at again in a review, and right as it is
    "put_back",  # what: "skipped" or "dont_know" items may be asked again
    "undone",  # undoes: the number of the event that did not happen
    "lease_expired",  # nobody answered in time
    "released",  # handed back
    "trained",  # model, predictions, until, labels, learner, source, seconds
    "training_failed",  # reason, until
]
Ask = Literal["choice", "audit", "second", "again"]  # by the strategy, by lot, for a second opinion, after a skip
Source = Literal["person", "grid", "review", "import"]

KINDS: Final = frozenset(get_args(Kind))
DECISIONS: Final = frozenset(
    {"labelled", "relabelled", "skipped", "dont_know", "bad", "flagged", "kept"}
)  # can be undone
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True)
class Event:
    """Something that happened. `seq` is its place in the log, from 1 on; 0 before it is stored.

    `at` is seconds since 1970 by the clock of the server: for people, never for decisions. `item` is a row of the pool.
    `key` is the client's name for a call, so that a call sent twice is one event.
    """

    kind: Kind
    item: int | None = None
    annotator: str | None = None
    key: str | None = None
    data: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    at: float = 0.0
    seq: int = 0
