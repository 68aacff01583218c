"""Labels out of a table: CSV, JSONL or Parquet with a column that names the item and one with its label."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyarrow import ArrowException, parquet

from understudy.data.columns import listed
from understudy.data.items import printable
from understudy.data.labels import text_of
from understudy.data.manifests import label_names
from understudy.data.tables import Table, read_table
from understudy.errors import UnderstudyError, UsageError
from understudy.labels.cells import restored
from understudy.labels.found_labels import (
    Entry,
    FoundLabel,
    LabelsFrom,
    Trouble,
    annotator_name,
    has_unseen,
    seconds_since_1970,
    settled,
)
from understudy.labels.matching import Matcher, agreed
from understudy.labels.outgoing import COLUMNS

# What a column is called that holds this. Compared without regard to case; the first that is there is taken.
USUAL: Final = {
    "id": ("id", "item_id"),
    "path": ("path", "file", "filename", "file_name", "image_path", "image", "item", "url"),
    "text": ("text", "sentence", "content", "document"),
    "label": ("label", "class", "category", "accept"),
    "annotator": ("annotator", "annotator_name", "_annotator_id", "labeller", "user"),
    "time": ("labelled_at", "labeled_at", "created_at", "timestamp", "_timestamp", "time", "date"),
    "decision": ("decision", "answer"),
}
CLUES: Final[tuple[str, ...]] = ("id", "path", "text")
TELLING: Final = frozenset({"", "label", "labelled", "accept"})  # decisions that stand for their label
SHOWN: Final = 12  # columns named in a message
MOST_ROWS: Final = 20_000_000
MOST_COLUMNS: Final = 1000
MOST_BYTES: Final = 2 * 2**30  # of a Parquet file when it is unpacked
SUFFIX: Final = re.compile(r"\.(csv|tsv|jsonl|ndjson|parquet)$", re.IGNORECASE)


def read_label_table(path: Path, matcher: Matcher, named: Mapping[str, str]) -> Iterator[Entry]:
    """Each row's label, or why it has none."""
    if not SUFFIX.search(path.name):
        raise UsageError(f"{path} should end in .csv, .jsonl or .parquet to be read as a table; rename it")
    chooser = Chooser()
    if path.suffix.lower() == ".parquet":
        _check_size(path)
    table = read_table(path, named, chooser)
    yield LabelsFrom(chooser.labels)
    for fault in table.faults:
        yield Trouble("broken", str(fault))
    if path.suffix.lower() in (".csv", ".tsv"):
        table = _unescaped(table, all_cells=chooser.is_ours)
    yield from _labels_in(table, matcher, chooser.is_ours)


class Chooser:
    """Which columns to use; and, once it was asked, the one of labels, and whether the file is one that we wrote."""

    def __init__(self) -> None:
        self.is_ours = False
        self.labels = ""

    def __call__(self, there: Sequence[str], named: Mapping[str, str], source: str) -> dict[str, str]:
        if len(there) > MOST_COLUMNS:
            raise UnderstudyError(
                f"{source} has {len(there):,} columns, {MOST_COLUMNS:,} are the most; keep those with items and labels"
            )
        self.is_ours = tuple(there[: len(COLUMNS)]) == COLUMNS
        wanted = {role: column for role, column in named.items() if role in USUAL}
        for column in wanted.values():
            if column not in there:
                raise UsageError(f"{source} has no column {column!r}; its columns are {_some(there)}")
        lower = {name.strip().lower(): name for name in reversed(there)}
        found = {
            role: wanted.get(role) or next((lower[name] for name in names if name in lower), None)
            for role, names in USUAL.items()
        }
        if found["id"] and "path" not in wanted and "item" in lower and found["path"] == lower["item"]:
            found["path"] = None  # beside an identity, `item` is a number of ours
        if not any(found[role] for role in CLUES):
            raise UsageError(
                f"{source} has no column that names items ({', '.join(USUAL['id'] + USUAL['path'])} or text); its "
                f"columns are {_some(there)}: name one, as in --columns id=NAME"
            )
        if not found["label"]:
            raise UsageError(
                f"{source} has no column of labels ({', '.join(USUAL['label'][:3])}); its columns are {_some(there)}: "
                "name one, as in --columns label=NAME"
            )
        self.labels = found["label"]
        return {role: column for role, column in found.items() if column}


def _some(names: Sequence[str]) -> str:
    """The first columns by name, for one line."""
    shown = listed([printable(name[:40]) for name in names[:SHOWN]])
    return f"{shown} and {len(names) - SHOWN:,} more" if len(names) > SHOWN else shown


def _check_size(path: Path) -> None:
    """A Parquet file may unpack to more than any machine has; what it says of itself is looked at first."""
    try:
        about = parquet.read_metadata(path)
    except (OSError, ArrowException) as error:
        raise UnderstudyError(f"{path} cannot be read ({' '.join(str(error).split())}); write it again") from error
    unpacked = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    if about.num_rows > MOST_ROWS or unpacked > MOST_BYTES:
        raise UnderstudyError(f"{path} has {about.num_rows:,} rows of {unpacked:,} bytes; cut it into smaller files")


def _unescaped(table: Table, all_cells: bool) -> Table:
    """The table without the apostrophes that keep a spreadsheet from running cells.

    In a file of ours every cell is restored. In others only labels, since somebody may have taken columns out of a
    file of ours; items are looked for as they are written first (`_rows_meant`), for a text may well begin so.
    """
    roles = table.values if all_cells else table.values.keys() & {"label"}
    values = {
        role: [restored(cell) if isinstance(cell, str) else cell for cell in cells] if role in roles else cells
        for role, cells in table.values.items()
    }
    return Table(values, table.names, table.faults, table.classes)


def _labels_in(table: Table, matcher: Matcher, is_ours: bool) -> Iterator[FoundLabel | Trouble]:
    values = dict(table.values)
    values["label"] = [_only(cell) for cell in values["label"]]
    labels = _class_names(Table(values, table.names, (), table.classes), is_ours)
    empty: Sequence[Any] = [None] * len(table.names)
    who, when, decided = (values.get(role, empty) for role in ("annotator", "time", "decision"))
    for row, name in enumerate(table.names):
        if str(decided[row] or "").lower() not in TELLING:
            yield Trouble("unlabelled", name)
            continue
        cells = {role: values[role][row] for role in CLUES if role in values}
        clues = {role: cell if isinstance(cell, str) else text_of(cell) or "" for role, cell in cells.items()}
        rows = _rows_meant(matcher, clues)
        if not rows and not is_ours:
            rows = _rows_meant(matcher, {role: restored(clue) for role, clue in clues.items()})
        by, at = annotator_name(_whole(who[row])), seconds_since_1970(when[row])
        yield settled(rows, _shown(name, clues), labels[row], by, at)


def _class_names(table: Table, is_ours: bool) -> list[str | None]:
    """The label of each row, "" where there is none, None where it is nothing a label can be.

    One with characters that cannot be seen stays as it is; spelt out, it would be a class that nobody meant.
    """
    names = _spelt_names(table, is_ours)
    return [cell.strip() if has_unseen(cell) else name for cell, name in zip(table.values["label"], names, strict=True)]


def _spelt_names(table: Table, is_ours: bool) -> list[str | None]:
    if is_ours:  # whose labels are names: -1 is a class where somebody called it so
        return [text_of(value) for value in table.values["label"]]
    unusable: dict[int, Any] = {}
    names = label_names(table, unusable)
    return [None if row in unusable else name for row, name in enumerate(names)]


def _rows_meant(matcher: Matcher, clues: Mapping[str, str]) -> frozenset[int]:
    """By the identity; else by what the path and the text agree on."""
    for role in ("id", "path", "text"):  # an identity counts in whichever column it stands
        if clues.get(role) in matcher.row_of:
            return frozenset({matcher.row_of[clues[role]]})
    named = (matcher.by_name(clues[role]) for role in ("id", "path") if clues.get(role))
    said = matcher.by_text(clues["text"]) if "text" in clues else frozenset()
    return agreed([*named, said])


def _only(cell: Any) -> Any:
    """The one label in a list of them, as Prodigy writes it."""
    if not isinstance(cell, list):
        return cell
    return None if not cell else cell[0] if len(cell) == 1 else cell


def _whole(value: Any) -> Any:
    """A number of an annotator that a table with gaps has made a float of."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(name: str, clues: Mapping[str, str]) -> str:
    """What an entry is called in a report: its line and what it says the item is."""
    said = next((clue for clue in clues.values() if clue), "")
    return f"{name} ({printable(said[:80])})" if said else name
