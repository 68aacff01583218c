"""The workers that hold the blocks of a pool: asked all at once, started again where they are lost.

Ray starts a lost worker again, on another machine if need be, and sends it the call that was lost. The block says that
it is out of step, and is told the orders it was given since the last training.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import count, cycle
from statistics import median
from typing import Any, Final
from weakref import finalize

from understudy.core.kernels import Kernel
from understudy.distributed.array_files import Source
from understudy.distributed.block import OUT_OF_STEP, Block, BlockPlan, Message, seal, unseal
from understudy.distributed.cluster import check_reachable, ray_library, silence_ray
from understudy.distributed.orders import Order, OrderLog
from understudy.distributed.parcels import BYTES_INLINE, Parcel, pack
from understudy.errors import UnderstudyError
from understudy.messages import reason_of

MAX_LOSSES: Final = 3  # of a block while it answers one question, before that is an error
SECONDS_OF_PATIENCE: Final = 10.0  # after which a block that has not answered is named
SECONDS_BETWEEN_LOOKS: Final = 2.0  # whether the cluster is there yet
SLOW_FACTOR: Final = 3.0  # times as long as the others in the middle
SLOW_SECONDS: Final = 0.1  # and so much longer: less than that nobody feels
SLOW_ROUNDS: Final = 5  # in a row, before a block is called slow
SAID_ROUNDS: Final = {SLOW_ROUNDS * 2**doublings for doublings in range(20)}  # at which it is said how slow it is
TASKS_AHEAD: Final = 2  # per worker
ROUNDS_SHOWN: Final = 20  # for which it is said that a block was lost, once it is back

logger = logging.getLogger(__name__)


@dataclass
class BlockStatus:
    """How a block is doing, as the driver has seen it."""

    first: int
    rows: int
    machine: str = ""  # that it last answered from, and the process there
    process: int = 0
    seconds: float = 0.0  # that its last answer took
    slow_rounds: int = 0
    how_slow: str = ""  # as it was when that was last said
    restarts: int = 0
    is_being_made: bool = False  # after it was lost
    lost_on: str = ""
    waited: float = 0.0  # seconds that its answer has been missing, where that is long
    rounds_to_show: int = 0  # for which it is still said that it was lost

    def __len__(self) -> int:
        return self.rows

    @property
    def is_slow(self) -> bool:
        return self.slow_rounds >= SLOW_ROUNDS

    @property
    def trouble(self) -> str | None:
        """What holds up whoever waits for an item, in a line; None where nothing does."""
        where = self._named(self.machine)
        if self.is_being_made:
            return f"{where} was lost and is being made again; labels are safe"
        if self.waited:
            return f"{where} has not answered for {self.waited:.0f} seconds; if it was lost, it waits for a machine"
        if self.how_slow:
            return f"{where} {self.how_slow}"
        if self.rounds_to_show:
            return f"{self._named(self.lost_on)} was lost and has been made again on {self.machine}; no label was lost"
        return None

    def note_answer(self, machine: str, process: int) -> None:
        self.machine, self.process = machine, process
        if self.is_being_made:
            self.is_being_made, self.rounds_to_show = False, ROUNDS_SHOWN
        elif self.rounds_to_show:
            self.rounds_to_show -= 1

    def __str__(self) -> str:
        return self._named(f"{self.machine}, process {self.process}" if self.machine else "")

    def _named(self, where: str) -> str:
        block = f"the block of rows {self.first:,} to {self.first + self.rows - 1:,}"
        return f"{block} on {where}" if where else block


class _Copies:
    """The copies of rows on the same workers: a number for each that is made, and of which nobody has any more."""

    def __init__(self) -> None:
        self.numbers = count()
        self.gone: deque[int] = deque()


@dataclass(frozen=True)
class Resources:
    """What each block takes of a machine, in Ray's terms."""

    cpus: float = 1.0
    gpus: float = 0.0


class Holders:
    """One worker per block. The blocks' rows are `spans`, and their features are found in `sources`."""

    def __init__(
        self,
        plan: BlockPlan,
        sources: Sequence[Sequence[Source]],
        spans: Sequence[tuple[int, int]],
        resources: Resources,
    ) -> None:
        ray = self.ray = ray_library()
        remote = ray.remote(
            num_cpus=resources.cpus,
            num_gpus=resources.gpus,
            max_restarts=-1,
            max_task_retries=MAX_LOSSES,
            scheduling_strategy="SPREAD",
        )(Block)
        self.resources, self.sources = resources, sources
        self.actors = [remote.remote(plan) for _ in spans]
        self.logs = [OrderLog() for _ in spans]
        self.states = [BlockStatus(first, stop - first) for first, stop in spans]
        self.address: str = ray.get_runtime_context().gcs_address
        self._shared: tuple[Kernel | None, Any] = (None, None)
        self._copies = _Copies()
        self._count_as_copy()

    def copy(self) -> "Holders":
        """The same workers, with a copy of the rows that goes its own way: what rows share there, copies share, too.

        Other threads may ask the copy while this one is asked; a worker answers one after another.
        """
        made = copy(self)
        made.logs, made.states = [log.copy() for log in self.logs], [replace(state) for state in self.states]
        made._count_as_copy()
        for actor in self.actors:
            actor.copy.remote(self.number, made.number)
        return made

    def _count_as_copy(self) -> None:
        """Have a number by which the workers know these rows, until nobody has them any more."""
        self.number = next(self._copies.numbers)
        finalize(self, self._copies.gone.append, self.number).atexit = False

    def _forget_copies(self) -> None:
        """Let the workers forget the rows that nobody has any more."""
        gone = [self._copies.gone.popleft() for _ in range(len(self._copies.gone))]
        for actor in self.actors if gone else ():
            actor.forget.remote(gone)

    def __len__(self) -> int:
        return len(self.actors)

    # -- orders and questions -----------------------------------------------------------------------------

    def parcel(self, content: Any) -> Any:
        """Something packed as it is now, in the store if it is large."""
        parcel = pack(content, self._share)
        return parcel if parcel.n_bytes <= BYTES_INLINE else self.ray.put(parcel)

    def _share(self, kernel: Kernel) -> Any:
        if self._shared[0] is not kernel:
            self._shared = kernel, self.ray.put(pack(kernel))
        return self._shared[1]

    def order(self, number: int, order: Order) -> None:
        """Give a block an order, which it gets with the next question."""
        self.logs[number].add(order)

    def ask(self, question: str, parcels: Mapping[int, Any]) -> list[Parcel]:
        """The answers of these blocks, in their order; they work at the same time."""
        if not self.ray.is_initialized():  # Ray would start another cluster for whoever asks
            self._require_cluster()
        self._forget_copies()

        def send(number: int, anew: bool = False) -> Any:
            log = self.logs[number]
            orders = [(order.name, order.parcel, order.steps) for order in (log.all if anew else log.waiting)]
            before = 0 if anew else log.sent
            sources = None if before else self.sources[number]
            message = Message(
                copy=self.number,
                sources=sources,
                before=before,
                orders=orders,
                after=log.given,
                question=question,
                arguments=parcels[number],
                anew=anew,
            )
            parts = [parcels[number], *(parcel for _, parcel, _ in orders)]
            return self.actors[number].follow.remote(message if before == 0 else seal(message, *parts))

        def accept(number: int, reply: Any) -> Any:
            if reply.answer == OUT_OF_STEP:
                state = self.states[number]
                state.restarts += 1
                state.is_being_made, state.lost_on = True, state.machine
                logger.warning("%s was lost; it is made again and told the %s orders since the last training", state,
                               f"{len(self.logs[number].all):,}")  # fmt: skip
                return send(number, anew=True)
            self.logs[number].note_sent()
            self.states[number].note_answer(reply.machine, reply.process)
            return None

        replies = self._gather({number: send(number) for number in parcels}, accept)
        self._note_slow({number: reply.seconds for number, reply in replies.items()})
        return [replies[number].answer for number in parcels]

    def each(self, function: Callable[..., Any], parcel: Parcel) -> list[Parcel]:
        """`function` of the features of every block."""
        found = self._gather(
            {
                number: actor.each.remote(function, self.sources[number], parcel)
                for number, actor in enumerate(self.actors)
            }
        )
        return [found[number] for number in range(len(self))]

    def spread(self, function: Callable[..., Any], tasks: Iterable[Parcel], parcel: Parcel) -> Iterator[Parcel]:
        """`function` of all features and each task, by whichever worker; the results in the order of the tasks."""
        waiting: list[Any] = []
        sources = [source for some in self.sources for source in some]
        place, actors = self.ray.put(parcel), cycle(self.actors)
        for task in tasks:
            waiting.append(next(actors).work.remote(function, sources, task, place))
            if len(waiting) >= TASKS_AHEAD * len(self):
                yield self._gather({0: waiting.pop(0)})[0]
        for call in waiting:
            yield self._gather({0: call})[0]

    # -- waiting ------------------------------------------------------------------------------------------

    def _gather(self, calls: Mapping[int, Any], accept: Callable[[int, Any], Any] | None = None) -> dict[int, Any]:
        """What these calls return. `accept` may answer one with another call, which is then waited for."""
        waiting, found, again = {call: number for number, call in calls.items()}, {}, Counter[int]()
        started, patience = time.monotonic(), SECONDS_OF_PATIENCE
        while waiting:
            with silence_ray():
                ready, late = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=SECONDS_BETWEEN_LOOKS)
            results = self._results(ready)
            for call in ready:
                number = waiting.pop(call)
                self.states[number].waited = 0.0
                reply = results[call] if call in results else self._result(number, call)
                next_call = None if accept is None else accept(number, reply)
                if next_call is None:
                    found[number] = reply
                    continue
                again[number] += 1
                if again[number] > MAX_LOSSES:
                    raise UnderstudyError(self._lost_too_often(number))
                waiting[next_call] = number
            if late:
                self._require_cluster()
                # All of them may have much to do; one alone has been lost, or is slow.
                waited = time.monotonic() - started
                if waited > (patience if found else 10 * patience):
                    self._name_late([waiting[call] for call in late], waited)
                    patience *= 2
        return found

    def _results(self, calls: Sequence[Any]) -> dict[Any, Any]:
        """What these calls returned, all at once, which is quicker; none where one of them failed."""
        try:
            return dict(zip(calls, map(unseal, self.ray.get(list(calls))), strict=True))
        except (self.ray.exceptions.RayError, ConnectionError):
            return {}

    def _result(self, number: int, call: Any) -> Any:
        errors = self.ray.exceptions
        try:
            return unseal(self.ray.get(call))
        except errors.RayTaskError as error:
            if isinstance(error.cause, UnderstudyError):
                raise UnderstudyError(f"{self.states[number]}: {error.cause}") from error
            what = f"{type(error.cause).__name__}: {reason_of(error.cause)}"
            raise UnderstudyError(
                f"{self.states[number]} failed ({what}); its machine's log in Ray says more"
            ) from error
        except errors.RayActorError as error:
            self._require_cluster()
            raise UnderstudyError(self._lost_too_often(number)) from error
        except (errors.RayError, ConnectionError) as error:
            self._require_cluster()
            raise UnderstudyError(
                f"{self.states[number]} could not be asked ({reason_of(error)}); try again"
            ) from error

    def _lost_too_often(self, number: int) -> str:
        return (
            f"{self.states[number]} was lost {MAX_LOSSES} times in a row, perhaps out of memory; take more blocks, or "
            "machines with more memory. Labels are kept: begin again from where you were"
        )

    def _name_late(self, late: Sequence[int], waited: float) -> None:
        """Say which blocks have not answered, and why that may be."""
        takes = f"{self.resources.cpus:g} CPU" + (f" and {self.resources.gpus:g} GPU" if self.resources.gpus else "")
        for number in late:
            self.states[number].waited = waited
            logger.warning("%s has not answered for %.0f seconds; if it was lost, it waits for a machine with %s",
                           self.states[number], waited, takes)  # fmt: skip

    def _require_cluster(self) -> None:
        try:
            if not self.ray.is_initialized():
                raise OSError("this process has left it")
            check_reachable(self.address)
        except OSError as error:
            raise UnderstudyError(
                f"the Ray cluster at {self.address} is gone ({reason_of(error)}); what was labelled is kept: start the "
                "cluster and run the same command again"
            ) from error

    # -- how they do --------------------------------------------------------------------------------------

    def _note_slow(self, seconds: Mapping[int, float]) -> None:
        for number, took in seconds.items():
            state, others = self.states[number], [other for i, other in seconds.items() if i != number]
            usual = median(others) if others else took
            state.seconds = took
            if took <= SLOW_FACTOR * usual + SLOW_SECONDS:
                state.slow_rounds, state.how_slow = 0, ""
                continue
            state.slow_rounds += 1
            if state.slow_rounds in SAID_ROUNDS:  # not at every round: whoever reads it should not have to do so again
                state.how_slow = (
                    f"has been slow for {state.slow_rounds} rounds: {took:.2f} s where the others take {usual:.2f} s"
                )
            if state.slow_rounds == SLOW_ROUNDS:
                logger.warning("%s is slow: %.2f s where the others take %.2f s; everybody waits for it", state, took,
                               usual)  # fmt: skip

    @property
    def troubles(self) -> list[str]:
        """What holds up whoever waits for an item, a line for each such block. From any thread, at any time."""
        return [trouble for state in self.states if (trouble := state.trouble) is not None]
