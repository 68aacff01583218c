"""A block of rows may live anywhere: two blocks together choose and know what one block of all rows does."""

import numpy as np
import pytest
import torch

from tests.pools import Pool, make_pool
from understudy import Surrogate
from understudy.core.engine import EXACT_CANDIDATES
from understudy.core.features import Features
from understudy.core.options import METHODS, Method
from understudy.core.rows import STEPS_PER_PASS, Rows
from understudy.core.utilities import choose


def anchored(pool: Pool, **options: object) -> Surrogate:
    s = Surrogate(pool.features, pool.n_classes, basis_size=15, dtype="float64", **options)  # type: ignore[arg-type]
    return s.anchor(pool.probs, [0, 1])


def shard(whole: Surrogate, pool: Pool, rows: slice) -> Rows:
    """Some of the surrogate's rows on their own, told nothing but the kernel and their predictions."""
    part = Rows(whole.parts.kernel, whole.options, Features(pool.features[rows]))
    probs = torch.from_numpy(pool.probs[rows])
    part.anchor(whole.parts.kernel, probs, has_learner=True)
    part.set_masks(
        whole.parts.rows.is_open[rows],
        ~whole.parts.rows.is_closed[: len(whole)][rows],
        whole.parts.rows.is_in_pool[rows],
    )
    return part


@pytest.mark.parametrize("method", METHODS)
def test_two_shards_follow_the_small_vectors_and_find_the_same_rows(method: Method) -> None:
    pool = make_pool(90, 4, seed=1)
    whole = anchored(pool, method=method)
    engine = whole.parts.engine
    assert engine is not None
    parts = [shard(whole, pool, slice(0, 50)), shard(whole, pool, slice(50, 90))]
    starts = [0, 50]
    np.testing.assert_allclose(parts[0].gram() + parts[1].gram(), engine.posterior.M, atol=1e-10)
    if method == "understudy":  # the mean row of the pool, from those of its parts
        middle = (len(parts[0]) * parts[0].mean_row() + len(parts[1]) * parts[1].mean_row()) / len(whole)
        np.testing.assert_allclose(middle, whole.parts.rows.middle, atol=1e-12)
    for part in parts:
        part.refresh(engine.posterior.R, engine.posterior.M)
    for _ in range(12):
        engine.settle()
        for part in parts:
            part.measure()
        weights = None
        if method == "paper":
            inverse = (parts[0].moments() + parts[1].moments()).inverse_std(engine.resolution, engine.least)
            weights = inverse * (engine.tally / engine.tally.sum())
        leaders = [part.best(weights, EXACT_CANDIDATES, 1e-10) for part in parts]
        rows = torch.cat([rows + start for (rows, _), start in zip(leaders, starts, strict=True)])
        values = torch.cat([values for _, values in leaders])
        found = int(rows[choose(rows, values)])
        assert whole.ask() == [found]
        whole.tell([found], pool.labels[[found]])
        for part, start in zip(parts, starts, strict=True):
            part.apply(engine.influence_steps, engine.mean_steps)
            if start <= found < start + len(part):
                part.close(torch.tensor([found - start]))
    engine.settle()
    np.testing.assert_allclose(torch.cat([part.h for part in parts]), whole.parts.rows.h, atol=1e-12)
    together = torch.cat([part.means.uncertainty() for part in parts])
    np.testing.assert_allclose(together, whole.parts.rows.means.uncertainty(), rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 2, 3, STEPS_PER_PASS + 1])
def test_many_answers_in_one_pass_are_many_answers(method: Method, count: int) -> None:
    pool = make_pool(90, 4, seed=2)
    together, apart = anchored(pool, method=method), anchored(pool, method=method)
    rows = np.arange(20, 20 + count)
    together.tell(rows, pool.labels[rows])
    for row in rows:
        apart.tell([row], pool.labels[[row]])
        assert apart.influence[row] >= 0  # reading applies what is queued
    np.testing.assert_allclose(together.influence, apart.influence, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(together.uncertainty, apart.uncertainty, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_more_answers_than_are_worth_a_pass_refresh_instead(method: Method) -> None:
    pool = make_pool(90, 4, seed=3)
    s = anchored(pool, method=method)
    s.tell(np.arange(20, 60), pool.labels[20:60])
    fresh = anchored(pool, method=method)
    for row in range(20, 60):
        fresh.tell([row], pool.labels[[row]])
        fresh.ask()
        fresh.release(list(fresh.parts.ledger.pending))
    np.testing.assert_allclose(s.influence, fresh.influence, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(s.mean, fresh.mean, atol=1e-10)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_covariances_are_the_product_for_any_number_of_vectors(count: int) -> None:
    s = anchored(make_pool(40, 3, seed=4))
    p = torch.from_numpy(np.random.default_rng(0).normal(size=(count, 15)))
    np.testing.assert_allclose(s.parts.rows.covariances(p), p @ s.parts.rows.W.T, atol=1e-12)
