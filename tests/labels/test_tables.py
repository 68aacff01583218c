"""Tables: those that other people made come in; those that go out are safe in a spreadsheet and typed for programs."""

import csv
import io
import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.sessions.leaving import CLASSES, TEXTS, leaving, made, numbered, text_project
from tests.sessions.leaving import IDS as ITEM_IDS
from understudy.data.items import Texts
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError
from understudy.labels import tables
from understudy.labels.export_data import COLUMNS, ExportData
from understudy.labels.formats import read_labels
from understudy.labels.imported_labels import Imported
from understudy.labels.tables import write_csv, write_jsonl, write_parquet
from understudy.projects.settings import Settings
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record

IDS = ("cat/1.png", "cat/2.png", "3.png")


def read(content: str, ids: tuple[str, ...] = IDS, **named: str) -> Imported:
    return read_labels(content.encode(), None, ids, columns=named)


def pairs(found: Imported) -> list[tuple[int, str]]:
    return [(label.row, label.label_name) for label in found.labels]


@pytest.mark.parametrize(
    "header", ["id,label", "path,class", "Filename;Category", "image\tLABEL", "item,label", "file_name,class"]
)
def test_the_usual_names_of_columns_are_known(header: str) -> None:
    mark = next(mark for mark in ",;\t" if mark in header)
    found = read(f"{header}\ncat/2.png{mark}tabby\n3.png{mark}fox\n")
    assert pairs(found) == [(1, "tabby"), (2, "fox")]
    assert found.new_classes == ("tabby", "fox")


def test_who_and_when_come_along_and_annotators_are_kept_apart() -> None:
    found = read("id,label,annotator,labelled_at\n3.png,fox,ann,1970-01-01T00:00:09Z\n3.png,dog,bob,\n3.png,cat,,\n")
    assert [(label.label_name, label.annotator, label.at) for label in found.labels] == [
        ("fox", "ann", 9.0), ("dog", "bob", None), ("cat", None, None),
    ]  # fmt: skip


def test_the_last_label_of_an_annotator_for_an_item_counts() -> None:
    found = read("id,label\n3.png,fox\ncat/1.png,cat\n3.png,dog\n")
    assert pairs(found) == [(0, "cat"), (2, "dog")]
    assert found.repeated == 1
    assert found.new_classes == ("cat", "dog")


def test_what_cannot_be_used_is_counted_and_named() -> None:
    found = read(
        "id,label\n3.png,fox\nnone.png,fox\n3.png\nx.png,\n1.png,a\n", ids=("cat/1.png", "dog/1.png", "3.png", "x.png")
    )
    assert pairs(found) == [(2, "fox")]
    assert (found.not_in_pool.count, found.not_in_pool.first) == (1, ("line 3 (none.png)",))
    assert (found.ambiguous.count, found.ambiguous.first) == (1, ("line 6 (1.png)",))
    assert found.broken.count == 1
    assert found.broken.first[0].startswith("line 4: 1 values for 2 columns")
    assert found.unlabelled == 1


def test_labels_that_are_no_text_are_counted() -> None:
    lines = [{"id": "3.png", "label": {"a": 1}}, {"id": "cat/1.png", "label": ["x", "y"]}, {"id": 5, "label": 7}]
    found = read("\n".join(map(json.dumps, lines)), ids=(*IDS, "5"))
    assert pairs(found) == [(3, "7")]
    assert found.no_text.count == 2


def test_numbers_are_classes_and_minus_one_is_none() -> None:
    found = read("id,label\n3.png,1\ncat/1.png,-1\ncat/2.png,0\n")
    assert pairs(found) == [(2, "1"), (1, "0")]
    assert found.unlabelled == 1


def test_texts_match_by_identity_or_else_by_what_they_say() -> None:
    texts = Texts(["red, or so", "blue", "blue"])
    content = b'text,label\n"red, or so",warm\nblue,cold\nline 3,cold\n'
    found = read_labels(content, "csv", ("line 2", "line 3", "line 4"), items=texts)
    assert pairs(found) == [(0, "warm"), (1, "cold")]
    assert found.ambiguous.count == 1


def test_an_identity_goes_before_a_text_that_others_share() -> None:
    texts = Texts(["blue", "blue"])
    found = read_labels(b"id,text,label\nb,blue,cold\n", "csv", ("a", "b"), items=texts)
    assert pairs(found) == [(1, "cold")]


def test_an_identity_that_only_numbers_a_line_does_not_move_labels_to_other_texts() -> None:
    texts, ids = Texts(["blue", "red  and\r\ngreen", "grey"]), ("line 2", "line 3", "line 4")
    content = b"id,text,label\nline 2,grey,cold\nline 3,red and green,warm\nline 4,not here,warm\nline 2,,cold\n"
    found = read_labels(content, "csv", ids, items=texts)
    assert pairs(found) == [
        (2, "cold"),
        (1, "warm"),
        (0, "cold"),
    ]  # by text, as blanks do not count, and without a text
    assert found.not_in_pool.first == ("line 4 (line 4)",)
    named = read_labels(content.replace(b"line ", b"nr "), "csv", ("nr 2", "nr 3", "nr 4"), items=texts)
    assert len(named.labels) == 3  # an id of the table's own is the item, whatever became of its text
    assert {label.row for label in named.labels} == {0, 1, 2}


def test_excel_is_read_from_a_file_and_from_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for cells in (
        ("Filename", "Category", "annotator"),
        ("1.png", "cat", "ann"),
        ("3.png", 7, None),
        ("9.png", "dog", ""),
    ):
        book.active.append(cells)
    book.save(tmp_path / "labels.xlsx")
    for source in (tmp_path / "labels.xlsx", (tmp_path / "labels.xlsx").read_bytes()):
        found = read_labels(source, None, IDS)
        assert [(label.row, label.label_name, label.annotator) for label in found.labels] == [
            (0, "cat", "ann"), (2, "7", None),
        ]  # fmt: skip
        assert found.not_in_pool.first == ("row 4 (9.png)",)
    monkeypatch.setattr(tables, "MAX_UNPACKED_EXCEL_BYTES", 100)
    with pytest.raises(UnderstudyError, match=r"unpacks to .* bytes; save it as CSV"):
        read_labels(tmp_path / "labels.xlsx", None, IDS)


def test_parquet_of_others_is_read_and_its_class_names_with_it(tmp_path: Path) -> None:
    about = {"info": {"features": {"label": {"names": ["cat", "dog"]}}}}
    table = pyarrow.table({"image_path": ["3.png", "cat/1.png"], "label": [1, -1]})
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), tmp_path / "x.parquet")
    found = read_labels(tmp_path / "x.parquet", None, IDS)
    assert pairs(found) == [(2, "dog")]
    assert found.unlabelled == 1


def test_columns_with_other_names_are_named() -> None:
    assert pairs(read("pic,kind\n3.png,fox\n", id="pic", label="kind")) == [(2, "fox")]
    with pytest.raises(UnderstudyError, match="the file has no column 'nope'; its columns are 'pic', 'kind'"):
        read("pic,kind\n3.png,fox\n", id="nope")


def test_apostrophes_before_formulas_are_taken_away_only_where_they_were_put() -> None:
    ids = ("=a.png", "'=a.png", "'b.png")
    found = read("id,label\n'=a.png,'=x\n'b.png,'tis\n", ids=ids)
    assert pairs(found) == [(1, "=x"), (2, "'tis")]  # an item that is written just so goes first
    assert pairs(read("id,label\n'=a.png,x\n", ids=ids[:1])) == [(0, "x")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n", "no column that names items"),
        ("id,b\n1,2\n", "no column of labels"),
        ("id,id,label\n", "more than one column 'id'"),
        ("{broken\n", "no JSON object on any line"),
        ("   ", "the file is empty"),
    ],
)
def test_files_without_labels_are_refused_in_one_line(content: str, said: str) -> None:
    with pytest.raises(UnderstudyError, match=said) as caught:
        read(content)
    assert "\n" not in str(caught.value)
    assert "/tmp" not in str(caught.value)


def test_a_parquet_file_that_is_none_is_refused() -> None:
    with pytest.raises(UnderstudyError, match="the file cannot be read"):
        read_labels(b"PAR1 and nothing else", None, IDS)


def test_a_parquet_file_that_would_burst_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.labels.tables.MAX_ROWS", 10)
    parquet.write_table(pyarrow.table({"id": ["x"] * 11, "label": ["y"] * 11}), tmp_path / "x.parquet")
    with pytest.raises(UnderstudyError, match="has 11 rows"):
        read_labels(tmp_path / "x.parquet", None, IDS)


def test_prodigys_answers_are_labels_where_they_accept() -> None:
    lines = [
        {"text": "blue", "accept": ["cold"], "answer": "accept", "_annotator_id": "ann", "_timestamp": 60},
        {"text": "red", "accept": ["warm"], "answer": "ignore"},
    ]
    content = "\n".join(map(json.dumps, lines)).encode()
    found = read_labels(content, None, ("line 1", "line 2"), items=Texts(["blue", "red"]))
    assert [(label.row, label.label_name, label.annotator, label.at) for label in found.labels] == [
        (0, "cold", "ann", 60.0)
    ]
    assert found.unlabelled == 1


def csv_rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))


def test_no_cell_of_a_csv_file_is_a_formula() -> None:
    header, *rows = csv_rows(b"".join(write_csv(text_project())))
    assert tuple(header) == (*COLUMNS, "text")
    cells = [cell for row in rows for cell in row if cell]
    assert not [cell for cell in cells if cell[0] in "=+-@\t\r\n"]
    assert f"'{CLASSES[1]}" in cells
    assert "'=eve" in cells
    assert "'@look" in cells
    assert "'-1" in cells


def test_a_csv_file_begins_with_the_mark_that_spreadsheets_need() -> None:
    content = b"".join(write_csv(leaving()))
    assert content.startswith(b"\xef\xbb\xbfid,item,label,")
    assert "ä ö.png" in content.decode()


def test_texts_with_separators_quotes_and_line_ends_stay_one_cell() -> None:
    rows = csv_rows(b"".join(write_csv(text_project())))
    assert {len(row) for row in rows} == {len(COLUMNS) + 1}
    assert TEXTS[1] in [row[-1] for row in rows]


def test_lines_of_json_hold_the_values_themselves() -> None:
    rows = [json.loads(line) for line in b"".join(write_jsonl(text_project())).splitlines()]
    assert tuple(rows[0]) == (*COLUMNS, "text")
    assert rows[2]["label"] == CLASSES[1]
    assert rows[0]["flagged"] is False
    assert rows[5]["label"] is None
    assert {row["text"] for row in rows} <= set(TEXTS)


def test_tables_of_versions_with_fewer_columns_are_known_as_ours() -> None:
    """A class called -1 is one only in a table of ours; elsewhere it may mean "none"."""
    header = ",".join(COLUMNS[: COLUMNS.index("resolution")])
    row = ["a.png", "0", "-1", "-1", "label", "ann", *[""] * 10]
    found = read(f"{header}\n{','.join(row)}\n", ids=("a.png",))
    assert pairs(found) == [(0, "-1")]


def test_parquet_has_types() -> None:
    content = b"".join(write_parquet(leaving()))
    table = parquet.read_table(io.BytesIO(content))
    assert table.column_names == list(COLUMNS)
    kinds = {
        name: str(table.schema.field(name).type)
        for name in ("item", "label", "seconds", "flagged", "labelled_at", "resolution", "disputed")
    }
    assert kinds == {
        "item": "int64", "label": "string", "seconds": "double", "flagged": "bool",
        "labelled_at": "timestamp[us, tz=UTC]", "resolution": "string", "disputed": "bool",
    }  # fmt: skip
    assert table["id"].to_pylist()[:3] == [ITEM_IDS[0], ITEM_IDS[0], ITEM_IDS[1]]


def with_note(note: str) -> ExportData:
    events = numbered(
        made(Settings(classes=CLASSES), 1, []), Event("flagged", 0, "ann", data={"on": True, "note": note})
    )
    return collect_labels(Record.from_events(events), Pool(ITEM_IDS[:1]))


def test_halves_of_characters_do_not_stop_an_export() -> None:
    broken = with_note("half \ud800")
    assert json.loads(b"".join(write_jsonl(broken)))["note"] == "half \ud800"
    assert b"half \\ud800" in b"".join(write_csv(broken))
    assert parquet.read_table(io.BytesIO(b"".join(write_parquet(broken))))["note"].to_pylist() == ["half \\ud800"]


def test_a_project_without_labels_leaves_whole_files_with_nothing_in_them() -> None:
    empty = collect_labels(Record.from_events(numbered(made(Settings(), 8, []))), Pool(ITEM_IDS))
    assert len(csv_rows(b"".join(write_csv(empty)))) == 1
    assert b"".join(write_jsonl(empty)) == b""
    assert parquet.read_table(io.BytesIO(b"".join(write_parquet(empty)))).num_rows == 0
