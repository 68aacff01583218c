"""The command on the digits, in a process of its own that can be killed and started again at the same address."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

COMMAND = (str(Path(sys.executable).with_name("understudy")), "label", "--demo", "--no-browser")


class Killable:
    """A server that dies on demand. What it had begun, such as a training, dies with it at the end."""

    def __init__(self, project: Path, port: int) -> None:
        self.project, self.port = project, port
        self.url = f"http://127.0.0.1:{port}/"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        options = ("--project", str(self.project), "--port", str(self.port), "--basis-size", "50", "--learner", "quick")
        with (self.project.parent / "server.txt").open("ab") as said:
            self.processes.append(
                subprocess.Popen(
                    [*COMMAND, *options],
                    stdout=said,
                    stderr=said,
                    env=os.environ | {"OMP_NUM_THREADS": "1"},
                    start_new_session=True,
                )
            )

    def until_ready(self) -> None:
        with httpx.Client(base_url=self.url, timeout=None) as client:
            while self.processes[-1].poll() is None:
                with suppress(httpx.HTTPError):
                    if client.get("api/status").json()["phase"] == "ready":
                        return
                time.sleep(0.1)
        pytest.fail((self.project.parent / "server.txt").read_text())

    def kill(self) -> None:
        self.processes[-1].send_signal(signal.SIGKILL)
        self.processes[-1].wait()

    def end(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):  # none of them is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
