"""Events as rows of a table and back. What no database could give back is refused here, in a line."""

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from understudy.errors import UnderstudyError
from understudy.messages import UPGRADE
from understudy.sessions.log.events import KINDS, Event

LONGEST: Final = 256  # characters of an annotator's name and of a key: an index of PostgreSQL holds 2,700 bytes
LARGEST: Final = 2**63 - 1

Values = dict[str, Any]


def rows_of(events: Sequence[Event]) -> list[Values]:
    """A row for each event, all but its number; `at` is now where it was not said."""
    now = time.time()
    rows = [_row_of(event, now) for event in events]
    keys = Counter((row["annotator"], row["key"]) for row in rows if row["key"] is not None)
    if twice := [key for (_, key), times in keys.items() if times > 1]:
        raise UnderstudyError(f"key {twice[0]!r} is given to two events at once; give it to the first only")
    return rows


def _row_of(event: Event, now: float) -> Values:
    if event.kind not in KINDS:
        raise UnderstudyError(f"{event.kind!r} is no kind of event; the kinds are {', '.join(sorted(KINDS))}")
    if event.seq:
        raise UnderstudyError(f"the event is stored already, as number {event.seq}; store a new one")
    if event.item is not None and not 0 <= event.item <= LARGEST:
        raise UnderstudyError(f"item is a row of the pool, 0 or more, but it is {event.item}")
    if not math.isfinite(event.at):
        raise UnderstudyError(f"the time of an event is seconds since 1970, but it is {event.at}")
    if event.key is not None and event.annotator is None:
        raise UnderstudyError(f"key {event.key!r} comes without an annotator; keys are an annotator's")
    return {
        "at": float(event.at) or now,
        "kind": event.kind,
        "item": event.item,
        "annotator": name(event.annotator, "an annotator's name"),
        "key": name(event.key, "a key"),
        "data": _json_of(event.data),
    }


def name(text: str | None, what: str) -> str | None:
    if text is None:
        return None
    if not 1 <= len(text) <= LONGEST:
        raise UnderstudyError(f"{what} has 1 to {LONGEST} characters, but this one has {len(text)}")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UnderstudyError(f"{what} holds characters that are no text: {text!r}; leave them out")
    return text


def _json_of(data: Mapping[str, Any]) -> str:
    """JSON in ASCII, in which any character survives any database."""
    try:
        _require_plain(data, "data")
        return json.dumps(dict(data), allow_nan=False, separators=(",", ":"), default=dict)
    except RecursionError:
        raise UnderstudyError("data of an event is nested too deep, or holds itself; make it flat") from None


def _require_plain(value: object, where: str) -> None:
    """One line unless JSON has this value and gives the same one back; tuples come back as lists."""
    if value is None or isinstance(value, str):
        return
    if isinstance(value, int):
        if not -LARGEST <= value <= LARGEST:
            raise UnderstudyError(f"{where} of an event is a number of {value.bit_length()} bits; write it as text")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise UnderstudyError(f"{where} of an event is {value}, which JSON does not have; use null")
    elif isinstance(value, Mapping):
        for key, held in value.items():
            if not isinstance(key, str):
                raise UnderstudyError(f"{where} of an event has the key {key!r}; keys are text")
            _require_plain(held, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for place, held in enumerate(value):
            _require_plain(held, f"{where}[{place}]")
    else:
        raise UnderstudyError(f"{where} of an event is a {type(value).__name__}; JSON has numbers, text, lists, dicts")


def event_of(row: Values) -> Event:
    if row["kind"] not in KINDS:
        raise UnderstudyError(
            f"event {row['seq']} of the log is of a kind that this version does not know ({row['kind']}); "
            f"upgrade: {UPGRADE}"
        )
    return Event(**{**row, "data": json.loads(row["data"])})
