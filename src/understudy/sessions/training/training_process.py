"""The entry point of a training process: it lowers its priority first, then imports what takes seconds to import.

`python -m understudy.sessions.training.training_process FOLDER [--watched] [--gently]` does the job that a folder
describes. With `--gently` it has low priority from its first moment on, so that those who label do not notice it.
"""

import os
import sys
from contextlib import suppress
from typing import Final

NICENESS: Final = 10


def lower_priority() -> None:
    """Run only when no other process wants the processor."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    if hasattr(os, "SCHED_IDLE"):  # Linux: it runs when a core has nothing else to do
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    if "--gently" in sys.argv:
        lower_priority()
    from understudy.sessions.training.training_job import main

    sys.exit(main(sys.argv[1:]))
