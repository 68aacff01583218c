"""A process beside labelling that does a job which is not a training: with low priority, and ended when that is wanted.

What a process does is in `training_job.py`.
"""

import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from understudy.errors import UnderstudyError
from understudy.sessions.training import trainer
from understudy.sessions.training.training_job import OUTPUT, RESULT, write_job

SECONDS_BETWEEN_LOOKS: Final = 0.2  # at how far it is


class SideProcess:
    """Runs one job at a time. `what` is its name in messages, and of the job's folder in `work`."""

    def __init__(self, work: Path, what: str) -> None:
        self.work, self.what = work, what
        self.is_stopped = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, job: Mapping[str, Any], look: Callable[[Path], None] | None = None) -> dict[str, Any]:
        """The result of a process that does this job. UnderstudyError says why there is none.

        `look` is called now and then with the folder of the job.
        """
        folder = self.work / f"{self.what}-{uuid.uuid4().hex[:8]}"
        # What this process can import, that one can too: `module:name` in the current folder, say.
        path = [str(Path(each).absolute()) for each in sys.path]
        try:
            write_job(folder, {**job, "work": str(self.work.absolute()), "path": path}, {})
            code = self._wait_for(folder, look)
            result = trainer.read_result(folder / RESULT)
            if self.is_stopped:
                raise UnderstudyError("the session was closed")
            if result is None or "failed" in result:
                raise UnderstudyError(
                    trainer.reason_for(code, folder / OUTPUT, self.what) if result is None else result["failed"]
                )
            return result
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        with self._lock:
            self.is_stopped = True
            if self._process is not None:
                trainer.end_process(self._process.pid)

    def _wait_for(self, folder: Path, look: Callable[[Path], None] | None) -> int:
        """How the process ended."""
        with (folder / OUTPUT).open("wb") as output:
            with self._lock:
                if self.is_stopped:
                    raise UnderstudyError("the session was closed")
                self._process = process = trainer.start_process(folder, output, gently=True)
            assert process.stdin is not None
            with process.stdin:  # when it closes, the process ends
                while True:
                    try:
                        code = process.wait(SECONDS_BETWEEN_LOOKS if look is not None else None)
                        break
                    except subprocess.TimeoutExpired:
                        assert look is not None
                        look(folder)
            with self._lock:
                self._process = None
        return code
