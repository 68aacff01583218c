"""Scores of a prediction alone: entropy, margin, least confidence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.checks import check_choice
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import top
from understudy.strategies.view import Picks, PoolView

Score = Literal["entropy", "margin", "least_confidence"]


def entropy(probs: Float[Tensor, "*m c"]) -> Float[Tensor, "*m"]:
    """-Σ p ln p in nats; 0 ln 0 is 0."""
    return torch.special.entr(probs).sum(-1)


def margin(probs: Float[Tensor, "*m c"]) -> Float[Tensor, "*m"]:
    """1 minus the margin between the two most probable classes: 1 if they tie, 0 if the prediction is certain."""
    if probs.shape[-1] == 1:
        return torch.zeros_like(probs[..., 0])
    first, second = probs.topk(2, dim=-1).values.unbind(-1)
    return 1 - (first - second)


def least_confidence(probs: Float[Tensor, "*m c"]) -> Float[Tensor, "*m"]:
    """1 minus the probability of the predicted class."""
    return 1 - probs.amax(-1)


SCORES: Final[dict[Score, Callable[[Tensor], Tensor]]] = {
    "entropy": entropy,
    "margin": margin,
    "least_confidence": least_confidence,
}


@dataclass(frozen=True)
class Uncertainty:
    """The rows with the most uncertain predictions."""

    score: Score = "entropy"

    def __post_init__(self) -> None:
        check_choice("score", self.score, SCORES)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        return top(rows, SCORES[self.score](view.probs[rows]), n)
