"""Random numbers drawn during training or prediction: dropout masks, shifts of images."""

import math
from typing import Final

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from understudy.errors import UnderstudyError

NOISE_STREAM: Final = 1  # combined with the seed: noise has its own random stream
NOISE_LEVELS: Final = 256  # a mask is drawn from bytes, so that dropout is a multiple of 1/256

NoiseSource = np.random.Generator | torch.Generator


def noise_source(seed: int, device: torch.device) -> NoiseSource:
    """A generator for this device. A GPU draws its own noise: copying it there would take longer than using it."""
    stream = np.random.default_rng([seed, NOISE_STREAM])
    return stream if device.type == "cpu" else torch.Generator(device).manual_seed(int(stream.integers(2**63)))


def draw_bytes(shape: tuple[int, ...], source: NoiseSource) -> UInt8[Tensor, "..."]:
    """Uniform bytes, the cheapest noise."""
    if isinstance(source, torch.Generator):
        return torch.randint(256, shape, dtype=torch.uint8, generator=source, device=source.device)
    return torch.frombuffer(bytearray(source.bytes(math.prod(shape))), dtype=torch.uint8).view(shape)


def as_mask(drawn: Tensor, dropout: float) -> Tensor:
    """0 for that share of the bytes, 1 / (share kept) for the others; as float32."""
    lost = round(dropout * NOISE_LEVELS)
    return (drawn >= lost).float() * (NOISE_LEVELS / (NOISE_LEVELS - lost))


def check_dropout(rate: float) -> float:
    if not 0 <= rate < 1 or (rate and not 0 < round(rate * NOISE_LEVELS) < NOISE_LEVELS):
        raise UnderstudyError(f"dropout must be 0, or from 1/{NOISE_LEVELS} to below 1; got {rate}")
    return rate
