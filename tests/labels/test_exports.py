"""Everything that leaves a project comes back as it was; models work where understudy is not."""

import io
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.sessions.leaving import AT, IDS, arrays, images, labelled, leaving, made, numbered, text_project
from understudy.data.pool import Pool
from understudy.errors import NotFound, UnderstudyError
from understudy.labels.class_folder_files import write_class_folders
from understudy.labels.exports import FORMATS, format_named
from understudy.labels.imports import read_labels
from understudy.labels.outgoing import Outgoing
from understudy.learners.heads import Head
from understudy.learners.model_files import model_bytes
from understudy.learners.training import Recipe
from understudy.projects.settings import Settings
from understudy.sessions.log.events import Event
from understudy.sessions.outgoing import outgoing
from understudy.sessions.record import Record
from understudy.sessions.training.artifacts import Artifacts, Predictions

LABELS = ("csv", "jsonl", "parquet", "labelstudio", "prodigy")


def project_of(kind: str, folder: Path) -> Outgoing:
    return {"image": lambda: leaving(images(folder)), "array": lambda: leaving(arrays()), "text": text_project}[kind]()


def content_of(out: Outgoing, form: str) -> bytes:
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


def trained(tmp_path: Path) -> tuple[Outgoing, np.ndarray, np.ndarray]:
    """A project with a real model: what leaves it, features and what the model says of them."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 5)).astype(np.float32)
    labels = np.arange(30) % 2
    model = Head(hidden=(8,), activation="gelu", scaling="columns", recipe=Recipe(epochs=3)).fit(features, labels, 2)
    artifacts = Artifacts(tmp_path / "artifacts")
    probs = np.asarray(model.predict_proba(features), np.float32)
    content = model_bytes(model, classes=("no", "yes"), encoder="pixels?size=8", notes={})
    data = {
        "model": artifacts.put(content, "safetensors"), "labels": 30, "until": 2, "learner": "modern",
        "predictions": artifacts.put_predictions(Predictions(probs, np.arange(30), labels)),
    }  # fmt: skip
    created = made(Settings(classes=("no", "yes")), 30, [])
    record = Record.of(numbered(created, labelled(0, "ann", 1), Event("trained", data=data)))
    return outgoing(record, Pool(tuple(map(str, range(30)))), artifacts), features, probs


def test_a_model_leaves_with_a_loader_that_needs_no_understudy(tmp_path: Path) -> None:
    out, features, probs = trained(tmp_path)
    with zipfile.ZipFile(io.BytesIO(content_of(out, "model"))) as archive:
        assert sorted(archive.namelist()) == ["load_model.py", "model.json", "model.safetensors"]
        archive.extractall(tmp_path / "elsewhere")
    about = json.loads((tmp_path / "elsewhere" / "model.json").read_text())
    assert about["encoder"] == "pixels?size=8"
    assert about["classes"] == ["no", "yes"]
    assert about["labels"] == 30
    np.save(tmp_path / "elsewhere" / "features.npy", features)
    script = (
        "import sys; sys.modules['understudy'] = sys.modules['torch'] = None\n"
        "import numpy as np\nfrom load_model import load_model\n"
        "model = load_model('model.safetensors')\n"
        "np.save('probs.npy', model.predict_proba(np.load('features.npy')))\nprint(model.encoder, *model.classes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "elsewhere",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["pixels?size=8", "no", "yes"]
    np.testing.assert_allclose(np.load(tmp_path / "elsewhere" / "probs.npy"), probs, atol=1e-5)


def test_the_last_models_predictions_leave_with_the_project(tmp_path: Path) -> None:
    out, _, probs = trained(tmp_path)
    assert out.probs is not None
    assert out.model is not None
    np.testing.assert_array_equal(out.probs, probs)
    assert len(content_of(out, "predictions-csv").splitlines()) == 31


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
    out = outgoing(Record.of(events), Pool(ids))
    for form in ("csv", "jsonl", "parquet"):
        assert len(list(FORMATS[form].write(out))) >= 2
    assert [row.item for row in out.rows] == list(range(n))


def test_what_leaves_does_not_change_while_people_go_on() -> None:
    events = numbered(made(Settings(classes=("cat", "dog")), 9, []), labelled(0, "ann", 0), labelled(0, "bob", 1))
    record = Record.of(events[:2])
    out = outgoing(record, Pool(tuple("abcdefghi")))
    record.apply(events[2])
    assert [(row.annotator, row.label) for row in out.rows] == [("ann", "cat")]
