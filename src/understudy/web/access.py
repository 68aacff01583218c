"""Access control: host names, tokens, passwords, and names that cannot be forged."""

import ipaddress
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from understudy.data.class_names import find_look_alikes
from understudy.errors import UsageError
from understudy.sessions.people import PeopleTable, Role, check_role
from understudy.sessions.people_changes import enrol
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
    """Somebody who may come in. `name` is theirs alone where a token says who they are, else None: any name goes.

    It is the name by which the log knows them, for ever. What they may do is their role; where everybody may come in,
    everybody is owner.
    """

    name: str | None = None
    role: Role = "owner"
    people: PeopleTable = field(default_factory=PeopleTable, compare=False, repr=False)


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
    count besides those of people whom the project itself knows. Of these it asks `people_now`, which has nobody while
    the project is being prepared; `known` are those it had until then. `origin`: that of the public address, if any;
    pages of it are ours. `home`: the path under which all pages of this server are, where cookies are valid.
    """

    hosts: frozenset[str] = LOOPBACK
    by_address: bool = False
    tokens: Tokens | None = None
    annotators: tuple[str, ...] = ()
    password: bool = False
    tries: Tries = field(default_factory=Tries)
    origin: str = ""
    home: str = "/"
    known: PeopleTable = field(default_factory=PeopleTable)
    people_now: Callable[[], PeopleTable | None] = lambda: None

    @property
    def people(self) -> PeopleTable:
        """The people of the project, with their roles."""
        now = self.people_now()
        if now is not None:
            self.known = now
        return self.known

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
            return Visitor(people=self.people)
        token = token_in(headers, self.tokens.cookie)
        return None if token is None else self.visitor_with(token)

    def visitor_with(self, token: str) -> Visitor | None:
        """Whose token this is, if it counts now. Logins by password never give more than an annotator may."""
        if self.tokens is None:
            return Visitor(people=self.people)
        people = self.people
        owner = self.owner_of_link(token)
        if owner is not None:
            return Visitor(owner, people.role_of(owner), people)
        login = self.tokens.owner_of_login(token) if self.password else None
        return (
            None
            if login is None or self.reason_against_login(login) is not None
            else Visitor(login, "annotator", people)
        )

    def owner_of_link(self, token: str) -> str | None:
        """Whose personal link has this token, if it counts now."""
        people = self.people
        let_in = [name for name in self.annotators if not people.is_retired(name)]
        let_in += [person for person in people.by_id if people.may_enter(person)]
        return None if self.tokens is None else self.tokens.owner_of_link(token, let_in)

    @property
    def logins(self) -> list[str]:
        """The people who came in by the password."""
        return [] if self.tokens is None else list(dict.fromkeys(self.tokens.logins.values()))

    def reason_against_login(self, person: str) -> str | None:
        """Why somebody cannot come in by the password alone, in a sentence; None where they can."""
        people, name = self.people, self.people.name_of(person)
        if people.is_retired(person):
            return f"{name} has retired from this project; ask {people.whom_to_ask()}"
        if people.id_of(person) not in (None, person):
            return f"{person} is the name of somebody else; choose another name"
        has_link = self.tokens is not None and person in self.tokens.links and people.may_enter(person)
        if people.role_of(person) != "annotator" or has_link:
            return f"{name} comes in by a personal link, not by the password; open that link, or choose another name"
        return None

    def has_retired(self, headers: Mapping[str, str]) -> bool:
        """Whether these headers hold the token of somebody who has retired."""
        if self.tokens is None or (token := token_in(headers, self.tokens.cookie)) is None:
            return False
        retired = [person for person in self.people.by_id if self.people.is_retired(person)]
        return self.tokens.owner_of_link(token, retired) is not None or (
            self.password and self.tokens.owner_of_login(token) in retired
        )


def access_for(
    folder: Path,
    host: str,
    *,
    annotators: str | None = None,
    password: str | None = None,
    new_links: bool = False,
    allow_host: str | None = None,
    public: PublicUrl | None = None,
    people: PeopleTable | None = None,
) -> tuple[Access, dict[str, str | None]]:
    """The rule that was asked for, and the tokens of personal links by name, None where one was given before.

    `people`: those of the project so far. With a password only those have a link who may do more than annotators.
    """
    wanted, hosts = check_access(host, annotators, password, allow_host, public)
    rule = Access(hosts, by_address=not is_loopback(host))
    if public is not None:
        rule = replace(rule, origin=public.origin, home=f"{public.prefix}/")
    if not wanted and password is None:
        return rule, {}
    table = PeopleTable() if people is None else people.copy()
    for place, event in enumerate(enrol(table, wanted)):
        table.apply(replace(event, seq=-1 - place))  # as they will be once the project is open
    _require_present(table, wanted)
    tokens = Tokens(folder)
    if password is not None:
        tokens.set_password(password)
    linked = [who for who in table.by_id.values() if table.may_enter(who.id)]
    if password is not None:
        linked = [who for who in linked if who.role != "annotator" or who.id in tokens.links]
    links = tokens.links_for([who.id for who in linked], anew=new_links)
    named = {who.name: links[who.id] for who in linked}
    return replace(rule, tokens=tokens, password=password is not None, known=table), named


def _require_present(table: PeopleTable, names: Iterable[str]) -> None:
    """An error where somebody is to be let in who has retired."""
    for name in names:
        if table.is_retired(table.id_or_name(name)):
            raise UsageError(
                f"{name} has retired from this project; leave the name out, or bring them back with: "
                f"understudy people PROJECT return {name}"
            )


def check_access(
    host: str,
    annotators: str | None,
    password: str | None,
    allow_host: str | None = None,
    public: PublicUrl | None = None,
) -> tuple[dict[str, Role | None], frozenset[str]]:
    """People with their roles, and hosts; or one line that says why these do not go together. Nothing is made yet."""
    if annotators is not None and password is not None:
        raise UsageError("give --annotators, for a link each, or --password, for one word for all; not both")
    if password is not None and not 1 <= len(password) <= 256:
        raise UsageError("a password has 1 to 256 characters")
    wanted = {} if annotators is None else _read_roles(annotators)
    more = frozenset() if allow_host is None else _check_hosts(allow_host)
    guarded = bool(wanted) or password is not None
    if public is not None:
        if public.host not in LOOPBACK and not guarded:
            raise UsageError(
                f"at {public} others could reach this project; give --annotators ann,bob for a personal link each, "
                f"or --password for one password"
            )
        more |= {public.host}
    return wanted, more | allowed_hosts(host, guarded=guarded)


def _read_roles(people: str) -> dict[str, Role | None]:
    """Names with their roles from `ann:owner,bob`; None where none is given."""
    pairs = [one.partition(":") for one in people.split(",")]
    names = check_names([name for name, _, _ in pairs])
    for name, other in find_look_alikes(names, ()):
        raise UsageError(f"{name} is easily taken for {other}; give people names that differ")
    return {
        name: check_role(role.strip()) if colon else None for name, (_, colon, role) in zip(names, pairs, strict=True)
    }


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
