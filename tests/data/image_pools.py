"""Folders of small images, and an encoder that counts what it does."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from understudy.data.encoders.pixels import PixelEncoder
from understudy.data.encoders.protocol import Prepared
from understudy.data.items import ImageFiles
from understudy.data.pool import Pool


class Counting(PixelEncoder):
    """Pixels, and how many items came in which batches."""

    def __init__(self, size: str = "4") -> None:
        super().__init__("counting", size=size)
        self.batches: list[int] = []

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        self.batches.append(len(batch))
        return super().encode(batch)


def image(seed: int, size: int = 6) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def images(folder: Path, count: int, first: int = 0) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{i:04}.png" for i in range(first, first + count)]
    for i, path in enumerate(paths, first):
        image(i).save(path)
    return paths


def pool_of(paths: Sequence[Path]) -> Pool:
    """Images of two classes, by turns."""
    labels = np.arange(len(paths)) % 2
    return Pool(tuple(path.name for path in paths), ImageFiles(paths), labels=labels, classes=("even", "odd"))


def by_hand(paths: Sequence[Path], size: int = 4) -> np.ndarray:
    """What pixels make of these files."""
    small = [
        np.asarray(Image.open(path).convert("RGB").resize((size, size), Image.Resampling.BILINEAR)) for path in paths
    ]
    return np.stack(small).reshape(len(paths), -1).astype(np.float32) / 255
