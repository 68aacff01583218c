"""Behind a reverse proxy: the public address of the pages, and what the proxy says of those who call.

A proxy may pass the prefix of the public address on or take it off: a path that has it and one that has not mean the
same. What it says in X-Forwarded-For and -Proto counts only where it comes from an address that was named.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from understudy.errors import UsageError
from understudy.web.access import client_network, plain_address
from understudy.web.error_responses import error_response
from understudy.web.guard import HEADERS
from understudy.web.public_url import PublicUrl, is_address

MAX_CALLS: Final = 64  # at once, of one client behind a proxy


def parse_proxies(text: str) -> frozenset[str]:
    """The addresses of proxies that are believed, from `127.0.0.1,10.0.0.5`."""
    found = [each.strip() for each in text.split(",")]
    if not all(map(is_address, found)):
        raise UsageError(f"--trust-proxy takes IP addresses of reverse proxies, with commas between; got {text!r}")
    return frozenset(map(plain_address, found))


@dataclass(frozen=True)
class ProxyRule:
    """What stands between the people and this server."""

    public: PublicUrl | None = None
    trusted: frozenset[str] = frozenset()  # proxies whose X-Forwarded-For and -Proto are believed

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """The application as it is called from outside."""
        return BehindProxy(app, self) if self.public is not None or self.trusted else app


class BehindProxy:
    """An application whose calls come through a proxy: it sees the public side of them."""

    def __init__(self, app: ASGIApp, rule: ProxyRule) -> None:
        self.app, self.rule = app, rule
        self.calls: Counter[str] = Counter()  # under way, by client behind a trusted proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope, behind = self.seen_from_outside(scope)
        if behind is None:
            await self.app(scope, receive, send)
            return
        if self.calls[behind] >= MAX_CALLS:
            await error_response(503, "too many calls at once; close some pages, or try again in a moment", HEADERS)(
                scope, receive, send
            )
            return
        self.calls[behind] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.calls[behind] -= 1
            if not self.calls[behind]:
                del self.calls[behind]

    def seen_from_outside(self, scope: Scope) -> tuple[Scope, str | None]:
        """The call as it was made to the proxy, and which client of a trusted proxy made it."""
        scope, client = dict(scope), None
        peer = plain_address(scope["client"][0]) if scope.get("client") else ""
        if peer in self.rule.trusted:
            headers = Headers(scope=scope)
            client = _client_in(headers.getlist("x-forwarded-for"), self.rule.trusted)
            if client is not None:
                scope["client"] = (client, 0)
            if (scheme := _last(headers.getlist("x-forwarded-proto")).lower()) in ("http", "https"):
                scope["scheme"] = scheme
        public = self.rule.public
        if public is not None:
            if public.scheme == "https":  # whatever the way from the proxy to here is like
                scope["scheme"] = "https"
            strip_prefix(scope, public.prefix)
        return scope, None if client is None else client_network(client)


def strip_prefix(scope: Scope, prefix: str) -> None:
    """Move a prefix from the path of a call to its root path; a path that lacks it is as the proxy left it."""
    path = scope["path"]
    if path == prefix or path.startswith(f"{prefix}/"):
        scope["path"] = path[len(prefix) :]
    scope["root_path"] = scope.get("root_path", "") + prefix


def _client_in(lines: Iterable[str], trusted: frozenset[str]) -> str | None:
    """The address nearest to us that is not a trusted proxy's; what stands before it anybody could have written."""
    for entry in reversed(",".join(lines).split(",")):
        address = _without_port(entry.strip())
        if not is_address(address):
            return None
        if plain_address(address) not in trusted:
            return address
    return None


def _without_port(entry: str) -> str:
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


def _last(lines: list[str]) -> str:
    return lines[-1].rpartition(",")[2].strip() if lines else ""
