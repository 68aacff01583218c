"""The models of a project: what the last one predicts, and how good each is on the items drawn by lot."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.options import Options
from understudy.core.state import ENGINE_KEYS
from understudy.core.surrogate import Surrogate
from understudy.errors import NotFound, UnderstudyError
from understudy.learners.model_files import load_model
from understudy.projects.project import Project
from understudy.sessions.audit import Change, change_of
from understudy.sessions.chooser import ledger_of
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record
from understudy.sessions.training.array_folders import read_about
from understudy.sessions.training.artifacts import Artifacts
from understudy.sessions.training.trainer import SETUP, anchored, make_setup
from understudy.sessions.training.training import Trained, last_anchor, load_anchor

SHORT: int = 12  # digits of a hash by which people know a model


class Models:
    """Trained models of one project, oldest first, as the record lists them.

    `ledger` is what was known of every item when the last of them was trained.
    """

    def __init__(self, project: Project, record: Record, ledger: Mapping[str, np.ndarray]) -> None:
        self.project, self.record = project, record
        self.artifacts = Artifacts(project.artifacts)
        self.begin_at(ledger)
        self.mean_distance = distance_in(project.work / SETUP)  # of two items of the pool
        self.first_influence = _first_influence_in(project.work / SETUP)

    def begin_at(self, ledger: Mapping[str, np.ndarray]) -> None:
        """Take the models that the record has, the last with this ledger."""
        self.ledger = ledger
        self.guesses: list[dict[int, int] | None] = [self._guesses_of(event) for event in self.record.trainings]
        last = self.record.trainings[-1] if self.record.trainings else None
        kept = None if last is None else self.artifacts.predictions(last.data["predictions"])
        self.probs = None if kept is None else kept.probs
        self.knows = frozenset[int]() if kept is None else frozenset(kept.trained_on.tolist())

    # -- the last one -------------------------------------------------------------------------------------

    @property
    def version(self) -> str | None:
        """The name of the model in use; None before the first."""
        return None if not self.record.trainings else _version_of(self.record.trainings[-1])

    def guess(self, item: int) -> int | None:
        """What the model in use predicts for an item; None where it has learnt its label, which is no prediction."""
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
            probs = np.concatenate([probs, self.predicted(len(probs), missing, probs.shape[1])])
        return probs

    def predicted(self, first: int, count: int, n_classes: int) -> np.ndarray:
        """What the model in use says of items that came after it; where it cannot be asked, all classes alike."""
        event = self.record.trainings[-1]
        uniform = np.full((count, n_classes), 1 / n_classes, np.float32)
        if event.data["model"] is None:
            return uniform
        try:
            model = load_model(self.artifacts.path(event.data["model"]))
            probs = np.asarray(
                model.predict_proba(np.asarray(self.project.features[first : first + count], np.float32))
            )
        except UnderstudyError:
            return uniform
        return np.pad(probs, ((0, 0), (0, n_classes - probs.shape[1]))).astype(np.float32)

    def newcomers(self, first: int, count: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Features and predictions of items that came after the model in use."""
        return self.project.features[first : first + count], self.predicted(first, count, n_classes)

    # -- surrogates ---------------------------------------------------------------------------------------

    def surrogate(self) -> Surrogate:
        """The surrogate as it was when the last model was trained, or before anything happened."""
        features = self.project.features
        setup = load_anchor(self.project.work / SETUP)
        if not self.record.trainings:
            surrogate = Surrogate.restore(features, setup, check=False)
            while surrogate.n_classes < max(1, len(self.record.settings.classes)):
                surrogate.add_class()
            return surrogate.skip(list(self.record.audit_rows))
        event = self.record.trainings[-1]
        folder = last_anchor(self.project.work, event.data["until"], event.data["predictions"])
        if folder is not None:
            state = load_anchor(folder)
        else:
            kept = self.artifacts.predictions(event.data["predictions"])
            then, n_classes = features[: len(kept.probs)], kept.probs.shape[1]
            state = anchored(then, self.setup_of(then), self.ledger, n_classes, kept.probs, kept.trained_on)
        return Surrogate.restore(features[: len(state["probs"])], state, check=False)

    def surrogate_now(self) -> Surrogate:
        """The surrogate given all that the record knows, made in one go: for more moves than one can follow."""
        features, ledger = self.project.features, ledger_of(self.record)
        n_classes = max(1, len(self.record.classes))
        if not self.record.trainings:
            setup = load_anchor(self.project.work / SETUP)
            unused = {name: value for name, value in setup.items() if name not in ENGINE_KEYS}
            surrogate = Surrogate.restore(features, {**unused, **ledger}, check=False)
            while surrogate.n_classes < n_classes:
                surrogate.add_class()
            return surrogate
        known = np.intersect1d(np.array(sorted(self.knows), np.int64), ledger["answered_rows"])
        state = anchored(features, self.project.work / SETUP, ledger, n_classes, self.predictions(), known)
        return Surrogate.restore(features, state, check=False)

    def setup_of(self, features: np.ndarray) -> Path:
        """The set-up of the pool when it had these features; made anew where it has grown since."""
        if len(features) == len(self.project.features):
            return self.project.work / SETUP
        folder = self.project.work / f"{SETUP}-{len(features)}"
        make_setup(features, folder, *setup_options(self.project, len(features)))
        return folder

    def load(self, trained: Trained) -> Surrogate:
        """The surrogate on a new model, at once: its arrays are mapped."""
        state = load_anchor(trained.anchor)
        return Surrogate.restore(self.project.features[: len(state["probs"])], state, check=False)

    def adopt(self, trained: Trained, probs: np.ndarray) -> None:
        """A new model with these predictions is in use, and the record has it."""
        self.ledger, self.probs = trained.job.ledger, probs
        self.knows = frozenset(trained.job.rows.tolist())
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
        return dict(zip(rows.tolist(), probs[rows].argmax(1).tolist(), strict=True)) if len(rows) else {}


def setup_options(project: Project, n_items: int) -> tuple[int, dict[str, Any]]:
    """Classes and keyword arguments of a surrogate; a basis larger than the pool says nothing more than the pool."""
    settings = project.settings
    options = {"method": settings.method, "random_state": settings.seed % 2**32}
    if settings.basis_size is not None:
        options["basis_size"] = min(settings.basis_size, n_items)
    return max(1, len(settings.classes)), options


def distance_in(setup: Path) -> float:
    """The mean distance of two items, as a set-up has it. One of the version before has it in its kernel's width."""
    kept = (read_about(setup) or {}).get("mean_distance")
    if kept is not None:
        return float(kept)
    state = load_anchor(setup)
    return float(np.sqrt(np.asarray(state["bandwidths"])[0]) / np.asarray(state["option_width"]).item())


def _first_influence_in(setup: Path) -> float | None:
    """What the best label would explain while there is none and nothing is decided. None with the paper's method.

    Taken after the first training it would be too low: a model of two labels is sure of nearly everything, and later
    ones, which know better, would promise more (1.16 times as much on the digits). The paper's influence is on all
    items alike, decided or not, and is compared with that of the first training.
    """
    state = load_anchor(setup)
    if Options.load(state).method == "paper":
        return None
    return float(np.max(np.asarray(state["h"]) / np.asarray(state["var"])))


def _version_of(event: Event) -> str:
    data: Mapping[str, Any] = event.data
    return str(data["model"] or data["predictions"])[:SHORT]


def best_influence(surrogate: Surrogate) -> float:
    """The most that the label of any one item would explain of what is undecided; with the paper's method, a class."""
    rows = surrogate.askable
    best = float(surrogate.influence[rows].max()) if len(rows) else 0.0
    return (
        best / surrogate.n_classes if surrogate.options.method == "paper" else best
    )  # its influence sums over classes
