"""The interface of a strategy: it declares its needs, receives a view, and returns rows."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch

from understudy.errors import UnderstudyError, UsageError
from understudy.hooks import TrainingHook
from understudy.strategies.view import SUPPLIES, UNLABELLED, Picks, PoolView, Supply


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
        given: tuple[object, object] = (self.supplies, self.optional)
        for names in given:
            if not isinstance(names, set | frozenset):
                raise UnderstudyError(f"Needs takes a set of names, as in Needs(frozenset({{'probs'}})); got {names!r}")
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


def check_strategy(given: Any) -> Strategy:
    """What was given, if it is a strategy. Raises if it is not."""
    if isinstance(given, type):
        raise UsageError(f"pass a strategy, not its class: {given.__name__}()")
    if not isinstance(given, Strategy):
        raise UsageError(
            "strategy must be the name of one (`understudy strategies` lists them) or have `needs` and `select`; "
            f"got {type(given).__name__}"
        )
    return given


def check_picks(strategy: Any, found: Any, view: PoolView, n: int) -> Picks:
    """What a strategy returned: n different rows that may be chosen, each with its score. Raises if it is not."""
    who = f"{type(strategy).__name__}.select"
    if not isinstance(found, Picks):
        raise UnderstudyError(f"{who} must return Picks(rows, scores); got {type(found).__name__}")
    rows, scores = _as_array(found.rows), _as_array(found.scores)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise UnderstudyError(
            f"{who} must return row numbers, whole and in a list; got {rows.dtype} of shape {rows.shape}"
        )
    if len(rows) != n:
        raise UnderstudyError(f"{who} was asked for {n:,} rows and returned {len(rows):,}; return as many as asked for")
    if rows.min() < 0 or rows.max() >= len(view):
        wrong = rows[(rows < 0) | (rows >= len(view))][0]
        raise UnderstudyError(f"{who} returned row {wrong}; rows are numbered 0 to {len(view) - 1:,} in the whole pool")
    places = torch.from_numpy(rows.astype(np.int64)).to(view.device)
    reasons = {"labelled": view.labels[places] != UNLABELLED, "pending": view.is_pending[places]}
    for reason, holds in (reasons | {"skipped": view.is_skipped[places]}).items():
        if bool(holds.any()):
            wrong = rows[holds.cpu().numpy()][0]
            raise UnderstudyError(f"{who} returned row {wrong}, which is {reason}; choose among view.candidates(n)")
    if len(set(rows.tolist())) < n:
        wrong = np.sort(rows)[:-1][np.diff(np.sort(rows)) == 0][0]
        raise UnderstudyError(f"{who} returned row {wrong} more than once; return different rows")
    if scores.shape != rows.shape or scores.dtype.kind not in "fiu":
        raise UnderstudyError(
            f"{who} must return a score for each of its {n:,} rows; got {scores.dtype} of shape {scores.shape}"
        )
    return Picks(rows.astype(np.int64), scores.astype(np.float64), found.utilities)


def _as_array(values: Any) -> np.ndarray:
    return np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
