"""What holds for every test: a limit of time, interrupts that arrive, and blocks of Python in the docs that run.

Every Python block of README.md and docs/*.md is a test. The blocks of a page share their names, top to bottom.
Those of the tutorial are scripts, and its commands count too: tests/test_tutorial.py follows it.
"""

import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

# Tests are small. Threads gain nothing there, and waiting for a busy core costs more than the work.
torch.set_num_threads(1)

# Tests start some two hundred processes, which would all compile the package again where bytecode is not to be kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["README.md", "docs/*.md", "docs/strategies/*.md"],
    excludes=["docs/tutorial.md"],
).pytest()


# `make test` hands files to its processes in this order: those that take longest (20 seconds or more by themselves) go
# first, so that no process works on one of them while the others have nothing left to do.
LONGEST = (
    "tests/web/test_kills.py",
    "tests/test_tutorial.py",
    "tests/core/test_surrogate.py",
    "tests/experiments/test_grid.py",
    "tests/sessions/test_session.py",
    "tests/web/test_page_team.py",
    "tests/web/test_page.py",
    "tests/web/test_page_looks.py",
    "tests/web/test_page_projects.py",
    "tests/experiments/test_kills.py",
    "tests/sessions/training/test_trainer.py",
    "tests/web/test_server.py",
    "tests/sessions/test_learning.py",
    "tests/test_loop.py",
    "tests/test_journal.py",
    "tests/learners/test_network.py",
    "tests/experiments/test_run.py",
    "tests/distributed/test_grid.py",
    "tests/web/test_openapi.py",
    "tests/sessions/test_encoder_change.py",
    "tests/data/encoders/test_trials.py",
    "tests/test_time_limit.py",
)
RENAMED = [file for file in LONGEST if not (Path(__file__).parent / file).exists()]
assert not RENAMED, f"write in conftest.py how these are named now: {RENAMED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(LONGEST)))


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """SIGINT interrupts tests and what they start, also where the suite was started with SIGINT ignored.

    A non-interactive shell does that to what it starts in the background, and a process passes it on to its children.
    """
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _interrupts_stay_as_they_were(_interruptible: None) -> Iterator[None]:
    """A test that leaves SIGINT handled otherwise, or blocked, fails by name: later tests of interrupts would hang."""
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)  # polars, which an earlier test may have imported, turns that off
    before = _how_interrupts_arrive()
    yield
    after = _how_interrupts_arrive()
    if after != before:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before[0])
            signal.pthread_sigmask(signal.SIG_SETMASK, before[1])
        pytest.fail(f"SIGINT was handled by {before[0]}, blocked: {before[1]}; now by {after[0]}, blocked: {after[1]}")


def _how_interrupts_arrive() -> tuple[Any, set[int]]:
    return signal.getsignal(signal.SIGINT), {int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


# -- a test that hangs ----------------------------------------------------------------------------------------
#
# pytest-timeout fails it where Python still answers (`timeout` in pyproject.toml); where nothing answers, as in a loop
# inside a library, pytest ends the process (`faulthandler_timeout`) and xdist goes on with a new one. Either way the
# processes that the test started end with it. They are known by their environment, which they hand down.

MARK = "UNDERSTUDY_TESTED_BY"
os.environ[MARK] = f"{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())} {os.environ.get('PYTEST_XDIST_WORKER')}"
SETTINGS = pytest.StashKey[Any]()


def end_processes(environment: dict[str, str]) -> None:
    """Kill every other process that was started with these variables (where /proc tells; elsewhere none)."""
    wanted = {f"{name}={value}" for name, value in environment.items()}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is not ours
            if int(path.parent.name) != os.getpid() and wanted <= set(os.fsdecode(path.read_bytes()).split("\0")):
                os.kill(int(path.parent.name), signal.SIGKILL)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Let the alarm of pytest-timeout end what this phase of the test started, before it fails the test."""
    result = yield
    fail = signal.getsignal(signal.SIGALRM)

    def end_and_fail(number: int, frame: FrameType | None) -> None:
        end_processes({name: os.environ[name] for name in (MARK, "PYTEST_CURRENT_TEST")})
        assert callable(fail)
        fail(number, frame)

    if callable(fail):  # not so in a thread, where the process is ended instead
        signal.signal(signal.SIGALRM, end_and_fail)
        item.stash[SETTINGS] = settings
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Give a test's end a limit too: pytest-timeout gives up its own where a test has failed."""
    if (settings := item.stash.get(SETTINGS, None)) is not None:
        item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """End what a process of xdist started that ended itself."""
    if error is not None:
        end_processes({MARK: f"{node.workerinput['testrunuid']} {node.workerinput['workerid']}"})
