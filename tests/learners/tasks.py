"""Small things to learn."""

import numpy as np


def blobs(n: int, c: int = 3, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """n items around c centres: features and classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % c
    return (3 * rng.normal(size=(c, d))[labels] + rng.normal(size=(n, d))).astype(np.float32), labels


def stripes(n: int, side: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy grey images with lying stripes (0) or standing ones (1), as bytes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    wave = 60 * np.sign(np.sin(np.arange(side) * np.pi / 3 + 0.1))
    clean = np.where(labels[:, None, None] == 0, wave[:, None], wave[None, :])
    return np.clip(128 + clean + rng.normal(0, 20, (n, side, side)), 0, 255).astype(np.uint8), labels
