"""`understudy labelstudio`: from a Label Studio project to a session that follows it, until it is stopped."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from understudy.errors import NotStored, UsageError
from understudy.integrations.label_studio.client import LabelStudio, Unreachable
from understudy.integrations.label_studio.follower import Follower, Say
from understudy.integrations.label_studio.label_config import LabelQuestion, read_label_config
from understudy.integrations.label_studio.queue import SAMPLING
from understudy.integrations.label_studio.task_files import Link, TaskFiles
from understudy.integrations.label_studio.webhook import Webhook
from understudy.messages import count_of
from understudy.projects.opening import create_or_open
from understudy.projects.project import Project
from understudy.sessions.opening import check_begin, open_session
from understudy.sessions.session import Session

POLL_SECONDS: Final = 1.0
POLL_SECONDS_BESIDE_WEBHOOK: Final = 10.0
LABELS_PER_LINE: Final = 10  # that says how far it is
CHECK_POLLS: Final = 30  # after so many polls the project's own settings are looked at
MAX_PAUSE_SECONDS: Final = 30.0  # between tries while Label Studio cannot be reached
ENTER: Final = "annotators enter by the button Label All Tasks; a tab of the Data Manager has an order of its own"


@dataclass(frozen=True)
class FollowOptions:
    """How a project is followed. `folder` is where its tasks are kept; the Understudy project lies beside it."""

    folder: Path
    annotators: int = 1
    seconds: float | None = None  # between polls
    webhook: str | None = None  # HOST:PORT
    encoder: str | None = None
    learner: str | None = None
    audit_share: float | None = None
    seed: int | None = None
    device: str = "auto"

    @property
    def pause(self) -> float:
        if self.seconds is not None:
            return self.seconds
        return POLL_SECONDS if self.webhook is None else POLL_SECONDS_BESIDE_WEBHOOK


def follow(client: LabelStudio, number: int, options: FollowOptions, stop: threading.Event, say: Say) -> None:
    """Follow a Label Studio project until `stop` is set. Every annotation is stored before it is learnt from."""
    settings = client.project(number)
    question = read_label_config(str(settings["label_config"]))
    files = TaskFiles(options.folder, Link(client.url, number), question)
    webhook = None if options.webhook is None else Webhook(client, number, options.webhook, say)
    if settings.get("sampling") != SAMPLING:
        say(f"the project's sampling was {settings.get('sampling')!r} and becomes {SAMPLING!r}")
    alive = _fetch(client, number, files, say)
    try:
        if webhook is not None:
            webhook.start()
        while not stop.is_set():
            project = _open_project(files, question, options)
            session = open_session(project, quiet=False)
            try:
                for note in project.notes:
                    say(note)
                follower = Follower(
                    client, number, question, session, alive,
                    say=say, annotators=options.annotators, is_pushed=webhook is not None,
                )  # fmt: skip
                alive = _follow_session(follower, files, options, webhook, stop, say)
                question = follower.question
            finally:
                if webhook is not None:
                    webhook.follower = None
                session.close()
    finally:
        if webhook is not None:
            webhook.stop()


def _fetch(client: LabelStudio, number: int, files: TaskFiles, say: Say) -> set[int]:
    """Fetch all tasks that are not here yet; the numbers of all that there are."""
    tasks = {int(task["id"]): task for task in client.tasks(number)}
    if new := tasks.keys() - files.seen:
        say(f"fetching {count_of(new, 'task')} into {files.folder}")
    added = files.add(client, tasks.values())
    for note in files.notes:
        say(note)
    files.notes.clear()
    if added < len(new):
        say(f"{count_of(added, 'task')} of these can be used")
    if not len(files):
        raise UsageError(f"project {number} has no task that can be used; import some in Label Studio first")
    return set(tasks)


def _open_project(files: TaskFiles, question: LabelQuestion, options: FollowOptions) -> Project:
    """The Understudy project that reads these tasks, made if there is none yet."""
    folder = files.project_folder
    is_new = not (folder / "project.json").exists()
    project = create_or_open(
        files.table,
        project=folder,
        classes=question.classes if is_new else None,
        columns={question.kind.replace("image", "path"): question.kind.replace("image", "path"), "id": "id"},
        encoder=options.encoder,
        device=options.device,
        learner=options.learner,
        audit_share=options.audit_share,
        seed=options.seed,
        check_begin=check_begin,
    )
    project.settle_encoder()
    return project


def _follow_session(
    follower: Follower,
    files: TaskFiles,
    options: FollowOptions,
    webhook: Webhook | None,
    stop: threading.Event,
    say: Say,
) -> set[int]:
    """Follow until it is stopped or tasks were added; the tasks that there are then."""
    client, session = follower.client, follower.session
    _patiently(follower.start, stop, say)
    if webhook is not None:
        webhook.follower = follower
    say(f"following project {follower.project} of {client.url}: {describe(session)}; {ENTER}")
    labelled, polls = len(session.record.effective), 0
    while not stop.wait(options.pause):
        polls += 1
        is_same = _patiently(follower.poll, stop, say)
        if is_same is False:
            before = len(files)
            alive = _patiently(lambda: _fetch(client, follower.project, files, say), stop, say)
            if alive is None or len(files) > before:
                return alive or follower.alive
            follower.follow_tasks(alive)
        elif polls % CHECK_POLLS == 0:
            _patiently(follower.check_project, stop, say)
        if abs(len(session.record.effective) - labelled) >= LABELS_PER_LINE:
            labelled = len(session.record.effective)
            say(describe(session))
    return follower.alive


def describe(session: Session) -> str:
    """How far a session is, in a line."""
    status = session.status()
    text = f"{status.labelled:,} of {count_of(status.total, 'task')} labelled"
    if status.accuracy is None or status.interval is None:
        return text
    low, high = status.interval
    return f"{text}, accuracy {status.accuracy:.0%} ({low:.0%} to {high:.0%}, {count_of(status.audited, 'audit item')})"


def _patiently(call: Callable[[], Any], stop: threading.Event, say: Say) -> Any:
    """What a call gives, made again while Label Studio or our disk cannot; None if it is stopped meanwhile."""
    pause = POLL_SECONDS
    while True:
        try:
            return call()
        except (Unreachable, NotStored) as error:
            if pause == POLL_SECONDS:
                say(f"{error}; trying again")
            if stop.wait(pause):
                return None
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
