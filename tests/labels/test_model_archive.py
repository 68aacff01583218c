"""The last model works where understudy is not installed, and its predictions leave with the project."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.sessions.leaving import labelled, made, numbered
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError
from understudy.labels.export_data import ExportData
from understudy.labels.model_archive import write_model
from understudy.labels.predictions import write_csv
from understudy.learners.heads import Head
from understudy.learners.model_files import load_model, model_bytes
from understudy.learners.registry import make_learner
from understudy.learners.training import Recipe
from understudy.projects.settings import Settings
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record
from understudy.sessions.training.artifacts import Artifacts, Predictions


def trained(tmp_path: Path, *, is_raw: bool = False) -> tuple[ExportData, np.ndarray, np.ndarray]:
    """A project with a real model: what leaves it, features and what the model says of them. Cross-fitted: T = 2."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 5)).astype(np.float32)
    labels = np.arange(30) % 2
    model = Head(hidden=(8,), activation="gelu", scaling="columns", recipe=Recipe(epochs=3)).fit(features, labels, 2)
    artifacts = Artifacts(tmp_path / "artifacts")
    probs = np.asarray(model.predict_proba(features), np.float32)
    content = model_bytes(model, classes=("no", "yes"), encoder="pixels?size=8", notes={})
    data = {
        "model": artifacts.put(content, "safetensors"), "labels": 30, "until": 2, "learner": "modern",
        "calibration": {"temperature": 2.0, "items": 30, "folds": 5},
        "predictions": artifacts.put_predictions(Predictions(probs, np.arange(30), labels)),
    }  # fmt: skip
    created = made(Settings(classes=("no", "yes")), 30, [])
    record = Record.from_events(numbered(created, labelled(0, "ann", 1), Event("trained", data=data)))
    return collect_labels(record, Pool(tuple(map(str, range(30)))), artifacts, is_raw=is_raw), features, probs


def test_a_model_leaves_with_a_loader_that_needs_no_understudy(tmp_path: Path) -> None:
    out, features, probs = trained(tmp_path)
    with zipfile.ZipFile(io.BytesIO(b"".join(write_model(out)))) as archive:
        assert sorted(archive.namelist()) == ["load_model.py", "model.json", "model.safetensors"]
        archive.extractall(tmp_path / "elsewhere")
    about = json.loads((tmp_path / "elsewhere" / "model.json").read_text())
    assert about["encoder"] == "pixels?size=8"
    assert about["classes"] == ["no", "yes"]
    assert about["labels"] == 30
    assert about["calibration"] == {
        "method": "temperature", "temperature": pytest.approx(2.0, rel=1e-3), "audited": 0, "cross_fitted": 30,
        "is_rough": True,
    }  # fmt: skip
    np.save(tmp_path / "elsewhere" / "features.npy", features)
    script = (
        "import sys; sys.modules['understudy'] = sys.modules['torch'] = None\n"
        "import numpy as np\nfrom load_model import load_model\n"
        "model = load_model('model.safetensors')\n"
        "np.save('probs.npy', model.predict_proba(np.load('features.npy')))\nprint(model.encoder, *model.classes)\n"
        "np.save('raw.npy', model.predict_proba(np.load('features.npy'), raw=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "elsewhere",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["pixels?size=8", "no", "yes"]
    np.testing.assert_allclose(np.load(tmp_path / "elsewhere" / "raw.npy"), probs, atol=1e-5)
    literal = np.sqrt(probs) / np.sqrt(probs).sum(1, keepdims=True)
    np.testing.assert_allclose(np.load(tmp_path / "elsewhere" / "probs.npy"), literal, atol=1e-3)
    assert out.probs is not None
    np.testing.assert_allclose(np.load(tmp_path / "elsewhere" / "probs.npy"), out.probs, atol=1e-5)
    mine = load_model(tmp_path / "elsewhere" / "model.safetensors")
    np.testing.assert_allclose(mine.predict_proba(features), out.probs, atol=1e-5)
    assert (mine.n_classes, mine.interrupted) == (2, False)


def test_a_raw_model_is_the_file_as_it_was_trained(tmp_path: Path) -> None:
    out, features, probs = trained(tmp_path, is_raw=True)
    with zipfile.ZipFile(io.BytesIO(b"".join(write_model(out)))) as archive:
        archive.extractall(tmp_path / "elsewhere")
    assert out.model_file is not None
    assert (tmp_path / "elsewhere" / "model.safetensors").read_bytes() == out.model_file.read_bytes()
    np.testing.assert_allclose(
        load_model(tmp_path / "elsewhere" / "model.safetensors").predict_proba(features), probs, atol=1e-6
    )


def test_the_last_models_predictions_leave_with_the_project(tmp_path: Path) -> None:
    out, _, probs = trained(tmp_path, is_raw=True)
    assert out.probs is not None
    assert out.model is not None
    np.testing.assert_array_equal(out.probs, probs)
    assert len(b"".join(write_csv(out)).splitlines()) == 31


@pytest.mark.parametrize("form", ["head", "linear"])
def test_a_model_leaves_with_the_classes_of_today(tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(40, 5)).astype(np.float32), np.arange(40) % 4
    learner = Head(hidden=(8,), recipe=Recipe(epochs=3)) if form == "head" else make_learner("logistic")
    model = learner.fit(features, labels, 4)
    artifacts = Artifacts(tmp_path / "artifacts")
    names = ("ape", "bee", "cat", "dog")
    probs = np.asarray(model.predict_proba(features), np.float32)
    data = {
        "model": artifacts.put(model_bytes(model, classes=names, encoder=None, notes={}), "safetensors"), "labels": 40,
        "until": 2, "learner": form, "calibration": {"temperature": 2.0, "items": 30, "folds": 5},
        "predictions": artifacts.put_predictions(Predictions(probs, np.arange(40), labels)),
    }  # fmt: skip
    changes = [
        Event("class_changed", data={"class": 2, "name": "Katze", "before": "cat"}),
        Event("class_merged", data={"class": 1, "into": 3}),
        Event("class_removed", data={"class": 0}),
    ]
    record = Record.from_events(numbered(made(Settings(classes=names), 40, []), Event("trained", data=data), *changes))
    for is_raw in (True, False):
        out = collect_labels(record, Pool(tuple(map(str, range(40)))), artifacts, is_raw=is_raw)
        with zipfile.ZipFile(io.BytesIO(b"".join(write_model(out)))) as archive:
            archive.extractall(tmp_path / f"{is_raw}")
        assert json.loads((tmp_path / f"{is_raw}" / "model.json").read_text())["classes"] == ["dog", "Katze"]
        loaded = load_model(tmp_path / f"{is_raw}" / "model.safetensors")
        assert out.known_classes == ("Katze", "dog")
        np.testing.assert_allclose(loaded.predict_proba(features)[:, ::-1], out.require_probs(), atol=1e-5)
    gone = [Event("class_removed", data={"class": number}) for number in (2, 3)]
    record = Record.from_events(
        numbered(made(Settings(classes=names), 40, []), Event("trained", data=data), *changes, *gone)
    )
    with pytest.raises(UnderstudyError, match="all gone; train again"):
        b"".join(write_model(collect_labels(record, Pool(tuple(map(str, range(40)))), artifacts, is_raw=True)))
