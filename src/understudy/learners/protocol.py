"""What every learner offers.

A *learner* is settings; it does not change. `fit` returns a *model*, which does not change either. So a round
starts from scratch, the model of the round before can teach the next one, and nothing is half trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from understudy.checks import check_whole_number
from understudy.core.blocks import block_slices
from understudy.errors import UnderstudyError
from understudy.hooks import TrainingHook

# What some models offer beyond `predict_proba`, and some learners beyond `fit`. A strategy says which it needs.
Offer = Literal["logits", "features", "activations", "stochastic", "gradients", "hook", "many", "frames"]
# What a learner receives for each item: a row of features, an image as bytes (h, w, channels), its id, or the item
# itself: a text, or an image of any size as PIL has them. Items are a sequence from which each is read when asked for.
Takes = Literal["features", "images", "ids", "items"]

ITEMS_PER_BLOCK: Final = 4096  # checked at a time


class TrainingDiverged(UnderstudyError):
    """The loss became infinite or NaN."""


@runtime_checkable
class Model(Protocol):
    """A trained learner. Inputs are what its learner takes, one row per item."""

    @property
    def n_classes(self) -> int: ...

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped training early."""

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """(n, c): class probabilities. A class without labels still has a column."""


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


def fit_many(
    learner: Learner, jobs: Sequence[Job], n_classes: int, *, hook: TrainingHook | None = None, progress: bool = False
) -> list[Any]:
    """One model per job, in the order of the jobs: together where the learner offers it, else one by one."""
    given: dict[str, Any] = {"progress": progress}
    if hook is not None:
        if "hook" not in learner.offers:
            raise UnderstudyError(f"{type(learner).__name__} does not support training hooks; choose another learner")
        given["hook"] = hook
    if "many" in learner.offers:
        return list(learner.fit_many(jobs, n_classes, **given))  # type: ignore[attr-defined]
    return [learner.fit(job.inputs, job.labels, n_classes, seed=job.seed, **given) for job in jobs]


def check_training_set(
    inputs: np.ndarray, labels: np.ndarray, n_classes: int, axes: int
) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """The checked inputs and integer labels of a training."""
    inputs = np.asarray(inputs)
    if inputs.ndim != axes or 0 in inputs.shape[1:]:
        raise UnderstudyError(f"inputs must have {axes} dimensions, the first for items; got shape {inputs.shape}")
    labels = check_labels(labels, len(inputs), n_classes)
    if (row := first_unusable(inputs)) is not None:
        raise UnderstudyError(f"item {row} of {len(inputs):,} has inputs that are not finite in float32; leave it out")
    return inputs, labels


def check_labels(labels: np.ndarray, n: int, n_classes: int) -> Int[np.ndarray, "n"]:
    """The class of each of n items."""
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise UnderstudyError(f"{n:,} items need one label each; got shape {labels.shape}")
    if not n:
        raise UnderstudyError("there is nothing to train on: pass at least one labelled item")
    if not np.issubdtype(labels.dtype, np.integer):
        raise UnderstudyError(f"labels must be integers, indices into the list of classes; got {labels.dtype}")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise UnderstudyError(
            f"labels must be 0 to {n_classes - 1} for {n_classes} classes; got {labels.min()} to {labels.max()}"
        )
    return labels.astype(np.int64)


def first_unusable(inputs: np.ndarray) -> int | None:
    """The first item whose inputs are not finite once they are float32."""
    if inputs.dtype.kind not in "fiub":
        raise UnderstudyError(f"inputs must be numbers; got {inputs.dtype}")
    if inputs.dtype.kind != "f":
        return None
    with np.errstate(over="ignore"):
        for some in block_slices(len(inputs), ITEMS_PER_BLOCK):
            finite = np.isfinite(inputs[some].astype(np.float32, copy=False))
            if not finite.all():
                return some.start + int(finite.reshape(len(finite), -1).all(1).argmin())
    return None


def check_seed(seed: int) -> int:
    """A seed that every random generator accepts."""
    return check_whole_number("seed", seed, 0, 2**63 - 1)
