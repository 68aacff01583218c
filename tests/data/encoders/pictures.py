"""Small pictures with something on them."""

import numpy as np
from PIL import Image


def picture(seed: int, width: int = 48, height: int = 40) -> Image.Image:
    """Smooth colours: what a network or a resampling filter sees differs from place to place."""
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
