"""The grid: every unit of a comparison is played once, by whichever process comes to it first.

Processes share nothing but the folder of results. A unit at work is locked; the lock falls with its process, and who
comes next goes on from the rounds that were stored.
"""

import multiprocessing
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Final, Literal

import torch
from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from understudy.errors import UnderstudyError
from understudy.experiments.results import CEILING, OFTEN, Round, Store, file_name, writing
from understudy.experiments.run import Experiment, Unit, play

Outcome = Literal["done", "busy"] | str  # or what went wrong, in one line
LOCKS: Final = "locks"
LOOK_EVERY: Final = 0.5  # seconds between two looks at what is stored
GUARD: Final = "put what it does under `if __name__ == '__main__':`, or give jobs=1"
PATIENCE: Final = 5.0  # seconds that a process has to end when it is told to


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
        with ExitStack() as held:
            with writing(folder):
                folder.mkdir(exist_ok=True)
                for repeat in unit.repeats:
                    lock = FileLock(folder / f"{file_name(unit.strategy)}-{repeat}.lock")
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
    task.store.check()  # else a broken file would be found when all the work is done
    with _bar_of(task) if progress else _silence() as tick:
        try:
            failed = engine(task, tick)
        except BaseException:
            with suppress(UnderstudyError):  # what ended the work is told, and not this
                task.store.merge()
            raise
        tick()
    try:
        task.store.merge()
    except UnderstudyError:
        if not failed:  # else their lines would be lost; this one is told again when the results are opened
            raise
    return failed


def on_this_machine(jobs: int) -> Engine:
    """An engine of this many processes; one is this process itself."""

    def engine(task: Task, tick: Callable[[], None]) -> dict[Unit, str]:
        failed: dict[Unit, str] = {}
        left = [unit for unit in task.units if not task.is_done(unit)]
        while left:
            if free := [unit for unit in left if task.is_free(unit)]:
                outcomes = _one_after_another(task, free, tick) if jobs == 1 else _side_by_side(task, free, jobs, tick)
                failed |= {unit: outcome for unit, outcome in outcomes.items() if outcome not in ("done", "busy")}
            else:
                tick()
                time.sleep(LOOK_EVERY)  # others are at work on what is left; if they die it is ours
            left = [unit for unit in left if unit not in failed and not task.is_done(unit)]
        return failed

    return engine


def _one_after_another(task: Task, units: Sequence[Unit], tick: Callable[[], None]) -> dict[Unit, Outcome]:
    outcomes = {}
    with one_thread():
        for unit in units:
            outcomes[unit] = work(task, unit, tick)
    return outcomes


def _side_by_side(task: Task, units: Sequence[Unit], jobs: int, tick: Callable[[], None]) -> dict[Unit, Outcome]:
    _check_not_run_again()
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads half way
    jobs = min(jobs, len(units))
    # Not among the arguments of a process: its start would wait for ever, should it die before it has read them all.
    tasks, has_begun = context.Queue(), context.Event()
    for content in [pickle.dumps(task)] * jobs:
        tasks.put(content)
    del content  # as large as the data, and not needed again
    pool = ProcessPoolExecutor(jobs, context, _begin_process, (tasks, has_begun))
    futures: dict[Future[Outcome], Unit] = {}
    try:
        futures = {pool.submit(_work_here, unit): unit for unit in units}
        left = set(futures)
        while left:
            _, left = wait(left, LOOK_EVERY, FIRST_COMPLETED)
            tick()
        outcomes = {unit: future.result() for future, unit in futures.items()}
        pool.shutdown()
        return outcomes
    except BrokenProcessPool:
        _end_processes(pool)
        raise UnderstudyError(_what_broke(has_begun.is_set(), futures)) from None
    except BaseException:
        _end_processes(pool)
        raise
    finally:
        tasks.cancel_join_thread()  # what nobody fetched
        tasks.close()


def _check_not_run_again() -> None:
    """A process that is started reads the script of its starter; the comparison in it must not begin there again."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UnderstudyError(f"this process was started by a comparison, and runs its script again; {GUARD}")


def _end_processes(pool: ProcessPoolExecutor) -> None:
    """Now, and without waiting for ever; what they are at is stored up to its last round."""
    processes = list((pool._processes or {}).values())
    for process in processes:
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()


def _what_broke(has_begun: bool, futures: dict[Future[Outcome], Unit]) -> str:
    """One line: a process ended before its time, and the units that failed before it."""
    if not has_begun:
        return f"the processes of the comparison ended before they began; {GUARD}"
    ended = [(unit, future) for future, unit in futures.items() if future.done() and not future.exception()]
    failed = [f"{unit.name} failed: {one.result()}" for unit, one in ended if one.result() not in ("done", "busy")]
    return "; ".join(
        [
            *failed,
            "a process of the comparison was ended from outside, for want of memory perhaps; "
            "what is stored stays: run the same command again, with fewer --jobs",
        ]
    )


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
    path = folder / "errors" / f"{file_name(unit.strategy)}-{unit.repeats[0]}.txt"
    first = str(error).splitlines()[0] if str(error) else "no message"
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)))
    except OSError as fault:
        return f"{type(error).__name__}: {first} (its trace cannot be kept in {path}: {fault.strerror})"
    return f"{type(error).__name__}: {first} (trace in {path})"


# A process is told once what it works on; units follow one by one.
_TASK: Task | None = None


def _begin_process(tasks: Any, has_begun: Any) -> None:
    global _TASK
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for who started this process, and who will end it
    Thread(target=_end_with_parent, daemon=True).start()
    has_begun.set()
    _TASK = pickle.loads(tasks.get())
    torch.set_num_threads(1)
    threadpool_limits(1)


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _work_here(unit: Unit) -> Outcome:
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
def _bar_of(task: Task) -> Iterator[Callable[[], None]]:
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
def _silence() -> Iterator[Callable[[], None]]:
    yield lambda: None


def default_jobs(device: str) -> int:
    """One process a core that this one may use; on a GPU one, for it is shared otherwise."""
    if torch.device(device).type == "cuda":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
