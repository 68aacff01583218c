"""Two traps in the plane, drawn from fixed seeds: one for choosing by uncertainty, one for covering.

After the synthetic sets of Werner et al. 2024, A Cross-Domain Benchmark for Active Learning, by definitions of our own.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from understudy.data.datasets.source import DatasetSource
from understudy.data.pool import Dataset, Pool

POOL_ROWS: Final = 2_000
TEST_ROWS: Final = 1_000
SEED: Final = 2024
TILES: Final = 3  # along each side of the board
GAP: Final = 0.08  # around each tile, in sides of a tile
HONEYPOT_ROWS: Final = 1_000  # of the pool
HONEYPOT_CENTRE: Final = (3.0, 0.0)
HONEYPOT_WIDTH: Final = 0.3
MEAN_REACH: Final = 3.0  # of the coordinate along the waves
FREQUENCY: Final = 3.0
HALF_GAP: Final = (0.15, 0.3)  # between the waves: at the start, and what is added per unit of length
WAVE_NOISE: Final = 0.05

Drawn = tuple[Float[np.ndarray, "n 2"], Int[np.ndarray, "n"]]


def _draw_board(n: int, rng: np.random.Generator) -> Drawn:
    """Points of a chessboard of 3 x 3 tiles on [-1, 1]², a class a colour, with a gap between tiles."""
    tiles = rng.integers(0, TILES**2, n)
    across, down = tiles % TILES, tiles // TILES
    within = rng.uniform(GAP, 1 - GAP, (n, 2))
    return (np.stack([across, down], axis=1) + within) / TILES * 2 - 1, (across + down) % 2


def _draw_honeypot(n: int, rng: np.random.Generator) -> Drawn:
    """Half of the pool is a cloud beside the board, whose labels are coin flips: there is nothing to learn."""
    points, labels = _draw_board(n - HONEYPOT_ROWS, rng)
    cloud = rng.normal(HONEYPOT_CENTRE, HONEYPOT_WIDTH, (HONEYPOT_ROWS, 2))
    order = rng.permutation(n)
    flips = rng.integers(0, 2, HONEYPOT_ROWS)
    return np.concatenate([points, cloud])[order], np.concatenate([labels, flips])[order]


def _draw_waves(n: int, rng: np.random.Generator) -> Drawn:
    """Two sine waves, a class each, close and full of points at one end, apart and thinly set at the other."""
    along, labels = rng.exponential(MEAN_REACH, n), rng.integers(0, 2, n)
    apart = (2 * labels - 1) * (HALF_GAP[0] + HALF_GAP[1] * along)
    height = np.sin(FREQUENCY * along) + apart + rng.normal(0, WAVE_NOISE, n)
    return np.stack([along, height], axis=1), labels


def _source(
    name: str,
    title: str,
    draw: Callable[[int, np.random.Generator], Drawn],
    draw_test: Callable[[int, np.random.Generator], Drawn],
) -> DatasetSource:
    def load(_place: Path) -> Dataset:
        rng = np.random.default_rng(SEED)
        parts = []
        for role, rows, drawn in (("train", POOL_ROWS, draw), ("test", TEST_ROWS, draw_test)):
            points, labels = drawn(rows, rng)
            ids = tuple(f"{role}/{row:04d}" for row in range(rows))
            values = points.astype(np.float32)
            parts.append(Pool(ids, features=values, labels=labels.astype(np.int64), classes=("a", "b")))
        return Dataset(name, *parts)

    return DatasetSource(
        name=name,
        title=title,
        n_pool=POOL_ROWS,
        n_test=TEST_ROWS,
        n_classes=2,
        find=lambda _folder: Path(__file__).parent,
        load=load,
        accepts="nothing: it is drawn from a seed",
    )


HONEYPOT: Final = _source("honeypot", "Honeypot, a trap for uncertainty", _draw_honeypot, _draw_board)
DIVERGING_SINE: Final = _source("diverging_sine", "Diverging sine, a trap for covering", _draw_waves, _draw_waves)
