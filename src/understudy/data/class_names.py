"""Names of classes: checked, numbered, and matched with the labels of a source, typing errors included."""

import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

import numpy as np

from understudy.data.faults import Fault
from understudy.data.items import make_printable
from understudy.data.pool import UNLABELLED
from understudy.errors import UnderstudyError, UsageError

MAX_SUGGESTIONS: Final = 20  # labels for which the nearest class is looked up: with many classes that is slow
MAX_NAME_LENGTH: Final = 200  # characters of a class
OVERLOOKED: Final = frozenset({"Mn", "Me", "Zs", "Cf"})  # accents, blanks, and characters of no width
FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and signs that show nothing
MAX_CLASSES: Final = 100_000  # numbers beyond this are identities or hashes rather than classes


def sorted_classes(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct names but "", in order; where all are whole numbers, in the order of numbers."""
    found = set(names) - {""}
    if all(name.isascii() and name.isdigit() for name in found):
        return tuple(sorted(found, key=lambda name: (int(name), name)))
    return tuple(sorted(found))


def number_classes(*columns: np.ndarray) -> tuple[str, ...]:
    """The classes "0" to "c-1" for columns of numbers."""
    highest = max((int(column.max()) for column in columns if len(column)), default=UNLABELLED)
    if highest >= MAX_CLASSES:
        raise UnderstudyError(f"a label is {highest:,}; number the classes from 0, or give their names as strings")
    return tuple(map(str, range(highest + 1)))


def whole_numbers(values: np.ndarray, name: str) -> np.ndarray:
    """A column of labels as int64, -1 where there is none; NaN counts as none."""
    # Out there is no class; what is too large for int64 stays too large.
    if values.dtype.kind == "f":
        given = np.where(np.isnan(values), UNLABELLED, values).astype(np.float64)
        broken = np.flatnonzero(~np.isfinite(given) | (given != np.floor(given)))
        if len(broken):
            raise UnderstudyError(f"{name} must be whole numbers or strings; row {broken[0]} is {values[broken[0]]}")
        values = np.clip(given, -(2.0**62), 2.0**62)
    elif values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(2**62))
    numbers = values.astype(np.int64)
    if len(numbers) and numbers.min() < UNLABELLED:
        row = int(np.argmin(numbers))
        raise UnderstudyError(f"{name} must be -1 (no label) or a class from 0 on; row {row} is {numbers[row]}")
    return numbers


def names_of(numbers: np.ndarray, classes: Sequence[str]) -> list[str]:
    """Numbers as the names of classes; "" for -1. A number that has no name stands for itself."""
    known = dict(enumerate(classes)) | {UNLABELLED: ""}
    return [known.get(number, str(number)) for number in numbers.tolist()]


def text_of(value: object) -> str | None:
    """A label out of a cell as text, "" where there is none; None where it is nothing a label can be."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return make_printable(str(value).strip()) if isinstance(value, str | int | float) else None


def rows_of(names: Sequence[str], classes: Sequence[str], items: Sequence[str]) -> tuple[np.ndarray, dict[int, Fault]]:
    """The labels (n,), and the faults of those that are not a known class."""
    place = {name: row for row, name in enumerate(classes)} | {"": UNLABELLED}
    unknown = unknown_names(names, classes)
    labels = np.array([place.get(name, UNLABELLED) for name in names], dtype=np.int64)
    faulty = {row: Fault(items[row], *unknown[name]) for row, name in enumerate(names) if name in unknown}
    return labels, faulty


def unknown_names(names: Iterable[str], classes: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The labels that are not a known class, each with its problem and its remedy; "" stands for none."""
    known = {*classes, ""}
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    return {
        name: _describe_unknown(name, classes, suggest=place < MAX_SUGGESTIONS) for place, name in enumerate(unknown)
    }


def _describe_unknown(name: str, classes: Sequence[str], suggest: bool = True) -> tuple[str, str]:
    """What is wrong with this label, and what to do about it."""
    near = get_close_matches(name, classes, n=1) if suggest else []
    remedy = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(classes[:10])}"
    return f"the label {name!r} is not a known class", remedy


def check_classes(names: object) -> tuple[str, ...]:
    """Names of classes that can be told apart on a page and in a file."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UsageError(f"classes must be a list of names; got {names!r}")
    known: dict[str, None] = {}
    for given in names:
        name = check_class(given)
        if name in known:
            raise UsageError(f"the class {name!r} is given more than once; classes must differ")
        known[name] = None
    return tuple(known)


def check_class(name: object) -> str:
    """The name of a class, without spaces around it; an error if it cannot be one."""
    if not isinstance(name, str):
        raise UsageError(f"the name of a class must be text; got {name!r}")
    stripped = name.strip()
    if not stripped:
        raise UsageError("the name of a class is empty; give it one")
    if len(stripped) > MAX_NAME_LENGTH:
        raise UsageError(
            f"the name of a class has {len(stripped):,} characters, {MAX_NAME_LENGTH} are the most: "
            f"{make_printable(stripped[:40])}...; shorten it"
        )
    if make_printable(stripped) != stripped:
        raise UsageError(
            f"the name of a class has characters that cannot be seen: {make_printable(stripped)}; take them out"
        )
    return stripped


def find_look_alike(name: str, names: Iterable[str]) -> str | None:
    """The first of these names that a person would take for this one: it differs in case, accents or blanks only."""
    wanted = _letters_of(name)
    return next((other for other in names if _letters_of(other) == wanted), None)


def find_look_alikes(new: Iterable[str], known: Iterable[str]) -> list[tuple[str, str]]:
    """The new names that are easily taken for a known one or for an earlier new one, each with that."""
    names = list(known)
    seen, there, found = {_letters_of(name): name for name in names}, set(names), list[tuple[str, str]]()
    for name in new:
        if name not in there:
            other = seen.setdefault(_letters_of(name), name)
            found += [(name, other)] if other != name else []
    return found


def _letters_of(name: str) -> str:
    """A name without what is easily overlooked; composed and decomposed characters are the same."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    seen = (sign for sign in plain if unicodedata.category(sign) not in OVERLOOKED and sign not in FILLERS)
    return "".join(seen) or name
