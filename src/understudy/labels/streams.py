"""Streams of bytes in CSV, JSONL, Parquet and zip, for files and downloads alike: no export is held in memory.

Formulas in the cells of a CSV file are escaped on export, so that no spreadsheet runs them, and unescaped on import.
"""

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeVar

import pyarrow
from pyarrow import parquet

ROWS_PER_BATCH: Final = 5000
JSON: Final = json.JSONEncoder(ensure_ascii=False)
# Without it spreadsheets assume an old encoding and garble names. pandas, polars, DuckDB and our own import skip it;
# for other readers there are JSONL and Parquet.
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)  # of every file in a zip, so that the same labels make the same bytes
# What a spreadsheet may take for the start of a formula, with the full-width forms that some of them treat alike.
FORMULA_STARTS: Final = re.escape("=+-@＝＋－＠")
# In many locales spreadsheets split a line at these too, whatever the quotes: what follows begins another cell.
CELL_ENDS: Final = ";\t\r\n"
BEFORE_FORMULA: Final = re.compile(f"\\A(?='*[{FORMULA_STARTS}\t\r\n])|(?<=[{CELL_ENDS}])(?=[\"']*[{FORMULA_STARTS}])")
ESCAPE: Final = re.compile(f"\\A'(?='*[{FORMULA_STARTS}\t\r\n])|(?<=[{CELL_ENDS}])'(?=[\"']*[{FORMULA_STARTS}])")
SUSPECT_STARTS: Final = frozenset("=+-@＝＋－＠'\t\r\n")
SUSPECT_ANYWHERE: Final = frozenset(CELL_ENDS)
T = TypeVar("T")


class Drain(io.RawIOBase):
    """A write-only file from whose end one takes what was written so far."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.position = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.pieces.append(bytes(content))
        self.position += len(self.pieces[-1])
        return len(self.pieces[-1])

    def tell(self) -> int:
        return self.position

    def take(self) -> bytes:
        """What was written since the last call."""
        content = b"".join(self.pieces)
        self.pieces.clear()
        return content


def csv_stream(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[bytes]:
    """A CSV file in which no spreadsheet finds a formula."""
    yield BYTE_ORDER_MARK
    for batch in in_batches(chain([header], rows)):
        stream = io.StringIO(newline="")
        # With \r\n as line end, csv quotes cells that hold either of the two; with \n alone it would not quote \r.
        csv.writer(stream, lineterminator="\r\n").writerows([_csv_cell(value) for value in row] for row in batch)
        yield encode_utf8(stream.getvalue())


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str):
        return escape_formulas(value)
    return str(value).lower() if isinstance(value, bool) else value


def escape_formulas(cell: str) -> str:
    """The cell with an apostrophe before what would be a formula: spreadsheets show what follows as text.

    Where apostrophes precede a formula already, one more is added, so that `unescape_formulas` always restores the
    original.
    """
    return BEFORE_FORMULA.sub("'", cell) if _is_suspect(cell) else cell


def unescape_formulas(cell: str) -> str:
    """The cell that `escape_formulas` was given."""
    return ESCAPE.sub("", cell) if _is_suspect(cell) else cell


def _is_suspect(cell: str) -> bool:
    """Whether a cell needs a closer look at all; most do not, and this is faster than the expressions."""
    return cell[:1] in SUSPECT_STARTS or not SUSPECT_ANYWHERE.isdisjoint(cell)


def jsonl_stream(entries: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """One JSON object a line."""
    for batch in in_batches(entries):
        yield encode_utf8("".join(JSON.encode(entry) + "\n" for entry in batch))


def parquet_stream(rows: Iterable[Sequence[Any]], schema: Any) -> Iterator[bytes]:
    """A Parquet file of these rows, one row group after another. Times are given as ISO 8601 texts."""
    drain = Drain()
    with parquet.ParquetWriter(pyarrow.PythonFile(drain, mode="w"), schema, compression="zstd") as writer:
        for batch in in_batches(rows):
            by_column = zip(*batch, strict=True)
            columns = [_parquet_column(values, field.type) for values, field in zip(by_column, schema, strict=True)]
            writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=schema))
            yield drain.take()
    yield drain.take()


def _parquet_column(values: Sequence[Any], kind: Any) -> Any:
    is_text = pyarrow.types.is_string(kind)
    cells = [_valid_utf8(value) if value else value for value in values] if is_text else values
    if pyarrow.types.is_timestamp(kind):
        return pyarrow.array(cells, pyarrow.string()).cast(kind)
    return pyarrow.array(cells, kind)


def zip_stream(files: Iterable[tuple[str, bytes, int]]) -> Iterator[bytes]:
    """A zip of these files: the name, content and compression of each, such as zipfile.ZIP_DEFLATED."""
    drain = Drain()
    with zipfile.ZipFile(drain, "w") as archive:
        for name, content, compression in files:
            archive.writestr(_zip_entry(name), content, compression)
            yield drain.take()
    yield drain.take()


def _zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, ZIP_TIME)
    entry.external_attr = 0o644 << 16
    entry.create_system = 3  # Unix, whatever system it is made on
    return entry


def in_batches(rows: Iterable[T], size: int = ROWS_PER_BATCH) -> Iterator[list[T]]:
    waiting = iter(rows)
    while batch := list(islice(waiting, size)):
        yield batch


def encode_utf8(text: str) -> bytes:
    """The text in UTF-8; lone surrogates, which UTF-8 cannot hold, are written as \\udXXX."""
    return text.encode("utf-8", "backslashreplace")


def _valid_utf8(text: str) -> str:
    return text if text.isascii() else encode_utf8(text).decode()
