"""A place for the session, which arrives only when features have been made."""

import threading
from collections.abc import Callable
from typing import Final

from understudy.errors import Conflict, UnderstudyError
from understudy.projects.project import Project
from understudy.sessions.opening import open_session
from understudy.sessions.people import PeopleTable
from understudy.sessions.replies import SetUp, Status, Training
from understudy.sessions.session import Session
from understudy.web.error_responses import Preparing

SECONDS_PER_STEP: Final = 0.2
VERSIONS_PER_SESSION: Final = 2**40  # so that a version of one session is never one of the next


class SessionHolder:
    """Holds a session that may arrive later. Until then it answers what can be answered."""

    def __init__(self, session: Session | None = None, *, name: str = "project", kind: str = "image") -> None:
        self.session = session
        self.name, self.kind = name, kind
        self.done = self.total = 0
        self.setup: SetUp | None = None
        self.changes = 0
        self.open_again: Callable[[Project], Session] = open_session
        self._sessions = 0  # that have arrived: each counts its versions from 1
        self.changed = threading.Condition()
        self._deciding = threading.Lock()

    def report_progress(self, done: int, total: int) -> None:
        """Note that `done` of `total` items are prepared."""
        with self.changed:
            self.done, self.total = done, total
            self.note_change()

    def report_setup(self, phase: str, share: float) -> None:
        """Note how far the set-up of the surrogate is."""
        with self.changed:
            before, self.setup = self.setup, SetUp(phase, share)
            if self.setup != before:
                self.note_change()

    def arrive(self, session: Session) -> None:
        """From now on this session answers."""
        with self.changed:
            self.session = session
            self._sessions += 1
            self.note_change()

    def decide_folders(self, labels: bool) -> Status:
        """Let the project begin anew with its folders taken for classes or not, while nobody has labelled; its status.

        Calls that come meanwhile are told to come again.
        """
        with self._deciding:
            session = self.require_session()
            if session.project.folders is None:
                raise Conflict("this project has no folders that could be classes, so there is nothing to decide")
            session.seal()
            with self.changed:
                self.session, self.setup, self.done, self.total = None, None, 0, 0
                self.note_change()
            project = session.project
            session.close()
            project.folder_choice = labels
            try:
                self.arrive(self.open_again(project))
            except UnderstudyError:  # as it was, then
                project.folder_choice = None
                self.arrive(self.open_again(project))
                raise
            return self.status()

    def note_change(self) -> None:
        self.changes += 1
        self.changed.notify_all()

    def require_session(self) -> Session:
        """The session; Preparing while there is none."""
        if self.session is None:
            counted = f" ({self.done:,} of {self.total:,} items done)" if self.total else ""
            raise Preparing(f"the project is being prepared{counted}; try again in a moment")
        return self.session

    def people(self) -> PeopleTable | None:
        """The people of the project; None while it is being prepared."""
        session = self.session
        return None if session is None else session.record.people

    def status(self) -> Status:
        """The session's status, or how far the preparation is."""
        if self.session is not None:
            return self.session.status()
        return Status(
            project=self.name,
            phase="preparing",
            done=self.done,
            kind=self.kind,
            classes=[],
            class_counts=[],
            labelled=0,
            total=self.total,
            skipped=0,
            unknown=0,
            bad=0,
            flagged=0,
            audited=0,
            audit_missing=0,
            accuracy=None,
            interval=None,
            trained_at=None,
            model=None,
            training=Training(state="waiting"),
            online=[],
            suspicious=0,
            version=0,
            setup=self.setup,
        )

    def wait(self, version: int) -> int:
        """Block until something changes after `version`, or a moment passes; the version now."""
        if self.session is not None:
            before = self._sessions * VERSIONS_PER_SESSION
            return before + self.session.wait_for_change(version - before, SECONDS_PER_STEP)
        with self.changed:
            self.changed.wait_for(
                lambda: self.session is not None or self.changes != -version, timeout=SECONDS_PER_STEP
            )
            return -self.changes  # below those of any session

    def watch(self, notify: Callable[[], None], ended: threading.Event) -> None:
        """Call `notify` after every change until `ended`; blocks, so it is for a thread of its own."""
        version = 1
        while not ended.is_set():
            now = self.wait(version)
            if now != version:
                # At most five a second, and a moment later: whoever has just pressed a key waits for the next item, and
                # numbers that come at the same time would make the page slower to show it.
                ended.wait(SECONDS_PER_STEP)
                version = self.wait(-1)
                notify()
