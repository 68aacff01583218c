"""Bytes as they are made."""

from collections.abc import Iterator

import pyarrow

from understudy.labels.streams import Drain, in_batches, parquet_stream


def test_a_drain_gives_what_was_written_and_keeps_nothing() -> None:
    drain = Drain()
    drain.write(b"ab")
    drain.write(memoryview(b"c"))
    assert (drain.take(), drain.take(), drain.tell()) == (b"abc", b"", 3)


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
