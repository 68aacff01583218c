"""Random numbers for torch, and random subsets, from the one generator that a strategy is given."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


def torch_generator(rng: np.random.Generator) -> torch.Generator:
    """A generator on the CPU: numbers are copied to a GPU, so that they are the same there."""
    return torch.Generator().manual_seed(int(rng.integers(2**63)))


@contextmanager
def seeded_layers(rng: np.random.Generator) -> Iterator[None]:
    """Initialise layers created inside the `with` block from this generator; torch's global one is left as it was."""
    seed = int(rng.integers(2**63))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def draw_subset(rows: Int[Tensor, "m"], size: int, rng: np.random.Generator) -> Int[Tensor, "_"]:
    """The rows, ascending; a random `size` of them if there are more."""
    if len(rows) <= size:
        return rows
    drawn = np.sort(rng.choice(len(rows), size, replace=False))
    return rows[torch.from_numpy(drawn).to(rows.device)]
