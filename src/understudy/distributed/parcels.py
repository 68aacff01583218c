"""What travels between the driver and the workers: plain data, with tensors taken to the device of whoever opens it.

A tensor is sent as an array, which Ray moves without copying it once more, and twice the same tensor is sent once.
"""

import io
import pickle
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from understudy.core.kernels import Kernel

TENSOR: Final = "tensor"
SHARED: Final = "shared"
BYTES_INLINE: Final = 2**16  # of a parcel; a larger one is put into the store, where all workers of a machine share it
Share: TypeAlias = Callable[[Kernel], Any]  # puts a kernel where all workers find it, and returns the place


class Parcel(NamedTuple):
    """Something packed: a pickle, the arrays of its tensors, and where what several parcels share was put."""

    content: bytes
    arrays: list[np.ndarray]
    shared: list[Any]

    @property
    def n_bytes(self) -> int:
        return len(self.content) + sum(array.nbytes for array in self.arrays)

    @property
    def is_plain(self) -> bool:
        """Whether it is small, and nothing of it lies in the store."""
        return not self.shared and self.n_bytes <= BYTES_INLINE


def pack(content: Any, share: Share | None = None) -> Parcel:
    """Pack what will not change any more, or may: tensors are copied."""
    buffer = io.BytesIO()
    packer = _Packer(buffer, share)
    packer.dump(content)
    return Parcel(buffer.getvalue(), packer.arrays, packer.shared)


def unpack(parcel: Parcel, device: torch.device, fetch: Callable[[Any], Parcel] | None = None) -> Any:
    """What was packed, with its tensors on this device. `fetch` gets what was shared, by its place."""
    return _Unpacker(parcel, device, fetch).load()


class _Packer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, share: Share | None) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self.share = share
        self.arrays: list[np.ndarray] = []
        self.shared: list[Any] = []
        self.places: dict[int, int] = {}  # of tensors already packed, which are one again when unpacked
        self.packed: list[Tensor] = []  # keeps them alive, so that no other gets the same id

    def persistent_id(self, obj: Any) -> tuple[str, int] | None:
        if isinstance(obj, Tensor):
            if id(obj) not in self.places:
                self.places[id(obj)] = len(self.arrays)
                self.packed.append(obj)
                self.arrays.append(obj.detach().cpu().numpy().copy("K"))  # sums follow the order in memory
            return TENSOR, self.places[id(obj)]
        if self.share is not None and isinstance(obj, Kernel):
            self.shared.append(self.share(obj))
            return SHARED, len(self.shared) - 1
        return None


class _Unpacker(pickle.Unpickler):
    def __init__(self, parcel: Parcel, device: torch.device, fetch: Callable[[Any], Parcel] | None) -> None:
        super().__init__(io.BytesIO(parcel.content))
        self.parcel, self.device, self.fetch = parcel, device, fetch
        self.tensors: dict[int, Tensor] = {}

    def persistent_load(self, pid: tuple[str, int]) -> Any:
        kind, place = pid
        if kind == SHARED:
            assert self.fetch is not None
            return unpack(self.fetch(self.parcel.shared[place]), self.device)
        if place not in self.tensors:
            # Ray's arrays are read-only, and a tensor may be changed.
            self.tensors[place] = torch.from_numpy(np.array(self.parcel.arrays[place])).to(self.device)
        return self.tensors[place]
