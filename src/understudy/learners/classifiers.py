"""Any scikit-learn classifier as a learner."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from understudy.errors import UnderstudyError
from understudy.learners.protocol import Offer, Takes, check_seed, check_training_set
from understudy.messages import reason_of


@dataclass(frozen=True)
class Classifier:
    """An estimator with `fit` and `predict_proba`, cloned and fitted from scratch each time.

    If the estimator has a `random_state`, also inside a pipeline, it is set from the seed.
    """

    estimator: Any
    takes: Takes = field(default="features", init=False)
    offers: frozenset[Offer] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        if isinstance(self.estimator, type):
            raise UnderstudyError(f"pass an instance, not the class: {self.estimator.__name__}()")
        if not hasattr(self.estimator, "fit") or not hasattr(self.estimator, "predict_proba"):
            name = type(self.estimator).__name__
            raise UnderstudyError(
                f"{name} has no predict_proba; use an estimator that has it, or wrap this one in CalibratedClassifierCV"
            )

    def fit(
        self, inputs: np.ndarray, labels: np.ndarray, n_classes: int, *, seed: int = 0, progress: bool = False
    ) -> "ClassifierModel":
        """The fitted estimator. With labels of one class only, that class gets probability 1."""
        inputs, labels = check_training_set(inputs, labels, n_classes, axes=2)
        seed = check_seed(seed)
        # Renumbered without gaps: some estimators want 0 to k - 1, and not every class may have labels.
        seen, codes = np.unique(labels, return_inverse=True)
        if len(seen) == 1:  # many estimators refuse a single class
            return ClassifierModel(None, seen, inputs.shape[1], n_classes)
        estimator = _clone_with_seed(self.estimator, seed)
        try:
            estimator.fit(inputs, codes)
        except Exception as error:  # estimators raise all sorts of exceptions
            name, reason = type(estimator).__name__, reason_of(error)
            raise UnderstudyError(f"{name} could not be fitted to {len(labels):,} labels: {reason}") from error
        order = np.asarray(getattr(estimator, "classes_", np.arange(len(seen)))).astype(np.int64)
        return ClassifierModel(estimator, seen[order], inputs.shape[1], n_classes)


def _clone_with_seed(estimator: Any, seed: int) -> Any:
    """An unfitted copy with this seed."""
    if not hasattr(estimator, "get_params"):
        return deepcopy(estimator)
    copy = clone(estimator)
    states = {name: seed % 2**32 for name in copy.get_params() if name.split("__")[-1] == "random_state"}
    return copy.set_params(**states)


@dataclass(frozen=True, eq=False)
class ClassifierModel:
    """A fitted estimator that also has columns for classes without labels."""

    estimator: Any
    seen: np.ndarray  # the class of each of its columns
    n_columns: int
    n_classes: int
    interrupted: bool = False

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        """Class probabilities; 0 for classes that had no labels."""
        inputs = np.asarray(inputs)
        if inputs.ndim != 2 or inputs.shape[1] != self.n_columns:
            raise UnderstudyError(f"this model takes {self.n_columns} columns of features; got shape {inputs.shape}")
        probs = np.zeros((len(inputs), self.n_classes))
        if len(inputs):
            probs[:, self.seen] = 1 if self.estimator is None else self.estimator.predict_proba(inputs)
        if not np.isfinite(probs).all():
            name, row = type(self.estimator).__name__, int(np.isfinite(probs).all(1).argmin())
            raise UnderstudyError(f"{name}'s probabilities for item {row} are not finite; check its settings")
        return probs
