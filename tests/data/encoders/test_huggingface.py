from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.data.encoders.pictures import picture
from tests.leaving_out import import_or_leave_out
from understudy.data.encoders import make_encoder
from understudy.errors import UnderstudyError

transformers: Any = import_or_leave_out("transformers")

IMAGES = [picture(seed) for seed in range(3)]


def vit(folder: Path, *, pools: bool, seed: int = 0, size: int = 32) -> Any:
    torch.manual_seed(seed)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=size, patch_size=8
    )
    model = transformers.ViTModel(config, add_pooling_layer=pools)
    model.save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": size, "width": size}).save_pretrained(folder)
    return model.eval()


def test_the_pooled_output_is_what_the_model_gives(tmp_path: Path) -> None:
    model = vit(tmp_path, pools=True)
    encoder = make_encoder(f"hf:{tmp_path}")
    assert (encoder.dim, encoder.kind) == (16, "image")
    pixels = transformers.ViTImageProcessor.from_pretrained(tmp_path)(images=IMAGES, return_tensors="pt")[
        "pixel_values"
    ]
    with torch.inference_mode():
        expected = model(pixel_values=pixels).pooler_output
    got = encoder.encode([encoder.prepare(image) for image in IMAGES])
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_a_map_of_features_is_averaged(tmp_path: Path) -> None:
    config = transformers.ConvNextConfig(hidden_sizes=[8, 8, 16, 24], depths=[1, 1, 1, 1])
    transformers.ConvNextModel(config).save_pretrained(tmp_path)
    transformers.ConvNextImageProcessor(size={"shortest_edge": 64}).save_pretrained(tmp_path)
    assert make_encoder(f"hf:{tmp_path}").dim == 24


def test_weights_may_come_from_a_file_of_their_own(tmp_path: Path) -> None:
    vit(tmp_path / "a", pools=True)
    torch.save(vit(tmp_path / "b", pools=True, seed=1).state_dict(), tmp_path / "b.pt")
    a, b, a_with_b = (make_encoder(f"hf:{tmp_path / name}") for name in ("a", "b", f"a@{tmp_path / 'b.pt'}"))
    assert a_with_b.identity == b.identity != a.identity
    image = a.prepare(IMAGES[0])
    np.testing.assert_allclose(a_with_b.encode([image]), b.encode([image]), rtol=1e-5, atol=1e-6)


def test_the_identity_follows_the_processor(tmp_path: Path) -> None:
    vit(tmp_path, pools=True)
    before = make_encoder(f"hf:{tmp_path}").identity
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}, image_mean=[0.1, 0.2, 0.3]).save_pretrained(
        tmp_path
    )
    assert make_encoder(f"hf:{tmp_path}").identity != before


def test_what_cannot_be_had_is_one_line() -> None:
    with pytest.raises(UnderstudyError, match=r"nobody/nothing could not be had from the hub .*hf:FOLDER") as caught:
        make_encoder("hf:nobody/nothing")
    assert "\n" not in str(caught.value)


def test_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match="brings its own preprocessing and takes no options"):
        make_encoder(f"hf:{tmp_path}?size=32")


def classifier(folder: Path) -> Any:
    """A checkpoint for classification: it has no pooler."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8
    )
    model = transformers.ViTForImageClassification(config)
    model.save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return model.eval()


def test_a_pooler_that_was_never_trained_is_not_used(tmp_path: Path) -> None:
    model = classifier(tmp_path)
    torch.manual_seed(1)
    first, second = make_encoder(f"hf:{tmp_path}"), make_encoder(f"hf:{tmp_path}")
    assert first.identity == second.identity
    image = first.prepare(IMAGES[0])
    np.testing.assert_array_equal(first.encode([image]), second.encode([image]))
    with torch.inference_mode():
        tokens = model.vit(pixel_values=torch.from_numpy(np.asarray(image))[None]).last_hidden_state
    np.testing.assert_allclose(first.encode([image]), tokens.mean(1), rtol=1e-3, atol=1e-4)


def test_a_checkpoint_that_lacks_more_is_one_line(tmp_path: Path) -> None:
    state = vit(tmp_path, pools=True).state_dict()
    lacking = [name for name in state if name.startswith("layernorm.")]
    save_file({name: tensor for name, tensor in state.items() if name not in lacking}, tmp_path / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    with pytest.raises(UnderstudyError, match=r"lacks weights of its network \(layernorm\.bias, layernorm\.weight\)"):
        make_encoder(f"hf:{tmp_path}")


def test_the_library_reports_nothing_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    classifier(tmp_path)
    capfd.readouterr()
    logging = transformers.utils.logging
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    make_encoder(f"hf:{tmp_path}")
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
