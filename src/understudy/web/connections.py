"""Limits of connections: silent and slow clients are hung up on, and one client gets only so many.

uvicorn waits for ever for the first request of a connection. A few hundred silent ones would keep everybody out.
"""

import asyncio
import ipaddress
import json
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from understudy.web.access import client_network
from understudy.web.guard import HEADERS

HEAD_SECONDS: Final = 10.0  # seconds for what stands before the body of a request
MAX_CONNECTIONS: Final = 500
MAX_PER_CLIENT: Final = 64  # connections of one address; a page has a handful
MAX_FROM_LOOPBACK: Final = 128  # this machine, or all who come through its reverse proxy
REASONS: Final = {400: "Bad Request", 503: "Service Unavailable"}


class Connection(H11Protocol):
    """One connection, hung up unless a whole head arrives in time. How long bodies may take, the guard says."""

    head_due: asyncio.TimerHandle | None = None
    home: str = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.home = client_network(self.client[0]) if self.client else ""
        same = sum(isinstance(other, Connection) and other.home == self.home for other in self.connections)
        if len(self.connections) > MAX_CONNECTIONS or same > max_connections_of(self.home):
            self.refuse(503, "too many connections; close some, or try again in a moment")
        else:
            self.expect_head()

    def data_received(self, data: bytes) -> None:
        if self.is_idle() and len(self.tasks) >= MAX_CONNECTIONS:  # the calls of those who hung up still run
            self.refuse(503, "too many calls at once; try again in a moment")
            return
        super().data_received(data)
        if self.is_idle():
            self.expect_head()
        else:
            self.stop_expecting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_idle() and self.conn.trailing_data[0]:  # the next head began while this one was answered
            self.expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_expecting()
        super().connection_lost(exc)

    def is_idle(self) -> bool:
        """Whether no request is being answered. What arrives then is the next head, or a body nobody wanted."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def expect_head(self) -> None:
        # From its first byte on: who sends one byte a second gets no more time than others.
        if self.head_due is None and not self.transport.is_closing():
            self.head_due = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def stop_expecting(self) -> None:
        if self.head_due is not None:
            self.head_due.cancel()
            self.head_due = None

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, msg)

    def refuse(self, status: int, detail: str) -> None:
        """Say why, and hang up. It never gets to the guard, so the strict headers are put in here."""
        self.stop_expecting()
        if self.is_idle() or not self.cycle.response_started:  # else it would end up in the middle of an answer
            self.transport.write(_last_words(status, detail))
        self.transport.close()


def max_connections_of(home: str) -> int:
    try:
        return MAX_FROM_LOOPBACK if ipaddress.ip_address(home.partition("/")[0]).is_loopback else MAX_PER_CLIENT
    except ValueError:
        return MAX_PER_CLIENT


def _last_words(status: int, detail: str) -> bytes:
    """A whole answer, for when there is no request to answer."""
    body = json.dumps({"detail": detail}).encode()
    headers = HEADERS | {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {status} {REASONS[status]}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
