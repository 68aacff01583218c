"""What an import finds: each entry's label or why it has none, and what a whole file of them adds up to."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from understudy.data.class_names import check_class, find_look_alikes
from understudy.data.items import make_printable, spell_out
from understudy.errors import Conflict, UnderstudyError
from understudy.messages import count_of, list_some

MAX_ANNOTATOR_CHARACTERS: Final = 64
MAX_SECONDS: Final = 253_402_300_799.0  # the last second of the year 9999
MILLISECONDS_ABOVE: Final = 1e11  # numbers above this count milliseconds: as seconds they are in the year 5138
NAMES_PER_TALLY: Final = 10
USUAL_NEW_CLASSES: Final = 50  # up to so many new classes need no confirmation
USUAL_LABELS_PER_CLASS: Final = 10  # nor do more of them, if each has so many labels on average
MAX_CLASSES: Final = 10_000


@dataclass(frozen=True)
class ImportedLabel:
    """The label that a file gives a row of the pool. `at` is seconds since 1970."""

    row: int
    label_name: str
    annotator: str | None = None
    at: float | None = None


@dataclass(frozen=True)
class UnusableEntry:
    """An entry that gives no label, by the name it has in its file."""

    reason: Literal["not in the pool", "ambiguous", "broken", "no text", "unlabelled"]
    name: str


@dataclass(frozen=True)
class LabelColumn:
    """The column, or the question of Label Studio, that a reader takes the labels from."""

    name: str


ImportEntry = ImportedLabel | UnusableEntry | LabelColumn  # what a reader yields


@dataclass(frozen=True)
class Tally:
    """How many there are of a kind, and the first of them by name."""

    count: int = 0
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Imported:
    """The labels of a file, one for each item and annotator, in the order of the file; and what could not be used.

    `new_classes` are the labels that are not classes yet, in order of appearance: whether they become classes is for
    the caller to decide.
    """

    labels: list[ImportedLabel]
    new_classes: tuple[str, ...]
    unlabelled: int  # entries that say nothing: no label, skipped, cancelled
    repeated: int  # an annotator's earlier labels of an item that the file labels again
    not_in_pool: Tally
    ambiguous: Tally  # entries that may mean several items
    broken: Tally  # lines that cannot be read
    no_text: Tally  # labels that are not the name of one class
    column: str = ""  # where the labels come from: a column, or a question of Label Studio
    many_classes: bool = False  # whoever imports insists on the new classes, however many
    alike: bool = False  # and on those that are easily taken for others


def label_of_entry(
    rows: frozenset[int], name: str, label: str | None, annotator: str | None = None, at: float | None = None
) -> ImportedLabel | UnusableEntry:
    """The entry's label of the one row that it means, or why it has none.

    `label` is "" where the entry gives none, and None where what it gives cannot be the name of a class.
    """
    if label is None:
        return UnusableEntry("no text", name)
    if not label:
        return UnusableEntry("unlabelled", name)
    if has_unseen(label):
        return UnusableEntry("broken", f"{name}: its label has characters that cannot be seen")
    if not rows:
        return UnusableEntry("not in the pool", name)
    if len(rows) > 1:
        return UnusableEntry("ambiguous", name)
    try:
        return ImportedLabel(next(iter(rows)), check_class(label), annotator, at)
    except UnderstudyError:
        return UnusableEntry("no text", name)


def has_unseen(value: object) -> bool:
    """Whether a text has invisible characters, such as NUL, which the name of a class may not have."""
    return isinstance(value, str) and make_printable(value.strip()) != value.strip()


def annotator_name(value: object) -> str | None:
    """Who labelled, as a name that a session accepts."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    name = "".join(sign if sign.isprintable() else spell_out(sign) for sign in str(value).strip())
    return name[:MAX_ANNOTATOR_CHARACTERS].strip() or None


def seconds_since_1970(value: object) -> float | None:
    """A time in a file: ISO 8601 (UTC where it names no zone), or a number of seconds or milliseconds."""
    if isinstance(value, str):
        value = _parse_time(value.strip())
    if isinstance(value, datetime):
        try:
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        except (OverflowError, ValueError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    seconds = value / 1000 if value > MILLISECONDS_ABOVE else float(value)
    return seconds if seconds <= MAX_SECONDS else None


def _parse_time(text: str) -> datetime | float | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def gather_entries(entries: Iterable[ImportEntry], classes: Sequence[str]) -> Imported:
    """The labels of all entries; of an annotator's several labels of one item, the last."""
    labels: dict[tuple[int, str | None], ImportedLabel] = {}
    unusable: dict[str, list[str]] = {}
    repeated, column = 0, ""
    for entry in entries:
        match entry:
            case LabelColumn():
                column = entry.name
            case UnusableEntry():
                unusable.setdefault(entry.reason, []).append(entry.name)
            case ImportedLabel():
                key = entry.row, entry.annotator
                repeated += labels.pop(key, None) is not None
                labels[key] = entry
    names = dict.fromkeys(label.label_name for label in labels.values())
    known = frozenset(classes)

    def tally(reason: str) -> Tally:
        found = unusable.get(reason, [])
        return Tally(len(found), tuple(found[:NAMES_PER_TALLY]))

    return Imported(
        labels=list(labels.values()),
        new_classes=tuple(name for name in names if name not in known),
        unlabelled=len(unusable.get("unlabelled", [])),
        repeated=repeated,
        not_in_pool=tally("not in the pool"),
        ambiguous=tally("ambiguous"),
        broken=tally("broken"),
        no_text=tally("no text"),
        column=column,
    )


def check_new_classes(imported: Imported, classes: Sequence[str]) -> None:
    """An error where the labels do not look like classes: each would have to be removed again by hand."""
    new = len(set(imported.new_classes) - set(classes))
    total = len(set(classes)) + new
    is_usual = new <= max(USUAL_NEW_CLASSES, len(imported.labels) // USUAL_LABELS_PER_CLASS)
    if new == 0 or (total <= MAX_CLASSES and (is_usual or imported.many_classes)):
        if not imported.alike:
            _check_look_alikes(imported, classes)
        return
    used = f"the column {make_printable(imported.column)!r}" if imported.column else "the folders"
    made = f"{count_of(new, 'new class', 'new classes')} of {count_of(imported.labels, 'label')}"
    names = list_some(make_printable(name[:40]) for name in imported.new_classes)
    remedy = "choose another column with: understudy import --columns label=NAME"
    remedy += ", or insist with --many-classes" if total <= MAX_CLASSES else f"; a project has at most {MAX_CLASSES:,}"
    raise UnderstudyError(f"{used} would make {made} ({names}); {remedy}")


def _check_look_alikes(imported: Imported, classes: Sequence[str]) -> None:
    """An error where a new class is easily taken for another: rarely are both meant."""
    for name, other in find_look_alikes(imported.new_classes, classes)[:1]:
        new, old = make_printable(name), make_printable(other)
        raise Conflict(
            f"the file would make the class {new!r}, which is easily taken for {old!r}; mend the file, or import it "
            "with --alike if both are meant"
        )
