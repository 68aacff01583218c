"""A progress bar on the terminal while the surrogate of a large pool is set up."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from understudy.core.setup_progress import Phase

SECONDS_BEFORE: Final = 1.0  # a set-up that is over sooner shows none
WORDS: Final[dict[Phase, str]] = {
    "basis": "finding basis points",
    "width": "finding the width",
    "rows": "computing rows",
}


class SetupBar:
    """Shown on standard error, where somebody sees it, a second after the first report and until the set-up is done."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = Console(stderr=True) if console is None else console
        self.clock = clock
        self._first: float | None = None
        self._bar: Progress | None = None

    def show(self, phase: Phase, share: float) -> None:
        """Show how far the set-up is."""
        if self._first is None:
            self._first = self.clock()
        if share >= 1.0:
            self.close()
        elif self._bar is not None or self.clock() - self._first >= SECONDS_BEFORE:
            bar = self._start() if self._bar is None else self._bar
            bar.update(bar.task_ids[0], completed=share, description=f"set-up: {WORDS[phase]}")

    def close(self) -> None:
        """Remove the bar, if there is one."""
        if self._bar is not None:
            self._bar.stop()
        self._first = self._bar = None

    def _start(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self._bar.add_task("", total=1.0)
        self._bar.start()
        return self._bar

    def __enter__(self) -> "SetupBar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
