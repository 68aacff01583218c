"""What is learnt from labels: the surrogate after every one, and now and then a new model that it starts from anew.

A model is trained in a process of its own while labels go on coming. The moves since its start are kept, so that the
surrogate on the new model catches up with them and takes over without a pause.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from understudy.errors import Conflict, NotStored, UnderstudyError
from understudy.projects.project import Project
from understudy.sessions.chooser import Chooser, Move, ledger_of
from understudy.sessions.log.events import Event
from understudy.sessions.models import Models, best_influence
from understudy.sessions.record import Record
from understudy.sessions.training.training import Failed, Job, Trained, Trainer, due

MANY: Final = 300  # moves beyond which a surrogate is made in one go rather than led through them: a large import
CATCH_UP: Final = 4  # moves that a new surrogate may still be behind when labelling is held up for it
WORTH_MORE: Final = 10  # labels a class from which a first model takes the place of predictions that were brought along
PATIENCE: Final = 0.1  # seconds between looks, while predictions that were given are put to use
log = logging.getLogger(__name__)


class Learning:
    """Follows the record of a session. Its lock is the session's; only `swap` works without it."""

    def __init__(
        self,
        lock: threading.RLock,
        project: Project,
        record: Record,
        models: Models,
        since: list[Move],
        surrogate_options: Mapping[str, Any],
        make_trainer: Callable[[Callable[[Trained | Failed], None]], Trainer],
    ) -> None:
        self.project, self.record, self.models = project, record, models
        self.options = dict(surrogate_options)
        self.since = since  # moves since the state that the chooser's surrogate started from
        self.job_start = 0  # how many of them the running training knows of
        self.is_busy = False  # from the start of a training until its model is in use, or is not
        self.is_stopped = False
        self.lock = lock
        self.trainer = make_trainer(self.training_ended)
        self.chooser = self.fresh_chooser()

    def tell(
        self, store: Callable[..., list[Event]], note_change: Callable[[], None], after_training: Callable[[], object]
    ) -> None:
        """How events are stored, who is told of changes that are none, and what is done when there is time for it."""
        self.store, self.note_change, self.after_training = store, note_change, after_training

    # -- every label --------------------------------------------------------------------------------------

    def follow(self, moves: Sequence[Move]) -> None:
        """Something happened that is in the log: whatever goes wrong here must not be the end of labelling."""
        self.since += moves
        try:
            if len(moves) > MANY:
                self.chooser = self.fresh_chooser()
                return
            for move in moves:
                self.chooser.follow(move)
        except Exception:
            log.exception("the surrogate could not follow; it is made again from the log")
            self.chooser = self.fresh_chooser()

    def fresh_chooser(self) -> Chooser:
        """A surrogate from the last model on, with everything that happened since."""
        if len(self.since) > MANY:
            return Chooser(self.models.surrogate_now(), self.models.newcomers)
        chooser = Chooser(self.models.surrogate(), self.models.newcomers)
        for move in self.since:
            chooser.follow(move)
        return chooser

    def begin_at(self, ledger: Mapping[str, np.ndarray], since: list[Move]) -> None:
        """A model was in the log before it was in use here: go on from what was known then, and the moves since."""
        behind = len(self.since) - self.job_start
        self.models.begin_at(ledger)
        self.since, self.job_start = since, len(since) - behind
        self.chooser = self.fresh_chooser()

    # -- now and then -------------------------------------------------------------------------------------

    def next_training(self) -> int | None:
        """The number of labels at which the next training starts; None while a second class is wanting."""
        record, settings = self.record, self.record.settings
        tried = [event.data["labels"] for event in (*record.trainings[-1:], *record.failures[-1:])]
        seen = sum(count > 0 for count in record.usable_counts.values())
        last = max(tried, default=0) or None
        wanted = due(len(record.usable), seen, last, settings.retrain_growth, settings.retrain_at_most)
        if wanted is None or last is not None or not record.trainings:
            return wanted
        # Predictions that were brought along are not given up for a model of two labels.
        return max(wanted, min(settings.retrain_at_most, WORTH_MORE * len(record.classes)))

    def train_if_due(self) -> None:
        wanted = self.next_training()
        if self.is_busy or self.is_stopped or wanted is None:
            return
        if len(self.record.usable) < wanted and not self.is_last_chance():
            return
        rows = self.record.training_rows()
        if len(set(rows.values())) >= 2:
            self.start(rows)

    def is_last_chance(self) -> bool:
        """Whether every item has been decided on, and some labels are in no model yet."""
        record = self.record
        parts = [record.effective.keys(), record.bad.keys(), record.unknown.keys(), record.skipped.keys()]
        if sum(len(part) for part in parts) < record.n_items or len(set().union(*parts)) < record.n_items:
            return False
        tried = [event.data["labels"] for event in (*record.trainings[-1:], *record.failures[-1:])]
        return len(record.usable) > max(tried, default=0)

    def train(self) -> None:
        """Train now, unless a training runs."""
        rows = self.record.training_rows()
        if len(set(rows.values())) < 2:
            raise Conflict("a model needs labels of two classes at least; label some more items first")
        if not self.is_busy:
            self.start(rows)

    def start(self, rows: Mapping[int, int], predictions: str | None = None) -> None:
        """Start a training on these items, or from predictions that exist."""
        record = self.record
        job = Job(
            until=record.seq,
            rows=np.array(list(rows), np.int64),
            labels=np.array(list(rows.values()), np.int64),
            n_classes=max(1, len(record.classes)),
            learner=record.settings.learner,
            seed=record.settings.seed,
            ledger=ledger_of(record),
            predictions=predictions,
            surrogate=self.options,
            classes=tuple(record.classes) or ("",),
            encoder=self.project.encoder,
        )
        self.job_start, self.is_busy = len(self.since), True
        try:
            self.trainer.start(job)
        except (OSError, UnderstudyError) as error:
            self.is_busy = False
            self.note_failure(job, f"training could not be started: {error}")
        self.note_change()

    def start_from(self, predictions: str, wait: Callable[[float], Any]) -> None:
        """Take the predictions of this hash for those of the first model, and wait until they are in use."""
        with self.lock:
            before = len(self.record.failures)
            self.start({}, predictions)
        while self.is_busy:
            wait(PATIENCE)
        if len(self.record.failures) > before:
            raise UnderstudyError(self.record.failures[-1].data["reason"])

    def training_ended(self, outcome: Trained | Failed) -> None:
        """Called by the thread that waited for a training."""
        try:
            if isinstance(outcome, Failed):
                self.note_failure(outcome.job, outcome.reason)
            else:
                self.swap(outcome)
        except Exception as error:  # a model that cannot be used must not stop labelling
            log.exception("a trained model could not be taken into use")
            self.note_failure(outcome.job, f"the new model could not be taken into use: {error}")
        finally:
            with self.lock:
                self.is_busy = False
                self.train_if_due()
                self.note_change()
        if isinstance(outcome, Trained):
            self.after_training()

    def note_failure(self, job: Job, reason: str) -> None:
        with self.lock:
            if self.is_stopped:
                return
            event = Event("training_failed", data={"reason": reason, "until": job.until, "labels": len(job.rows)})
            try:
                self.store(event)
            except NotStored:  # it stays unsaid in the log; the next training says it again
                self.record.failures.append(event)
                self.note_change()

    def swap(self, trained: Trained) -> None:
        """The surrogate on the new model takes over, once it knows all that happened while it was made."""
        surrogate = self.models.load(trained)
        probs = self.models.artifacts.predictions(trained.predictions).probs
        promise = best_influence(surrogate)
        chooser, known = Chooser(surrogate, self.models.newcomers), self.job_start
        while True:
            with self.lock:
                waiting = self.since[known:]
                if len(waiting) <= CATCH_UP:
                    self.take_over(trained, chooser, known, promise, probs)
                    return
            for move in waiting:
                chooser.follow(move)
            chooser.settle()
            known += len(waiting)

    def take_over(self, trained: Trained, chooser: Chooser, known: int, promise: float, probs: np.ndarray) -> None:
        """Put a new model and its surrogate, which knows so many of the moves, into the place of those before."""
        if self.is_stopped:
            return
        right, judged = self.record.tally()
        job = trained.job
        data = {
            "model": trained.model, "predictions": trained.predictions, "until": job.until, "labels": len(job.rows),
            "learner": job.learner, "seconds": trained.seconds,
            "source": "learner" if job.predictions is None else "given", "best_influence": promise,
            "asked_accuracy": right / judged if judged else None,
        }  # fmt: skip
        self.store(Event("trained", data=data))
        if len(self.models.guesses) == len(self.record.trainings):
            return  # it was found in the log together with something that nobody could say was stored
        self.models.adopt(trained, probs)
        self.since, waiting = self.since[self.job_start :], self.since[known:]
        self.chooser = chooser
        try:
            if len(waiting) > MANY:
                self.chooser = self.fresh_chooser()
                waiting = []
            for move in waiting:
                chooser.follow(move)
        except Exception:
            log.exception("the surrogate could not follow; it is made again from the log")
            self.chooser = self.fresh_chooser()
        self.note_change()

    def stop(self) -> None:
        """No model is taken into use any more, and what runs is ended."""
        with self.lock:
            self.is_stopped = True
        self.trainer.stop()
