"""Run every unit of a comparison once, in whichever process is free.

Processes share nothing but the results folder. A running unit is locked; the lock is released if its process dies,
and the next process resumes from the stored rounds.
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
from understudy.experiments.results import CEILING, OFTEN, ORACLE, Round, RoundStore, file_name, name_write_errors
from understudy.experiments.run import Experiment, Unit, play
from understudy.own_code import describe_error, place_of

UnitOutcome = Literal["done", "busy"] | str  # or one line of error
LOCK_FOLDER: Final = "locks"
ERROR_FOLDER: Final = "errors"
SECONDS_BETWEEN_LOOKS: Final = 0.5
SECONDS_BETWEEN_FOLLOWS: Final = 5.0
GUARD_ADVICE: Final = "put the script's code under `if __name__ == '__main__':`, or pass jobs=1"
SECONDS_TO_END: Final = 5.0  # before a process is killed


@dataclass(frozen=True, eq=False)
class Task:
    """A comparison to be carried out in a folder."""

    experiment: Experiment
    store: RoundStore
    units: tuple[Unit, ...]

    @property
    def total(self) -> int:
        """The number of rounds, not counting those of "selection only"."""
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
        """The stored rounds of a run, up to the first that is missing under any of its names."""
        schedule, names = unit.schedule(self.experiment.plan), self.experiment.names(unit.strategy)
        found = [self.store.rounds_of(name, repeat, schedule) for name in names]
        return found[-1][: min(map(len, found))]

    @contextmanager
    def locked(self, unit: Unit) -> Iterator[None]:
        """Hold the locks of all repetitions of the unit; raises Timeout if another process is running one."""
        folder = self.store.folder / LOCK_FOLDER
        with ExitStack() as held:
            with name_write_errors(folder):
                folder.mkdir(exist_ok=True)
                for repeat in unit.repeats:
                    lock = FileLock(folder / f"{file_name(unit.strategy)}-{repeat}.lock")
                    held.enter_context(lock.acquire(timeout=0))
            yield

    def is_free(self, unit: Unit) -> bool:
        try:
            with self.locked(unit):
                return True
        except Timeout:
            return False


# Runs the task, and returns one line of error for each unit that failed.
Engine = Callable[[Task, Callable[[], None]], dict[Unit, str]]


def units_of(strategies: Sequence[str], repeats: Sequence[int], together: int) -> tuple[Unit, ...]:
    """All units, the longest first; a unit runs `together` repetitions of a strategy at once."""
    blocks = [tuple(repeats[i : i + together]) for i in range(0, len(repeats), together)]
    # All strategies finish a repetition before any starts the next, so that partial results are comparable.
    units = [Unit(strategy, block) for block in blocks for strategy in strategies]
    longest = {OFTEN: 0, ORACLE: 1, CEILING: 2}
    return tuple(sorted(units, key=lambda unit: (unit.repeats, longest.get(unit.strategy, len(longest)))))


def carry_out(
    task: Task, engine: Engine, progress: bool = True, follow: Callable[[], None] | None = None
) -> dict[Unit, str]:
    """Run all units, with a progress bar and the remaining time; `follow` is called as rounds are stored."""
    task.store.check()  # a corrupt file is found now, not after hours of work
    with _progress_bar(task) if progress else _no_progress() as report_progress:
        report = report_progress if follow is None else _with_follower(report_progress, follow)
        try:
            failed = engine(task, report)
        except BaseException:
            with suppress(UnderstudyError):  # the error that stopped the work is the one to show
                task.store.merge()
            raise
        report_progress()
        if follow is not None:
            follow()
    try:
        task.store.merge()
    except UnderstudyError:
        if not failed:  # otherwise the lines of failed units would be lost; opening the results raises this one again
            raise
    return failed


def _with_follower(report_progress: Callable[[], None], follow: Callable[[], None]) -> Callable[[], None]:
    """Report progress, and now and then let somebody follow: looking at all rounds takes a moment."""
    last = time.monotonic()

    def report() -> None:
        nonlocal last
        report_progress()
        if time.monotonic() - last > SECONDS_BETWEEN_FOLLOWS:
            follow()
            last = time.monotonic()

    return report


def on_this_machine(jobs: int) -> Engine:
    """An engine of this many processes; one job runs in this process itself."""

    def engine(task: Task, report_progress: Callable[[], None]) -> dict[Unit, str]:
        failed: dict[Unit, str] = {}
        left = [unit for unit in task.units if not task.is_done(unit)]
        while left:
            if free := [unit for unit in left if task.is_free(unit)]:
                outcomes = (
                    _one_after_another(task, free, report_progress)
                    if jobs == 1
                    else _side_by_side(task, free, jobs, report_progress)
                )
                failed |= {unit: outcome for unit, outcome in outcomes.items() if outcome not in ("done", "busy")}
            else:
                report_progress()
                time.sleep(SECONDS_BETWEEN_LOOKS)  # others hold the rest; if they die, it is free again
            left = [unit for unit in left if unit not in failed and not task.is_done(unit)]
        return failed

    return engine


def _one_after_another(
    task: Task, units: Sequence[Unit], report_progress: Callable[[], None]
) -> dict[Unit, UnitOutcome]:
    outcomes = {}
    with single_thread():
        for unit in units:
            outcomes[unit] = play_unit(task, unit, report_progress)
    return outcomes


def _side_by_side(
    task: Task, units: Sequence[Unit], jobs: int, report_progress: Callable[[], None]
) -> dict[Unit, UnitOutcome]:
    _check_not_run_again()
    context = multiprocessing.get_context("spawn")  # a fork would leave torch's threads in a broken state
    jobs = min(jobs, len(units))
    # Not passed as arguments: starting a process would hang if it died before it had read them all.
    tasks, has_begun = context.Queue(), context.Event()
    for content in [pickle.dumps(task)] * jobs:
        tasks.put(content)
    del content  # as large as the data, and not needed again
    pool = ProcessPoolExecutor(jobs, context, _begin_process, (tasks, has_begun))
    futures: dict[Future[UnitOutcome], Unit] = {}
    try:
        futures = {pool.submit(_play_here, unit): unit for unit in units}
        left = set(futures)
        while left:
            _, left = wait(left, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
            report_progress()
        outcomes = {unit: future.result() for future, unit in futures.items()}
        pool.shutdown()
        return outcomes
    except BrokenProcessPool:
        _end_processes(pool)
        raise UnderstudyError(_broken_message(has_begun.is_set(), futures)) from None
    except BaseException:
        _end_processes(pool)
        raise
    finally:
        tasks.cancel_join_thread()  # discard what was not fetched
        tasks.close()


def _check_not_run_again() -> None:
    """Raise in a worker process of a comparison if it runs the script with that comparison again."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UnderstudyError(f"a worker process of a comparison ran its script again; {GUARD_ADVICE}")


def _end_processes(pool: ProcessPoolExecutor) -> None:
    """Terminate the processes now, and kill those that do not end; finished rounds are stored."""
    processes = list((pool._processes or {}).values())
    for process in processes:
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.join(SECONDS_TO_END)
        if process.is_alive():
            process.kill()


def _broken_message(has_begun: bool, futures: dict[Future[UnitOutcome], Unit]) -> str:
    """One line about processes that died, and about units that had failed before."""
    if not has_begun:
        return f"the worker processes of the comparison failed to start; {GUARD_ADVICE}"
    ended = [(unit, future) for future, unit in futures.items() if future.done() and not future.exception()]
    failed = [f"{unit.name} failed: {one.result()}" for unit, one in ended if one.result() not in ("done", "busy")]
    return "; ".join(
        [
            *failed,
            "a worker process of the comparison was killed, perhaps out of memory; "
            "finished rounds are stored: run the same command again, with fewer --jobs",
        ]
    )


def play_unit(task: Task, unit: Unit, report_progress: Callable[[], None] | None = None) -> UnitOutcome:
    """Run the rounds of a unit that are not stored yet, unless another process holds it."""
    try:
        with task.locked(unit):
            stored = {repeat: task.rounds_of(unit, repeat) for repeat in unit.repeats}
            for rounds in play(task.experiment, unit, stored):
                task.store.add(rounds)
                if report_progress is not None:
                    report_progress()
    except Timeout:
        return "busy"
    except Exception as error:
        return note_failure(task.store.folder, unit, error)
    return "done"


def note_failure(folder: Path, unit: Unit, error: Exception) -> str:
    """What went wrong, in one line; the traceback is kept in a file, which also tells a failed unit from a missing one.

    An error that says what to do is its own line.
    """
    path = folder / ERROR_FOLDER / f"{file_name(unit.strategy)}-{unit.repeats[0]}.txt"
    kept = f"traceback in {path}"
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)))
    except OSError as fault:
        kept = f"its traceback cannot be written to {path}: {fault.strerror}"
    if isinstance(error, UnderstudyError):
        return describe_error(error)
    first = str(error).splitlines()[0] if str(error) else "no message"
    place = place_of(error)  # the line of somebody's own strategy or learner, if it was there
    return f"{type(error).__name__}: {first} ({f'{place}; ' if place else ''}{kept})"


# A process receives its task once; units follow one by one.
_TASK: Task | None = None


def _begin_process(tasks: Any, has_begun: Any) -> None:
    global _TASK
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles the interrupt and ends this process
    Thread(target=_end_with_parent, daemon=True).start()
    has_begun.set()
    _TASK = pickle.loads(tasks.get())
    torch.set_num_threads(1)
    threadpool_limits(1)


def _end_with_parent() -> None:
    """End when the parent is killed: the process would otherwise wait for work forever."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _play_here(unit: Unit) -> UnitOutcome:
    assert _TASK is not None
    return play_unit(_TASK, unit)


@contextmanager
def single_thread() -> Iterator[None]:
    """Use one thread in torch and the numerical libraries, so that sums do not depend on the number of processes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _progress_bar(task: Task) -> Iterator[Callable[[], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rounds,"))
    more = (TimeElapsedColumn(), TextColumn("so far,"), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, *more, console=Console(stderr=True), transient=True) as bar:
        start = task.stored()
        # Rounds stored earlier do not count, so that the remaining time is estimated from this run alone.
        item = bar.add_task(task.experiment.plan.dataset, total=task.total - start)
        last = 0.0

        def report_progress() -> None:
            nonlocal last
            if time.monotonic() - last > SECONDS_BETWEEN_LOOKS:
                last = time.monotonic()
                bar.update(item, completed=task.stored() - start)

        yield report_progress


@contextmanager
def _no_progress() -> Iterator[Callable[[], None]]:
    yield lambda: None


def default_jobs(device: str) -> int:
    """One process per available core; a single one on a GPU, which several would have to share."""
    if torch.device(device).type == "cuda":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
