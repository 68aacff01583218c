"""Processes that are forked from one that has imported everything, which spares seconds for each of them.

Tests start a hundred trainings, and to import torch takes longer than each of them. The forked process is like the one
that `start_process` starts: of a session of its own, with its own priority, ended by SIGKILL or when its standard input
closes. Tests of the process itself (`tests/sessions/training/test_trainer.py`) start the real one.

Code that is to be killed, or to end its process, is run in the same way.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parents[1]
PARENT = "UNDERSTUDY_WARM_TRAINING"  # the number of the socket on which a warm process is asked


class ForkedProcess:
    """What a trainer needs of `subprocess.Popen`, of a process that another one forked."""

    def __init__(self, pid: int, stdin: BinaryIO, status: BinaryIO) -> None:
        self.pid, self.stdin, self._status = pid, stdin, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("training", timeout or 0)
            self.returncode = int(self._status.readline() or -signal.SIGKILL)  # nothing: the warm process has ended
            self._status.close()
            self.stdin.close()
        return self.returncode


class WarmProcess:
    """The process that forks. It is started when it is first needed, and again should it have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket

    def start_training(self, folder: Path, output: BinaryIO, gently: bool) -> ForkedProcess:
        """Stands in for `start_process`."""
        from understudy.sessions.training.trainer import ONE_THREAD, arguments_for

        return self._start({"arguments": arguments_for(folder, gently)}, ONE_THREAD, output.fileno())

    def start(self, code: str, *arguments: object) -> ForkedProcess:
        """A process that runs this code, as `python -c` would with these arguments."""
        return self._start({"code": code, "arguments": ["-c", *map(str, arguments)]}, {}, 2)

    def run(self, code: str, *arguments: object) -> int:
        """How a process ends that runs this code."""
        return self.start(code, *arguments).wait()

    def _start(self, wanted: dict[str, object], variables: dict[str, str], output: int) -> ForkedProcess:
        wanted |= {"environment": {**os.environ, **variables}, "folder": str(Path.cwd())}
        ours, theirs = os.pipe(), os.pipe()  # its standard input, and what is told of it
        with self._lock:
            self._start_if_needed()
            message = json.dumps(wanted).encode()
            header = len(message).to_bytes(8, "big")
            socket.send_fds(self._socket, [header], [ours[0], output, theirs[1]])
            self._socket.sendall(message)
        os.close(ours[0])
        os.close(theirs[1])
        status = os.fdopen(theirs[0], "rb", buffering=0)
        return ForkedProcess(int(status.readline()), os.fdopen(ours[1], "wb", buffering=0), status)

    def _start_if_needed(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None:
            self._socket.close()
        ours, theirs = socket.socketpair()
        self._socket = ours
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT), environment.get("PYTHONPATH", "")))
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.warm_training"],
            pass_fds=[theirs.fileno()],
            env={**environment, **one_thread, "PYTHONPATH": path, PARENT: str(theirs.fileno())},
        )
        theirs.close()

    def close(self) -> None:
        if self._process is not None:
            self._socket.close()
            self._process.wait()


# -- the warm process -------------------------------------------------------------------------------------


def serve(asked: socket.socket) -> None:
    """Fork a process for each training or code that is asked for, and tell its number and how it ended."""
    import sklearn.linear_model  # noqa: F401
    import torch._dynamo  # noqa: F401 - optimizers import it at their first step

    import understudy.learners.registry
    import understudy.sessions.training.training_job  # noqa: F401

    statuses: dict[int, int] = {}  # by process
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([asked.fileno(), read], [], [])[0]
        if read in ready:
            os.read(read, 4096)
            _tell_ends(statuses)
        if asked.fileno() in ready:
            header, given, _, _ = socket.recv_fds(asked, 8, 3)
            if not header:
                return
            message = _receive(asked, int.from_bytes(header + _receive(asked, 8 - len(header)), "big"))
            pid = os.fork()
            if pid == 0:
                _become(json.loads(message), *given)
            statuses[pid] = given[2]
            for number in given[:2]:
                os.close(number)


def _receive(asked: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += asked.recv(size - len(found))
    return found


def _tell_ends(statuses: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = statuses.pop(ended[0])
            with suppress(BrokenPipeError):
                os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended[1]))
            os.close(status)


def _become(wanted: dict[str, object], stdin: int, output: int, status: int) -> None:
    """Go on as the training process, or as one that runs some code."""
    code = 1
    try:
        os.setsid()
        os.write(status, b"%d\n" % os.getpid())  # only now: from here on its group can be killed
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, place in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(number, place)
        os.closerange(3, max(stdin, output, status, 256) + 1)
        os.environ.clear()
        os.environ.update(wanted["environment"])  # type: ignore[call-overload]
        os.chdir(str(wanted["folder"]))
        arguments = wanted["arguments"]
        assert isinstance(arguments, list)
        code = _train(arguments) if "code" not in wanted else _run(str(wanted["code"]), arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _train(arguments: list[str]) -> int:
    from understudy.sessions.training import training_job, training_process

    if "--gently" in arguments:
        training_process.lower_priority()
    return training_job.main(arguments)


def _run(code: str, arguments: list[str]) -> int:
    sys.argv = arguments
    exec(compile(code, "<code of a test>", "exec"), {"__name__": "__main__"})
    return 0


if __name__ == "__main__":
    serve(socket.socket(fileno=int(os.environ[PARENT])))
