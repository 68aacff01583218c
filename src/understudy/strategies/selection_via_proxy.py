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
    """The strategy chooses by the predictions of `proxy`, a learner or its name, on behalf of the target learner.

    The loop trains the proxy whenever it trains the learner, and fills the view with the proxy's outputs. What the
    strategy changes about training applies to the proxy.
    """

    strategy: Strategy = field(default_factory=lambda: Uncertainty("least_confidence"))
    proxy: Any = "logistic"

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, Strategy):
            raise UnderstudyError(f"strategy must be a strategy, e.g. from make_strategy; got {self.strategy!r}")
        if isinstance(self.strategy, Augments):
            raise UnderstudyError(
                f"{type(self.strategy).__name__} generates training items, so it cannot be used with a proxy"
            )

    @property
    def needs(self) -> Needs:
        return self.strategy.needs

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        return self.strategy.select(view, n, rng)

    def tell(self, rows: np.ndarray, labels: np.ndarray) -> None:
        if isinstance(self.strategy, LearnsWithinRound):
            self.strategy.tell(rows, labels)

    def follow(self, view: PoolView, rng: np.random.Generator) -> None:
        if isinstance(self.strategy, Follows):
            self.strategy.follow(view, rng)

    def training_hook(self, teacher: Any, rng: np.random.Generator) -> TrainingHook:
        return (
            self.strategy.training_hook(teacher, rng) if isinstance(self.strategy, ChangesTraining) else TrainingHook()
        )

    def memory(self) -> dict[str, Any]:
        return self.strategy.memory() if isinstance(self.strategy, Remembers) else {}

    def recall(self, memory: dict[str, Any]) -> None:
        if isinstance(self.strategy, Remembers):
            self.strategy.recall(memory)
