"""What every learner offers, and the hook by which a system may change training.

A *learner* is settings; it does not change. `fit` returns a *model*, which does not change either. So a round
starts from scratch, the model of the round before can teach the next one, and nothing is half trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from understudy.errors import UnderstudyError

# What some models can do beyond `predict_proba`, and some learners beyond `fit`. A strategy says which it needs.
Offer = Literal["logits", "features", "activations", "stochastic", "gradients", "hook"]
# What a learner is given for each item: a row of features, an image as bytes (h, w, channels), or its identity.
Takes = Literal["features", "images", "ids"]


class TrainingDiverged(UnderstudyError):
    """The loss became infinite or no number at all."""


@runtime_checkable
class Model(Protocol):
    """A trained learner. Inputs are what its learner takes, one row an item."""

    @property
    def n_classes(self) -> int: ...

    @property
    def interrupted(self) -> bool:
        """Training was stopped by its user before its end."""

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """(n, c): class probabilities. A class without labels is still a column."""


@runtime_checkable
class Learner(Protocol):
    """Settings from which a model can be trained, again and again."""

    @property
    def takes(self) -> Takes: ...

    @property
    def offers(self) -> frozenset[Offer]: ...

    def fit(self, inputs: Any, labels: np.ndarray, n_classes: int, *, seed: int = 0, progress: bool = False) -> Model:
        """A model trained from scratch on these items. The same seed on the same device gives the same model."""


@dataclass(frozen=True, eq=False)
class Job:
    """One training among many: its items, their classes, and its seed."""

    inputs: Any
    labels: np.ndarray
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Setup:
    """What a hook is told before training: m models of one shape, each with its own n labelled items."""

    inputs: Sequence[Any]  # m times what the learner takes
    labels: Int[Tensor, "m n"]
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
    hidden: tuple[Float[Tensor, "m b _"], ...]  # outputs of the hidden layers, first to last
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


def checked_training_set(
    inputs: np.ndarray, labels: np.ndarray, n_classes: int, axes: int
) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Inputs and integer labels of a training, or one line that says what is wrong with them."""
    inputs, labels = np.asarray(inputs), np.asarray(labels)
    if inputs.ndim != axes:
        raise UnderstudyError(f"inputs must have {axes} axes, the first for items; got shape {inputs.shape}")
    if labels.shape != inputs.shape[:1]:
        raise UnderstudyError(f"{len(inputs):,} items need as many labels; got shape {labels.shape}")
    if not len(labels):
        raise UnderstudyError("there is nothing to learn from: give at least one labelled item")
    if not np.issubdtype(labels.dtype, np.integer):
        raise UnderstudyError(f"labels must be integers, rows of the list of classes; got {labels.dtype}")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise UnderstudyError(
            f"labels must be 0 to {n_classes - 1} for {n_classes} classes; got {labels.min()} to {labels.max()}"
        )
    if (
        np.issubdtype(inputs.dtype, np.floating)
        and not (finite := np.isfinite(inputs).reshape(len(inputs), -1).all(1)).all()
    ):
        raise UnderstudyError(
            f"item {int(finite.argmin())} of {len(inputs):,} has inputs that are not finite; leave it out"
        )
    return inputs, labels.astype(np.int64)
