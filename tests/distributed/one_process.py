"""Ray's actors and store in this process: what is sent is pickled, and actors are lost when a test wants it.

Everything but Ray itself is then the same, and a test of the engine takes no longer than with rows at hand.
"""

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
from ray import cloudpickle

from understudy.core.rows import Rows
from understudy.distributed import array_files, block, holders, remote_rows


class Place:
    """Where something was put; in a pickle it stays the same place."""

    store: dict[int, bytes] = {}  # noqa: RUF012
    numbers = count()

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.number == self.number

    def __hash__(self) -> int:
        return self.number


class Actor:
    """An object on which methods are called with copies of their arguments, and which can be lost."""

    def __init__(self, make: Callable[[], Any], process: "OneProcess") -> None:
        self.make, self.process = make, process
        self.turn = threading.RLock()  # it answers one call after another, whatever threads they come from
        self.lose()

    def lose(self) -> None:
        self.object = self.make()

    def look(self, copy: int) -> Rows:
        rows: Rows = self.object.copies[copy].rows
        return rows

    def change(self, copy: int, function: Callable[[Rows], None]) -> None:
        function(self.look(copy))

    def __getattr__(self, name: str) -> Any:
        def remote(*arguments: Any) -> Place:
            sent = dumped(tuple(ray_get(each) for each in arguments))
            with self.turn:
                return self.process.put(self._answer(name, sent))

        return SimpleNamespace(remote=remote)

    def _answer(self, name: str, sent: bytes) -> Any:
        fate = self.process.fate()
        if fate == "before":
            self.lose()
        answer = getattr(self.object, name)(*pickle.loads(sent))
        if fate == "after":  # the answer is lost with the actor, and Ray sends the call once more
            self.lose()
            answer = getattr(self.object, name)(*pickle.loads(sent))
        elif fate == "twice":
            answer = getattr(self.object, name)(*pickle.loads(sent))
        return answer


def dumped(value: Any) -> bytes:
    content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return content


def ray_get(value: Any) -> Any:
    return pickle.loads(Place.store[value.number]) if isinstance(value, Place) else value


class OneProcess:
    """What this package uses of the module `ray`. `faults`: the share of calls that something befalls."""

    exceptions = ray.exceptions
    util = SimpleNamespace(get_node_ip_address=lambda: "10.0.0.3")

    def __init__(self, faults: float = 0.0, seed: int = 0) -> None:
        self.faults, self.rng, self.losses = faults, np.random.default_rng(seed), 0

    def fate(self) -> str:
        if self.rng.random() >= self.faults:
            return "none"
        self.losses += 1
        return str(self.rng.choice(["before", "after", "twice"]))

    def remote(self, **_: Any) -> Callable[[type], Any]:
        return lambda kind: SimpleNamespace(remote=lambda *given: Actor(lambda: kind(*given), self))

    def put(self, value: Any) -> Place:
        place = Place(next(Place.numbers))
        Place.store[place.number] = dumped(value)
        return place

    def get(self, place: Place | list[Place]) -> Any:
        return [ray_get(each) for each in place] if isinstance(place, list) else ray_get(place)

    def wait(self, calls: Sequence[Place], **_: Any) -> tuple[list[Place], list[Place]]:
        return list(calls), []

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="127.0.0.1:9")


@contextmanager
def ray_in_this_process(faults: float = 0.0, seed: int = 0) -> Iterator[OneProcess]:
    process = OneProcess(faults, seed)
    with pytest.MonkeyPatch.context() as patch:
        for module in (array_files, block, holders, remote_rows):
            patch.setattr(module, "ray_library", lambda: process)
        try:
            yield process
        finally:
            Place.store.clear()


def local_blocks(rows: Any) -> list[Rows]:
    """The blocks of `RemoteRows` as they are, brought up to date: themselves in this process, copies on Ray."""
    rows.row_sum()
    return [actor.look(rows.holders.number) for actor in rows.holders.actors]
