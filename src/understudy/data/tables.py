"""Rows of a table, column by column: CSV, JSONL, Parquet, Excel and text files read, their broken lines collected."""

import csv
import json
import threading
import zipfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyarrow import parquet

from understudy.data import columns
from understudy.data.faults import Fault
from understudy.data.items import make_printable
from understudy.data.text_encodings import UTF8, decode_text, find_encoding
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import install_command, reason_of

DELIMITERS: Final = (",", ";", "\t")
MAX_CELL_LENGTH: Final = 2**31 - 1  # characters; the csv module's own limit is 131,072, and documents are longer
MAX_ROW_GROUPS: Final = 2  # of images in memory: threads that read in order are in one or on the way to the next
ROWS_PER_BATCH: Final = 1024  # of a Parquet file: no batch of images comes near Arrow's limit of 2 GiB

# From the columns there, those that the caller named, and the source's name: the columns to use, by what they hold.
Choose = Callable[[Sequence[str], Mapping[str, str], str], dict[str, str]]


@dataclass(frozen=True)
class Table:
    """Some columns of a file by what they hold, the name of each row ("line 17"), and the lines that are broken.

    `classes`: the names of the classes, where the file gives them to numbers in its label column.
    """

    values: Mapping[str, Sequence[Any]]
    names: Sequence[str]
    faults: tuple[Fault, ...] = ()
    classes: tuple[str, ...] | None = None


def _read_csv(path: Path, named: Mapping[str, str], choose: Choose = columns.choose_columns) -> Table:
    """A CSV file with a header line, its delimiter a comma, a semicolon or a tab."""
    encoding = find_encoding(path)
    errors = "surrogateescape" if encoding.name == UTF8 else "strict"
    rows: list[list[str]] = []
    names: list[str] = []
    faults: list[Fault] = []
    with path.open(encoding=encoding.name, errors=errors, newline="") as stream, _long_cells():
        first = stream.readline()
        stream.seek(0)
        reader = csv.reader(stream, delimiter=_delimiter_of(first), strict=True)
        header = _header_of(reader, path)
        for name, row in _records(reader, faults):
            if len(row) != len(header):
                problem = f"{len(row)} values for {len(header)} columns"
                faults.append(Fault(name, problem, "give every line as many, and quote values with delimiters in them"))
            elif not _is_utf8(row):
                faults.append(Fault(name, "not in UTF-8", "save the file as UTF-8"))
            else:
                rows.append(row)
                names.append(name)
    chosen = choose(header, named, str(path))
    place = {role: header.index(column) for role, column in chosen.items()}
    noted = faults if encoding.note is None else [encoding.note, *faults]
    return Table({role: [row[at] for row in rows] for role, at in place.items()}, names, tuple(noted))


def _delimiter_of(header: str) -> str:
    """The delimiter that cuts the header into most columns."""
    return max(DELIMITERS, key=lambda delimiter: len(next(csv.reader([header], delimiter=delimiter), [])))


def _header_of(reader: Iterator[list[str]], path: Path) -> list[str]:
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise UnderstudyError(f"{path}: its header line is broken ({error}); mend it") from error
    if not any(header):
        raise UnderstudyError(f"{path} is empty or begins with an empty line; its first line must name the columns")
    if not _is_utf8(header):
        raise UnderstudyError(f"{path}: its header line is not in UTF-8; save the file as UTF-8")
    twice = sorted(name for name, times in Counter(header).items() if name and times > 1)
    if twice:
        raise UnderstudyError(f"{path} has more than one column {columns.quote_names(twice)}; rename all but one")
    return header


def _records(reader: Any, faults: list[Fault]) -> Iterator[tuple[str, list[str]]]:
    """Each record with the line it begins on; broken ones go to the faults."""
    while True:
        first = reader.line_num + 1
        name = f"line {first}"
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = "a quote is opened and never closed" if "end of data" in str(error) else f"broken ({error})"
            lost = reader.line_num - first + 1
            swallowed = f", so all is lost up to line {reader.line_num:,}" if lost > 1 else ""
            faults.append(Fault(name, problem + swallowed, "mend its quotes"))
            continue
        if row:
            yield name, row


@contextmanager
def _long_cells() -> Iterator[None]:
    limit = csv.field_size_limit(MAX_CELL_LENGTH)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _is_utf8(row: Sequence[str]) -> bool:
    """Whether no cell holds bytes that could not be decoded."""
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_jsonl(path: Path, named: Mapping[str, str], choose: Choose = columns.choose_columns) -> Table:
    """A file with one JSON object a line."""
    rows: list[dict[str, Any]] = []
    names: list[str] = []
    encoding = find_encoding(path)
    faults: list[Fault] = [] if encoding.note is None else [encoding.note]
    codec = "utf-8" if encoding.name == UTF8 else encoding.name
    if codec == "utf-16":
        raise UnderstudyError(f"{path} is in UTF-16; JSON lines must be in UTF-8, so save it as that")
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            text = line.removeprefix(b"\xef\xbb\xbf").strip()
            try:
                row = json.loads(text.decode(codec)) if text else None
            except UnicodeDecodeError:
                faults.append(Fault(f"line {number}", "not in UTF-8", "save the file as UTF-8"))
            except (ValueError, RecursionError) as error:
                faults.append(Fault(f"line {number}", f"not JSON ({error})", "write one object a line"))
            else:
                if isinstance(row, dict):
                    rows.append(row)
                    names.append(f"line {number}")
                elif text:
                    faults.append(Fault(f"line {number}", "JSON, but not an object", "write one object a line"))
    if not rows:
        reason = f"; {faults[0]}" if faults else ""
        raise UnderstudyError(f"{path} has no JSON object on any line{reason}")
    keys = list(dict.fromkeys(key for row in rows for key in row))
    chosen = choose(keys, named, str(path))
    return Table({role: [row.get(key) for row in rows] for role, key in chosen.items()}, names, tuple(faults))


def _read_parquet(path: Path, named: Mapping[str, str], choose: Choose = columns.choose_columns) -> Table:
    """A Parquet file: of its columns only those that are used. Images in cells are read when they are needed."""
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        pictures = _image_column(schema)
        if pictures is not None and not named.keys() & {"path", "text"}:
            named = {**named, "path": pictures}
        chosen = choose(schema.names, named, str(path))
        stored = "path" in chosen and _holds_images(schema.field(chosen["path"]).type)
        values: dict[str, Sequence[Any]] = {
            role: Cells(RowGroups(path, file, column)) if stored and role == "path" else _column_of(file, column)
            for role, column in chosen.items()
        }
        names = [f"row {row}" for row in range(file.metadata.num_rows)]
    return Table(values, names, classes=_class_names(schema, chosen.get("label")))


def image_columns(path: Path) -> frozenset[str]:
    """The columns of a Parquet file that hold files rather than values; no other table has such."""
    if path.suffix.lower() != ".parquet":
        return frozenset()
    with parquet.ParquetFile(path) as file:
        return frozenset(field.name for field in file.schema_arrow if _holds_images(field.type))


def _column_of(file: Any, column: str) -> list[Any]:
    batches = file.iter_batches(ROWS_PER_BATCH, columns=[column])
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def _image_column(schema: Any) -> str | None:
    """The column of images by its type; bytes may be anything, so they count where their name or nothing else will."""
    pictures = [field.name for field in schema if _holds_images(field.type)]
    structs = [name for name in pictures if pyarrow.types.is_struct(schema.field(name).type)]
    usual = columns.usual_column("path", structs) or columns.usual_column("path", pictures)
    if usual is not None or len(structs) == 1:
        return usual or structs[0]
    return pictures[0] if len(pictures) == 1 and columns.usual_column("path", schema.names) is None else None


def _holds_images(kind: Any) -> bool:
    """Whether a column holds files as bytes, or as the structs that Hugging Face writes."""
    is_bytes = pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)
    return is_bytes or (pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0)


class RowGroups(Sequence[Any]):
    """A column of a Parquet file, of which only the row groups read last are in memory. Threads may share it."""

    def __init__(self, path: Path, file: Any, column: str) -> None:
        self.path, self.column = path.absolute(), column
        self.ends = list(accumulate(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)))
        self.kept: dict[int, Any] = {}
        self.reading = threading.Lock()

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, row: Any) -> Any:
        group = bisect_right(self.ends, row)
        with self.reading:
            if group not in self.kept:
                cells = self.read(group)
                while len(self.kept) >= MAX_ROW_GROUPS:
                    del self.kept[next(iter(self.kept))]
                self.kept[group] = cells
            cells = self.kept[group]
        return cells[row - (self.ends[group - 1] if group else 0)].as_py()

    def read(self, group: int) -> Any:
        try:
            with parquet.ParquetFile(self.path) as file:
                batches = list(file.iter_batches(ROWS_PER_BATCH, row_groups=[group], columns=[self.column]))
        except pyarrow.ArrowException as error:
            raise OSError(reason_of(error)) from error
        return pyarrow.chunked_array([batch.column(0) for batch in batches])

    def __reduce__(self) -> Any:
        return _reopen, (self.path, self.column)


def _reopen(path: Path, column: str) -> RowGroups:
    """The same column in another process, where nothing of it has been read yet."""
    with parquet.ParquetFile(path) as file:
        return RowGroups(path, file, column)


def _class_names(schema: Any, label: str | None) -> tuple[str, ...] | None:
    """The names that Hugging Face keeps beside the numbers of a label column."""
    try:
        kept = json.loads((schema.metadata or {})[b"huggingface"])
        names = kept["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(make_printable(str(name)) for name in names)


class Cells(Sequence[Any]):
    """Columns one after another, whose cells become Python objects one at a time."""

    def __init__(self, *columns: Any) -> None:
        self.columns = columns
        self.ends = list(accumulate(map(len, columns)))

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, row: Any) -> Any:
        part = bisect_right(self.ends, row)
        cell = self.columns[part][row - (self.ends[part - 1] if part else 0)]
        return cell.as_py() if isinstance(cell, pyarrow.Scalar) else cell


def _read_excel(path: Path, named: Mapping[str, str], choose: Choose = columns.choose_columns) -> Table:
    """The first sheet of an Excel file, its first row the header; a note says which sheet. Values as they are shown."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise UnderstudyError(
            f"{path}: Excel files need one more package: {install_command('excel')}; or save it as CSV in UTF-8"
        ) from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UnderstudyError(f"{path} is not an Excel file, or a damaged one ({reason_of(error)})") from error
    try:
        sheets = book.worksheets
        if not sheets:
            raise UnderstudyError(f"{path} has no sheet with cells; save the table as its first sheet")
        lines = [[_excel_text(cell) for cell in row] for row in sheets[0].iter_rows(values_only=True)]
        title, others = sheets[0].title, [sheet.title for sheet in sheets[1:]]
    finally:
        book.close()
    header = _header_of(iter(lines[:1]), path)
    rows = [(f"row {number}", row) for number, row in enumerate(lines[1:], 2) if any(row)]
    width = len(header)
    place = {role: header.index(column) for role, column in choose(header, named, str(path)).items()}
    values = {role: [(row + [""] * width)[at] for _, row in rows] for role, at in place.items()}
    notes = []
    if others:
        problem = f"the first sheet, {make_printable(title)!r}, is read; {columns.quote_names(others)} are not"
        notes.append(Fault(path.name, problem, "put another first, or save it as a file of its own", used=True))
    return Table(values, [name for name, _ in rows], tuple(notes))


def _excel_text(cell: Any) -> str:
    """A cell as text: whole numbers without a fraction, dates as 2024-01-31."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time.min else cell.isoformat(" ")
    return str(cell)


def _read_text_lines(path: Path, named: Mapping[str, str], choose: Choose = columns.choose_columns) -> Table:
    """A text file without columns: one text a line, empty lines left out."""
    if named:
        raise UsageError(f"{path} is a text file, each line a text: it has no columns; leave out --columns")
    text, encoding = decode_text(path.read_bytes(), str(path))
    lines = [(f"line {number}", line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise UnderstudyError(f"{path} has no text in it; write one a line")
    choose(["text"], named, str(path))
    notes = () if encoding.note is None else (encoding.note,)
    return Table({"text": [line for _, line in lines]}, [name for name, _ in lines], notes)


READERS: Final = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
    ".xlsx": _read_excel,
    ".txt": _read_text_lines,
}


def read_table(path: Path, named: Mapping[str, str], choose: Choose = columns.choose_columns) -> Table:
    """The columns of a file by what they hold: those that make a pool, or those that `choose` chooses."""
    try:
        return READERS[path.suffix.lower()](path, named, choose)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except (OSError, pyarrow.ArrowException) as error:
        reason = reason_of(error)
        raise UnderstudyError(f"{path} cannot be read ({reason}); write it again or check its permissions") from error
