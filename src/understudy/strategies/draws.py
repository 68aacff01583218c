"""Random numbers for torch from the one generator that a strategy is given."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def torch_generator(rng: np.random.Generator) -> torch.Generator:
    """A generator on the CPU: draws are moved to a GPU, so that they are the same there."""
    return torch.Generator().manual_seed(int(rng.integers(2**63)))


@contextmanager
def seeded_layers(rng: np.random.Generator) -> Iterator[None]:
    """Layers made inside draw their weights from this generator. torch's global stream is left as it was."""
    seed = int(rng.integers(2**63))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
