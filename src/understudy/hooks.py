"""The hook by which a system may change the training of a learner: where strategies and learners meet.

It stands below both, so that a strategy can bring one along without knowing any learner, and a learner can run one
without knowing any strategy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Setup:
    """What a hook is told before training: m models of one shape, each with its own n labelled items."""

    inputs: Sequence[Any]  # m times what the learner takes
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
    losses: Float[Tensor, "m b"]  # the learner's own, item by item


class TrainingHook:
    """A system that changes training overrides what it changes; as it stands, this one changes nothing."""

    def begin(self, setup: Setup) -> None:
        """Called once before training: the place to make modules, or to ask a teacher about `setup.inputs`."""

    def parameters(self) -> Sequence[Tensor]:
        """What is to be trained along, by the learner's optimiser."""
        return ()

    def weight_decay(self, usual: float, n_labels: int) -> float:
        """The weight decay of this training."""
        return usual

    def loss(self, step: Step) -> Float[Tensor, "m"]:
        """(m,): what is minimised, model by model. Terms of one model must not depend on another."""
        return step.losses.mean(1)

    def part(self, model: int) -> "TrainingHook":
        """What was learnt along with one of the m models, for the run that this model is of."""
        return self

    @property
    def keeps_loss(self) -> bool:
        """Nothing is asked of a step: a training with another weight decay needs no more care than any other."""
        return type(self).loss is TrainingHook.loss and not self.parameters()
