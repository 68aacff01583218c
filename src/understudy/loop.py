"""The loop: ask for rows, tell their labels, and train the learner when it is due."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from understudy.checks import check_whole_number
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.journal import FORMAT, RETRACTED, TOLD, Journal, TrainingRecord, check_state, describe
from understudy.learners.protocol import Job, Learner, Model, fit_many
from understudy.learners.registry import make_learner
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
)
from understudy.strategies.random_rows import Random
from understudy.strategies.registry import make_strategy
from understudy.strategies.view import UNLABELLED, Picks, PoolView, Supply, as_tensor

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
LARGEST_STEP: Final = 200  # between two trainings, without an explicit schedule


class ActiveLoop:
    """A pool, a learner and a strategy working together.

    `pool` is a `Pool` or an array of features; labels stored in the pool are ignored, since simulations keep the
    truth there. `schedule` lists the label counts at which the learner is trained; without one it is trained at two
    labels per class, then whenever the labels have grown by half or by 200, and with an empty one only when
    `train` is called. Before the first training rows are drawn at random, unless the strategy needs nothing from a
    learner: the same for all strategies, and the same whether they are asked for one by one or together. Random numbers
    for a training and until the next depend on the seed and the number of labels alone.
    """

    def __init__(
        self,
        pool: Any,
        learner: str | Learner = "modern",
        strategy: str | Strategy = "understudy",
        schedule: Sequence[int] | None = None,
        random_state: int = 0,
        *,
        n_classes: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.pool = pool if isinstance(pool, Pool) else _pool_of(pool)
        if n_classes is None and not self.pool.classes:
            raise UnderstudyError("this pool does not say how many classes there are; pass n_classes")
        self.n_classes = check_whole_number("n_classes", len(self.pool.classes) if n_classes is None else n_classes, 1)
        self.learner = make_learner(learner, device) if isinstance(learner, str) else learner
        # Copied: a strategy that learns would carry what it learnt here into the next loop.
        self.strategy = make_strategy(strategy) if isinstance(strategy, str) else deepcopy(strategy)
        self._description = describe(self.strategy)  # before use: some strategies keep counts in their fields
        proxy = getattr(self.strategy, "proxy", None)
        self._proxy: Learner | None = make_learner(proxy, device) if isinstance(proxy, str) else proxy
        self._due_at = _due_at(schedule, len(self.pool), self.n_classes)
        self._seed = check_whole_number("random_state", random_state, 0)
        self.device = device
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
        self._table: Tensor | None = None
        self._pixels: np.ndarray | None = None

    def __repr__(self) -> str:
        return (
            f"ActiveLoop({len(self.pool)} rows, {self.n_classes} classes: {len(self.labelled)} labelled, "
            f"{len(self._pending)} pending, trained {self.round} times)"
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
            picks = self.strategy.select(view, n, self._rng)
            if not isinstance(picks, Picks):
                raise UnderstudyError(
                    f"{type(self.strategy).__name__}.select must return Picks(rows, scores); got {type(picks).__name__}"
                )
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

        A row that already has a label gets the new one.
        """
        rows, labels = self._rows("rows", rows), np.atleast_1d(np.asarray(labels))
        if labels.shape != rows.shape or (len(rows) and labels.dtype.kind not in "iu"):
            raise UnderstudyError(
                f"{len(rows):,} rows need one integer label each; got {labels.dtype} of shape {labels.shape}"
            )
        labels = labels.astype(np.int64)
        if len(labels) and not (labels.min() >= 0 and labels.max() < self.n_classes):
            raise UnderstudyError(
                f"labels must be 0 to {self.n_classes - 1} for {self.n_classes} classes; "
                f"got {labels.min()} to {labels.max()}"
            )
        self._store_labels(rows, labels)
        return self._train_if_due(rows)

    def rehearse(self, n: int, truth: Any) -> Picks:
        """Ask for n rows and tell their labels from `truth`, the class of every row of the pool: for simulations.

        Strategies that learn within a round are told each label before they choose the next row.
        """
        truth = np.asarray(truth)
        if truth.shape != self.labels.shape:
            raise UnderstudyError(f"truth must be a class for each of {len(self.pool):,} rows; got shape {truth.shape}")
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
                waits = not (self.round or self.is_ready) and needs_no_learner(self.strategy.needs)
                one_by_one = waits or isinstance(self._wrapped_strategy, LearnsWithinRound)
                picks = self.propose(1 if one_by_one else open_until_due)
                self.tell(picks.rows, truth[picks.rows])
            parts.append(picks)
        return Picks(*(np.concatenate(columns) for columns in zip(*((p.rows, p.scores) for p in parts), strict=True)))

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
    def view(self) -> PoolView:
        """What the strategy would be shown now."""
        return self._current_view()

    def predict_classes(self, rows: Any) -> np.ndarray:
        """The class predicted for each of these rows by the model that the strategy is shown."""
        chosen = self._rows("rows", rows)
        if self._view_model is None:
            raise UnderstudyError("there is no model yet; call train() first")
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

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the last training early."""
        return self._view_model is not None and self._view_model.interrupted

    def train(self) -> "ActiveLoop":
        """Train on all labels now, whatever the schedule says."""
        self._begin_training()
        return self._end_training(self._fit(self._proxy or self.learner, hook=True))

    def _begin_training(self) -> None:
        if not len(self.labelled):
            raise UnderstudyError("there are no labels to train on; tell some first")
        if self._journal.is_shown or (self.round and self._journal.since):
            self._show_strategy()  # its memory should reflect labels that were corrected or taken back
        # A strategy that recalled a memory and has seen no view since may have nothing newer to add.
        self._memory_before = self.memory or self._memory_before
        self._trained_on, self._trained_labels = self.labelled, self.labels[self.labelled]

    def _end_training(self, shown: Model) -> "ActiveLoop":
        self._view_model = shown
        self._model = None if self._proxy is not None else shown
        self.round += 1
        self._rng = self._stream(STREAM_STRATEGY, len(self._trained_on))
        self._view = None  # built on demand: training alone need not predict the whole pool
        self._journal.note_training(
            TrainingRecord(self._trained_on.tolist(), self._trained_labels.tolist(), self._memory_before)
        )
        self._find_next_due()
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
        for training in kept["trainings"]:
            self.labels[:] = UNLABELLED
            self.labels[training["rows"]] = training["labels"]
            self.recall(training["memory"]).train()
        self.round = int(kept["round"])
        self._journal.most_labels = int(kept["most_labels"])
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
        }

    # -- what the strategy is shown -------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether the strategy has the inputs it needs. Until then rows are drawn at random."""
        needs, known = self.strategy.needs, self.labels[self.labels != UNLABELLED]
        can_choose = self.round > 0 or needs_no_learner(needs)
        return can_choose and len(known) >= needs.labelled and len(np.unique(known)) >= needs.classes

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
        source = self._all_pixels() if learner.takes == "images" else self.pool.features
        assert source is not None  # checked when the loop was created
        return source if len(rows) == len(source) else source[rows]

    # -- checks ---------------------------------------------------------------------------------------------

    @property
    def _has_images(self) -> bool:
        return self.pool.items is not None and self.pool.items.kind == "image"

    def _all_pixels(self) -> np.ndarray:
        if self._pixels is None:
            self._pixels = self.pool.pixels()
        return self._pixels

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
            (type(learner).__name__, {learner.takes}) for learner in (self.learner, self._proxy) if learner is not None
        ]
        for who, wants in wanting:
            if "features" in wants and self.pool.features is None:
                raise UsageError(f"{who} needs features, but this pool has none; compute them with: understudy embed")
            if "images" in wants and not self._has_images:
                raise UsageError(f"{who} needs images, but this pool has none; load a data set of images")
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


def needs_no_learner(needs: Needs) -> bool:
    """Whether a strategy can choose before the first training; it may still need a label or two."""
    return not needs.hook and needs.supplies <= OF_THE_POOL


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


def _pool_of(features: Any) -> Pool:
    """A pool of rows without names or items."""
    table = np.asanyarray(features)
    if table.ndim != 2 or not len(table):
        raise UnderstudyError(f"pool must be a Pool or a 2-D array, one row per item; got shape {table.shape}")
    return Pool(ids=tuple(str(row) for row in range(len(table))), features=table)


def _due_at(schedule: Sequence[int] | None, n_rows: int, n_classes: int) -> Iterator[int]:
    """The numbers of labels at which to train."""
    if schedule is None:
        return _growing_by_half(min(2 * n_classes, n_rows))
    steps = [check_whole_number("a number of labels in the schedule", step, 1) for step in schedule]
    if steps != sorted(set(steps)) or (steps and steps[-1] > n_rows):
        raise UnderstudyError(f"schedule must be increasing numbers of labels, at most {n_rows:,}; got {steps}")
    return iter(steps)


def _growing_by_half(labels: int) -> Iterator[int]:
    while True:
        yield labels
        labels += min(LARGEST_STEP, max(1, labels // 2))
