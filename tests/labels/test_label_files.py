"""Labels as files: safe in a spreadsheet, typed for programs."""

import csv
import io
import json

from pyarrow import parquet

from tests.sessions.leaving import CLASSES, IDS, TEXTS, leaving, made, numbered, text_project
from understudy.data.pool import Pool
from understudy.labels.label_files import labels_csv, labels_jsonl, labels_parquet, labels_prodigy
from understudy.labels.outgoing import COLUMNS, Outgoing
from understudy.projects.settings import Settings
from understudy.sessions.log.events import Event
from understudy.sessions.outgoing import outgoing
from understudy.sessions.record import Record


def csv_rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))


def test_no_cell_of_a_csv_file_is_a_formula() -> None:
    header, *rows = csv_rows(b"".join(labels_csv(text_project())))
    assert tuple(header) == (*COLUMNS, "text")
    cells = [cell for row in rows for cell in row if cell]
    assert not [cell for cell in cells if cell[0] in "=+-@\t\r\n"]
    assert f"'{CLASSES[1]}" in cells
    assert "'=eve" in cells
    assert "'@look" in cells
    assert "'-1" in cells


def test_a_csv_file_begins_with_the_mark_that_spreadsheets_need() -> None:
    content = b"".join(labels_csv(leaving()))
    assert content.startswith(b"\xef\xbb\xbfid,item,label,")
    assert "ä ö.png" in content.decode()


def test_texts_with_separators_quotes_and_line_ends_stay_one_cell() -> None:
    rows = csv_rows(b"".join(labels_csv(text_project())))
    assert {len(row) for row in rows} == {len(COLUMNS) + 1}
    assert TEXTS[1] in [row[-1] for row in rows]


def test_lines_of_json_hold_the_values_themselves() -> None:
    rows = [json.loads(line) for line in b"".join(labels_jsonl(text_project())).splitlines()]
    assert tuple(rows[0]) == (*COLUMNS, "text")
    assert rows[2]["label"] == CLASSES[1]
    assert rows[0]["flagged"] is False
    assert rows[5]["label"] is None
    assert {row["text"] for row in rows} <= set(TEXTS)


def test_parquet_has_types() -> None:
    content = b"".join(labels_parquet(leaving()))
    table = parquet.read_table(io.BytesIO(content))
    assert table.column_names == list(COLUMNS)
    kinds = {
        name: str(table.schema.field(name).type) for name in ("item", "label", "seconds", "flagged", "labelled_at")
    }
    assert kinds == {
        "item": "int64", "label": "string", "seconds": "double", "flagged": "bool",
        "labelled_at": "timestamp[us, tz=UTC]",
    }  # fmt: skip
    assert table["id"].to_pylist()[:3] == [IDS[0], IDS[0], IDS[1]]


def test_prodigys_form_has_options_and_what_was_accepted() -> None:
    entries = [json.loads(line) for line in b"".join(labels_prodigy(text_project())).splitlines()]
    assert entries[0]["accept"] == ["cat"]
    assert entries[0]["answer"] == "accept"
    assert entries[0]["text"] == TEXTS[0]
    assert [option["id"] for option in entries[0]["options"]] == list(CLASSES)
    assert [entry["answer"] for entry in entries[5:8]] == ["ignore", "reject", "ignore"]


def with_note(note: str) -> Outgoing:
    events = numbered(
        made(Settings(classes=CLASSES), 1, []), Event("flagged", 0, "ann", data={"on": True, "note": note})
    )
    return outgoing(Record.of(events), Pool(IDS[:1]))


def test_halves_of_characters_do_not_stop_an_export() -> None:
    broken = with_note("half \ud800")
    assert json.loads(b"".join(labels_jsonl(broken)))["note"] == "half \ud800"
    assert b"half \\ud800" in b"".join(labels_csv(broken))
    assert parquet.read_table(io.BytesIO(b"".join(labels_parquet(broken))))["note"].to_pylist() == ["half \\ud800"]


def test_a_project_without_labels_leaves_whole_files_with_nothing_in_them() -> None:
    empty = outgoing(Record.of(numbered(made(Settings(), 8, []))), Pool(IDS))
    assert len(csv_rows(b"".join(labels_csv(empty)))) == 1
    assert b"".join(labels_jsonl(empty)) == b""
    assert parquet.read_table(io.BytesIO(b"".join(labels_parquet(empty)))).num_rows == 0
