"""A digits project that is really served: uvicorn on a port of its own, called through httpx."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.serving import Served, opened, served
from understudy.sessions.session import Session
from understudy.web.access import Access, Tries
from understudy.web.tokens import Tokens

PEOPLE = ("ann", "bob")


@pytest.fixture(scope="package")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with opened(tmp_path_factory.mktemp("project"), people={"ann": "owner", "bob": "annotator"}) as session:
        yield session


@pytest.fixture(scope="package")
def server(session: Session) -> Iterator[Served]:
    """Open to this machine, as `understudy label` is without further words."""
    with served(session) as running:
        yield running


@pytest.fixture(scope="package")
def team(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With a personal link for ann and for bob."""
    tokens = Tokens(tmp_path_factory.mktemp("tokens"))
    links = tokens.links_for(PEOPLE)
    with served(session, Access(tokens=tokens, annotators=PEOPLE)) as running:
        running.tokens = {name: str(token) for name, token in links.items()}
        yield running


@pytest.fixture
def behind_password(session: Session, tmp_path: Path) -> Iterator[Served]:
    """Where a password is wanted: open sesame. No time passes between two tries, however busy the machine is."""
    tokens = Tokens(tmp_path)
    tokens.set_password("open sesame")
    with served(session, Access(tokens=tokens, password=True, tries=Tries(lambda: 0.0))) as running:
        yield running
