"""Access control: host names, tokens, passwords, and names that cannot be forged."""

import ipaddress
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from understudy.errors import UsageError
from understudy.web.public_url import HOST_NAME, PublicUrl, is_address
from understudy.web.tokens import Tokens

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
FREE_TRIES: Final = 5
MAX_WAIT: Final = 60.0  # seconds between two tries of one address
MAX_ADDRESSES: Final = 1000  # addresses with wrong passwords
MAX_TRIES_PER_MINUTE: Final = 60  # wrong passwords from all addresses together
SECONDS_PER_MINUTE: Final = 60.0


@dataclass(frozen=True)
class Visitor:
    """Somebody who may come in. `name` is theirs alone where a token says who they are, else None: any name goes."""

    name: str | None = None


class Tries:
    """Passwords tried by address: five wrong ones are free, then each makes the wait longer.

    A try counts as wrong from its beginning until it is known to be right: a hundred at once are a hundred.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.failures: dict[str, tuple[int, float]] = {}  # how many, and when the next try is heard
        self.lately: deque[float] = deque()  # when the last ones began, wherever they came from
        self.lock = threading.Lock()

    def begin(self, address: str) -> float:
        """Zero if a password of this address is heard now, which is counted; else the seconds to wait."""
        home = client_network(address)
        with self.lock:
            now = self.clock()
            while self.lately and self.lately[0] <= now - SECONDS_PER_MINUTE:
                self.lately.popleft()
            count, due = self.failures.get(home, (0, 0.0))
            crowded = len(self.lately) >= MAX_TRIES_PER_MINUTE
            wait = max(due - now, self.lately[0] + SECONDS_PER_MINUTE - now if crowded else 0.0)
            if wait > 0:
                return wait
            self.lately.append(now)
            self.failures.pop(home, None)
            pause = min(2.0 ** (count + 1 - FREE_TRIES), MAX_WAIT) if count + 1 >= FREE_TRIES else 0.0
            self.failures[home] = (count + 1, now + pause)
            while len(self.failures) > MAX_ADDRESSES:
                del self.failures[next(iter(self.failures))]
            return 0.0

    def record_success(self, address: str) -> None:
        """The try was right after all: nothing is held against this address."""
        with self.lock:
            self.failures.pop(client_network(address), None)
            if self.lately:
                self.lately.pop()


@dataclass
class Access:
    """The rule for one server.

    `hosts`: the names it may be called by. With `by_address` any IP address will do, too: a stranger can point a name
    at this machine and so let a browser call it from a page of theirs, but not an address. `annotators`: whose links
    count. `origin`: that of the public address, where there is one; pages of it are ours. `home`: the path under which
    all pages of this server are, where cookies are valid.
    """

    hosts: frozenset[str] = LOOPBACK
    by_address: bool = False
    tokens: Tokens | None = None
    annotators: tuple[str, ...] = ()
    password: bool = False
    tries: Tries = field(default_factory=Tries)
    origin: str = ""
    home: str = "/"

    @property
    def is_open(self) -> bool:
        """Whether anybody who reaches this server may use it."""
        return self.tokens is None

    def is_host(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = name_in(host)
        return name in self.hosts or (self.by_address and is_address(name))

    def visitor(self, headers: Mapping[str, str]) -> Visitor | None:
        """Who sent a request with these headers; None for a stranger."""
        if self.tokens is None:
            return Visitor()
        token = token_in(headers, self.tokens.cookie)
        return None if token is None else self.visitor_with(token)

    def visitor_with(self, token: str) -> Visitor | None:
        if self.tokens is None:
            return Visitor()
        owner = self.tokens.owner_of_link(token, self.annotators)
        if owner is None and self.password:
            owner = self.tokens.owner_of_login(token)
        return None if owner is None else Visitor(owner)


def access_for(
    folder: Path,
    host: str,
    *,
    annotators: str | None = None,
    password: str | None = None,
    new_links: bool = False,
    allow_host: str | None = None,
    public: PublicUrl | None = None,
) -> tuple[Access, dict[str, str | None]]:
    """The rule that was asked for, and the tokens of personal links by name, None where one was given before."""
    names, hosts = check_access(host, annotators, password, allow_host, public)
    rule = Access(hosts, by_address=not is_loopback(host))
    if public is not None:
        rule = replace(rule, origin=public.origin, home=f"{public.prefix}/")
    if not names and password is None:
        return rule, {}
    tokens = Tokens(folder)
    if password is not None:
        tokens.set_password(password)
        return replace(rule, tokens=tokens, password=True), {}
    return replace(rule, tokens=tokens, annotators=names), tokens.links_for(names, anew=new_links)


def check_access(
    host: str,
    annotators: str | None,
    password: str | None,
    allow_host: str | None = None,
    public: PublicUrl | None = None,
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names and hosts, or one line that says why these do not go together. Nothing is made yet."""
    if annotators is not None and password is not None:
        raise UsageError("give --annotators, for a link each, or --password, for one word for all; not both")
    if password is not None and not 1 <= len(password) <= 256:
        raise UsageError("a password has 1 to 256 characters")
    names = () if annotators is None else tuple(check_names(annotators))
    more = frozenset() if allow_host is None else _check_hosts(allow_host)
    guarded = bool(names) or password is not None
    if public is not None:
        if public.host not in LOOPBACK and not guarded:
            raise UsageError(
                f"at {public} others could reach this project; give --annotators ann,bob for a personal link each, "
                f"or --password for one password"
            )
        more |= {public.host}
    return names, more | allowed_hosts(host, guarded=guarded)


def _check_hosts(names: str) -> frozenset[str]:
    """The names in `a.example,b.example`."""
    listed = [name.strip().lower().rstrip(".") for name in names.split(",")]
    for name in listed:
        if not (HOST_NAME.fullmatch(name) or is_address(name)):
            raise UsageError(f"--allow-host takes host names without a port, with commas between; got {names!r}")
    return frozenset(listed)


def allowed_hosts(host: str, *, guarded: bool) -> frozenset[str]:
    """The names a server that listens at `host` may be called by. An error where it would stand open to others."""
    if is_loopback(host):
        return LOOPBACK | {host.lower()}
    if not guarded:
        raise UsageError(
            f"at {host} others could reach this project; give --annotators ann,bob for a personal link each, "
            f"or --password for one password"
        )
    own = socket.gethostname().lower()
    short = own.partition(".")[0]
    return LOOPBACK | {own, short, f"{short}.local"} | (set() if is_wildcard(host) else {host.lower()})


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach this address, under all that its name stands for."""
    if is_wildcard(host):
        return False
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host} is not an address of this machine; give --host 127.0.0.1, for example") from error
    return all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in found)


def client_network(address: str) -> str:
    """The address of a client, or for IPv6 its /64, since one client has all addresses in it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found) if found.is_loopback else str(ipaddress.ip_network((found, 64), strict=False))


def plain_address(address: str) -> str:
    """The address as it is usually written, an IPv4 one in IPv6's clothes as IPv4."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)


def is_wildcard(host: str) -> bool:
    return host in ("", "0.0.0.0", "::", "*")


def name_in(host: str) -> str:
    """The name in a Host header, without its port; "" if it is not valid."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # an error if it is not a number
        plain = parts.username is None and not (parts.path or parts.query or parts.fragment)
        return (parts.hostname or "").rstrip(".") if plain else ""
    except ValueError:
        return ""


def token_in(headers: Mapping[str, str], cookie: str) -> str | None:
    """The token of a request: what a program says of itself counts before what a browser kept."""
    given = headers.get("authorization")
    if given is not None:
        scheme, _, token = given.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(cookie)
    except CookieError:
        return None
    return None if found is None else found.value


def check_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names of annotators from `ann,bob`."""
    listed = names.split(",") if isinstance(names, str) else list(names)
    cleaned = tuple(name.strip() for name in listed)
    good = all(name and len(name) <= 64 and name.isprintable() for name in cleaned)
    if not good or len(set(cleaned)) < len(cleaned):
        raise UsageError(f"annotators are names that differ, with commas between; got {','.join(listed)!r}")
    return cleaned
