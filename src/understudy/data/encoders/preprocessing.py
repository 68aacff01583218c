"""What is done to an image before a network sees it: size, scale, mean, colour order."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from understudy.errors import UnderstudyError, UsageError

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
NARROW: Final = 16  # times the pixels of its middle
MAX_SIDE: Final = 4096  # far more than any network takes, and an image that still fits into memory

Interpolation = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
Resize = Literal["squash", "crop"]
Order = Literal["rgb", "bgr"]
CHOICES: Final = {"interpolation": Interpolation, "resize": Resize, "order": Order}


@dataclass(frozen=True)
class Preprocessing:
    """(pixel x scale - mean) / std of an image brought to `size`: one number, or height and width.

    "squash" ignores the image's proportions, "crop" keeps them and cuts out the middle. The part that is kept is
    `crop` of each side. `mean` and `std` are in the order of the channels.
    """

    size: int | tuple[int, int] = 224
    resize: Resize = "squash"
    crop: float = 1.0
    interpolation: Interpolation = "bilinear"
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    scale: float = 1 / 255
    order: Order = "rgb"

    def __post_init__(self) -> None:
        if min(self.shape) < 1 or max(self.shape) > MAX_SIDE:
            raise UsageError(f"each side must have from 1 to {MAX_SIDE} pixels; got size {self.size}")
        if not 0 < self.crop <= 1:
            raise UsageError(f"crop is the part of each side that is kept, above 0 and up to 1; got {self.crop}")
        if 0 in self.std:
            raise UsageError(f"std divides and must not be zero; got {self.std}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in get_args(choices):
                raise UsageError(f"{name} must be one of {', '.join(get_args(choices))}; got {getattr(self, name)!r}")

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    def resize_to_shape(self, image: Image.Image, narrow: float = NARROW) -> UInt8[np.ndarray, "h w 3"]:
        """The whole image resized and its middle cut out; of a narrow one, only the middle is resized.

        An image is narrow where, resized whole, it would have more than `narrow` times the pixels of its middle.
        """
        height, width = self.shape
        wide, tall = self.uncropped_size(image)
        filter_ = Image.Resampling[self.interpolation.upper()]
        top, left = round((tall - height) / 2), round((wide - width) / 2)
        if wide * tall > narrow * width * height:
            x, y = image.width / wide, image.height / tall
            # Equal but for rounding: its corners are kept in single precision.
            box = (left * x, top * y, min((left + width) * x, image.width), min((top + height) * y, image.height))
            return np.asarray(image.resize((width, height), filter_, box).convert("RGB"))
        if (wide, tall) != image.size:
            image = image.resize((wide, tall), filter_)
        return np.asarray(image.convert("RGB"))[top : top + height, left : left + width]

    def uncropped_size(self, image: Image.Image) -> tuple[int, int]:
        """Width and height of the whole image, resized so that the middle has the size wanted."""
        height, width = self.shape
        tall, wide = int(height / self.crop), int(width / self.crop)
        if self.resize == "squash":
            return wide, tall
        # The side that is short for the shape wanted decides; the other is cut.
        if image.width * tall < image.height * wide:
            return wide, int(wide * image.height / image.width)
        return int(tall * image.width / image.height), tall

    def normalise(self, pixels: UInt8[Tensor, "b h w 3"]) -> Float[Tensor, "b 3 h w"]:
        values = pixels.permute(0, 3, 1, 2).float()
        if self.order == "bgr":
            values = values.flip(1)
        mean, std = (torch.tensor(v, device=pixels.device).view(3, 1, 1) for v in (self.mean, self.std))
        return (values * self.scale - mean) / std

    def with_options(self, options: Mapping[str, str]) -> "Preprocessing":
        """The same with what `?key=value&...` says."""
        known = [field.name for field in fields(self)]
        for name in options:
            if name not in known:
                raise UsageError(f"there is no option {name!r} for this encoder; there are {', '.join(known)}")
        return replace(self, **{name: _parse_option(name, value) for name, value in options.items()})


def _parse_option(name: str, value: str) -> Any:
    """An option's value: a word, a number, `height x width`, or one or three numbers."""
    if name in CHOICES:
        return value
    try:
        if name == "size":
            sides = tuple(int(part) for part in value.split("x"))
            if len(sides) > 2:
                raise UsageError(f"size is one number, or height x width; got {value!r}")
            return sides if len(sides) == 2 else sides[0]
        numbers = tuple(float(part) for part in value.split(","))
    except UnderstudyError:
        raise
    except ValueError as error:
        raise UsageError(f"{name} must be a number, or numbers such as 0.5,0.5,0.5; got {value!r}") from error
    if name in {"mean", "std"}:
        numbers = numbers * 3 if len(numbers) == 1 else numbers
        if len(numbers) != 3:
            raise UsageError(f"{name} has one number or one for each of three channels; got {value!r}")
        return numbers
    return numbers[0]
