"""Everything that leaves a project comes back as it was; a file is known by its name or its first bytes."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import typer
from pyarrow import parquet

from tests.sessions.leaving import AT, IDS, arrays, images, labelled, leaving, made, numbered, text_project
from understudy import cli
from understudy.data.pool import Pool
from understudy.errors import NotFound, UnderstudyError, UsageError
from understudy.labels import formats, tables
from understudy.labels.class_folders import write_class_folders
from understudy.labels.export_data import ExportData
from understudy.labels.formats import (
    FORMATS,
    MAX_UPLOAD_BYTES,
    READERS,
    format_named,
    format_of_content,
    read_labels,
    starts_with,
)
from understudy.projects.settings import Settings
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.record import Record

LABELS = [name for name, form in FORMATS.items() if not form.is_of_items and not form.is_of_model]


def project_of(kind: str, folder: Path) -> ExportData:
    return {"image": lambda: leaving(images(folder)), "array": lambda: leaving(arrays()), "text": text_project}[kind]()


def content_of(out: ExportData, form: str) -> bytes:
    return b"".join(FORMATS[form].write(out))


@pytest.mark.parametrize("form", LABELS)
@pytest.mark.parametrize("kind", ["image", "array", "text"])
def test_labels_come_back_as_they_left(form: str, kind: str, tmp_path: Path) -> None:
    out = project_of(kind, tmp_path)
    found = read_labels(content_of(out, form), None, out.ids, items=out.items, classes=out.classes)
    theirs = [(label.row, label.label_name, label.annotator) for label in found.labels]
    assert theirs == [(row.item, row.label, row.annotator) for row in out.rows if row.label is not None]
    assert found.new_classes == ()
    assert found.not_in_pool.count == found.ambiguous.count == found.broken.count == found.no_text.count == 0
    digits = 0 if form == "prodigy" else 6  # it counts whole seconds
    times = [AT + 3, AT + 7, AT + 5, AT + 8, AT + 9, AT + 17]
    assert [round(label.at or 0, digits) for label in found.labels] == [round(at, digits) for at in times]


@pytest.mark.parametrize("kind", ["image", "array", "text"])
def test_folders_of_classes_come_back_with_the_labels_that_count(kind: str, tmp_path: Path) -> None:
    out = project_of(kind, tmp_path / "pool")
    expected = sorted(out.effective.items())
    zipped = read_labels(content_of(out, "folders"), None, out.ids, items=out.items, classes=out.classes)
    assert sorted((label.row, label.label_name) for label in zipped.labels) == expected
    for copy in (False, True):
        write_class_folders(out, tmp_path / f"out {copy}", copy=copy)
        found = read_labels(tmp_path / f"out {copy}", None, out.ids, classes=out.classes)
        assert sorted((label.row, label.label_name) for label in found.labels) == expected
        assert found.new_classes == ()


@pytest.mark.parametrize("form", [*LABELS, "folders"])
def test_the_same_labels_make_the_same_file(form: str) -> None:
    assert content_of(text_project(), form) == content_of(text_project(), form)


def test_predictions_come_back_as_the_labels_that_are_known() -> None:
    out = replace(leaving(), predictions=lambda: np.full((len(IDS), 6), 1 / 6, np.float32))
    for form in ("predictions-csv", "predictions-jsonl", "predictions-parquet"):
        found = read_labels(content_of(out, form), None, out.ids, classes=out.classes)
        assert sorted((label.row, label.label_name) for label in found.labels) == sorted(out.effective.items())


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnderstudyError, match="no format 'xml'; choose one of csv, jsonl"):
        format_named("xml")
    assert {
        "csv",
        "jsonl",
        "parquet",
        "labelstudio",
        "predictions-csv",
        "predictions-parquet",
        "folders",
        "model",
    } <= set(FORMATS)


def test_without_a_model_that_is_said_before_anything_is_sent() -> None:
    for form in ("model", "predictions-csv"):
        with pytest.raises(NotFound, match="no model yet"):
            FORMATS[form].write(leaving())


def test_many_labels_leave_in_pieces_and_in_order() -> None:
    n = 5500
    ids = tuple(f"folder {row // 1000}/{row}.png" for row in range(n))
    events = numbered(
        made(Settings(classes=("cat", "dog")), n, []), *(labelled(row, "ann", row % 2) for row in range(n))
    )
    out = collect_labels(Record.from_events(events), Pool(ids))
    for form in ("csv", "jsonl", "parquet"):
        assert len(list(FORMATS[form].write(out))) >= 2
    assert [row.item for row in out.rows] == list(range(n))


def test_what_leaves_does_not_change_while_people_go_on() -> None:
    events = numbered(made(Settings(classes=("cat", "dog")), 9, []), labelled(0, "ann", 0), labelled(0, "bob", 1))
    record = Record.from_events(events[:2])
    out = collect_labels(record, Pool(tuple("abcdefghi")))
    record.apply(events[2])
    assert [(row.annotator, row.label) for row in out.rows] == [("ann", "cat")]


def test_a_file_is_known_by_its_name_and_bytes_by_their_start(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,label\na,b\n")
    assert len(read_labels(tmp_path / "x.csv", None, ("a",)).labels) == 1
    starts = {
        b"PAR1..": "parquet",
        b"PK\x03\x04": "folders",
        b"\xef\xbb\xbf [": "labelstudio",
        b"{": "jsonl",
        b"i": "csv",
    }
    assert {start: format_of_content(start) for start in starts} == starts


def test_a_format_that_is_given_goes_before_the_name(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("id,label\na,b\n")
    assert len(read_labels(tmp_path / "x.txt", "csv", ("a",)).labels) == 1
    with pytest.raises(UnderstudyError, match="no known suffix"):
        read_labels(tmp_path / "x.txt", None, ("a",))


def test_classes_that_are_known_are_not_new() -> None:
    found = read_labels(b"id,label\na,x\nb,y\nc,x\nd,z\n", None, tuple("abcd"), classes=("x",))
    assert found.new_classes == ("y", "z")


def test_what_cannot_be_an_import_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"20\.0 MiB are more than 20 MiB"):
        read_labels(b"x" * (MAX_UPLOAD_BYTES + 1), "csv", ("a",))
    with pytest.raises(UnderstudyError, match="got 'pickle'"):
        read_labels(b"x", "pickle", ("a",))
    with pytest.raises(UsageError, match="no such file"):
        read_labels(tmp_path / "nothing.csv", None, ("a",))
    with pytest.raises(UnderstudyError, match="is a folder; csv is a file"):
        read_labels(tmp_path, "csv", ("a",))


def test_where_labels_come_from_is_known() -> None:
    tasks = b'[{"image": "a", "animal": "cat"}]'
    assert read_labels(tasks, "labelstudio", ("a",)).column == "animal"
    assert read_labels(b"id,x\na,b\n", "csv", ("a",), columns={"label": "x"}).column == "x"


def test_wide_and_deep_files_are_read_or_refused() -> None:
    wide = ",".join(f"c{number}" for number in range(100_000))
    for content in (f"{wide}\n", f"id,label,{wide}\n", "{" + ",".join(f'"c{n}":1' for n in range(100_000)) + "}"):
        with pytest.raises(UnderstudyError, match="columns, more than 1,000") as raised:
            read_labels(content.encode(), None, ("a",))
        assert len(str(raised.value)) < 300
    deep = "id,label\n" + "/a" * 1_000_000 + ",cat\n"
    assert read_labels(deep.encode(), "csv", ("a",)).not_in_pool.count == 1
    tasks = "[" + ",".join(f'{{"image": "a", "f{number}": 1}}' for number in range(50_000)) + "]"
    assert read_labels(tasks.encode(), "labelstudio", ("a",)).labels == []


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "labelstudio"])
@pytest.mark.parametrize("label", ["\x00", "ca\x00t", "cat\u202e"])
def test_a_label_that_cannot_be_seen_is_broken_and_no_class(form: str, label: str, tmp_path: Path) -> None:
    path = tmp_path / "labels"
    if form == "parquet":
        parquet.write_table(pyarrow.table({"id": ["a", "b"], "label": [label, "dog"]}), path)
    elif form == "csv":
        path.write_text(f"id,label\na,{label}\nb,dog\n", encoding="utf-8")
    elif form == "jsonl":
        path.write_text(
            "".join(f"{json.dumps({'id': name, 'label': said})}\n" for name, said in (("a", label), ("b", "dog")))
        )
    else:
        path.write_text(json.dumps([{"image": "a", "label": label}, {"image": "b", "label": "dog"}]))
    found = read_labels(path, form, ("a", "b"))
    assert found.new_classes == ("dog",)
    assert found.broken.count == 1
    assert found.broken.first[0].endswith("(a): its label has characters that cannot be seen")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "labelstudio", "folders"])
@pytest.mark.parametrize("content", [b"\x80\x04\x95cos\nsystem\n", b"\x00" * 100, b"[" * 100_000, b"PK\x03\x04bad"])
def test_hostile_bytes_end_in_one_line_or_in_nothing(form: str, content: bytes) -> None:
    said, found = "", None
    try:
        found = read_labels(content, form, ("a",))
    except UnderstudyError as error:
        said = str(error)
    assert found is None or found.labels == []
    assert "\n" not in said
    assert len(said) < 1000


def test_formats_of_one_suffix_are_told_apart_by_their_first_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = leaving(images(tmp_path / "pool"))
    lines = content_of(out, "jsonl")
    named = dict(FORMATS)  # a second format with the suffix of Label Studio, known by its brace
    named["lines"] = replace(FORMATS["jsonl"], suffixes=(".json",), recognise=starts_with(b"{"))
    monkeypatch.setattr(formats, "FORMATS", named)
    monkeypatch.setattr(formats, "READERS", {**READERS, "lines": tables.read_label_table})
    (tmp_path / "a.json").write_bytes(lines)
    (tmp_path / "b.json").write_bytes(content_of(out, "labelstudio"))
    assert [formats._format_of_path(tmp_path / name) for name in ("a.json", "b.json")] == ["lines", "labelstudio"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_that_is_read_can_be_known_by_its_file(name: str) -> None:
    form = FORMATS[name]
    assert bool(form.read) == bool(form.suffixes)
    assert form.title
    assert form.holds.endswith(".")


def test_pages_and_help_name_every_format() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    help_of = {
        name: next(option.help for option in commands[name].params if "--format" in option.opts)
        for name in ("import", "export")
    }
    root = Path(__file__).parents[2] / "docs"
    pages = {page: (root / page).read_text() for page in ("http-api.md", "import-and-export.md")}
    for name in FORMATS:
        assert re.search(rf"(?<![\w-]){name}(?![\w-])", help_of["export"])
        assert (re.search(rf"(?<![\w-]){name}(?![\w-])", help_of["import"]) is not None) == (name in READERS)
        assert all(f"`{name}`" in text for text in pages.values()), name
