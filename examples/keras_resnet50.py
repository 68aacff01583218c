"""The ResNet50 that ships with Keras, as an encoder of your own: 2,048 columns.

    understudy embed PHOTOS --encoder python:examples/keras_resnet50.py:encoder@WEIGHTS.safetensors

It is not torchvision's: a block takes its stride in the first convolution, convolutions have biases, and the colours
are blue, green, red from 0 to 255 less their means. Run as a script, it shows the shapes, with random weights or with
the file named by $KERAS_RESNET50.
"""

import os
from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn

from understudy.data.encoders import ImageEncoder, Preprocessing, load_weights

STAGES = [(64, 3), (128, 4), (256, 6), (512, 3)]  # width, blocks
AS_KERAS = Preprocessing(order="bgr", scale=1, mean=(103.939, 116.779, 123.68), std=(1, 1, 1))


class ConvNorm(nn.Module):
    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.c = nn.Conv2d(before, after, kernel, stride, padding)
        self.b = nn.BatchNorm2d(after, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.c(x))


class Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int, projects: bool) -> None:
        super().__init__()
        self.a = ConvNorm(before, width, 1, stride)
        self.b = ConvNorm(width, width, 3, padding=1)
        self.c = ConvNorm(width, 4 * width, 1)
        self.d = ConvNorm(before, 4 * width, 1, stride) if projects else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return (self.c(self.b(self.a(x).relu()).relu()) + self.d(x)).relu()


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = ConvNorm(3, 64, 7, stride=2, padding=3)
        # The border is filled with zeros before the maximum is taken; torch's own padding would be minus infinity.
        self.pool = nn.Sequential(nn.ZeroPad2d(1), nn.MaxPool2d(3, 2))
        blocks, before = [], 64
        for stage, (width, count) in enumerate(STAGES):
            for i in range(count):
                blocks.append(Block(before, width, stride=2 if i == 0 and stage > 0 else 1, projects=i == 0))
                before = 4 * width
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.blocks(self.pool(self.conv1(x).relu()))
        return features.mean((2, 3))


def encoder(weights: Path | None, device: str) -> ImageEncoder:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # random weights too are the same each time, and so is the identity
        network = ResNet50()
    if weights is not None:
        load_weights(network, weights)
    return ImageEncoder(network, AS_KERAS, name="keras_resnet50", device=device)


def thumbnails(weights: Path | None, device: str) -> ImageEncoder:
    """The same at 64 x 64 pixels: a twelfth of the work."""
    made = encoder(weights, device)
    small = replace(AS_KERAS, size=64)
    return ImageEncoder(made.module, small, name="keras_resnet50 of thumbnails", device=device)


def main() -> None:
    weights = os.environ.get("KERAS_RESNET50")
    made = encoder(Path(weights) if weights else None, "cpu")
    digits = [Image.fromarray((16 * digit).clip(0, 255).astype("uint8")) for digit in load_digits().images[:4]]
    features = made.encode([made.prepare(digit) for digit in digits])
    print(f"{'given' if weights else 'random'} weights: {len(digits)} digits, features {features.shape}")


if __name__ == "__main__":
    main()
