"""A pool in several blocks asks for the rows that it asks for in one, whatever happens to it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from tests.blocks import blocks_of
from tests.pools import make_pool
from understudy import Surrogate
from understudy.core.features import Features
from understudy.core.options import METHODS, MODES_OF, Method
from understudy.core.protocol import RowStorage
from understudy.core.split_rows import InMemory, SplitRows

SESSIONS = [(method, mode, 4, "float32") for method in METHODS for mode in MODES_OF[method]]
SESSIONS += [
    (method, mode, n_classes, dtype)
    for method, mode in (("understudy", "product"), ("paper", "combined"))
    for n_classes, dtype in ((4, "float64"), (40, "float32"))  # so many classes that means are deferred
]


def live(storage: RowStorage, method: Method, mode: str, n_classes: int, dtype: str) -> tuple[list[int], Surrogate]:
    """Every row that was asked for in a session with something of everything, and what it ended with."""
    pool, rng = make_pool(330, n_classes, seed=5), np.random.default_rng(11)
    n, events = 250, 60 if mode == "lookahead" else 220
    s = Surrogate(pool.features[:n], n_classes, basis_size=20, method=method, mode=mode, dtype=dtype, storage=storage)
    asked: list[int] = []
    for event in range(events):
        ledger, deed, some = s.parts.ledger, int(rng.integers(0, 15)), rng.choice(n, 3, replace=False)
        if event in (3, 90):
            s.anchor(pool.probs[: len(s)], [row for row in ledger.answers if row % 2])
        elif deed <= 5:
            rows = s.ask(1 + deed // 3)
            asked += rows.tolist()
            s.tell(rows, pool.labels[rows])
        elif deed == 6:
            asked += s.ask(3).tolist()
        elif deed == 7:
            late = s.pending[:2]
            s.tell(late, pool.labels[late])
        elif deed == 8 and len(ledger.answers) > 2:
            s.undo(2)
        elif deed == 9:
            s.release(s.pending[:1]).skip(some)
        elif deed == 10:
            s.unskip(some).undrop(some)
        elif deed == 11:
            s.drop(some[:2])
        elif deed == 12 and len(s) < 300:
            more = slice(len(s), len(s) + (2 if event % 2 else 25))
            s.extend(pool.features[more], pool.probs[more] if s.parts.is_anchored else None)
        elif deed == 13:
            asked += s.rehearse(np.resize(pool.labels, len(s)), 4).tolist()
        elif deed == 14:
            asked += s.leaders(3, among=np.arange(0, len(s), 2)).tolist()
            if len(s.pending):
                s.explain(int(s.pending[0]))
    return asked, s


@pytest.mark.parametrize(("method", "mode", "n_classes", "dtype"), SESSIONS)
def test_picks_are_the_same_in_any_number_of_blocks(method: Method, mode: str, n_classes: int, dtype: str) -> None:
    asked, whole = live(InMemory(), method, mode, n_classes, dtype)
    assert len(set(asked)) > (20 if mode == "lookahead" else 100)
    for blocks in (2, 5):
        same, split = live(InMemory(blocks), method, mode, n_classes, dtype)
        assert len(blocks_of(split)) == blocks
        assert same == asked
        exact = n_classes < 10 and dtype == "float64"
        rtol, atol = (1e-7, 1e-10) if exact else (1e-3, 1e-5)
        for name in ("mean", "variance", "influence", "uncertainty"):
            np.testing.assert_allclose(getattr(split, name), getattr(whole, name), rtol=rtol, atol=atol)
        row = int(whole.askable[0])
        ours, theirs = split.explain(row), whole.explain(row)
        assert ours.nearest == theirs.nearest
        assert ours.n_taught == theirs.n_taught


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [4, 40])
def test_a_state_moves_between_pools_of_any_number_of_blocks(method: Method, n_classes: int) -> None:
    pool = make_pool(120, n_classes, seed=3)
    s = Surrogate(pool.features, n_classes, basis_size=12, method=method).anchor(pool.probs, [0])
    s.tell(range(10, 20), pool.labels[10:20])
    for state in (s.state_dict(), s.state_dict(whole=True)):
        split = Surrogate.restore(pool.features, state, storage=InMemory(4))
        assert len(blocks_of(split)) == 4
        whole, back = (Surrogate.restore(pool.features, kept) for kept in (state, split.state_dict(whole=True)))
        picks = [one.rehearse(pool.labels, 5).tolist() for one in (whole, split, back)]
        assert picks[0] == picks[1] == picks[2]


def test_of_equal_rows_the_lowest_is_chosen_whatever_block_it_is_in() -> None:
    """Also where the first row that is near the best of its block is not near the best of all."""
    s = Surrogate(make_pool(90, 3, seed=1).features, 3, basis_size=10, storage=InMemory(3), dtype="float64")
    rows = s._ready().rows
    assert isinstance(rows, SplitRows)
    rows.measure()
    near = 1e-3
    for block, values in zip(rows.blocks, ([], [0.9985, 0.9995], [1.0, 1.0]), strict=True):
        block.measures[:, :] = 0.5  # type: ignore[attr-defined]
        for row, value in enumerate(values):
            block.measures[:, 3 + row] = value**0.5  # type: ignore[attr-defined]
    found = rows.best(None, 8, near)
    assert found.rows[0] == 30 + 4  # 33 is near the best of its block, which is 34, but not near 63
    assert found.rows[1:4].sort().values.tolist() == [34, 63, 64]
    np.testing.assert_allclose(found.values[0], 0.9995)


def test_a_pick_is_one_question() -> None:
    """What goes to the blocks otherwise returns nothing, so that it can be sent along with that question."""
    pool = make_pool(200, 4, seed=2)
    s = Surrogate(pool.features, 4, basis_size=20, storage=InMemory(3)).anchor(pool.probs, [0, 1])
    s.tell(s.ask(), [0])
    rows = s.parts.rows
    assert isinstance(rows, SplitRows)
    questions: list[str] = []
    ask = rows._ask

    def counted(name: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        questions.append(name)
        return ask(name, arguments)

    rows._ask = counted  # type: ignore[method-assign]
    for _ in range(5):
        (row,) = s.ask()
        s.tell([row], [1])
    assert questions == ["best"] * 5
    questions.clear()
    batch = s.ask(4)  # each of them accounts for those before
    assert questions == ["best"] * 4
    s.tell(batch, [0, 1, 2, 3])
    s.ask()
    assert questions == ["best"] * 4 + ["take", "best"]
    s.reserve([row for row in range(50, 60) if row in s.askable])
    questions.clear()
    s.ask()
    assert questions == ["take", "best"]
    questions.clear()
    s.tell(s.askable[:20], np.zeros(20, int))
    s.undo(15)
    assert questions == ["take", "take"]


def test_blocks_take_their_part_of_the_features_without_a_copy() -> None:
    features = Features(np.arange(12.0).reshape(6, 2), np.arange(8.0).reshape(4, 2))
    part = features.between(4, 8)
    np.testing.assert_array_equal(part.take(np.arange(4), torch.float64, torch.device("cpu"))[:, 0], [8, 10, 0, 2])
    assert all(np.shares_memory(ours, theirs) for ours, theirs in zip(part.parts, features.parts, strict=True))
    assert features.between(0, 10) is features


def test_there_are_no_more_blocks_than_rows() -> None:
    s = Surrogate(np.random.default_rng(0).normal(size=(3, 2)), 2, storage=InMemory(5))
    assert len(s.parts.rows.blocks) == 3  # type: ignore[attr-defined]
    assert sorted(s.ask(3).tolist()) == [0, 1, 2]
