"""The loop: ask for rows, tell their labels, and train the learner when it is due."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from understudy.checks import check_whole_number
from understudy.core.checks import check_device
from understudy.data.class_values import choose_classes
from understudy.data.objects import finite_numbers, pool_of
from understudy.errors import UnderstudyError, UsageError
from understudy.frames import as_numbers, as_values, take_rows
from understudy.journal import FORMAT, RETRACTED, TOLD, Journal, TrainingRecord, TrainingScore, check_state, describe
from understudy.learners.protocol import Job, Learner, Model, fit_many
from understudy.learners.registry import as_learner
from understudy.messages import HOW_TO_EMBED
from understudy.predictors import digest_of, predictions_for
from understudy.strategies.protocol import (
    Augments,
    ChangesTraining,
    Follows,
    LearnsWithinRound,
    Needs,
    Rehearses,
    Remembers,
    SharesTraining,
    Strategy,
    check_picks,
    check_strategy,
)
from understudy.strategies.random_rows import Random
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import UNLABELLED, Picks, PoolView, Supply, as_tensor
from understudy.tracking import TrackedTrainings, Tracker, check_tracker

# Each purpose has its own random stream, so that draws for one do not affect another.
STREAM_START, STREAM_LEARNER, STREAM_STRATEGY, STREAM_HOOK, STREAM_PASSES = range(5)
# Which capability of a learner provides each input of the view. Every learner predicts probabilities.
OFFERED_AS: Final[dict[Supply, str]] = {
    "hidden": "features",
    "activations": "activations",
    "stochastic": "stochastic",
    "gradient_norms": "gradients",
}
OF_THE_POOL: Final = frozenset({"features", "images"})
SAMPLED_ROWS: Final = 64  # of the features, hashed to recognise the pool
MAX_JUDGED_TO_DRAW: Final = 1000  # labels that a picture in a notebook predicts
LARGEST_STEP: Final = 200  # between two trainings, without an explicit schedule
LABELS_PER_CLASS_GIVEN: Final = 10  # at the first training, where predictions were given: they outdo two labels


class ActiveLoop:
    """A pool, a learner and a strategy working together.

    `pool` is a `Pool`, or an array, tensor, frame, sparse matrix or torch `Dataset`, whose rows keep their places;
    labels stored in it are ignored, since simulations keep the truth there. `learner` is any scikit-learn classifier,
    a learner, or the name of one. `classes` are names or numbers, in which labels are told and predicted; `n_classes`
    is short for 0, 1, 2 and so on. `features` is what strategies see, where it is not what the learner is given.

    `schedule` lists the label counts at which the learner is trained; without one it is trained at two
    labels per class, then whenever the labels have grown by half or by 200, and with an empty one only when
    `train` is called. Before the first training rows are drawn at random, unless the strategy needs nothing from a
    learner: the same for all strategies, and the same whether they are asked for one by one or together. Random numbers
    for a training and until the next depend on the seed and the number of labels alone.

    `predictions` are those of a model that one has already: an array (n, c), a file, a function from items to
    probabilities, or its `module:name`. The strategy is shown them in place of the learner's until the first training,
    which by itself then comes at ten labels per class or at 200, whichever is first. A `tracker` is told of every
    training.
    """

    def __init__(
        self,
        pool: Any,
        learner: Any = "modern",
        strategy: str | Strategy = "understudy",
        schedule: Sequence[int] | None = None,
        random_state: int = 0,
        *,
        classes: Any = None,
        n_classes: int | None = None,
        features: Any = None,
        device: str = "cpu",
        predictions: Any = None,
        tracker: Tracker | None = None,
    ) -> None:
        self.pool = pool_of(pool, features)
        self._has_own_features = features is not None
        self._classes = choose_classes(self.pool.classes, classes, n_classes)
        self.n_classes = len(self._classes)
        self.learner = as_learner(learner, device, self._classes.values)
        # Copied: a strategy that learns would carry what it learnt here into the next loop.
        self.strategy = make_strategy(strategy) if isinstance(strategy, str) else deepcopy(check_strategy(strategy))
        self._names = tuple(each if isinstance(each, str) else type(each).__name__ for each in (learner, strategy))
        self._description = describe(self.strategy)  # before use: some strategies keep counts in their fields
        proxy = getattr(self.strategy, "proxy", None)
        self._proxy: Learner | None = None if proxy is None else as_learner(proxy, device, self._classes.values)
        self._given = None if predictions is None else self._read_predictions(predictions)  # replaced by a training
        first = (
            2 * self.n_classes if self._given is None else min(LABELS_PER_CLASS_GIVEN * self.n_classes, LARGEST_STEP)
        )
        self._due_at = _due_at(schedule, len(self.pool), first)
        self._seed = check_whole_number("random_state", random_state, 0)
        self.device = str(check_device(device))
        self._prepare_features()
        self._check_supplies()

        self.labels = np.full(len(self.pool), UNLABELLED)  # as told
        self.round = 0  # trainings so far
        self._pending: dict[int, None] = {}
        self._skipped: dict[int, None] = {}
        self._due = next(self._due_at, None)
        self._rng = self._stream(STREAM_STRATEGY, 0)
        self._journal = Journal(keeps_all=self.strategy.needs.hook)
        self._memory_before: dict[str, Any] = {}  # the last training
        self._model: Model | None = None  # of the learner
        self._view_model: Model | None = None  # the one shown to the strategy: the learner's or its proxy's
        self._trained_on = np.empty(0, np.int64)
        self._trained_labels = np.empty(0, np.int64)  # as of the last training
        self._view: PoolView | None = None  # built after each training, for all picks until the next
        self._tracked = None if tracker is None else TrackedTrainings(check_tracker(tracker), self._identity())
        self._table: Tensor | None = None
        self._pixels: np.ndarray | None = None

    def __repr__(self) -> str:
        return (
            f"ActiveLoop({len(self.pool)} rows, {self.n_classes} classes: {len(self.labelled)} labelled, "
            f"{len(self._pending)} pending, trained {self.round} times)"
        )

    def _repr_html_(self) -> str | None:
        from understudy.notebook import draw_safely

        return draw_safely(self._draw)

    def _draw(self) -> Any:
        from understudy.loop_card import draw_loop

        is_quick = len(self.labelled) - len(self._trained_on) <= MAX_JUDGED_TO_DRAW
        return draw_loop(
            [f"{len(self.pool):,} rows", *self._names, f"seed {self._seed}"],
            self.labels,
            self.classes,
            pending=len(self._pending),
            skipped=len(self._skipped),
            history=self.history,
            since=TrainingScore(len(self.labelled), *(self._judge() if is_quick else (0, 0))),
            due=self._due,
        )

    # -- asking and telling ---------------------------------------------------------------------------------

    def ask(self, n: int = 1) -> np.ndarray:
        """The next n rows to label, in the order of choice; pending until told, released or skipped."""
        return self.propose(n).rows

    def propose(self, n: int = 1) -> Picks:
        """As `ask`, and the score of each row when it was chosen."""
        view = self._current_view()
        if not self.round and (not self.is_ready or isinstance(self._wrapped_strategy, Random)):
            picks = self._first_rows(view, n)
        elif not self.is_ready:
            picks = Random().select(view, n, self._rng)
        else:
            self._journal.note_shown()
            picks = check_picks(self.strategy, self.strategy.select(view, n, self._rng), view, n)
        self._pending.update(dict.fromkeys(picks.rows.tolist()))
        return picks

    def _first_rows(self, view: PoolView, n: int) -> Picks:
        """The next n open rows of a random order that is drawn once, the same for all strategies."""
        view.candidates(n)  # raises if there are too few
        is_open = view.is_open.cpu().numpy()
        return Picks(self._start_order[is_open[self._start_order]][:n], np.zeros(n))

    @cached_property
    def _start_order(self) -> np.ndarray:
        return self._stream(STREAM_START).permutation(len(self.pool))

    @property
    def _wrapped_strategy(self) -> Strategy:
        """The strategy itself; if it uses a proxy model, the strategy it wraps."""
        return getattr(self.strategy, "strategy", self.strategy)

    def tell(self, rows: Any, labels: Any) -> "ActiveLoop":
        """Add the labels of some rows, asked for or not; the learner is trained if that is due.

        Labels are classes, or the places of classes that have names. A row that already has a label gets the new one.
        """
        rows = self._rows("rows", rows)
        self._store_labels(rows, self._classes.numbers_of(labels, len(rows)))
        return self._train_if_due(rows)

    def rehearse(self, n: int, truth: Any) -> Picks:
        """Ask for n rows and tell their labels from `truth`, the class of every row of the pool: for simulations.

        Strategies that learn within a round are told each label before they choose the next row.
        """
        truth = self._places_of(truth)
        parts: list[Picks] = []
        while (left := check_whole_number("n", n, 1) - sum(len(part) for part in parts)) > 0:
            open_until_due = left if self._due is None else min(left, max(1, self._due - len(self.labelled)))
            if isinstance(self.strategy, Rehearses) and self.is_ready and not self._pending:
                self._journal.note_shown()
                picks = self.strategy.rehearse(self._current_view(), open_until_due, truth, self._rng)
                for row in picks.rows.tolist():  # the strategy was told one by one
                    self._journal.note_told([row], [int(truth[row])])
                self.labels[picks.rows] = truth[picks.rows]
                self._train_if_due(picks.rows)
            else:
                # Before the first training a single label may make the strategy ready.
                waits = not (self.round or self.is_ready) and self._can_start
                one_by_one = waits or isinstance(self._wrapped_strategy, LearnsWithinRound)
                picks = self.propose(1 if one_by_one else open_until_due)
                self.tell(picks.rows, truth[picks.rows])
            parts.append(picks)
        rows, scores = zip(*((part.rows, part.scores) for part in parts), strict=True)
        return Picks(np.concatenate(rows), np.concatenate(scores))

    def _places_of(self, truth: Any) -> np.ndarray:
        given = as_values("truth", truth)
        if given.shape != self.labels.shape:
            raise UnderstudyError(f"truth must be a class for each of {len(self.pool):,} rows; got shape {given.shape}")
        # Numbers that are places are left as they are: rows that are never asked for may be without a class.
        is_place = given.dtype.kind in "iu" and (self._classes.are_names or self._classes.is_counted)
        return given if is_place else self._classes.numbers_of(given, len(self.pool))

    def _store_labels(self, rows: np.ndarray, labels: np.ndarray) -> None:
        if isinstance(self.strategy, LearnsWithinRound):
            if self.round and not self._journal.is_shown:
                self._show_strategy()  # the first label after a training tests the new model
            self.strategy.tell(rows, labels)
        self._journal.note_told(rows.tolist(), labels.tolist())
        self.labels[rows] = labels

    def _show_strategy(self) -> None:
        """Show the strategy the learner's current predictions, if it can take them without choosing."""
        if isinstance(self.strategy, Follows):
            self._journal.note_shown()
            self.strategy.follow(self._current_view(), self._rng)

    def _train_if_due(self, rows: np.ndarray) -> "ActiveLoop":
        for row in rows.tolist():
            self._pending.pop(row, None)
        if self._due is not None and len(self.labelled) >= self._due:
            self.train()
        return self

    def retract(self, rows: Any) -> "ActiveLoop":
        """Take back the labels of these rows. A model that was trained on them is unchanged until the next training."""
        rows = self._rows("rows", rows)
        self._journal.note_retracted(rows.tolist())
        self.labels[rows] = UNLABELLED
        return self

    def release(self, rows: Any) -> "ActiveLoop":
        """Allow pending rows to be asked for again; others stay as they are."""
        for row in self._rows("rows", rows).tolist():
            self._pending.pop(row, None)
        return self

    def skip(self, rows: Any) -> "ActiveLoop":
        """Never ask for these rows again."""
        rows = self._rows("rows", rows)
        self._skipped.update(dict.fromkeys(rows.tolist()))
        return self.release(rows)

    def unskip(self, rows: Any) -> "ActiveLoop":
        """Allow skipped rows to be asked for again; others stay as they are."""
        for row in self._rows("rows", rows).tolist():
            self._skipped.pop(row, None)
        return self

    @property
    def pending(self) -> np.ndarray:
        """Rows that are waiting for a label, in the order they were asked for."""
        return np.array(list(self._pending), dtype=np.int64)

    @property
    def labelled(self) -> np.ndarray:
        """Rows with a label, ascending."""
        return np.flatnonzero(self.labels != UNLABELLED)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes, as labels are told and predicted: names or numbers."""
        return self._classes.values

    @property
    def answers(self) -> np.ndarray:
        """The labels of `labelled`, as classes: `estimator.fit(X[loop.labelled], loop.answers)`."""
        return self._classes.values_of(self.labels[self.labelled])

    @property
    def view(self) -> PoolView:
        """What the strategy would be shown now."""
        return self._current_view()

    def predict_classes(self, rows: Any) -> np.ndarray:
        """The class predicted for each of these rows by the model, or the predictions, that the strategy is shown."""
        chosen = self._rows("rows", rows)
        if self._view_model is None:
            if self._given is None:
                raise UnderstudyError("there is no model yet; call train() first")
            return np.asarray(self._given[chosen].argmax(1))
        if self._view is not None and self._view.has("probs"):
            return self._view.probs[torch.from_numpy(chosen).to(self._view.device)].argmax(1).cpu().numpy()
        learner = self._proxy or self.learner
        found: np.ndarray = self._view_model.predict_proba(self._inputs(learner, chosen)).argmax(1)
        return found

    # -- training -------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model of the last training. With a proxy, the learner itself is trained when this is first read."""
        if self._model is None:
            if not self.round:
                raise UnderstudyError(f"there is no model yet; tell labels up to {self._due}, or call train()")
            self._model = self._fit(self.learner, hook=False)
        return self._model

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """(q, c): the model's probabilities of each class, in the order of `classes`, for new rows like the pool's."""
        if self.learner.takes == "features" and not self._takes_inputs(self.learner):
            inputs = as_numbers(inputs)
        return self.model.predict_proba(inputs)

    def predict(self, inputs: Any) -> np.ndarray:
        """(q,): the class that the model predicts for each of these new rows."""
        return self._classes.values_of(self.predict_proba(inputs).argmax(1))

    def score(self, inputs: Any, labels: Any) -> float:
        """The share of these new rows whose class the model predicts."""
        predicted = self.predict_proba(inputs).argmax(1)
        return float((predicted == self._classes.numbers_of(labels, len(predicted))).mean())

    @property
    def history(self) -> list[TrainingScore]:
        """Of each training, its labels, and how many of those since the one before the model had right."""
        return list(self._journal.scores)

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the last training early."""
        return self._view_model is not None and self._view_model.interrupted

    def train(self) -> "ActiveLoop":
        """Train on all labels now, whatever the schedule says."""
        before = self._trained_on, self._trained_labels
        self._begin_training()
        try:
            shown = self._fit(self._proxy or self.learner, hook=True)
        except BaseException:
            self._trained_on, self._trained_labels = before  # the model is still the one of these
            raise
        return self._end_training(shown)

    def _begin_training(self) -> None:
        if not len(self.labelled):
            raise UnderstudyError("there are no labels to train on; tell some first")
        if self._journal.is_shown or (self.round and self._journal.since):
            self._show_strategy()  # its memory should reflect labels that were corrected or taken back
        self._score = TrainingScore(len(self.labelled), *self._judge())  # noted once the training has ended
        # A strategy that recalled a memory and has seen no view since may have nothing newer to add.
        self._memory_before = self.memory or self._memory_before
        self._trained_on, self._trained_labels = self.labelled, self.labels[self.labelled]
        if self._tracked is not None:
            self._tracked.begin(*self._told_since())

    def _told_since(self) -> tuple[list[str], float | None]:
        """The items that got a label since the last training, and the share of them that was predicted right."""
        told = dict.fromkeys(row for what, *of in self._journal.since if what == TOLD for row in of[0])
        rows = np.array([row for row in told if self.labels[row] != UNLABELLED], np.int64)
        ids = [self.pool.ids[row] for row in rows]
        right = self._count_right(rows)
        return ids, None if right is None else right / len(rows)

    def _judge(self) -> tuple[int, int]:
        """How many rows have a label that the last training did not, and for how many of them its model is right."""
        since = np.setdiff1d(self.labelled, self._trained_on)
        right = None if self._view_model is None else self._count_right(since)
        return (0, 0) if right is None else (len(since), right)

    def _count_right(self, rows: np.ndarray) -> int | None:
        """For how many of these rows the label is what the strategy is shown; None where nothing is predicted."""
        if not len(rows) or (self._view_model is None and self._given is None):
            return None
        try:
            predicted = self.predict_classes(rows)
        except Exception:  # whatever a model raises for rows of a kind it has not met: the next one will have
            return None
        return int((predicted == self.labels[rows]).sum())

    def _end_training(self, shown: Model) -> "ActiveLoop":
        self._view_model = shown
        self._model = None if self._proxy is not None else shown
        self.round += 1
        self._journal.scores.append(self._score)
        self._rng = self._stream(STREAM_STRATEGY, len(self._trained_on))
        self._view = None  # built on demand: training alone need not predict the whole pool
        self._journal.note_training(
            TrainingRecord(self._trained_on.tolist(), self._trained_labels.tolist(), self._memory_before)
        )
        self._find_next_due()
        if self._tracked is not None:
            counts = np.bincount(self._trained_labels, minlength=self.n_classes).tolist()
            self._tracked.end(len(self._trained_on), dict(zip(self._classes.names, counts, strict=True)))
        return self

    def _find_next_due(self) -> None:
        while self._due is not None and self._due <= self._journal.most_labels:
            self._due = next(self._due_at, None)

    def _fit(self, learner: Learner, hook: bool) -> Model:
        job = self._job(learner)
        given: dict[str, Any] = {}
        inputs, labels = job.inputs, job.labels
        if hook and self.strategy.needs.hook and isinstance(self.strategy, ChangesTraining):
            given["hook"] = self.strategy.training_hook(self._view_model, self._stream(STREAM_HOOK, len(labels)))
        if hook and isinstance(self.strategy, Augments) and learner.takes == "images":
            rng = self._stream(STREAM_HOOK, len(labels))
            made, classes = self.strategy.augment(inputs, labels, self.n_classes, rng)
            inputs, labels = np.concatenate([inputs, made]), np.concatenate([labels, classes])
        return learner.fit(inputs, labels, self.n_classes, seed=job.seed, **given)

    def _job(self, learner: Learner) -> Job:
        """The data and seed of this training. The seed depends on the number of labels alone, for fair comparisons."""
        seed = int(self._stream(STREAM_LEARNER, len(self._trained_on)).integers(2**63))
        return Job(self._inputs(learner, self._trained_on), self._trained_labels, seed)

    def recall(self, memory: dict[str, Any]) -> "ActiveLoop":
        """Restore, before a training, what the strategy of another loop remembered at this point."""
        if memory and isinstance(self.strategy, Remembers):
            self.strategy.recall(memory)
            self._memory_before = memory
        return self

    @property
    def memory(self) -> dict[str, Any]:
        """What the strategy carries from round to round."""
        return self.strategy.memory() if isinstance(self.strategy, Remembers) else {}

    # -- saving and resuming --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything a new loop needs to continue as this one would: plain numbers, strings, lists and dicts."""
        journal = self._journal
        return {
            "format": FORMAT,
            **self._identity(),
            "round": self.round,
            "most_labels": journal.most_labels,
            "scores": [[score.labels, score.judged, score.right] for score in journal.scores],
            "trainings": [deepcopy(vars(training)) for training in journal.trainings],
            "since": [list(deepcopy(event)) for event in journal.since],
            "pending": list(self._pending),
            "skipped": list(self._skipped),
            "draws": self._rng.bit_generator.state,
        }

    def resume(self, state: Mapping[str, Any]) -> "ActiveLoop":
        """Continue from what `state_dict` of another loop returned, in a new loop with the same arguments.

        The last training is repeated, which gives the same model; if the strategy changes training, all are. A
        strategy that learns from single labels is told those since then in their original order.
        """
        if self.round or len(self.labelled) or self._pending or self._skipped:
            raise UnderstudyError("only a new loop can be resumed, and this one is in use; create another one")
        kept = check_state(state, self._identity())
        tracked, self._tracked = self._tracked, None  # what is repeated was logged when it happened
        for training in kept["trainings"]:
            self.labels[:] = UNLABELLED
            self.labels[training["rows"]] = training["labels"]
            self.recall(training["memory"]).train()
        self.round = int(kept["round"])
        self._journal.most_labels = int(kept["most_labels"])
        self._journal.scores = [TrainingScore(*score) for score in kept.get("scores", ())]
        self._find_next_due()
        for what, *of in kept["since"]:
            if what == TOLD:
                self._store_labels(self._rows("rows", of[0]), np.array(of[1], dtype=np.int64))
            elif what == RETRACTED:
                self.retract(of[0])
            else:
                self._show_strategy()
                self._journal.note_shown()
        self._pending, self._skipped = dict.fromkeys(kept["pending"]), dict.fromkeys(kept["skipped"])
        self._rng.bit_generator.state = kept["draws"]
        self._tracked = tracked
        return self

    def _identity(self) -> dict[str, Any]:
        """What must be equal in a loop that resumes the state of another."""
        pool = hashlib.sha256("\n".join(self.pool.ids).encode())
        if self.pool.features is not None:
            some = np.asarray(self.pool.features[:: max(1, len(self.pool) // SAMPLED_ROWS)], dtype=np.float32)
            pool.update(some.tobytes())
        return {
            "pool": pool.hexdigest()[:16],
            "n_classes": self.n_classes,
            "random_state": self._seed,
            "strategy": self._description,
            "learner": describe(self.learner),
            "predictions": None if self._given is None else digest_of(self._given),
        }

    # -- what the strategy is shown -------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether the strategy has the inputs it needs. Until then rows are drawn at random."""
        needs, known = self.strategy.needs, self.labels[self.labels != UNLABELLED]
        return (
            (self.round > 0 or self._can_start)
            and len(known) >= needs.labelled
            and len(np.unique(known)) >= needs.classes
        )

    @property
    def _can_start(self) -> bool:
        return needs_no_learner(self.strategy.needs, with_probs=self._given is not None)

    def _current_view(self) -> PoolView:
        if self._view is None:
            self._view = self._view_of(self._view_model)
        return self._view.after(self.labels, list(self._pending), list(self._skipped), self._trained_on)

    def _view_of(self, model: Model | None) -> PoolView:
        """The view with just what the strategy needs, from the pool and this model."""
        needs, wanted = self.strategy.needs, self._wanted()
        given: dict[str, Any] = {}
        if "features" in wanted or (needs.images_or_features and not self._has_images):
            given["features"] = self._features()
        if "images" in wanted or (needs.images_or_features and self._has_images):
            given["images"] = self._all_pixels()
        if model is not None:
            given |= self._predict_with(model, wanted, needs)
        elif self._given is not None and "probs" in wanted:
            given["probs"] = self._given
        return PoolView(
            self.labels, self.n_classes, trained_on=self._trained_on, round=self.round, device=self.device, **given
        )

    def _wanted(self) -> frozenset[Supply]:
        """The inputs that the strategy needs, and optional ones that this pool and learner can provide."""
        offers, has = (self._proxy or self.learner).offers, {"probs"}
        has |= {supply for supply, offer in OFFERED_AS.items() if offer in offers}
        has |= ({"features"} if self.pool.features is not None else set()) | ({"images"} if self._has_images else set())
        needs = self.strategy.needs
        return needs.supplies | (needs.optional & has)

    def _features(self) -> Tensor:
        """The pool's features on the strategies' device: moved once, so that caches recognise the same tensor."""
        if self._table is None:
            self._table = as_tensor("features", self.pool.features).to(self.device)
        return self._table

    def _predict_with(self, model: Any, wanted: frozenset[Supply], needs: Needs) -> dict[str, Any]:
        inputs = self._inputs(self._proxy or self.learner, np.arange(len(self.pool)))
        said: dict[str, Any] = {}
        if "probs" in wanted:
            said["probs"] = model.predict_proba(inputs)
        if "hidden" in wanted:
            said["hidden"] = model.features(inputs)
        if "activations" in wanted:
            said["activations"] = model.activations(inputs)
        if "stochastic" in wanted:
            seed = int(self._stream(STREAM_PASSES, len(self._trained_on)).integers(2**63))
            # A learner trained with dropout keeps its own rate.
            rate = None if getattr(model, "dropout", 0) else needs.dropout
            said["stochastic"] = model.stochastic_proba(inputs, needs.passes, seed=seed, dropout=rate)
        if "gradient_norms" in wanted:
            said["gradient_norms"] = model.gradient_norms(inputs, of=needs.gradient_of)
        return said

    def _inputs(self, learner: Learner, rows: np.ndarray) -> Any:
        if learner.takes == "ids":
            return [self.pool.ids[row] for row in rows]
        if learner.takes == "items":
            return self.pool.raw_items()[rows]
        if learner.takes == "images":
            source: Any = self._all_pixels()
        else:
            source = self.pool.inputs if self._takes_inputs(learner) else self.pool.features
        assert source is not None  # checked when the loop was created
        return source if len(rows) == len(self.pool) else take_rows(source, rows)

    def _takes_inputs(self, learner: Learner) -> bool:
        """Whether this learner is given the rows as the caller holds them, not what strategies see of them."""
        if self.pool.inputs is None or learner.takes != "features":
            return False
        are_numbers = isinstance(self.pool.inputs, np.ndarray) and self.pool.inputs.dtype.kind in "fiub"
        return "frames" in learner.offers or (self._has_own_features and are_numbers)

    def _read_predictions(self, given: Any) -> np.ndarray:
        return predictions_for(self.pool, self._classes.names, given)

    # -- checks ---------------------------------------------------------------------------------------------

    @property
    def _has_images(self) -> bool:
        return self.pool.items is not None and self.pool.items.kind == "image"

    def _all_pixels(self) -> np.ndarray:
        if self._pixels is None:
            self._pixels = self.pool.pixels()
        return self._pixels

    def _prepare_features(self) -> None:
        """Features of a frame that is not all numbers: what the pipeline makes of it, where somebody needs them."""
        needs, learners = self.strategy.needs, [each for each in (self.learner, self._proxy) if each is not None]
        wanted = "features" in needs.supplies or needs.images_or_features
        wanted |= any(each.takes == "features" and not self._takes_inputs(each) for each in learners)
        if self.pool.features is not None or self.pool.inputs is None or not wanted:
            return
        preprocess = getattr(self.learner, "preprocess", None)
        try:
            made = None if preprocess is None else preprocess(self.pool.inputs)
            self.pool = replace(self.pool, features=finite_numbers(self.pool.inputs if made is None else made))
        except UnderstudyError as error:
            raise UsageError(f"{error}; or pass features=, numbers for the strategy {self._names[1]}") from error

    def _check_supplies(self) -> None:
        """Raise if the pool or the learner cannot provide what the strategy needs."""
        needs, shown = self.strategy.needs, self._proxy or self.learner
        name = type(getattr(self.strategy, "strategy", self.strategy)).__name__
        of = type(shown).__name__
        role = "proxy" if self._proxy is not None else "learner"
        for supply in sorted(needs.supplies & OFFERED_AS.keys()):
            if OFFERED_AS[supply] not in shown.offers:
                raise UnderstudyError(f"{name} needs {supply}, which {of} does not offer; use the {role} 'modern'")
        if needs.hook and "hook" not in shown.offers:
            raise UnderstudyError(f"{name} changes training, which {of} does not allow; use the {role} 'modern'")
        if isinstance(self.strategy, Augments) and shown.takes != "images":
            raise UnderstudyError(f"{name} generates images, which {of} cannot train on; use the {role} 'resnet18'")
        wanting = [(name, needs.supplies)] + [
            (type(learner).__name__, {learner.takes})
            for learner in (self.learner, self._proxy)
            if learner is not None and not self._takes_inputs(learner)
        ]
        for who, wants in wanting:
            if "features" in wants and self.pool.features is None:
                raise UsageError(f"{who} needs features, but this pool has none; {HOW_TO_EMBED}")
            if "images" in wants and not self._has_images:
                raise UsageError(f"{who} needs images, but this pool has none; load a data set of images")
            if "items" in wants and self.pool.items is None:
                raise UsageError(f"{who} needs the items themselves, but this pool has none; load what it was made of")
        if needs.images_or_features and self.pool.features is None and not self._has_images:
            raise UnderstudyError(f"{name} needs images or features, but this pool has neither")

    def _rows(self, name: str, rows: Any) -> np.ndarray:
        chosen = np.atleast_1d(np.asarray(rows))
        if chosen.size and (chosen.ndim != 1 or chosen.dtype.kind not in "iu"):
            raise UnderstudyError(f"{name} must be a list of row numbers; got {chosen.dtype} of shape {chosen.shape}")
        chosen = chosen.astype(np.int64).reshape(-1)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < len(self.pool)):
            raise UnderstudyError(
                f"{name} must be 0 to {len(self.pool) - 1}; got {int(chosen.min())} to {int(chosen.max())}"
            )
        if len(np.unique(chosen)) < len(chosen):
            raise UnderstudyError(f"{name} must be distinct; pass each row once")
        return chosen

    def _stream(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, *purpose])


def needs_no_learner(needs: Needs, *, with_probs: bool = False) -> bool:
    """Whether a strategy can choose before the first training; it may still need a label or two.

    `with_probs`: there are predictions to start from.
    """
    return not needs.hook and needs.supplies <= (OF_THE_POOL | {"probs"} if with_probs else OF_THE_POOL)


def train_together(loops: Sequence[ActiveLoop]) -> None:
    """Train these loops, whose learners have the same settings, at once where that is possible.

    Each is trained as it would be alone, up to rounding.
    """
    first = loops[0]
    strategies = [loop.strategy for loop in loops]
    hooked = first.strategy.needs.hook
    shared = all(isinstance(strategy, SharesTraining) and strategy.shares_training for strategy in strategies)
    alone = first._proxy is not None or any(isinstance(strategy, Augments) for strategy in strategies)
    if len(loops) == 1 or alone or "many" not in first.learner.offers or (hooked and not shared):
        for loop in loops:
            loop.train()
        return
    for loop in loops:
        loop._begin_training()
    jobs = [loop._job(loop.learner) for loop in loops]
    hook = None
    if hooked and isinstance(first.strategy, SharesTraining):
        hook = first.strategy.training_hook(first._view_model, first._stream(STREAM_HOOK, len(jobs[0].labels)))
    models = fit_many(first.learner, jobs, first.n_classes, hook=hook)
    for place, (loop, model) in enumerate(zip(loops, models, strict=True)):
        if place and hook is not None and isinstance(loop.strategy, SharesTraining):
            loop.strategy.adopt(hook.part(place))
        loop._end_training(model)


def fit_plainly(loops: Sequence[ActiveLoop]) -> list[Model]:
    """The models without the strategies' changes to training: same labels, same seeds."""
    if any(not loop.round for loop in loops):
        raise UnderstudyError("there is no model yet; call train() first")
    return fit_many(loops[0].learner, [loop._job(loop.learner) for loop in loops], loops[0].n_classes)


def _due_at(schedule: Sequence[int] | None, n_rows: int, first: int) -> Iterator[int]:
    """The numbers of labels at which to train; `first` is where that begins without a schedule."""
    if schedule is None:
        return _growing_by_half(min(first, n_rows))
    given: object = schedule
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"schedule must be a list of numbers of labels, [20, 40, 80] for instance; got {given!r}")
    steps = [check_whole_number("a number of labels in the schedule", step, 1) for step in schedule]
    if steps != sorted(set(steps)) or (steps and steps[-1] > n_rows):
        raise UnderstudyError(f"schedule must be increasing numbers of labels, at most {n_rows:,}; got {steps}")
    return iter(steps)


def _growing_by_half(labels: int) -> Iterator[int]:
    while True:
        yield labels
        labels += min(LARGEST_STEP, max(1, labels // 2))
