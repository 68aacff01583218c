"""Python 2's pickles of numpy arrays, read without running anything they ask for.

A pickle is a program: it may call whatever it names. Here it can name five things, and none of them is what it
thinks: each is a stand-in that only remembers its arguments. The arrays are made afterwards, from raw bytes.
"""

import io
import math
import pickle
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from understudy.errors import UnderstudyError


class RawType:
    """In place of a numpy dtype."""

    __slots__ = ("code",)

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code

    def __setstate__(self, state: Any) -> None:
        pass  # byte order and the like: single bytes have none


class RawArray:
    """In place of a numpy array: the bytes and the shape it would have."""

    __slots__ = ("content", "shape")

    def __init__(self, *_: Any) -> None:
        self.content, self.shape = b"", (0,)

    def __setstate__(self, state: Any) -> None:
        _, self.shape, kind, in_columns, self.content = state
        if not isinstance(kind, RawType) or kind.code not in ("u1", "|u1") or in_columns:
            raise pickle.UnpicklingError("an array that is not of unsigned bytes, row by row")

    def array(self) -> np.ndarray:
        if math.prod(self.shape) != len(self.content):
            raise pickle.UnpicklingError(f"{len(self.content):,} bytes for an array of shape {self.shape}")
        return np.frombuffer(self.content, np.uint8).reshape(self.shape)


class StandIn:
    """Something that can be called, and to which nothing else can be done."""

    __slots__ = ("answer",)

    def __init__(self, answer: Callable[..., object]) -> None:
        self.answer = answer

    def __call__(self, *arguments: Any) -> object:
        return self.answer(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("a change to what is not its own")


def _latin_bytes(text: Any, encoding: Any) -> bytes:
    """How Python 3 writes bytes into an old pickle."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("bytes in an encoding other than latin1")
    return text.encode("latin1")


ADMITTED: Final[dict[tuple[str, str], Callable[..., object]]] = {
    ("numpy.core.multiarray", "_reconstruct"): RawArray,
    ("numpy._core.multiarray", "_reconstruct"): RawArray,
    ("numpy", "ndarray"): RawArray,
    ("numpy", "dtype"): RawType,
    ("_codecs", "encode"): _latin_bytes,
}


class Reader(pickle._Unpickler):
    """The unpickler written in Python: the one in C sets memory aside for whatever memo number it is told."""

    def find_class(self, module: str, name: str) -> StandIn:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {f'{module}.{name}'!r}")
        return StandIn(ADMITTED[module, name])


def read(content: bytes, name: str) -> dict[str, Any]:
    """The dictionary in a pickle, its keys as text, its strings as bytes, its arrays as numpy's."""
    try:
        found = Reader(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(found, dict):
            raise pickle.UnpicklingError(f"it holds {type(found).__name__} where a dictionary was expected")
        return {
            key.decode("latin1") if isinstance(key, bytes) else str(key): value.array()
            if isinstance(value, RawArray)
            else value
            for key, value in found.items()
        }
    except Exception as error:  # whatever a hostile program drives the reader into
        raise UnderstudyError(
            f"{name} is refused: {error}; only the official files are read, download it again"
        ) from error
