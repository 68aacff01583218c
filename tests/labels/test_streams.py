"""Bytes as they are made."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest

from understudy.errors import NotStored
from understudy.labels.streams import Drain, in_batches, parquet_stream, write_stream


def test_a_drain_gives_what_was_written_and_keeps_nothing() -> None:
    drain = Drain()
    drain.write(b"ab")
    drain.write(memoryview(b"c"))
    assert (drain.taken(), drain.taken(), drain.tell()) == (b"abc", b"", 3)


def test_a_parquet_file_comes_in_pieces_before_its_rows_end() -> None:
    taken = 0

    def rows() -> Iterator[tuple[int]]:
        nonlocal taken
        for number in range(20_000):
            taken += 1
            yield (number,)

    pieces = parquet_stream(rows(), pyarrow.schema([("n", pyarrow.int64())]))
    assert next(pieces).startswith(b"PAR1")
    assert taken == 5000
    assert b"".join(pieces).endswith(b"PAR1")
    assert taken == 20_000


def test_batches_are_full_but_for_the_last() -> None:
    assert list(in_batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(in_batches([], 2)) == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def breaks() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("no more")

    assert write_stream([b"all", b" of it"], tmp_path / "deep" / "x") == 9
    with pytest.raises(RuntimeError):
        write_stream(breaks(), tmp_path / "deep" / "x")
    assert (tmp_path / "deep" / "x").read_bytes() == b"all of it"
    assert os.listdir(tmp_path / "deep") == ["x"]  # noqa: PTH208


def test_a_place_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotStored, match="cannot write"):
        write_stream([b"x"], tmp_path / "file" / "x")
