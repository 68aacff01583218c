"""Labels in, whatever they come in."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from understudy.errors import UnderstudyError, UsageError
from understudy.labels.imports import (
    LARGEST_BODY,
    MOST_CLASSES,
    Imported,
    checked_import,
    format_of_content,
    read_labels,
)


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
        read_labels(b"x" * (LARGEST_BODY + 1), "csv", ("a",))
    with pytest.raises(UnderstudyError, match="got 'pickle'"):
        read_labels(b"x", "pickle", ("a",))
    with pytest.raises(UsageError, match="no such file"):
        read_labels(tmp_path / "nothing.csv", None, ("a",))
    with pytest.raises(UnderstudyError, match="is a folder; csv is a file"):
        read_labels(tmp_path, "csv", ("a",))


def labels_of(names: Sequence[str], classes: Sequence[str] = ()) -> Imported:
    rows = "".join(f"{row},{name}\n" for row, name in enumerate(names))
    table = f"id,category\n{rows}".encode()
    return read_labels(table, "csv", tuple(map(str, range(len(names)))), classes=classes)


def test_a_column_that_would_make_hundreds_of_classes_is_refused_by_its_name() -> None:
    found = labels_of([f"photo {row}" for row in range(51)], ["cat"])
    said = (
        r"^the column 'category' would make 51 new classes of 51 labels \(photo 0, photo 1, photo 2, ...\); choose "
        r"another column with: understudy import --columns label=NAME, or insist with --many-classes$"
    )
    with pytest.raises(UnderstudyError, match=said):
        checked_import(found, ["cat"])
    insisting = replace(found, many_classes=True)
    assert checked_import(insisting, ["cat"]) is insisting


def test_classes_with_ten_labels_each_or_fifty_of_them_raise_no_question() -> None:
    few = labels_of([f"class {row}" for row in range(50)])
    many = labels_of([f"class {row % 60}" for row in range(600)])
    assert checked_import(few, []) is few
    assert checked_import(many, []) is many
    with pytest.raises(UnderstudyError, match="60 new classes of 599 labels"):
        checked_import(labels_of([f"class {row % 60}" for row in range(599)]), [])


def test_no_import_makes_more_classes_than_a_project_can_have() -> None:
    known = [f"class {number}" for number in range(MOST_CLASSES)]
    one_more = replace(labels_of(["cat"], known), many_classes=True)
    with pytest.raises(UnderstudyError, match=r"1 new classes of 1 labels .*; 10,000 are the most$"):
        checked_import(one_more, known)
    nothing_new = labels_of(["class 3"], known)
    assert checked_import(nothing_new, [*known, "another"]) is nothing_new


def test_where_labels_come_from_is_known() -> None:
    tasks = b'[{"image": "a", "animal": "cat"}]'
    assert read_labels(tasks, "labelstudio", ("a",)).column == "animal"
    assert read_labels(b"id,x\na,b\n", "csv", ("a",), columns={"label": "x"}).column == "x"


def test_wide_and_deep_files_are_read_or_refused() -> None:
    wide = ",".join(f"c{number}" for number in range(100_000))
    for content in (f"{wide}\n", f"id,label,{wide}\n", "{" + ",".join(f'"c{n}":1' for n in range(100_000)) + "}"):
        with pytest.raises(UnderstudyError, match="columns, 1,000 are the most") as raised:
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
