import hashlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import wait_until
from understudy.errors import NotFound, NotStored, UnderstudyError
from understudy.sessions.training.artifacts import Artifacts, Predictions


@contextmanager
def files_no_longer_than(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def some_predictions(seed: int = 0) -> Predictions:
    probs = np.random.default_rng(seed).dirichlet(np.ones(3), 50).astype(np.float32)
    return Predictions(probs, np.array([4, 2]), np.array([0, 1]))


def test_a_file_is_named_by_its_content_whether_from_bytes_or_a_path(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "artifacts")
    content = os.urandom(3_000_000)
    (tmp_path / "source").write_bytes(content)
    key = artifacts.put(content, "bin")
    assert key == hashlib.sha256(content).hexdigest() == artifacts.put(tmp_path / "source", "bin")
    assert artifacts.path(key) == tmp_path / "artifacts" / f"{key}.bin"
    assert artifacts.path(key).read_bytes() == content
    assert len(list((tmp_path / "artifacts").iterdir())) == 1
    assert artifacts.verify(key)


def test_a_damaged_file_is_noticed_and_put_right_by_putting_it_again(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    key = artifacts.put(b"a model", "bin")
    artifacts.path(key).write_bytes(b"a m")
    assert not artifacts.verify(key)
    artifacts.put(b"a model", "bin")
    assert artifacts.verify(key)


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "0" * 63, "0" * 64, "G" * 64, "*" * 64, "0" * 64 + "\n"])
def test_what_is_no_hash_of_a_file_here_is_not_found(key: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Artifacts(tmp_path).path(key)
    assert not Artifacts(tmp_path).verify(key)


@pytest.mark.parametrize("suffix", ["", "/x", "../x", "x y", "A"])
def test_a_suffix_that_is_a_path_is_refused(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match="suffix"):
        Artifacts(tmp_path).put(b"", suffix)


def test_a_full_disk_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    with files_no_longer_than(100_000), pytest.raises(NotStored, match=r"cannot write to .*; make room"):
        artifacts.put(bytes(200_000), "bin")
    assert list(tmp_path.iterdir()) == []
    assert artifacts.verify(artifacts.put(bytes(200_000), "bin"))


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file")
    with pytest.raises(NotStored):
        Artifacts(tmp_path / "artifacts").put(b"x", "bin")


def test_many_writers_of_the_same_content_leave_one_whole_file(tmp_path: Path) -> None:
    artifacts, content = Artifacts(tmp_path), os.urandom(500_000)
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: artifacts.put(content, "bin"), range(24)))
    assert len(keys) == 1
    assert artifacts.verify(keys.pop())
    assert len(list(tmp_path.iterdir())) == 1


def test_a_writer_killed_at_any_moment_leaves_whole_files_and_drafts_that_can_be_tidied(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from understudy.sessions.training.artifacts import Artifacts\n"
        "while True: Artifacts(Path(sys.argv[1])).put(os.urandom(2_000_000), 'bin')"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    try:
        wait_until(lambda: len(list(tmp_path.glob("*.bin"))) >= 5)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    artifacts = Artifacts(tmp_path)
    artifacts.tidy()
    found = list(tmp_path.iterdir())
    assert len(found) >= 5
    assert all(artifacts.verify(path.stem) for path in found)


def test_predictions_come_back_as_they_were_and_the_same_have_the_same_hash(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    key = artifacts.put_predictions(some_predictions())
    assert artifacts.put_predictions(some_predictions()) == key != artifacts.put_predictions(some_predictions(1))
    found, given = artifacts.predictions(key), some_predictions()
    assert found.probs.dtype == np.float32
    for name in ("probs", "trained_on", "labels"):
        np.testing.assert_array_equal(getattr(found, name), getattr(given, name))


def test_predictions_that_are_damaged_or_something_else_are_refused_in_one_line(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    key = artifacts.put_predictions(some_predictions())
    artifacts.path(key).write_bytes(artifacts.path(key).read_bytes()[:-5])
    for broken in (key, artifacts.put(b"no predictions", "txt")):
        with pytest.raises(UnderstudyError, match="has no predictions") as refused:
            artifacts.predictions(broken)
        assert "\n" not in str(refused.value)
