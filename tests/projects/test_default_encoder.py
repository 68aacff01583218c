"""Which encoder a project gets where nobody names one, and what people are told and asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.encoders.graphs import image_repository, sentence_repository
from tests.data.encoders.local_hub import LocalHub, local_hub
from tests.leaving_out import import_or_leave_out
from tests.sessions.label_data import images, prepared, texts
from understudy.data.encoders import choice, found_models
from understudy.data.encoders.choice import DEFAULTS, default_encoder, describe_features
from understudy.errors import UnderstudyError
from understudy.projects.opening import create_or_open

import_or_leave_out("onnxruntime")
import_or_leave_out("tokenizers")

DINOV2, MINILM = "onnx:onnx-community/dinov2-small", "onnx:sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A hub with a tiny model under each official name, and empty caches."""
    with local_hub() as hub:
        hub.repositories["onnx-community/dinov2-small"] = image_repository(tmp_path / "hub" / "dinov2")
        hub.repositories["sentence-transformers/all-MiniLM-L6-v2"] = sentence_repository(tmp_path / "hub" / "minilm")
        monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(found_models, "_packaged_models", lambda: iter(()))
        describe_features.cache_clear()
        yield hub
        describe_features.cache_clear()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return images(tmp_path / "photos", ["a.png", "b.png", "c.png"])


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "is_found", lambda _: False)


def test_photos_get_dinov2_and_texts_minilm(photos: Path, tmp_path: Path) -> None:
    project = prepared(photos, classes=["cat", "dog"])
    assert (project.encoder, project.features.shape) == (DINOV2, (3, 5))
    assert f"features are made by {DINOV2}" in project.notes
    assert not project.features_note.is_weak
    table = texts(tmp_path / "t.jsonl", [{"text": "a cat sleeps"}, {"text": "a dog runs"}])
    project = prepared(table, classes=["cat", "dog"])
    assert (project.encoder, project.features.shape) == (MINILM, (2, 6))


def test_the_choice_is_remembered(photos: Path, hub: LocalHub) -> None:
    prepared(photos, classes=["cat", "dog"])
    asked = len(hub.asked)
    images(photos, ["d.png"], first=9)
    again = prepared(photos)
    assert (again.encoder, again.added) == (DINOV2, 1)
    assert len(hub.asked) == asked


@pytest.mark.usefixtures("no_library")
def test_without_a_library_it_is_said_what_to_install(photos: Path, tmp_path: Path) -> None:
    project = prepared(photos)
    assert project.encoder == "pixels"
    assert project.notes == [
        "colours and shapes only: no image encoder is installed; pip install 'understudy-al[onnx]' for far fewer labels"
    ]
    note = project.features_note
    assert (note.encoder, note.what, note.is_weak) == ("pixels", "colours and shapes only", True)
    assert note.advice is not None
    assert note.advice.startswith("no image encoder is installed. With one far fewer labels are needed")
    assert note.advice.endswith("Stop the server, run this, and start it again")
    assert note.command == f"pip install 'understudy-al[onnx]' && understudy encoder {project.folder.name}"
    table = texts(tmp_path / "t.jsonl", [{"text": "a cat sleeps"}, {"text": "a dog runs"}])
    assert prepared(table).notes[0].startswith("shared words only: no text encoder is installed; pip install")


def test_a_download_that_fails_is_said_with_its_reason(
    photos: Path, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.damaged = "model.onnx"
    project = prepared(photos)
    assert project.encoder == "pixels"
    assert project.notes[0].startswith(f"colours and shapes only: {hub.url}/onnx-community/dinov2-small/resolve/")
    assert "was expected" in project.notes[0]
    assert project.notes[0].endswith("; be online once, then understudy encoder photos.understudy for far fewer labels")
    assert "\n" not in project.notes[0]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    offline = prepared(photos, project=photos.with_name("offline"))
    assert offline.notes[0] == (
        "colours and shapes only: onnx-community/dinov2-small is not on this machine, and HF_HUB_OFFLINE is set; "
        "be online once, then understudy encoder offline for far fewer labels"
    )
    advice, command = offline.features_note.advice, offline.features_note.command
    assert advice is not None
    assert advice.startswith(f"far fewer labels are needed with {DINOV2}, which is downloaded once, and yours stay.")
    assert command == f"understudy encoder {offline.folder.name} {DINOV2}"


@pytest.mark.usefixtures("no_library")
def test_people_are_asked_before_they_label_with_weak_features(photos: Path) -> None:
    asked: list[str] = []

    def answer(question: str) -> bool:
        asked.append(question)
        return len(asked) > 1

    project = create_or_open(photos)
    with pytest.raises(
        UnderstudyError, match=r"stopped before anything was labelled; pip install .*, and run it again"
    ):
        project.settle_encoder(answer)
    assert asked[0].startswith("colours and shapes only: no image encoder is installed; pip install")
    assert asked[0].endswith("\nGo on with pixels?")
    assert not project.folder.exists()  # nothing has begun, so nothing stays
    assert create_or_open(photos).encoder is None
    project.settle_encoder(answer)
    assert project.encoder == "pixels"
    project.settle_encoder(answer)
    assert len(asked) == 2
    assert create_or_open(photos).encoder == "pixels"


def test_a_model_that_is_here_is_offered(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    image_repository(tmp_path / "cache" / "models--me--mine" / "snapshots" / "1")
    project = create_or_open(photos)
    project.settle_encoder()
    assert project.notes[0].endswith("; found here: --encoder onnx:me/mine (downloaded before)")
    asked: list[str] = []
    other = create_or_open(photos, project=photos.with_name("other"))
    other.settle_encoder(lambda question: not asked.append(question))  # type: ignore[func-returns-value]
    [question] = asked
    assert question.startswith("colours and shapes only: ")
    assert question.endswith("for far fewer labels\nUse onnx:me/mine (downloaded before) instead?")
    assert other.encoder == "onnx:me/mine"
    other.prepare()
    assert other.features.shape == (3, 5)


def test_on_a_gpu_torch_comes_first_and_what_is_installed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_encoder("image", "cpu") == DEFAULTS["image"][0]
    assert default_encoder("image", "cuda") == DEFAULTS["image"][1]
    monkeypatch.setattr(choice, "is_found", lambda library: library == "sentence_transformers")
    assert default_encoder("text", "cpu") == DEFAULTS["text"][1]
    assert default_encoder("image", "cpu") is None


def test_named_encoders_and_features_of_the_data_are_left_alone(photos: Path) -> None:
    project = create_or_open(photos, encoder="pixels?size=4")
    project.settle_encoder(lambda _: pytest.fail("nobody is to be asked"))
    assert project.encoder == "pixels?size=4"
    assert project.features_note.is_weak
    demo = create_or_open(demo=True, project=photos.with_name("demo"))
    demo.settle_encoder(lambda _: pytest.fail("nobody is to be asked"))
    assert demo.features_note.what == "those that came with the data"
