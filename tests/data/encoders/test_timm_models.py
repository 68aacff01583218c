"""Real architectures with random weights: nothing is fetched."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.data.encoders.pictures import picture
from tests.leaving_out import import_or_leave_out
from understudy.data.encoders import Encoder, make_encoder
from understudy.errors import UnderstudyError

timm: Any = import_or_leave_out("timm")

IMAGES = [picture(seed) for seed in range(3)]
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def squashed(size: int) -> torch.Tensor:
    """The paper's preprocessing, written out."""
    arrays = [(np.asarray(image.resize((size, size), 2)) / 255 - MEAN) / STD for image in IMAGES]
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).float()


def features(encoder: Encoder) -> np.ndarray:
    return encoder.encode([encoder.prepare(image) for image in IMAGES])


def saved(model: nn.Module, path: Path) -> Path:
    torch.save(model.state_dict(), path)
    return path


@pytest.fixture(scope="module")
def resnet18() -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = timm.create_model("resnet18", pretrained=False)  # with its classifier, as files have it
    return model.eval()


@pytest.fixture(scope="module")
def weights(resnet18: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(resnet18, tmp_path_factory.mktemp("weights") / "resnet18.pth")


def test_resnet18_gives_the_means_of_its_last_stage(resnet18: nn.Module, weights: Path) -> None:
    encoder = make_encoder(f"resnet18@{weights}")
    assert (encoder.dim, encoder.kind, encoder.name) == (512, "image", f"resnet18@{weights}")
    with torch.inference_mode():
        expected = resnet18.forward_features(squashed(224)).mean((2, 3))  # type: ignore[operator]
    assert encoder.encode([encoder.prepare(IMAGES[0])]).dtype == np.float32
    np.testing.assert_allclose(features(encoder), expected, rtol=1e-4, atol=1e-5)


def test_vgg16_gives_the_means_after_its_last_pooling_and_not_4096_columns(tmp_path: Path) -> None:
    with torch.device("meta"):  # its fully connected stage is never made: 400 MB
        model = timm.create_model("vgg16", pretrained=False)
    model.features.to_empty(device="cpu")
    torch.manual_seed(0)
    for values in model.features.parameters():
        nn.init.normal_(values, std=0.03)
    # As torchvision names them; the classifier is in the file and not used.
    state = {name: tensor for name, tensor in model.state_dict().items() if name.startswith("features.")}
    torch.save(
        state | {"classifier.0.weight": torch.zeros(2), "classifier.0.bias": torch.zeros(2)}, tmp_path / "vgg.pth"
    )
    encoder = make_encoder(f"vgg16?size=64@{tmp_path / 'vgg.pth'}")
    assert encoder.dim == 512
    with torch.inference_mode():
        expected = model.eval().features(squashed(64)).mean((2, 3))
    assert expected.std() > 1e-2
    np.testing.assert_allclose(features(encoder), expected, rtol=1e-3, atol=1e-4)


def test_resnet101_has_2048_columns(tmp_path: Path) -> None:
    model = timm.create_model("resnet101", pretrained=False)
    assert make_encoder(f"resnet101?size=32@{saved(model, tmp_path / 'w.pt')}").dim == 2048


def test_any_timm_model_is_prepared_as_for_its_training(resnet18: nn.Module, weights: Path) -> None:
    encoder = make_encoder(f"timm:resnet18.a1_in1k@{weights}")
    config = timm.data.resolve_data_config({}, model=timm.create_model("resnet18.a1_in1k"))
    transform = timm.data.create_transform(**config)
    assert config["interpolation"] == "bicubic"
    with torch.inference_mode():
        expected = resnet18.forward_features(torch.stack([transform(image) for image in IMAGES])).mean((2, 3))  # type: ignore[operator]
    np.testing.assert_allclose(features(encoder), expected, rtol=1e-3, atol=1e-4)


def test_the_identity_follows_what_changes_the_numbers(resnet18: nn.Module, weights: Path, tmp_path: Path) -> None:
    same = saved(resnet18, tmp_path / "elsewhere.pt")
    torch.manual_seed(1)
    other = saved(timm.create_model("resnet18", pretrained=False), tmp_path / "other.pt")
    identities = {
        name: make_encoder(name).identity
        for name in (
            f"resnet18?size=32@{weights}",
            f"resnet18?size=32@{other}",
            f"resnet18?size=64@{weights}",
            f"resnet18?size=32&order=bgr@{weights}",
            f"resnet18?size=32&mean=0.5@{weights}",
            f"timm:resnet18.a1_in1k?size=32@{weights}",
        )
    }
    assert len(set(identities.values())) == len(identities)
    assert make_encoder(f"resnet18?size=32@{same}").identity == identities[f"resnet18?size=32@{weights}"]
    half = make_encoder(f"resnet18?size=32@{weights}", precision="bfloat16")
    assert half.identity != identities[f"resnet18?size=32@{weights}"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_device_is_no_part_of_the_identity(weights: Path) -> None:
    on_cpu, on_gpu = (make_encoder(f"resnet18@{weights}", device=d, precision="float32") for d in ("cpu", "cuda"))
    assert on_cpu.identity == on_gpu.identity
    np.testing.assert_allclose(features(on_cpu), features(on_gpu), rtol=1e-2, atol=1e-2)
    assert make_encoder(f"resnet18@{weights}", device="cuda").identity != on_gpu.identity


def test_half_precision_is_near(weights: Path) -> None:
    full, half = (make_encoder(f"resnet18?size=64@{weights}", precision=p) for p in ("float32", "bfloat16"))
    assert half.encode([half.prepare(IMAGES[0])]).dtype == np.float32
    difference = np.abs(features(full) - features(half)).max()
    assert 0 < difference < 0.1 * np.abs(features(full)).max()


def test_weights_of_another_network_are_refused(weights: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"does not fit this network \(missing: .*; give the file of this model"):
        make_encoder(f"resnet101@{weights}")


def test_without_the_hub_a_file_is_asked_for() -> None:
    with pytest.raises(
        UnderstudyError, match=r"could not be had from the hub .*give its weights in a local file, resnet18@FILE"
    ) as caught:
        make_encoder("resnet18")
    assert "\n" not in str(caught.value)


def test_an_unknown_model_gets_a_hint() -> None:
    with pytest.raises(UnderstudyError, match=r"timm has no model 'resnet81'; did you mean .*resnet18"):
        make_encoder("timm:resnet81")


def test_a_folder_with_code_in_its_weights_is_refused_whatever_timm_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Code:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (tmp_path / "marker",)

    (tmp_path / "config.json").write_text('{"architecture": "resnet18", "num_classes": 0}')
    torch.save({"state_dict": {"fc.bias": Code()}}, tmp_path / "pytorch_model.bin")
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda *args, **options: load(*args, **options | {"weights_only": False}))
    with pytest.raises(UnderstudyError, match="could not be had"):
        make_encoder(f"timm:local-dir:{tmp_path}")
    assert not (tmp_path / "marker").exists()
