"""Opening a project for labelling: its log, the record that follows from it, and the surrogate."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from understudy.errors import UnderstudyError
from understudy.projects.project import Project
from understudy.sessions import audit
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.models import Models, setup_options
from understudy.sessions.record import Record, replay_events
from understudy.sessions.session import Session
from understudy.sessions.training.artifacts import Artifacts, Predictions
from understudy.sessions.training.trainer import Trainer

SOURCE_ANNOTATOR: Final = "source"  # who labelled what came with the data


def open_session(
    project: Project,
    *,
    predictions: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    quiet: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Session:
    """The session of a project, and the only one: a second is refused. Features that are missing are made first.

    `predictions`: a file of those of a model one already has; the surrogate starts from them. `progress` is called
    with how many items are prepared, of how many.
    """
    log = EventLog.open(project.store_url, project.identity)
    try:
        log.lock()
        project.prepare(progress, quiet)
        events = list(log.read())
        if not events:
            events = log.append(*_first_events(project))
        new = _new_events(project, Record.from_events(events))
        events += log.append(*new) if new else []
        trainer = Trainer(project.work, Artifacts(project.artifacts), project.features_path)
        trainer.prepare(*setup_options(project, len(project.pool)))
        replay = replay_events(events)
        models = Models(project, replay.record, replay.ledger)
        session = Session(project, log, replay, models, trainer, clock)
    except BaseException:
        log.close()
        raise
    try:
        if predictions is not None and not session.record.trainings:
            _start_from_predictions(session, predictions)
        session.look_at_labels()
        with session.lock:
            session.learning.train_if_due()  # one that was cut short, say
    except BaseException:
        session.close()
        raise
    return session


def _first_events(project: Project) -> list[Event]:
    """The first events of a project: its settings, and the labels that its data came with."""
    settings, n = project.settings, len(project.pool)
    known = project.seed_labels
    chosen = audit.audit_rows(n, settings.audit_share, settings.seed, excluded=known.keys())
    classes = list(project.classes_at_start)
    created = Event(
        "created",
        data={"settings": settings.to_json(), "classes": classes, "n_items": n, "audit": list(chosen)},
    )
    return [created, *_label_events(known, classes)]


def _label_events(known: Mapping[int, str], classes: Sequence[str]) -> list[Event]:
    """The labels that items came with, of these classes, as events."""
    numbers = {name: number for number, name in enumerate(classes)}
    return [
        Event(
            "labelled",
            row,
            SOURCE_ANNOTATOR,
            data={"label": numbers[name], "source": "import", "guess": None, "model": None},
        )
        for row, name in sorted(known.items())
        if name in numbers
    ]


def _new_events(project: Project, record: Record) -> list[Event]:
    """What is new since the project was last open, as events: classes, items, and the labels these came with."""
    n, before = len(project.pool), record.n_items
    if n < before:
        raise UnderstudyError(
            f"the log of {project.folder} knows {before:,} items, its pool has {n:,}; put its items.parquet back"
        )
    names = [name for name in project.new_classes if name not in record.classes]
    classes = [Event("class_added", data={"name": name}) for name in names]
    if n == before:
        return list(classes)
    settings, known = record.settings, project.source_labels
    chosen = audit.audit_rows(n, settings.audit_share, settings.seed, excluded=known.keys(), first_row=before)
    items = Event("items_added", data={"count": n - before, "audit": list(chosen)})
    new = {row: name for row, name in known.items() if row >= before}
    return [*classes, items, *_label_events(new, [*record.classes, *names])]


def _start_from_predictions(session: Session, path: Path) -> None:
    """Use the predictions of a model one already has as the first anchor, and wait until they are in use."""
    from understudy.labels.predictions import read_predictions

    record, project = session.record, session.project
    probs = read_predictions(path, project.pool.ids, record.classes)
    nothing = np.zeros(0, np.int64)
    key = Artifacts(project.artifacts).put_predictions(Predictions(probs, nothing, nothing))
    session.learning.start_from(key, lambda seconds: session.wait_for_change(session.version, seconds))
