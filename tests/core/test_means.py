"""Deferred means against means that are always exact."""

import numpy as np
import pytest
import torch

from tests.pools import make_pool
from understudy import Surrogate
from understudy.core.links import Link
from understudy.core.means import AT_ONCE, WAVES, Means

N, C = 100, 60


def many_classes(seed: int) -> tuple[torch.Tensor, np.random.Generator]:
    return torch.from_numpy(make_pool(N, C, seed=seed).probs), np.random.default_rng(seed)


def label(rng: np.random.Generator, scale: float = 0.02) -> tuple[torch.Tensor, torch.Tensor]:
    """A covariance with every row, and a change that is large for one class and small for all others."""
    change = scale * rng.normal(size=C)
    change[rng.integers(C)] += 0.8
    return torch.from_numpy(rng.uniform(-0.1, 0.3, size=N)), torch.from_numpy(change)


@pytest.mark.parametrize("link", ["softmax", "logit", "residual", "simplex"])
def test_caught_up_means_are_exact(link: Link) -> None:
    for labels in (1, WAVES - 1, WAVES, WAVES + 1, 3 * WAVES + 5):
        probs, rng = many_classes(1)
        lazy, exact = Means(probs, link, 0.02), Means(probs, link, 0.0)
        assert lazy.defers == (link != "simplex")
        for _ in range(labels):
            s, change = label(rng)
            lazy.shift(s, change)
            exact.shift(s, change)
        lazy.catch_up()
        assert lazy.behind_by() == 0.0
        np.testing.assert_allclose(lazy.Z, exact.Z, atol=1e-12)
        np.testing.assert_allclose(lazy.uncertainty(), exact.uncertainty(), rtol=1e-10)
        lazy.shift(s, change)  # and goes on from there
        exact.shift(s, change)
        lazy.catch_up()
        np.testing.assert_allclose(lazy.Z, exact.Z, atol=1e-12)


def test_no_entry_is_further_behind_than_is_said() -> None:
    probs, rng = many_classes(2)
    lazy, exact = Means(probs, "softmax", 0.02), Means(probs, "softmax", 0.0)
    seen = 0.0
    for _ in range(100):
        s, change = label(rng)
        lazy.shift(s, change)
        exact.shift(s, change)
        off = float((lazy.Z - exact.Z).abs().max())
        assert off <= lazy.behind_by() + 1e-12
        seen = max(seen, off)
    assert seen > 1e-3  # something was put by


def test_surrogate_keeps_the_tolerance_and_reads_out_exactly() -> None:
    pool = make_pool(400, C, seed=3)
    s = Surrogate(pool.features, C, basis_size=30, mean_tolerance=0.005, dtype="float64").anchor(pool.probs, [0])
    exact = Surrogate(pool.features, C, basis_size=30, mean_tolerance=0.0, dtype="float64").anchor(pool.probs, [0])
    for _ in range(60):
        row = s.ask()
        assert exact.ask() == row  # the leaders are computed exactly, so picks agree
        assert s._rows.means.behind_by() <= 0.005
        s.tell(row, pool.labels[row])
        exact.tell(row, pool.labels[row])
    np.testing.assert_allclose(s.mean, exact.mean, atol=1e-10)
    np.testing.assert_allclose(s.uncertainty, exact.uncertainty, rtol=1e-9)


def test_few_classes_and_zero_tolerance_defer_nothing() -> None:
    few = torch.full((10, AT_ONCE), 1 / AT_ONCE)
    many = torch.full((10, AT_ONCE + 1), 1 / (AT_ONCE + 1))
    assert not Means(few, "softmax", 0.02).defers
    assert not Means(many, "softmax", 0.0).defers
    assert Means(many, "softmax", 0.02).defers


def test_reset_gives_the_means_of_the_weights() -> None:
    probs, rng = many_classes(4)
    W, B = torch.from_numpy(rng.normal(size=(N, 7))), torch.from_numpy(rng.normal(size=(7, C)))
    means = Means(probs, "softmax", 0.02)
    means.shift(*label(rng))
    means.reset(W, B)
    np.testing.assert_allclose(means.Z.T, probs + W @ B, atol=1e-12)
    assert means.behind_by() == 0.0


def test_uncertainty_starts_as_the_learners_entropy_and_certainty_stays_certain() -> None:
    probs = torch.from_numpy(np.vstack([np.eye(3), np.full((1, 3), 1 / 3)]))
    means = Means(probs, "softmax", 0.0)
    np.testing.assert_allclose(means.uncertainty(), [0, 0, 0, np.log(3)], atol=1e-12)
    means.shift(torch.ones(4, dtype=torch.float64), torch.tensor([0.3, -0.2, -0.1], dtype=torch.float64))
    assert (means.uncertainty()[:3] == 0).all()
