"""The session as the web sees it: not there yet while features are being made, then the real one."""

import threading
from collections.abc import Callable
from typing import Final

from understudy.sessions.replies import Status, Training
from understudy.sessions.session import Session
from understudy.web.error_responses import Preparing

SECONDS_PER_STEP: Final = 0.2  # seconds


class SessionHolder:
    """Holds a session that may arrive later. Until then it answers what can be answered."""

    def __init__(self, session: Session | None = None, *, name: str = "project", kind: str = "image") -> None:
        self.session = session
        self.name, self.kind = name, kind
        self.done = self.total = 0
        self.changes = 0
        self.changed = threading.Condition()

    def report_progress(self, done: int, total: int) -> None:
        """So many items of so many are prepared."""
        with self.changed:
            self.done, self.total = done, total
            self.note_change()

    def arrive(self, session: Session) -> None:
        """From now on this session answers."""
        with self.changed:
            self.session = session
            self.note_change()

    def note_change(self) -> None:
        self.changes += 1
        self.changed.notify_all()

    def require_session(self) -> Session:
        """The session; Preparing while there is none."""
        if self.session is None:
            counted = f" ({self.done:,} of {self.total:,} items done)" if self.total else ""
            raise Preparing(f"the project is being prepared{counted}; try again in a moment")
        return self.session

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
        )

    def wait(self, version: int) -> int:
        """Block until something changes after `version`, or a moment passes; the version now."""
        if self.session is not None:
            return self.session.wait_for_change(version, SECONDS_PER_STEP)
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
