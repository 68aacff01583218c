"""Rows of a table, column by column: CSV, JSONL and Parquet files read, their broken lines collected."""

import csv
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyarrow import parquet

from understudy.data import columns
from understudy.data.faults import Fault
from understudy.data.items import printable
from understudy.errors import UnderstudyError

DELIMITERS: Final = (",", ";", "\t")
LONGEST_CELL: Final = 2**31 - 1  # characters; the csv module's own limit is 131,072, and documents are longer
BATCH: Final = 1024  # rows of a Parquet file in one piece: no piece of images comes near Arrow's limit of 2 GiB


@dataclass(frozen=True)
class Table:
    """Some columns of a file by what they hold, the name of each row ("line 17"), and the lines that are broken.

    `classes`: the names of the classes, where the file gives them to numbers in its label column.
    """

    values: Mapping[str, Sequence[Any]]
    names: Sequence[str]
    faults: tuple[Fault, ...] = ()
    classes: tuple[str, ...] | None = None


def read_csv(path: Path, named: Mapping[str, str]) -> Table:
    """A CSV file with a header line, in UTF-8, its delimiter a comma, a semicolon or a tab."""
    rows: list[list[str]] = []
    names: list[str] = []
    faults: list[Fault] = []
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream, long_cells():
        first = stream.readline()
        if first.startswith(("\udcff\udcfe", "\udcfe\udcff")):
            raise UnderstudyError(f"{path} is in UTF-16; save it as UTF-8")
        stream.seek(0)
        reader = csv.reader(stream, delimiter=delimiter_of(first), strict=True)
        header = header_of(reader, path)
        for name, row in records(reader, faults):
            if len(row) != len(header):
                problem = f"{len(row)} values for {len(header)} columns"
                faults.append(Fault(name, problem, "give every line as many, and quote values with delimiters in them"))
            elif not is_utf8(row):
                faults.append(Fault(name, "not in UTF-8", "save the file as UTF-8"))
            else:
                rows.append(row)
                names.append(name)
    chosen = columns.chosen(header, named, str(path))
    place = {role: header.index(column) for role, column in chosen.items()}
    return Table({role: [row[at] for row in rows] for role, at in place.items()}, names, tuple(faults))


def delimiter_of(header: str) -> str:
    """The delimiter that cuts the header into most columns."""
    return max(DELIMITERS, key=lambda delimiter: len(next(csv.reader([header], delimiter=delimiter), [])))


def header_of(reader: Iterator[list[str]], path: Path) -> list[str]:
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise UnderstudyError(f"{path}: its header line is broken ({error}); mend it") from error
    if not any(header):
        raise UnderstudyError(f"{path} is empty or begins with an empty line; its first line must name the columns")
    if not is_utf8(header):
        raise UnderstudyError(f"{path}: its header line is not in UTF-8; save the file as UTF-8")
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise UnderstudyError(f"{path} has more than one column {columns.listed(twice)}; rename all but one")
    return header


def records(reader: Any, faults: list[Fault]) -> Iterator[tuple[str, list[str]]]:
    """Each record with the line it begins on; broken ones go to the faults."""
    while True:
        name = f"line {reader.line_num + 1}"
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = "a quote is opened and never closed" if "end of data" in str(error) else f"broken ({error})"
            faults.append(Fault(name, problem, "mend its quotes"))
            continue
        if row:
            yield name, row


@contextmanager
def long_cells() -> Iterator[None]:
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def is_utf8(row: Sequence[str]) -> bool:
    """Whether no cell holds bytes that could not be decoded."""
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_jsonl(path: Path, named: Mapping[str, str]) -> Table:
    """A file with one JSON object a line."""
    rows: list[dict[str, Any]] = []
    names: list[str] = []
    faults: list[Fault] = []
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            text = line.removeprefix(b"\xef\xbb\xbf").strip()
            try:
                row = json.loads(text.decode()) if text else None
            except UnicodeDecodeError:
                faults.append(Fault(f"line {number}", "not in UTF-8", "save the file as UTF-8"))
            except (ValueError, RecursionError) as error:
                faults.append(Fault(f"line {number}", f"no JSON ({error})", "write one object a line"))
            else:
                if isinstance(row, dict):
                    rows.append(row)
                    names.append(f"line {number}")
                elif text:
                    faults.append(Fault(f"line {number}", "JSON, but no object", "write one object a line"))
    if not rows:
        reason = f"; {faults[0]}" if faults else ""
        raise UnderstudyError(f"{path} has no JSON object on any line{reason}")
    keys = list(dict.fromkeys(key for row in rows for key in row))
    chosen = columns.chosen(keys, named, str(path))
    return Table({role: [row.get(key) for row in rows] for role, key in chosen.items()}, names, tuple(faults))


def read_parquet(path: Path, named: Mapping[str, str]) -> Table:
    """A Parquet file: of its columns only those that are used. Images in cells stay in Arrow's memory."""
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        pictures = [field.name for field in schema if holds_images(field.type)]
        if len(pictures) == 1 and not named.keys() & {"path", "text"} and not columns.usual("path", schema.names):
            named = {**named, "path": pictures[0]}
        chosen = columns.chosen(schema.names, named, str(path))
        used = list(chosen.values())
        batches = list(file.iter_batches(BATCH, columns=used))
        read = pyarrow.Table.from_batches(batches) if batches else schema.empty_table().select(used)
    values = {
        role: Cells(read[column]) if role == "path" and column in pictures else read[column].to_pylist()
        for role, column in chosen.items()
    }
    names = [f"row {row}" for row in range(read.num_rows)]
    return Table(values, names, classes=class_names(schema, chosen.get("label")))


def holds_images(kind: Any) -> bool:
    """Whether a column holds files as bytes, or as the structs that Hugging Face writes."""
    is_bytes = pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)
    return is_bytes or (pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0)


def class_names(schema: Any, label: str | None) -> tuple[str, ...] | None:
    """The names that Hugging Face keeps beside the numbers of a label column."""
    try:
        kept = json.loads((schema.metadata or {})[b"huggingface"])
        names = kept["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(printable(str(name)) for name in names)


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


READERS: Final = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".parquet": read_parquet,
}


def read_table(path: Path, named: Mapping[str, str]) -> Table:
    """The columns of a file that make a pool, by what they hold."""
    try:
        return READERS[path.suffix.lower()](path, named)
    except FileNotFoundError as error:
        raise UnderstudyError(f"{path}: no such file") from error
    except (OSError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise UnderstudyError(f"{path} cannot be read ({reason}); write it again or check its permissions") from error
