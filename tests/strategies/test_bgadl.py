"""BGADL: it chooses as BALD does, and makes images of the labelled ones."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.pools import labels_of, make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies import autoencoders
from understudy.strategies.bgadl import Bgadl, Critic, critic_loss
from understudy.strategies.protocol import Augments
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import PoolView


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here does not depend on how wide they are."""
    monkeypatch.setattr(autoencoders, "CONVOLUTIONS", (8, 8, 16, 16))


def shown() -> PoolView:
    arrays = make_arrays(passes=20)
    return PoolView(labels_of(arrays, [1, 2]), 3, stochastic=arrays.stochastic, images=arrays.images)


def test_without_a_subset_it_chooses_as_bald() -> None:
    one, other = (
        make_strategy(name, **settings).select(shown(), 9, np.random.default_rng(0))
        for name, settings in (("bgadl", {"subset_size": None}), ("bald", {}))
    )
    assert one.rows.tolist() == other.rows.tolist()
    assert one.scores.tolist() == other.scores.tolist()


def test_the_variation_ratio_is_what_the_mean_prediction_leaves_to_others() -> None:
    view = shown()
    picks = Bgadl(score="variation_ratio", subset_size=None).select(view, 38, np.random.default_rng(0))
    ratios = 1 - view.stochastic.numpy().mean(1).max(1)
    assert picks.rows.tolist() == [row for row in np.argsort(-ratios).tolist() if row not in (1, 2)]
    np.testing.assert_allclose(picks.scores, ratios[picks.rows], rtol=1e-12)
    assert picks.rows.tolist() != Bgadl(subset_size=None).select(view, 38, np.random.default_rng(0)).rows.tolist()


def test_with_a_subset_it_chooses_the_best_of_a_random_few() -> None:
    view = shown()
    best = Bgadl(subset_size=None).select(view, 38, np.random.default_rng(0))
    chosen = Bgadl(subset_size=10).select(view, 10, np.random.default_rng(0))
    subset = set(view.candidates(10, 10, np.random.default_rng(0)).tolist())
    assert chosen.rows.tolist() == [row for row in best.rows.tolist() if row in subset]


@pytest.mark.parametrize("shape", [(5, 28, 28), (4, 20, 16, 3)])
def test_it_makes_one_image_more_of_each(shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    labels = np.arange(len(images)) % 3
    strategy = Bgadl(iterations=3, batch_size=3, latent=2)
    assert isinstance(strategy, Augments)
    made, classes = strategy.augment(images, labels, 3, np.random.default_rng(0))
    assert made.shape == images.shape
    assert made.dtype == np.uint8
    assert classes.tolist() == labels.tolist()
    again, _ = strategy.augment(images, labels, 3, np.random.default_rng(0))
    assert (made == again).all()
    assert (made != images).any()


def test_the_critic_is_to_know_real_from_made_and_the_class_of_both() -> None:
    critic = Critic(1, 3).eval()
    x, made, y = torch.randn(2, 1, 32, 32), torch.randn(2, 1, 32, 32), torch.tensor([0, 2])
    expected = 0.0
    with torch.no_grad():
        for images, real in ((x, True), (made, False)):
            for row in range(2):
                state, classes = critic(images[row : row + 1])
                says_real = 1 / (1 + math.exp(-float(state)))
                expected -= math.log(says_real if real else 1 - says_real) / 2
                expected -= math.log(float(classes.softmax(1)[0, y[row]])) / 2
        assert float(critic_loss(critic, x, made, y)) == pytest.approx(expected, rel=1e-4)


def test_images_are_asked_for_before_anybody_labels() -> None:
    arrays = make_arrays(passes=20)
    view = PoolView(labels_of(arrays, [1]), 3, stochastic=arrays.stochastic)
    with pytest.raises(UnderstudyError, match="needs images"):
        Bgadl().select(view, 1, np.random.default_rng(0))


def test_nothing_can_be_made_of_nothing() -> None:
    with pytest.raises(UnderstudyError, match="one label for each"):
        Bgadl().augment(np.zeros((0, 28, 28), np.uint8), np.zeros(0, int), 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"score": "best"}, "score must be"),
        ({"passes": 0}, "passes must be a whole number of at least 1"),
        ({"dropout": 1.0}, "dropout must be a number above 0 and below 1"),
        ({"subset_size": 0}, "subset_size must be a whole number of at least 1"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1"),
        ({"latent": 0}, "latent must be a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"beta": -1.0}, "beta must be a number of at least 0"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0"),
        ({"device": "toaster"}, "'toaster' is not a device"),
    ],
)
def test_a_bad_setting_is_an_error(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        make_strategy("bgadl", **setting)


def test_images_that_were_made_come_to_resemble_their_own() -> None:
    images = np.repeat(np.array([20, 230], np.uint8), 8)[:, None, None] * np.ones((1, 28, 28), np.uint8)
    strategy = Bgadl(iterations=60, batch_size=16, latent=2, beta=0.01, learning_rate=5e-3)
    made, _ = strategy.augment(images, np.repeat([0, 1], 8), 2, np.random.default_rng(0))
    brightness = made.reshape(16, -1).mean(1)
    assert brightness[8:].min() > brightness[:8].max() + 20
