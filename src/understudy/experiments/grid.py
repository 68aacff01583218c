"""The grid: every unit of a comparison is played once, by whichever process comes to it first.

Processes share nothing but the folder of results. A unit at work is locked; the lock falls with its process, and who
comes next goes on from the rounds that were stored.
"""

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final, Literal
from urllib.parse import quote

import torch
from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from understudy.errors import UnderstudyError
from understudy.experiments.results import CEILING, OFTEN, Round, Store
from understudy.experiments.run import Experiment, Unit, play

Outcome = Literal["done", "busy"] | str  # or what went wrong, in one line
LOCKS: Final = "locks"
LOOK_EVERY: Final = 0.5  # seconds between two looks at what is stored


@dataclass(frozen=True, eq=False)
class Task:
    """A comparison to be carried out in a folder."""

    experiment: Experiment
    store: Store
    units: tuple[Unit, ...]

    @property
    def total(self) -> int:
        """Rounds in all, selection only apart."""
        return sum(len(unit.repeats) * len(unit.schedule(self.experiment.plan)) for unit in self.units)

    def stored(self) -> int:
        plan = self.experiment.plan
        return sum(
            self.store.has(unit.strategy, repeat, labels)
            for unit in self.units
            for repeat in unit.repeats
            for labels in unit.schedule(plan)
        )

    def is_done(self, unit: Unit) -> bool:
        return all(
            self.store.has(name, repeat, labels)
            for name in self.experiment.names(unit.strategy)
            for repeat in unit.repeats
            for labels in unit.schedule(self.experiment.plan)
        )

    def rounds_of(self, unit: Unit, repeat: int) -> list[Round]:
        """What is stored of a run, up to the first round that is missing under any of its names."""
        schedule, names = unit.schedule(self.experiment.plan), self.experiment.names(unit.strategy)
        found = [self.store.rounds_of(name, repeat, schedule) for name in names]
        return found[-1][: min(map(len, found))]

    @contextmanager
    def alone(self, unit: Unit) -> Iterator[None]:
        """While this is held nobody else plays any repetition of the unit; Timeout if somebody is at one."""
        folder = self.store.folder / LOCKS
        folder.mkdir(exist_ok=True)
        with ExitStack() as held:
            for repeat in unit.repeats:
                lock = FileLock(folder / f"{quote(unit.strategy, safe='')}-{repeat}.lock")
                held.enter_context(lock.acquire(timeout=0))
            yield

    def is_free(self, unit: Unit) -> bool:
        try:
            with self.alone(unit):
                return True
        except Timeout:
            return False


# Carries out the task, and returns what went wrong, a line for each unit that failed.
Engine = Callable[[Task, Callable[[], None]], dict[Unit, str]]


def units_of(strategies: Sequence[str], repeats: Sequence[int], together: int) -> tuple[Unit, ...]:
    """Long ones first; `together` repetitions of a strategy side by side."""
    blocks = [tuple(repeats[i : i + together]) for i in range(0, len(repeats), together)]
    # Every repetition of everyone comes before the next one, so that what is stored can be compared early.
    units = [Unit(strategy, block) for block in blocks for strategy in strategies]
    longest = {OFTEN: 0, CEILING: 1}
    return tuple(sorted(units, key=lambda unit: (unit.repeats, longest.get(unit.strategy, 2))))


def carry_out(task: Task, engine: Engine, progress: bool = True) -> dict[Unit, str]:
    """Play all units, with a bar that shows what is stored and how long the rest will take."""
    with bar_of(task) if progress else silence() as tick:
        try:
            return engine(task, tick)
        finally:
            tick()
            task.store.merge()


def on_this_machine(jobs: int) -> Engine:
    """An engine of this many processes; one is this process itself."""

    def engine(task: Task, tick: Callable[[], None]) -> dict[Unit, str]:
        failed: dict[Unit, str] = {}
        left = [unit for unit in task.units if not task.is_done(unit)]
        while left:
            if free := [unit for unit in left if task.is_free(unit)]:
                outcomes = one_after_another(task, free, tick) if jobs == 1 else side_by_side(task, free, jobs, tick)
                failed |= {unit: outcome for unit, outcome in outcomes.items() if outcome not in ("done", "busy")}
            else:
                tick()
                time.sleep(LOOK_EVERY)  # others are at work on what is left; if they die it is ours
            left = [unit for unit in left if unit not in failed and not task.is_done(unit)]
        return failed

    return engine


def one_after_another(task: Task, units: Sequence[Unit], tick: Callable[[], None]) -> dict[Unit, Outcome]:
    outcomes = {}
    with one_thread():
        for unit in units:
            outcomes[unit] = work(task, unit, tick)
    return outcomes


def side_by_side(task: Task, units: Sequence[Unit], jobs: int, tick: Callable[[], None]) -> dict[Unit, Outcome]:
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads half way
    pool = ProcessPoolExecutor(min(jobs, len(units)), context, begin_process, (task,))
    futures: dict[Future[Outcome], Unit] = {}
    try:
        futures = {pool.submit(work_here, unit): unit for unit in units}
        left = set(futures)
        while left:
            _, left = wait(left, LOOK_EVERY, FIRST_COMPLETED)
            tick()
        return {unit: future.result() for future, unit in futures.items()}
    except BrokenProcessPool:
        raise UnderstudyError(
            "a process of the comparison was ended from outside, for want of memory perhaps; "
            "what is stored stays: run the same command again, with fewer --jobs"
        ) from None
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()  # what they are at is stored up to its last round
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def work(task: Task, unit: Unit, tick: Callable[[], None] | None = None) -> Outcome:
    """Play a unit from where it stands, unless somebody else is at it."""
    try:
        with task.alone(unit):
            stored = {repeat: task.rounds_of(unit, repeat) for repeat in unit.repeats}
            for rounds in play(task.experiment, unit, stored):
                task.store.add(rounds)
                if tick is not None:
                    tick()
    except Timeout:
        return "busy"
    except UnderstudyError as error:
        return str(error)
    except Exception as error:
        return note_failure(task.store.folder, unit, error)
    return "done"


def note_failure(folder: Path, unit: Unit, error: Exception) -> str:
    """One line; the trace is kept in a file, for who wants to mend the strategy."""
    path = folder / "errors" / f"{quote(unit.strategy, safe='')}-{unit.repeats[0]}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)))
    first = str(error).splitlines()[0] if str(error) else "no message"
    return f"{type(error).__name__}: {first} (trace in {path})"


# A process is told once what it works on; units follow one by one.
_TASK: Task | None = None


def begin_process(task: Task) -> None:
    global _TASK
    _TASK = task
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for who started this process, and who will end it
    Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    threadpool_limits(1)


def end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def work_here(unit: Unit) -> Outcome:
    assert _TASK is not None
    return work(_TASK, unit)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch and everybody else: so sums are the same in however many processes they are made."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def bar_of(task: Task) -> Iterator[Callable[[], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rounds,"))
    more = (TimeElapsedColumn(), TextColumn("so far,"), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, *more, console=Console(stderr=True), transient=True) as bar:
        start = task.stored()
        # What was stored before does not count: the time left is judged by what this run does.
        item = bar.add_task(task.experiment.plan.dataset, total=task.total - start)
        last = 0.0

        def tick() -> None:
            nonlocal last
            if time.monotonic() - last > LOOK_EVERY:
                last = time.monotonic()
                bar.update(item, completed=task.stored() - start)

        yield tick


@contextmanager
def silence() -> Iterator[Callable[[], None]]:
    yield lambda: None


def default_jobs(device: str) -> int:
    """One process a core that this one may use; on a GPU one, for it is shared otherwise."""
    if torch.device(device).type == "cuda":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
