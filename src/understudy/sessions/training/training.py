"""Training beside labelling: one job at a time, each in a process of its own that may fail in any way.

work/setup/      what the surrogate has before its first label
work/jobs/       the job that runs; and the last that failed, with what its process printed
work/anchors/    the surrogate as it was after the last training, to be mapped
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.data.files import remove_drafts, remove_folder
from understudy.errors import Conflict, UnderstudyError
from understudy.sessions.training.array_folders import read_about, read_arrays
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.training.trainer import (
    ANCHORS,
    JOBS,
    LABELS,
    OUTPUT,
    RESULT,
    ROWS,
    SETUP,
    read_features,
    setup_fits,
    write_job,
)

LEDGER: Final = (
    "answered_rows", "answered_labels", "answered_right", "answered_asked", "pending", "is_trained", "is_skipped",
    "is_dropped", "credit",
)  # fmt: skip
FIRST: Final = 2  # labels, and classes among them, for the first training
LONGEST: Final = 4 * 3600.0  # seconds a training may take
TAIL: Final = 4096  # bytes of a process's output that are looked at when it fails
ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, eq=False)
class Job:
    """What to train: on which rows with which labels, and what else is known of the rows when it starts.

    `until` is the number of the last event that counts. `ledger` is the part of a surrogate's state that says which
    row is where. With `predictions`, the hash of some that exist, nothing is trained: only the anchor is made.
    `surrogate` are keyword arguments of `Surrogate`: basis_size, random_state and so on.
    """

    until: int
    rows: np.ndarray
    labels: np.ndarray
    n_classes: int
    learner: str
    seed: int
    ledger: Mapping[str, np.ndarray]
    predictions: str | None = None
    surrogate: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()  # names for the model's file
    encoder: str | None = None


@dataclass(frozen=True, eq=False)
class Trained:
    """A training that is done: model and predictions by hash, and the folder of the next anchor."""

    job: Job
    model: str | None  # None where predictions were given, or the learner is one's own and no file is known for it
    predictions: str
    seconds: float
    anchor: Path


@dataclass(frozen=True, eq=False)
class Failed:
    """A training that is not, and why, in one line."""

    job: Job
    reason: str


@dataclass(eq=False)
class Run:
    """A process at work."""

    job: Job | None  # None: only the set-up is made
    started_at: float = field(default_factory=time.monotonic)
    process: subprocess.Popen[bytes] | None = None
    is_stopped: bool = False
    over: threading.Event = field(default_factory=threading.Event)  # the process has ended


class Trainer:
    """Runs jobs, one at a time. `done` is called once for each that ends by itself, in a thread of its own."""

    def __init__(
        self,
        work: Path,
        artifacts: Artifacts,
        features: Path,
        done: Callable[[Trained | Failed], None],
        time_limit: float = LONGEST,
    ) -> None:
        self.work, self.artifacts, self.features, self.time_limit = work, artifacts, features, time_limit
        self._done = done
        self._run: Run | None = None
        self._lock = threading.Lock()
        artifacts.tidy()

    @property
    def running(self) -> Job | None:
        run = self._run
        return None if run is None else run.job

    @property
    def started_at(self) -> float | None:
        """When the running job was started, by `time.monotonic`."""
        run = self._run
        return None if run is None else run.started_at

    def start(self, job: Job) -> None:
        """Start a training and return at once. Conflict while another runs."""
        if missing := [name for name in LEDGER if name not in job.ledger]:
            raise UnderstudyError(f"the ledger of a job lacks {', '.join(missing)}; give all of {', '.join(LEDGER)}")
        run = self._begin(job)
        threading.Thread(target=self._train, args=(run, job), name="training", daemon=True).start()

    def prepare(self, n_classes: int, surrogate: Mapping[str, Any]) -> Path:
        """The folder of the set-up, for `load_anchor`; made now, in a process, unless one that fits is there."""
        folder = self.work / SETUP
        if setup_fits(read_features(self.features), folder, n_classes, surrogate):
            return folder
        run = self._begin(None)
        try:
            self._carry_out(run, {"kind": "setup", "n_classes": n_classes, "surrogate": dict(surrogate)}, {})
        finally:
            self._end(run)
        return folder

    def stop(self) -> None:
        """End what runs, and wait until it is gone. `done` is not called for it, unless that was under way."""
        with self._lock:
            run = self._run
            if run is None:
                return
            run.is_stopped = True
            _kill(run)
        run.over.wait()

    def _begin(self, job: Job | None) -> Run:
        with self._lock:
            if self._run is not None:
                raise Conflict("a training is running already; wait until it is done")
            self._run = Run(job)
            return self._run

    def _end(self, run: Run) -> bool:
        """The run is over, and another may begin. Whether it ended by itself."""
        with self._lock:
            self._run = None
            run.over.set()
            return not run.is_stopped

    def _train(self, run: Run, job: Job) -> None:
        anchor = self.work / ANCHORS / f"{job.until:012}-{uuid.uuid4().hex[:8]}"
        about = {
            "kind": "train", "until": job.until, "n_classes": job.n_classes, "learner": job.learner, "seed": job.seed,
            "predictions": job.predictions, "surrogate": dict(job.surrogate), "encoder": job.encoder,
            "classes": list(job.classes or map(str, range(job.n_classes))), "anchor": str(anchor),
        }  # fmt: skip
        inputs = {name: np.asarray(job.ledger[name]) for name in LEDGER}
        inputs |= {ROWS: np.asarray(job.rows, np.int64), LABELS: np.asarray(job.labels, np.int64)}
        outcome: Trained | Failed
        try:
            result = self._carry_out(run, about, inputs)
            seconds = time.monotonic() - run.started_at
            outcome = Trained(job, result["model"], result["predictions"], seconds, anchor)
        except UnderstudyError as error:
            outcome = Failed(job, str(error))
        except Exception as error:  # a thread that dies silently would leave "training" on the page for ever
            outcome = Failed(job, f"{type(error).__name__}: {' '.join(str(error).split())}")
        if self._end(run):
            self._done(outcome)

    def _carry_out(self, run: Run, about: dict[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The result of a process that does this. UnderstudyError says why there is none."""
        self._tidy()
        folder = self.work / JOBS / uuid.uuid4().hex
        places = {"features": self.features, "work": self.work, "artifacts": self.artifacts.folder}
        about |= {name: str(place.absolute()) for name, place in places.items()}
        # What is found by those who start it is found by the process: `module:name` in their folder, say.
        about["path"] = [str(Path(place).absolute()) for place in sys.path]
        write_job(folder, about, inputs)
        result = self._wait(run, folder, gently=about["kind"] == "train")
        shutil.rmtree(folder, ignore_errors=True)
        return result

    def _wait(self, run: Run, folder: Path, gently: bool) -> dict[str, Any]:
        # -P: nothing in the folder that one happens to be in takes the place of a module.
        command = [
            sys.executable,
            "-P",
            "-m",
            "understudy.sessions.training.training_process",
            str(folder),
            "--watched",
        ]
        if gently:  # while the set-up is made, nobody labels yet
            command.append("--gently")
        with (folder / OUTPUT).open("wb") as output:
            with self._lock:
                if run.is_stopped:
                    raise UnderstudyError("training was stopped")
                # The pipe to its standard input is never written to; it closes when this process ends, however it does.
                run.process = process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                    env={**os.environ, **ONE_THREAD},
                )  # fmt: skip
            is_late = False
            try:
                process.wait(self.time_limit)
            except subprocess.TimeoutExpired:
                is_late = True
            _kill(run)
            code = process.wait()
            assert process.stdin is not None
            process.stdin.close()
        if run.is_stopped:
            raise UnderstudyError("training was stopped")
        if is_late:
            raise UnderstudyError(
                f"training took longer than {self.time_limit:g} s and was ended; choose a quicker learner"
            )
        result = _read_result(folder / RESULT)
        if result is None:
            raise UnderstudyError(_reason_for(code, folder / OUTPUT))
        if "failed" in result:
            raise UnderstudyError(result["failed"])
        return result

    def _tidy(self) -> None:
        """Remove what earlier jobs left, but for the last anchor."""
        shutil.rmtree(self.work / JOBS, ignore_errors=True)
        for anchor in sorted((self.work / ANCHORS).glob("*-*"), key=_age)[:-1]:
            remove_folder(anchor)
        for folder in (self.work, self.work / ANCHORS):
            remove_drafts(folder)


def due(labels_now: int, classes_seen: int, labels_at_last: int | None, growth: float, at_most: int) -> int | None:
    """The number of labels at which the next training starts; None while it is not known, for want of a second class.

    First two labels in two classes, then whenever labels have grown by a factor, or by a number if that comes first.
    """
    if labels_at_last is None:
        return FIRST if classes_seen >= FIRST or labels_now < FIRST else None
    return max(labels_at_last + 1, FIRST, min(ceil(labels_at_last * growth), labels_at_last + at_most))


def load_anchor(folder: Path) -> Mapping[str, np.ndarray]:
    """A state for `Surrogate.restore`, large arrays mapped. Of an anchor or of a set-up."""
    return read_arrays(folder)


def last_anchor(work: Path, until: int, predictions: str) -> Path | None:
    """The anchor that was made of these predictions and events, if it is still there."""
    for folder in sorted((work / ANCHORS).glob("*-*"), key=_age, reverse=True):
        about = read_about(folder)
        if about is not None and (about.get("until"), about.get("predictions")) == (until, predictions):
            return folder
    return None


def _age(anchor: Path) -> tuple[str, int]:
    with suppress(OSError):
        return anchor.name.partition("-")[0], anchor.stat().st_mtime_ns
    return "", 0


def _kill(run: Run) -> None:
    """End a process and all that it started."""
    if run.process is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(run.process.pid, signal.SIGKILL)


def _read_result(path: Path) -> dict[str, Any] | None:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def _reason_for(code: int, output: Path) -> str:
    """Why a process left no result: how it ended, and its last words."""
    if code == -signal.SIGKILL:
        how = "the training process was killed, perhaps because memory ran out"
    elif code < 0:
        how = f"the training process was ended by {signal.Signals(-code).name}"
    else:
        how = f"the training process ended with {code} and left no result"
    with suppress(OSError):
        lines = output.read_bytes()[-TAIL:].decode(errors="replace").strip().splitlines()
        if lines:
            return f"{how}; its last words: {' '.join(lines[-1].split())[:200]}"
    return how
