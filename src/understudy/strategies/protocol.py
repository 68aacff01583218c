"""What a strategy is: it declares what it needs, is shown a view, and answers with rows."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from understudy.errors import UnderstudyError
from understudy.hooks import TrainingHook
from understudy.strategies.view import SUPPLIES, Picks, PoolView, Supply


@dataclass(frozen=True)
class Needs:
    """What must be in the view, and what the pool must be like. Nothing else is computed for the strategy."""

    supplies: frozenset[Supply] = frozenset()
    # What it can do without, too: in the view from the first training on, if the learner and the pool have it.
    optional: frozenset[Supply] = frozenset()
    images_or_features: bool = False  # images where the pool has them, else features
    labelled: int = 0  # the fewest labelled rows it can start from
    classes: int = 0  # and the fewest classes among them
    passes: int = 0  # of `stochastic`
    dropout: float = 0.5  # of `stochastic`, where the learner was trained without
    gradient_of: Literal["entropy", "each_class"] = "entropy"  # of `gradient_norms`
    hook: bool = False  # it changes training: `training_hook` is there

    def __post_init__(self) -> None:
        if unknown := set(self.supplies | self.optional) - SUPPLIES:
            raise UnderstudyError(f"a view holds {', '.join(sorted(SUPPLIES))}; nobody can supply {unknown}")
        if twice := self.supplies & self.optional:
            raise UnderstudyError(
                f"what is needed is not optional; leave {', '.join(sorted(twice))} out of one of them"
            )
        if ("stochastic" in self.supplies | self.optional) != (self.passes > 0):
            raise UnderstudyError(f"who needs stochastic passes says how many; got passes={self.passes}")


@runtime_checkable
class Strategy(Protocol):
    """A way of choosing rows.

    A strategy that learns within a round also has `tell(rows, labels)`. One that changes training has
    `training_hook(teacher, rng)`, one that makes up items for it `augment`. One that is to be shown the view of another
    learner has `proxy`, that learner. One that carries something from round to round, beyond what a hook counts, has
    `memory()` and `recall(memory)`, so that a run can go on elsewhere.
    """

    @property
    def needs(self) -> Needs: ...

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        """n rows that are open in the view, in the order of choice. The same view and seed give the same rows."""


@runtime_checkable
class ChangesTraining(Protocol):
    """A strategy with a hook for the learner's next training."""

    def training_hook(self, teacher: Any, rng: np.random.Generator) -> TrainingHook:
        """`teacher` is the model of the round before, None in the first."""


@runtime_checkable
class SharesTraining(ChangesTraining, Protocol):
    """A strategy whose hook may train the models of several runs at once."""

    @property
    def shares_training(self) -> bool:
        """Whether it may as it is set."""

    def adopt(self, hook: TrainingHook) -> None:
        """Go on with what this hook learnt, which is of this run's model."""


@runtime_checkable
class LearnsWithinRound(Protocol):
    """A strategy that takes notice of single labels."""

    def tell(self, rows: np.ndarray, labels: np.ndarray) -> None: ...


@runtime_checkable
class Follows(Protocol):
    """A strategy that remembers what it was shown, and can look at a view without choosing.

    Where it also learns from single labels, the loop shows it what the learner says after a training before it tells it
    the next label.
    """

    def following(self, view: PoolView, rng: np.random.Generator) -> Any:
        """Take over what the view holds."""


@runtime_checkable
class Rehearses(Protocol):
    """A strategy that plays a round by itself where every label is known: for simulations."""

    def rehearse(self, view: PoolView, n: int, truth: np.ndarray, rng: np.random.Generator) -> Picks:
        """What n times `select` of one row and `tell` would choose."""


@runtime_checkable
class Remembers(Protocol):
    """A strategy that carries something from round to round."""

    def memory(self) -> dict[str, Any]:
        """Plain numbers, strings and lists of them."""

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on, at the start of a round, from where another object of the same settings was."""


@runtime_checkable
class Augments(Protocol):
    """A strategy that makes items up for the learner's next training."""

    def augment(
        self, images: np.ndarray, labels: np.ndarray, n_classes: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """More images and their labels, to be learnt from beside these labelled ones."""
