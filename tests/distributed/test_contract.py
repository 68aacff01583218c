"""What tests/core demands of an engine, of one whose rows lie on workers."""

from collections.abc import Iterator

import pytest

from tests.core.test_engine import *  # noqa: F403
from tests.distributed.one_process import ray_in_this_process
from understudy.core import surrogate
from understudy.core.protocol import RowStorage
from understudy.distributed.remote_rows import RayStorage


@pytest.fixture(scope="module")
def every_storage() -> Iterator[RowStorage]:
    with ray_in_this_process(), pytest.MonkeyPatch.context() as patch:
        storage = RayStorage(3)
        patch.setattr(surrogate, "InMemory", lambda: storage)
        yield storage
