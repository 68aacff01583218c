"""Encoding the new items of a project in a process of its own, while another serves the project.

What it computes is kept by content, and a project's files are replaced whole, so it may be killed at any moment.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from understudy.data.files import write_atomically
from understudy.projects.opening import create_or_open

PROGRESS: Final = "progress.json"
SECONDS_BETWEEN_REPORTS: Final = 0.2


def encode_items(folder: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """Add the items that a job names at the end of its project; how many were added, and what else there is to say.

    Items that have changed since they were seen are left for another time.
    """
    started = last = time.monotonic()

    def report_progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            write_atomically(folder / PROGRESS, json.dumps([done, total]).encode())

    project = create_or_open(project=Path(job["project"]), device=job["device"])
    wanted = {name: None if stamp is None else (int(stamp[0]), int(stamp[1])) for name, stamp in job["wanted"].items()}
    project.embed_new(wanted, report_progress)
    return {"added": project.added, "notes": project.notes, "seconds": time.monotonic() - started}


def read_progress(folder: Path) -> tuple[int, int] | None:
    """How many items are done, of how many; None while that is not known."""
    with suppress(OSError, ValueError, TypeError):
        done, total = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
        return int(done), int(total)
    return None
