"""Selection via proxy: any strategy, shown the view of a cheaper learner."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.hooks import TrainingHook
from understudy.strategies.protocol import (
    Augments,
    ChangesTraining,
    Follows,
    LearnsWithinRound,
    Needs,
    Remembers,
    Strategy,
)
from understudy.strategies.uncertainty import Uncertainty
from understudy.strategies.view import Picks, PoolView


@dataclass
class SelectionViaProxy:
    """The strategy chooses by what `proxy` says of the pool, a learner or the name of one; the target only profits.

    The loop trains the proxy whenever it trains the learner, and fills the view with the proxy's outputs. What the
    strategy may want to change about training, it changes about the proxy's.
    """

    strategy: Strategy = field(default_factory=lambda: Uncertainty("least_confidence"))
    proxy: Any = "logistic"

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, Strategy):
            raise UnderstudyError(f"strategy must be a strategy, as make_strategy gives one; got {self.strategy!r}")
        if isinstance(self.strategy, Augments):
            raise UnderstudyError(
                f"{type(self.strategy).__name__} makes up items for the learner, and a proxy is none; leave it outside"
            )

    @property
    def needs(self) -> Needs:
        return self.strategy.needs

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        return self.strategy.select(view, n, rng)

    def tell(self, rows: np.ndarray, labels: np.ndarray) -> None:
        if isinstance(self.strategy, LearnsWithinRound):
            self.strategy.tell(rows, labels)

    def following(self, view: PoolView, rng: np.random.Generator) -> None:
        if isinstance(self.strategy, Follows):
            self.strategy.following(view, rng)

    def training_hook(self, teacher: Any, rng: np.random.Generator) -> TrainingHook:
        return (
            self.strategy.training_hook(teacher, rng) if isinstance(self.strategy, ChangesTraining) else TrainingHook()
        )

    def memory(self) -> dict[str, Any]:
        return self.strategy.memory() if isinstance(self.strategy, Remembers) else {}

    def recall(self, memory: dict[str, Any]) -> None:
        if isinstance(self.strategy, Remembers):
            self.strategy.recall(memory)
