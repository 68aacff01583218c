"""Serving a session in a thread, as the command does in a process."""

import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session
from understudy.sessions.people import Role
from understudy.sessions.session import Session
from understudy.web.access import Access
from understudy.web.behind_proxy import ProxyRule
from understudy.web.certificates import Certificate
from understudy.web.server import Address, Server, listen, make_server
from understudy.web.session_holder import SessionHolder


@dataclass
class Served:
    url: str
    client: httpx.Client
    server: Server
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def app(self) -> Any:
        return self.server.config.app

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}"}


@contextmanager
def served(
    session: Session | SessionHolder,
    access: Access | None = None,
    port: int = 0,
    *,
    certificate: Certificate | None = None,
    proxy: ProxyRule | None = None,
) -> Iterator[Served]:
    """A server on a free port, or on this one, stopped at the end. With a certificate, its client believes that one."""
    holder = session if isinstance(session, SessionHolder) else SessionHolder(session)
    address = Address(port=port, certificate=certificate, proxy=ProxyRule() if proxy is None else proxy)
    server = make_server(holder, Access() if access is None else access, address)
    with running(server, address) as found:
        yield found


@contextmanager
def running(server: Server, address: Address) -> Iterator[Served]:
    """A server, listening until the end."""
    listening = listen(address)
    trusted = address.certificate and ssl.create_default_context(cafile=str(address.certificate.certfile))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    url = f"http{'s' if trusted else ''}://127.0.0.1:{listening.getsockname()[1]}"
    try:
        while not server.started:
            time.sleep(0.005)
        with httpx.Client(base_url=url, timeout=None, verify=trusted or True) as client:
            yield Served(url, client, server)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@contextmanager
def opened(
    folder: Path, source: str | Path = "digits", people: Mapping[str, Role | None] | None = None, **settings: Any
) -> Iterator[Session]:
    """A session of a new project, on the digits if nothing else is said."""
    project = create_or_open(source, project=folder / "project", folder_labels=False, **{"basis_size": 50} | settings)
    session = open_session(project, people=people)
    try:
        yield session
    finally:
        session.close()
