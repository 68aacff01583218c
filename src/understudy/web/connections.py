"""Limits of connections: silent and slow clients are hung up on, and one client gets only so many.

uvicorn waits for ever for the first request of a connection. A few hundred silent ones would keep everybody out.
"""

import asyncio
import ipaddress
import json
import ssl
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from understudy.web.access import client_network, plain_address
from understudy.web.certificates import RenewedContext
from understudy.web.guard import HEADERS

HEAD_SECONDS: Final = 10.0  # for what stands before the body of a request
HANDSHAKE_SECONDS: Final = 10.0  # for what TLS says before the first request
GOODBYE_SECONDS: Final = 2.0  # for the other side to say that it heard the end of TLS
MAX_CONNECTIONS: Final = 500
MAX_PER_CLIENT: Final = 64  # connections of one address; a page has a handful
MAX_FROM_LOOPBACK: Final = 128  # this machine, or all who come through its reverse proxy
REASONS: Final = {400: "Bad Request", 503: "Service Unavailable"}


class Connection(H11Protocol):
    """One connection, hung up unless a whole head arrives in time. How long bodies may take, the guard says."""

    head_due: asyncio.TimerHandle | None = None
    home: str = ""
    proxies: frozenset[str] = frozenset()  # whose connections are those of many; their calls are counted instead

    def __init__(self, *args: Any, proxies: frozenset[str] = frozenset(), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.proxies = proxies

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        self.home = client_network(address)
        if _are_too_many(self.connections, self.home, is_proxy=plain_address(address) in self.proxies):
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


class Handshake(asyncio.Protocol):
    """A connection that is still being encrypted: counted like any other, and hung up if that takes too long.

    asyncio would say nothing of it until it is encrypted, so a crowd that never gets there would not be counted.
    """

    def __init__(self, *, tls: RenewedContext, make: Callable[..., Any], **of_server: Any) -> None:
        self.tls = tls
        self.connection: Connection = make(**of_server)
        self.waiting: set[Any] = self.connection.connections
        self.home = ""
        self.early: list[bytes] = []  # what came before the connection could hear it
        self.transport: asyncio.Transport | None = None
        self.is_over = False
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.pause_reading()  # what comes next is for TLS to read
        self.transport = transport
        address = str((transport.get_extra_info("peername") or ("",))[0])
        self.home = client_network(address)
        self.waiting.add(self)
        if _are_too_many(self.waiting, self.home, is_proxy=plain_address(address) in self.connection.proxies):
            transport.abort()  # in words it could only be said in the clear
        else:
            self.task = self.connection.loop.create_task(self.encrypt(transport))

    def data_received(self, data: bytes) -> None:
        self.early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.discard(self)
        self.transport = None
        if self.is_over:  # it was lost in the very moment when the connection took over
            self.connection.connection_lost(exc)

    async def encrypt(self, transport: asyncio.Transport) -> None:
        """Let the connection take over as soon as it is encrypted."""
        try:
            encrypted = await self.connection.loop.start_tls(
                transport, self, self.tls.first, server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS, ssl_shutdown_timeout=GOODBYE_SECONDS,
            )  # fmt: skip
        except (OSError, ssl.SSLError):  # too late, or it is not TLS that they speak
            transport.abort()
            return
        finally:
            gone = self.transport is None
            self.waiting.discard(self)
        if encrypted is None or gone:
            return
        self.is_over = True
        encrypted.set_protocol(self.connection)
        self.connection.connection_made(encrypted)
        for data in self.early:
            self.connection.data_received(data)

    def shutdown(self) -> None:
        """End it: the server stops."""
        if self.transport is not None:
            self.transport.abort()


def _are_too_many(connections: set[Any], home: str, *, is_proxy: bool) -> bool:
    """Whether there are too many connections in all, or of this client."""
    if len(connections) > MAX_CONNECTIONS:
        return True
    same = sum(getattr(other, "home", None) == home for other in connections)
    return not is_proxy and same > max_connections_of(home)


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
