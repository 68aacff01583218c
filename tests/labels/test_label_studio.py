"""Label Studio's exports come in; tasks go out as its import wants them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest

from tests.sessions.leaving import CLASSES, TEXTS, leaving, text_project
from tests.sessions.leaving import IDS as ITEM_IDS
from understudy.data.items import ImageFiles, Texts
from understudy.errors import UnderstudyError, UsageError
from understudy.labels.export_data import ExportData
from understudy.labels.formats import check_prefix, format_named, read_labels
from understudy.labels.imported_labels import Imported
from understudy.labels.label_studio import write_label_studio

IDS = ("1.png", "cat/1.png", "cat/2.png", "dog/3.png")


def answer(*names: str, control: str = "choice") -> dict[str, Any]:
    return {"from_name": control, "to_name": "image", "type": "choices", "value": {"choices": list(names)}}


def task(data: dict[str, Any], *annotations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": 17, "data": data, "annotations": list(annotations), "predictions": [], **more}


def read(tasks: Any, **named: str) -> Imported:
    return read_labels(json.dumps(tasks).encode(), "labelstudio", IDS, columns=named)


def pairs(found: Imported) -> list[tuple[int, str]]:
    return [(label.row, label.label_name) for label in found.labels]


def test_a_full_export_gives_who_said_what_when() -> None:
    found = read([
        task(
            {"image": "/data/local-files/?d=photos/dog/3.png"},
            {"result": [answer("dog")], "completed_by": 4, "updated_at": "1970-01-01T00:00:09Z"},
            {"result": [answer("wolf")], "completed_by": {"id": 5, "email": "eve@example.org"}},
            {"result": [answer("fox")], "was_cancelled": True, "completed_by": 6},
        ),
        task({"image": "https://example.org/cat/2.png"}, {"result": []}),
    ])  # fmt: skip
    assert [(label.row, label.label_name, label.annotator, label.at) for label in found.labels] == [
        (3, "dog", "user 4", 9.0), (3, "wolf", "eve@example.org", None),
    ]  # fmt: skip
    assert found.unlabelled == 2
    assert found.new_classes == ("dog", "wolf")


@pytest.mark.parametrize(
    ("entry", "row"),
    [
        ({"data": {"id": "cat/1.png", "image": "/data/local-files/?d=cat/1.png"}}, 1),
        ({"data": {"image": "x"}, "meta": {"id": "dog/3.png"}}, 3),
        ({"data": {"img": "/data/upload/3/0123abcd-3.png"}}, 3),
        ({"data": {"whatever": "cat/2.png"}}, 2),
        ({"data": {"image": "cat/2.png", "expected": "1.png"}}, 2),
    ],
)
def test_a_task_is_matched_by_what_its_data_or_meta_say(entry: dict[str, Any], row: int) -> None:
    assert pairs(read([{**entry, "annotations": [{"result": [answer("x")]}]}])) == [(row, "x")]


def test_tasks_that_may_mean_several_items_or_none_are_listed_and_not_guessed() -> None:
    mark = {"result": [answer("x")]}
    found = read([
        task({"image": "/photos/cat/1.png"}, mark),
        task({"image": "cat/2.png", "id": "dog/3.png"}, mark),
        task({"image": "bird/7.png"}, mark),
        {"annotations": [mark]},
        "no task",
    ])  # fmt: skip
    assert found.labels == []
    assert found.ambiguous.first == ("task 1 (/photos/cat/1.png)", "task 2 (dog/3.png)")
    assert found.not_in_pool.first == ("task 3 (bird/7.png)",)
    assert found.broken.count == 2


def test_a_text_goes_before_an_identity_that_only_numbers_a_line() -> None:
    entries = [("line 2", "red"), ("line 3", "not here"), ("line 2", "blue")]
    tasks = [task({"id": name, "text": text}, {"result": [answer("warm")]}) for name, text in entries]
    content = json.dumps(tasks).encode()
    found = read_labels(content, "labelstudio", ("line 2", "line 3"), items=Texts(["blue", "red"]))
    assert pairs(found) == [(1, "warm"), (0, "warm")]
    assert found.not_in_pool.count == 1


def test_several_choices_and_nested_ones_are_no_label() -> None:
    nested = {"from_name": "choice", "type": "choices", "value": {"choices": [["a", "b"]]}}
    found = read([
        task({"image": "1.png"}, {"result": [answer("a", "b")]}),
        task({"image": "cat/2.png"}, {"result": [nested]}),
    ])  # fmt: skip
    assert found.labels == []
    assert found.no_text.count == 2


def test_other_kinds_of_results_are_left_alone() -> None:
    box = {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["nose"]}}
    assert pairs(read([task({"image": "cat/2.png"}, {"result": [box, answer("cat")]})])) == [(2, "cat")]


def test_with_two_questions_one_is_named() -> None:
    tasks = [
        task({"image": "cat/2.png"}, {"result": [answer("cat", control="animal"), answer("good", control="quality")]})
    ]
    with pytest.raises(UnderstudyError, match="'animal', 'quality'; name one, as in --columns label=NAME"):
        read(tasks)
    assert pairs(read(tasks, label="quality")) == [(2, "good")]
    with pytest.raises(UnderstudyError, match="no answers to 'colour'"):
        read(tasks, label="colour")


def test_the_short_export_is_read_too() -> None:
    found = read([
        {"image": "cat/2.png", "id": 1, "animal": "cat", "annotator": 2, "annotation_id": 9,
         "created_at": "1970-01-01T00:00:05Z", "updated_at": "1970-01-01T00:00:07Z", "lead_time": 3.1},
        {"image": "dog/3.png", "id": 2, "animal": {"choices": ["dog", "wolf"]}, "annotator": 2},
        {"image": "1.png", "id": 3, "annotator": 2},
    ])  # fmt: skip
    assert [(label.row, label.label_name, label.annotator, label.at) for label in found.labels] == [
        (2, "cat", "user 2", 7.0)
    ]
    assert (found.no_text.count, found.unlabelled) == (1, 1)


def test_labels_that_look_like_identities_are_labels_all_the_same() -> None:
    ids = ("0", "1", "2")
    tasks = [{"image": f"/x/{i}", "id": i, "digit": "1"} for i in range(3)]
    found = read_labels(json.dumps(tasks).encode(), "labelstudio", ids)
    assert pairs(found) == [(0, "1"), (1, "1"), (2, "1")]


def test_texts_are_matched_by_what_they_say() -> None:
    tasks = [
        task({"text": "so it goes"}, {"result": [answer("sad")]}),
        task({"text": "yes"}, {"result": [answer("x")]}),
    ]
    items = Texts(["yes", "so it goes", "yes"])
    found = read_labels(json.dumps(tasks).encode(), "labelstudio", ("a", "b", "c"), items=items)
    assert pairs(found) == [(1, "sad")]
    assert found.ambiguous.count == 1


@pytest.mark.parametrize("content", ["[]", "7", "[1, 2]", "{", '"x"', "[" * 50_000])
def test_what_is_no_export_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UnderstudyError, match=r"x\.json (is not JSON|must be a list of tasks)"):
        read_labels(tmp_path / "x.json", None, IDS)


def test_every_item_is_a_task_with_an_annotation_a_label() -> None:
    tasks = json.loads(b"".join(write_label_studio(leaving())))
    assert [task["data"]["id"] for task in tasks] == list(ITEM_IDS)
    assert tasks[3]["data"]["image"] == "/data/local-files/?d=%C3%A4%20%C3%B6.png"
    assert [len(task["annotations"]) for task in tasks] == [2, 1, 1, 1, 0, 0, 0, 1]
    [choice] = tasks[1]["annotations"][0]["result"]
    assert choice["value"] == {"choices": [CLASSES[1]]}
    assert (choice["from_name"], choice["to_name"], choice["type"]) == ("label", "image", "choices")
    assert choice["meta"]["annotator"] == "ann"
    assert choice["meta"]["why"] == "A random audit item."


def test_annotators_are_not_named_where_label_studio_would_refuse_the_file() -> None:
    tasks = json.loads(b"".join(write_label_studio(leaving())))
    assert not [each for task in tasks for each in task["annotations"] if "completed_by" in each]


def test_texts_travel_along() -> None:
    tasks = json.loads(b"".join(write_label_studio(text_project())))
    assert [task["data"]["text"] for task in tasks] == list(TEXTS)
    assert tasks[0]["annotations"][0]["result"][0]["to_name"] == "text"


def test_predictions_are_there_where_there_is_a_model() -> None:
    probs = np.eye(len(ITEM_IDS), len(CLASSES), dtype=np.float32)[:6] * 0.8
    tasks = json.loads(b"".join(write_label_studio(replace(leaving(), predictions=lambda: probs, model="abc" * 20))))
    [prediction] = tasks[2]["predictions"]
    assert prediction["result"][0]["value"] == {"choices": [CLASSES[2]]}
    assert round(prediction["score"], 5) == 0.8
    assert prediction["model_version"] == "abcabcabcabc"
    assert "predictions" not in tasks[6]  # an item that came after the model


ODD = ("a b.png", "ä/ö#1.png", "50%.png", "a+b&c=d?e.png", "deep/er/x.png")


def addresses(out: ExportData) -> list[str]:
    return [task["data"]["image"] for task in json.loads(b"".join(write_label_studio(out)))]


def test_addresses_lead_to_the_files_whatever_their_names_hold(tmp_path: Path) -> None:
    base = tmp_path / "my photos"
    paths = [base / name for name in ODD]
    out = ExportData(ODD, ("cat",), tuple, {}, items=ImageFiles(paths, ODD), base=base)
    for name, address in zip(ODD, addresses(out), strict=True):
        parts = urlsplit(address)
        assert parts.path == "/data/local-files/"
        assert parse_qs(parts.query, strict_parsing=True) == {"d": [f"my photos/{name}"]}
        assert not parts.fragment
    for name, address in zip(ODD, addresses(replace(out, prefix="https://example.org/pictures/")), strict=True):
        parts = urlsplit(address)
        assert unquote(parts.path) == f"/pictures/{name}"
        assert (parts.query, parts.fragment) == ("", "")


def test_addresses_are_paths_even_where_a_table_gave_names_of_its_own(tmp_path: Path) -> None:
    items = ImageFiles([tmp_path / "in" / "x.png", tmp_path.parent / "out.png"], ("first", "second"))
    out = ExportData(("first", "second"), ("cat",), tuple, {}, items=items, base=tmp_path, prefix="/p/")
    assert addresses(out) == ["/p/in/x.png", "/p/second"]
    assert addresses(replace(out, base=None)) == ["/p/first", "/p/second"]


@pytest.mark.parametrize(
    "prefix", ["", "photos/", "ftp://x/", "https://", "javascript:alert(1)", "/a b/", "/a\n", '/"x']
)
def test_a_prefix_that_is_not_an_address_is_refused(prefix: str) -> None:
    with pytest.raises(UsageError, match="a prefix is an address such as https://"):
        check_prefix(format_named("labelstudio"), prefix)


def test_a_prefix_is_for_addresses_only() -> None:
    check_prefix(format_named("labelstudio"), "/data/local-files/?d=photos/")
    check_prefix(format_named("csv"), None)
    with pytest.raises(UsageError, match="only labelstudio has; leave it out"):
        check_prefix(format_named("csv"), "/data/")
