"""What the readers of labels find, entry by entry: a label of a row, or why there is none."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from understudy.data.items import printable, spelt_out
from understudy.data.labels import checked_class
from understudy.errors import UnderstudyError

LONGEST_ANNOTATOR: Final = 64
LATEST: Final = 253_402_300_799.0  # the last second of the year 9999
MILLISECONDS: Final = 1e11  # numbers above this count milliseconds: as seconds they are in the year 5138


@dataclass(frozen=True)
class FoundLabel:
    """A label of a row of the pool."""

    row: int
    label: str
    annotator: str | None = None
    at: float | None = None


@dataclass(frozen=True)
class Trouble:
    """An entry that gives no label, by the name it has in its file."""

    kind: Literal["not in the pool", "ambiguous", "broken", "no text", "unlabelled"]
    name: str


@dataclass(frozen=True)
class LabelsFrom:
    """The column, or the question, whose answers a reader takes for labels."""

    name: str


Entry = FoundLabel | Trouble | LabelsFrom  # what a reader yields


def settled(
    rows: frozenset[int], name: str, label: str | None, annotator: str | None, at: float | None
) -> FoundLabel | Trouble:
    """The label of the one row that is meant. A `label` of None is none that a class can have; "" is none at all."""
    if label is None:
        return Trouble("no text", name)
    if not label:
        return Trouble("unlabelled", name)
    if has_unseen(label):
        return Trouble("broken", f"{name}: its label has characters that cannot be seen")
    if not rows:
        return Trouble("not in the pool", name)
    if len(rows) > 1:
        return Trouble("ambiguous", name)
    try:
        return FoundLabel(next(iter(rows)), checked_class(label), annotator, at)
    except UnderstudyError:
        return Trouble("no text", name)


def has_unseen(value: object) -> bool:
    """Whether a text has characters in it, such as NUL, that no name of a class may have."""
    return isinstance(value, str) and printable(value.strip()) != value.strip()


def annotator_name(value: object) -> str | None:
    """Who labelled, as a name that a session takes."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    name = "".join(sign if sign.isprintable() else spelt_out(sign) for sign in str(value).strip())
    return name[:LONGEST_ANNOTATOR].strip() or None


def seconds_since_1970(value: object) -> float | None:
    """A time out of a file: ISO 8601 (UTC where it does not say), or a number of seconds or milliseconds."""
    if isinstance(value, str):
        value = _parsed_time(value.strip())
    if isinstance(value, datetime):
        try:
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        except (OverflowError, ValueError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    seconds = value / 1000 if value > MILLISECONDS else float(value)
    return seconds if seconds <= LATEST else None


def _parsed_time(text: str) -> datetime | float | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
