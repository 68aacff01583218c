"""The server of a project: finds a port, prints the address, and shuts down cleanly."""

import asyncio
import logging
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import torch
import uvicorn
from starlette.types import ASGIApp

from understudy.core.protocol import RowStorage
from understudy.core.setup_progress import Phase, ReportSetup
from understudy.defaults import FIRST_PORT
from understudy.errors import UnderstudyError, UsageError
from understudy.projects.project import Project
from understudy.sessions.opening import open_session
from understudy.sessions.people import PeopleTable, Role
from understudy.sessions.replies import AuditPlan
from understudy.sessions.session import Session
from understudy.web.access import Access, is_loopback, is_wildcard
from understudy.web.app import create_app
from understudy.web.behind_proxy import ProxyRule, parse_proxies
from understudy.web.certificates import Certificate, RenewedContext, find_certificate
from understudy.web.connections import Connection, Handshake
from understudy.web.live_status import LiveStatus
from understudy.web.public_url import parse_public_url
from understudy.web.session_holder import SessionHolder

USUAL_PORTS: Final = range(FIRST_PORT, FIRST_PORT + 11)
SHUTDOWN_SECONDS: Final = 1  # for calls under way; live streams are ended before that
SECONDS_BEFORE_BROWSER: Final = 2.5  # a project that cannot be opened mostly says so in this time

Links = dict[str, str | None]  # tokens by name; None where one was given before


class Stopped(Exception):
    """The server was stopped while its project was being prepared."""


@dataclass(frozen=True)
class Address:
    """Where to listen, and how people come there. Without a port the first free one from 8000 on is taken."""

    host: str = "127.0.0.1"
    port: int | None = None
    certificate: Certificate | None = None  # with one, HTTPS is spoken
    proxy: ProxyRule = field(default_factory=ProxyRule)


class Server(uvicorn.Server):
    """uvicorn, ended by a signal without a trace, and not held up by open streams."""

    def __init__(self, config: uvicorn.Config, live: Iterable[LiveStatus]) -> None:
        super().__init__(config)
        self.live = live

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Not raised again afterwards as uvicorn does: the session must be closed first.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self, number: int, frame: FrameType | None) -> None:
        """End what is under way, at most a second long. Being asked twice changes nothing: uvicorn would drop it."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for live in self.live:
            live.end()
        await super().shutdown(sockets)


class Preparation:
    """A session opened in a thread of its own, or in that of others too, while the page already says how far it is."""

    def __init__(
        self,
        open_it: Callable[["Preparation"], Session],
        holder: SessionHolder,
        show_setup: ReportSetup = lambda *_: None,
    ) -> None:
        self.open_it, self.holder, self.show_setup = open_it, holder, show_setup
        self.stopping = threading.Event()
        self.under_way = threading.Event()  # it takes long, or it is over
        self.error: BaseException | None = None
        self.failed: Callable[[], None] = lambda: None
        self.thread = threading.Thread(target=self.run, name="preparing", daemon=True)

    def run(self) -> None:
        try:
            session = self.open_it(self)
            torch.set_num_threads(1)  # the engine's steps are short, and training has the other cores
            self.holder.arrive(session)
        except BaseException as error:  # carried to the main thread
            self.error = error
            self.failed()
        finally:
            self.under_way.set()

    def report_progress(self, done: int, total: int) -> None:
        if self.stopping.is_set():
            raise Stopped
        self.holder.report_progress(done, total)
        if done:
            self.under_way.set()

    def report_setup(self, phase: Phase, share: float) -> None:
        if self.stopping.is_set():
            raise Stopped
        self.holder.report_setup(phase, share)
        self.show_setup(phase, share)
        self.under_way.set()

    def end(self) -> None:
        """Close the session, whether it has arrived or is still on its way."""
        self.stopping.set()
        if self.thread.ident is not None:
            self.thread.join(10.0)
        if self.holder.session is not None:
            self.holder.session.close()


def serve(
    project: Project,
    *,
    enter: Callable[[], tuple[Access, Links]] = lambda: (Access(), {}),
    address: Address | None = None,
    predictions: str | None = None,
    people: Mapping[str, Role | None] | None = None,
    storage: RowStorage | None = None,
    browser: bool = True,
    polls: bool = True,
    say: Callable[[str], None] = lambda _: None,
    show_setup: ReportSetup = lambda *_: None,
) -> None:
    """Serve a project until Ctrl-C. The page is there at once, also while features are still being made.

    `enter` says who may come in, and gives the tokens of new personal links. It is asked when nothing stands in the
    way of serving any more: a link that is made must be shown. `people` are those to be let in, where not everybody is.
    `storage` is where the surrogate's rows are kept. With `polls` new items are looked for all the time. `say` prints
    a line for people, and `show_setup` shows them how far the surrogate's set-up is.
    """
    place = Address() if address is None else address
    listening = listen(place)
    url = public_url(listening, place)

    def open_it(preparation: Preparation) -> Session:
        session = open_session(
            project, predictions=predictions, people=people, progress=preparation.report_progress,
            setup_progress=preparation.report_setup, storage=storage,
        )  # fmt: skip
        session.announce(url)
        for line in (*project.notes, *first_lines(session)):
            say(line)
        session.growth.start(polls=polls, say=say)
        return session

    def open_again(opened: Project) -> Session:
        session = open_session(opened, predictions=predictions, storage=storage)
        session.announce(url)
        session.growth.start(polls=polls, say=say)
        return session

    holder = SessionHolder(name=project.name, kind=project.kind)
    holder.open_again = open_again
    preparation = Preparation(open_it, holder, show_setup)
    try:
        preparation.thread.start()
        preparation.under_way.wait(SECONDS_BEFORE_BROWSER)
        if preparation.error is None:
            access, links = enter()
            server = make_server(holder, access, place)
            preparation.failed = lambda: setattr(server, "should_exit", True)
            server.should_exit = preparation.error is not None  # it may have failed just now
            announce(url, links, say, access.people)
            for line in about_the_way(listening, place):
                say(line)
            if browser and opens_here(place) and not links:
                webbrowser.open(url)
            server.run([listening])
    finally:
        listening.close()
        preparation.end()
    if preparation.error is not None and not isinstance(preparation.error, Stopped):
        raise preparation.error
    say("stopped; every answer is stored, and the same command goes on")


def make_server(holder: SessionHolder, access: Access, address: Address | None = None) -> Server:
    """The server of one project."""
    app = create_app(holder, access)
    return build_server(app, [app.state.live], Address() if address is None else address)


def build_server(app: ASGIApp, live: Iterable[LiveStatus], address: Address) -> Server:
    """uvicorn with our limits; with TLS and behind a proxy where the address says so."""
    connect: Callable[..., asyncio.Protocol] = partial(Connection, proxies=address.proxy.trusted)
    if address.certificate is not None:
        connect = partial(Handshake, tls=RenewedContext(address.certificate), make=connect)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="understudy: %(message)s")
    config = uvicorn.Config(
        address.proxy.wrap(app),
        log_config=None,
        log_level="error",  # a client that speaks no HTTP is not our news
        access_log=False,
        server_header=False,
        proxy_headers=False,  # forwarded addresses are believed by `behind_proxy` or not at all
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=30,
        http=connect,  # type: ignore[arg-type]  # called like a class
    )
    return Server(config, live)


def address_for(
    host: str,
    port: int | None,
    *,
    certfile: Path | None = None,
    keyfile: Path | None = None,
    key_password: str | None = None,
    public: str | None = None,
    trusted: str | None = None,
) -> Address:
    """Where to listen and how people come there, as it was asked for; all of it is checked, nothing is made."""
    certificate = find_certificate(certfile, keyfile, key_password)
    rule = ProxyRule(
        None if public is None else parse_public_url(public),
        frozenset() if trusted is None else parse_proxies(trusted),
    )
    return Address(host, port, certificate, rule)


def check_address(place: Address) -> None:
    """Raise where nobody can listen there, as `serve` would."""
    listen(place).close()


def listen(place: Address, usual: Sequence[int] = USUAL_PORTS) -> socket.socket:
    """A socket on the port, or on the first free one of the usual ones where none was given."""
    ports = [place.port] if place.port is not None else usual
    host = "0.0.0.0" if place.host in ("", "*") else place.host
    try:
        family, _, _, _, found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{place.host} is not an address of this machine; give --host 127.0.0.1, for example"
        ) from error
    for port in ports:
        # Named, or asyncio does not see that it is TCP, and answers wait 40 ms for the other side to say that it hears.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if sys.platform != "win32":  # there it would take a port away from its owner
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((found[0], port))
            listening.listen(128)
            return listening
        except (OSError, OverflowError) as error:
            listening.close()
            reason = getattr(error, "strerror", None) or str(error)
    if place.port is not None:
        raise UnderstudyError(f"port {place.port} of {place.host} cannot be had ({reason}); give another --port")
    raise UnderstudyError(
        f"none of the ports {ports[0]} to {ports[-1]} of {place.host} can be had ({reason}); give a --port"
    )


def public_url(listening: socket.socket, address: Address) -> str:
    """Where people find the page: the public address that was given, or this machine's."""
    if address.proxy.public is not None:
        return str(address.proxy.public)
    return base_url(listening, address.host, "http" if address.certificate is None else "https")


def base_url(listening: socket.socket, host: str, scheme: str = "http") -> str:
    """The address as people type it."""
    shown = own_address() if is_wildcard(host) else host
    return f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"


def about_the_way(listening: socket.socket, address: Address) -> Iterator[str]:
    """What whoever runs the server should know of the way to it: where a proxy finds it, a certificate that ends."""
    if address.certificate is not None:
        yield from address.certificate.warnings()
    if address.proxy.public is not None:
        here = base_url(listening, address.host, "http" if address.certificate is None else "https")
        yield f"  the proxy finds it at {here}"


def opens_here(address: Address) -> bool:
    """Whether the page is for a browser of this machine; elsewhere it is others who label."""
    return address.proxy.public is None and is_loopback(address.host)


def own_address() -> str:
    """Where others find this machine: its address towards the network, or its name where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: it only says which way it would go
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def first_lines(session: Session) -> Iterator[str]:
    """What people should know before the first label: that there are no classes, and what audit items can show."""
    if not session.record.classes:
        yield "there are no classes yet; add them on the page, or stop and name them with --classes A,B"
    if not session.record.effective and (plan := session.status().audit) is not None:
        yield plan.line + _offer(plan)


def _offer(plan: AuditPlan) -> str:
    """Where to raise the audit share, if that would help."""
    if plan.raise_to is None:
        return ""
    return f" The page can raise their share from {plan.share:.0%} to {plan.raise_to:.0%}."


def announce(url: str, links: Links, say: Callable[[str], None], people: PeopleTable | None = None) -> None:
    """Say where the page is, and each personal link, with the role of those who may do more than label."""
    say(f"label at {url}   (Ctrl-C stops; nothing is lost)")
    for name, token in links.items():
        role = "annotator" if people is None else people.role_of(people.id_or_name(name))
        link = f"{url}?token={token}" if token else "the link issued before (--new-links issues new ones)"
        say(f"  {name}: {link}{'' if role == 'annotator' else f'   ({role})'}")
