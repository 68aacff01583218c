"""What a worker does that holds a block of a pool: the local rows inside, behind one method that Ray can call."""

import hashlib
import os
import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch

from understudy.core.features import Features
from understudy.core.kernels import Kernel
from understudy.core.means import WAVES
from understudy.core.options import Options
from understudy.core.rows import Rows
from understudy.distributed.array_files import ArrayFile, Source, open_sources
from understudy.distributed.cluster import ray_library
from understudy.distributed.parcels import Parcel, pack, unpack
from understudy.distributed.worker import check_versions
from understudy.experiments.run import versions

OUT_OF_STEP: Final = "out of step"  # the answer of a block that does not know what it should: it was restarted


@dataclass(frozen=True)
class BlockPlan:
    """How a block works."""

    threads: int
    on_gpu: bool
    folder: str | None  # where what is computed from features in files is kept
    wanted: Mapping[str, str]  # versions


@dataclass(frozen=True)
class Message:
    """Orders that bring a block from one count of orders to another, and a question. `anew`: from nothing."""

    copy: int  # of the rows that is meant
    sources: Sequence[Source] | None  # where its features are found, if it does not know
    before: int
    orders: Sequence[tuple[str, Any, int]]
    after: int
    question: str
    arguments: Any
    anew: bool = False


@dataclass(frozen=True)
class Reply:
    answer: Any  # a parcel, or `OUT_OF_STEP`
    seconds: float
    machine: str
    process: int


@dataclass
class _Made:
    """The rows of a block as one of the pool's copies has them."""

    rows: Rows | None = None
    count: int = 0  # of the orders carried out


Sealed: TypeAlias = "bytes | Any"


def seal(message: "Message | Reply", *parcels: Any) -> Sealed:
    """A message as it is sent, with these parcels in it: as bytes, if it is small and nothing lies in the store.

    Ray takes bytes as they are. For anything else it calls a pickler of its own, which takes longer than the call.
    """
    if all(parcel is None or (isinstance(parcel, Parcel) and parcel.is_plain) for parcel in parcels):
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return message


def unseal(sealed: Sealed) -> Any:
    return pickle.loads(sealed) if isinstance(sealed, bytes) else sealed


class Block:
    """A block of rows on this worker, made when the first orders come."""

    def __init__(self, plan: BlockPlan) -> None:
        check_versions(plan.wanted, versions())
        torch.set_num_threads(plan.threads)
        self.plan, self.device = plan, torch.device("cuda" if plan.on_gpu else "cpu")
        self.machine: str = ray_library().util.get_node_ip_address()
        self.copies: dict[int, _Made] = {}
        self.shared: dict[Any, Parcel] = {}
        self.sources: Sequence[Source] = ()
        self._features: Features | None = None

    def _look_at(self, sources: Sequence[Source]) -> None:
        """Take the features of this block from there."""
        if list(sources) != list(self.sources):
            self.sources, self._features = sources, None

    @property
    def features(self) -> Features:
        if self._features is None:
            self._features = open_sources(self.sources).on(self.device)
        return self._features

    @property
    def folder(self) -> Path | None:
        """Where results are kept: only what lies in files is known again by a worker that comes later."""
        if self.plan.folder is None or not all(isinstance(source, ArrayFile) for source in self.sources):
            return None
        return Path(self.plan.folder)

    # -- the rows -----------------------------------------------------------------------------------------

    def follow(self, sealed: Sealed) -> Sealed:
        """Carry out orders, unless they were carried out before, and answer the question."""
        started = time.perf_counter()
        message: Message = unseal(sealed)
        if message.sources is not None:
            self._look_at(message.sources)
        made = self.copies.setdefault(message.copy, _Made())
        if message.anew:
            made.rows, made.count = None, message.before
        if made.count == message.before:
            made.count = -1  # in between: if an order fails, the block must be made anew
            for name, parcel, steps in message.orders:
                self._carry_out(made, name, parcel, steps)
            made.count = message.after
        elif made.count != message.after:
            return self._reply(OUT_OF_STEP, None, started)
        answer = getattr(made.rows, message.question)(*self._open(message.arguments))
        parcel = pack(answer)
        return self._reply(parcel, parcel, started)

    def _reply(self, answer: Any, parcel: Parcel | None, started: float) -> Sealed:
        return seal(Reply(answer, time.perf_counter() - started, self.machine, os.getpid()), parcel)

    def copy(self, of: int, to: int) -> None:
        """Copy the rows as they are now. Those that are not here are made anew when they are asked."""
        if of in self.copies and to not in self.copies:
            self.copies[to] = deepcopy(self.copies[of])

    def forget(self, copies: Collection[int]) -> None:
        for number in copies:
            self.copies.pop(number, None)

    def _carry_out(self, made: _Made, name: str, parcel: Any, steps: int) -> None:
        if name == "make":
            made.rows = self._make(*self._open(parcel))
            return
        if name == "load":
            made.rows = Rows.from_whitened(*self._open(parcel))
            return
        rows = made.rows
        assert rows is not None
        if name != "pass_turns":
            getattr(rows, name)(*self._open(parcel))
        elif rows.means.defers:
            rows.set_turn((rows.turn() + steps) % WAVES)

    def _open(self, parcel: Any) -> Any:
        """What is in a parcel, which may have been put into the store."""
        return unpack(parcel if isinstance(parcel, Parcel) else _fetch(parcel), self.device, self._fetch_shared)

    def _fetch_shared(self, place: Any) -> Parcel:
        if place not in self.shared:
            self.shared = {place: _fetch(place)}  # a kernel: the one before is not needed again
        return self.shared[place]

    def _make(self, kernel: Kernel, options: Options) -> Rows:
        """Rows for the features of this block, from the folder if they were made before."""
        if (folder := self.folder) is None:
            return Rows(kernel, options, self.features)
        place = folder / f"rows-{self._digest('rows', pack((kernel, options)))}"
        if not place.exists():
            made = Rows(kernel, options, self.features)
            _write_arrays(place, made)
            return made
        of_features, W = (_map_array(place / f"{name}.npy") for name in ("of_features", "W"))
        stats = torch.from_numpy(np.load(place / "stats.npy")).to(self.device)
        if W is None:  # it comes of the predictions, at each training anew
            assert of_features is not None
            return Rows.from_whitened(options, of_features.to(self.device), torch.empty_like(of_features), stats)
        return Rows.from_whitened(options, None, W.to(self.device), stats)

    # -- the features -------------------------------------------------------------------------------------

    def each(self, function: Callable[..., Any], sources: Sequence[Source], parcel: Parcel) -> Parcel:
        """`function` of this block's features, as it was found before or computed now."""
        self._look_at(sources)
        path = None
        if (folder := self.folder) is not None:
            path = folder / f"found-{self._digest(function.__qualname__, parcel)}.pickle"
            if path.exists():
                found: Parcel = pickle.loads(path.read_bytes())
                return found
        found = pack(function(self.features, *unpack(parcel, self.device)))
        if path is not None:
            _write(path, pickle.dumps(found))
        return found

    def work(self, function: Callable[..., Any], sources: Sequence[Source], task: Parcel, parcel: Parcel) -> Parcel:
        """`function` of all features, and a task."""
        whole = open_sources(sources)
        return pack(function(whole, *unpack(task, self.device), *unpack(parcel, self.device)))

    def _digest(self, purpose: str, parcel: Parcel) -> str:
        """What names a result: which features, what was asked, and with what."""
        asked = purpose, list(self.sources), dict(self.plan.wanted)
        state = hashlib.blake2b(repr(asked).encode(), digest_size=16)
        state.update(parcel.content)
        for array in parcel.arrays:
            state.update(np.ascontiguousarray(array).tobytes())
        return state.hexdigest()


def _fetch(place: Any) -> Parcel:
    found: Parcel = ray_library().get(place)
    return found


def _write_arrays(place: Path, rows: Rows) -> None:
    draft = place.with_name(f"{place.name}.{os.getpid()}.draft")
    draft.mkdir(parents=True, exist_ok=True)
    arrays = {"stats": rows.stats, **({"W": rows.W} if rows.of_features is None else {"of_features": rows.of_features})}
    for name, tensor in arrays.items():
        np.save(draft / f"{name}.npy", tensor.cpu().numpy())
    try:
        draft.rename(place)
    except OSError:  # another worker was quicker
        for name in arrays:
            (draft / f"{name}.npy").unlink()
        draft.rmdir()


def _map_array(path: Path) -> torch.Tensor | None:
    return torch.from_numpy(np.load(path, mmap_mode="c")) if path.exists() else None


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_bytes(content)
    draft.replace(path)
