"""Networks of VAAL and its kin: shapes, sizes and starts as published, and what they are fed."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from understudy.errors import UnderstudyError
from understudy.strategies.autoencoders import (
    FeatureInputs,
    ImageInputs,
    encode_rows,
    from_square,
    inputs_of,
    kl_divergence,
    make_autoencoder,
    make_discriminator,
    needs_of,
    to_square,
)
from understudy.strategies.view import PoolView


def pictures(n: int = 6, height: int = 28, width: int = 28, channels: int = 1, seed: int = 0) -> np.ndarray:
    shape = (n, height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_networks_for_colour_images_are_as_large_as_published() -> None:
    with torch.device("meta"):
        vae, discriminator = make_autoencoder((3, 32, 32), 32), make_discriminator(32)
    convolutions = 16 * (3 * 128 + 128 * 256 + 256 * 512 + 512 * 1024)
    norms = 2 * (128 + 256 + 512 + 1024)
    assert count(vae.trunk) == convolutions + norms == 11_020_032
    assert count(vae.mean) == count(vae.log_variance) == 1024 * 2 * 2 * 32 + 32
    transposed = 16 * (1024 * 512 + 512 * 256 + 256 * 128)
    ends = 32 * 1024 * 16 + 1024 * 16 + 128 * 3 + 3
    assert count(vae.decoder) == transposed + 2 * (512 + 256 + 128) + ends == 11_552_899
    assert count(discriminator) == 32 * 512 + 512 + 512 * 512 + 512 + 512 + 1


@pytest.mark.parametrize("channels", [1, 3])
def test_images_shrink_by_two_four_times_and_come_back(channels: int) -> None:
    sides: list[tuple[int, ...]] = []
    with torch.device("meta"):
        vae = make_autoencoder((channels, 32, 32), 32)
        x = torch.zeros(2, channels, 32, 32)
    for layer in (*vae.trunk, *vae.decoder):
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            layer.register_forward_hook(lambda *call: sides.append(tuple(call[2].shape[1:])))
    mean, log_variance = vae.encode(x)
    assert mean.shape == log_variance.shape == (2, 32)
    assert vae.decoder(mean).shape == x.shape
    assert sides == [
        (128, 16, 16), (256, 8, 8), (512, 4, 4), (1024, 2, 2),
        (512, 8, 8), (256, 16, 16), (128, 32, 32), (channels, 32, 32),
    ]  # fmt: skip


def test_features_have_a_perceptron_and_its_mirror() -> None:
    vae = make_autoencoder((7,), 3, extra=1)
    widths = [(layer.in_features, layer.out_features) for layer in vae.trunk if isinstance(layer, nn.Linear)]
    back = [(layer.in_features, layer.out_features) for layer in vae.decoder if isinstance(layer, nn.Linear)]
    assert widths == [(7, 1024), (1024, 512)]
    assert back == [(4, 512), (512, 1024), (1024, 7)]
    assert isinstance(vae.trunk[-1], nn.ReLU)
    assert isinstance(vae.decoder[-1], nn.Linear)  # outputs are not squashed


def test_layers_start_as_published() -> None:
    vae = make_autoencoder((1, 32, 32), 32).requires_grad_(False)
    for layer in (*vae.trunk, *vae.decoder):
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fan_in = layer.weight[0].numel()
            assert float(layer.weight.std()) == pytest.approx(math.sqrt(2 / fan_in), rel=0.05)
            assert layer.bias is None or not layer.bias.any()
        if isinstance(layer, nn.BatchNorm2d):
            assert bool((layer.weight == 1).all())
            assert not layer.bias.any()
    # Of these only the framework's uniform start has a sharp bound.
    transposed = vae.decoder[2]
    assert isinstance(transposed, nn.ConvTranspose2d)
    assert float(transposed.weight.abs().max()) <= 1 / math.sqrt(512 * 16)
    assert float(vae.mean.weight.abs().max()) <= 1 / math.sqrt(4096)


def test_the_divergence_is_the_published_formula() -> None:
    mean, log_variance = torch.randn(3, 2, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    total = 0.0
    for row in range(3):
        for k in range(2):
            m, v = float(mean[row, k]), float(log_variance[row, k])
            total += -0.5 * (1 + v - m**2 - math.exp(v))
    assert float(kl_divergence(mean, log_variance, "sum")) == pytest.approx(total, rel=1e-12)
    assert float(kl_divergence(mean, log_variance, "mean")) == pytest.approx(total / 6, rel=1e-12)
    assert float(kl_divergence(torch.zeros(4, 2), torch.zeros(4, 2), "sum")) == 0


def test_a_row_is_encoded_alike_whatever_rows_come_with_it() -> None:
    images = pictures(6)
    images[3:] //= 4  # batches differ in their statistics
    inputs, vae = ImageInputs(images, torch.device("cpu")), make_autoencoder((1, 32, 32), 4)
    rows = np.arange(6)
    with torch.no_grad():
        trained = vae.train().encode(inputs(rows))[0]
        apart = torch.cat([vae.encode(inputs(rows[:3]))[0], vae.encode(inputs(rows[3:]))[0]])
    assert not torch.allclose(trained, apart, atol=1e-2)  # it would matter
    together = encode_rows(vae.train(), inputs, rows)
    assert torch.allclose(encode_rows(vae, inputs, rows, rows_per_block=2), together, atol=1e-4)
    backwards = encode_rows(vae, inputs, rows[::-1].copy(), rows_per_block=2)
    assert torch.allclose(backwards, together.flip(0), atol=1e-4)


class TestImages:
    def test_bytes_become_numbers_from_minus_one_to_one(self) -> None:
        images = torch.from_numpy(pictures(2, 32, 32, 3))
        values = to_square(images)
        assert values.shape == (2, 3, 32, 32)
        assert torch.equal(values, images.permute(0, 3, 1, 2).float() / 127.5 - 1)
        assert float(to_square(torch.zeros(1, 32, 32, 1, dtype=torch.uint8)).max()) == -1
        assert float(to_square(torch.full((1, 32, 32, 1), 255, dtype=torch.uint8)).min()) == 1

    def test_images_that_nearly_fit_get_a_black_border(self) -> None:
        values = to_square(torch.from_numpy(pictures(2, 28, 31)))
        inside = torch.zeros(32, 32, dtype=torch.bool)
        inside[2:30, 0:31] = True
        assert bool((values[:, :, ~inside] == -1).all())
        assert torch.equal(values[0, 0][inside], to_square_by_hand(pictures(2, 28, 31)[0, :, :, 0]).flatten())

    @pytest.mark.parametrize("size", [(16, 16), (23, 40), (64, 64), (20, 64)])
    def test_other_sizes_are_resampled(self, size: tuple[int, int]) -> None:
        values = to_square(torch.full((1, *size, 3), 100, dtype=torch.uint8))
        assert values.shape == (1, 3, 32, 32)
        assert torch.allclose(values, torch.tensor(100 / 127.5 - 1), atol=1e-5)

    @pytest.mark.parametrize("size", [(28, 28), (24, 31), (32, 32)])
    def test_the_way_back_is_exact_where_there_was_a_border(self, size: tuple[int, int]) -> None:
        images = torch.from_numpy(pictures(3, *size, 3))
        assert torch.equal(from_square(to_square(images), size), images)

    def test_the_way_back_has_the_old_size_and_stays_in_range(self) -> None:
        assert bool((from_square(torch.full((2, 1, 32, 32), 7.0), (40, 20)) == 255).all())
        assert from_square(torch.full((2, 1, 32, 32), -7.0), (40, 20)).shape == (2, 40, 20, 1)

    def test_grey_images_need_no_axis_for_it(self) -> None:
        images = pictures(3)
        one, other = ImageInputs(images, torch.device("cpu")), ImageInputs(images[..., 0], torch.device("cpu"))
        assert one.shape == other.shape == (1, 32, 32)
        assert torch.equal(one(np.array([2, 0])), other(np.array([2, 0])))

    @pytest.mark.parametrize("shape", [(3, 15, 32), (3, 65, 32), (3, 28, 28, 4), (3, 28)])
    def test_images_that_do_not_suit_are_an_error(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(UnderstudyError, match=r"channels|shape"):
            ImageInputs(np.zeros(shape, np.uint8), torch.device("cpu"))

    def test_images_that_are_no_bytes_are_an_error(self) -> None:
        with pytest.raises(UnderstudyError, match="bytes"):
            ImageInputs(np.zeros((3, 28, 28)), torch.device("cpu"))


def to_square_by_hand(image: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(image.astype(np.float32) / np.float32(127.5) - 1)


class TestFeatures:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_columns_have_mean_0_and_deviation_1(self, dtype: torch.dtype) -> None:
        features = (torch.randn(50, 4, dtype=torch.float64) * 3 + 100).to(dtype)
        values = FeatureInputs(features)(np.arange(50))
        assert values.dtype == torch.float32
        assert torch.allclose(values.mean(0), torch.zeros(4), atol=1e-4)
        assert torch.allclose(values.std(0, correction=0), torch.ones(4), atol=1e-4)

    def test_a_column_that_never_changes_says_nothing(self) -> None:
        features = torch.full((9, 2), 0.1)
        assert not FeatureInputs(features)(np.arange(9)).any()


def test_images_are_preferred_where_there_are_any() -> None:
    labels = np.array([0, -1, -1])
    both = PoolView(labels, 2, images=pictures(3), features=np.ones((3, 2)))
    bare = PoolView(labels, 2, features=np.ones((3, 2)))
    assert isinstance(inputs_of(both, "auto"), ImageInputs)
    assert isinstance(inputs_of(both, "features"), FeatureInputs)
    assert isinstance(inputs_of(bare, "auto"), FeatureInputs)
    with pytest.raises(UnderstudyError, match="needs images"):
        inputs_of(bare, "images")


def test_needs_follow_the_setting() -> None:
    assert needs_of("auto").images_or_features
    assert needs_of("auto", ("probs",)).supplies == {"probs"}
    assert needs_of("images", ("probs",)).supplies == {"probs", "images"}
    assert not needs_of("features").images_or_features
