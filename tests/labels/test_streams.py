"""Bytes as they are made."""

import csv
import io
import re
from collections.abc import Iterator

import pyarrow
import pytest
from hypothesis import given
from hypothesis.strategies import lists, text

from understudy.labels.streams import Drain, csv_stream, escape_formulas, in_batches, parquet_stream, unescape_formulas


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


# Formulas in cells: harmless in a spreadsheet, unchanged after a round trip


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1"])
def test_what_a_spreadsheet_would_run_begins_with_an_apostrophe(cell: str) -> None:
    assert escape_formulas(cell).startswith(f"'{cell[0]}")
    assert unescape_formulas(escape_formulas(cell)) == cell


@pytest.mark.parametrize("cell", ["", "cat", "'tis", "a=b", "1-2", "don't", "'"])
def test_harmless_cells_stay_as_they_are_both_ways(cell: str) -> None:
    assert escape_formulas(cell) == cell == unescape_formulas(cell)


@pytest.mark.parametrize(
    ("cell", "harmless"),
    [
        ("x;=cmd", "x;'=cmd"),
        ("x\t@SUM(A1)", "x\t'@SUM(A1)"),
        ("x\n-1", "x\n'-1"),
        ('x;"=cmd', "x;'\"=cmd"),
        ("x;'=cmd", "x;''=cmd"),
        ("=1;=2;+3", "'=1;'=2;'+3"),
        ("a; b\r\n\r\nc", "a; b\r\n\r\nc"),
    ],
)
def test_what_would_be_a_cell_of_its_own_where_semicolons_end_cells_is_harmless(cell: str, harmless: str) -> None:
    assert escape_formulas(cell) == harmless
    assert unescape_formulas(harmless) == cell


@given(text(alphabet="'\"=+-@;\t\r\nab", max_size=8))
def test_every_cell_comes_back_as_it_was_and_none_is_run(cell: str) -> None:
    assert unescape_formulas(escape_formulas(cell)) == cell
    assert escape_formulas(cell)[:1] not in {"=", "+", "-", "@", "\t", "\r", "\n"}
    assert not re.search(r"[;\t\r\n]\"*[=+@-]", escape_formulas(cell))


@given(lists(text(alphabet="'\"=+-@;,\t\r\nab", max_size=8), min_size=2, max_size=4))
def test_a_file_comes_back_as_it_was(cells: list[str]) -> None:
    content = b"".join(csv_stream(["id"] * len(cells), [cells])).decode("utf-8-sig")
    read = list(csv.reader(io.StringIO(content, newline="")))[1]
    assert [unescape_formulas(cell) for cell in read] == cells


@given(lists(text(alphabet="'\"=+-@;,ab", max_size=8), min_size=2, max_size=4))
def test_a_file_cut_at_semicolons_has_no_formula(cells: list[str]) -> None:
    content = b"".join(csv_stream(["id"] * len(cells), [cells])).decode("utf-8-sig")
    for row in csv.reader(io.StringIO(content, newline=""), delimiter=";"):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)
