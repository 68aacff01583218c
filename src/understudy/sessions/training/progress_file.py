"""How far a job in a process of its own is, in a file of its folder, for whoever waits for it."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from understudy.data.files import write_atomically

PROGRESS: Final = "progress.json"
SECONDS_BETWEEN_REPORTS: Final = 0.2


class ProgressFile:
    """Writes how far the job in a folder is, a few times a second at most."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / PROGRESS
        self._last = time.monotonic()

    def report(self, done: Any, of: Any) -> None:
        if time.monotonic() - self._last >= SECONDS_BETWEEN_REPORTS:
            self._last = time.monotonic()
            write_atomically(self.path, json.dumps([done, of]).encode())


def read_progress(folder: Path) -> tuple[Any, Any] | None:
    """The two values that were reported last; None while there are none."""
    with suppress(OSError, ValueError, TypeError):
        done, of = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
        return done, of
    return None
