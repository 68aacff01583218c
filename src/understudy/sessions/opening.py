"""Opening a project for labelling: its log, the record that follows from it, and the surrogate."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from understudy.core.protocol import RowStorage
from understudy.core.setup_progress import ReportSetup
from understudy.data.files import is_draft
from understudy.errors import Conflict, NotFound, UnderstudyError
from understudy.labels.predictions import check_predictions
from understudy.predictors import find_predictor, is_function_name, predictions_for
from understudy.projects.folder_question import describe_choice
from understudy.projects.opening import ProjectBegin
from understudy.projects.project import Project
from understudy.projects.settings import Settings
from understudy.sessions import audit
from understudy.sessions.growth import label_events, new_item_events
from understudy.sessions.log.events import SOURCE_ANNOTATOR, Event
from understudy.sessions.log.log import EventLog
from understudy.sessions.models import Models, setup_options
from understudy.sessions.people import Role
from understudy.sessions.people_changes import enrol
from understudy.sessions.record import Record, replay_events, require_untouched
from understudy.sessions.session import Session
from understudy.sessions.training.artifacts import Artifacts, Predictions
from understudy.sessions.training.trainer import Trainer
from understudy.sessions.training.training_job import ANCHORS, SETUP
from understudy.sessions.views import items_news
from understudy.store_urls import SQLITE, without_password

UNDECIDED: Final = (
    "They are taken for folders, and nothing is labelled, until somebody says that they are classes: on the page, or "
    "with --folder-labels (--no-folder-labels: they are not)"
)


def open_session(
    project: Project,
    *,
    predictions: str | Path | None = None,
    people: Mapping[str, Role | None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    setup_progress: ReportSetup | None = None,
    quiet: bool = True,
    clock: Callable[[], float] = time.monotonic,
    turn: threading.Semaphore | None = None,
    storage: RowStorage | None = None,
) -> Session:
    """The session of a project, and the only one: a second is refused. Features that are missing are made first.

    `predictions`: those of a model one already has, as a file or `module:function`; the surrogate starts from them.
    `progress` is called with how many items are prepared, of how many, and `setup_progress`, where the surrogate's
    set-up takes a moment, with its phase and the share that is done. Sessions that share a `turn` train one after
    another. `people`: those who are to be let in, with their roles, where not everybody is; see `enrol`. `storage`:
    where the surrogate's rows are kept.
    """
    require_log(project.folder, project.store_url, project.identity)
    log = EventLog.open(project.store_url, project.identity)
    try:
        log.lock()
        project.prepare(progress, quiet)
        events = list(log.read())
        if not events:
            events = log.append(*_first_events(project.settings, len(project.pool), project.seed_labels))
        record = Record.from_events(events)
        _follow_log(project, record)
        if project.folder_choice is not None:
            events += _choose_folders(project, record, log)
            record = Record.from_events(events)
        new = [*_new_events(project, record), *([] if people is None else enrol(record.people, people))]
        events += log.append(*new) if new else []
        trainer = Trainer(project.work, Artifacts(project.artifacts), project.features_path, turn=turn)
        replay = replay_events(events)
        basis_rows = replay.record.basis_rows
        if any(event.kind == "items_added" for event in new) and (news := items_news(replay.record)) is not None:
            project.notes.append(news.line)
        trainer.prepare(*setup_options(project, basis_rows), basis_rows, setup_progress)
        models = Models(project, replay.record, replay.ledger, storage)
        project.notes += project.columns.read_or_note(replay.record.settings.show)
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


def check_free(project: Project) -> None:
    """Refuse a project that another server has open, or whose log is lost, before anything else is done with it."""
    require_log(project.folder, project.store_url, project.identity)
    with closing(EventLog.open(project.store_url, project.identity)) as log:
        log.lock()


def check_begin(begin: ProjectBegin, predictions: str | Path | None = None) -> None:
    """Refuse a project whose log cannot be made, or whose predictions cannot be read, before anything is written."""
    if begin.store is not None:
        EventLog.check_new(begin.store, begin.identity)
    if isinstance(predictions, str) and is_function_name(predictions):
        find_predictor(predictions, begin.classes)
    elif predictions is not None:
        check_predictions(Path(predictions), begin.ids, begin.classes)


def require_log(folder: Path, store_url: str, identity: str) -> None:
    """Refuse a project that has been labelled but whose log is missing or empty: it is not a new project.

    Opened all the same it would begin from nothing, and the labels that were lost would not be missed.
    """
    traces = _traces_of_labelling(folder)
    if not traces:
        return
    where = without_password(store_url).removeprefix(SQLITE)
    try:
        with closing(EventLog.open(store_url, identity, read_only=True)) as log:
            if log.last():
                return
        what = f"its log in {where} is empty"
    except NotFound:
        what = f"it has no log in {where}"
    except UnderstudyError:
        return  # whoever opens it says what is wrong with it
    raise Conflict(
        f"{folder} was labelled before (it has {traces}), but {what}; put the log back, or restore a backup "
        f"(understudy restore FILE NEW-FOLDER); to begin anew, delete {folder / 'artifacts'} and {folder / 'work'}"
    )


def _traces_of_labelling(folder: Path) -> str:
    """What a project has only after it was opened for labelling, in words; "" where nothing is there."""
    artifacts = folder / "artifacts"
    if artifacts.is_dir() and any(not is_draft(path.name) for path in artifacts.iterdir()):
        return "trained models"
    if any((folder / "work" / name).is_dir() for name in (SETUP, ANCHORS)):
        return "a surrogate"
    return ""


def _first_events(settings: Settings, n_items: int, known: Mapping[int, str]) -> list[Event]:
    """The first events of a project: its settings, and the labels that its data came with."""
    chosen = audit.audit_rows(n_items, settings.audit_share, settings.seed, excluded=known.keys())
    classes = list(settings.classes)
    created = Event(
        "created",
        data={"settings": settings.to_json(), "classes": classes, "n_items": n_items, "audit": list(chosen)},
    )
    return [created, *label_events(known, {name: number for number, name in enumerate(classes)})]


def _follow_log(project: Project, record: Record) -> None:
    """Bring the project's file up to date with its log: a kill may have come between the two."""
    chosen = record.folder_labels
    if chosen is not None and (chosen != project.info.import_labels or not project.info.folders_decided):
        project.follow_plan(project.plan_folders(chosen))
    project.adopt_settings(record.settings)
    if project.info.folders_decided or project.folder_choice is not None:
        return
    if not record.is_untouched:  # whoever labels without them has decided
        project.settle_folders()
    elif project.folders is not None:
        project.notes.append(f"{project.folders.line}. {UNDECIDED}")


def _choose_folders(project: Project, record: Record, log: EventLog) -> list[Event]:
    """Take the source's labels over or not, as is asked for now. Possible while nobody decided anything."""
    require_untouched(record, str(project.folder))
    if project.folders is not None:
        project.notes.append(describe_choice(project.folders, bool(project.folder_choice)))
    plan = project.plan_folders(bool(project.folder_choice))
    if plan.import_labels == project.info.import_labels:  # only that it is decided now
        project.folder_choice = None
        project.settle_folders()
        return []
    created, *labels = _first_events(plan.settings, len(project.pool), plan.known_labels)
    restarted = replace(created, kind="restarted", data={**created.data, "folder_labels": plan.import_labels})
    kept = [name for name in record.classes_of_people if name not in plan.settings.classes]
    stored = log.append(
        restarted, *labels, *(Event("class_added", None, SOURCE_ANNOTATOR, data={"name": name}) for name in kept)
    )
    project.follow_plan(plan)
    return stored


def _new_events(project: Project, record: Record) -> list[Event]:
    """What is new since the project was last open, as events: features, classes, items, and their labels."""
    return [*_new_features(project, record), *new_item_events(project, record)]


def _new_features(project: Project, record: Record) -> list[Event]:
    """The event that the encoder was changed, where the log does not know it yet: the project's file says so first."""
    version = project.info.features_version
    if version == record.features_version:
        return []
    return [Event("encoder_changed", data={"encoder": project.encoder, "features": version})]


def _start_from_predictions(session: Session, given: str | Path) -> None:
    """Use the predictions of a model one already has as the first anchor, and wait until they are in use."""
    record, project = session.record, session.project
    alive = sorted(record.class_table.alive)
    probs = np.zeros((len(project.pool), len(record.classes)), np.float32)
    probs[:, alive] = predictions_for(project.pool, [record.classes[number] for number in alive], given)
    nothing = np.zeros(0, np.int64)
    key = Artifacts(project.artifacts).put_predictions(Predictions(probs, nothing, nothing))
    session.learning.start_from(key, lambda seconds: session.wait_for_change(session.version, seconds))
