"""Learning Loss: the rows with the largest loss as predicted by a jointly trained module."""

from dataclasses import dataclass, field

import numpy as np

from understudy.strategies.loss_prediction import LearnsLosses, LossPredictionHook
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import top
from understudy.strategies.view import Picks, PoolView, check_subset_size


@dataclass(eq=False)
class LearningLoss(LearnsLosses):
    """The largest predicted losses among a random subset of the open rows."""

    margin: float = 1.0
    weight: float = 1.0
    width: int = 128
    detach_after: float = 0.6
    subset_size: int | None = 10_000
    hook: LossPredictionHook = field(init=False)  # of the latest training

    def __post_init__(self) -> None:
        self.hook = self.make_hook()
        check_subset_size(self.subset_size)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"activations"}), labelled=1, hook=True)

    def make_hook(self) -> LossPredictionHook:
        return LossPredictionHook("margin", self.weight, self.margin, self.width, self.detach_after)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.subset_size, rng)
        view.require_labelled("learning_loss")
        return top(rows, self.hook.predict(view.activations, rows), n)
