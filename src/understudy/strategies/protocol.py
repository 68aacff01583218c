"""The interface of a strategy: it declares its needs, receives a view, and returns rows."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from understudy.errors import UnderstudyError
from understudy.hooks import TrainingHook
from understudy.strategies.view import SUPPLIES, Picks, PoolView, Supply


@dataclass(frozen=True)
class Needs:
    """What the strategy requires of the view and the pool. Nothing else is computed for it."""

    supplies: frozenset[Supply] = frozenset()
    # Optional: in the view from the first training on, if the learner and the pool provide it.
    optional: frozenset[Supply] = frozenset()
    images_or_features: bool = False  # images where the pool has them, else features
    labelled: int = 0  # minimum number of labelled rows
    classes: int = 0  # and of classes among them
    passes: int = 0  # of `stochastic`
    dropout: float = 0.5  # of `stochastic`, if the learner was trained without
    gradient_of: Literal["entropy", "each_class"] = "entropy"  # of `gradient_norms`
    hook: bool = False  # whether it changes training, by `training_hook`

    def __post_init__(self) -> None:
        if unknown := set(self.supplies | self.optional) - SUPPLIES:
            raise UnderstudyError(f"unknown need {unknown}; a view can hold {', '.join(sorted(SUPPLIES))}")
        if twice := self.supplies & self.optional:
            raise UnderstudyError(
                f"{', '.join(sorted(twice))} cannot be both required and optional; leave it out of one of them"
            )
        if ("stochastic" in self.supplies | self.optional) != (self.passes > 0):
            raise UnderstudyError(f"stochastic needs the number of passes; got passes={self.passes}")


@runtime_checkable
class Strategy(Protocol):
    """A way of choosing rows to label.

    A strategy that learns within a round also has `tell(rows, labels)`; one that changes training,
    `training_hook(teacher, rng)`; one that generates training items, `augment`. One that should be shown the view of
    another learner has `proxy`, that learner. One that keeps state from round to round, beyond what a hook counts, has
    `memory()` and `recall(memory)`, so that a run can be resumed.
    """

    @property
    def needs(self) -> Needs: ...

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        """n open rows of the view, in the order of choice. The same view and seed give the same rows."""


@runtime_checkable
class ChangesTraining(Protocol):
    """A strategy with a hook for the learner's next training."""

    def training_hook(self, teacher: Any, rng: np.random.Generator) -> TrainingHook:
        """`teacher` is the model of the previous round, None in the first."""


@runtime_checkable
class SharesTraining(ChangesTraining, Protocol):
    """A strategy whose hook may train the models of several runs at once."""

    @property
    def shares_training(self) -> bool:
        """Whether its settings allow that."""

    def adopt(self, hook: TrainingHook) -> None:
        """Continue with what this hook learnt for this run's model."""


@runtime_checkable
class LearnsWithinRound(Protocol):
    """A strategy that learns from single labels."""

    def tell(self, rows: np.ndarray, labels: np.ndarray) -> None: ...


@runtime_checkable
class Follows(Protocol):
    """A strategy that keeps what it was shown, and can process a view without choosing.

    If it also learns from single labels, the loop shows it the new predictions after a training before it tells it
    the next label.
    """

    def follow(self, view: PoolView, rng: np.random.Generator) -> Any:
        """Update to what the view holds."""


@runtime_checkable
class Rehearses(Protocol):
    """A strategy that runs a whole round by itself when every label is known: for simulations."""

    def rehearse(self, view: PoolView, n: int, truth: np.ndarray, rng: np.random.Generator) -> Picks:
        """The rows that n times `select` of one row and `tell` would choose."""


@runtime_checkable
class Remembers(Protocol):
    """A strategy that keeps state from round to round."""

    def memory(self) -> dict[str, Any]:
        """Plain numbers, strings and lists of them."""

    def recall(self, memory: dict[str, Any]) -> None:
        """Restore, at the start of a round, the state of another object with the same settings."""


@runtime_checkable
class Augments(Protocol):
    """A strategy that generates items for the learner's next training."""

    def augment(
        self, images: np.ndarray, labels: np.ndarray, n_classes: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Additional images and labels to train on besides these labelled ones."""
