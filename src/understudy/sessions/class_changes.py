"""Changing the classes of a project: which changes are possible, each in a sentence, and the command `classes`."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from rich.table import Table

from understudy.data.class_names import check_class, find_look_alike
from understudy.data.items import make_printable
from understudy.errors import Conflict, NotFound, UsageError
from understudy.labels.imported_labels import MAX_CLASSES
from understudy.messages import list_some
from understudy.projects.project_file import existing_folder, read_info, store_url_of
from understudy.sessions.classes import CHANGEABLE
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.record import Record

MAX_DESCRIPTION_LENGTH: Final = 500  # characters
MAX_EXAMPLES: Final = 12
COLOUR: Final = "#[0-9a-fA-F]{6}"
SHORTCUT: Final = r"(Shift\+)?[a-z0-9]"  # as the page calls its keys


def check_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a class is to be changed to, each value of its kind; "" takes a key or a colour away."""
    unknown = sorted(name for name in values if name not in CHANGEABLE)
    if unknown:
        raise UsageError(f"a class has no {unknown[0]}; what can be changed is {', '.join(CHANGEABLE)}")
    checks: dict[str, Callable[[Any], Any]] = {
        "name": check_class,
        "shortcut": check_shortcut,
        "colour": check_colour,
        "description": check_description,
        "hidden": bool,
        "examples": _check_examples,
    }
    return {name: checks[name](value) for name, value in values.items()}


def check_shortcut(value: str) -> str | None:
    """The key of a class; None for "", which takes it away."""
    if value and not re.fullmatch(SHORTCUT, value):
        raise UsageError(f"the key of a class must be a letter or a digit, q or Shift+1 say; got {value!r}")
    return value or None


def check_colour(value: str) -> str | None:
    """The colour of a class; None for "", which takes it away."""
    if value and not re.fullmatch(COLOUR, value):
        raise UsageError(f"a colour must be # and six digits from 0 to f, #c03060 say; got {value!r}")
    return value.lower() or None


def check_description(value: str) -> str:
    """The description of a class, in one line."""
    text = " ".join(value.split())
    if len(text) > MAX_DESCRIPTION_LENGTH:
        raise UsageError(f"a description has at most {MAX_DESCRIPTION_LENGTH} characters; this one has {len(text):,}")
    if make_printable(text) != text:
        raise UsageError(f"the description has characters that cannot be seen: {make_printable(text)}; take them out")
    return text


def _check_examples(items: Any) -> list[int]:
    if len(items) > MAX_EXAMPLES:
        raise UsageError(f"a class has at most {MAX_EXAMPLES} examples; got {len(items)}")
    return list(dict.fromkeys(items))


def check_new_class(record: Record, name: str, *, alike: bool = False) -> None:
    """An error where a class of this name cannot be added: there is one, or one that is easily taken for it."""
    _require_free_name(record, name, None, alike)
    if len(record.class_table.alive) >= MAX_CLASSES or len(record.classes) > 2 * MAX_CLASSES:
        raise Conflict(f"there are {MAX_CLASSES:,} classes already, the most that are possible")


def possible_change(record: Record, event: Event, *, alike: bool = False) -> Event | None:
    """The event as it is to be stored; None where all is as it should be already, an error where it cannot be done."""
    data = event.data
    if event.kind == "classes_reordered":
        return _possible_order(record, event)
    number = data["class"]
    _require_alive(record, number)
    if event.kind == "class_changed":
        return _possible_values(record, event, alike)
    if event.kind == "class_merged":
        _require_alive(record, data["into"])
        if data["into"] == number:
            raise Conflict(f"{record.classes[number]!r} cannot be merged into itself; choose another class")
    return event


def _possible_values(record: Record, event: Event, alike: bool) -> Event | None:
    number = event.data["class"]
    now = record.class_table.classes[number]
    values = {name: event.data[name] for name in CHANGEABLE if name in event.data}
    before = {name: list(now.examples) if name == "examples" else getattr(now, name) for name in values}
    if values == before:
        return None
    if values.get("name", now.name) != now.name:
        _require_free_name(record, values["name"], number, alike)
    for other in record.class_table.alive:
        taken = record.class_table.classes[other]
        if other != number and taken.shortcut is not None and taken.shortcut == values.get("shortcut"):
            raise Conflict(f"the key {taken.shortcut} is that of {taken.name!r}; choose another, or take it from there")
    for item in values.get("examples", ()):
        if not 0 <= item < record.n_items:
            raise NotFound(f"there is no item {item}; there are {record.n_items:,}, numbered from 0")
    return replace(event, data={**event.data, **({"before": now.name} if "name" in values else {})})


def _possible_order(record: Record, event: Event) -> Event | None:
    order, alive = list(event.data["order"]), record.class_table.alive
    if sorted(order) != sorted(alive):
        raise Conflict("the classes have changed meanwhile; look at them again, and put them in order then")
    return None if order == alive else event


def _require_alive(record: Record, number: int) -> None:
    if not 0 <= number < len(record.classes):
        raise NotFound(f"there is no class {number}; there are {len(record.classes)}, numbered from 0")
    if not record.class_table.lives(number):
        raise Conflict(f"{why_gone(record, number)}; take that back first")


def _require_free_name(record: Record, name: str, number: int | None, alike: bool) -> None:
    others = [record.classes[other] for other in record.class_table.alive if other != number]
    if name in others:
        raise Conflict(f"there already is a class {name!r}; use it, or give another name")
    if not alike and (twin := find_look_alike(name, others)) is not None:
        raise Conflict(
            f"there is a class {twin!r}, which is easily taken for {name!r}; use it, or say that both are meant"
        )


def why_gone(record: Record, number: int) -> str:
    """What became of a class that is not there any more."""
    gone = record.class_table.classes[number]
    if gone.gone == "merged" and gone.into is not None:
        return f"the class {gone.name!r} was merged into {record.classes[gone.into]!r}"
    return f"the class {gone.name!r} was {gone.gone}"


def describe_change(record: Record, event: Event) -> str:
    """A change of classes in a sentence, with the names of today."""
    data, names = event.data, record.classes
    if event.kind == "undone":
        return f"Taken back: {describe_change(record, record.class_events[data['undoes']])}"
    if event.kind == "class_added":
        return f"“{data['name']}” was added."
    if event.kind == "classes_reordered":
        return "The classes were put in another order."
    name = names[data["class"]]
    if event.kind == "class_merged":
        return f"“{name}” was merged into “{names[data['into']]}”."
    if event.kind == "class_removed":
        return f"“{name}” was removed, and its labels with it."
    if "name" in data:
        return f"“{data['before']}” was renamed “{data['name']}”."
    if "hidden" in data:
        return f"“{name}” was hidden." if data["hidden"] else f"“{name}” is shown again."
    what = {"shortcut": "key", "colour": "colour", "description": "description", "examples": "examples"}
    return f"“{name}”: {' and '.join(word for key, word in what.items() if key in data)} changed."


# -- of a project that nobody serves ---------------------------------------------------------------------------


FORMS: Final = {  # how each change is written on the command line
    "add": "add NAME",
    "rename": "rename CLASS NAME",
    "merge": "merge CLASS INTO",
    "remove": "remove CLASS",
    "hide": "hide CLASS",
    "show": "show CLASS",
    "order": "order CLASS CLASS ...",
    "key": "key CLASS KEY",
    "colour": "colour CLASS #RRGGBB",
    "describe": "describe CLASS TEXT",
    "undo": "undo",
}
VALUES: Final = {"rename": "name", "key": "shortcut", "colour": "colour", "describe": "description"}


def list_classes(source: str, *, store: str | None = None) -> Record:
    """The record of a project, also while people label."""
    folder = existing_folder(source)
    info = read_info(folder)
    with closing(EventLog.open(store_url_of(folder, info.store, store), info.identity, read_only=True)) as log:
        return Record.from_events(log.read())


def change_classes(
    source: str, words: Sequence[str], *, alike: bool = False, store: str | None = None
) -> tuple[Record, str]:
    """Make one change of classes, written as in `FORMS`; the record then, and the change in a sentence."""
    folder = existing_folder(source)
    info = read_info(folder)
    with closing(EventLog.open(store_url_of(folder, info.store, store), info.identity)) as log:
        try:
            log.lock()
        except Conflict as error:
            raise Conflict(f"{error}. Its page changes classes too") from error
        record = Record.from_events(log.read())
        if not record.seq:
            raise UsageError(f"{folder} was never labelled; give its classes with: understudy label --classes")
        event = _read_change(record, words, alike)
        if event is None:
            return record, "Nothing to change: the classes are like that already."
        [stored] = log.append(event)
        record.apply(stored)
    return record, describe_change(record, stored)


def _read_change(record: Record, words: Sequence[str], alike: bool) -> Event | None:
    """The event that these words mean; None where nothing would change."""
    verb, *rest = words
    if verb not in FORMS or not _fits(verb, rest):
        raise UsageError(f"write one of: {'; '.join(FORMS.values())}" if verb not in FORMS else f"write {FORMS[verb]}")
    if verb == "add":
        name = check_class(rest[0])
        check_new_class(record, name, alike=alike)
        return Event("class_added", data={"name": name})
    if verb == "undo":
        return _undo_last(record)
    if verb == "order":
        named = [_number_of(record, name) for name in rest]
        others = [number for number in record.class_table.alive if number not in named]
        return possible_change(record, Event("classes_reordered", data={"order": [*named, *others]}))
    number = _number_of(record, rest[0])
    if verb == "merge":
        return possible_change(
            record, Event("class_merged", data={"class": number, "into": _number_of(record, rest[1])})
        )
    if verb == "remove":
        return possible_change(record, Event("class_removed", data={"class": number}))
    values = {"hidden": verb == "hide"} if verb in ("hide", "show") else {VALUES[verb]: rest[1]}
    event = Event("class_changed", data={"class": number, **check_values(values)})
    return possible_change(record, event, alike=alike)


def _fits(verb: str, rest: Sequence[str]) -> bool:
    """Whether a change has as many words as it needs."""
    return len(rest) >= 1 if verb == "order" else len(rest) == len(FORMS[verb].split()) - 1


def _number_of(record: Record, name: str) -> int:
    number = record.class_table.number_of(name)
    if number is None:
        alive = [record.classes[each] for each in record.class_table.alive]
        raise NotFound(f"there is no class {make_printable(name)!r}; there are {list_some(alive, 10)}")
    return number


def _undo_last(record: Record) -> Event:
    """The event that takes back the last change that can be."""
    changes = [event for event in record.class_events.values() if event.seq not in record.undone]
    last = next((event for event in reversed(changes) if record.reason_to_keep(event) is None), None)
    if last is None:
        raise Conflict("there is no change of classes to take back")
    return Event("undone", data={"undoes": last.seq, "what": last.kind})


def classes_as_rows(record: Record) -> list[dict[str, Any]]:
    """The classes in the order they are shown in, as plain values."""
    return [
        {
            "number": number,
            "name": each.name,
            "labels": record.class_counts[number],
            "key": each.shortcut,
            "colour": each.colour,
            "hidden": each.hidden,
            "description": each.description,
            "examples": list(each.examples),
        }
        for number, each in ((number, record.class_table.classes[number]) for number in record.class_table.alive)
    ]


def classes_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each class."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("class", "labels", "key", "colour", ""):
        shown.add_column(title, justify="right" if title == "labels" else "left")
    shown.add_column("description")
    for row in rows:
        hidden = "hidden" if row["hidden"] else ""
        shown.add_row(
            row["name"], f"{row['labels']:,}", row["key"] or "", row["colour"] or "", hidden, row["description"]
        )
    return shown
