"""Strategies that do not survive, and a learner that is quick, for workers to import."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.learners.heads import Head
from understudy.learners.training import Recipe
from understudy.strategies.protocol import Needs
from understudy.strategies.random_rows import Random
from understudy.strategies.view import Picks, PoolView


def quick() -> Head:
    return Head((64,), recipe=Recipe(epochs=5))


@dataclass(frozen=True)
class Mortal:
    """Random rows. From 40 labels on it ends its process when it finds this file; it takes the file along, or not."""

    file: str
    once: bool = True

    @property
    def needs(self) -> Needs:
        return Needs()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        if Path(self.file).exists() and int(view.is_labelled.sum()) >= 40:
            if self.once:
                Path(self.file).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return Random().select(view, n, rng)


@dataclass(frozen=True)
class Clumsy:
    """Stumbles at 40 labels."""

    @property
    def needs(self) -> Needs:
        return Needs()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        if int(view.is_labelled.sum()) >= 40:
            raise RuntimeError("stumbled\nover its own feet")
        return Random().select(view, n, rng)
