"""What is learnt from labels: the surrogate after every label, and now and then a new model that it restarts from.

A model is trained in a process of its own while labels keep coming. The moves since its start are kept, so that the
surrogate on the new model catches up with them and takes over without a pause. Items that join the pool are taken in
by a copy of the surrogate, which takes over in the same way.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final

import numpy as np

from understudy.errors import Conflict, NotStored, UnderstudyError
from understudy.projects.project import Project
from understudy.sessions.calibrations import audit_labels, folds_for
from understudy.sessions.chooser import Chooser
from understudy.sessions.log.events import Event
from understudy.sessions.models import Models, best_influence, setup_options
from understudy.sessions.record import Move, Replay
from understudy.sessions.training.trainer import Failed, Trained, Trainer, TrainingJob

MAX_MOVES: Final = 300  # a surrogate follows one by one; for more, after a large import say, it is made in one step
MAX_MOVES_BEHIND: Final = 4  # of a new surrogate when labelling is held up for it
MAX_GROWTH_OF_POOL: Final = 1.1  # on one basis, when a model is trained; a larger pool gets another
LABELS_PER_CLASS: Final = 10  # from which a first model takes the place of predictions that were brought along
WAIT_SECONDS: Final = 0.1  # between looks, while predictions that were brought along are put to use
FIRST_LABELS: Final = 2  # for the first training, and classes among them
log = logging.getLogger(__name__)


class Learning:
    """Follows the record of a session. Its lock is the session's; only `_swap` works without it.

    `store` puts events into the log and lets the record follow, `note_change` says that there is something new to
    see, and `after_training` is called without the lock when a new model is in use.
    """

    def __init__(
        self,
        project: Project,
        models: Models,
        replay: Replay,
        trainer: Trainer,
        *,
        lock: threading.RLock,
        store: Callable[[Event], object],
        note_change: Callable[[], None],
        after_training: Callable[[], object],
    ) -> None:
        self.project, self.models, self.record, self.trainer = project, models, replay.record, trainer
        self.lock, self._store, self._note_change, self._after_training = lock, store, note_change, after_training
        self.since = replay.moves  # moves since the state that the chooser's surrogate started from
        self.job_start = 0  # how many of them the running training knows of
        self.is_busy = False  # from the start of a training until its model is in use, or is not
        self.is_stopped = False
        self.chooser = self.make_chooser()
        self._prepared: Chooser | None = None  # knows items that are about to join

    # -- every label --------------------------------------------------------------------------------------

    def follow(self, moves: Sequence[Move]) -> None:
        """Follow what is in the log already: whatever goes wrong here must not be the end of labelling."""
        self.since += moves
        chooser, self._prepared = self._prepared or self.chooser, None
        self._lead(chooser, moves)

    def _lead(self, chooser: Chooser, moves: Sequence[Move]) -> None:
        """Use this chooser after these moves, or another in its place if they are too many or it fails."""
        self.chooser = chooser
        try:
            if len(moves) > MAX_MOVES or any(move.regroups for move in moves):
                self.chooser = self.make_chooser()
                return
            for move in moves:
                chooser.follow(move)
        except Exception:
            log.exception("the surrogate could not follow; it is made again from the log")
            self.chooser = self.make_chooser()

    def make_chooser(self) -> Chooser:
        """A surrogate from the last model on, with everything that happened since."""
        if len(self.since) > MAX_MOVES or any(move.regroups for move in self.since):
            return Chooser(self.models.surrogate_now(), self.models.describe_rows)
        chooser = Chooser(self.models.surrogate(), self.models.describe_rows)
        for move in self.since:
            chooser.follow(move)
        return chooser

    def restart(self, replay: Replay) -> None:
        """Use a model that was found in the log: go on from what was known then, and the moves since."""
        behind = len(self.since) - self.job_start
        self.models.reload(replay.ledger)
        self.since, self.job_start = replay.moves, len(replay.moves) - behind
        self.chooser = self.make_chooser()

    # -- items that join ----------------------------------------------------------------------------------

    def take_in(self, prepare: Callable[[Chooser, Sequence[Move]], Chooser], join: Callable[[], object]) -> None:
        """Let items join: `prepare` gives a chooser that knows them, `join` stores that they are there.

        People go on labelling meanwhile: `prepare` gets a copy of the chooser, and all moves so far; what it gives
        catches up, and takes over when the items join. Where a new model came meanwhile, or classes were regrouped, it
        is called again.
        """
        while True:
            with self.lock:
                current, known = self.chooser, len(self.since)
                given = current.copy(), tuple(self.since)
            chooser = prepare(*given)
            chooser.settle()
            while waiting := self._catch_up(current, chooser, known, join):
                for move in waiting:
                    chooser.follow(move)
                known += len(waiting)
            if waiting is not None:
                return

    def _catch_up(
        self, current: Chooser, chooser: Chooser, known: int, join: Callable[[], object]
    ) -> Sequence[Move] | None:
        """Let items join where a prepared chooser knows nearly all moves, and give none; else those it does not know.

        None where the chooser that it was made of is not in use any more.
        """
        with self.lock:
            waiting = self.since[known:]
            if self.chooser is not current:
                return None
            if len(waiting) > MAX_MOVES_BEHIND:
                return waiting
            for move in waiting:
                chooser.follow(move)
            self._prepared = chooser
            try:
                join()
            finally:
                self._prepared = None
            return ()

    # -- now and then -------------------------------------------------------------------------------------

    def next_training(self) -> int | None:
        """The number of labels at which the next training starts; None while a second class is missing."""
        record, settings = self.record, self.record.settings
        tried = self._labels_tried()
        seen = sum(count > 0 for count in record.usable_counts.values())
        last = max(tried, default=0) or None
        wanted = labels_at_next_training(
            len(record.usable), seen, last, settings.retrain_growth, settings.retrain_at_most
        )
        if wanted is not None and last is not None and self._has_outgrown():
            return min(wanted, max(FIRST_LABELS, len(record.usable)))
        if wanted is None or last is not None or not record.trainings or record.trainings[-1].data["labels"]:
            return wanted  # at once, where the last model learnt from labels, with other features
        # Predictions that were brought along are not given up for a model of two labels.
        return max(wanted, min(settings.retrain_at_most, LABELS_PER_CLASS * len(record.class_table.alive)))

    def _has_outgrown(self) -> bool:
        """Whether the pool has grown as labels would have to for a training, since the last one that was tried."""
        tried = max(self.record.items_at(event.data["until"]) for event in self._last_tried())
        return self.record.n_items >= self.record.settings.retrain_growth * tried

    def train_if_due(self) -> None:
        """Start a training if there are enough labels for the next one."""
        wanted = self.next_training()
        if self.is_busy or self.is_stopped or wanted is None:
            return
        if len(self.record.usable) < wanted and not self._is_last_chance():
            return
        rows = self.record.training_rows()
        if len(set(rows.values())) >= 2:
            self._start(rows)

    def _is_last_chance(self) -> bool:
        """Whether every item has been decided on, and some labels are in no model yet."""
        record = self.record
        parts = [record.effective.keys(), record.bad.keys(), record.unknown.keys(), record.skipped.keys()]
        if sum(len(part) for part in parts) < record.n_items or len(set().union(*parts)) < record.n_items:
            return False
        return len(record.usable) > max(self._labels_tried(), default=0)

    def _labels_tried(self) -> list[int]:
        """How many labels the last trainings on the features in use had, the last that failed included."""
        return [event.data["labels"] for event in self._last_tried()]

    def _last_tried(self) -> list[Event]:
        """The last training on the features in use and the last that failed."""
        record = self.record
        last = (*record.trainings[-1:], *record.failures[-1:])
        return [event for event in last if record.knows_features(event)]

    def train(self) -> None:
        """Train now, unless a training runs."""
        rows = self.record.training_rows()
        if len(set(rows.values())) < 2:
            raise Conflict("a model needs labels of two classes at least; label some more items first")
        if not self.is_busy:
            self._start(rows)

    def _start(self, rows: Mapping[int, int], predictions: str | None = None) -> None:
        """Start a training on these items, or from predictions that exist."""
        record = self.record
        is_large = record.n_items > MAX_GROWTH_OF_POOL * record.basis_rows
        basis_rows = record.n_items if is_large else record.basis_rows
        job = TrainingJob(
            until=record.seq,
            rows=np.array(list(rows), np.int64),
            labels=np.array(list(rows.values()), np.int64),
            n_classes=max(1, len(record.classes)),
            learner=record.settings.learner,
            seed=record.settings.seed,
            ledger=record.to_ledger(),
            predictions=predictions,
            basis_rows=basis_rows,
            surrogate=setup_options(self.project, basis_rows)[1],
            outputs=tuple(sorted(alive := record.class_table.alive)),
            classes=tuple(record.classes[number] for number in sorted(alive)) or ("",),
            encoder=self.project.encoder,
            folds=folds_for(len(audit_labels(record))),
        )
        self.job_start, self.is_busy = len(self.since), True
        try:
            self.trainer.start(job, self.training_ended)
        except (OSError, UnderstudyError) as error:
            self.is_busy = False
            self._note_failure(job, f"training could not be started: {error}")
        self._note_change()

    def start_from(self, predictions: str, wait: Callable[[float], Any]) -> None:
        """Use the predictions of this hash as those of a first model, and wait until they are in use."""
        with self.lock:
            before = len(self.record.failures)
            self._start({}, predictions)
        while self.is_busy:
            wait(WAIT_SECONDS)
        if len(self.record.failures) > before:
            raise UnderstudyError(self.record.failures[-1].data["reason"])

    def training_ended(self, outcome: Trained | Failed) -> None:
        """Use a new model, or note the failure. Called by the thread that waited for the training."""
        try:
            if isinstance(outcome, Failed):
                self._note_failure(outcome.job, outcome.reason)
            else:
                self._swap(outcome)
        except Exception as error:  # a model that cannot be used must not stop labelling
            log.exception("a trained model could not be taken into use")
            self._note_failure(outcome.job, f"the new model could not be taken into use: {error}")
        finally:
            with self.lock:
                self.is_busy = False
                self.train_if_due()
                self._note_change()
        if isinstance(outcome, Trained):
            self._after_training()

    def _note_failure(self, job: TrainingJob, reason: str) -> None:
        with self.lock:
            if self.is_stopped:
                return
            reason = reason.replace(str(self.project.folder), self.project.name)  # annotators read it
            event = Event("training_failed", data={"reason": reason, "until": job.until, "labels": len(job.rows)})
            try:
                self._store(event)
            except NotStored:  # the log does not have it; the next training says it again
                self.record.failures.append(event)
                self._note_change()

    def _swap(self, trained: Trained) -> None:
        """Let the surrogate on the new model take over once it knows all that happened while it was made."""
        surrogate = self.models.load(trained)
        probs = self.models.artifacts.predictions(trained.predictions).probs
        promise = best_influence(surrogate)
        chooser, known = Chooser(surrogate, self.models.describer_for(trained, probs)), self.job_start
        while True:
            with self.lock:
                waiting = self.since[known:]
                if len(waiting) <= MAX_MOVES_BEHIND or any(move.regroups for move in waiting):
                    self._take_over(trained, chooser, known, promise, probs)
                    return
            for move in waiting:
                chooser.follow(move)
            chooser.settle()
            known += len(waiting)

    def _take_over(self, trained: Trained, chooser: Chooser, known: int, promise: float, probs: np.ndarray) -> None:
        """Put a new model and its surrogate, which knows so many of the moves, in the place of the last ones."""
        if self.is_stopped:
            return
        right, judged = self.record.tally()
        job = trained.job
        data = {
            "model": trained.model, "predictions": trained.predictions, "until": job.until, "labels": len(job.rows),
            "learner": job.learner, "seconds": trained.seconds,
            "source": "learner" if job.predictions is None else "given", "best_influence": promise,
            "asked_accuracy": right / judged if judged else None, "calibration": trained.calibration,
            "outputs": list(job.outputs) if job.predictions is None else None, "basis_rows": job.basis_rows,
        }  # fmt: skip
        self._store(Event("trained", data=data))
        if len(self.models.guesses) == len(self.record.trainings):
            return  # it was found in the log together with something that nobody could say was stored
        self.models.adopt(trained, probs)
        self.since, waiting = self.since[self.job_start :], self.since[known:]
        chooser.describe_rows = self.models.describe_rows
        self._lead(chooser, waiting)  # anew where the classes were changed meanwhile: the model knows the former ones
        self._note_change()

    def stop(self) -> None:
        """End what runs; no model is put into use any more."""
        with self.lock:
            self.is_stopped = True
        self.trainer.stop()


def labels_at_next_training(
    labels_now: int, classes_seen: int, labels_at_last: int | None, growth: float, at_most: int
) -> int | None:
    """The number of labels at which the next training starts; None while that is not known: a second class is missing.

    First two labels in two classes, then whenever labels have grown by a factor, or by a number if that comes first.
    """
    if labels_at_last is None:
        return FIRST_LABELS if classes_seen >= FIRST_LABELS or labels_now < FIRST_LABELS else None
    return max(labels_at_last + 1, FIRST_LABELS, min(ceil(labels_at_last * growth), labels_at_last + at_most))
