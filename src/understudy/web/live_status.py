"""Live numbers: the status as server-sent events to every open page, by one thread for all of them."""

import asyncio
import dataclasses
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from understudy.sessions.replies import Status
from understudy.sessions.session import Session
from understudy.web.session_holder import SessionHolder

log = logging.getLogger("understudy.web")

HEARTBEAT_SECONDS: Final = 15.0  # also how soon a page notices that its server is gone
RETRY_MILLISECONDS: Final = 1000  # until a page that lost the server asks again


class LiveStatus:
    """The latest status, and who waits for the next one. All of it lives in the server's loop but the watcher."""

    def __init__(self, holder: SessionHolder, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        self.holder, self.heartbeat = holder, heartbeat
        self.latest: dict[bool, bytes] = {}  # by whether it is for owners
        self.changed = asyncio.Event()
        self.ended = threading.Event()
        self.watcher: threading.Thread | None = None
        self.listeners = 0
        self.loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Watch from now on. Called in the loop that will serve."""
        loop = self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self.ended.clear()
        self.watcher = threading.Thread(target=self.watch, args=(loop,), name="live", daemon=True)
        self.watcher.start()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        def notify() -> None:
            if self.listeners:
                loop.call_soon_threadsafe(self.publish, _status_events(self.holder))

        while not self.ended.is_set():
            try:
                self.holder.watch(notify, self.ended)
            except RuntimeError:
                return  # the loop is closed
            except Exception:
                log.exception("the live numbers stopped for a moment")
                self.ended.wait(1.0)

    def publish(self, events: dict[bool, bytes]) -> None:
        self.latest = events
        self.wake()

    def wake(self) -> None:
        waited, self.changed = self.changed, asyncio.Event()
        waited.set()

    def wake_soon(self) -> None:
        """Let every stream look whether its person may still be there; called from any thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.wake)

    def end(self) -> None:
        """End all streams now; called in the loop."""
        self.ended.set()
        self.wake()

    async def events(
        self, annotator: str | None, who: Callable[[], dict[str, Any] | None] = dict
    ) -> AsyncIterator[bytes]:
        """The stream of one page. As long as it is open, its annotator is present.

        `who` says what the page's person is called and may do now; the page hears when it changes. None: they may not
        be here any more, and the stream ends.

        A page with an annotator also hears of each lease of theirs: one of several tabs, or devices, sees by that
        when its item was decided in another.
        """
        present: Session | None = None
        leased: tuple[int, int] | None = None
        told = who()
        self.listeners += 1
        try:
            sent = (await run_in_threadpool(_status_events, self.holder))[_is_owner(told)]
            yield format_sse_event(retry=RETRY_MILLISECONDS) + sent
            while not self.ended.is_set() and (now := who()) is not None:
                if now != told:
                    told = now
                    yield format_sse_event(event="me", data_str=json.dumps(told))
                session = self.holder.session
                if annotator is not None and session is not None and session is not present:
                    present = session  # the first, or one that took its place
                    await run_in_threadpool(present.arrive, annotator)
                changed = self.changed
                if present is not None and annotator is not None:
                    held = await run_in_threadpool(present.lease_of, annotator)
                    if held is not None and held != leased:
                        leased = held
                        yield _lease_event(*held)
                if (latest := self.latest.get(_is_owner(told), sent)) != sent:
                    sent = latest
                    yield sent
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), self.heartbeat)
                except TimeoutError:
                    yield KEEPALIVE_COMMENT
        finally:
            self.listeners -= 1
            if present is not None and annotator is not None:
                # Not awaited: this runs while the stream is being cancelled.
                asyncio.get_running_loop().run_in_executor(None, present.leave, annotator)


def _lease_event(item: int, number: int) -> bytes:
    return format_sse_event(event="lease", data_str=json.dumps({"item": item, "lease": number}))


def _status_events(holder: SessionHolder) -> dict[bool, bytes]:
    """The status as an event: for owners, and for everybody else."""
    status = holder.status()
    for_owners = _event(status)
    others = shown_to(status, is_owner=False)
    return {True: for_owners, False: for_owners if others == status else _event(others)}


def _event(status: Status) -> bytes:
    return format_sse_event(event="status", data_str=json.dumps(dataclasses.asdict(status)))


def shown_to(status: Status, *, is_owner: bool) -> Status:
    """The status without what only owners can do something about: the machines on which rows lie."""
    return status if is_owner else dataclasses.replace(status, slow_or_lost=[])


def _is_owner(told: dict[str, Any] | None) -> bool:
    return told is not None and told.get("role") == "owner"
