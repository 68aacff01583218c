"""A test that hangs fails by name after a limit, ends what it started, and lets the others go on.

So do tests of interrupts where the suite was started in the background, with SIGINT ignored.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.waiting import is_running, wait_until

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")

HANGING = """
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def start_child(name):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    (HERE / f"{name}.pid").write_text(str(child.pid))
    return child


def test_that_interrupts_itself_and_a_child():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    assert subprocess.run(["sh", "-c", "kill -INT $$"]).returncode == -signal.SIGINT


@pytest.fixture(scope="module")
def shared():
    child = start_child("shared")
    yield child
    child.kill()
    child.wait()


def test_that_waits_for_a_child(shared):
    start_child("awaited").wait()


def test_that_waits_for_ever(shared):
    threading.Event().wait()


def test_after_it_that_ends(shared):
    assert shared.poll() is None


@pytest.fixture
def endless():
    yield
    time.sleep(600)


def test_that_fails_and_does_not_end(endless):
    raise AssertionError("failed")


def test_that_hangs_in_a_library():
    start_child("orphan")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # as good as a long call that heeds no signal
    time.sleep(600)
"""


def run_pytest(folder: Path, *options: str) -> str:
    """The output of pytest, with our settings but short limits, started in the background."""
    settings = ("timeout=2", "faulthandler_timeout=6", f"cache_dir={folder / 'cache'}")
    plugins = ("xdist", "pytest_timeout", "conftest")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), *options]
    command += [word for name in plugins for word in ("-p", name)] + [word for one in settings for word in ("-o", one)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take long to load
    background = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    done = subprocess.run(
        [*background, *command, str(folder)], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_test_that_hangs_fails_by_name_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING)
    out = run_pytest(tmp_path, "-n", "1", "-v")
    verdicts = {
        line.split("test_hanging.py::")[1].split()[0]: word
        for line in out.splitlines()
        for word in ("PASSED", "FAILED", "ERROR")
        if f" {word} test_hanging.py::" in line
    }
    assert verdicts == {
        "test_that_interrupts_itself_and_a_child": "PASSED",
        "test_that_waits_for_a_child": "FAILED",
        "test_that_waits_for_ever": "FAILED",
        "test_after_it_that_ends": "PASSED",
        "test_that_fails_and_does_not_end": "ERROR",
        "test_that_hangs_in_a_library": "FAILED",
    }
    assert out.count("Timeout (>2.0s) from pytest-timeout") >= 3
    assert "crashed while running 'test_hanging.py::test_that_hangs_in_a_library'" in out
    pids = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
    assert len(pids) == 3
    wait_until(lambda: not any(map(is_running, pids)))


def test_every_test_has_a_limit() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert 0 < settings["timeout"] < settings["faulthandler_timeout"]
    assert settings["faulthandler_exit_on_timeout"]
