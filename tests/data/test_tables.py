"""Tables as programs and people write them; their broken lines are named by number."""

import csv
import io
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from understudy import UnderstudyError
from understudy.data.faults import ItemFault
from understudy.data.items import StoredImages
from understudy.data.tables import MAX_ROW_GROUPS, Cells, Table, read_table

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), min_size=1)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(table: Table) -> list[Any]:
    return list(table.values["text"])


def faults(table: Table) -> list[str]:
    return [f"{fault.item}: {fault.problem}" for fault in table.faults]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@given(TEXTS, st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_text_that_python_writes_as_csv_comes_back(
    place: Path, values: list[str], delimiter: str, end: str, mark: bool
) -> None:
    stream = io.StringIO()
    # Unless told to quote, Python 3.11 writes a lone carriage return bare, and nobody can read it back.
    writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows([["number", "text"], *([row, value] for row, value in enumerate(values))])
    path = written(place / "a.csv", ("\ufeff" if mark else "") + stream.getvalue())
    table = read_table(path, {"id": "number"})
    assert texts(table) == values
    assert table.values["id"] == [str(row) for row in range(len(values))]
    assert not table.faults


@given(st.lists(st.text(min_size=1), min_size=1))
def test_any_text_that_python_writes_as_jsonl_comes_back(place: Path, values: list[str]) -> None:
    path = written(place / "a.jsonl", "\n".join(json.dumps({"text": value}) for value in values))
    table = read_table(path, {})
    assert texts(table) == values
    assert table.names == [f"line {row + 1}" for row in range(len(values))]


@given(TEXTS)
def test_any_text_that_arrow_writes_as_parquet_comes_back(place: Path, values: list[str]) -> None:
    parquet.write_table(pyarrow.table({"text": values, "other": values}), place / "a.parquet")
    table = read_table(place / "a.parquet", {})
    assert texts(table) == values
    assert list(table.values) == ["text"]


def test_lines_are_named_by_the_number_an_editor_shows(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "a.csv", 'text\n"one\ntwo"\n\nthree\n'), {})
    assert texts(table) == ["one\ntwo", "three"]
    assert table.names == ["line 2", "line 5"]


def test_broken_lines_of_csv_are_collected(tmp_path: Path) -> None:
    content = b'id,text\n1,\xc3\xb6ne\n2\n3,t,hree\n4,K\xe4se\n5,"fi"ve\n6,six\n7,"seven\n8,eight\n'
    table = read_table(written(tmp_path / "a.csv", content), {})
    assert texts(table) == ["öne", "six"]
    assert faults(table) == [
        "line 3: 1 values for 2 columns",
        "line 4: 3 values for 2 columns",
        "line 5: not in UTF-8",
        "line 6: broken (',' expected after '\"')",
        "line 8: a quote is opened and never closed, so all is lost up to line 9",
    ]


def test_a_cell_may_be_long_and_the_limit_of_the_csv_module_is_left_as_it_was(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    assert texts(read_table(written(tmp_path / "a.csv", "text\n" + "x" * 500_000), {})) == ["x" * 500_000]
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty or begins with an empty line"),
        ("\n\ntext\na", "is empty or begins with an empty line"),
        ("text,text\na,b", "has more than one column 'text'; rename"),
        ("a.jpg,cat\nb.jpg,dog", "its columns are 'a.jpg', 'cat': name one"),
        (b"K\xe4se,text\n1,\xc3\xb6", "its header line is not in UTF-8"),
        ('"text\na', "its header line is broken"),
    ],
)
def test_a_csv_without_a_proper_header_is_an_error(content: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=message) as caught:
        read_table(written(tmp_path / "a.csv", content), {})
    assert str(tmp_path / "a.csv") in str(caught.value)


def test_broken_lines_of_jsonl_are_collected(tmp_path: Path) -> None:
    deep = b"[" * 100_000
    content = (
        b'\xef\xbb\xbf{"text": "one"}\n{"text": \n\n[1]\n{"text": "K\xe4se"}\n'
        + deep
        + b'\n{"text": "six"}\r\n{"label": 1}\n'
    )
    table = read_table(written(tmp_path / "a.jsonl", content), {})
    assert texts(table) == ["one", "six", None]
    assert table.values["label"] == [None, None, 1]
    assert table.names == ["line 1", "line 7", "line 8"]
    assert [fault.split(" (")[0] for fault in faults(table)] == [
        "line 2: not JSON", "line 4: JSON, but not an object", "line 5: not in UTF-8", "line 6: not JSON",
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["", "\n\n", "[1]\n"])
def test_jsonl_without_an_object_is_an_error(content: str, tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match="has no JSON object on any line"):
        read_table(written(tmp_path / "a.jsonl", content), {})


def test_a_parquet_file_with_the_wrong_columns_says_which_it_has(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"a": [1], "b": [2]}), tmp_path / "a.parquet")
    with pytest.raises(UnderstudyError, match=r"a.parquet has no column of paths .*; its columns are 'a', 'b': name"):
        read_table(tmp_path / "a.parquet", {})
    with pytest.raises(UnderstudyError, match=r"a.parquet has no column 'text'; its columns are 'a', 'b'"):
        read_table(tmp_path / "a.parquet", {"text": "text"})


def test_a_parquet_file_that_is_none_gets_one_line(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"text": ["a"] * 1000}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for content in (b"", b"PAR1 hello", whole[:-20], whole[:10] + bytes(40) + whole[50:]):
        with pytest.raises(UnderstudyError, match="cannot be read") as caught:
            read_table(written(tmp_path / "b.parquet", content), {})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_file_that_is_not_there_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=f"{name}: no such file"):
        read_table(tmp_path / name, {})
    (tmp_path / name).mkdir()
    with pytest.raises(UnderstudyError, match="cannot be read"):
        read_table(tmp_path / name, {})


@pytest.mark.parametrize("column", ["image", "img"])
def test_images_in_cells_stay_in_the_table(column: str, tmp_path: Path) -> None:
    cells = [{"bytes": bytes([row % 256]), "path": f"{row}.png"} for row in range(3000)]
    parquet.write_table(pyarrow.table({column: cells, "text": ["a"] * 3000}), tmp_path / "a.parquet")
    found = read_table(tmp_path / "a.parquet", {}).values["path"]
    assert isinstance(found, Cells)
    assert len(found) == 3000
    assert [found[row] for row in (0, 1500, 2999)] == [cells[row] for row in (0, 1500, 2999)]
    assert pickle.loads(pickle.dumps(found))[7] == cells[7]


@pytest.mark.parametrize("kind", ["struct", "binary"])
def test_a_column_of_images_is_taken_rather_than_their_names(kind: str, tmp_path: Path) -> None:
    cell = {"bytes": b"x", "path": None} if kind == "struct" else b"x"
    parquet.write_table(pyarrow.table({"filename": ["a.png"], "image": [cell]}), tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", {}).values["path"][0] == cell
    assert read_table(tmp_path / "a.parquet", {"path": "filename"}).values["path"] == ["a.png"]


def test_bytes_of_another_name_are_no_images_where_there_are_paths(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"path": ["a.png"], "md5": [b"x"]}), tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", {}).values["path"] == ["a.png"]


def test_few_row_groups_of_images_are_in_memory_whatever_threads_read(tmp_path: Path) -> None:
    cells = [bytes([row]) for row in range(100)]
    parquet.write_table(pyarrow.table({"image": cells}), tmp_path / "a.parquet", row_group_size=7)
    found = read_table(tmp_path / "a.parquet", {}).values["path"]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(found.__getitem__, range(100))) == cells
        assert list(threads.map(found.__getitem__, reversed(range(100)))) == cells[::-1]
    assert isinstance(found, Cells)
    assert len(found.columns[0].kept) == MAX_ROW_GROUPS


def test_a_parquet_file_that_vanished_is_the_fault_of_each_image(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"image": [b"x", b"y"]}), tmp_path / "a.parquet")
    found = read_table(tmp_path / "a.parquet", {}).values["path"]
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(ItemFault, match=r"^row 0: cannot be read \("):
        StoredImages(found.__getitem__, ["row 0", "row 1"]).read(0)
    written(tmp_path / "a.parquet", whole[:20])
    with pytest.raises(ItemFault, match=r"^row 1: cannot be read \("):
        StoredImages(found.__getitem__, ["row 0", "row 1"]).read(1)


def test_columns_one_after_another_read_as_one() -> None:
    cells = Cells([1, 2], [], [3])
    assert len(cells) == 3
    assert list(cells) == [1, 2, 3]


def test_the_names_hugging_face_keeps_for_classes_are_found(tmp_path: Path) -> None:
    kept = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    table = pyarrow.table({"text": ["a"], "label": [1]}).replace_schema_metadata({"huggingface": json.dumps(kept)})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", {}).classes == ("cat", "dog")
