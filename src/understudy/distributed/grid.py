"""The grid on a Ray cluster: units run wherever there is capacity, and their results are stored here.

A worker gets the experiment once per machine and one unit at a time, and sends back every round when it ends. Only
the driver process writes to the results folder and holds the locks of its units, so that other machines need
not see that folder, and other processes may share it.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from filelock import Timeout

from understudy.checks import check_whole_number
from understudy.data.pool import Pool
from understudy.distributed.cluster import joined_cluster, ray_library
from understudy.distributed.worker import play_remotely
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.grid import SECONDS_BETWEEN_LOOKS, Engine, Task, note_failure
from understudy.experiments.run import Experiment, Unit, versions

MAX_LOSSES: Final = 3  # of a unit's worker in a row, without a new round, before the unit counts as failed
UNITS_AHEAD: Final = 1  # units queued on the cluster, so that no worker is idle and an autoscaler sees demand


def on_ray(
    address: str | None = None, jobs: int | None = None, gpus: float = 1.0, max_losses: int = MAX_LOSSES
) -> Engine:
    """An engine that runs units on the Ray cluster at `address`, HOST:PORT of its head or "auto".

    Without one it is the cluster this process is connected to, or the one in the variable RAY_ADDRESS, or one that is
    started on this machine for the duration of the comparison. A unit takes one CPU, and `gpus` GPUs if the
    comparison runs on GPUs. At most `jobs` units run at once; None: as many as fit. A unit
    has failed when it lost its worker `max_losses` times in a row without finishing a round.
    """
    ray_library()
    if jobs is not None:
        jobs = check_whole_number("jobs", jobs, 1)
    if gpus <= 0:
        raise UsageError(f"gpus, the number of GPUs per unit (fractions are allowed), must be more than 0; got {gpus}")

    def engine(task: Task, report_progress: Callable[[], None]) -> dict[Unit, str]:
        with joined_cluster(address, jobs):
            return Crew(task, jobs, gpus, max_losses).work(report_progress)

    return engine


# -- the units --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UnitAtWork:
    unit: Unit
    held: ExitStack  # its locks


class Crew:
    """The units of a task that run on a cluster, and those that wait for capacity."""

    def __init__(self, task: Task, jobs: int | None, gpus: float, max_losses: int) -> None:
        self.ray = ray_library()
        self.task = task
        self.jobs = jobs
        self.max_losses = max_losses
        self.needs = {"CPU": 1.0} | ({"GPU": gpus} if _is_cuda(task.experiment.device) else {})
        for name in self.needs:
            if not self.ray.cluster_resources().get(name):
                raise UnderstudyError(f"the Ray cluster has no {name}; add a machine that has one with: ray start")
        remote = self.ray.remote(
            num_cpus=self.needs["CPU"],
            num_gpus=self.needs.get("GPU", 0),
            num_returns="streaming",
            max_retries=0,  # Ray would rerun a unit from the beginning; we resume from what is stored
        )
        self.remote = remote(play_remotely)
        self.experiment = self.ray.put(_make_portable(task.experiment))
        self.waiting = deque(unit for unit in task.units if not task.is_done(unit))
        self.at_work: dict[Any, UnitAtWork] = {}  # by the stream of rounds
        self.lost: Counter[Unit] = Counter()
        self.failed: dict[Unit, str] = {}

    def work(self, report_progress: Callable[[], None]) -> dict[Unit, str]:
        """Run all units; returns one line of error for each that failed."""
        try:
            while self.waiting or self.at_work:
                self.begin_more()
                if self.at_work:
                    ready, _ = self.ray.wait(list(self.at_work), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
                    for stream in ready:
                        self.take_from(stream)
                elif self.waiting:
                    time.sleep(SECONDS_BETWEEN_LOOKS)  # others hold the rest; if they die, it is free again
                report_progress()
            return self.failed
        finally:
            for stream in list(self.at_work):
                self.stop(stream)

    def begin_more(self) -> None:
        """Start units while there is capacity. Those locked by another process are retried later."""
        room = self.room() if self.waiting else 0
        for _ in range(len(self.waiting)):
            if len(self.at_work) >= room:
                return
            unit = self.waiting.popleft()
            if not self.task.is_done(unit) and not self.begin(unit):
                self.waiting.append(unit)

    def room(self) -> int:
        """How many units may run now; machines come and go."""
        there = self.ray.cluster_resources()
        room = min(int(there.get(name, 0) / amount) for name, amount in self.needs.items()) + UNITS_AHEAD
        return room if self.jobs is None else min(room, self.jobs)

    def begin(self, unit: Unit) -> bool:
        """Start a unit. False if another process holds it, so that it stays in the queue."""
        held = ExitStack()
        try:
            held.enter_context(self.task.locked(unit))
        except Timeout:
            return False
        try:
            stored = {repeat: self.task.rounds_of(unit, repeat) for repeat in unit.repeats}
        except UnderstudyError as error:
            held.close()
            self.failed[unit] = str(error)
            return True
        code = self.task.store.settings.get("code", {})
        stream = self.remote.options(name=unit.name).remote(self.experiment, unit, stored, versions(), code)
        self.at_work[stream] = UnitAtWork(unit, held)
        return True

    def take_from(self, stream: Any) -> None:
        """Store the next round of a unit, or note that the unit has ended."""
        unit, errors = self.at_work[stream].unit, self.ray.exceptions
        try:
            self.task.store.add(self.ray.get(next(stream)))
            self.lost[unit] = 0
        except StopIteration:
            self.end(stream)
        except errors.RayTaskError as error:
            self.end(stream)
            self.failed[unit] = _failure_line(self.task, unit, error)
        except errors.RayError as error:
            self.end(stream)
            self.try_again(unit, error)
        except UnderstudyError as error:  # on this machine: it may be unable to write
            self.stop(stream)
            self.failed[unit] = str(error)

    def try_again(self, unit: Unit, error: Exception) -> None:
        """Requeue a unit whose worker or machine is gone, unless it was lost too often without a new round."""
        self.lost[unit] += 1
        if self.lost[unit] < self.max_losses:
            self.waiting.appendleft(unit)
        else:
            self.failed[unit] = (
                f"its worker was lost {self.max_losses} times, perhaps out of memory ({type(error).__name__}); "
                "finished rounds are stored: run the same command again"
            )

    def stop(self, stream: Any) -> None:
        """Stop a running unit. Its finished rounds are stored."""
        with suppress(self.ray.exceptions.RayError):
            self.ray.cancel(stream, force=True)
        self.end(stream)

    def end(self, stream: Any) -> None:
        self.at_work.pop(stream).held.close()


def _failure_line(task: Task, unit: Unit, error: Any) -> str:
    """What went wrong on the worker, in one line; the traceback is kept in a file."""
    cause = error.cause
    cause.add_note(str(error))  # the worker's traceback: this exception was never raised here
    return note_failure(task.store.folder, unit, cause)


def _make_portable(experiment: Experiment) -> Experiment:
    """The same experiment for any machine: workers on one machine share its arrays, and Ray assigns the GPU."""
    bench = replace(
        experiment.bench, pool=_load_features(experiment.bench.pool), test=_load_features(experiment.bench.test)
    )
    return replace(experiment, bench=bench, device="cuda" if _is_cuda(experiment.device) else experiment.device)


def _load_features(pool: Pool) -> Pool:
    # A memory-mapped array would be copied by every worker; a plain one is shared.
    return pool if pool.features is None else replace(pool, features=np.asarray(pool.features))


def _is_cuda(device: str) -> bool:
    return torch.device(device).type == "cuda"
