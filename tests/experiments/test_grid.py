"""Units are played once, by whoever comes first, and one that fails does not hold the others up."""

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from filelock import FileLock

from tests.experiments.small import LEARNER, SCHEDULE, dataset
from tests.waiting import wait_until
from tests.warm_training import WarmProcess
from understudy import UnderstudyError
from understudy.experiments import grid
from understudy.experiments.compare import Comparison, compare
from understudy.experiments.grid import on_this_machine, units_of
from understudy.experiments.results import CEILING, OFTEN, SELECTION_ONLY
from understudy.experiments.run import Unit

ROOT = Path(__file__).parents[2]
BROKEN = '''
import numpy as np
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks

class Broken:
    """Chooses one round long."""
    def __init__(self, why=""):
        self.why = why
    @property
    def needs(self):
        return Needs()
    def select(self, view, n, rng):
        if view.is_labelled.sum() > 10:
            raise ValueError("this cannot\\nwork")
        rows = view.candidates(n).cpu().numpy()[:n]
        return Picks(rows, np.zeros(n))
'''
DEADLY = """
import os
import signal
import time
from pathlib import Path
from understudy.strategies.random_rows import Random

class Deadly(Random):
    def select(self, view, n, rng):
        while not list(Path(__file__).parent.glob("out/errors/*")):  # the other failed
            time.sleep(0.01)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
"""
# A process of the same comparison; says so when it begins to work.
PLAY = """
import sys
from tests.experiments.small import LEARNER, SCHEDULE, dataset
from understudy.experiments.compare import compare
if __name__ == "__main__":
    out, jobs, *strategies = sys.argv[1:]
    made = compare(dataset(), strategies, out=out, repeats=2, schedule=SCHEDULE, learner=LEARNER)
    print("ready", flush=True)
    made.run(jobs=int(jobs), progress=False)
"""


# A script that forgets that processes it starts read it again.
UNGUARDED = PLAY.replace('if __name__ == "__main__"', "if True")


def made(out: Path, *strategies: str, repeats: int = 2, controls: bool = False) -> Comparison:
    return compare(
        dataset(), strategies, out=out, repeats=repeats, schedule=SCHEDULE, learner=LEARNER, controls=controls
    )


def results(out: Path) -> bytes:
    return (out / "results.parquet").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Margin and learning_loss with both controls, in one process and without a break."""
    out = tmp_path_factory.mktemp("whole")
    assert made(out, "margin", "learning_loss", controls=True).run(jobs=1, progress=False).failed == {}
    return out


def started(out: Path, jobs: int, *strategies: str) -> "subprocess.Popen[str]":
    script = out.parent / "play.py"  # a file: processes that it starts read it again
    script.write_text(PLAY)
    return subprocess.Popen(
        [sys.executable, str(script), str(out), str(jobs), *strategies],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "OMP_NUM_THREADS": "1"},
    )


def test_repetitions_come_one_after_the_other_and_the_longest_first() -> None:
    found = units_of(["margin", "badge", OFTEN, CEILING], range(2), 1)
    names = [OFTEN, CEILING, "margin", "badge"]
    assert found == tuple(Unit(name, (repeat,)) for repeat in range(2) for name in names)
    assert [unit.repeats for unit in units_of(["margin"], range(5), 2)] == [(0, 1), (2, 3), (4,)]


def test_two_processes_on_one_folder_at_once_give_what_one_gives(
    whole: Path, tmp_path: Path, warm: WarmProcess
) -> None:
    out = tmp_path / "out"
    with ThreadPoolExecutor(2) as players:
        ends = [players.submit(warm.run, PLAY, out, 1, "margin", "learning_loss") for _ in range(2)]
        assert [end.result() for end in ends] == [0, 0]
    assert results(out) == results(whole)
    assert not (out / "errors").exists()


def test_a_strategy_that_raises_is_one_line_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_strategy_of_a_test.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    out, spec = tmp_path / "out", "broken_strategy_of_a_test:Broken"
    outcome = made(out, spec, "margin", repeats=1).run(jobs=1, progress=False)
    (line,) = outcome.failed.values()
    assert list(outcome.failed) == [f"{spec}, repetition 0"]
    assert re.match(r"ValueError: this cannot \(\S*\.py, line 15, in select; traceback in ", line)
    assert "\n" not in line
    trace = Path(line.partition("traceback in ")[2].rstrip(")"))
    assert "this cannot\nwork" in trace.read_text()
    found = outcome.results
    assert [len(found.picks("margin", 0)), len(found.picks(spec, 0))] == [4, 2]  # what it did is not lost
    assert found.curves().schedule == SCHEDULE[:2]


def test_a_round_that_was_lost_is_played_again(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    comparison = made(out, "margin", "learning_loss", repeats=2, controls=True)
    comparison.run(jobs=1, progress=False)
    assert results(out) == results(whole)
    lost = [("margin", 0, 14), ("learning_loss" + SELECTION_ONLY, 1, 14), (CEILING, 0, 120)]
    for name, repeat, labels in lost:
        comparison.task.store.path(name, repeat, labels).unlink()
    assert not all(map(comparison.task.is_done, comparison.task.units))
    comparison.run(jobs=1, progress=False)
    assert results(out) == results(whole)


def test_a_broken_round_is_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    comparison = made(out, "margin", repeats=1)
    comparison.run(jobs=1, progress=False)
    before = results(out)
    path = comparison.task.store.path("margin", 0, 14)
    path.write_bytes(path.read_bytes()[:50])
    comparison.task.store.path("margin", 0, 26).unlink()
    with pytest.raises(Exception, match=re.escape(f"{path} is truncated or not a Parquet file; delete it")):
        comparison.run(jobs=1, progress=False)
    path.unlink()
    comparison.run(jobs=1, progress=False)
    assert results(out) == before


def test_a_script_without_a_guard_ends_with_a_line_that_says_what_is_missing(tmp_path: Path) -> None:
    """Features fill a pipe: a process that dies before it has read them must not hold up its starter."""
    script, out = tmp_path / "play.py", tmp_path / "out"
    script.write_text(UNGUARDED.replace("dataset()", "'digits'").replace("schedule=SCHEDULE", "schedule=(20, 30)"))
    done = subprocess.run(
        [sys.executable, str(script), str(out), "2", "random", "margin"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("understudy.errors.UnderstudyError: ")]
    guard = "put the script's code under `if __name__ == '__main__':`, or pass jobs=1"
    assert said[0].endswith(f"a worker process of a comparison ran its script again; {guard}")
    assert said[-1].endswith(f"the worker processes of the comparison failed to start; {guard}")
    assert not (out / "rounds").exists()


def test_a_process_that_is_killed_is_one_line_with_those_that_failed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly_strategy_of_a_test.py").write_text(DEADLY)
    (tmp_path / "broken_strategy_of_a_test.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    out, names = tmp_path / "out", ("broken_strategy_of_a_test:Broken", "deadly_strategy_of_a_test:Deadly")
    comparison = made(out, *names, repeats=1)
    with pytest.raises(UnderstudyError, match="a worker process of the comparison was killed") as caught:
        comparison.run(jobs=2, progress=False)
    assert str(caught.value).startswith(f"{names[0]}, repetition 0 failed: ValueError: this cannot (")
    assert "\n" not in str(caught.value)


def test_folders_within_that_cannot_be_written_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_strategy_of_a_test.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    out = tmp_path / "out"
    comparison = made(out, "broken_strategy_of_a_test:Broken", repeats=1)
    (out / "errors").write_text("a file, where a folder should be")
    (line,) = comparison.run(jobs=1, progress=False).failed.values()
    assert re.fullmatch(r"ValueError: this cannot \(.*in select; its traceback cannot be written to .*errors.*\)", line)
    for lock in (out / "locks").iterdir():
        lock.unlink()
    (out / "locks").rmdir()
    (out / "locks").write_text("a file, where a folder should be")
    with pytest.raises(UnderstudyError, match=r"cannot write to .*locks: File exists; choose another folder"):
        comparison.run(jobs=1, progress=False)


def test_a_strategy_with_a_long_name_is_played_and_its_failure_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_strategy_of_a_test.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = f"broken_strategy_of_a_test:Broken(why='{'long ' * 60}')"
    outcome = made(tmp_path / "out", spec, repeats=1).run(jobs=1, progress=False)
    assert "in select; traceback in " in outcome.failed[f"{spec}, repetition 0"]
    assert len(outcome.results.picks(spec, 0)) == 2


def test_what_others_are_at_is_waited_for_and_taken_over_when_they_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = made(tmp_path, "margin", repeats=1)
    (tmp_path / "locks").mkdir()
    lock = FileLock(tmp_path / "locks" / "margin-0.lock")
    lock.acquire()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        assert not list(tmp_path.glob("rounds/*"))
        if len(waits) == 3:
            lock.release()

    monkeypatch.setattr(time, "sleep", sleep)
    failed = on_this_machine(1)(comparison.task, lambda: None)
    assert (failed, len(waits), comparison.task.stored()) == ({}, 3, 4)


def test_a_unit_is_not_played_while_any_of_its_repetitions_is(tmp_path: Path) -> None:
    task = made(tmp_path, "margin", repeats=3).task
    block, single = Unit("margin", (0, 1, 2)), Unit("margin", (1,))
    with task.locked(single):
        assert not task.is_free(block)
        assert grid.play_unit(task, block) == "busy"
        assert task.is_free(Unit("margin", (0,)))  # a lock that was not had is not held
    assert task.is_free(block)
    assert task.is_free(single)


def running() -> dict[int, int]:
    """The parent of every process that has not ended."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            if state != "Z":
                found[int(path.parent.name)] = int(parent)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nobody_is_left_behind_when_the_first_process_is_ended(
    how: signal.Signals, whole: Path, tmp_path: Path
) -> None:
    """Killed outright it cannot tell its processes; interrupted from a terminal all of them hear of it."""
    out = tmp_path / "out"
    player = started(out, 2, "margin", "learning_loss")
    while not list(out.glob("rounds/*/*/*.parquet")):
        assert player.poll() is None
        time.sleep(0.01)
    workers = [pid for pid, parent in running().items() if parent == player.pid]
    assert len(workers) >= 2
    if how == signal.SIGINT:
        os.killpg(player.pid, how)
    else:
        player.kill()
    player.communicate()
    assert player.returncode != 0
    wait_until(lambda: not running().keys() & set(workers))
    # What was stored is as good as any other: no half training, no half file.
    made(out, "margin", "learning_loss", controls=True).run(jobs=1, progress=False)
    assert results(out) == results(whole)
