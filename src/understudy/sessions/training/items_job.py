"""Encoding the new items of a project in a process of its own, while another serves the project.

What it computes is kept by content, and a project's files are replaced whole, so it may be killed at any moment.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.projects.opening import create_or_open
from understudy.sessions.training.progress_file import ProgressFile


def encode_items(folder: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """Add the items that a job names at the end of its project; how many were added, and what else there is to say.

    Items that have changed since they were seen are left for another time.
    """
    started = time.monotonic()
    project = create_or_open(project=Path(job["project"]), device=job["device"])
    wanted = {name: None if stamp is None else (int(stamp[0]), int(stamp[1])) for name, stamp in job["wanted"].items()}
    project.embed_new(wanted, ProgressFile(folder).report)
    return {"added": project.added, "notes": project.notes, "seconds": time.monotonic() - started}
