"""Random sampling, the baseline of every other strategy."""

from dataclasses import dataclass

import numpy as np
import torch

from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, steady_utilities
from understudy.strategies.view import Picks, PoolView


@dataclass(frozen=True)
class Random:
    """A uniform random sample of the open rows, without replacement."""

    @property
    def needs(self) -> Needs:
        return Needs()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        drawn = torch.from_numpy(rng.permutation(len(rows))[:n]).to(rows.device)
        return picks(rows[drawn], torch.zeros(n), steady_utilities(rows, torch.zeros(len(rows)), n))
