"""TCM: TypiClust up to a number of labels for each class, then margin."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from understudy.checks import check_number
from understudy.strategies.protocol import Needs
from understudy.strategies.typiclust import TypiClust
from understudy.strategies.uncertainty import Uncertainty
from understudy.strategies.view import Picks, PoolView

TYPICAL: Final = TypiClust()
UNCERTAIN: Final = Uncertainty("margin")


@dataclass(frozen=True)
class TCM:
    """Typical rows while labels are few, uncertain ones from then on. A call is one or the other as a whole."""

    labels_per_class: float = 20.0

    def __post_init__(self) -> None:
        check_number("labels_per_class", self.labels_per_class, least=0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}), optional=frozenset({"probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        # Without predictions there are no margins, however many labels there are.
        is_early = int(view.is_taken.sum()) < self.labels_per_class * view.n_classes
        return (TYPICAL if is_early or not view.has("probs") else UNCERTAIN).select(view, n, rng)
