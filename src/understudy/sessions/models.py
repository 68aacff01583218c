"""The models of a project: what the last one predicts, and how good each is on the audit items."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.core.ledger import Ledger
from understudy.core.options import Options
from understudy.core.state import best_influence_of, count_rows, drop_engine, mean_distance_of
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
from understudy.sessions.training.training_job import SETUP, make_anchor, make_setup

HASH_DIGITS: Final = 12  # by which people know a model


class Models:
    """Trained models of one project, oldest first, as the record lists them.

    `ledger` is what was known of every item when the last of them was trained.
    """

    def __init__(self, project: Project, record: Record, ledger: Ledger) -> None:
        self.project, self.record = project, record
        self.artifacts = Artifacts(project.artifacts)
        self.reload(ledger)
        self.mean_distance = mean_distance_in_setup(project.work / SETUP)  # of two items of the pool
        self.first_influence = _first_influence_in_setup(project.work / SETUP)

    def reload(self, ledger: Ledger) -> None:
        """Take over the models that the record now has, the last with this ledger."""
        self.ledger = ledger
        last = self.record.trainings[-1] if self.record.trainings else None
        kept = None if last is None else self.artifacts.predictions(last.data["predictions"])
        self._predicted = None if kept is None else kept.probs  # in the classes of the time
        self.knows = {} if kept is None else dict(zip(kept.trained_on.tolist(), kept.labels.tolist(), strict=False))
        self.regroup()

    def regroup(self) -> None:
        """Let predictions be those of the classes that are alive now."""
        self.probs = None if self._predicted is None else self.record.class_table.project(self._predicted)
        self.look_up_guesses()

    def look_up_guesses(self) -> None:
        """Find out what every model said of the audit items that there are now."""
        self.guesses: list[dict[int, int] | None] = [self._guesses_of(event) for event in self.record.trainings]

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
            probs = np.concatenate([probs, self.predict_rows(len(probs), missing, probs.shape[1])])
        return probs

    def predict_rows(self, first: int, count: int, n_classes: int) -> np.ndarray:
        """What the model in use predicts for items that came after it; all classes alike where it cannot be loaded."""
        event = self.record.trainings[-1]
        uniform = np.full((count, n_classes), 1 / n_classes, np.float32)
        if event.data["model"] is None or not self.record.knows_features(event):
            return uniform
        try:
            model = load_model(self.artifacts.path(event.data["model"]))
            probs = np.asarray(
                model.predict_proba(np.asarray(self.project.features[first : first + count], np.float32))
            )
        except UnderstudyError:
            return uniform
        found = np.zeros((count, n_classes), np.float32)
        found[:, event.data.get("outputs") or range(probs.shape[1])] = probs
        return self.record.class_table.project(found)[:, :n_classes]

    def describe_rows(self, first: int, count: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Features and predictions of items that came after the model in use."""
        return self.project.features[first : first + count], self.predict_rows(first, count, n_classes)

    # -- surrogates ---------------------------------------------------------------------------------------

    def surrogate(self) -> Surrogate:
        """The surrogate as it was when the last model was trained, or before anything happened."""
        features = self.project.features
        setup = read_arrays(self.project.work / SETUP)
        if not self.record.trainings:
            surrogate = Surrogate.restore(features, setup, check=False)
            while surrogate.n_classes < max(1, len(self.record.settings.classes)):
                surrogate.add_class()
            later = self.record.later_audit_rows  # a move says when they became audit items
            return surrogate.skip([row for row in self.record.audit_rows if row not in later])
        event = self.record.trainings[-1]
        folder = find_anchor(self.project.work, event.data["until"], event.data["predictions"])
        # Of a model of other features, what it predicted is still true; a surrogate on those features is of no use.
        if folder is not None and self.record.knows_features(event):
            state = read_arrays(folder)
        else:
            kept = self.artifacts.predictions(event.data["predictions"])
            then, n_classes = features[: len(kept.probs)], kept.probs.shape[1]
            state = make_anchor(then, self.setup_of(then), self.ledger, n_classes, kept.probs, kept.trained_on)
        return Surrogate.restore(features[: count_rows(state)], state, check=False)

    def surrogate_now(self) -> Surrogate:
        """The surrogate given all that the record knows, made in one step: quicker than following many moves."""
        features, ledger = self.project.features, self.record.to_ledger()
        n_classes = max(1, len(self.record.classes))
        if not self.record.trainings:
            setup = read_arrays(self.project.work / SETUP)
            surrogate = Surrogate.restore(features, {**drop_engine(setup), **ledger.to_arrays()}, check=False)
            while surrogate.n_classes < n_classes:
                surrogate.add_class()
            return surrogate
        becomes = self.record.class_table.becomes
        same = (  # what was labelled otherwise since then is told anew
            row
            for row, label in self.knows.items()
            if row in ledger.answers and ledger.answers[row].label == becomes[label]
        )
        known = np.array(sorted(same), np.int64)
        state = make_anchor(features, self.project.work / SETUP, ledger, n_classes, self.predictions(), known)
        return Surrogate.restore(features, state, check=False)

    def setup_of(self, features: np.ndarray) -> Path:
        """The set-up of the pool when it had these features; made again where the pool has grown since."""
        if len(features) == len(self.project.features):
            return self.project.work / SETUP
        folder = self.project.work / f"{SETUP}-{len(features)}"
        make_setup(features, folder, *setup_options(self.project, len(features)))
        return folder

    def load(self, trained: Trained) -> Surrogate:
        """The surrogate on a new model, without delay: its arrays are memory-mapped."""
        state = read_arrays(trained.anchor)
        return Surrogate.restore(self.project.features[: count_rows(state)], state, check=False)

    def adopt(self, trained: Trained, probs: np.ndarray) -> None:
        """Use a new model with these predictions; the record has it already."""
        self.ledger, self._predicted = trained.job.ledger, probs
        self.knows = dict(zip(trained.job.rows.tolist(), trained.job.labels.tolist(), strict=True))
        self.probs = self.record.class_table.project(probs)
        self.guesses.append(self._guesses_in(probs))

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
    """Number of classes and keyword arguments of a surrogate; its basis is never larger than the pool."""
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
