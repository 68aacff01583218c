"""Waiting for what will happen: for as long as the machine takes, or until the limit of time that every test has."""

import time
from collections.abc import Callable
from pathlib import Path


def wait_until(holds: Callable[[], object]) -> None:
    while not holds():
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended, as /proc tells."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
