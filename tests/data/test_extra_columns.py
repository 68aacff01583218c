"""Other columns of a table: each value belongs to the item of its own row, whatever was left out before it."""

import csv
import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from understudy import UnderstudyError, load
from understudy.data.extra_columns import MAX_VALUE_LENGTH, has_columns, read_extra_columns, text_of_cell

ROWS: list[dict[str, Any]] = [
    {"text": "one", "label": "a", "split": "train", "title": "First", "stars": "5"},
    {"text": "", "label": "a", "split": "train", "title": "left out: no text", "stars": "1"},
    {"text": "two", "label": "", "split": "test", "title": "Tested", "stars": "2"},
    {"text": "three", "label": "b", "split": "train", "title": "Third", "stars": "3"},
]


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_values_are_those_of_the_row_of_each_item(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    found = read_extra_columns(path, {}, ["title", "stars"])
    pool = load(path).pool
    assert found.there == ("split", "title", "stars")
    assert [found.values["title"][identity] for identity in pool.ids] == ["First", "Third"]
    assert [found.values["stars"][identity] for identity in pool.ids] == ["5", "3"]


def test_images_of_a_table_have_columns_too(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    rows = [{"path": "b.png", "camera": "X1"}, {"path": "gone.png", "camera": "X2"}, {"path": "a.png", "camera": "X3"}]
    found = read_extra_columns(write(tmp_path / "t.csv", rows), {}, ["camera"])
    assert found.values["camera"] == {"b.png": "X1", "a.png": "X3"}


def test_columns_of_files_in_cells_are_not_offered(tmp_path: Path) -> None:
    rows = [{"text": "one", "scan": b"\x89PNG", "picture": {"bytes": b"", "path": "x"}, "year": 1999}]
    found = read_extra_columns(write(tmp_path / "t.parquet", rows), {"text": "text"}, ["year"])
    assert found.there == ("year",)
    assert list(found.values["year"].values()) == ["1999"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tilte", r"t.csv has no column 'tilte' to show; it can show 'split', 'title', 'stars'"),
        ("text", "column 'text' is the text itself, which is shown anyway"),
        ("label", "column 'label' holds labels, which would answer for whoever labels"),
    ],
)
def test_a_column_that_cannot_be_shown_is_refused_in_one_line(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(UnderstudyError, match=said) as error:
        read_extra_columns(write(tmp_path / "t.csv"), {}, [name])
    assert "\n" not in str(error.value)


def test_columns_that_were_named_for_text_and_label_are_those_that_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv")
    named = {"text": "title", "label": "split"}
    assert read_extra_columns(path, named, ["text"]).there == ("text", "label", "stars")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (float("nan"), ""), (b"bytes", ""), (5, "5"), (5.0, "5"), (0.1, "0.1"), (True, "True"),
        (date(2024, 1, 31), "2024-01-31"), (datetime(2024, 1, 31), "2024-01-31"),
        (datetime(2024, 1, 31, 12, 30), "2024-01-31 12:30:00"), (["a", 1], '["a", 1]'), ({"é": None}, '{"é": null}'),
        ("a\ud800b", "a?b"),
    ],
)  # fmt: skip
def test_a_cell_is_written_as_people_read_it(value: object, text: str) -> None:
    assert text_of_cell(value) == text


def test_a_long_value_is_cut() -> None:
    assert text_of_cell("x" * MAX_VALUE_LENGTH) == "x" * MAX_VALUE_LENGTH
    assert text_of_cell("x" * 10_000) == "x" * (MAX_VALUE_LENGTH - 1) + "…"


def test_only_tables_have_columns() -> None:
    found = [has_columns(Path(name)) for name in ("a.csv", "a.XLSX", "a.txt", "a.npz", "a")]
    assert found == [True, True, False, False, False]
