"""SRAAL: the indicator's golden numbers, the states the discriminator is to name, and the start without labels."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies import autoencoders
from understudy.strategies.registry import make_strategy
from understudy.strategies.sraal import Sraal, expected_states, uncertainty_indicator
from understudy.strategies.view import PoolView

SMALL: dict[str, Any] = {"iterations": 2, "batch_size": 8, "latent": 3}


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here does not depend on how wide they are."""
    monkeypatch.setattr(autoencoders, "PERCEPTRON", (128, 64))


def literal(probs: list[float]) -> float:
    """The publication's formula, term by term."""
    C, largest = len(probs), max(probs)
    variance = sum((p - 1 / C) ** 2 for p in probs) / C
    least = ((1 / C - largest) ** 2 + (C - 1) * (1 / C - (1 - largest) / (C - 1)) ** 2) / C
    return 1 - least / variance * largest


@pytest.mark.parametrize("largest", [0.34, 0.5, 0.9, 1.0])
def test_where_the_other_classes_are_equal_it_is_one_less_the_largest(largest: float) -> None:
    rest = (1 - largest) / 2
    probs = torch.tensor([[largest, rest, rest], [rest, rest, largest]], dtype=torch.float64)
    assert uncertainty_indicator(probs).tolist() == pytest.approx([1 - largest] * 2)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_nothing_varies_it_is_one_less_a_share(classes: int, dtype: torch.dtype) -> None:
    probs = torch.full((1, classes), 1 / classes, dtype=dtype)
    assert float(uncertainty_indicator(probs)) == pytest.approx(1 - 1 / classes, abs=1e-6)


def test_it_is_the_published_formula_and_stays_below_one() -> None:
    probs = torch.from_numpy(np.random.default_rng(0).dirichlet([0.5] * 4, 200))
    found = uncertainty_indicator(probs)
    assert found.tolist() == pytest.approx([literal(row) for row in probs.tolist()])
    assert float(found.min()) >= 0
    assert float(found.max()) < 1
    assert bool((found >= 1 - probs.amax(1) - 1e-12).all())


def test_two_classes_leave_only_the_largest() -> None:
    probs = torch.tensor([[0.7, 0.3], [0.05, 0.95]], dtype=torch.float64)
    assert uncertainty_indicator(probs).tolist() == pytest.approx([0.3, 0.05])
    assert uncertainty_indicator(torch.ones(2, 1)).tolist() == [0, 0]


def test_states_lie_between_labelled_and_not() -> None:
    probs = [[0.5, 0.5], [0.9, 0.1], [0.6, 0.4], [1.0, 0.0]]
    view = PoolView([0, -1, -1, -1], 2, probs=probs, pending=[1])
    assert expected_states(view).tolist() == pytest.approx([1, 1, 0.6, 1.0])


def test_rows_of_which_the_learner_is_unsure_come_first() -> None:
    rng = np.random.default_rng(0)
    side = np.arange(120) % 2  # rows of one side are doubtful, and look it
    features = rng.standard_normal((120, 3)) + 3 * side[:, None]
    probs = np.where(side[:, None] == 1, [[0.5, 0.5]], [[0.99, 0.01]])
    labels = np.where(np.arange(120) < 40, side, -1)
    strategy = Sraal(iterations=60, batch_size=32, latent=3, adversary_weight=0.0, beta=0.01)
    picked = strategy.select(PoolView(labels, 2, features=features, probs=probs), 20, rng)
    assert side[picked.rows].mean() > 0.9


def test_without_labels_rows_are_spread_over_the_latents() -> None:
    rng = np.random.default_rng(0)
    kind = np.arange(45) % 3
    features = 0.1 * rng.standard_normal((45, 3)) + 10 * np.eye(3)[kind]
    strategy = Sraal(iterations=40, batch_size=16, latent=3, beta=0.01)
    view = PoolView(np.full(45, -1), 3, features=features)  # nor are there predictions yet
    picked = strategy.select(view, 3, np.random.default_rng(0))
    assert set(kind[picked.rows].tolist()) == {0, 1, 2}
    pending = strategy.select(view.after(view.labels, pending=[0, 1]), 1, np.random.default_rng(0))
    assert kind[pending.rows].tolist() == [2]


def test_classes_are_learnt_from_the_labelled_rows() -> None:
    arrays = make_arrays()
    labels = np.where(np.arange(40) < 20, arrays.truth, -1)
    view = PoolView(labels, 3, features=arrays.features, probs=arrays.probs, pending=[30])
    strategy = Sraal(iterations=40, batch_size=20, latent=3, beta=0.0, learning_rate=5e-3)
    strategy.select(view, 2, np.random.default_rng(0))
    supervised = strategy.history["supervised"]
    assert supervised[-5:].mean() < 0.7 * supervised[:5].mean()
    strategy = Sraal(**SMALL, supervised_weight=0.0)
    strategy.select(view, 2, np.random.default_rng(0))
    assert set(strategy.history) == {"reconstruction", "kl", "adversary", "discriminator"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"on": "pixels"}, "on must be one of auto"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1"),
        ({"supervised_weight": -1.0}, "supervised_weight must be a number of at least 0"),
    ],
)
def test_a_bad_setting_is_an_error(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        make_strategy("sraal", **setting)
