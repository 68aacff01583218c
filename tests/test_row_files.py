"""Rows in files: the picks are those of rows in memory, a kill loses one segment, and nothing large is in memory."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.blocks import column
from tests.core.test_split_rows import live
from tests.pools import make_pool
from understudy import Surrogate, UnderstudyError, row_files
from understudy.core import kernels
from understudy.core.basis import centre_and_spread
from understudy.core.checks import bytes_of
from understudy.core.features import Features
from understudy.core.kernels import mean_distance
from understudy.core.options import METHODS, Method, Options
from understudy.core.rows import bytes_besides_rows, compute_rows
from understudy.core.split_rows import InMemory
from understudy.errors import UsageError
from understudy.row_files import FileRows, InFiles

POOL = make_pool(700, 4, seed=8)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment holds one block of features, which here is 64 rows."""
    monkeypatch.setattr(row_files, "BYTES_PER_SEGMENT", 1)
    monkeypatch.setattr("understudy.core.features.ROWS_PER_BLOCK", {"cpu": 64})


def made(folder: Path, features: Any = POOL.features, **options: Any) -> Surrogate:
    return Surrogate(features, 4, basis_size=20, storage=InFiles(folder), **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", ["uniform", "influence"])
def test_a_whole_session_is_that_of_rows_in_memory_bit_for_bit(method: Method, mode: str, tmp_path: Path) -> None:
    asked, here = live(InMemory(), method, mode, 4, "float32")
    same, there = live(InFiles(tmp_path), method, mode, 4, "float32")
    assert isinstance(there.parts.rows, FileRows)
    assert len(there.parts.rows.blocks) == 2  # rows that joined are in memory
    assert same == asked
    # Until rows join, there is one block, and every sum is that of one block.
    here, there = (
        Surrogate(POOL.features, 4, basis_size=20, method=method, mode=mode, storage=storage)
        for storage in (InMemory(), InFiles(tmp_path))
    )
    for s in (here, there):
        s.anchor(POOL.probs, [0, 1]).tell([5, 6], [1, 2]).drop([9])
        s.ask(3)
        s.undo()
    assert here.rehearse(POOL.labels, 60).tolist() == there.rehearse(POOL.labels, 60).tolist()
    ours, theirs = here.state_dict(), there.state_dict(whole=True)
    assert ours.keys() == theirs.keys()  # what is in files already is not saved again
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value)
    again = Surrogate.restore(POOL.features, theirs, storage=InFiles(tmp_path))
    assert again.rehearse(POOL.labels, 20).tolist() == here.rehearse(POOL.labels, 20).tolist()


@pytest.mark.usefixtures("small_segments")
def test_basis_and_rows_are_found_again_and_only_by_the_pool_they_belong_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(tmp_path)
    files = sorted(path.name for path in tmp_path.rglob("*"))
    computed: list[int] = []

    def compute(kernel: Any, features: Features, *out: Any) -> None:
        computed.append(len(features))
        compute_rows(kernel, features, *out)

    monkeypatch.setattr(row_files, "compute_rows", compute)
    with monkeypatch.context() as patch:
        patch.setattr("understudy.core.basis.find_centres", None)  # a call would fail
        second = made(tmp_path)
    assert not computed
    assert sorted(path.name for path in tmp_path.rglob("*")) == files
    np.testing.assert_array_equal(column(first, "W"), column(second, "W"))
    np.testing.assert_array_equal(column(first, "stats"), column(second, "stats"))
    other = POOL.features.copy()
    other[-1, -1] += 1e-3
    for features, options in (
        (other, {}),
        (POOL.features, {"random_state": 1}),
        (POOL.features, {"width": 0.7}),
        (POOL.features, {"dtype": "float64"}),
        (POOL.features, {"method": "paper"}),
    ):
        computed.clear()
        s = made(tmp_path, features, **options)
        assert sum(computed) == 700
        memory = Surrogate(features, 4, basis_size=20, **options)
        for one in (s, memory):
            one.anchor(POOL.probs, [0])
        np.testing.assert_array_equal(column(s, "W"), column(memory, "W"))


KILLED = """
    import os, signal, sys
    import numpy as np
    from tests.pools import make_pool
    from understudy import Surrogate, row_files
    from understudy.core import features
    row_files.BYTES_PER_SEGMENT, features.ROWS_PER_BLOCK = 1, {"cpu": 64}
    calls, compute = [], row_files.compute_rows
    def counted(kernel, features, W, *lam):
        compute(kernel, features, W, *lam)
        calls.append(1)
        if len(calls) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
    row_files.compute_rows = counted
    pool = make_pool(700, 4, seed=8)
    Surrogate(pool.features, 4, basis_size=20, method=sys.argv[3], storage=row_files.InFiles(sys.argv[1]))
    print(len(calls))
"""


@pytest.mark.parametrize("method", METHODS)
def test_after_a_kill_the_finished_segments_are_kept(method: Method, tmp_path: Path) -> None:
    def run(kill_at: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(kill_at), method]
        path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
        return subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)

    assert run(5).returncode == -signal.SIGKILL  # while the fifth was not yet written
    (partial,) = tmp_path.rglob("rows.partial")
    with partial.open("r+b") as file:  # what an unfinished segment may hold
        file.seek(4 * 64 * 20 * 4)
        file.write(b"\xff" * 64 * 20 * 4)
    assert not list(tmp_path.rglob("rows"))
    assert run(3).returncode == -signal.SIGKILL
    finished = run(0)
    assert finished.stdout.strip() == str(11 - 4 - 2), finished.stderr
    assert not [path.name for path in tmp_path.rglob("*") if path.suffix in (".tmp", ".partial", ".json")]
    s, memory = made(tmp_path, method=method), Surrogate(POOL.features, 4, basis_size=20, method=method)
    for one in (s, memory):
        one.anchor(POOL.probs, [0])
    np.testing.assert_allclose(column(s, "W"), column(memory, "W"), rtol=1e-4, atol=1e-6)  # other sizes of blocks
    assert s.ask(5).tolist() == memory.ask(5).tolist()


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("at", ["the start", "a segment"])
def test_a_full_disk_is_one_line_and_leaves_nothing_broken(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writes = iter(range(100))

    real = os.pwrite

    def write(*given: Any) -> int:
        if next(writes) > 6:
            full()
        return real(*given)

    with monkeypatch.context() as patch:
        if at == "the start":
            patch.setattr(os, "posix_fallocate", full)
        else:
            patch.setattr(os, "pwrite", write)
        with pytest.raises(
            UnderstudyError, match=r"is full: 0\.1 MiB are needed there for the rows of this pool; free"
        ):
            made(tmp_path)
    s = made(tmp_path)
    np.testing.assert_array_equal(column(s, "W"), column(Surrogate(POOL.features, 4, basis_size=20), "W"))


def test_where_nothing_can_be_written_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnderstudyError, match=r"cannot write rows to .*; pass another folder"):
        made(tmp_path / "file")


def test_two_processes_do_not_write_the_same_rows(tmp_path: Path) -> None:
    with (
        row_files._sole_use(tmp_path),
        pytest.raises(UnderstudyError, match="another process is computing the rows in"),
        row_files._sole_use(tmp_path),
    ):
        pass


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the largest tensor that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        owned = [one for one in (out if isinstance(out, tuple | list) else [out]) if isinstance(one, torch.Tensor)]
        for one in owned:
            size = one.untyped_storage().nbytes()
            if size > self.numbers and not self._is_mapped(one):
                self.numbers = size
        return out

    @staticmethod
    def _is_mapped(one: torch.Tensor) -> bool:
        return any(start <= one.untyped_storage().data_ptr() < end for start, end in mappings())


def mappings() -> list[tuple[int, int]]:
    """Where files of rows are mapped in this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    places = [line.split()[0].split("-") for line in lines if "/rows-" in line]
    return [(int(start, 16), int(end, 16)) for start, end in places]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux says what is mapped where")
@pytest.mark.parametrize("method", METHODS)
def test_nothing_of_the_size_of_all_rows_is_ever_in_memory(
    method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "BYTES_PER_SEGMENT", 2**16)
    pool = make_pool(20_000, 3, seed=2)
    rows, labels = 20_000 * 60 * 4, pool.labels
    with Largest() as largest:  # type: ignore[no-untyped-call]
        s = Surrogate(pool.features, 3, basis_size=60, method=method, storage=InFiles(tmp_path))
        s.anchor(pool.probs, [0, 1])
        for _ in range(3):
            row = s.ask()
            s.tell(row, labels[row])
        s.ask(2)
        s.undo()
        s.anchor(pool.probs, [0, 1])
        s.state_dict(whole=True)
        assert s.explain(int(s.askable[0])).prediction
    assert largest.numbers < rows / 2
    with Largest() as largest:  # type: ignore[no-untyped-call]  # it can fail
        Surrogate(pool.features, 3, basis_size=60, method=method)
    assert largest.numbers >= rows


def test_a_bound_that_is_too_low_is_refused_at_once_with_what_to_do(tmp_path: Path) -> None:
    features = np.broadcast_to(np.float32(1.0), (10_000_000, 64))
    with pytest.raises(
        UnderstudyError, match=r"10,000,000 rows with 256 basis points and 10 classes take 12\.\d GiB"
    ) as e:
        InMemory(memory="8 GiB").require_room(len(features), 256, 10, Options.of(), torch.device("cpu"))
    assert "keep rows in files with storage=InFiles(folder)" in str(e.value)
    InFiles(tmp_path, "8 GiB").require_room(len(features), 256, 10, Options.of(), torch.device("cpu"))
    with pytest.raises(
        UnderstudyError, match=r"take 4\.\d GiB of memory besides the rows in files, more than memory='2 GiB'"
    ):
        InFiles(tmp_path, "2 GiB").require_room(len(features), 256, 10, Options.of(), torch.device("cpu"))
    with pytest.raises(UnderstudyError, match=r"700 rows with 20 basis points"):
        Surrogate(POOL.features, 4, basis_size=20, storage=InMemory(memory=1000))
    s = Surrogate(
        POOL.features, 4, basis_size=20, storage=InMemory(memory=700 * (80 + bytes_besides_rows(4, Options.of())))
    )
    with pytest.raises(UnderstudyError, match=r"701 rows with 20 basis points"):
        s.extend(POOL.features[:1])
    assert len(s) == 700
    with pytest.raises(UnderstudyError, match=r"more than memory='50 KB'"):
        Surrogate.restore(POOL.features, s.state_dict(), storage=InMemory(memory="50 KB"))


def test_rows_in_files_are_for_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rows in files are read by the CPU, but device is 'cuda'; leave storage out"):
        InFiles(tmp_path).require_room(10, 5, 2, Options.of(), torch.device("cuda"))


@pytest.mark.parametrize(
    ("text", "size"), [("8 GiB", 2**33), ("1.5gb", 1_500_000_000), (" 10 kB ", 10_000), ("7 B", 7), (123, 123)]
)
def test_sizes_are_read_as_people_write_them(text: Any, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["8", "GiB", "0 GB", -1, 0, True, None, 1.5, "8 GiB or so"])
def test_what_is_no_size_is_refused(text: Any) -> None:
    with pytest.raises(UsageError, match='memory must be a number of bytes or a text like "8 GiB"; got'):
        bytes_of(text)


def test_the_mean_distance_of_a_large_pool_is_that_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    features = Features(make_pool(6000, 4, seed=3).features)
    origin, spread = centre_and_spread(features, torch.device("cpu"))
    exact = mean_distance(features, origin, spread, np.random.default_rng(0))
    monkeypatch.setattr(kernels, "SAMPLED_POOL", 5999)
    monkeypatch.setattr(kernels, "PAIRED_SAMPLE", 3000)
    sampled = mean_distance(features, origin, spread, np.random.default_rng(0))
    assert sampled != exact
    assert sampled == pytest.approx(exact, rel=2e-2)
