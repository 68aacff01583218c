"""Another encoder for a project that may have labels: features and surrogate are made anew, labels stay."""

from collections.abc import Iterator

from understudy.errors import Conflict
from understudy.messages import count_of
from understudy.projects.opening import create_or_open
from understudy.projects.project_file import existing_folder
from understudy.sessions.log.log import EventLog
from understudy.sessions.opening import open_session, require_log

SECONDS_PER_LOOK = 1.0  # while the training is waited for


def change_encoder(
    source: str, name: str | None, *, device: str = "auto", store: str | None = None, quiet: bool = True
) -> Iterator[str]:
    """Use another encoder in a project that nobody serves; lines that say what became of it.

    Labels, audit items and the log stay. Without a name it is the best encoder that can be had. A model is trained on
    the new features at once, where there are labels enough. Unless `quiet`, a bar shows how far the features are.
    """
    folder = existing_folder(source)
    project = create_or_open(project=folder, store=store, device=device)
    if not project.is_begun:
        project = create_or_open(project=folder, store=store, device=device, encoder=name)
        project.settle_encoder()
        yield f"{folder} has no features yet; they will be made by {project.encoder}"
        return
    require_log(project.folder, project.store_url, project.identity)
    log = EventLog.open(project.store_url, project.identity)
    try:
        log.lock()
        yield project.change_encoder(name, quiet)
    except Conflict as error:
        raise Conflict(f"{error}. Stop it first: features cannot change under people's hands") from error
    finally:
        log.close()
    session = open_session(project)
    try:
        failures = len(session.record.failures)
        while session.learning.is_busy:
            session.wait_for_change(session.version, SECONDS_PER_LOOK)
        record = session.record
        if len(record.failures) > failures:
            yield f"no model could be trained on them: {record.failures[-1].data['reason']}"
        elif record.trainings and record.knows_features(record.trainings[-1]):
            yield f"a model was trained on {count_of(record.trainings[-1].data['labels'], 'label')} with them"
        yield f"{count_of(record.effective, 'label')} kept, and the log with them"
    finally:
        session.close()
