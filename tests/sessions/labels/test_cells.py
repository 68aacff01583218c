"""Formulas in cells: harmless in a spreadsheet, unchanged after a round trip."""

import pytest
from hypothesis import given
from hypothesis.strategies import text

from understudy.sessions.labels.cells import neutral, restored


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1"])
def test_what_a_spreadsheet_would_run_begins_with_an_apostrophe(cell: str) -> None:
    assert neutral(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["", "cat", "'tis", "a=b", "1-2", "don't", "'"])
def test_harmless_cells_stay_as_they_are_both_ways(cell: str) -> None:
    assert neutral(cell) == cell == restored(cell)


@given(text(alphabet="'=+-@\t\r\nab", max_size=6))
def test_every_cell_comes_back_as_it_was_and_none_is_run(cell: str) -> None:
    assert restored(neutral(cell)) == cell
    assert neutral(cell)[:1] not in {"=", "+", "-", "@", "\t", "\r", "\n"}
