import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.encoders.graphs import image_repository, sentence_repository
from tests.data.encoders.local_hub import COMMIT, LocalHub, local_hub
from tests.data.encoders.pictures import picture
from tests.leaving_out import import_or_leave_out
from understudy.data.encoders import make_encoder
from understudy.data.encoders.hub_models import HubFile, HubModel, NotOnHub, find_model, look_up_model
from understudy.data.encoders.model_folders import hub_cache
from understudy.errors import UnderstudyError

import_or_leave_out("onnxruntime")
import_or_leave_out("tokenizers")

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
DINOV2 = "onnx-community/dinov2-small"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A hub with a tiny model under each official name, and an empty cache."""
    with local_hub() as hub:
        hub.repositories[MINILM] = sentence_repository(tmp_path / "minilm")
        hub.repositories[DINOV2] = image_repository(tmp_path / "dinov2")
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        yield hub


def test_a_model_is_downloaded_once_and_announced(
    hub: LocalHub, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = make_encoder(f"onnx:{MINILM}")
    assert (encoder.kind, encoder.dim) == ("text", 6)
    said = capsys.readouterr().err
    assert said.startswith(f"downloading {MINILM}, once: 0.0 MB, about 0 s at 40 Mbit/s")
    folder = home / "models" / "models--sentence-transformers--all-MiniLM-L6-v2" / "snapshots" / COMMIT
    assert (folder / "onnx" / "model.onnx").read_bytes() == (hub.repositories[MINILM] / "onnx/model.onnx").read_bytes()
    asked = len(hub.asked)
    again = make_encoder(f"onnx:{MINILM}")
    assert again.identity == encoder.identity == make_encoder(f"onnx:{hub.repositories[MINILM]}").identity
    assert len(hub.asked) == asked
    assert capsys.readouterr().err == ""


def test_images_are_prepared_as_the_downloaded_repository_says(hub: LocalHub) -> None:
    downloaded, local = make_encoder(f"onnx:{DINOV2}"), make_encoder(f"onnx:{hub.repositories[DINOV2]}")
    assert downloaded.identity == local.identity
    image = picture(0)
    np.testing.assert_array_equal(downloaded.encode([downloaded.prepare(image)]), local.encode([local.prepare(image)]))


def test_a_download_that_was_cut_goes_on_where_it_was(hub: LocalHub) -> None:
    hub.cut_after = [300]
    make_encoder(f"onnx:{MINILM}")
    assert "bytes=300-" in [wanted for _, wanted in hub.asked]


def test_a_file_that_is_not_the_announced_one_is_refused(hub: LocalHub) -> None:
    for damaged in ("model.onnx", "tokenizer.json"):
        hub.damaged = damaged
        with pytest.raises(UnderstudyError, match=rf"{damaged} has (sha256|git):\w+ where \1:\w+ was expected"):
            make_encoder(f"onnx:{MINILM}")
        assert find_model(MINILM, "onnx") is None
    hub.damaged = ""
    assert make_encoder(f"onnx:{MINILM}").dim == 6


def test_a_model_that_is_half_there_is_not_used(hub: LocalHub, home: Path) -> None:
    hub.damaged = "model.onnx"
    with pytest.raises(UnderstudyError, match="was expected"):
        make_encoder(f"onnx:{MINILM}")
    folder = home / "models" / "models--sentence-transformers--all-MiniLM-L6-v2"
    (folder / "snapshots" / COMMIT / "onnx").mkdir(exist_ok=True)
    (folder / "snapshots" / COMMIT / "onnx" / "model.onnx").write_bytes(b"half")
    assert find_model(MINILM, "onnx") is None


def test_only_what_is_needed_is_downloaded(hub: LocalHub) -> None:
    root = hub.repositories[MINILM]
    others = ("model.safetensors", "pytorch_model.bin", "modeling.py", "onnx/model_O4.onnx", "openvino/model.bin")
    for name in (*others, "onnx/model.onnx_data", "README.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"x")
    names = {file.name for file in look_up_model(MINILM, "onnx").files}
    assert names >= {"onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json", "1_Pooling/config.json"}
    assert not names & {*others, "README.md"}
    names = {file.name for file in look_up_model(MINILM, "text").files}
    assert "model.safetensors" in names
    assert not names & {"pytorch_model.bin", "modeling.py", "onnx/model.onnx", "onnx/model.onnx_data"}


def test_names_that_lead_out_of_the_folder_are_left_out(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    described = hub.describe(MINILM)
    described["siblings"] += [
        {"rfilename": name, "size": 1, "blobId": "00"} for name in ("../odd.json", "/etc/odd.json", "a/../../odd.json")
    ]
    monkeypatch.setattr(hub, "describe", lambda _: described)
    assert not [file.name for file in look_up_model(MINILM, "onnx").files if "odd" in file.name]


def test_what_cannot_be_had_is_one_line(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotOnHub, match=r"nobody/nothing could not be had from the hub \(the hub answered 404"):
        make_encoder("onnx:nobody/nothing")
    (hub.repositories[MINILM] / "onnx" / "model.onnx").unlink()
    with pytest.raises(NotOnHub, match="all-MiniLM-L6-v2 has no ONNX graph; name another repository"):
        make_encoder(f"onnx:{MINILM}")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(NotOnHub, match=r"could not be had from the hub \(.*refused.*\); be online, or give a folder"):
        make_encoder(f"onnx:{MINILM}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(NotOnHub, match="is not on this machine, and HF_HUB_OFFLINE is set"):
        make_encoder(f"onnx:{MINILM}")


def test_the_cache_of_the_hubs_own_libraries_is_used(hub: LocalHub) -> None:
    place = hub_cache() / "models--sentence-transformers--all-MiniLM-L6-v2"
    sentence_repository(place / "snapshots" / "older", pooling="cls")
    newer = sentence_repository(place / "snapshots" / "newer")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("newer")
    assert find_model(MINILM, "onnx") == newer
    make_encoder(f"onnx:{MINILM}")
    assert hub.asked == []


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"HF_HUB_CACHE": "/a"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({}, "~/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_the_hubs_libraries_have_it(
    variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert hub_cache() == Path(place).expanduser()


def test_sizes_and_times_are_told_as_people_say_them() -> None:
    model = HubModel("a/b", "c", (HubFile("x", 88_500_000, ""), HubFile("y", 400_000, "")))
    assert model.describe() == "downloading a/b, once: 89 MB, about 18 s at 40 Mbit/s"
    model = HubModel("a/b", "c", (HubFile("x", 1_200_000_000, ""),))
    assert model.describe() == "downloading a/b, once: 1200 MB, about 4 min at 40 Mbit/s"


def test_vision_models_are_downloaded_in_the_official_layout(hub: LocalHub, tmp_path: Path) -> None:
    transformers: Any = import_or_leave_out("transformers")
    torch.manual_seed(0)
    config = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=28, patch_size=14
    )
    root = tmp_path / "facebook"
    transformers.Dinov2Model(config).save_pretrained(root)
    transformers.BitImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 28, "width": 28}).save_pretrained(
        root
    )
    hub.repositories["facebook/dinov2-small"] = root
    encoder, local = make_encoder("hf:facebook/dinov2-small"), make_encoder(f"hf:{root}")
    assert encoder.dim == 16
    assert encoder.identity == local.identity
    assert any(path.endswith("model.safetensors") for path, _ in hub.asked)


def test_sentence_encoders_are_downloaded_in_the_official_layout(hub: LocalHub, tmp_path: Path) -> None:
    import_or_leave_out("sentence_transformers")
    from understudy.data.encoders.trials import _sentence_model

    (tmp_path / "bert").mkdir()
    _sentence_model(tmp_path / "bert")
    hub.repositories[MINILM] = tmp_path / "bert"
    encoder = make_encoder(f"text:{MINILM}")
    assert encoder.identity == make_encoder(f"text:{tmp_path / 'bert'}").identity
    assert os.environ.get("HF_HUB_OFFLINE") is None
    assert encoder.encode([encoder.prepare("a text")]).shape == (1, 8)
