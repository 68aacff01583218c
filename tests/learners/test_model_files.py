import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.learners.tasks import blobs, stripes
from understudy.errors import UnderstudyError
from understudy.learners import standalone
from understudy.learners.classifiers import Classifier
from understudy.learners.heads import HeadModel
from understudy.learners.model_files import LOADER, about_model, can_save, load_model, model_bytes, save_model
from understudy.learners.network import Network
from understudy.learners.protocol import Model
from understudy.learners.registry import make_learner
from understudy.learners.training import Recipe

CLASSES = ("cat", "dog", "fox", "owl")


def trained(name: str, n: int = 60, c: int = 3) -> tuple[Model, np.ndarray]:
    """A model of four classes, some of which it has not seen, and items to ask it about."""
    features, labels = blobs(n, c, d=6)
    return make_learner(name).fit(features, labels, 4, seed=1), blobs(200, c, d=6, seed=9)[0]


def saved(model: Model, folder: Path, **given: Any) -> Path:
    path = folder / "model.safetensors"
    save_model(model, path, **{"classes": CLASSES, "encoder": "pixels", "notes": {"labels": 60}, **given})
    return path


@pytest.mark.parametrize("name", ["paper", "paper_slow", "paper_scaled", "modern", "quick"])
def test_a_head_from_a_file_predicts_exactly_what_it_did(name: str, tmp_path: Path) -> None:
    model, items = trained(name)
    found = load_model(saved(model, tmp_path))
    assert isinstance(found, HeadModel)
    np.testing.assert_array_equal(found.predict_proba(items), model.predict_proba(items))
    if found.dropout:
        np.testing.assert_array_equal(found.stochastic_proba(items, 3), model.stochastic_proba(items, 3))  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("c", [1, 2, 3])
def test_a_logistic_regression_from_a_file_gives_the_same_probabilities(
    c: int, dtype: type[np.floating[Any]], tmp_path: Path
) -> None:
    features, labels = blobs(60, c, d=6)
    model = make_learner("logistic").fit(features.astype(dtype), labels, 4)
    items = blobs(200, c, d=6, seed=9)[0].astype(dtype)
    found = load_model(saved(model, tmp_path))
    np.testing.assert_allclose(found.predict_proba(items), model.predict_proba(items), atol=1e-6)
    assert isinstance(found, Model)
    assert found.predict_proba(items[:0]).shape == (0, 4)


def test_classes_that_are_numbered_with_gaps_keep_their_columns(tmp_path: Path) -> None:
    features, labels = blobs(60, 2, d=6)
    model = make_learner("logistic").fit(features, np.array([1, 3])[labels], 4)
    probs = load_model(saved(model, tmp_path)).predict_proba(features)
    assert (probs[:, [0, 2]] == 0).all()
    np.testing.assert_allclose(probs, model.predict_proba(features), atol=1e-6)


def test_a_scaler_that_only_centres_and_a_constant_column_are_kept(tmp_path: Path) -> None:
    features, labels = blobs(60, 3, d=6)
    features[:, 2] = 7
    for scaler in (StandardScaler(with_std=False), StandardScaler(with_mean=False), StandardScaler()):
        model = Classifier(make_pipeline(scaler, LogisticRegression())).fit(features, labels, 4)
        found = load_model(saved(model, tmp_path)).predict_proba(features)
        np.testing.assert_allclose(found, model.predict_proba(features), atol=1e-6)


def test_a_network_from_a_file_predicts_what_it_did(tmp_path: Path) -> None:
    images, labels = stripes(12)
    model = Network(recipe=Recipe(epochs=1, batch_size=6)).fit(images, labels, 4)
    found = load_model(saved(model, tmp_path))
    np.testing.assert_allclose(found.predict_proba(images), model.predict_proba(images), atol=1e-6)
    with pytest.raises(ValueError, match="load it with understudy"):
        standalone.load_model(tmp_path / "model.safetensors")


def test_other_models_are_refused_in_one_line(tmp_path: Path) -> None:
    features, labels = blobs(60)
    for estimator in (GaussianNB(), LogisticRegression(), make_pipeline(StandardScaler(), GaussianNB())):
        model = Classifier(estimator).fit(features, labels, 4)
        assert not can_save(model)
        with pytest.raises(UnderstudyError, match="ClassifierModel cannot be saved"):
            saved(model, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert can_save(trained("quick")[0])


def test_the_same_model_has_the_same_content_each_time() -> None:
    model, notes = trained("quick")[0], dict.fromkeys("understudy", 1)
    contents = {model_bytes(model, classes=CLASSES, encoder=None, notes=notes) for _ in range(20)}
    assert len(contents) == 1


def test_what_a_file_says_of_its_model(tmp_path: Path) -> None:
    about = about_model(saved(trained("quick")[0], tmp_path))
    assert (about["kind"], about["classes"], about["encoder"]) == ("head", list(CLASSES), "pixels")
    assert about["notes"] == {"labels": 60}


def test_files_that_are_no_models_are_refused_in_one_line(tmp_path: Path) -> None:
    path = saved(trained("quick")[0], tmp_path)
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[: len(whole) // 2], whole.replace(b'\\"format\\": 1', b'\\"format\\": 7')):
        path.write_bytes(content)
        with pytest.raises(UnderstudyError) as refused:
            load_model(path)
        assert "\n" not in str(refused.value)
    path.write_bytes(whole.replace(b"bias_1", b"bias_7"))
    with pytest.raises(UnderstudyError, match="is not a complete model"):
        load_model(path)
    with pytest.raises(UnderstudyError, match="no such file"):
        load_model(tmp_path / "none.safetensors")


def test_names_for_another_number_of_classes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match="4 classes, but 2 names"):
        saved(trained("quick")[0], tmp_path, classes=("cat", "dog"))


@pytest.mark.parametrize("name", ["paper", "modern", "quick", "logistic"])
def test_the_loader_alone_gives_the_probabilities_without_understudy(name: str, tmp_path: Path) -> None:
    model, items = trained(name)
    saved(model, tmp_path)
    (tmp_path / "load_model.py").write_text(LOADER)
    np.save(tmp_path / "items.npy", items)
    code = """
import sys
sys.modules["understudy"] = sys.modules["torch"] = sys.modules["sklearn"] = None  # importing these now fails
import numpy as np
from load_model import load_model
model = load_model("model.safetensors")
assert model.classes == ("cat", "dog", "fox", "owl") and model.encoder == "pixels" and model.notes == {"labels": 60}
np.save("probs.npy", model.predict_proba(np.load("items.npy")))
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "probs.npy"), model.predict_proba(items), atol=1e-5)


def test_the_tabled_error_function_is_the_error_function() -> None:
    places = np.linspace(-9, 9, 100_003)
    exact = torch.erf(torch.from_numpy(places)).numpy()
    np.testing.assert_allclose(standalone.erf(places), exact, atol=1e-11)


def test_the_loader_refuses_features_of_another_width(tmp_path: Path) -> None:
    found = standalone.load_model(saved(trained("quick")[0], tmp_path))
    with pytest.raises(ValueError, match="takes 6 columns"):
        found.predict_proba(np.zeros((2, 5)))
