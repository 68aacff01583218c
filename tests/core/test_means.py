"""Deferred means against means that are always exact, and what each kind of doubt makes of them."""

import numpy as np
import pytest
import torch

from tests.blocks import blocks_of
from tests.pools import make_pool
from understudy import Surrogate
from understudy.core.links import Link
from understudy.core.means import (
    CLASSES_AT_ONCE,
    MARGIN_CLASSES_AT_ONCE,
    WAVES,
    Entropies,
    Margins,
    margin_doubt,
    means_for,
    two_largest,
    two_largest_by_tournament,
)
from understudy.core.options import METHODS, Method, Options

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
        lazy, exact = Entropies(probs, link, 0.02), Entropies(probs, link, 0.0)
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
    lazy, exact = Entropies(probs, "softmax", 0.02), Entropies(probs, "softmax", 0.0)
    seen = 0.0
    for _ in range(100):
        s, change = label(rng)
        lazy.shift(s, change)
        exact.shift(s, change)
        off = float((lazy.Z - exact.Z).abs().max())
        assert off <= lazy.behind_by() + 1e-12
        seen = max(seen, off)
    assert seen > 1e-3  # something was put by


@pytest.mark.parametrize("method", METHODS)
def test_surrogate_keeps_the_tolerance_and_reads_out_exactly(method: Method) -> None:
    pool = make_pool(400, C, seed=3)
    s, exact = (
        Surrogate(pool.features, C, basis_size=30, mean_tolerance=tolerance, dtype="float64", method=method)
        for tolerance in (0.005, 0.0)
    )
    s.anchor(pool.probs, [0])
    exact.anchor(pool.probs, [0])
    for _ in range(60):
        row = s.ask()
        assert exact.ask() == row  # the leaders are computed exactly, so picks agree
        assert blocks_of(s)[0].means.behind_by() <= 0.005
        s.tell(row, pool.labels[row])
        exact.tell(row, pool.labels[row])
    np.testing.assert_allclose(s.mean, exact.mean, atol=1e-10)
    np.testing.assert_allclose(s.uncertainty, exact.uncertainty, rtol=1e-9)


def test_few_classes_and_zero_tolerance_defer_nothing() -> None:
    few = torch.full((10, CLASSES_AT_ONCE), 1 / CLASSES_AT_ONCE)
    many = torch.full((10, CLASSES_AT_ONCE + 1), 1 / (CLASSES_AT_ONCE + 1))
    assert not Entropies(few, "softmax", 0.02).defers
    assert not Entropies(many, "softmax", 0.0).defers
    assert Entropies(many, "softmax", 0.02).defers


def test_reset_gives_the_means_of_the_weights() -> None:
    probs, rng = many_classes(4)
    W, B = torch.from_numpy(rng.normal(size=(N, 7))), torch.from_numpy(rng.normal(size=(7, C)))
    means = Entropies(probs, "softmax", 0.02)
    means.shift(*label(rng))
    means.reset(W, B)
    np.testing.assert_allclose(means.Z.T, probs + W @ B, atol=1e-12)
    assert means.behind_by() == 0.0


def test_uncertainty_starts_as_the_learners_entropy_and_certainty_stays_certain() -> None:
    probs = torch.from_numpy(np.vstack([np.eye(3), np.full((1, 3), 1 / 3)]))
    means = Entropies(probs, "softmax", 0.0)
    np.testing.assert_allclose(means.uncertainty(), [0, 0, 0, np.log(3)], atol=1e-12)
    means.shift(torch.ones(4, dtype=torch.float64), torch.tensor([0.3, -0.2, -0.1], dtype=torch.float64))
    assert (means.uncertainty()[:3] == 0).all()


# -- margins ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", range(2, 41))
def test_the_two_largest_are_those_of_a_sort(m: int) -> None:
    rng = np.random.default_rng(m)
    for values in (rng.normal(size=(m, 50)), rng.integers(0, 3, size=(m, 50)).astype(float)):  # also with many ties
        ordered = np.sort(values, axis=0)
        for search in (two_largest, two_largest_by_tournament):
            first, second = search(torch.from_numpy(values))
            np.testing.assert_array_equal(first, ordered[-1])
            np.testing.assert_array_equal(second, ordered[-2])


def test_the_doubt_that_a_margin_leaves_is_between_the_floor_and_one() -> None:
    mean = torch.tensor([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [1.0, 0.0, 0.0], [1.7, -0.4, 0.1], [-0.2, -0.3, -0.9]])
    np.testing.assert_allclose(margin_doubt(mean.double(), 0.01), [0.8, 1.0, 0.01, 0.01, 0.9], rtol=1e-6)
    np.testing.assert_array_equal(margin_doubt(torch.zeros((4, 1)), 0.01), [1, 1, 1, 1])


def exact_doubt(Z: torch.Tensor, floor: float) -> np.ndarray:
    ordered = np.sort(Z.numpy(), axis=0)
    return np.clip(1 - (ordered[-1] - ordered[-2]), floor, 1)


@pytest.mark.parametrize("c", [2, 3, 7, MARGIN_CLASSES_AT_ONCE])
def test_with_few_classes_every_label_moves_every_doubt_at_once(c: int) -> None:
    rng = np.random.default_rng(c)
    probs = torch.from_numpy(rng.dirichlet(np.ones(c), N))
    means, Z = Margins(probs, 1e-3, 0.02, follows=True), probs.numpy().T.copy()
    assert not means.defers
    for _ in range(20):
        s, change = rng.uniform(-0.1, 0.3, N), rng.normal(size=c)
        means.shift(torch.from_numpy(s), torch.from_numpy(change))
        Z += np.outer(change, s)
        np.testing.assert_allclose(means.Z, Z, atol=1e-12)
        np.testing.assert_allclose(means.uncertainty(), exact_doubt(torch.from_numpy(Z), 1e-3), atol=1e-12)


@pytest.mark.parametrize("labels", [1, WAVES - 1, WAVES, WAVES + 1, 3 * WAVES + 5])
def test_caught_up_margins_are_exact(labels: int) -> None:
    probs, rng = many_classes(5)
    lazy, exact = (Margins(probs, 1e-3, tolerance, follows=True) for tolerance in (0.02, 0.0))
    assert lazy.defers
    assert not exact.defers
    for _ in range(labels):
        moved = label(rng)
        lazy.shift(*moved)
        exact.shift(*moved)
    for _ in range(2):
        lazy.catch_up()
        assert lazy.behind_by() == 0.0
        np.testing.assert_allclose(lazy.Z, exact.Z, atol=1e-12)
        np.testing.assert_allclose(lazy.uncertainty(), exact.uncertainty(), atol=1e-12)
        lazy.shift(*moved)  # and goes on from there
        exact.shift(*moved)


def test_no_margin_is_further_off_than_what_its_two_entries_are_behind_by() -> None:
    """Each of the two largest may be behind; one that is not followed can be missed by as much."""
    probs, rng = many_classes(6)
    lazy, exact = (Margins(probs, 1e-3, tolerance, follows=True) for tolerance in (0.02, 0.0))
    seen = 0.0
    for turn in range(100):
        moved = label(rng)
        lazy.shift(*moved)
        exact.shift(*moved)
        assert float((lazy.Z - exact.Z).abs().max()) <= lazy.behind_by() + 1e-12
        off = (lazy.uncertainty() - exact.uncertainty()).abs()
        here = slice(N * (turn % WAVES) // WAVES, N * (turn % WAVES + 1) // WAVES)
        assert float(off[here].sum()) < 1e-10  # the rows whose turn it was have all of it
        seen = max(seen, float(off.max()))
        if lazy.behind_by() > 0.02:
            lazy.catch_up()
    assert seen > 1e-4


def test_a_class_that_rises_from_far_below_is_followed_at_once() -> None:
    """A label of a class that no row expected is the largest change: it must not wait for the rows' wave."""
    probs = torch.full((N, C), 0.5 / (C - 2), dtype=torch.float64)
    probs[:, :2] = torch.tensor([0.3, 0.2], dtype=torch.float64)
    means = Margins(probs, 1e-3, 0.02, follows=True)
    change = torch.zeros(C, dtype=torch.float64)
    change[C - 1] = 1.0
    means.shift(torch.full((N,), 0.7, dtype=torch.float64), change)
    np.testing.assert_allclose(means.uncertainty(), 1 - (0.7 + 0.5 / (C - 2) - 0.3), atol=1e-12)
    change[C - 1] = -1.0  # and when it falls again, those that it had overtaken are there
    means.shift(torch.full((N,), 0.7, dtype=torch.float64), change)
    np.testing.assert_allclose(means.uncertainty(), 0.9, atol=1e-12)


def test_doubt_that_stands_is_that_of_the_predictions_whatever_is_told() -> None:
    probs, rng = many_classes(7)
    means = Margins(probs, 1e-3, 0.02, follows=False)
    before = means.uncertainty().clone()
    np.testing.assert_allclose(before, exact_doubt(probs.T, 1e-3), atol=1e-12)
    for _ in range(5):
        means.shift(*label(rng))
    means.reset(torch.ones((N, 2), dtype=torch.float64), torch.ones((2, C), dtype=torch.float64))
    means.catch_up()
    assert torch.equal(means.uncertainty(), before)
    assert means.behind_by() == 0.0
    assert means.tensors() == {}


def test_resetting_margins_gives_those_of_the_weights() -> None:
    probs, rng = many_classes(8)
    W, B = torch.from_numpy(rng.normal(size=(N, 7))), torch.from_numpy(rng.normal(scale=0.05, size=(7, C)))
    means = Margins(probs, 1e-3, 0.02, follows=True)
    means.shift(*label(rng))
    means.reset(W, B)
    np.testing.assert_allclose(means.Z.T, probs + W @ B, atol=1e-12)
    np.testing.assert_allclose(means.uncertainty(), exact_doubt((probs + W @ B).T, 1e-3), atol=1e-12)
    assert means.behind_by() == 0.0


def test_which_doubt_is_kept_follows_the_options() -> None:
    probs = torch.full((10, MARGIN_CLASSES_AT_ONCE + 1), 1 / (MARGIN_CLASSES_AT_ONCE + 1), dtype=torch.float64)
    assert isinstance(means_for(probs, Options.of("paper"), True), Entropies)
    live, early = (means_for(probs, Options.of(), has_learner) for has_learner in (True, False))
    standing = means_for(probs, Options.of(doubt="standing"), True)
    at_once = means_for(probs, Options.of(mean_tolerance=0.0), True)
    assert all(isinstance(means, Margins) for means in (live, early, standing, at_once))
    follows = [means.follows for means in (live, early, standing, at_once) if isinstance(means, Margins)]
    assert follows == [True, False, False, True]
    assert [means.defers for means in (live, early, standing, at_once)] == [True, False, False, False]
