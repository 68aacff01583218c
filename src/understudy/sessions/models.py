"""The models of a project: what the last one predicts, and how good each is on the audit items."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.core.ledger import Ledger
from understudy.core.options import Options
from understudy.core.protocol import RowStorage
from understudy.core.state import best_influence_of, count_rows, drop_engine, drop_rows, mean_distance_of
from understudy.core.surrogate import Surrogate
from understudy.errors import NotFound, UnderstudyError
from understudy.learners.model_files import load_model
from understudy.projects.project import Project
from understudy.sessions.audit import Change, change_of
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record
from understudy.sessions.training.array_folders import read_about, read_arrays
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.training.trainer import Trained, find_anchor
from understudy.sessions.training.training_job import make_anchor, make_setup, rows_of_setup, setup_folder

HASH_DIGITS: Final = 12  # by which people know a model


class Models:
    """Trained models of one project, oldest first, as the record lists them.

    `ledger` is what was known of every item when the last of them was trained.
    """

    def __init__(self, project: Project, record: Record, ledger: Ledger, storage: RowStorage | None = None) -> None:
        """`storage`: where the rows of surrogates are kept; in memory, if not said."""
        self.project, self.record, self.storage = project, record, storage
        self.artifacts = Artifacts(project.artifacts)
        self.reload(ledger)
        self._read_setup()

    def _read_setup(self) -> None:
        """Read what is known of the pool before its first label."""
        self._setup_rows = self.record.basis_rows
        setup = self.setup_of(self._setup_rows)
        self.mean_distance = mean_distance_in_setup(setup)  # of two items of the pool
        self._first_influence = _first_influence_in_setup(setup)

    @property
    def first_influence(self) -> float | None:
        """What the best label would explain while nothing is labelled: in proportion to how far the pool grew since."""
        first, rows = self._first_influence, self._setup_rows
        return first if first is None or rows == self.record.n_items else first * self.record.n_items / max(1, rows)

    def reload(self, ledger: Ledger) -> None:
        """Take over the models that the record now has, the last with this ledger."""
        self.ledger = ledger
        last = self.record.trainings[-1] if self.record.trainings else None
        kept = None if last is None else self.artifacts.predictions(last.data["predictions"])
        self._predicted = None if kept is None else kept.probs  # in the classes of the time
        self.knows = {} if kept is None else dict(zip(kept.trained_on.tolist(), kept.labels.tolist(), strict=False))
        self.predict_new()
        self.regroup()

    def regroup(self) -> None:
        """Let predictions be those of the classes that are alive now."""
        self.probs = None if self._predicted is None else self.record.class_table.project(self._predicted)
        self.look_up_guesses()

    def look_up_guesses(self) -> None:
        """Find out what every model said of the audit items that there are now."""
        self.guesses: list[dict[int, int] | None] = [self._guesses_of(event) for event in self.record.trainings[:-1]]
        if self.record.trainings:
            self.guesses.append(None if self._predicted is None else self._guesses_in(self._predicted))

    # -- the last one -------------------------------------------------------------------------------------

    @property
    def version(self) -> str | None:
        """The name of the model in use; None before the first."""
        return None if not self.record.trainings else _version_of(self.record.trainings[-1])

    def guess(self, item: int) -> int | None:
        """What the model in use predicts for an item; None where it was trained on the item's label."""
        if self.probs is None or item >= len(self.probs) or item in self.knows:
            return None
        return int(np.argmax(self.probs[item]))

    def predictions(self) -> np.ndarray:
        """(n, c): what the model in use predicts for the whole pool as it is now."""
        if self.probs is None:
            raise NotFound("there is no model yet, so there are no predictions; label items of two classes first")
        n_classes = max(1, len(self.record.classes))
        probs = np.pad(self.probs, ((0, 0), (0, max(0, n_classes - self.probs.shape[1]))))
        missing = self.record.n_items - len(probs)
        if missing > 0:
            probs = np.concatenate([probs, np.full((missing, probs.shape[1]), 1 / n_classes, np.float32)])
        return probs

    def predict_new(self) -> None:
        """Let the model in use predict the items that came after it, where it can be loaded. No other is a guess."""
        if self._predicted is None or len(self._predicted) >= self.record.n_items:
            return
        found = self.predict(self.project.features[len(self._predicted) : self.record.n_items])
        if found is not None:
            self._append(found)

    def _append(self, probs: np.ndarray) -> None:
        """Take what the model in use predicts for the next items, in the classes of its time."""
        assert self._predicted is not None
        self._predicted = np.concatenate([self._predicted, probs])

    def note_growth(self, predicted: np.ndarray | None) -> None:
        """Items joined, for which the model in use predicts this; None: that is still to be found out, if it can be."""
        if self._predicted is not None:
            if predicted is not None and len(self._predicted) + len(predicted) == self.record.n_items:
                self._append(predicted)
            else:
                self.predict_new()
            self.probs = self.record.class_table.project(self._predicted)
            self.guesses[-1] = self._guesses_in(self._predicted)
        if self._setup_rows != self.record.basis_rows:
            self._read_setup()

    def predict(self, features: np.ndarray) -> np.ndarray | None:
        """What the model in use predicts for items, in the classes of its time; None where it cannot be loaded."""
        if self._predicted is None:
            return None
        event = self.record.trainings[-1]
        if not self.record.knows_features(event):
            return None
        return self._predict_by(event.data["model"], event.data.get("outputs"), self._predicted.shape[1], features)

    def _predict_by(
        self, model: str | None, outputs: Sequence[int] | None, n_classes: int, features: np.ndarray
    ) -> np.ndarray | None:
        """The same by any model that is kept: each of its outputs in the column of its class."""
        if model is None:
            return None
        try:
            probs = load_model(self.artifacts.path(model)).predict_proba(np.asarray(features, np.float32))
        except UnderstudyError:
            return None
        found = np.zeros((len(features), n_classes), np.float32)
        found[:, outputs or range(np.shape(probs)[1])] = probs
        return found

    def rows_for(self, predicted: np.ndarray | None, count: int, n_classes: int) -> np.ndarray | None:
        """Predictions as a surrogate takes them for items that joined; without any, all classes alike."""
        return None if self._predicted is None else self._as_rows(predicted, count, n_classes)

    def _as_rows(self, predicted: np.ndarray | None, count: int, n_classes: int) -> np.ndarray:
        if predicted is None:
            return np.full((count, n_classes), 1 / n_classes, np.float32)
        probs = self.record.class_table.project(predicted)[:, :n_classes]
        return np.pad(probs, ((0, 0), (0, n_classes - probs.shape[1])))

    def describe_rows(self, first: int, count: int, n_classes: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Features and predictions of items that came after the model in use."""
        known = None if self._predicted is None else self._predicted[first : first + count]
        predicted = known if known is not None and len(known) == count else None
        return self.project.features[first : first + count], self.rows_for(predicted, count, n_classes)

    def describer_for(
        self, trained: Trained, probs: np.ndarray
    ) -> Callable[[int, int, int], tuple[np.ndarray, np.ndarray | None]]:
        """The same of a new model with these predictions, before it is in use."""

        def describe_rows(first: int, count: int, n_classes: int) -> tuple[np.ndarray, np.ndarray | None]:
            features = self.project.features[first : first + count]
            found = self._predict_by(trained.model, trained.job.outputs, probs.shape[1], features)
            return features, self._as_rows(found, count, n_classes)

        return describe_rows

    # -- surrogates ---------------------------------------------------------------------------------------

    def surrogate(self) -> Surrogate:
        """The surrogate as it was when the last model was trained, or before anything happened."""
        features, record = self.project.features, self.record
        if not record.trainings:
            return self.surrogate_without_model(features, record.basis_rows)
        event = record.trainings[-1]
        folder = find_anchor(self.project.work, event.data["until"], event.data["predictions"])
        # Of a model of other features, what it predicted is still true; a surrogate on those features is of no use.
        if folder is not None and record.knows_features(event):
            state = read_arrays(folder)
        else:
            kept = self.artifacts.predictions(event.data["predictions"])
            then, n_classes = features[: len(kept.probs)], kept.probs.shape[1]
            setup = self.setup_of(record.basis_rows)
            state = make_anchor(then, setup, self.ledger, n_classes, kept.probs, kept.trained_on)
        return self._restore(features[: count_rows(state)], state)

    def _restore(self, features: np.ndarray, state: Mapping[str, Any]) -> Surrogate:
        return Surrogate.restore(features, state, check=False, storage=self.storage)

    def surrogate_without_model(self, features: np.ndarray, basis_rows: int) -> Surrogate:
        """The surrogate before anything happened, on the set-up of so many items."""
        state = read_arrays(self.setup_of(basis_rows))
        surrogate = self._restore(features[:basis_rows], state)
        while surrogate.n_classes < max(1, len(self.record.settings.classes)):
            surrogate.add_class()
        later = self.record.later_audit_rows  # a move says when they became audit items
        rows = [row for row in self.record.audit_rows if row not in later and row < basis_rows]
        return surrogate.skip(rows)

    def surrogate_now(self) -> Surrogate:
        """The surrogate given all that the record knows, made in one step: quicker than following many moves."""
        record, ledger = self.record, self.record.to_ledger()
        features, setup = self.project.features[: record.n_items], self.setup_of(record.basis_rows)
        n_classes = max(1, len(record.classes))
        if not record.trainings:
            state = read_arrays(setup)
            kept = drop_engine(state) if count_rows(state) == record.n_items else drop_rows(state)
            surrogate = self._restore(features, {**kept, **ledger.to_arrays()})
            while surrogate.n_classes < n_classes:
                surrogate.add_class()
            return surrogate
        becomes = record.class_table.becomes
        same = (  # what was labelled otherwise since then is told anew
            row
            for row, label in self.knows.items()
            if row in ledger.answers and ledger.answers[row].label == becomes[label]
        )
        known = np.array(sorted(same), np.int64)
        state = make_anchor(features, setup, ledger, n_classes, self.predictions(), known)
        return self._restore(features, state)

    def setup_of(self, rows: int) -> Path:
        """The set-up of the first so many items, made again where it is missing."""
        folder = setup_folder(self.project.work, rows)
        if rows_of_setup(folder) != rows:
            make_setup(self.project.features[:rows], folder, *setup_options(self.project, rows))
        return folder

    def load(self, trained: Trained) -> Surrogate:
        """The surrogate on a new model, without delay: its arrays are memory-mapped."""
        state = read_arrays(trained.anchor)
        return self._restore(self.project.features[: count_rows(state)], state)

    def adopt(self, trained: Trained, probs: np.ndarray) -> None:
        """Use a new model with these predictions; the record has it already."""
        self.ledger, self._predicted = trained.job.ledger, probs
        self.knows = dict(zip(trained.job.rows.tolist(), trained.job.labels.tolist(), strict=True))
        self.predict_new()
        self.probs = self.record.class_table.project(self._predicted)
        self.guesses.append(self._guesses_in(self._predicted))
        if self._setup_rows != self.record.basis_rows:
            self._read_setup()

    # -- how good they are --------------------------------------------------------------------------------

    def right_on(self, labels: Mapping[int, int], place: int = -1) -> tuple[int, int] | None:
        """How many of these items a model has right, of how many; items that came after it are left out.

        None where its predictions are gone, or there is no model.
        """
        if not self.guesses or (guesses := self.guesses[place]) is None:
            return None
        met = [(guesses[item], label) for item, label in labels.items() if item in guesses]
        return sum(guess == label for guess, label in met), len(met)

    def change_on(self, labels: Mapping[int, int], before: int, after: int) -> Change | None:
        """What a later model gained on the items that both met."""
        was, now = self.guesses[before], self.guesses[after]
        if was is None or now is None:
            return None
        met = [(item, label) for item, label in labels.items() if item in was and item in now]
        both = [(was[item] == label, now[item] == label) for item, label in met]
        return change_of(both.count((False, True)), both.count((True, False)), len(both))

    def _guesses_of(self, event: Event) -> dict[int, int] | None:
        try:
            return self._guesses_in(self.artifacts.predictions(event.data["predictions"]).probs)
        except (UnderstudyError, OSError):
            return None

    def _guesses_in(self, probs: np.ndarray) -> dict[int, int]:
        rows = np.array([row for row in self.record.audit_rows if row < len(probs)], np.int64)
        if not len(rows):
            return {}
        likeliest = self.record.class_table.project(probs[rows]).argmax(1)
        return dict(zip(rows.tolist(), likeliest.tolist(), strict=True))


def setup_options(project: Project, n_items: int) -> tuple[int, dict[str, Any]]:
    """Number of classes and keyword arguments of a surrogate on so many items; its basis is never larger than these."""
    settings = project.settings
    options = {"method": settings.method, "random_state": settings.seed % 2**32}
    if settings.basis_size is not None:
        options["basis_size"] = min(settings.basis_size, n_items)
    return max(1, len(settings.classes)), options


def mean_distance_in_setup(setup: Path) -> float:
    """The mean distance of two items. A set-up of the version before has it in its kernel's width only."""
    kept = (read_about(setup) or {}).get("mean_distance")
    return mean_distance_of(read_arrays(setup)) if kept is None else float(kept)


def _first_influence_in_setup(setup: Path) -> float | None:
    """What the best label would explain while nothing is labelled or decided. None with the paper's method.

    Taken after the first training it would be too low: a model of two labels is sure of nearly everything, and later
    ones, which know better, would promise more (1.16 times as much on the digits). The paper's influence counts all
    items alike, decided or not, and is compared with that of the first training.
    """
    state = read_arrays(setup)
    if Options.load(state).method == "paper":
        return None
    return best_influence_of(state)


def _version_of(event: Event) -> str:
    data: Mapping[str, Any] = event.data
    return str(data["model"] or data["predictions"])[:HASH_DIGITS]


def best_influence(surrogate: Surrogate) -> float:
    """The most that any one label would explain of what is undecided; with the paper's method, per class."""
    rows = surrogate.askable
    best = float(surrogate.influence[rows].max()) if len(rows) else 0.0
    # The paper's influence is a sum over classes.
    return best / surrogate.n_classes if surrogate.options.method == "paper" else best
