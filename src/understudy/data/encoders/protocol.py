"""What an encoder is, and what it is known by."""

import hashlib
import json
from collections.abc import Container, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from PIL import Image
from torch import nn

from understudy.data.items import Kind

Prepared = np.ndarray | str


@runtime_checkable
class Encoder(Protocol):
    """Makes rows of features of items. `identity` is a digest of all that changes the numbers; the device is not."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def dim(self) -> int: ...

    def prepare(self, item: Image.Image | str) -> Prepared:
        """One item as `encode` takes it. Runs in several threads at once."""

    def encode(self, batch: Sequence[Prepared]) -> np.ndarray:
        """(b, dim): features of b prepared items, in float32."""


def identity_of(**parts: Any) -> str:
    """A digest of what is named, in any order."""
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def digest_of(module: nn.Module, without: Container[str] = ()) -> str:
    """A digest of a network's weights, whatever file they came from; `without` those that change nothing."""
    state = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(module.state_dict().items()):
        if name in without:
            continue
        values = tensor.detach().cpu().contiguous()
        state.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        state.update(values.flatten().view(dtype=torch.uint8).numpy().data if values.numel() else b"")
    return state.hexdigest()
