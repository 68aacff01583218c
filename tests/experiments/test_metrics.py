"""Each measure against a loop that says what it is, and against scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, recall_score

from understudy.experiments.metrics import CONFIDENCE_BINS, calibration_error, measure_predictions


def predictions(n: int = 400, c: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(c, 0.5), n)
    labels = np.array([rng.choice(c, p=0.5 * row + 0.5 / c) for row in probs])
    return probs.astype(np.float32), labels.astype(np.int64)


def test_measures_are_those_of_scikit_learn() -> None:
    probs, labels = predictions()
    found = measure_predictions(probs, labels)
    exact = probs.astype(np.float64)
    exact /= exact.sum(1, keepdims=True)
    assert found.accuracy == accuracy_score(labels, probs.argmax(1))
    np.testing.assert_allclose(found.class_accuracy, recall_score(labels, probs.argmax(1), average=None))
    assert found.log_loss == pytest.approx(log_loss(labels, exact), rel=1e-5)
    literal = [sum((row[k] - (k == label)) ** 2 for k in range(4)) for row, label in zip(exact, labels, strict=True)]
    assert found.brier == pytest.approx(np.mean(literal), rel=1e-5)


def test_for_two_classes_the_brier_score_is_twice_the_usual_one() -> None:
    probs, labels = predictions(c=2)
    expected = 2 * brier_score_loss(labels, probs[:, 1].astype(np.float64))
    assert measure_predictions(probs, labels).brier == pytest.approx(expected, rel=1e-5)


def test_the_calibration_error_is_the_mean_gap_in_fifteen_bins() -> None:
    probs, labels = predictions(seed=1)
    confidence, right = probs.max(1).astype(np.float64), probs.argmax(1) == labels
    gap = 0.0
    for k in range(CONFIDENCE_BINS):
        inside = (confidence >= k / CONFIDENCE_BINS) & (confidence < (k + 1) / CONFIDENCE_BINS)
        if inside.any():
            gap += inside.sum() / len(labels) * abs(right[inside].mean() - confidence[inside].mean())
    assert measure_predictions(probs, labels).ece == pytest.approx(gap, rel=1e-9)


def test_the_calibration_error_by_hand() -> None:
    # Two in the bin of 0.9, one of them right; one that is sure and right.
    assert calibration_error(np.array([0.9, 0.9, 1.0]), np.array([True, False, True])) == pytest.approx(0.8 / 3)


def test_a_class_without_test_items_has_no_accuracy_and_certainty_that_is_wrong_costs_a_finite_amount() -> None:
    found = measure_predictions(np.eye(3)[[0, 1, 0]], np.array([0, 1, 1]))
    assert found.accuracy == pytest.approx(2 / 3)
    np.testing.assert_array_equal(found.class_accuracy, [1.0, 0.5, np.nan])
    assert found.log_loss == pytest.approx(-np.log(1e-12) / 3)
