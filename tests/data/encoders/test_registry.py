import sys
from pathlib import Path

import pytest

from understudy.data.encoders import make_encoder
from understudy.data.encoders.registry import ENCODERS
from understudy.data.encoders.spec import parse_spec
from understudy.errors import UnderstudyError


def test_a_name_is_taken_apart() -> None:
    spec = parse_spec("timm:vit_base.augreg?size=64&mean=0.5,0.5,0.5@my weights@2.pt", "cpu", None)
    assert (spec.kind, spec.model, str(spec.weights)) == ("timm", "vit_base.augreg", "my weights@2.pt")
    assert spec.options == {"size": "64", "mean": "0.5,0.5,0.5"}
    assert (spec.device, spec.precision) == ("cpu", "float32")
    assert parse_spec("hf:google/vit", "cpu", None).model == "google/vit"
    assert parse_spec("python:a/b.py:make@w.pt", "cpu", None).model == "a/b.py:make"
    for front in ("hf:me@home/vit", "text:me@home/bert", "python:me@home/a.py:make"):
        assert (parse_spec(front, "cpu", None).model, parse_spec(front, "cpu", None).weights) == (
            front.partition(":")[2],
            None,
        )
        spec = parse_spec(f"{front}@w.safetensors", "cpu", None)
        assert (spec.model, str(spec.weights)) == (front.partition(":")[2], "w.safetensors")
    assert parse_spec("onnx:some@place/m.onnx?size=3", "cpu", None).model == "some@place/m.onnx"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet19", "there is no encoder 'resnet19'; write one of resnet18, resnet101, vgg16, timm:NAME, hf:NAME"),
        ("", "there is no encoder ''"),
        ("resnet18:x", "'resnet18:x' is not an encoder; write resnet18"),
        ("timm", "'timm' is not an encoder; write timm:NAME"),
        ("onnx:", "write onnx:FILE"),
        ("resnet18@", "a file of weights must follow the @ in 'resnet18@'"),
        ("hf:folder@", "a file of weights must follow the @ in 'hf:folder@'"),
        ("pixels?size", r"options are written \?key=value&key=value; got \?size"),
    ],
)
def test_a_wrong_name_says_what_to_write(name: str, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        make_encoder(name)


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(UnderstudyError, match="device must be auto, cpu or cuda; got 'tpu'"):
        make_encoder("pixels", device="tpu")
    assert make_encoder("pixels", device="auto").dim == 3072


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("resnet18", "timm", "vision"), ("timm:resnet18", "timm", "vision"), ("hf:x", "transformers", "vision"),
     ("text:x", "sentence_transformers", "text"), ("onnx:x", "onnxruntime", "onnx")],
)  # fmt: skip
def test_a_missing_library_says_which_extra_brings_it(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # what Python itself does to forbid an import
    with pytest.raises(UnderstudyError, match=rf"pip install 'understudy-al\[{extra}\]'"):
        make_encoder(name)


def test_every_kind_is_listed_with_what_it_needs() -> None:
    assert set(ENCODERS) == {
        "resnet18",
        "resnet101",
        "vgg16",
        "timm",
        "hf",
        "text",
        "onnx",
        "pixels",
        "words",
        "python",
    }
    assert all((entry.library is None) == (entry.extra is None) for entry in ENCODERS.values())


def test_a_library_that_fails_at_import_is_told_by_its_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As lazy libraries do it: the error is wrapped in one that names no module."""
    (tmp_path / "inner_part.py").write_text("raise OSError('libodd.so is missing')")
    (tmp_path / "onnxruntime.py").write_text(
        "try:\n    import inner_part\nexcept OSError as error:\n    raise ModuleNotFoundError('no part') from error\n"
    )
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnderstudyError) as caught:
        make_encoder("onnx:x")
    assert str(caught.value) == (
        "onnxruntime is installed but cannot be imported: inner_part fails (OSError: libodd.so is missing); "
        "pip install --force-reinstall inner_part"
    )
