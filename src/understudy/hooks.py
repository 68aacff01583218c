"""The hook through which a strategy may change the training of a learner.

It is a layer below both, so that a strategy can provide one without importing any learner, and a learner can run one
without importing any strategy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Setup:
    """What a hook receives before training: m models of one shape, each with its own n labelled items."""

    inputs: Sequence[Any]  # the learner's inputs, once per model
    labels: Int[Tensor, "m n"]  # on the learner's device
    seeds: tuple[int, ...]
    n_classes: int
    widths: tuple[int, ...]  # of the hidden layers
    epochs: int

    @property
    def n_labels(self) -> int:
        return self.labels.shape[1]


@dataclass(frozen=True, eq=False)
class Step:
    """What a hook sees of one batch: b items of each of m models, with gradients."""

    epoch: int
    rows: Int[Tensor, "m b"]  # which of the n labelled items
    labels: Int[Tensor, "m b"]
    hidden: tuple[Float[Tensor, "m b _"], ...]  # outputs of the hidden layers, first to last, after dropout
    logits: Float[Tensor, "m b c"]
    losses: Float[Tensor, "m b"]  # the learner's own, per item


class TrainingHook:
    """Base class of hooks: override what should change; the defaults change nothing."""

    def begin(self, setup: Setup) -> None:
        """Called once before training: the place to create modules, or to run a teacher on `setup.inputs`."""

    def parameters(self) -> Sequence[Tensor]:
        """Extra parameters that the learner's optimiser trains along with the model's."""
        return ()

    def weight_decay(self, usual: float, n_labels: int) -> float:
        """The weight decay of this training."""
        return usual

    def loss(self, step: Step) -> Float[Tensor, "m"]:
        """(m,): the loss to minimise for each model. Terms of one model must not depend on another."""
        return step.losses.mean(1)

    def part(self, model: int) -> "TrainingHook":
        """What was trained along with one of the m models, for the run of that model."""
        return self

    @property
    def keeps_loss(self) -> bool:
        """Whether the hook leaves the loss and the trained parameters alone; it may still change the weight decay."""
        return type(self).loss is TrainingHook.loss and not self.parameters()
