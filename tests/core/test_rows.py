"""A block of rows follows steps of a few small vectors, many in one pass."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.blocks import blocks_of
from tests.pools import Pool, make_pool
from understudy import Surrogate
from understudy.core.options import METHODS, MODES_OF, Method
from understudy.core.rows import STEPS_PER_PASS


def anchored(pool: Pool, **options: object) -> Surrogate:
    s = Surrogate(pool.features, pool.n_classes, basis_size=15, dtype="float64", **options)  # type: ignore[arg-type]
    return s.anchor(pool.probs, [0, 1])


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
    (rows,) = blocks_of(s)
    np.testing.assert_allclose(rows.covariances(p), p @ rows.W.T, atol=1e-12)


class _HostReads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Operations that read values on the host, or send some from there: a CUDA graph cannot hold them."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "lift_fresh")

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(name in str(func) for name in self.FORBIDDEN):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("method", "mode"), [(method, mode) for method in METHODS for mode in MODES_OF[method] if mode != "lookahead"]
)
def test_a_step_whose_label_is_known_reads_nothing_on_the_host(method: Method, mode: str) -> None:
    """With few classes a processor's steps are those that a GPU records, so this can be seen without one."""
    pool = make_pool(300, 3, seed=9)
    s = Surrogate(pool.features, 3, basis_size=30, mode=mode, method=method).anchor(pool.probs, np.arange(20))
    s.rehearse(pool.labels, 2)
    engine = s.parts.engine
    assert engine is not None
    engine.settle()
    labels = torch.from_numpy(pool.labels)
    with _HostReads() as reads:
        for watch in (False, True):
            engine.step(labels, judge=True, watch=watch)
    assert reads.found == []
    with _HostReads() as reads:
        float(engine.best)
    assert reads.found  # they are noticed
