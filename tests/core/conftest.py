"""What a pool does is the same wherever its rows lie: a module's tests run on each way of keeping them."""

from collections.abc import Iterator

import pytest

from understudy.core import surrogate
from understudy.core.protocol import RowStorage
from understudy.core.split_rows import InMemory

STORAGES: dict[str, RowStorage] = {"one block": InMemory(), "three blocks": InMemory(3)}


@pytest.fixture(scope="module", params=STORAGES)
def every_storage(request: pytest.FixtureRequest) -> Iterator[RowStorage]:
    """Surrogates for which no storage is named keep their rows in this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surrogate, "InMemory", lambda: STORAGES[request.param])
        yield STORAGES[request.param]
