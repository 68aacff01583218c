"""All that tests/core demands of a surrogate, of one whose rows lie on workers: minutes, so it is run by itself.

    python -m pytest tests/distributed/whole_contract.py
    CONTRACT_ON=ray python -m pytest tests/distributed/whole_contract.py

The first sends every message to workers in its own process, the second to actors of a Ray cluster that it starts.
"""

import os
from collections.abc import Iterator

import pytest

from tests.core.test_engine import *  # noqa: F403
from tests.core.test_explanation import *  # noqa: F403
from tests.core.test_state import *  # noqa: F403
from tests.core.test_surrogate import *  # noqa: F403
from tests.core.test_understudy import *  # noqa: F403
from tests.distributed.on_ray import ray_with_shared_workers
from tests.distributed.one_process import ray_in_this_process
from understudy.core import surrogate as module
from understudy.core.protocol import RowStorage
from understudy.distributed.remote_rows import RayStorage


@pytest.fixture(scope="module")
def every_storage() -> Iterator[RowStorage]:
    workers = ray_with_shared_workers(3) if os.environ.get("CONTRACT_ON") == "ray" else ray_in_this_process()
    with workers, pytest.MonkeyPatch.context() as patch:
        storage = RayStorage(3)
        patch.setattr(module, "InMemory", lambda: storage)
        yield storage
