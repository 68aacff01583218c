import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.encoders.graphs import image_repository, sentence_repository, token_graph
from tests.data.encoders.pictures import picture
from tests.leaving_out import import_or_leave_out
from understudy.data.encoders import make_encoder
from understudy.data.encoders.found_models import GRAPH_PACKAGE, LITE_PACKAGE, SENTENCE_PACKAGE, FoundModel, find_models
from understudy.data.encoders.registry import ENCODERS
from understudy.data.encoders.trials import _sentence_model, _vision_model

for library in ("timm", "transformers", "sentence_transformers", "onnxruntime", "tokenizers"):
    import_or_leave_out(library)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path / "packages")
    for name in (GRAPH_PACKAGE, LITE_PACKAGE, SENTENCE_PACKAGE):
        package = tmp_path / "packages" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise SystemExit('code of others is not run')")
    return tmp_path / "cache"


def names_of(found: list[FoundModel]) -> list[str]:
    return [model.name for model in found]


def test_models_in_the_hubs_cache_are_found_by_what_they_are(cache: Path) -> None:
    image_repository(cache / "models--a--graph" / "snapshots" / "1")
    sentence_repository(cache / "models--b--sentences" / "snapshots" / "1")
    vision = cache / "models--c--vit" / "snapshots" / "1"
    vision.mkdir(parents=True)
    _vision_model(vision)
    bert = cache / "models--d--bert" / "snapshots" / "1"
    bert.mkdir(parents=True)
    _sentence_model(bert)
    language = cache / "models--e--gpt" / "snapshots" / "1"
    language.mkdir(parents=True)
    (language / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    (language / "model.safetensors").write_bytes(b"x")
    (cache / "models--f--empty").mkdir()
    assert names_of(find_models("image")) == ["onnx:a/graph", "hf:c/vit"]
    assert names_of(find_models("text")) == ["onnx:b/sentences", "text:d/bert"]
    for kind in ("image", "text"):
        for name in names_of(find_models(kind)):
            assert make_encoder(name).kind == kind


def test_a_path_alone_is_enough(tmp_path: Path) -> None:
    graph = image_repository(tmp_path / "graph")
    sentences = sentence_repository(tmp_path / "sentences")
    for path, full in ((graph, "onnx"), (sentences, "onnx"), (sentences / "onnx" / "model.onnx", "onnx")):
        assert make_encoder(str(path)).identity == make_encoder(f"{full}:{path}").identity
    (tmp_path / "vit").mkdir()
    assert make_encoder(str(tmp_path / "vit").replace("vit", "graph")).kind == "image"
    _vision_model(tmp_path / "vit")
    assert make_encoder(str(tmp_path / "vit")).identity == make_encoder(f"hf:{tmp_path / 'vit'}").identity


def test_packages_of_others_are_found_by_their_layout_and_not_imported(tmp_path: Path) -> None:
    assert find_models("text") == []
    packages = tmp_path / "packages"
    token_graph(packages / GRAPH_PACKAGE / "model.onnx", names=("input_ids", "attention_mask"))
    assert find_models("text") == []  # without a tokeniser it is of no use
    model = packages / SENTENCE_PACKAGE / "model"
    model.mkdir()
    _sentence_model(model)
    sentences, graph = find_models("text")
    assert sentences.name == f"text:{model}"
    assert graph.name.startswith(f"onnx:{packages / GRAPH_PACKAGE / 'model.onnx'}?tokenizer=")
    for found in (sentences, graph):
        assert "from the installed package" in found.what
        encoder = make_encoder(found.name)
        assert np.isfinite(encoder.encode([encoder.prepare("a text")])).all()
    assert not {GRAPH_PACKAGE, SENTENCE_PACKAGE} & set(sys.modules)


def test_efficientnets_of_the_first_port_are_read_by_their_order(tmp_path: Path) -> None:
    import timm

    network = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()
    state = network.state_dict()
    first = {"conv_stem.weight": "_conv_stem.weight", "classifier.weight": "_fc.weight", "classifier.bias": "_fc.bias"}
    ported = {first.get(name, f"_{place}"): tensor for place, (name, tensor) in enumerate(state.items())}
    folder = tmp_path / "packages" / LITE_PACKAGE / "models"
    folder.mkdir()
    torch.save(ported, folder / "efficientnet-lite0-57934424.pth")
    torch.save(state, tmp_path / "timm.pt")
    [found] = find_models("image")
    ours, theirs = make_encoder(found.name), make_encoder(f"timm:tf_efficientnet_lite0@{tmp_path / 'timm.pt'}")
    assert (ours.dim, ours.identity) == (1280, theirs.identity)
    image = picture(0)
    np.testing.assert_array_equal(ours.encode([ours.prepare(image)]), theirs.encode([theirs.prepare(image)]))


def test_every_name_that_is_found_is_written_as_an_encoder(cache: Path) -> None:
    image_repository(cache / "models--a--graph" / "snapshots" / "1")
    assert all(model.name.partition(":")[0] in ENCODERS for model in find_models("image"))
