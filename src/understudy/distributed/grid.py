"""The grid on a Ray cluster: units are played wherever there is room, and stored here.

A worker gets the experiment once a machine and a unit at a time, and sends back every round the moment it ends. Only
the process that asked writes to the folder of results and holds the locks of its units, so that other machines need
not see that folder, and other processes may share it.
"""

import logging
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
from filelock import Timeout

from understudy.checks import check_whole_number
from understudy.data.pool import Pool
from understudy.distributed.worker import play_there
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.grid import LOOK_EVERY, Engine, Task, default_jobs, note_failure
from understudy.experiments.run import Experiment, Unit, versions
from understudy.messages import install_command

TRIES: Final = 3  # losses of its worker, without a round in between, that a unit is allowed
AHEAD: Final = 1  # units that wait at the cluster: no worker is idle, and a cluster that can grow has a reason to
KNOCK: Final = 5.0  # seconds that the head of a cluster has to open its door
ADDRESS: Final = "RAY_ADDRESS"  # Ray's own way to say which cluster is meant


def on_ray(address: str | None = None, jobs: int | None = None, gpus: float = 1.0) -> Engine:
    """An engine that plays units on the Ray cluster at `address`, HOST:PORT of its head or "auto".

    Without one it is the cluster this process is connected to, or that of the variable RAY_ADDRESS, or one that is
    started on this machine for the time of the comparison. A unit takes one processor, and `gpus` of a GPU if the
    comparison's device is one. At most `jobs` units are played at once; None: as many as there is room for.
    """
    _ray_library()
    if jobs is not None:
        jobs = check_whole_number("jobs", jobs, 1)
    if gpus <= 0:
        raise UsageError(f"gpus is what a unit takes of a GPU, more than 0; got {gpus}")

    def engine(task: Task, tick: Callable[[], None]) -> dict[Unit, str]:
        with connected(address, jobs):
            return Crew(task, jobs, gpus).work(tick)

    return engine


def _ray_library() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise UnderstudyError(
            f"the engine ray needs an extra; install it with: {install_command('cluster')}"
        ) from error
    return ray


# -- the cluster ------------------------------------------------------------------------------------------------


@contextmanager
def connected(address: str | None = None, jobs: int | None = None) -> Iterator[None]:
    """A cluster to work on. It is left, or ended, only if it was joined, or started, here."""
    ray = _ray_library()
    if ray.is_initialized():
        if address is not None:
            raise UnderstudyError(
                "this process is connected to a Ray cluster already; leave the address out, or end that: ray.shutdown()"
            )
        with _in_silence():
            yield
        return
    join(address or os.environ.get(ADDRESS) or None, jobs)
    try:
        with _in_silence():
            yield
    finally:
        ray.shutdown()


def join(address: str | None, jobs: int | None) -> None:
    """Connect to a cluster, or start one on this machine; neither is heard."""
    ray = _ray_library()
    if address is not None and "://" in address:
        raise UsageError(
            f"the address of a Ray cluster is HOST:PORT of its head, often port 6379, or auto; got {address}. "
            "It is joined from one of its machines"
        )
    own: dict[str, Any] = {"num_cpus": jobs or default_jobs("cpu"), "include_dashboard": False}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told what is done here
    try:
        if address is not None and address != "auto":
            _knock(address)
        ray.init(
            address=address or "local",  # None would join any cluster that happens to run on this machine
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if address else own),
        )
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = f"be joined at {address}" if address else "be started here"
        first = next(iter(str(error).splitlines()), type(error).__name__)
        remedy = "is it running, and is this one of its machines? ray status" if address else "try --engine local"
        raise UnderstudyError(f"a Ray cluster could not {where} ({first}); {remedy}") from error


def _knock(address: str) -> None:
    """OSError or ValueError if nobody listens there. Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), KNOCK).close()


@contextmanager
def _in_silence() -> Iterator[None]:
    """Ray prints to the terminal whatever befalls a worker, also when told not to log. We say it in our own line."""
    worker = getattr(_ray_library(), "_private").worker  # noqa: B009  # there is no public way
    before = getattr(worker, "_worker_logs_enabled", True)
    worker._worker_logs_enabled = False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before


# -- the units --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AtWork:
    unit: Unit
    held: ExitStack  # its locks


class Crew:
    """Units of a task at work on a cluster, and those that wait for room."""

    def __init__(self, task: Task, jobs: int | None, gpus: float) -> None:
        self.ray = _ray_library()
        self.task = task
        self.jobs = jobs
        self.needs = {"CPU": 1.0} | ({"GPU": gpus} if _is_cuda(task.experiment.device) else {})
        for name in self.needs:
            if not self.ray.cluster_resources().get(name):
                raise UnderstudyError(f"the Ray cluster has no {name}; let a machine that has one join it: ray start")
        remote = self.ray.remote(
            num_cpus=self.needs["CPU"],
            num_gpus=self.needs.get("GPU", 0),
            num_returns="streaming",
            max_retries=0,  # Ray would play a unit again from its beginning, and we from what is stored
        )
        self.remote = remote(play_there)
        self.experiment = self.ray.put(_portable(task.experiment))
        self.waiting = deque(unit for unit in task.units if not task.is_done(unit))
        self.at_work: dict[Any, AtWork] = {}  # by the stream of rounds
        self.lost: Counter[Unit] = Counter()
        self.failed: dict[Unit, str] = {}

    def work(self, tick: Callable[[], None]) -> dict[Unit, str]:
        """Play all units; what went wrong, a line for each that failed."""
        try:
            while self.waiting or self.at_work:
                self.begin_more()
                if self.at_work:
                    ready, _ = self.ray.wait(list(self.at_work), num_returns=1, timeout=LOOK_EVERY)
                    for stream in ready:
                        self.take_from(stream)
                elif self.waiting:
                    time.sleep(LOOK_EVERY)  # others are at work on what is left; if they die it is ours
                tick()
            return self.failed
        finally:
            for stream in list(self.at_work):
                self.stop(stream)

    def begin_more(self) -> None:
        """Start units while there is room. Those at which another process works are looked at again later."""
        room = self.room() if self.waiting else 0
        for _ in range(len(self.waiting)):
            if len(self.at_work) >= room:
                return
            unit = self.waiting.popleft()
            if not self.task.is_done(unit) and not self.begin(unit):
                self.waiting.append(unit)

    def room(self) -> int:
        """How many units may be at work by now: machines come and go."""
        there = self.ray.cluster_resources()
        room = min(int(there.get(name, 0) / amount) for name, amount in self.needs.items()) + AHEAD
        return room if self.jobs is None else min(room, self.jobs)

    def begin(self, unit: Unit) -> bool:
        """Whether it is out of the queue: at work, or failed. False if somebody else is at it."""
        held = ExitStack()
        try:
            held.enter_context(self.task.alone(unit))
        except Timeout:
            return False
        try:
            stored = {repeat: self.task.rounds_of(unit, repeat) for repeat in unit.repeats}
        except UnderstudyError as error:
            held.close()
            self.failed[unit] = str(error)
            return True
        stream = self.remote.options(name=unit.name).remote(self.experiment, unit, stored, versions())
        self.at_work[stream] = AtWork(unit, held)
        return True

    def take_from(self, stream: Any) -> None:
        """The next round of a unit is stored, or the unit's end is noted."""
        unit, errors = self.at_work[stream].unit, self.ray.exceptions
        try:
            self.task.store.add(self.ray.get(next(stream)))
            self.lost[unit] = 0
        except StopIteration:
            self.end(stream)
        except errors.RayTaskError as error:
            self.end(stream)
            self.failed[unit] = _told(self.task, unit, error)
        except errors.RayError as error:
            self.end(stream)
            self.try_again(unit, error)
        except UnderstudyError as error:  # of this machine: it cannot write, perhaps
            self.stop(stream)
            self.failed[unit] = str(error)

    def try_again(self, unit: Unit, error: Exception) -> None:
        """A worker or its machine is gone. The next one goes on from what is stored, unless that led nowhere."""
        self.lost[unit] += 1
        if self.lost[unit] < TRIES:
            self.waiting.appendleft(unit)
        else:
            self.failed[unit] = (
                f"its worker was lost {TRIES} times, for want of memory perhaps ({type(error).__name__}); "
                "what is stored stays: run the same command again"
            )

    def stop(self, stream: Any) -> None:
        """End a unit that is at work still. It is stored up to its last round."""
        with suppress(self.ray.exceptions.RayError):
            self.ray.cancel(stream, force=True)
        self.end(stream)

    def end(self, stream: Any) -> None:
        self.at_work.pop(stream).held.close()


def _told(task: Task, unit: Unit, error: Any) -> str:
    """What went wrong on the other side, in one line; the trace is kept in a file."""
    cause = error.cause
    if isinstance(cause, UnderstudyError):
        return str(cause)
    cause.add_note(str(error))  # the trace of the worker: this exception was never raised here
    return note_failure(task.store.folder, unit, cause)


def _portable(experiment: Experiment) -> Experiment:
    """The same experiment for any machine: all workers of one share its arrays, and a GPU is the one Ray gave."""
    bench = replace(experiment.bench, pool=_in_memory(experiment.bench.pool), test=_in_memory(experiment.bench.test))
    return replace(experiment, bench=bench, device="cuda" if _is_cuda(experiment.device) else experiment.device)


def _in_memory(pool: Pool) -> Pool:
    # An array that maps a file would be copied by every worker; a plain one is shared.
    return pool if pool.features is None else replace(pool, features=np.asarray(pool.features))


def _is_cuda(device: str) -> bool:
    return torch.device(device).type == "cuda"
