"""Any scikit-learn classifier as a learner."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.ensemble import StackingClassifier

from understudy.errors import UnderstudyError, UsageError
from understudy.frames import as_numbers, count_rows, is_frame, is_sparse, is_tensor, take_rows, texts_in
from understudy.learners.protocol import Offer, Takes, check_labels, check_seed
from understudy.messages import reason_of

SUM_TOLERANCE: Final = 1e-3  # of probabilities in half precision
MAX_DEPTH: Final = 5  # estimators within estimators
WITHOUT_LABELS: Final = np.iinfo(np.int64).min  # where numbers without gaps have none
ONE_COLUMN: Final = "; a vectorizer of texts takes one column: pass it alone, or name it in a ColumnTransformer"
WRAPPERS: Final = ("estimator", "base_estimator", "best_estimator_")  # attributes by which estimators hold another one


@dataclass(frozen=True)
class Classifier:
    """An estimator with `fit` and `predict_proba`, cloned and fitted from scratch each time.

    It is given the classes as they are known to the caller, `classes`, or else their numbers. Estimators that refuse
    these get numbers without gaps. If the estimator has a `random_state`, also inside a pipeline, it is set from the
    seed; a network of skorch gets features in float32 and draws its weights from the seed.
    """

    estimator: Any
    classes: tuple[Any, ...] | None = None
    takes: Takes = field(default="features", init=False)
    offers: frozenset[Offer] = field(default=frozenset({"frames"}), init=False)

    def __post_init__(self) -> None:
        if isinstance(self.estimator, type):
            raise UnderstudyError(f"pass an instance, not the class: {self.estimator.__name__}()")
        name = type(self.estimator).__name__
        if not hasattr(self.estimator, "fit"):
            raise UsageError(f"{name} has no fit; pass a classifier of scikit-learn, or the name of a learner")
        if not hasattr(self.estimator, "predict_proba") and not _will_have_probabilities(self.estimator):
            if _is(is_regressor, self.estimator):
                raise UsageError(
                    f"{name} predicts numbers, not classes; pass a classifier such as LogisticRegression()"
                )
            if isinstance(self.estimator, BaseEstimator) and not _is(is_classifier, self.estimator):
                raise UsageError(f"{name} does not predict classes; pass a classifier such as LogisticRegression()")
            raise UsageError(
                f"{name} has no predict_proba; use an estimator that has it, such as LogisticRegression(), or wrap "
                "this one: CalibratedClassifierCV(..., cv=2), which can be trained once every class seen has two labels"
            )

    def fit(
        self, inputs: Any, labels: np.ndarray, n_classes: int, *, seed: int = 0, progress: bool = False
    ) -> "ClassifierModel":
        """The fitted estimator. With labels of one class only, that class gets probability 1."""
        inputs = _prepare_inputs(inputs, self.estimator)
        labels = check_labels(labels, count_rows(inputs), n_classes)
        if self.classes is not None and len(self.classes) != n_classes:
            raise UnderstudyError(
                f"this classifier has {len(self.classes)} classes, not {n_classes}; pass classes of it"
            )
        seed, seen = check_seed(seed), np.unique(labels)
        if len(seen) == 1:  # many estimators refuse a single class
            return ClassifierModel(None, seen, inputs.shape[1:], n_classes)
        failure: Exception | None = None
        for coding in self._codings(labels, n_classes):
            estimator = _clone_with_seed(self.estimator, seed)
            try:
                with _torch_seed(estimator, seed):
                    estimator.fit(inputs, coding[labels])
                    width = estimator.predict_proba(_first_row(inputs)).shape[1]
            except Exception as error:  # estimators raise all sorts of exceptions
                failure = error
                continue
            columns = _classes_of_columns(estimator, width, coding, seen)
            if columns is not None:
                return ClassifierModel(estimator, columns, inputs.shape[1:], n_classes)
            failure = UnderstudyError(
                f"it predicts {width} columns for {len(seen)} classes with labels, of {n_classes}; "
                f"give it {n_classes} outputs"
            )
        raise self._describe_failure(failure, len(labels)) from failure

    def _codings(self, labels: np.ndarray, n_classes: int) -> Iterator[np.ndarray]:
        """What the estimator is given for each class, in the order in which it is tried.

        The classes as the caller knows them, so that settings which name classes apply; their numbers, which networks
        with an output for each class need; numbers without gaps, which some insist on while not every class has labels.
        """
        numbers = np.arange(n_classes)
        if self.classes is not None and not _is_network(self.estimator):
            yield np.array(self.classes)
            if self.classes == tuple(range(n_classes)):
                numbers = numbers[:0]
        if len(numbers):
            yield numbers
        seen = np.unique(labels)
        if len(seen) < n_classes:
            without_gaps = np.full(n_classes, WITHOUT_LABELS)
            without_gaps[seen] = np.arange(len(seen))
            yield without_gaps

    def _describe_failure(self, error: Exception | None, n_labels: int) -> UnderstudyError:
        reason = "" if error is None else reason_of(error)
        if _is_network(self.estimator) and "n_splits" in reason:
            reason += " Pass train_split=None, so that few labels are not split"
        if _is_network(self.estimator) and "dtype" in reason:
            reason += "; put FunctionTransformer(np.float32) before the network"
        if _is_network(self.estimator) and "out of bounds" in reason:
            reason = f"{reason.rstrip('.')}; give the network an output for each class"
        if "inconsistent numbers of samples" in reason:
            reason += ONE_COLUMN
        return UnderstudyError(f"{type(self.estimator).__name__} could not be fitted to {n_labels:,} labels: {reason}")

    def preprocess(self, inputs: Any) -> Any:
        """What the steps of a pipeline before its classifier make of these rows, fitted to them without labels.

        None where the estimator is not a pipeline of more than one step.
        """
        steps: Any = getattr(self.estimator, "steps", ())
        if len(steps) < 2:
            return None
        try:
            made = clone(self.estimator[:-1]).fit_transform(inputs)
        except Exception as error:  # steps that need labels, or refuse these rows
            raise UnderstudyError(
                f"the steps of the pipeline before {steps[-1][0]} could not prepare features without labels "
                f"({reason_of(error)}); pass a pipeline whose steps can"
            ) from error
        if count_rows(made) != count_rows(inputs):
            raise UnderstudyError(
                f"the steps of the pipeline before {steps[-1][0]} make {count_rows(made):,} rows of "
                f"{count_rows(inputs):,}{ONE_COLUMN}"
            )
        return made


def _prepare_inputs(inputs: Any, estimator: Any) -> Any:
    """The rows as the estimator gets them: frames and sparse matrices as they are, all else as an array."""
    if isinstance(inputs, str):
        raise UnderstudyError("inputs must be a list of texts, also of a single one: [text]")
    is_network = _is_network(estimator)
    if (is_frame(inputs) and not (is_network and not hasattr(estimator, "steps"))) or is_sparse(inputs):
        return inputs
    if (texts := texts_in(inputs)) is not None:
        return texts
    table = as_numbers(inputs) if is_network or is_tensor(inputs) else np.asarray(inputs)
    if table.ndim != 2 or not table.shape[1]:
        raise UnderstudyError(f"inputs must have 2 dimensions, the first for items; got shape {table.shape}")
    return table.astype(np.float32, copy=False) if is_network else table


def _will_have_probabilities(estimator: Any) -> bool:
    """Whether this, or the end of this pipeline, is a stack, which finds its last classifier only when it is fitted."""
    steps: Any = getattr(estimator, "steps", ())
    last = steps[-1][1] if steps else estimator
    return isinstance(last, StackingClassifier) and last.final_estimator is None


def _is(kind: Callable[[Any], bool], estimator: Any) -> bool:
    try:
        return bool(kind(estimator))
    except (AttributeError, TypeError):  # not a relative of scikit-learn's
        return False


def _is_network(estimator: Any) -> bool:
    """Whether a network of skorch is what is trained, in the end."""
    for _ in range(MAX_DEPTH):
        steps: Any = getattr(estimator, "steps", ())
        inner = (
            steps[-1][1]
            if steps
            else next((found for name in WRAPPERS if (found := getattr(estimator, name, None))), None)
        )
        if inner is None:
            break
        estimator = inner
    return any(kind.__module__.partition(".")[0] == "skorch" for kind in type(estimator).__mro__)


def _clone_with_seed(estimator: Any, seed: int) -> Any:
    """An unfitted copy with this seed."""
    if not hasattr(estimator, "get_params"):
        return deepcopy(estimator)
    copy = clone(estimator)
    states = {name: seed % 2**32 for name in copy.get_params() if name.split("__")[-1] == "random_state"}
    return copy.set_params(**states)


@contextmanager
def _torch_seed(estimator: Any, seed: int) -> Iterator[None]:
    """Within, a network draws from the seed; outside, the generators are as if nothing had been drawn."""
    if not _is_network(estimator):
        yield
        return
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def _first_row(inputs: Any) -> Any:
    return take_rows(inputs, np.zeros(1, dtype=np.int64))


def _classes_of_columns(estimator: Any, width: int, coding: np.ndarray, seen: np.ndarray) -> np.ndarray | None:
    """The number of the class that each column of the estimator's probabilities is of; None if that cannot be known."""
    numbers = np.arange(len(coding))
    number_of = {value: number for number, value in enumerate(coding.tolist()) if value != WITHOUT_LABELS}
    known = getattr(estimator, "classes_", None)
    if known is not None and len(known) == width:
        found = [number_of.get(value, -1) for value in np.asarray(known).tolist()]
        return None if -1 in found else np.array(found, dtype=np.int64)
    if known is None and width == len(seen):
        return seen[np.argsort(coding[seen], kind="stable")]
    if np.array_equal(coding, numbers) and width in (len(coding), int(seen.max()) + 1):
        return numbers[:width]  # an output for each class, with labels or not
    return None


@dataclass(frozen=True, eq=False)
class ClassifierModel:
    """A fitted estimator that also has columns for classes without labels."""

    estimator: Any
    seen: np.ndarray  # the class of each of its columns
    shape: tuple[int, ...]  # of a row: its number of columns, or nothing for a text
    n_classes: int
    interrupted: bool = False

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """Class probabilities; 0 for classes that the estimator does not know."""
        inputs = _prepare_inputs(inputs, self.estimator)
        if inputs.shape[1:] != self.shape:
            wanted = f"{self.shape[0]} columns of features" if self.shape else "a flat list of texts"
            raise UnderstudyError(f"this model takes {wanted}; got shape {inputs.shape}")
        probs = np.zeros((count_rows(inputs), self.n_classes))
        if len(probs):
            probs[:, self.seen] = 1 if self.estimator is None else self._predict(inputs)
        self._require_probabilities(probs)
        return probs

    def _predict(self, inputs: Any) -> np.ndarray:
        try:
            with _torch_seed(self.estimator, 0):  # a network's iterator draws a number, also to predict
                return self.estimator.predict_proba(inputs)
        except Exception as error:  # estimators raise all sorts of exceptions
            name, reason = type(self.estimator).__name__, reason_of(error)
            hint = "; pass handle_unknown='ignore' to the encoder" if "unknown categor" in reason else ""
            raise UnderstudyError(f"{name} could not predict {count_rows(inputs):,} rows: {reason}{hint}") from error

    def _require_probabilities(self, probs: np.ndarray) -> None:
        name = type(self.estimator).__name__
        if not np.isfinite(probs).all():
            row = int(np.isfinite(probs).all(1).argmin())
            raise UnderstudyError(f"{name}'s probabilities for item {row} are not finite; check its settings")
        if (wrong := np.flatnonzero((probs.min(1) < 0) | (np.abs(probs.sum(1) - 1) > SUM_TOLERANCE))).size:
            hint = "end it with a softmax" if not _is_network(self.estimator) else "pass criterion=nn.CrossEntropyLoss"
            least, total = probs[wrong[0]].min(), probs[wrong[0]].sum()
            raise UnderstudyError(
                f"{name}'s predict_proba gives no probabilities: for item {wrong[0]} least {least:.3g}, "
                f"in sum {total:.3g}; {hint}"
            )
