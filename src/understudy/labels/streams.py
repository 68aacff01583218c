"""Bytes as they are made, for files and pages alike: a large export is never held whole."""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import pyarrow
from pyarrow import parquet

BATCH: Final = 5000  # rows written at once
JSON: Final = json.JSONEncoder(ensure_ascii=False)
T = TypeVar("T")


class Drain(io.RawIOBase):
    """A file that cannot be searched or read: what was written is taken out as one goes."""

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

    def taken(self) -> bytes:
        """What was written since this was called last."""
        content = b"".join(self.pieces)
        self.pieces.clear()
        return content


def parquet_stream(rows: Iterable[Sequence[Any]], schema: Any) -> Iterator[bytes]:
    """A Parquet file of these rows, one group of rows after another. Times are given as texts."""
    drain = Drain()
    with parquet.ParquetWriter(pyarrow.PythonFile(drain, mode="w"), schema, compression="zstd") as writer:
        for batch in in_batches(rows):
            by_column = zip(*batch, strict=True)
            columns = [_column_of(values, field.type) for values, field in zip(by_column, schema, strict=True)]
            writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=schema))
            yield drain.taken()
    yield drain.taken()


def _column_of(values: Sequence[Any], kind: Any) -> Any:
    is_text = pyarrow.types.is_string(kind)
    cells = [_clean(value) if value else value for value in values] if is_text else values
    if pyarrow.types.is_timestamp(kind):
        return pyarrow.array(cells, pyarrow.string()).cast(kind)
    return pyarrow.array(cells, kind)


def in_batches(rows: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    waiting = iter(rows)
    while batch := list(islice(waiting, size)):
        yield batch


def encoded(text: str) -> bytes:
    """UTF-8; halves of characters, which it has no room for, are spelt out."""
    return text.encode("utf-8", "backslashreplace")


def _clean(text: str) -> str:
    """The text, which UTF-8 has room for from now on."""
    return text if text.isascii() else encoded(text).decode()
