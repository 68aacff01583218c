"""Any classifier of scikit-learn's kind as a learner."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from understudy.errors import UnderstudyError
from understudy.learners.protocol import Offer, Takes, checked_training_set


@dataclass(frozen=True)
class Classifier:
    """An estimator with `fit` and `predict_proba`, cloned and fitted anew each time.

    Where the estimator has a `random_state`, in a pipeline too, it is set from the seed.
    """

    estimator: Any
    takes: Takes = field(default="features", init=False)
    offers: frozenset[Offer] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "fit") or not hasattr(self.estimator, "predict_proba"):
            name = type(self.estimator).__name__
            raise UnderstudyError(
                f"{name} gives no probabilities; choose one with predict_proba, or wrap it in CalibratedClassifierCV"
            )

    def fit(
        self, inputs: np.ndarray, labels: np.ndarray, n_classes: int, *, seed: int = 0, progress: bool = False
    ) -> "ClassifierModel":
        """The estimator, fitted. With labels of one class only, that class is certain."""
        inputs, labels = checked_training_set(inputs, labels, n_classes, axes=2)
        seen = np.unique(labels)
        if len(seen) == 1:  # many estimators refuse to learn that there is nothing to tell apart
            return ClassifierModel(None, seen, inputs.shape[1], n_classes)
        estimator = clone(self.estimator)
        states = {name: seed % 2**32 for name in estimator.get_params() if name.split("__")[-1] == "random_state"}
        estimator.set_params(**states)
        try:
            estimator.fit(inputs, labels)
        except ValueError as error:
            name = type(estimator).__name__
            raise UnderstudyError(f"{name} could not learn from {len(labels):,} labels: {error}") from error
        return ClassifierModel(estimator, seen, inputs.shape[1], n_classes)


@dataclass(frozen=True, eq=False)
class ClassifierModel:
    """A fitted estimator that knows of classes it has not seen."""

    estimator: Any
    seen: np.ndarray
    n_columns: int
    n_classes: int
    interrupted: bool = False

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        """Class probabilities; 0 for classes that had no label."""
        inputs = np.asarray(inputs)
        if inputs.ndim != 2 or inputs.shape[1] != self.n_columns:
            raise UnderstudyError(f"this model takes {self.n_columns} columns of features; got shape {inputs.shape}")
        probs = np.zeros((len(inputs), self.n_classes))
        if len(inputs):
            probs[:, self.seen] = 1 if self.estimator is None else self.estimator.predict_proba(inputs)
        return probs
