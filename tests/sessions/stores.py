"""Places for logs, in both databases, each empty."""

import itertools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.sessions.postgres import Cluster
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.store_urls import sqlite_url

COUNT = itertools.count(1)


class Place(NamedTuple):
    """What `EventLog.open` wants."""

    url: str
    project: str

    def open(self, *, read_only: bool = False) -> EventLog:
        return EventLog.open(self.url, self.project, read_only=read_only)

    @contextmanager
    def opened(self, *, read_only: bool = False) -> Iterator[EventLog]:
        with closing(self.open(read_only=read_only)) as log:
            yield log


def place_in(database: str, folder: Path, request: pytest.FixtureRequest) -> Place:
    """An empty place; PostgreSQL is started where it is asked for."""
    if database == "sqlite":
        return Place(sqlite_url(folder / "log.sqlite3"), "")
    cluster: Cluster = request.getfixturevalue("cluster")
    return Place(cluster.url(), f"project {next(COUNT)}")


def labelled(item: int, key: str | None = None, **data: Any) -> Event:
    return Event("labelled", item=item, annotator="ann", key=key or f"k{item}", data={"label": 1, **data})
