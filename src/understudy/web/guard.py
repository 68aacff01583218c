"""The middleware before every call: checks host, origin, visitor, and the size of the body.

It wraps the whole application, so no call can be added that it does not cover. What needs no token is listed here:
the page's own files, which hold nothing of the project, and the two calls by which one logs in.
"""

import asyncio
import contextlib
import logging
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from understudy.data.items import make_printable
from understudy.web.access import Access, name_in
from understudy.web.error_responses import error_response

log = logging.getLogger("understudy.web")

MAX_BODY_BYTES: Final = 64 * 1024
MAX_IMPORT_BYTES: Final = 20 * 1024 * 1024
MAX_DRAINED_BYTES: Final = 4 * 1024 * 1024  # read past the limit, so that a client still sending hears the answer
BODY_SECONDS: Final = 30.0  # for a body to arrive
IMPORT_SECONDS: Final = 120.0
IMPORT: Final = "/api/import"
JSON: Final = "application/json"
OCTET_STREAM: Final = "application/octet-stream"
OWN_SITES: Final = ("same-origin", "none")  # "none": typed into the address bar
WITHOUT_TOKEN: Final = frozenset({"/api/login", "/api/me"})
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}


class Guard:
    """An application with a guard before it. It leaves the visitor in the request's state."""

    def __init__(self, app: ASGIApp, access: Access, page: frozenset[str] = frozenset()) -> None:
        self.app, self.access, self.page = app, access, page  # the page: addresses that need no token
        self.importing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":  # there are no web sockets here
                await self.app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            refusal = self.refuse(scope) or await self.pass_on(scope, receive, send_guarded)
            if refusal is not None:
                await refusal(scope, receive, send_guarded)
        except Exception:
            log.exception("%s %s failed", scope["method"], make_printable(scope["path"]))
            if started:
                raise
            await error_response(500, "something went wrong here; the server's terminal says what")(
                scope, receive, send_guarded
            )

    def refuse(self, scope: Scope) -> Response | None:
        """The error response to a call that is refused; None if it may go on."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self.access.is_host(host):
            return error_response(
                403,
                "this server is not called by that name; use the address that it printed, or have it started with "
                "--allow-host NAME",
            )
        here = scope.get("root_path", "")
        if here and path.startswith(f"{here}/"):  # the router would take the prefix off a second time
            return error_response(404, "there is nothing at this address")
        if path == "":  # the address of a folder without its last sign, under which nothing relative would be found
            query = scope["query_string"].decode("latin-1")
            return RedirectResponse(f"{here}/{query and '?'}{query}", 307)
        if path in self.page:
            return None
        if headers.get("sec-fetch-site", "none") not in OWN_SITES:
            return error_response(403, "calls from other sites are refused")
        if method not in ("GET", "HEAD") and not self.is_own_origin(headers.get("origin"), host):
            return error_response(403, "calls from other sites are refused")
        visitor = self.access.visitor(headers)
        if visitor is None and not (path in WITHOUT_TOKEN and self.access.password):
            return error_response(401, self.say_how_to_enter(headers), {"WWW-Authenticate": "Bearer"})
        scope.setdefault("state", {})["visitor"] = visitor
        wanted = OCTET_STREAM if path == IMPORT else JSON
        if method == "POST" and _media_type(headers.get("content-type", "")) != wanted and _is_call(scope):
            return error_response(415, f"send this as Content-Type: {wanted}")
        return None

    def is_own_origin(self, origin: str | None, host: str) -> bool:
        """Whether a page of this very server asks; programs other than browsers send no Origin."""
        if origin is None or (self.access.origin and origin.lower() == self.access.origin):
            return True
        scheme, _, rest = origin.partition("://")
        return scheme in ("http", "https") and name_in(host) != "" and rest.lower() == host.lower()

    def say_how_to_enter(self, headers: Headers) -> str:
        if self.access.has_retired(headers):
            return f"you have retired from this project; ask {self.access.people.whom_to_ask()}"
        if self.access.password:
            return "log in with the password first"
        return "open the personal link that you were given, or send its token as Authorization: Bearer"

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """Hand the call on, with its body read as far as its limits; an answer of ours if it goes beyond them."""
        if scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return None
        if scope["path"] != IMPORT:
            return await self.pass_on_with_body(MAX_BODY_BYTES, BODY_SECONDS, scope, receive, send)
        if self.importing:  # asked before the body is read, since each takes much memory
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BODY_SECONDS):
                    await _read_body(receive, 0, MAX_IMPORT_BYTES)
            return error_response(409, "another import is under way; wait for its end", {"Connection": "close"})
        self.importing = True
        try:
            return await self.pass_on_with_body(MAX_IMPORT_BYTES, IMPORT_SECONDS, scope, receive, send)
        finally:
            self.importing = False

    async def pass_on_with_body(
        self, most: int, seconds: float, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        try:
            async with asyncio.timeout(seconds):
                body = await _read_body(receive, most)
        except TimeoutError:
            return error_response(408, f"the body did not arrive in {seconds:g} seconds", {"Connection": "close"})
        if body is None:
            return error_response(413, f"a body may have at most {most:,} bytes", {"Connection": "close"})
        await self.app(scope, _replay(body, receive), send)
        return None


def _is_call(scope: Scope) -> bool:
    """Whether there is a call like this; if not, that is what should be said of it."""
    return any(route.matches(scope)[0] is Match.FULL for route in scope["app"].router.routes)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


async def _read_body(receive: Receive, most: int, drained: int = MAX_DRAINED_BYTES) -> bytes | None:
    """The whole body, however it arrives; None if it is longer than `most`, never ends, or breaks off."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None  # half a body is useless, and the client is gone
        size += len(message.get("body", b""))
        if size <= most:
            parts.append(message.get("body", b""))
        if size > most + drained or not message.get("more_body", False):
            return b"".join(parts) if size <= most else None


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body at once, then what else happens on the connection."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
