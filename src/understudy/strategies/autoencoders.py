"""Networks that VAAL and its variants train on a pool: their inputs, autoencoders, and a discriminator of latents."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional

from understudy.checks import check_choice
from understudy.errors import UnderstudyError
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Images, PoolView, Supply

On = Literal["auto", "images", "features"]
SIDE: Final = 32  # of the images that the convolutions take
SIDES: Final = range(16, 65)
PADDED: Final = range(24, SIDE + 1)  # sides that are padded; all others are resampled
CONVOLUTIONS: Final = (128, 256, 512, 1024)
PERCEPTRON: Final = (1024, 512)
ROWS_PER_BLOCK: Final = 1024  # encoded at a time


# -- inputs ------------------------------------------------------------------------------------------------


class ImageInputs:
    """Images in [-1, 1], 32 x 32."""

    def __init__(self, images: Images, device: torch.device) -> None:
        self.images = images
        self.device = device
        self.shape: tuple[int, ...] = (_checked_images(images[np.zeros(1, np.int64)]).shape[3], SIDE, SIDE)

    def __call__(self, rows: Int[np.ndarray, "b"]) -> Float[Tensor, "b ch h w"]:
        return to_square(torch.from_numpy(_checked_images(self.images[rows])).to(self.device))


class FeatureInputs:
    """Features, each column standardised over the pool, in float32."""

    def __init__(self, features: Float[Tensor, "n d"]) -> None:
        self.features = features
        self.shape: tuple[int, ...] = (features.shape[1],)
        variance, self.mean = torch.var_mean(features, dim=0, correction=0)
        # A nearly constant column holds only rounding errors: it is set to 0 rather than scaled up.
        moves = variance > (torch.finfo(features.dtype).eps * self.mean.abs()) ** 2
        self.scale = torch.where(moves, variance.rsqrt(), 0.0)

    def __call__(self, rows: Int[np.ndarray, "b"]) -> Float[Tensor, "b d"]:
        block = self.features[torch.from_numpy(rows).to(self.features.device)]
        return ((block - self.mean) * self.scale).float()


Inputs = ImageInputs | FeatureInputs  # called with rows; `shape` is that of one row


def inputs_of(view: PoolView, on: On) -> Inputs:
    """Images or features, as the setting says; `auto` prefers images."""
    if on == "images" or (on == "auto" and view.has("images")):
        return ImageInputs(view.images, view.device)
    return FeatureInputs(view.features)


def needs_of(on: On, supplies: Sequence[Supply] = (), labelled: int = 0, hook: bool = False) -> Needs:
    wanted = frozenset(supplies) if on == "auto" else frozenset({*supplies, on})
    return Needs(wanted, images_or_features=on == "auto", labelled=labelled, hook=hook)


def check_on(on: str) -> None:
    check_choice("on", on, get_args(On))


def _checked_images(images: Any) -> UInt8[np.ndarray, "b h w ch"]:
    """Images with channels last, greyscale ones too, in writable memory."""
    images = np.array(images)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise UnderstudyError(
            "images must be bytes of shape (n, height, width) or (n, height, width, channels); "
            f"got {images.dtype} of shape {images.shape}"
        )
    images = images[..., None] if images.ndim == 3 else images
    if not all(side in SIDES for side in images.shape[1:3]) or images.shape[3] not in (1, 3):
        raise UnderstudyError(
            f"these networks take 1 or 3 channels and sides of {SIDES.start} to {SIDES.stop - 1} pixels; "
            f'got {images.shape[1:]}: resize the images, or set on="features"'
        )
    return images


def to_square(images: UInt8[Tensor, "b h w ch"]) -> Float[Tensor, "b ch 32 32"]:
    """In [-1, 1] and 32 x 32: padded with black where they nearly fit, otherwise resampled."""
    values = images.permute(0, 3, 1, 2).float() / 127.5 - 1
    if _fits(values.shape[2:]):
        return functional.pad(values, _border(values.shape[2:]), value=-1.0)
    return functional.interpolate(values, (SIDE, SIDE), mode="bilinear", antialias=True)


def from_square(values: Float[Tensor, "b ch 32 32"], size: tuple[int, int]) -> UInt8[Tensor, "b h w ch"]:
    """Back to bytes of the images' original size."""
    if _fits(size):
        left, _, top, _ = _border(size)
        values = values[:, :, top : top + size[0], left : left + size[1]]
    else:
        values = functional.interpolate(values, size, mode="bilinear", antialias=True)
    return ((values + 1) * 127.5).round().clip(0, 255).byte().permute(0, 2, 3, 1)


def _fits(size: Sequence[int]) -> bool:
    return all(side in PADDED for side in size)


def _border(size: Sequence[int]) -> tuple[int, int, int, int]:
    """Left, right, top, bottom."""
    height, width = (SIDE - side for side in size)
    return width // 2, width - width // 2, height // 2, height - height // 2


# -- networks ----------------------------------------------------------------------------------------------


class Autoencoder(nn.Module):
    """A variational autoencoder. Its decoder may take `extra` numbers per row besides the latent."""

    def __init__(self, trunk: nn.Sequential, width: int, decoder: nn.Sequential, latent: int) -> None:
        super().__init__()
        self.trunk = trunk  # outputs `width` numbers per row
        self.decoder = decoder
        self.mean = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)
        for part in (trunk, decoder):
            start_kaiming(part)  # the two heads keep torch's initialisation

    def encode(self, x: Float[Tensor, "b *shape"]) -> tuple[Float[Tensor, "b z"], Float[Tensor, "b z"]]:
        """Means and log-variances of the latents."""
        hidden = self.trunk(x)
        return self.mean(hidden), self.log_variance(hidden)


def make_autoencoder(shape: tuple[int, ...], latent: int, extra: int = 0) -> Autoencoder:
    """Convolutions for images, (channels, 32, 32); a perceptron for d features, (d,)."""
    if len(shape) == 1:
        widths = (shape[0], *PERCEPTRON)
        trunk = _perceptron(widths)
        trunk.append(nn.ReLU())
        return Autoencoder(trunk, widths[-1], _perceptron((latent + extra, *widths[::-1])), latent)
    channels, last = shape[0], CONVOLUTIONS[-1]
    trunk, width = convolutions(channels)
    decoder = nn.Sequential(nn.Linear(latent + extra, last * 16), nn.Unflatten(1, (last, 4, 4)))
    for inner, outer in zip(CONVOLUTIONS[:0:-1], CONVOLUTIONS[-2::-1], strict=True):
        decoder.extend((nn.ConvTranspose2d(inner, outer, 4, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()))
    decoder.append(nn.ConvTranspose2d(CONVOLUTIONS[0], channels, 1))
    return Autoencoder(trunk, width, decoder, latent)


def convolutions(channels: int) -> tuple[nn.Sequential, int]:
    """From (channels, 32, 32) to 1024 x 2 x 2 numbers, and their count."""
    layers = nn.Sequential()
    for inner, outer in zip((channels, *CONVOLUTIONS[:-1]), CONVOLUTIONS, strict=True):
        layers.extend((nn.Conv2d(inner, outer, 4, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()))
    layers.append(nn.Flatten())
    return layers, CONVOLUTIONS[-1] * 4


def make_discriminator(width: int) -> nn.Sequential:
    """width-512-512-1. The loss applies the sigmoid, for numerical precision."""
    return start_kaiming(_perceptron((width, 512, 512, 1)))


def _perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers = nn.Sequential()
    for inner, outer in pairwise(widths):
        layers.extend((nn.Linear(inner, outer), nn.ReLU()))
    return nn.Sequential(*list(layers)[:-1])


def start_kaiming(layers: nn.Sequential) -> nn.Sequential:
    """Kaiming-normal weights for convolutions and linear layers; transposed convolutions keep torch's."""
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return layers


def kl_divergence(mean: Float[Tensor, "b z"], log_variance: Float[Tensor, "b z"], reduction: str) -> Float[Tensor, ""]:
    """KL divergence of the latents from a standard normal, summed or averaged over batch and dimensions."""
    each = -0.5 * (1 + log_variance - mean**2 - log_variance.exp())
    return each.sum() if reduction == "sum" else each.mean()


@torch.no_grad()
def encode_rows(
    vae: Autoencoder, inputs: Inputs, rows: Int[np.ndarray, "m"], rows_per_block: int = ROWS_PER_BLOCK
) -> Float[Tensor, "m z"]:
    """Means of the latents, in eval mode, so that a row's mean does not depend on its batch."""
    vae.eval()
    out, done = torch.empty(0), 0  # one tensor: small ones kept between large temporaries would fragment the heap
    for block in np.array_split(rows, math.ceil(len(rows) / rows_per_block)):
        means = vae.encode(inputs(block))[0]
        if not done:
            out = means.new_empty((len(rows), means.shape[1]))
        out[done : done + len(block)] = means
        done += len(block)
    return out
