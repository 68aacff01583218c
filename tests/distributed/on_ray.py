"""Blocks on Ray itself, several in each of a few workers: a process of its own for every block takes seconds to start.

All that `holders.py` does goes through Ray's actors, calls and store then, in a test that makes hundreds of surrogates.
"""

import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from itertools import count, cycle
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import ray

from understudy.core.rows import Rows
from understudy.distributed import holders

ROOT = Path(__file__).parents[2]


class Host:
    """Several blocks, by their numbers."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}

    def make(self, number: int, kind: type, *given: Any) -> None:
        self.blocks[number] = kind(*given)

    def call(self, number: int, name: str, *arguments: Any) -> Any:
        return getattr(self.blocks[number], name)(*arguments)

    def look(self, number: int, copy: int) -> Rows:
        rows: Rows = self.blocks[number].copies[copy].rows
        return rows

    def change(self, number: int, copy: int, function: Callable[[Rows], None]) -> None:
        function(self.look(number, copy))

    def drop(self, number: int) -> None:
        del self.blocks[number]


class Handle:
    """One of the blocks, as if it were an actor of its own."""

    def __init__(self, host: Any, number: int, kind: type, *given: Any) -> None:
        self.host, self.number = host, number
        host.make.remote(number, kind, *given)
        weakref.finalize(self, host.drop.remote, number)

    def look(self, copy: int) -> Rows:
        """Its rows as they are now."""
        rows: Rows = ray.get(self.host.look.remote(self.number, copy))
        return rows

    def change(self, copy: int, function: Callable[[Rows], None]) -> None:
        ray.get(self.host.change.remote(self.number, copy, function))

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: self.host.call.remote(self.number, name, *arguments))


class SharedWorkers:
    """The module `ray`, but for what makes actors."""

    def __init__(self, module: ModuleType, workers: int) -> None:
        self.module, self.numbers = module, count()
        self.hosts = cycle([module.remote(num_cpus=1)(Host).remote() for _ in range(workers)])

    def remote(self, **_: Any) -> Callable[[type], Any]:
        return lambda kind: SimpleNamespace(
            remote=lambda *given: Handle(next(self.hosts), next(self.numbers), kind, *given)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


@contextmanager
def ray_with_shared_workers(workers: int) -> Iterator[None]:
    with chdir(ROOT), pytest.MonkeyPatch.context() as patch:
        ray.init(
            address="local", num_cpus=workers + 1, include_dashboard=False, log_to_driver=False,
            logging_level=logging.ERROR, object_store_memory=4 * 10**8,
        )  # fmt: skip
        try:
            shared = SharedWorkers(ray, workers)
            patch.setattr(holders, "ray_library", lambda: shared)
            yield
        finally:
            ray.shutdown()
