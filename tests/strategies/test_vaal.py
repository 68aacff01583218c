"""VAAL from end to end, small: on images and on features."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies.pools import make_arrays
from understudy.errors import UnderstudyError
from understudy.strategies import autoencoders
from understudy.strategies.registry import make_strategy
from understudy.strategies.vaal import Vaal
from understudy.strategies.view import PoolView

SMALL: dict[str, Any] = {"iterations": 1, "vae_steps": 1, "batch_size": 3, "latent": 4}


@pytest.fixture
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoencoders, "CONVOLUTIONS", (8, 8, 16, 16))
    monkeypatch.setattr(autoencoders, "PERCEPTRON", (128, 64))


def test_the_networks_of_the_publication_choose_images() -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 28, 28)).astype(np.uint8)
    view = PoolView([0, 1, -1, -1], 2, images=images)
    picked = Vaal(iterations=1, vae_steps=1).select(view, 2, np.random.default_rng(0))
    assert sorted(picked.rows.tolist()) == [2, 3]


@pytest.mark.usefixtures("small_networks")
@pytest.mark.parametrize(("side", "channels"), [(28, ()), (16, (3,))])
def test_images_are_read_in_batches(side: int, channels: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (9, side, side, *channels)).astype(np.uint8)
    asked: list[int] = []

    class Lazy:
        def __len__(self) -> int:
            return 9

        def __getitem__(self, rows: Any) -> Any:
            asked.append(len(rows))
            return images[rows]

    view = PoolView([0, 1, -1, -1, -1, -1, -1, -1, -1], 2, images=Lazy())
    picked = Vaal(**SMALL).select(view, 4, np.random.default_rng(0))
    assert len(set(picked.rows.tolist())) == 4
    assert picked.rows.min() >= 2
    assert (np.diff(picked.scores) <= 0).all()
    assert asked == [1, 2, 3, 7]  # a look, one batch of each side, all that may be chosen


@pytest.mark.usefixtures("small_networks")
def test_images_and_features_are_chosen_by_the_setting() -> None:
    arrays = make_arrays(12)
    labels = np.where(np.arange(12) < 4, 0, -1)
    both = PoolView(labels, 3, images=arrays.images, features=arrays.features)
    bare = PoolView(labels, 3, features=arrays.features)
    chosen = [
        Vaal(**{**SMALL, "on": on}).select(view, 8, np.random.default_rng(0)).scores.tolist()
        for on, view in (("auto", both), ("images", both), ("features", both), ("auto", bare))
    ]
    assert chosen[0] == chosen[1] != chosen[2] == chosen[3]
    assert Vaal(on="images").needs.supplies == {"images"}
    assert Vaal().needs.images_or_features


@pytest.mark.usefixtures("small_networks")
def test_rows_unlike_the_labelled_ones_are_found_though_they_are_hidden() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((150, 6))
    features[100:] += 4.0  # nobody has labelled these
    labels = np.where(np.arange(150) < 60, 0, -1)
    strategy = Vaal(iterations=60, vae_steps=1, batch_size=32, latent=4, kl="mean", beta=0.01, learning_rate=2e-3)
    picked = strategy.select(PoolView(labels, 2, features=features), 30, np.random.default_rng(0))
    assert (picked.rows >= 100).mean() > 0.9  # 50 of the 90 open rows


def test_the_losses_of_a_choice_are_kept() -> None:
    arrays, strategy = make_arrays(20), Vaal(iterations=5, batch_size=4, latent=2)
    assert strategy.history == {}
    view = PoolView(np.where(np.arange(20) < 6, 0, -1), 3, features=arrays.features)
    strategy.select(view, 2, np.random.default_rng(0))
    assert set(strategy.history) == {"reconstruction", "kl", "adversary", "discriminator"}
    for values in strategy.history.values():
        assert values.shape == (5,)
        assert np.isfinite(values).all()


def test_unless_told_otherwise_it_trains_for_a_hundred_passes_over_the_pool() -> None:
    strategy = Vaal(batch_size=100, latent=2)
    view = PoolView(np.where(np.arange(20) < 6, 0, -1), 3, features=make_arrays(20).features)
    strategy.select(view, 2, np.random.default_rng(0))
    assert len(strategy.history["kl"]) == 20 * 100 // 100


def test_published_settings_are_the_default() -> None:
    strategy = Vaal()
    assert (strategy.beta, strategy.adversary_weight, strategy.kl) == (1, 1, "sum")
    assert (strategy.vae_steps, strategy.adversary_steps, strategy.latent) == (2, 1, 32)
    assert (strategy.batch_size, strategy.learning_rate, strategy.iterations) == (128, 5e-4, None)


def test_a_training_that_ran_away_is_an_error() -> None:
    view = PoolView(np.where(np.arange(20) < 6, 0, -1), 3, features=make_arrays(20).features)
    with pytest.raises(UnderstudyError, match="scores are NaN"):
        Vaal(iterations=4, learning_rate=1e30, batch_size=4).select(view, 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"on": "pixels"}, "on must be one of auto"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1"),
        ({"kl": "max"}, "kl must be one of sum, mean"),
        ({"beta": -1}, "beta must be a number of at least 0"),
        ({"temperature": 3}, "vaal has no setting 'temperature'"),
    ],
)
def test_a_bad_setting_is_an_error(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        make_strategy("vaal", **setting)


def test_global_settings_of_torch_are_left_alone() -> None:
    before = (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark, torch.is_grad_enabled())
    view = PoolView(np.where(np.arange(20) < 6, 0, -1), 3, features=make_arrays(20).features)
    with torch.no_grad():  # a caller's mood must not stop training
        Vaal(**SMALL).select(view, 2, np.random.default_rng(0))
    assert before == (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark, torch.is_grad_enabled())
