import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest

from tests.waiting import is_running, wait_until
from tests.warm_training import WarmProcess
from understudy import load
from understudy.core.surrogate import Surrogate
from understudy.data.files import write_atomically
from understudy.errors import Conflict, UnderstudyError
from understudy.learners.model_files import about_model, load_model
from understudy.learners.registry import make_learner
from understudy.sessions.training import trainer as trainer_module
from understudy.sessions.training.array_folders import read_arrays
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.training.progress_file import PROGRESS
from understudy.sessions.training.trainer import Failed, Trained, Trainer, TrainingJob, find_anchor, start_process
from understudy.sessions.training.training_job import is_setup_of, make_setup

POOL = load("digits").pool
X, Y = POOL.arrays()
X, Y = X[:300], Y[:300]
OPTIONS: dict[str, Any] = {"basis_size": 40, "random_state": 5}
OWN = "tests.sessions.own_learners:"


class Bench:
    """A trainer and what it reports."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self.folder, self.reports = folder, Queue[Trained | Failed]()
        self.artifacts = Artifacts(folder / "artifacts")
        np.save(folder / "features.npy", X)
        self.trainer = Trainer(folder / "work", self.artifacts, folder / "features.npy", **given)

    def run(self, job: TrainingJob) -> Trained | Failed:
        self.trainer.start(job, self.reports.put)
        return self.reports.get()

    def trained(self, job: TrainingJob) -> Trained:
        report = self.run(job)
        assert isinstance(report, Trained), report
        return report

    def failed(self, job: TrainingJob) -> str:
        report = self.run(job)
        assert isinstance(report, Failed)
        assert "\n" not in report.reason
        assert self.trainer.running is None
        return report.reason

    def asleep(self) -> int:
        """The process of a learner that sleeps, once it does."""
        wait_until(lambda: (self.folder / "asleep").exists() and bool((self.folder / "asleep").read_text()))
        return int((self.folder / "asleep").read_text())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(trainer_module, "start_process", start_process)  # not a forked one, as in other tests
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    monkeypatch.setenv("ASLEEP", str(tmp_path / "asleep"))
    made = Bench(tmp_path)
    yield made
    made.trainer.stop()


def lived(n: int) -> Surrogate:
    """A surrogate without a model that has seen something of everything."""
    surrogate = Surrogate(X, 10, **OPTIONS)
    rows = surrogate.ask(n)
    surrogate.tell(rows, Y[rows])
    surrogate.ask(2)
    surrogate.skip([7, 8]).drop([9])
    return surrogate


def job_of(n: int, learner: str = "quick", **given: Any) -> TrainingJob:
    ledger = lived(n)._ledger
    rows = np.array(list(ledger.answers))
    return TrainingJob(**{
        "until": n, "rows": rows[:-3], "labels": Y[rows[:-3]], "n_classes": 10, "learner": learner, "seed": 3,
        "ledger": ledger, "surrogate": OPTIONS, **given,
    })  # fmt: skip


def test_a_training_gives_a_model_predictions_and_an_anchor_that_picks_as_one_made_here(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, warm: WarmProcess
) -> None:
    (bench.folder / "here").mkdir()
    (bench.folder / "here" / "json.py").write_text("raise SystemExit('this took the place of a module')")
    monkeypatch.chdir(bench.folder / "here")

    job = job_of(40, classes=tuple("0123456789"), encoder="pixels")
    report = bench.trained(job)
    here = make_learner("quick").fit(X[job.rows], job.labels, 10, seed=3)
    found = bench.artifacts.predictions(report.predictions)
    np.testing.assert_allclose(found.probs, here.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(found.trained_on, job.rows)
    np.testing.assert_array_equal(found.labels, job.labels)

    assert report.model is not None
    path = bench.artifacts.path(report.model)
    np.testing.assert_array_equal(load_model(path).predict_proba(X), found.probs)
    about = about_model(path)
    assert (about["classes"], about["encoder"]) == (list("0123456789"), "pixels")
    assert about["notes"] == {"learner": "quick", "seed": 3, "until": 40}

    loaded = Surrogate.restore(X, read_arrays(report.anchor))
    made = lived(40).anchor(found.probs, job.rows)
    assert loaded.tally == made.tally
    for _ in range(5):
        (row,) = loaded.ask()
        assert [row] == made.ask().tolist()
        loaded.tell([row], Y[[row]])
        made.tell([row], Y[[row]])

    monkeypatch.setattr(trainer_module, "start_process", warm.start_training)
    again = bench.trained(job)
    assert (again.predictions, again.model) == (report.predictions, report.model)
    assert again.anchor != report.anchor
    assert find_anchor(bench.folder / "work", 40, report.predictions) == again.anchor
    assert find_anchor(bench.folder / "work", 41, report.predictions) is None
    last = bench.trained(job_of(40, "nothing:of_the_kind", predictions=report.predictions))  # nothing is trained
    assert (last.model, last.predictions) == (None, report.predictions)
    assert (
        Surrogate.restore(X, read_arrays(last.anchor)).ask().tolist()
        == lived(40).anchor(found.probs, job.rows).ask().tolist()
    )
    assert list((bench.folder / "work" / "jobs").iterdir()) == []
    assert set((bench.folder / "work" / "anchors").iterdir()) == {again.anchor, last.anchor}  # the one before is kept


def test_a_process_that_other_tests_fork_trains_as_one_that_was_started(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, warm: WarmProcess
) -> None:
    started = bench.trained(job_of(20))
    monkeypatch.setattr(trainer_module, "start_process", warm.start_training)
    forked = bench.trained(job_of(20))
    assert forked.predictions == started.predictions  # by the hash of their bytes
    assert "its last words: last words" in bench.failed(job_of(20, f"{OWN}exiting"))
    bench.trainer.start(job_of(20, f"{OWN}sleeping"), bench.reports.put)
    process = bench.asleep()
    bench.trainer.stop()
    assert not is_running(process)


def test_only_a_large_set_up_needs_a_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(Trainer, "_run_process", lambda _self, _run, about, *_: started.append(about["kind"]))
    folder = bench.trainer.prepare(10, OPTIONS)
    assert is_setup_of(X, folder, 10, OPTIONS)
    assert started == []
    shutil.rmtree(folder)
    monkeypatch.setattr(trainer_module, "SMALL_SETUP", len(X) * OPTIONS["basis_size"] - 1)
    bench.trainer.prepare(10, OPTIONS)
    assert started == ["setup"]
    assert bench.trainer.running is None


def test_a_process_that_dies_is_a_failure_with_a_reason_and_the_next_job_works(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, warm: WarmProcess
) -> None:
    make_setup(X, bench.folder / "work" / "setup", 10, OPTIONS)
    assert bench.trainer.prepare(10, OPTIONS) == bench.folder / "work" / "setup"  # at once: it is there
    assert bench.failed(job_of(20, OWN + "exiting")) == (
        "the training process ended with 3 and left no result; its last words: last words"
    )
    assert "was killed, perhaps because memory ran out" in bench.failed(job_of(20, OWN + "dying"))
    bench.trainer.time_limit = 1.5
    assert "took longer than 1.5 s and was ended" in bench.failed(job_of(20, OWN + "sleeping"))
    bench.trainer.time_limit = 100
    monkeypatch.setattr(trainer_module, "start_process", warm.start_training)
    assert "RuntimeError: stumbled over its own feet" in bench.failed(job_of(20, OWN + "raising"))
    assert "Traceback" in next((bench.folder / "work" / "jobs").glob("*/output.txt")).read_text()
    report = bench.trained(job_of(20, OWN + "even"))
    assert report.model is None  # nobody knows how to write it
    assert (bench.artifacts.predictions(report.predictions).probs == np.float32(0.1)).all()


def test_one_training_at_a_time_and_stopping_it_is_no_report(bench: Bench) -> None:
    bench.trainer.start(job_of(20, OWN + "sleeping"), bench.reports.put)
    assert bench.trainer.running is not None
    assert bench.trainer.started_at is not None
    with pytest.raises(Conflict, match="running already"):
        bench.trainer.start(job_of(20), bench.reports.put)
    pid = bench.asleep()
    assert os.getpriority(os.PRIO_PROCESS, pid) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    bench.trainer.stop()
    wait_until(lambda: not is_running(pid))
    assert bench.trainer.running is None
    bench.trainer.start(job_of(20), bench.reports.put)
    bench.trainer.stop()  # at once, perhaps before there is a process
    bench.trainer.stop()  # nothing to stop
    time.sleep(0.2)
    assert bench.reports.empty()


def test_making_the_set_up_can_be_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_module, "SMALL_SETUP", 0)
    with ThreadPoolExecutor(1) as other:
        made = other.submit(bench.trainer.prepare, 10, OPTIONS)
        wait_until(lambda: bench.trainer.started_at is not None)
        bench.trainer.stop()
        with pytest.raises(UnderstudyError, match="was stopped"):
            made.result()


def test_a_set_up_in_a_process_says_how_far_it_is_and_ends_where_nobody_wants_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_module, "SMALL_SETUP", 0)
    monkeypatch.setattr(trainer_module, "SECONDS_BETWEEN_LOOKS", 0.001)
    reports: list[tuple[str, float]] = []

    def start(folder: Path, *given: Any) -> "subprocess.Popen[bytes]":
        write_atomically(folder / PROGRESS, b'["basis", 0.25]')  # a small set-up is over before it says anything
        return start_process(folder, *given)

    monkeypatch.setattr(trainer_module, "start_process", start)
    bench.trainer.prepare(10, OPTIONS, report=lambda *report: reports.append(report))
    assert reports[0] == ("basis", 0.25)
    assert reports[-1] == ("rows", 1.0)

    def stop(phase: str, share: float) -> None:
        raise Conflict(f"{phase}: {share:.0%}")

    with pytest.raises(Conflict, match="basis: 25%"):
        bench.trainer.prepare(10, {**OPTIONS, "basis_size": 41}, report=stop)
    assert bench.trainer.running is None
    bench.trainer.prepare(10, {**OPTIONS, "basis_size": 41})


def test_a_job_that_cannot_be_written_fails_and_what_is_done_then_may_start_the_next(bench: Bench) -> None:
    ends, over = Queue[Trained | Failed](), Queue[None]()

    def done(report: Trained | Failed) -> None:
        ends.put(report)
        if report.job.until == 20:
            trainer.start(job_of(21), done)
        else:
            trainer.stop()  # of nothing, in its own thread
            over.put(None)

    trainer = bench.trainer
    (bench.folder / "work").write_text("in the way")
    trainer.start(job_of(20), done)
    over.get()
    reports = [ends.get(), ends.get()]
    assert [report.job.until for report in reports] == [20, 21]
    assert all(isinstance(report, Failed) and "cannot write to" in report.reason for report in reports)


def test_the_training_process_ends_soon_after_its_parent_is_killed(bench: Bench) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tests.sessions.training.test_trainer import *\n"
        "Bench(Path(sys.argv[1])).trainer.start(job_of(20, OWN + 'sleeping'), print); time.sleep(300)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(bench.folder)], cwd=Path(__file__).parents[3])
    try:
        pid = bench.asleep()
        assert is_running(pid)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not is_running(pid))
