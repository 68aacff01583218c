"""Which bytes an ONNX graph is made of: its file, and those beside it that hold its larger weights.

A graph is a message of protocol buffers, and only the few fields on the way to a tensor's place are looked at.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from understudy.errors import UnderstudyError

# Of each kind of message, the fields that lead to tensors and the kind they hold; numbers from the ONNX specification.
FIELDS: Final[Mapping[str, Mapping[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
PLACE, WHERE, OUTSIDE = 13, 14, 1  # of a tensor: its place by keys, whether that counts, and the value if it does
WIDTHS: Final = {1: 8, 5: 4}  # bytes of the wire types of fixed width
VARINT, BYTES = 0, 2  # the other wire types


def digests(path: Path) -> list[list[str]]:
    """Name and digest of the graph's file, whose name is left out, and of each file that its weights are in."""
    try:
        places = sorted(set(_locations(memoryview(path.read_bytes()), "model")))
        return [["", _digest(path)], *([place, _digest(path.parent / place)] for place in places)]
    except (OSError, ValueError, IndexError) as error:
        raise UnderstudyError(f"the weights of {path} cannot be read ({error}); export it again") from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    """The files, relative to the graph's, in which tensors lie."""
    if kind == "tensor":
        yield from _location(message)
        return
    for number, value in _fields(message):
        if number in FIELDS[kind] and isinstance(value, memoryview):
            yield from _locations(value, FIELDS[kind][number])


def _location(tensor: memoryview) -> Iterator[str]:
    found = list(_fields(tensor))
    if (WHERE, OUTSIDE) not in found:
        return
    for number, value in found:
        if number == PLACE and isinstance(value, memoryview):
            entry = {key: bytes(text).decode() for key, text in _fields(value) if isinstance(text, memoryview)}
            if entry.get(1) == "location":
                yield entry.get(2, "")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Number and value of each field: bytes, or an integer; numbers of fixed width are passed over."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _varint(message, at)
            yield number, value
        elif wire == BYTES:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("a field goes beyond the end")
            yield number, message[at : at + length]
            at += length
        elif wire in WIDTHS:
            at += WIDTHS[wire]
        else:
            raise ValueError(f"wire type {wire}")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and where the next field begins."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
