"""Rows on workers are the rows of this process: the same picks and numbers, whatever befalls the workers."""

import gc
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from tests.distributed.one_process import ray_in_this_process
from tests.pools import make_pool, relative_error
from understudy import Surrogate, UnderstudyError
from understudy.core.features import Features
from understudy.core.options import Method
from understudy.core.protocol import RowStorage
from understudy.core.split_rows import InMemory
from understudy.distributed import holders
from understudy.distributed.block import Block
from understudy.distributed.holders import SLOW_ROUNDS
from understudy.distributed.remote_rows import RayStorage, RemoteRows

ROOT = Path(__file__).parents[2]
SESSIONS: list[tuple[Method, str, int]] = [
    ("understudy", "product", 4), ("paper", "lookahead", 3),
    ("paper", "combined", 40),  # so many classes that means are deferred
]  # fmt: skip
QUANTITIES = ("mean", "variance", "influence", "uncertainty", "utility")


def life(storage: RowStorage, method: Method, mode: str, n_classes: int) -> tuple[list[int], Surrogate]:
    """Every row that was asked for in a session with something of everything, and what it ended with."""
    pool, rng = make_pool(330, n_classes, seed=5), np.random.default_rng(11)
    n, events = 250, 25 if mode == "lookahead" else 70
    s = Surrogate(
        pool.features[:n], n_classes, basis_size=20, method=method, mode=mode, basis=basis_of(method, n_classes),
        storage=storage,
    )  # fmt: skip
    asked: list[int] = []
    for event in range(events):
        ledger, deed, some = s.parts.ledger, int(rng.integers(0, 15)), rng.choice(n, 3, replace=False)
        if event in (3, 45):
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
        if event % 30 == 29:
            assert s.parts.engine is not None
            s.parts.engine.refresh()
    return asked, s


def basis_of(method: Method, n_classes: int) -> Any:
    """The same basis for all: sums over blocks would make it another in its last digits."""
    pool = make_pool(20, n_classes, seed=6)
    return (pool.features, pool.probs) if method == "paper" else pool.features


@pytest.mark.parametrize(("method", "mode", "n_classes"), SESSIONS)
def test_workers_that_are_lost_at_random_change_no_number(method: Method, mode: str, n_classes: int) -> None:
    picked, _ = life(InMemory(3), method, mode, n_classes)
    with ray_in_this_process():
        asked, calm = life(RayStorage(3), method, mode, n_classes)
        expected = {name: getattr(calm, name) for name in QUANTITIES}
        assert not any(state.restarts for state in rows_of(calm).holders.states)
    with ray_in_this_process(faults=0.06) as process:
        same, s = life(RayStorage(3), method, mode, n_classes)
        assert process.losses > 20
        assert same == asked == picked
        for name, values in expected.items():
            assert np.array_equal(getattr(s, name), values, equal_nan=True), name
        assert sum(state.restarts for state in rows_of(s).holders.states) > 5


def rows_of(s: Surrogate) -> RemoteRows:
    rows = s.parts.rows
    assert isinstance(rows, RemoteRows)
    return rows


def test_what_a_label_sends_to_a_block_is_one_call_with_a_few_bytes() -> None:
    pool, sent = make_pool(60, 3), []
    with ray_in_this_process(), pytest.MonkeyPatch.context() as patch:
        s = Surrogate(pool.features, 3, basis_size=10, storage=RayStorage(2)).anchor(pool.probs, [0])
        s.tell(s.ask(), [1])
        follow = Block.follow

        def note(block: Block, sealed: Any) -> Any:
            reply = follow(block, sealed)
            sent.append((type(sealed), type(reply), len(sealed) < 5000, len(reply) < 5000))
            return reply

        patch.setattr(Block, "follow", note)
        s.tell(s.ask(), [2])
    assert sent == [(bytes, bytes, True, True)] * 2, "one for each block"


def test_a_copy_has_the_same_workers_and_is_forgotten_with_its_surrogate() -> None:
    pool = make_pool(80, 3)

    def begun(storage: RowStorage) -> Surrogate:
        s = Surrogate(pool.features[:60], 3, basis=pool.features[:10], width=1.0, storage=storage)
        s.anchor(pool.probs[:60], [0])
        return s.tell(s.ask(), [1])

    with ray_in_this_process():
        s, twin = begun(RayStorage(2)), begun(InMemory(2))
        other, actors = s.copy(), rows_of(s).holders.actors
        other.extend(pool.features[60:], pool.probs[60:])
        other.tell(other.ask(2), [0, 2])
        actors[0].lose()  # both are made again, each as it was
        assert rows_of(other).holders.actors is actors
        np.testing.assert_array_equal(s.ask(3), twin.ask(3))
        assert len(other.ask(60)) == 60, "some of those that the other does not have"
        assert [len(actor.object.copies) for actor in actors] == [2, 2]
        del other
        gc.collect()
        s.ask()
        assert [len(actor.object.copies) for actor in actors] == [1, 1]


def test_a_cluster_that_is_gone_is_a_line() -> None:
    pool = make_pool(60, 3)
    with ray_in_this_process() as process, pytest.MonkeyPatch.context() as patch:
        s = Surrogate(pool.features, 3, basis_size=10, storage=RayStorage(2)).anchor(pool.probs, [0])
        s.tell(s.ask(), [1])
        patch.setattr(process, "wait", lambda calls, **_: ([], list(calls)))  # nobody answers, and no head is there
        with pytest.raises(UnderstudyError, match=r"Ray cluster at 127.0.0.1:9 is gone .*; what was labelled is kept"):
            s.ask()


def test_a_slow_block_is_named_once_and_may_be_quick_again(caplog: pytest.LogCaptureFixture) -> None:
    pool = make_pool(60, 3)
    with ray_in_this_process():
        rows = rows_of(Surrogate(pool.features, 3, basis_size=10, storage=RayStorage(3)))
        note, states = rows.holders._note_slow, rows.holders.states
        for _ in range(SLOW_ROUNDS + 3):
            note({0: 0.01, 1: 0.9, 2: 0.02})
        assert [state.is_slow for state in states] == [False, True, False]
        assert [line for line in caplog.messages if "slow" in line] == [
            "the block of rows 20 to 39 is slow: 0.90 s where the others take 0.01 s; everybody waits for it"
        ]
        assert rows.slow_or_lost() == [
            "the block of rows 20 to 39 has been slow for 5 rounds: 0.90 s where the others take 0.01 s"
        ]
        for _ in range(2):
            note({0: 0.01, 1: 1.9, 2: 0.02})
        assert "slow for 10 rounds: 1.90 s" in rows.slow_or_lost()[0]
        note({0: 0.01, 1: 0.02, 2: 0.02})
        assert not states[1].is_slow
        assert rows.slow_or_lost() == []


def test_a_block_that_does_not_answer_is_named_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(60, 3)
    with ray_in_this_process() as process:
        rows = rows_of(Surrogate(pool.features, 3, basis_size=10, storage=RayStorage(3)))
        rows.row_sum()
        seen: list[list[str]] = []

        def wait(calls: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
            """All but the last one answer; that takes half a minute, as the clock says."""
            seen.append(rows.slow_or_lost())
            return (calls[:-1], calls[-1:]) if len(seen) < 3 else (calls, [])

        clock = iter(range(0, 1000, 15))
        monkeypatch.setattr(process, "wait", wait)
        monkeypatch.setattr(holders, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        monkeypatch.setattr(holders, "check_reachable", lambda _: None)
        rows.row_sum()
        line = (
            "the block of rows 40 to 59 on 10.0.0.3 has not answered for {} seconds; if it was lost, it waits for a "
            "machine"
        )
        assert seen == [[], [line.format(15)], [line.format(30)]]
        assert rows.slow_or_lost() == []


def test_a_set_up_goes_on_from_what_its_folder_holds(tmp_path: Path) -> None:
    pool, kept = make_pool(400, 3, n_columns=6), tmp_path / "kept"
    np.save(tmp_path / "features.npy", pool.features)

    def set_up() -> tuple[np.ndarray, np.ndarray]:
        features = np.load(tmp_path / "features.npy", mmap_mode="r")
        s = Surrogate(features, 3, basis_size=12, storage=RayStorage(2, folder=kept)).anchor(pool.probs, [0])
        return s.parts.kernel.U.numpy(), s.utility

    with ray_in_this_process(faults=0.05):
        first = set_up()
        files = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
        assert len([path for path in files if path.name == "W.npy"]) == 2
        some = sorted(path for path in files if path.suffix == ".pickle")
        for path in some[::3]:  # as if it had been cut short
            path.unlink()
        again = set_up()
        assert set(kept.rglob("*")) == set(files)
        assert all(path.stat().st_mtime_ns == files[path] for path in files if path not in some[::3])
        assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
        np.save(tmp_path / "features.npy", pool.features + 1)  # another file of the same name
        set_up()
        assert len(list(kept.rglob("W.npy"))) == 4


def test_a_file_that_is_another_on_a_worker_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "features.npy"
    np.save(path, make_pool(50, 3).features)
    with ray_in_this_process():
        features = RayStorage(2).place(Features(np.load(path, mmap_mode="r")))
        features.require_finite()
        path.write_bytes(path.read_bytes() + b"more")
        with pytest.raises(UnderstudyError, match="is another file here than where it was opened"):
            features.digest()


# -- on Ray itself ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One for all tests: to start it takes longer than they do."""
    with chdir(ROOT):
        ray.init(
            address="local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
            object_store_memory=2 * 10**8,
        )  # fmt: skip
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_pool_on_ray_goes_on_when_a_worker_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    pool, asked = make_pool(3000, 4, seed=2), []
    ours, here = (
        Surrogate(pool.features, 4, basis_size=30, storage=storage).anchor(pool.probs, [0, 1])
        for storage in (RayStorage(3, cpus=0.5), InMemory(3))
    )
    assert relative_error(ours.parts.kernel.U.numpy(), here.parts.kernel.U.numpy()) < 1e-6
    assert ours.parts.kernel.input_bandwidth == pytest.approx(here.parts.kernel.input_bandwidth, rel=1e-9)
    for turn in range(20):
        row = ours.ask()
        asked.append((row.tolist(), here.ask().tolist()))
        for s in (ours, here):
            s.tell(row, pool.labels[row])
        if turn == 10:
            os.kill(rows_of(ours).status()[1].process, signal.SIGKILL)
    assert all(one == other for one, other in asked)
    assert [state.restarts for state in rows_of(ours).status()] == [0, 1, 0]
    assert "the block of rows 1,000 to 1,999 on" in caplog.text
    assert "was lost; it is made again" in caplog.text
    np.testing.assert_allclose(ours.mean, here.mean, atol=1e-5)
