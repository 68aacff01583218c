"""How far a project's probabilities can be believed: the last model's temperature, fitted to audit items.

It follows from the log: what cross-fitting found when the model was trained, corrected by the audit items that have an
answer. Exports apply it to the model's probabilities. What is shown between two trainings is the geometric mean of
these and the surrogate's, which move with every label, at the same temperature. Nothing of it takes part in choosing
items.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from understudy.learners.calibration import AUDIT_ITEMS_NEEDED, Calibration, calibrate_model
from understudy.sessions.audit import counted_rows
from understudy.sessions.record import Record

MEANS_FLOOR: Final = 1e-9  # of a surrogate's mean, which may lie a little below 0
FOLDS: Final = 5  # of a cross-fitting while there are few audit items
FOLDS_BESIDE_AUDITS: Final = 3  # when audit items say enough to correct it
MAX_AUDIT_ITEMS: Final = 300  # from which on audit items need no help


def folds_for(audited: int) -> int:
    """In how many folds the next training cross-fits a temperature, with so many audit items answered; 0 for none."""
    if audited < AUDIT_ITEMS_NEEDED:
        return FOLDS
    return FOLDS_BESIDE_AUDITS if audited < MAX_AUDIT_ITEMS else 0


def audit_labels(record: Record) -> dict[int, int]:
    """The audit items that were asked and answered by the annotator they were given to, with their labels."""
    asked = record.asked["audit"].keys()
    answers = {item: label for item in asked if (label := record.audit_label(item)) is not None}
    counted = counted_rows(record.audit_draws, asked, answers.keys() - record.bad.keys())
    return {item: answers[item] for item in counted}


def class_shares(means: np.ndarray) -> np.ndarray:
    """The surrogate's means as shares of the classes: means may lie a little outside 0 to 1."""
    shares = np.clip(np.asarray(means, np.float64), MEANS_FLOOR, None)
    return shares / shares.sum(1, keepdims=True)


def shares_to_show(means: np.ndarray, model_probs: np.ndarray) -> np.ndarray:
    """The geometric mean of the surrogate's shares and the model's probabilities, normalised; not calibrated yet.

    The model's temperature suits it, though not the surrogate's shares alone. Where the model gives a class nothing,
    since it was trained before there was such a class, the surrogate's share counts.
    """
    shares = class_shares(means)
    shown = np.sqrt(shares * np.where(model_probs > 0, model_probs, shares))
    return shown / shown.sum(1, keepdims=True)


def calibration_of_model(probs: np.ndarray, labels: Mapping[int, int], training: Mapping[str, Any]) -> Calibration:
    """The calibration of a model by its predictions for the pool, the audit labels, and the data of its training."""
    rows, given = _rows_within(labels, len(probs))
    return calibrate_model(probs[rows], given, cross_fit_in(training))


def cross_fit_in(training: Mapping[str, Any]) -> tuple[float, int] | None:
    """The temperature that cross-fitting found and on how many items. None in logs of the version before."""
    kept = training.get("calibration")
    return (float(kept["temperature"]), int(kept["items"])) if isinstance(kept, Mapping) else None


def _rows_within(labels: Mapping[int, int], n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Audit rows below `n_rows` and their labels: items that came later have no prediction."""
    rows = np.array([row for row in labels if row < n_rows], np.int64)
    return rows, np.array([labels[row] for row in rows.tolist()], np.int64)


class Audits:
    """The audit labels of a record and the calibration by them, found again only when they may have changed.

    Both are wanted with every suggestion, and with thousands of audit items each takes milliseconds.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._version: int | None = None  # of the record's answers
        self._labels: dict[int, int] = {}
        self._model: tuple[int, str, int] | None = None  # that the calibration is of, and for which classes
        self._calibration = Calibration()

    @property
    def labels(self) -> Mapping[int, int]:
        """The audit items that were asked and answered, with their labels."""
        if self._version != self._record.audit_version:
            found, self._version = audit_labels(self._record), self._record.audit_version
            if found != self._labels:
                self._labels, self._model = found, None
        return self._labels

    def calibration(self, probs: np.ndarray | None) -> Calibration:
        """The calibration of the last model by these labels; `probs` is what it predicts for the pool."""
        if probs is None or not self._record.trainings:
            return Calibration()
        labels, training = self.labels, self._record.trainings[-1]
        model = (training.seq, training.data["predictions"], self._record.regroupings)
        if model != self._model:
            self._calibration, self._model = calibration_of_model(probs, labels, training.data), model
        return self._calibration
