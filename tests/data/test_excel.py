"""Excel files: the first sheet as a table."""

import builtins
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from understudy import load
from understudy.data.tables import read_table
from understudy.errors import UnderstudyError


def book(path: Path, *sheets: list[list[Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    made = openpyxl.Workbook()
    made.remove(made.active)
    for number, rows in enumerate(sheets):
        sheet = made.create_sheet(f"sheet {number}")
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def test_the_first_sheet_is_read_and_others_are_said(tmp_path: Path) -> None:
    path = book(
        tmp_path / "reviews.xlsx",
        [["text", "label", "id"], ["Schön!", "good", 1], [None, None, None], ["Nie wieder", "bad", 2.0]],
        [["something", "else"]],
    )
    pool = load(path).pool
    assert [pool.item(row) for row in range(2)] == ["Schön!", "Nie wieder"]
    assert (pool.ids, pool.classes) == (("1", "2"), ("bad", "good"))
    assert "the first sheet, 'sheet 0', is read; 'sheet 1' are not" in str(pool.faults[0])


def test_cells_are_text_as_people_see_it(tmp_path: Path) -> None:
    rows: list[list[Any]] = [["text"], [3], [2.5], [True], [date(2024, 1, 31)], [datetime(2024, 1, 31, 8, 30)]]
    table = read_table(book(tmp_path / "a.xlsx", rows), {})
    assert table.values["text"] == ["3", "2.5", "True", "2024-01-31", "2024-01-31 08:30:00"]
    assert table.names == ["row 2", "row 3", "row 4", "row 5", "row 6"]
    assert table.faults == ()


def test_columns_can_be_named(tmp_path: Path) -> None:
    table = read_table(book(tmp_path / "a.xlsx", [["body", "x"], ["one", 1]]), {"text": "body"})
    assert table.values == {"text": ["one"]}


@pytest.mark.parametrize(
    ("content", "said"), [(b"no zip", "is not an Excel file"), (b"PK\x05\x06" + b"\0" * 18, "is not an Excel file")]
)
def test_what_is_not_an_excel_file_is_said(tmp_path: Path, content: bytes, said: str) -> None:
    pytest.importorskip("openpyxl")
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(UnderstudyError, match=said):
        read_table(tmp_path / "a.xlsx", {})


def test_without_the_package_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "openpyxl":
            raise ImportError(name)
        return real(name, *rest, **named)

    (tmp_path / "a.xlsx").write_bytes(b"PK")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnderstudyError, match=r"need one more package: pip install 'understudy-al\[excel\]'"):
        read_table(tmp_path / "a.xlsx", {})
