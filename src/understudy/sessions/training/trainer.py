"""The trainer: it runs training jobs while people label, one at a time, each in a process that may fail in any way.

What a process does is in `training_job.py`.

work/setup/      what the surrogate has before its first label; in `setup-N`, of the first N items of a pool that grew
work/jobs/       the job that runs; and the last that failed, with what its process printed
work/anchors/    the surrogate as it was after the last training, ready to be memory-mapped
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from threadpoolctl import threadpool_limits

from understudy.core.ledger import Ledger
from understudy.core.setup_progress import ReportSetup
from understudy.data.files import remove_drafts, remove_folder
from understudy.errors import Conflict, UnderstudyError
from understudy.sessions.training.array_folders import read_about
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.training.progress_file import read_progress
from understudy.sessions.training.training_job import (
    ANCHORS,
    JOBS,
    LABELS,
    OUTPUT,
    RESULT,
    ROWS,
    SETUP,
    is_setup_of,
    make_setup,
    read_features,
    setup_folder,
    write_job,
)

MAX_SECONDS: Final = 4 * 3600.0  # a training may take
SECONDS_BETWEEN_LOOKS: Final = 0.1  # whether a training that waits for its turn was stopped; how far a set-up is
MAX_OUTPUT_BYTES: Final = 4096  # of a process's output that are looked at when it fails
SMALL_SETUP: Final = 100_000  # rows times basis points: made here before a process has started
ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """What to train: on which rows with which labels, and what else is known of the rows when it starts.

    `until` is the number of the last event that counts, `ledger` what the surrogate then knows of every row. With
    `predictions`, the hash of some that exist, nothing is trained: only the anchor is made. `surrogate` are keyword
    arguments of `Surrogate`: basis_size, random_state and so on. Its basis is made of the first `basis_rows`; of all
    rows if that is not given.
    """

    until: int
    rows: np.ndarray
    labels: np.ndarray
    n_classes: int
    learner: str
    seed: int
    ledger: Ledger
    predictions: str | None = None
    surrogate: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()  # names for the model's file, of its outputs
    outputs: tuple[int, ...] = ()  # the classes that the model is to know; () for all
    encoder: str | None = None
    basis_rows: int | None = None
    folds: int = 0  # to cross-fit a temperature in, for calibrated probabilities; 0: not at all


@dataclass(frozen=True, eq=False)
class Trained:
    """A training that succeeded: model and predictions by hash, and the folder of the next anchor."""

    job: TrainingJob
    model: str | None  # None where predictions were given, or for a learner of one's own that has no file format
    predictions: str
    seconds: float
    anchor: Path
    calibration: Mapping[str, Any] | None = None  # what cross-fitting found


@dataclass(frozen=True, eq=False)
class Failed:
    """A training that failed, and why, in one line."""

    job: TrainingJob
    reason: str


@dataclass(eq=False)
class TrainingRun:
    """A process at work."""

    job: TrainingJob | None  # None: only the set-up is made
    started_at: float = field(default_factory=time.monotonic)
    process: subprocess.Popen[bytes] | None = None
    is_stopped: bool = False
    over: threading.Event = field(default_factory=threading.Event)  # the process has ended


class Trainer:
    """Runs jobs in processes, one at a time. Trainers that share a `turn` train one after another.

    `features` is the file of those of all items; whoever lets the pool grow gives it another.
    """

    def __init__(
        self,
        work: Path,
        artifacts: Artifacts,
        features: Path,
        time_limit: float = MAX_SECONDS,
        turn: threading.Semaphore | None = None,
    ) -> None:
        self.work, self.artifacts, self.features, self.time_limit = work, artifacts, features, time_limit
        self.turn = threading.Semaphore() if turn is None else turn
        self._run: TrainingRun | None = None
        self._lock = threading.Lock()
        artifacts.tidy()

    @property
    def running(self) -> TrainingJob | None:
        run = self._run
        return None if run is None else run.job

    @property
    def started_at(self) -> float | None:
        """When the running job was started, by `time.monotonic`."""
        run = self._run
        return None if run is None else run.started_at

    def start(self, job: TrainingJob, on_end: Callable[[Trained | Failed], None]) -> None:
        """Start a training and return at once. Conflict while another runs.

        `on_end` is called in a thread of its own when the training has ended, unless it was stopped.
        """
        run = self._begin(job)
        threading.Thread(target=self._train, args=(run, job, on_end), name="training", daemon=True).start()

    def prepare(
        self,
        n_classes: int,
        surrogate: Mapping[str, Any],
        basis_rows: int | None = None,
        report: ReportSetup | None = None,
    ) -> Path:
        """The folder of the set-up of the first rows, made now unless one that fits is there: in a process if large.

        That one's progress is passed on to `report`; what it raises ends the process.
        """
        features = read_features(self.features)[:basis_rows]
        folder = setup_folder(self.work, len(features))
        self._tidy_setups(folder)
        if is_setup_of(features, folder, n_classes, surrogate):
            return folder
        if len(features) * surrogate.get("basis_size", len(features)) <= SMALL_SETUP:
            with threadpool_limits(1):  # as in a process: the set-up is the same to the last digit
                make_setup(features, folder, n_classes, surrogate)
            return folder
        run = self._begin(None)
        try:
            about = {"kind": "setup", "n_classes": n_classes, "surrogate": dict(surrogate), "basis_rows": basis_rows}
            self._run_process(run, about, {}, report)
            if report is not None:
                report("rows", 1.0)
        finally:
            self._end(run)
        return folder

    def stop(self) -> None:
        """End what runs, and wait until it is gone. Its `on_end` is not called, unless the call is under way."""
        with self._lock:
            run = self._run
            if run is None:
                return
            run.is_stopped = True
            _kill(run)
        run.over.wait()

    def _begin(self, job: TrainingJob | None) -> TrainingRun:
        with self._lock:
            if self._run is not None:
                raise Conflict("a training is running already; wait until it is done")
            self._run = TrainingRun(job)
            return self._run

    def _end(self, run: TrainingRun) -> bool:
        """Let another run begin; whether this one ended by itself."""
        with self._lock:
            self._run = None
            run.over.set()
            return not run.is_stopped

    def _train(self, run: TrainingRun, job: TrainingJob, on_end: Callable[[Trained | Failed], None]) -> None:
        anchor = self.work / ANCHORS / f"{job.until:012}-{uuid.uuid4().hex[:8]}"
        about = {
            "kind": "train", "until": job.until, "n_classes": job.n_classes, "learner": job.learner, "seed": job.seed,
            "predictions": job.predictions, "surrogate": dict(job.surrogate), "encoder": job.encoder,
            "folds": job.folds, "classes": list(job.classes or map(str, range(job.n_classes))), "anchor": str(anchor),
            "outputs": list(job.outputs or range(job.n_classes)), "items": len(job.ledger.is_trained),
            "basis_rows": job.basis_rows,
        }  # fmt: skip
        inputs = {
            **job.ledger.to_arrays(), ROWS: np.asarray(job.rows, np.int64), LABELS: np.asarray(job.labels, np.int64)
        }  # fmt: skip
        outcome: Trained | Failed
        try:
            result = self._run_process(run, about, inputs)
            seconds = time.monotonic() - run.started_at
            outcome = Trained(job, result["model"], result["predictions"], seconds, anchor, result.get("calibration"))
        except UnderstudyError as error:
            outcome = Failed(job, str(error))
        except Exception as error:  # a thread that dies silently would leave "training" on the page for ever
            outcome = Failed(job, f"{type(error).__name__}: {' '.join(str(error).split())}")
        if self._end(run):
            on_end(outcome)

    def _run_process(
        self,
        run: TrainingRun,
        about: dict[str, Any],
        inputs: Mapping[str, np.ndarray],
        report: ReportSetup | None = None,
    ) -> dict[str, Any]:
        """The result of a process that does this. UnderstudyError says why there is none."""
        self._tidy()
        folder = self.work / JOBS / uuid.uuid4().hex
        paths = {"features": self.features, "work": self.work, "artifacts": self.artifacts.folder}
        about |= {name: str(path.absolute()) for name, path in paths.items()}
        # What this process can import, that one can too: `module:name` in the current folder, say.
        about["path"] = [str(Path(path).absolute()) for path in sys.path]
        write_job(folder, about, inputs)
        if about["kind"] == "train":
            with self._own_turn(run):
                result = self._wait(run, folder, gently=True)
        else:
            result = self._wait(run, folder, gently=False, report=report)
        shutil.rmtree(folder, ignore_errors=True)
        return result

    @contextmanager
    def _own_turn(self, run: TrainingRun) -> Iterator[None]:
        """Wait until no other trainer of the same turn trains; the time that a training takes counts from then on."""
        while not self.turn.acquire(timeout=SECONDS_BETWEEN_LOOKS):
            if run.is_stopped:
                raise UnderstudyError("training was stopped")
        try:
            run.started_at = time.monotonic()
            yield
        finally:
            self.turn.release()

    def _wait(self, run: TrainingRun, folder: Path, gently: bool, report: ReportSetup | None = None) -> dict[str, Any]:
        """The result of a process, `gently` while people label."""
        with (folder / OUTPUT).open("wb") as output:
            with self._lock:
                if run.is_stopped:
                    raise UnderstudyError("training was stopped")
                run.process = process = start_process(folder, output, gently)
            is_late = False
            try:
                _watch(run, folder, self.time_limit, report)
            except subprocess.TimeoutExpired:
                is_late = True
            finally:
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
        result = read_result(folder / RESULT)
        if result is None:
            raise UnderstudyError(reason_for(code, folder / OUTPUT))
        if "failed" in result:
            raise UnderstudyError(result["failed"])
        return result

    def _tidy_setups(self, kept: Path) -> None:
        """Remove set-ups of fewer items or of more than the one that is kept."""
        for folder in self.work.glob(f"{SETUP}-*"):
            if folder != kept:
                remove_folder(folder)

    def _tidy(self) -> None:
        """Remove what earlier jobs left, but for the last anchor."""
        shutil.rmtree(self.work / JOBS, ignore_errors=True)
        for anchor in sorted((self.work / ANCHORS).glob("*-*"), key=_age)[:-1]:
            remove_folder(anchor)
        for folder in (self.work, self.work / ANCHORS):
            remove_drafts(folder)


def _watch(run: TrainingRun, folder: Path, time_limit: float, report: ReportSetup | None) -> None:
    """Wait for the end of a process, and report how far it is meanwhile. TimeoutExpired after the time limit."""
    assert run.process is not None
    end = time.monotonic() + time_limit
    while report is not None and end - time.monotonic() > SECONDS_BETWEEN_LOOKS:
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(SECONDS_BETWEEN_LOOKS)
            return
        if (found := read_progress(folder)) is not None:
            report(*found)
    run.process.wait(max(0.0, end - time.monotonic()))


def start_process(folder: Path, output: BinaryIO, gently: bool) -> "subprocess.Popen[bytes]":
    """Start a process that does the job in a folder. It leads a session of its own, and prints into a file.

    The pipe to its standard input is never written to; it closes however this process ends.
    """
    # -P: no file in the current folder takes the place of a module.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "understudy.sessions.training.training_process", *arguments_for(folder, gently)],
        stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        env={**os.environ, **ONE_THREAD},
    )  # fmt: skip


def arguments_for(folder: Path, gently: bool) -> list[str]:
    """The arguments of a training process, which ends with its parent."""
    return [str(folder), "--watched", "--gently"] if gently else [str(folder), "--watched"]


def find_anchor(work: Path, until: int, predictions: str) -> Path | None:
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


def _kill(run: TrainingRun) -> None:
    """End the process of a run and all that it started."""
    if run.process is not None:
        end_process(run.process.pid)


def end_process(pid: int) -> None:
    """End a process that `start_process` started, and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def read_result(path: Path) -> dict[str, Any] | None:
    """What a process left of how it went; None where it left nothing that can be read."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def reason_for(code: int, output: Path, what: str = "training") -> str:
    """Why a process left no result: how it ended, and its last words."""
    if code == -signal.SIGKILL:
        how = f"the {what} process was killed, perhaps because memory ran out"
    elif code < 0:
        how = f"the {what} process was ended by {signal.Signals(-code).name}"
    else:
        how = f"the {what} process ended with {code} and left no result"
    with suppress(OSError):
        lines = output.read_bytes()[-MAX_OUTPUT_BYTES:].decode(errors="replace").strip().splitlines()
        if lines:
            return f"{how}; its last words: {' '.join(lines[-1].split())[:200]}"
    return how
