"""A pool on a Ray cluster: the rows that the engine asks, and the features that the set-up is computed from.

The blocks are those of `core`, one on a worker each. Orders wait on the driver until something is asked, and go along
with it to all blocks at once, so a label costs one round. No block needs more from the driver than that.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.core.features import Features, Found, OnRead
from understudy.core.kernels import Kernel
from understudy.core.options import Options
from understudy.core.protocol import PoolRows
from understudy.core.split_rows import SplitRows
from understudy.distributed.array_files import Source, cut
from understudy.distributed.block import BlockPlan
from understudy.distributed.cluster import ADDRESS_VARIABLE, join_cluster, joined_cluster, ray_library
from understudy.distributed.holders import BlockStatus, Holders, Resources
from understudy.distributed.orders import Order
from understudy.distributed.parcels import pack, unpack
from understudy.experiments.grid import default_jobs, single_thread
from understudy.experiments.run import versions

CPU: Final = torch.device("cpu")


class RemoteRows(SplitRows):
    """A pool whose blocks lie on a cluster."""

    def __init__(self, options: Options, holders: Holders, n_basis: int, device: torch.device) -> None:
        self.options, self.holders, self.n_basis = options, holders, n_basis
        self.device, self.dtype = device, options.torch_dtype
        self.n_classes, self.is_recordable = 0, False
        self.blocks: Any = holders.states  # as long as the rows are that lie there
        self._count()

    def _order(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> None:
        packed = self._packed(arguments)
        for number, given in arguments.items():
            self.holders.order(number, self._note(name, given, packed[number]))
            if name == "extend":
                self.holders.states[number].rows += len(given[1])

    def _ask(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        return [unpack(answer, self.device) for answer in self.holders.ask(name, self._packed(arguments))]

    def _packed(self, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """The arguments of every block as they are now; blocks that get the same share them."""
        packed: dict[tuple[int, ...], Any] = {}
        for given in arguments.values():
            if (key := tuple(map(id, given))) not in packed:
                packed[key] = self.holders.parcel(given)
        return {number: packed[tuple(map(id, given))] for number, given in arguments.items()}

    def _note(self, name: str, given: tuple[Any, ...], parcel: Any) -> Order:
        if name == "apply":
            return Order(name, parcel, steps=len(given[1]))
        if name == "refresh":
            return Order(name, parcel, covers_all=given[2] == 0)
        if name == "extend":
            kernel, features, _ = given
            return Order(name, parcel, once_trained=self.holders.parcel((kernel, features, None)))
        return Order(name, parcel)

    def __deepcopy__(self, memo: dict[int, Any]) -> "RemoteRows":
        """A copy on the same workers."""
        made = copy(self)
        made.holders = self.holders.copy()
        made.blocks = made.holders.states
        return made

    def status(self) -> list[BlockStatus]:
        """How the blocks are doing: where they lay when last asked, how long they took, how often they were lost."""
        return self.holders.states

    def slow_or_lost(self) -> list[str]:
        return self.holders.troubles


class RemoteFeatures(Features):
    """The features of a pool, cut into the spans of its blocks; what is computed from all of them is done there.

    A few rows may be taken here, where the same files can be read.
    """

    def __init__(self, features: Features, holders: Holders) -> None:
        super().__init__(*features.parts)
        self.holders = holders
        self.is_used = False  # whether there are rows in the blocks

    def on(self, device: torch.device) -> Features:
        return self

    def watched(self, on_read: OnRead) -> Features:
        return self

    def each_part(self, function: Callable[..., Found], *arguments: Any) -> list[tuple[int, Found]]:
        found = self.holders.each(function, pack(arguments))
        return [(state.first, unpack(one, CPU)) for state, one in zip(self.holders.states, found, strict=True)]

    def spread_out(self, function: Callable[..., Found], tasks: Iterable[Any], *arguments: Any) -> Iterator[Found]:
        packed = (pack((task,)) for task in tasks)
        return (unpack(found, CPU) for found in self.holders.spread(function, packed, pack(arguments)))

    def digest(self) -> str:
        if self._digest is None:
            self._digest = next(self.spread_out(_digest_of, [None]))
        return self._digest


def _digest_of(features: Features, _: None) -> str:
    return features.digest()


class RayStorage:
    """Keeps the rows of a pool on a Ray cluster, in blocks that each have a worker: `Surrogate(…, storage=…)`.

    `blocks`: how many; if not said, half as many as the cluster has room for, since while a new model is taken over
    there are the blocks of two. `address`: of the cluster, as for `on_ray`; it is joined when rows are first placed.
    `cpus` and `gpus` are what a block takes of its machine. `folder`, on a disk that all machines share, keeps what was
    computed from features that lie in files: a set-up that was cut short goes on from there, and a block that was lost
    is back sooner.
    """

    def __init__(
        self,
        blocks: int | None = None,
        *,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        folder: str | Path | None = None,
    ) -> None:
        ray_library()
        self.blocks = None if blocks is None else check_whole_number("blocks", blocks, 1)
        self.resources = Resources(check_number("cpus", cpus, least=0), check_number("gpus", gpus, least=0))
        self.address, self.folder = address, None if folder is None else str(Path(folder).resolve())

    @property
    def is_lasting(self) -> bool:
        """Not by the name of a basis: the workers keep what they computed themselves."""
        return False

    def require_room(self, n_rows: int, n_basis: int, n_classes: int, options: Options, device: torch.device) -> None:
        """Every machine says itself what it has no room for."""

    def recall(self, name: str) -> None:
        """Nothing, see `is_lasting`."""

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Nothing is kept, see `is_lasting`."""

    def place(self, features: Features) -> Features:
        spans = self._spans(len(features))
        return RemoteFeatures(features, self._hold(cut(features, spans, ray_library().put), spans))

    def make(self, kernel: Kernel, options: Options, features: Features) -> PoolRows:
        if not isinstance(features, RemoteFeatures) or features.is_used:
            features = self.place(Features(*features.parts))
        assert isinstance(features, RemoteFeatures)
        features.is_used = True
        holders = features.holders
        parcel = holders.parcel((kernel, options))
        for number in range(len(holders)):
            holders.order(number, Order("make", parcel))
        return RemoteRows(options, holders, len(kernel.U), kernel.U.device)

    def load(
        self,
        options: Options,
        of_features: Float[Tensor, "n k"] | None,
        W: Float[Tensor, "n k"],
        stats: Float[Tensor, "n 4"],
    ) -> PoolRows:
        """Rows that are already whitened."""
        spans = self._spans(len(W))
        holders = self._hold([[] for _ in spans], spans)
        for number, (start, stop) in enumerate(spans):
            some = None if of_features is None else of_features[start:stop]
            holders.order(number, Order("load", holders.parcel((options, some, W[start:stop], stats[start:stop]))))
        return RemoteRows(options, holders, W.shape[1], W.device)

    def _hold(self, sources: Sequence[Sequence[Source]], spans: Sequence[tuple[int, int]]) -> Holders:
        threads, on_gpu = max(1, int(self.resources.cpus)), self.resources.gpus > 0
        return Holders(BlockPlan(threads, on_gpu, self.folder, versions()), sources, spans, self.resources)

    def _spans(self, n: int) -> list[tuple[int, int]]:
        """Which rows lie in which block; the cluster is joined if it has not been."""
        ray = ray_library()
        if not ray.is_initialized():
            join_cluster(self.address or os.environ.get(ADDRESS_VARIABLE) or None, self.blocks)
        count = min(n, self._fitting() if self.blocks is None else self.blocks)
        return [(n * i // count, n * (i + 1) // count) for i in range(count)]

    def _fitting(self) -> int:
        there, takes = ray_library().cluster_resources(), {"CPU": self.resources.cpus, "GPU": self.resources.gpus}
        room = [int(there.get(name, 0) / amount) for name, amount in takes.items() if amount]
        return max(1, min(room, default=1) // 2)


@contextmanager
def rows_on_cluster(address: str | None = None, blocks: int | None = None) -> Iterator[RayStorage]:
    """Keep the rows of pools on a cluster within a `with` block: on the one at this address, or one started here.

    Where it is started here it has room for twice as many blocks, one a core if not said. This process then computes
    with one thread: it has a few vectors to work on, and more threads would hold cores that blocks need.
    """
    address = address or os.environ.get(ADDRESS_VARIABLE) or None
    if address is None and blocks is None:
        blocks = default_jobs("cpu")
    with joined_cluster(address, None if blocks is None else 2 * blocks), nullcontext() if address else single_thread():
        yield RayStorage(blocks)
