"""Calibration: each formula against a literal computation, and what it does with many items, with few, with none."""

from math import log

import numpy as np
import pytest
from scipy.stats import norm, t

from understudy.learners.calibration import (
    AUDIT_SCALE,
    CROSS_FIT_DEVIATION,
    DEGREES,
    LABEL_NOISE,
    PRIOR_DEVIATION,
    Calibration,
    calibrate_model,
    cross_fit_probs,
    cross_fitted,
    deal_folds,
    temper,
)

GRID = np.exp(np.linspace(-log(10), log(10), 4001))  # temperatures


def predictions(n: int, truth: float, seed: int = 0, c: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a model, and labels that are drawn as if it were calibrated at this temperature."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(c, 0.5), n) + 1e-4
    probs /= probs.sum(1, keepdims=True)
    drawn = literal_temper(probs, truth)
    labels = np.array([rng.choice(c, p=row) for row in drawn])
    return probs, labels


def literal_temper(probs: np.ndarray, temperature: float) -> np.ndarray:
    powers = np.array([[p ** (1 / temperature) for p in row] for row in probs])
    return powers / powers.sum(1, keepdims=True)


def literal_fit(
    probs: np.ndarray, labels: np.ndarray, mean: float, scale: float, *, of_class: bool = False, normal: bool = False
) -> float:
    """The temperature of the grid with the least loss and prior, term by term."""
    prior = norm(mean, scale) if normal else t(DEGREES, mean, scale)
    best, least = 1.0, np.inf
    for temperature in GRID.tolist():
        tempered = literal_temper(probs, temperature)
        total = -float(prior.logpdf(log(temperature)))
        for row, label in zip(tempered, labels.tolist(), strict=True):
            if of_class:
                total -= log((1 - LABEL_NOISE) * row[label] + LABEL_NOISE / len(row))
            else:
                sure = min(max(row.max(), 1e-6), 1 - 1e-6)
                total -= log(sure if row.argmax() == label else 1 - sure)
        if total < least:
            best, least = temperature, total
    return best


@pytest.mark.parametrize("temperature", [0.2, 0.7, 1.0, 3.0])
def test_a_temperature_is_a_power_and_keeps_the_likeliest_class(temperature: float) -> None:
    probs = predictions(50, 1.0)[0]
    found = temper(probs, temperature)
    np.testing.assert_allclose(found, literal_temper(probs, temperature), rtol=1e-12)
    np.testing.assert_array_equal(found.argmax(1), probs.argmax(1))
    small = Calibration(temperature).apply(probs.astype(np.float32))
    assert small.dtype == np.float32
    np.testing.assert_allclose(small, found, rtol=1e-5)


def test_what_is_impossible_stays_so_and_nothing_comes_of_nothing() -> None:
    probs = np.array([[0.0, 1e-300, 1.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    found = temper(probs, 5.0)
    assert (found[0, 0], found[1, 2]) == (0.0, 0.0)
    assert found[0, 1] == pytest.approx(1e-60)
    np.testing.assert_allclose(found[1], [0.5, 0.5, 0.0])
    np.testing.assert_array_equal(found[2], 0.0)
    assert temper(np.zeros((0, 3)), 2.0).shape == (0, 3)


@pytest.mark.parametrize("n", [1, 7, 40])
@pytest.mark.parametrize("truth", [0.5, 2.5])
def test_the_fit_is_that_of_a_literal_search(n: int, truth: float) -> None:
    probs, labels = predictions(n, truth, seed=n)
    found = calibrate_model(probs, labels)
    assert found.temperature == pytest.approx(literal_fit(probs, labels, 0.0, PRIOR_DEVIATION, normal=True), rel=5e-3)
    assert (found.audited, found.cross_fitted, found.is_rough) == (n, 0, n < 30)
    both = calibrate_model(probs, labels, (1.7, 90))
    literal = literal_fit(probs, labels, log(1.7), AUDIT_SCALE)
    assert both.temperature == pytest.approx(literal, rel=5e-3)
    assert both.cross_fitted == 90
    literal = literal_fit(probs, labels, 0.0, CROSS_FIT_DEVIATION, of_class=True, normal=True)
    assert cross_fitted(probs, labels) == pytest.approx(literal, rel=5e-3)


@pytest.mark.parametrize("truth", [0.5, 1.0, 3.0])
def test_many_items_find_the_temperature_that_they_were_drawn_at(truth: float) -> None:
    probs, labels = predictions(4000, truth)
    assert calibrate_model(probs, labels).temperature == pytest.approx(truth, rel=0.1)
    assert cross_fitted(probs, labels) == pytest.approx(truth, rel=0.2)
    sure = calibrate_model(probs, labels).apply(probs).max(1)
    assert sure.mean() == pytest.approx((probs.argmax(1) == labels).mean(), abs=0.01)


def test_few_items_never_give_a_wild_temperature() -> None:
    sure = np.array([[0.99, 0.01]])
    for n in range(1, 30):
        right = calibrate_model(np.repeat(sure, n, 0), np.zeros(n, np.int64)).temperature
        wrong = calibrate_model(np.repeat(sure, n, 0), np.ones(n, np.int64)).temperature
        assert 0.3 < right < 1 < wrong <= 10.0
    none = np.zeros((0, 2))
    assert calibrate_model(none, np.zeros(0, np.int64)).temperature == pytest.approx(1.0, abs=2e-3)
    assert calibrate_model(none, np.zeros(0, np.int64), (0.4, 50)).temperature == pytest.approx(0.4, rel=1e-2)


def test_a_class_that_the_model_does_not_know_is_an_item_that_it_has_wrong() -> None:
    probs, labels = predictions(60, 1.0)
    unknown = labels.copy()
    unknown[:20] = 9
    missed = labels.copy()
    missed[:20] = (probs[:20].argmax(1) + 1) % 4
    assert calibrate_model(probs, unknown).temperature == calibrate_model(probs, missed).temperature > 1


def test_audit_items_that_clearly_disagree_with_cross_fitting_prevail() -> None:
    probs, labels = predictions(300, truth=2.5)
    alone = calibrate_model(probs, labels).temperature
    assert alone > 2
    assert calibrate_model(probs, labels, (0.4, 500)).temperature == pytest.approx(alone, rel=0.1)
    few = predictions(5, truth=2.5)
    assert calibrate_model(*few, (0.4, 500)).temperature < 0.6, "five of them may be chance"


def test_one_sentence_says_how_far_it_can_be_believed() -> None:
    unchecked = "Confidences could not be checked yet: too few items have a label."
    assert Calibration().describe() == Calibration(audited=4, cross_fitted=5).describe() == unchecked
    assert Calibration(cross_fitted=10).describe() == "Confidences are rough: no audit item has an answer yet."
    assert (
        Calibration(audited=1, cross_fitted=9).describe()
        == "Confidences are rough: only 1 audit item has an answer yet."
    )
    assert Calibration(audited=12).describe() == "Confidences are rough: only 12 audit items have an answer yet."
    assert Calibration(audited=30).describe() == "Confidences are calibrated on 30 audit items."


def test_nobody_predicts_what_they_were_trained_on() -> None:
    labels = np.array([0] * 11 + [1] * 7 + [2])
    inputs = np.arange(19.0)[:, None]
    fold = deal_folds(labels, 5, seed=3)
    assert np.bincount(fold).tolist() == [4, 4, 4, 4, 3]
    for label, least in ((0, 2), (1, 1)):
        assert np.bincount(fold[labels == label], minlength=5).min() >= least

    class Remembers:
        def __init__(self, places: np.ndarray) -> None:
            self.places = places

        def predict_proba(self, given: np.ndarray) -> np.ndarray:
            assert not set(given[:, 0]) & set(self.places)
            return np.repeat(given, 3, 1)

    found = cross_fit_probs(Remembers, inputs, labels, 5, seed=3)
    assert found is not None
    probs, places = found
    assert sorted(places.tolist()) == list(range(19))
    np.testing.assert_array_equal(probs[:, 0], places)
    assert cross_fit_probs(Remembers, inputs[:2], np.array([0, 1]), 5, seed=3) is None, "one class is no training"
