"""A session whose pool lies on workers of this process, one of which is lost and takes its time to come back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.distributed.one_process import ray_in_this_process
from tests.sessions.small_projects import copied, opened
from understudy.distributed.block import Block, Message, Sealed, unseal
from understudy.distributed.remote_rows import RayStorage, RemoteRows
from understudy.sessions.people import Role
from understudy.sessions.session import Session


@contextmanager
def session_on_workers(folder: Path, people: dict[str, Role | None] | None = None) -> Iterator[Session]:
    """60 images in three blocks."""
    with ray_in_this_process(), opened(copied(folder, n=60, taught=2), storage=RayStorage(3), people=people) as session:
        session.learning.chooser.settle()
        yield session


def rows_of(session: Session) -> RemoteRows:
    rows = session.learning.chooser.surrogate.parts.rows
    assert isinstance(rows, RemoteRows)
    return rows


@contextmanager
def lost_block(session: Session, number: int) -> Iterator[threading.Event]:
    """Lose a block. It is made again when the event is set."""
    may_go_on, follow = threading.Event(), Block.follow

    def wait_before_it_is_made(block: Block, sealed: Sealed) -> Sealed:
        message: Message = unseal(sealed)
        if message.anew:
            may_go_on.wait()
        return follow(block, sealed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Block, "follow", wait_before_it_is_made)
        rows_of(session).holders.actors[number].lose()
        try:
            yield may_go_on
        finally:
            may_go_on.set()
