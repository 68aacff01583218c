"""Manifests: what a row says is what the pool has, and every row that cannot be used is named with its remedy."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet

from understudy import UnderstudyError
from understudy.data.manifests import load_manifest
from understudy.data.pool import Dataset, Pool

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda text: text.strip() != "")
ROWS = [
    {"path": "a.png", "label": "cat", "split": "train"},
    {"path": "sub/b.png", "label": "dog", "split": ""},
    {"path": "c.png", "label": "", "split": "test"},
]


def png(colour: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2), colour).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, colour in (("a.png", "red"), ("sub/b.png", "lime"), ("c.png", "blue")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(png(colour))
    return tmp_path


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows in the format the name asks for."""
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


def labels(pool: Pool) -> list[str | None]:
    assert pool.labels is not None
    return [pool.classes[row] if row >= 0 else None for row in pool.labels]


def item(pool: Pool, row: int) -> Any:
    return pool.item(row)


def csv_of(folder: Path, text: str, **options: Any) -> Dataset:
    (folder / "list.csv").write_text(text, encoding="utf-8")
    return load_manifest(folder / "list.csv", **options)


def faults(dataset: Dataset) -> list[str]:
    return [str(fault) for fault in dataset.pool.faults]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_every_format_gives_the_same_pool(suffix: str, folder: Path) -> None:
    dataset = load_manifest(write(folder / f"pets{suffix}", ROWS))
    assert dataset.name == "pets"
    assert dataset.test is not None
    assert dataset.pool.ids == ("a.png", "sub/b.png")
    assert labels(dataset.pool) == ["cat", "dog"]
    assert dataset.test.ids == ("c.png",)
    assert labels(dataset.test) == [None]
    assert dataset.test.classes == ("cat", "dog")
    assert item(dataset.pool, 1).getpixel((0, 0)) == (0, 255, 0)
    assert item(dataset.test, 0).getpixel((0, 0)) == (0, 0, 255)
    assert dataset.pool.faults == ()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifests")


NAMES = WORDS.filter(lambda name: name.strip() != "-1")  # which may mean that there is no label


@given(rows=st.lists(st.tuples(WORDS, NAMES), min_size=1), suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]))
def test_odd_texts_and_classes_come_back(place: Path, rows: list[tuple[str, str]], suffix: str) -> None:
    path = write(place / f"odd{suffix}", [{"text": text, "label": label} for text, label in rows])
    pool = load_manifest(path).pool
    assert [item(pool, row) for row in range(len(pool))] == [text for text, _ in rows]
    assert labels(pool) == [label.strip() for _, label in rows]


def test_texts_without_an_id_go_by_their_line(folder: Path) -> None:
    pool = csv_of(folder, "text,label\nhello,x\n\nworld,\n").pool
    assert pool.ids == ("line 2", "line 4")
    assert labels(pool) == ["x", None]
    assert pool.items is not None
    assert pool.items.kind == "text"


def test_a_pool_without_a_label_column_has_no_labels(folder: Path) -> None:
    pool = csv_of(folder, "text\nhello\n").pool
    assert pool.labels is None
    assert pool.classes == ()


def test_columns_may_be_named(folder: Path) -> None:
    pool = csv_of(
        folder, "key,body,path,topic\nk1,hello,p,x\n", columns={"text": "body", "label": "topic", "id": "key"}
    ).pool
    assert pool.ids == ("k1",)
    assert item(pool, 0) == "hello"
    assert labels(pool) == ["x"]


def test_missing_files_are_faults_each(folder: Path) -> None:
    dataset = csv_of(folder, "path\na.png\ngone.png\nnowhere/x.png\nbad\0name.png\n")
    assert dataset.pool.ids == ("a.png",)
    assert [fault.split(";")[0] for fault in faults(dataset)] == [
        "line 3: there is no file gone.png",
        "line 4: there is no file nowhere/x.png",
        "line 5: there is no file bad\\x00name.png",
    ]


def test_a_path_that_cannot_be_looked_up_is_a_fault_with_the_reason(folder: Path) -> None:
    dataset = csv_of(folder, f"path\na.png\n{'x' * 300}.png\n")
    assert dataset.pool.ids == ("a.png",)
    (fault,) = dataset.pool.faults
    assert fault.item == "line 3"
    assert fault.problem.endswith("xxx.png cannot be looked up (File name too long)")


def test_a_path_given_twice_is_used_once_however_it_is_written(folder: Path) -> None:
    dataset = csv_of(folder, f"path,split\na.png,\n./sub/../a.png,test\n{folder / 'a.png'},\nc.png,\n")
    assert dataset.pool.ids == ("a.png", "c.png")
    assert dataset.test is None
    assert faults(dataset)[0] == (
        "line 3: ./sub/../a.png is in line 2 already; remove one of the two; the first is used"
    )
    assert len(faults(dataset)) == 2


def test_an_id_given_twice_or_not_at_all_is_a_fault(folder: Path) -> None:
    dataset = csv_of(folder, "id,text\n1,one\n1,two\n,three\n2,four\n")
    assert dataset.pool.ids == ("1", "2")
    assert [fault.split(";")[0] for fault in faults(dataset)] == [
        "line 3: its identity '1' is that of line 2 already",
        "line 4: no identity",
    ]


def test_a_label_that_is_no_known_class_is_a_fault_with_the_nearest(folder: Path) -> None:
    dataset = csv_of(folder, "text,label\na,cat\nb,dgo\nc,\nd,dog\n", classes=("dog", "cat"))
    assert dataset.pool.classes == ("dog", "cat")
    assert labels(dataset.pool) == ["cat", None, "dog"]
    assert faults(dataset) == ["line 3: the label 'dgo' is not a known class; did you mean 'dog'?"]


@pytest.mark.parametrize(
    ("values", "expected"), [([2, 10, -1], ["2", "10", None]), ([1.0, None, True], ["1", None, "true"])]
)
def test_labels_may_be_numbers(values: list[Any], expected: list[str | None], folder: Path) -> None:
    rows = [{"text": f"text {value}", "label": value} for value in values]
    pool = load_manifest(write(folder / "a.jsonl", rows)).pool
    assert labels(pool) == expected
    assert pool.classes == tuple(name for name in expected if name)


def test_what_is_neither_text_nor_label_is_a_fault(folder: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "fine"},
        {"text": 3},
        {"text": " "},
        {"text": None},
        {"label": "x"},
        {"text": "a", "label": ["x"]},
    ]
    dataset = load_manifest(write(folder / "a.jsonl", rows))
    assert dataset.pool.ids == ("line 1",)
    assert [fault.split(";")[0] for fault in faults(dataset)] == [
        "line 2: the text is a int, not a string",
        "line 3: the text is empty",
        "line 4: the text is empty",
        "line 5: the text is empty",
        "line 6: the label is a list",
    ]


def test_validation_rows_are_the_test_set_where_there_is_no_other(folder: Path) -> None:
    dataset = csv_of(folder, "text,split\na,train\nb,val\nc,VALIDATION\n")
    assert dataset.test is not None
    assert dataset.test.ids == ("line 3", "line 4")
    assert dataset.pool.faults == ()


def test_validation_rows_beside_a_test_set_stay_out_with_one_note(folder: Path) -> None:
    dataset = csv_of(folder, "text,split\na,pool\nb,val\nc,valid\nd,test\n")
    assert dataset.test is not None
    assert (dataset.pool.ids, dataset.test.ids) == (("line 2",), ("line 5",))
    assert [(fault.problem, fault.used) for fault in dataset.pool.faults] == [
        ("2 of the validation split stay out", True)
    ]


def test_an_unknown_split_is_a_fault(folder: Path) -> None:
    dataset = csv_of(folder, "text,split\na,train\nb,tset\n")
    assert faults(dataset) == ["line 3: the split 'tset' is not known; did you mean 'test'?"]


def test_a_row_with_several_faults_is_named_once(folder: Path) -> None:
    dataset = csv_of(folder, "text,label,split\na,cat,\n,dgo,tset\n", classes=["cat", "dog"])
    assert faults(dataset) == ["line 3: the text is empty; fill it in or remove the row"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text\n", "nothing in list can be used, since it has no rows for the pool"),
        ("text,split\na,test\n", "nothing in list can be used, since it has no rows for the pool"),
        ("path\nx.png\n", "nothing in list can be used: line 2: there is no file x.png; put it there"),
    ],
)
def test_a_manifest_of_nothing_usable_is_an_error(text: str, message: str, folder: Path) -> None:
    with pytest.raises(UnderstudyError, match=message):
        csv_of(folder, text)


def test_images_in_the_cells_of_a_parquet_file_are_items(folder: Path) -> None:
    rows = [
        {"image": {"bytes": png("red"), "path": "r.png"}, "label": 1, "split": "train"},
        {"image": {"bytes": None, "path": str(folder / "c.png")}, "label": 0, "split": "test"},
        {"image": {"bytes": png("lime"), "path": None}, "label": 0, "split": "train"},
    ]
    dataset = load_manifest(write(folder / "a.parquet", rows))
    assert dataset.test is not None
    assert dataset.pool.ids == ("row 0", "row 2")
    assert labels(dataset.pool) == ["1", "0"]
    assert [item(dataset.pool, row).getpixel((0, 0)) for row in range(2)] == [(255, 0, 0), (0, 255, 0)]
    assert item(dataset.test, 0).getpixel((0, 0)) == (0, 0, 255)


def test_a_path_in_a_cell_starts_at_the_manifest(folder: Path) -> None:
    dataset = load_manifest(write(folder / "a.parquet", [{"image": {"bytes": None, "path": "sub/b.png"}}]))
    assert item(dataset.pool, 0).getpixel((0, 0)) == (0, 255, 0)
    assert item(dataset.pool.take([0]), 0).getpixel((0, 0)) == (0, 255, 0)


def test_a_label_may_have_space_around_it_and_control_characters_are_spelt_out(folder: Path) -> None:
    pool = load_manifest(
        write(folder / "a.jsonl", [{"text": "a", "label": "cat\n"}, {"text": "b", "label": "d\tog"}])
    ).pool
    assert labels(pool) == ["cat", "d\\tog"]


def test_a_path_that_is_no_unicode_is_a_fault_that_can_be_printed(folder: Path) -> None:
    dataset = load_manifest(write(folder / "a.jsonl", [{"path": "a.png"}, {"path": "\ud800.png"}]))
    assert faults(dataset)[0].startswith("line 2: there is no file \\ud800.png")


def test_many_rows_are_checked(folder: Path) -> None:
    names = [f"{row}.jpg" for row in range(5_000)]
    for name in names:
        (folder / name).touch()
    text = "path,label\n" + "".join(f"{name},{row % 7}\n" for row, name in enumerate(names))
    pool = csv_of(folder, text).pool
    assert pool.labels is not None
    assert np.array_equal(pool.labels, np.arange(5_000) % 7)
