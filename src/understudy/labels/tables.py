"""CSV, JSONL and Parquet in and out, Excel in: one row a decision, with a column that names the item and one with its
label."""

import logging
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyarrow import ArrowException, parquet

from understudy.data.class_names import text_of
from understudy.data.items import make_printable
from understudy.data.manifests import label_names
from understudy.data.tables import Table, read_table
from understudy.errors import UnderstudyError, UsageError
from understudy.labels.export_data import COLUMNS, FIRST_COLUMNS, ExportData, LabelRow
from understudy.labels.imported_labels import (
    ImportEntry,
    LabelColumn,
    UnusableEntry,
    annotator_name,
    has_unseen,
    label_of_entry,
    seconds_since_1970,
)
from understudy.labels.matching import Matcher, combine_clues
from understudy.labels.streams import csv_stream, jsonl_stream, parquet_stream, unescape_formulas
from understudy.messages import list_some

log = logging.getLogger(__name__)
# What a column is usually called that holds this. Case does not matter; the first that is there is taken.
USUAL_NAMES: Final = {
    "id": ("id", "item_id"),
    "path": ("path", "file", "filename", "file_name", "image_path", "image", "item", "url"),
    "text": ("text", "sentence", "content", "document"),
    "label": ("label", "class", "category", "accept"),
    "annotator": ("annotator", "annotator_name", "_annotator_id", "labeller", "user"),
    "time": ("labelled_at", "labeled_at", "created_at", "timestamp", "_timestamp", "time", "date"),
    "decision": ("decision", "answer"),
}
CLUES: Final[tuple[str, ...]] = ("id", "path", "text")  # the columns that say which item is meant
LABEL_DECISIONS: Final = frozenset({"", "label", "labelled", "accept"})  # with others, a row gives no label
COLUMNS_IN_MESSAGES: Final = 12
MAX_ROWS: Final = 20_000_000
MAX_COLUMNS: Final = 1000
MAX_UNPACKED_BYTES: Final = 2 * 2**30  # of a Parquet file
MAX_UNPACKED_EXCEL_BYTES: Final = 256 * 2**20  # as XML, which takes a multiple of it in memory
SUFFIX: Final = re.compile(r"\.(csv|tsv|xlsx|jsonl|ndjson|parquet)$", re.IGNORECASE)
EXCEL_PARTS: Final = (b"[Content_Types].xml", b"_rels/.rels", b"docProps/", b"xl/")  # one is at the start of such a zip
PARQUET_TYPES: Final = {  # of columns that are not texts
    "item": pyarrow.int64(), "influence_share": pyarrow.float64(), "seconds": pyarrow.float64(),
    "flagged": pyarrow.bool_(), "disputed": pyarrow.bool_(), "labelled_at": pyarrow.timestamp("us", tz="UTC"),
}  # fmt: skip


# -- in --------------------------------------------------------------------------------------------------------


def read_label_table(path: Path, matcher: Matcher, columns: Mapping[str, str]) -> Iterator[ImportEntry]:
    """Each row's label, or why it has none."""
    if not SUFFIX.search(path.name):
        raise UsageError(f"{path} should end in .csv, .xlsx, .jsonl or .parquet to be read as a table; rename it")
    chooser = ColumnChooser()
    if path.suffix.lower() == ".parquet":
        _check_size(path)
    if path.suffix.lower() == ".xlsx":
        _check_excel_size(path)
    table = read_table(path, columns, chooser)
    yield LabelColumn(chooser.label_column)
    for fault in table.faults:
        if fault.used:
            log.warning("%s", fault)
        else:
            yield UnusableEntry("broken", str(fault))
    if path.suffix.lower() in (".csv", ".tsv", ".xlsx"):
        table = _unescape_table(table, all_cells=chooser.is_ours)
    yield from _labels_in(table, matcher, chooser.is_ours)


class ColumnChooser:
    """Decides which columns to use. After the call it knows the label column, and whether we wrote the file."""

    def __init__(self) -> None:
        self.is_ours = False
        self.label_column = ""

    def __call__(self, there: Sequence[str], named: Mapping[str, str], source: str) -> dict[str, str]:
        if len(there) > MAX_COLUMNS:
            raise UnderstudyError(
                f"{source} has {len(there):,} columns, more than {MAX_COLUMNS:,}; keep those with items and labels"
            )
        self.is_ours = tuple(there[: len(FIRST_COLUMNS)]) == FIRST_COLUMNS
        wanted = {role: column for role, column in named.items() if role in USUAL_NAMES}
        for column in wanted.values():
            if column not in there:
                raise UsageError(f"{source} has no column {column!r}; its columns are {_list_columns(there)}")
        lower = {name.strip().lower(): name for name in reversed(there)}
        found = {
            role: wanted.get(role) or next((lower[name] for name in names if name in lower), None)
            for role, names in USUAL_NAMES.items()
        }
        if found["id"] and "path" not in wanted and "item" in lower and found["path"] == lower["item"]:
            found["path"] = None  # beside an id, `item` is the row number that our own exports write
        if not any(found[role] for role in CLUES):
            raise UsageError(
                f"{source} has no column that names items ({', '.join(USUAL_NAMES['id'] + USUAL_NAMES['path'])} or "
                f"text); its columns are {_list_columns(there)}: name one, as in --columns id=NAME"
            )
        if not found["label"]:
            raise UsageError(
                f"{source} has no column of labels ({', '.join(USUAL_NAMES['label'][:3])}); its columns are "
                f"{_list_columns(there)}: name one, as in --columns label=NAME"
            )
        self.label_column = found["label"]
        return {role: column for role, column in found.items() if column}


def _list_columns(names: Sequence[str]) -> str:
    return list_some((repr(make_printable(name[:40])) for name in names), COLUMNS_IN_MESSAGES) or "none"


def _check_size(path: Path) -> None:
    """An error where a Parquet file says that it unpacks to more than a machine may have room for."""
    try:
        about = parquet.read_metadata(path)
    except (OSError, ArrowException) as error:
        raise UnderstudyError(f"{path} cannot be read ({' '.join(str(error).split())}); write it again") from error
    unpacked = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    if about.num_rows > MAX_ROWS or unpacked > MAX_UNPACKED_BYTES:
        raise UnderstudyError(f"{path} has {about.num_rows:,} rows of {unpacked:,} bytes; cut it into smaller files")


def _check_excel_size(path: Path) -> None:
    """The same for an Excel file, which is a zip; one that is damaged is left for its reader to refuse."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (OSError, ValueError, zipfile.BadZipFile):
        return
    if unpacked > MAX_UNPACKED_EXCEL_BYTES:
        raise UnderstudyError(
            f"{path} unpacks to {unpacked:,} bytes; save it as CSV in UTF-8, or cut it into smaller files"
        )


def is_excel(head: bytes) -> bool:
    """Whether a file that begins so is a zip as Excel makes it."""
    return head.startswith(b"PK\x03\x04") and any(part in head for part in EXCEL_PARTS)


def _unescape_table(table: Table, all_cells: bool) -> Table:
    """The table without the apostrophes that keep spreadsheets from running cells.

    In a file of ours every cell is unescaped. In others only labels are, since somebody may have taken columns out of
    a file of ours; their items are first looked up as they are written (`_labels_in`), for a text may begin so.
    """
    roles = table.values if all_cells else table.values.keys() & {"label"}
    values = {
        role: [unescape_formulas(cell) if isinstance(cell, str) else cell for cell in cells] if role in roles else cells
        for role, cells in table.values.items()
    }
    return Table(values, table.names, table.faults, table.classes)


def _labels_in(table: Table, matcher: Matcher, is_ours: bool) -> Iterator[ImportEntry]:
    values = dict(table.values)
    values["label"] = [_only_element(cell) for cell in values["label"]]
    labels = _class_names(Table(values, table.names, (), table.classes), is_ours)
    empty: Sequence[Any] = [None] * len(table.names)
    annotators, times, decisions = (values.get(role, empty) for role in ("annotator", "time", "decision"))
    for row, name in enumerate(table.names):
        if str(decisions[row] or "").lower() not in LABEL_DECISIONS:
            yield UnusableEntry("unlabelled", name)
            continue
        cells = {role: values[role][row] for role in CLUES if role in values}
        clues = {role: cell if isinstance(cell, str) else text_of(cell) or "" for role, cell in cells.items()}
        rows = _matching_rows(matcher, clues)
        if not rows and not is_ours:
            rows = _matching_rows(matcher, {role: unescape_formulas(clue) for role, clue in clues.items()})
        annotator, at = annotator_name(_without_fraction(annotators[row])), seconds_since_1970(times[row])
        yield label_of_entry(rows, _entry_name(name, clues), labels[row], annotator, at)


def _class_names(table: Table, is_ours: bool) -> list[str | None]:
    """The label of each row, "" where there is none, None where it is not the name of a class.

    One with invisible characters stays as it is: escaped, it would become a class that nobody meant.
    """
    names = _printable_names(table, is_ours)
    return [cell.strip() if has_unseen(cell) else name for cell, name in zip(table.values["label"], names, strict=True)]


def _printable_names(table: Table, is_ours: bool) -> list[str | None]:
    if is_ours:  # labels are names then: -1 is a class that somebody called so, elsewhere it may mean "none"
        return [text_of(value) for value in table.values["label"]]
    unusable: dict[int, Any] = {}
    names = label_names(table, unusable)
    return [None if row in unusable else name for row, name in enumerate(names)]


def _matching_rows(matcher: Matcher, clues: Mapping[str, str]) -> frozenset[int]:
    """The row with this id; else those that path and text agree on.

    Ids such as "line 4" only say where a text stood in its table. Beside a text they count only if it is the same.
    """
    for role in CLUES:  # an id counts in whichever column it stands
        row = matcher.row_of.get(clues.get(role, ""))
        if row is not None:
            if role != "text" and clues.get("text") and matcher.is_contradicted(row, clues["text"]):
                return matcher.by_text(clues["text"])
            return frozenset({row})
    by_name = (matcher.by_name(clues[role]) for role in ("id", "path") if clues.get(role))
    by_text = matcher.by_text(clues["text"]) if "text" in clues else frozenset()
    return combine_clues([*by_name, by_text])


def _only_element(cell: Any) -> Any:
    """The one label in a list of them, as Prodigy writes it."""
    if not isinstance(cell, list):
        return cell
    return None if not cell else cell[0] if len(cell) == 1 else cell


def _without_fraction(value: Any) -> Any:
    """The number of an annotator, which becomes a float where a column has gaps."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _entry_name(name: str, clues: Mapping[str, str]) -> str:
    """What an entry is called in a report: its line and the item it names."""
    clue = next((clue for clue in clues.values() if clue), "")
    return f"{name} ({make_printable(clue[:80])})" if clue else name


# -- out -------------------------------------------------------------------------------------------------------


def write_csv(data: ExportData) -> Iterator[bytes]:
    return csv_stream(_columns_of(data), (_cells_of(data, row) for row in data.rows))


def write_jsonl(data: ExportData) -> Iterator[bytes]:
    columns = _columns_of(data)
    return jsonl_stream(dict(zip(columns, _cells_of(data, row), strict=True)) for row in data.rows)


def write_parquet(data: ExportData) -> Iterator[bytes]:
    schema = pyarrow.schema([(column, PARQUET_TYPES.get(column, pyarrow.string())) for column in _columns_of(data)])
    return parquet_stream((_cells_of(data, row) for row in data.rows), schema)


def _columns_of(data: ExportData) -> tuple[str, ...]:
    return (*COLUMNS, "text") if data.kind == "text" else COLUMNS


def _cells_of(data: ExportData, row: LabelRow) -> tuple[Any, ...]:
    """The cells of a row; in a pool of texts the text comes last."""
    return (*row, data.text(row.item)) if data.kind == "text" else row
