from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.data.encoders.graphs import PATCHES, image_repository
from tests.data.encoders.pictures import picture
from tests.leaving_out import import_or_leave_out
from understudy.data.encoders import Preprocessing, make_encoder
from understudy.data.encoders.onnx_weights import digests
from understudy.errors import UnderstudyError

onnxruntime: Any = import_or_leave_out("onnxruntime")

IMAGES = [picture(seed) for seed in range(5)]
KERNEL = np.random.default_rng(0).normal(size=(6, 3, 1, 1)).astype(np.float32)


def graph(path: Path, shape: list[int | str], output: str = "map") -> Path:
    """A 1 x 1 convolution to six columns, as a map and as its global means."""
    kernel = helper.make_tensor("kernel", TensorProto.FLOAT, KERNEL.shape, KERNEL.flatten())
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["map"]),
        helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted({output, "flat"})]
    entry = helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)
    model = helper.make_model(
        helper.make_graph(nodes, "g", [entry], outputs, [kernel]), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    onnx.save(model, path)
    return path


def by_hand(preprocessing: Preprocessing) -> np.ndarray:
    pixels = np.stack([preprocessing.resize_to_shape(image) for image in IMAGES]).astype(np.float64)
    normal = (pixels * preprocessing.scale - np.array(preprocessing.mean)) / np.array(preprocessing.std)
    return np.einsum("bhwc,oc->bo", normal, KERNEL[:, :, 0, 0]) / (pixels.shape[1] * pixels.shape[2])


@pytest.mark.parametrize("batch", ["n", 1, 2])
@pytest.mark.parametrize("output", ["flat", "map"])
def test_the_graph_is_run_on_prepared_images_whatever_its_batch(tmp_path: Path, batch: int | str, output: str) -> None:
    path = graph(tmp_path / "m.onnx", [batch, 3, 16, 24], "map")
    encoder = make_encoder(f"onnx:{path}?mean=0.5&std=0.25&output={output}")
    assert (encoder.dim, encoder.kind) == (6, "image")
    got = encoder.encode([encoder.prepare(image) for image in IMAGES])
    expected = by_hand(Preprocessing(size=(16, 24), mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_an_open_size_is_asked_for(tmp_path: Path) -> None:
    path = graph(tmp_path / "m.onnx", ["n", 3, "h", "w"])
    with pytest.raises(UnderstudyError, match=r"does not say how large its images are; write onnx:.*\?size=224"):
        make_encoder(f"onnx:{path}")
    encoder = make_encoder(f"onnx:{path}?size=8&output=flat")
    np.testing.assert_allclose(
        encoder.encode([encoder.prepare(image) for image in IMAGES]),
        by_hand(Preprocessing(size=8)),
        rtol=1e-4,
        atol=1e-4,
    )


def test_the_identity_follows_file_output_and_preprocessing(tmp_path: Path) -> None:
    path, copy = graph(tmp_path / "m.onnx", ["n", 3, 8, 8]), graph(tmp_path / "copy.onnx", ["n", 3, 8, 8])
    other = graph(tmp_path / "other.onnx", ["n", 3, 16, 16])
    names = [f"onnx:{path}", f"onnx:{path}?output=flat", f"onnx:{path}?order=bgr", f"onnx:{other}"]
    identities = [make_encoder(name).identity for name in names]
    assert len({*identities}) == 3 + (identities[0] != identities[1])
    assert make_encoder(f"onnx:{copy}").identity == identities[0]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (["n", 7], "", r"takes tensor\(float\) of shape \['n', 7\]"),
        (["n", 3, 8, 8], "?size=9", "takes images of 8 x 8; got size 9"),
        (["n", 3, 8, 8], "?output=logits", "has no output 'logits'; it has flat, map"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, shape: list[int | str], options: str, message: str) -> None:
    if len(shape) == 2:
        entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        same = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        node = helper.make_node("Identity", ["x"], ["y"])
        model = helper.make_model(
            helper.make_graph([node], "g", [entry], [same]), opset_imports=[helper.make_opsetid("", 17)]
        )
        model.ir_version = 9
        onnx.save(model, tmp_path / "m.onnx")
    else:
        graph(tmp_path / "m.onnx", shape)
    with pytest.raises(UnderstudyError, match=message):
        make_encoder(f"onnx:{tmp_path / 'm.onnx'}{options}")


def test_a_broken_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(UnderstudyError, match="is not an ONNX file that can be run") as caught:
        make_encoder(f"onnx:{tmp_path / 'm.onnx'}")
    assert "\n" not in str(caught.value)
    with pytest.raises(UnderstudyError, match="there is no ONNX file at"):
        make_encoder("onnx:nowhere.onnx")


def test_the_identity_follows_weights_in_files_of_their_own(tmp_path: Path) -> None:
    identities, values = [], []
    for factor in (1, 2, 1):
        model = onnx.load(graph(tmp_path / "whole.onnx", ["n", 3, 8, 8], "flat"))
        kernel = model.graph.initializer[0]
        kernel.CopyFrom(numpy_helper.from_array(factor * KERNEL, kernel.name))
        (tmp_path / "w.data").unlink(missing_ok=True)
        onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
        encoder = make_encoder(f"onnx:{tmp_path / 'm.onnx'}")
        identities.append(encoder.identity)
        values.append(encoder.encode([encoder.prepare(IMAGES[0])]))
    assert identities[0] == identities[2] != identities[1]
    np.testing.assert_allclose(values[1], 2 * values[0], rtol=1e-5)


def test_weights_outside_are_found_wherever_a_graph_may_have_them(tmp_path: Path) -> None:
    def outside(name: str, place: str) -> TensorProto:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="offset", value="0")
        tensor.external_data.add(key="location", value=place)
        return tensor

    inside = outside("e", "unused")
    inside.data_location = TensorProto.DEFAULT
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=outside("c", "c.data"))], "inner", [], [])
    nodes = [helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)]
    whole = helper.make_graph(nodes, "g", [], [], [outside("a", "a.data"), outside("b", "b.data"), inside])
    onnx.save(helper.make_model(whole), tmp_path / "m.onnx")
    for name in "abc":
        (tmp_path / f"{name}.data").write_bytes(name.encode())
    before = digests(tmp_path / "m.onnx")
    assert [name for name, _ in before] == ["", "a.data", "b.data", "c.data"]
    (tmp_path / "c.data").write_bytes(b"other")
    after = digests(tmp_path / "m.onnx")
    assert after[:3] == before[:3]
    assert after[3] != before[3]
    (tmp_path / "b.data").unlink()
    with pytest.raises(UnderstudyError, match=r"the weights of .*m\.onnx cannot be read .*b\.data.*export it again"):
        digests(tmp_path / "m.onnx")


def test_the_identity_follows_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = graph(tmp_path / "m.onnx", ["n", 3, 8, 8])
    before = make_encoder(f"onnx:{path}").identity
    version = onnxruntime.__version__.split(".")
    monkeypatch.setattr(onnxruntime, "__version__", ".".join([version[0], "999", "9"]))
    assert make_encoder(f"onnx:{path}").identity == before
    monkeypatch.setattr(onnxruntime, "__version__", f"{int(version[0]) + 1}.0.0")
    assert make_encoder(f"onnx:{path}").identity != before


def test_a_repository_says_how_its_images_are_prepared(tmp_path: Path) -> None:
    folder = image_repository(tmp_path / "m")
    encoder = make_encoder(f"onnx:{folder}")
    assert (encoder.dim, encoder.kind) == (5, "image")
    prepared = Preprocessing(size=12, resize="crop", crop=0.75, interpolation="bicubic")
    pixels = np.stack([prepared.resize_to_shape(image) for image in IMAGES]).astype(np.float64)
    normal = (pixels / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
    patches = normal.reshape(len(IMAGES), 3, 4, 3, 4, 3)  # rows, columns and colours of three by three patches
    tokens = np.einsum("nyaxbc,ocab->nyxo", patches, PATCHES)
    for name, expected in ((f"onnx:{folder}", tokens.mean((1, 2))), (f"onnx:{folder}?pool=mean", tokens.mean((1, 2)))):
        made = make_encoder(name)
        got = made.encode([made.prepare(image) for image in IMAGES])
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    larger = make_encoder(f"onnx:{folder}?size=16&crop=1")
    assert np.asarray(larger.prepare(IMAGES[0])).shape == (16, 16, 3)
    assert larger.identity != encoder.identity
    with pytest.raises(UnderstudyError, match="pool must be cls or mean; got 'max'"):
        make_encoder(f"onnx:{folder}?pool=max")


def test_the_first_token_stands_for_the_image(tmp_path: Path) -> None:
    folder = image_repository(tmp_path / "m")
    first, mean = make_encoder(f"onnx:{folder}"), make_encoder(f"onnx:{folder}?pool=mean")
    tokens = np.arange(12, dtype=np.float32).reshape(1, 3, 4)

    class Graph:
        def run(self, *_: object) -> list[np.ndarray]:
            return [tokens]

    for encoder, expected in ((first, tokens[:, 0]), (mean, tokens.mean(1))):
        encoder.session = Graph()  # type: ignore[attr-defined]
        np.testing.assert_array_equal(encoder.encode([np.zeros((12, 12, 3), np.uint8)]), expected)
    assert first.identity != mean.identity
