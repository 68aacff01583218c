"""Labels as files: CSV for spreadsheets, JSONL and Parquet for programs, JSONL as Prodigy has it."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow

from understudy.labels.cells import neutral
from understudy.labels.found_labels import seconds_since_1970
from understudy.labels.outgoing import COLUMNS, LabelRow, Outgoing
from understudy.labels.streams import JSON, encoded, in_batches, parquet_stream

# Spreadsheets take a file without it for one in an old encoding and garble names. pandas, polars, DuckDB and our own
# import leave it out; whoever reads by hand has JSONL and Parquet.
BOM: Final = b"\xef\xbb\xbf"
TYPES: Final = {
    "item": pyarrow.int64(), "influence_share": pyarrow.float64(), "seconds": pyarrow.float64(),
    "flagged": pyarrow.bool_(), "labelled_at": pyarrow.timestamp("us", tz="UTC"),
}  # fmt: skip
ANSWERS: Final = {"label": "accept", "dont_know": "ignore", "skipped": "ignore", "bad": "reject"}


def csv_stream(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[bytes]:
    """A CSV file whose cells no spreadsheet runs."""
    # The module quotes line feeds and carriage returns in cells only where the end of a line has both.
    yield BOM
    for batch in in_batches(_rows_and_header(header, rows)):
        stream = io.StringIO(newline="")
        csv.writer(stream, lineterminator="\r\n").writerows([_cell_of(value) for value in row] for row in batch)
        yield encoded(stream.getvalue())


def _rows_and_header(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[Iterable[Any]]:
    yield header
    yield from rows


def _cell_of(value: Any) -> Any:
    if isinstance(value, str):
        return neutral(value)
    return str(value).lower() if isinstance(value, bool) else value


def _values_of(out: Outgoing, row: LabelRow) -> tuple[Any, ...]:
    """The cells of a row; of a text the text itself comes last."""
    return (*row, out.text(row.item)) if out.kind == "text" else row


def _columns_of(out: Outgoing) -> tuple[str, ...]:
    return (*COLUMNS, "text") if out.kind == "text" else COLUMNS


def labels_csv(out: Outgoing) -> Iterator[bytes]:
    return csv_stream(_columns_of(out), (_values_of(out, row) for row in out.rows))


def labels_jsonl(out: Outgoing) -> Iterator[bytes]:
    columns = _columns_of(out)
    return json_lines(dict(zip(columns, _values_of(out, row), strict=True)) for row in out.rows)


def json_lines(entries: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for batch in in_batches(entries):
        yield encoded("".join(JSON.encode(entry) + "\n" for entry in batch))


def labels_parquet(out: Outgoing) -> Iterator[bytes]:
    columns = _columns_of(out)
    schema = pyarrow.schema([(column, TYPES.get(column, pyarrow.string())) for column in columns])
    return parquet_stream((_values_of(out, row) for row in out.rows), schema)


def labels_prodigy(out: Outgoing) -> Iterator[bytes]:
    """One line a decision, in the form of Prodigy's choices; flags alone have no place there."""
    options = [{"id": name, "text": name} for name in out.classes]

    def entries() -> Iterator[dict[str, Any]]:
        for row in out.rows:
            if row.decision in ANSWERS:
                yield {
                    **({"text": out.text(row.item)} if out.kind == "text" else {"image": row.id}),
                    "id": row.id,
                    "options": options,
                    "accept": [] if row.label is None else [row.label],
                    "answer": ANSWERS[row.decision],
                    "_annotator_id": row.annotator,
                    "_timestamp": round(seconds_since_1970(row.labelled_at) or 0),
                    "_view_id": "choice",
                    "meta": {"asked": row.asked, "why": row.why, "model": row.model},
                }

    return json_lines(entries())
