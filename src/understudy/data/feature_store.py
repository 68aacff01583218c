"""The feature cache, by content: one folder an encoder, which a kill at any moment leaves consistent.

`vectors.f32` holds one vector after another. `keys.bin` says whose they are: a frame a batch, written after the
batch's vectors are on the disk, with checksums of both. What follows the last whole frame is cut off on opening, so
a batch is there entirely or not at all. `notes.jsonl` holds what a person should know of an item that is used.
"""

import json
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import filelock
import numpy as np

from understudy.data.files import sync_file, write_atomically
from understudy.errors import UnderstudyError

FORMAT: Final = 1
SECONDS_PER_WAIT: Final = 0.5  # seconds between two calls of `on_wait`
MAGIC: Final = b"UsK1"
HEAD: Final = struct.Struct("<4sI")  # magic, number of keys
KEY: Final = struct.Struct("<16sI")  # digest of the content, checksum of its vector
TAIL: Final = struct.Struct("<I")  # checksum of all before

Note = tuple[str, str]  # problem and remedy


class FeatureStore:
    """Vectors of one encoder by the digest of the item's content. Opened by `open_store`, one writer at a time."""

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder, self.dim = folder, dim
        self.places: dict[bytes, int] = {}
        self.checksums: list[int] = []
        self.notes: dict[bytes, list[Note]] = _read_notes(folder / "notes.jsonl")
        self.vectors, self.keys = _open_for_append(folder / "vectors.f32"), _open_for_append(folder / "keys.bin")
        self.reading = threading.Lock()  # one file, one position
        self.drop_unfinished()

    def __len__(self) -> int:
        return len(self.checksums)

    def drop_unfinished(self) -> None:
        """Believe whole frames whose vectors are there, and drop what follows them."""
        room = self.vectors.seek(0, os.SEEK_END) // self.width
        self.keys.seek(0)
        content = self.keys.read()
        end = 0
        for after, keys in _frames(content):
            if len(self) + len(keys) > room:
                break
            self.remember(keys)
            end = after
        self.keys.truncate(end)
        self.vectors.truncate(len(self) * self.width)

    @property
    def width(self) -> int:
        """Bytes of a vector."""
        return 4 * self.dim

    def remember(self, keys: Sequence[tuple[bytes, int]]) -> None:
        for digest, checksum in keys:
            # In this order: threads that read must find a checksum for every place.
            self.checksums.append(checksum)
            self.places[digest] = len(self.checksums) - 1

    def get(self, digest: bytes) -> np.ndarray | None:
        """The vector, or None if there is none or it is not what was written."""
        place = self.places.get(digest)
        if place is None:
            return None
        with self.reading:
            self.vectors.seek(place * self.width)
            content = self.vectors.read(self.width)
        return np.frombuffer(content, np.float32) if zlib.crc32(content) == self.checksums[place] else None

    def append(self, digests: Sequence[bytes], vectors: np.ndarray, notes: Mapping[bytes, Sequence[Note]]) -> None:
        """A batch: its notes, its vectors, and only then its keys."""
        if notes:
            lines = [json.dumps([digest.hex(), *note]) for digest, found in notes.items() for note in found]
            with (self.folder / "notes.jsonl").open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
            self.notes.update({digest: list(found) for digest, found in notes.items()})
        contents = [vector.tobytes() for vector in vectors]
        with self.reading:
            self.vectors.seek(len(self) * self.width)
            self.vectors.write(b"".join(contents))
            sync_file(self.vectors)
        keys = [(digest, zlib.crc32(content)) for digest, content in zip(digests, contents, strict=True)]
        self.keys.seek(0, os.SEEK_END)
        self.keys.write(pack_frame(keys))
        sync_file(self.keys)
        self.remember(keys)

    def close(self) -> None:
        for file in (self.vectors, self.keys):
            # After a full disk something may be left to write; it is not in the keys, so nothing is lost.
            try:
                file.close()
            except OSError:
                file.raw.close()  # type: ignore[attr-defined]


@contextmanager
def open_store(
    folder: Path, *, dim: int, encoder: str, on_wait: Callable[[], None] | None = None
) -> Iterator[FeatureStore]:
    """The store in a folder, made if need be and locked while it is open.

    While another process has it, `on_wait` is called about twice a second, and what it raises ends the waiting;
    without it, that is an error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / "lock")
    while not _acquire(lock, 0 if on_wait is None else SECONDS_PER_WAIT):
        if on_wait is None:
            raise UnderstudyError(
                f"another process is computing features of {encoder}; wait until it is done, then run this again"
            )
        on_wait()
    try:
        _require_format(folder, dim, encoder)
        store = FeatureStore(folder, dim)
        try:
            yield store
        finally:
            store.close()
    finally:
        lock.release()


def _acquire(lock: filelock.BaseFileLock, timeout: float) -> bool:
    """Take the lock within `timeout` seconds; whether that worked."""
    try:
        lock.acquire(timeout=timeout)
    except filelock.Timeout:
        return False
    return True


def _require_format(folder: Path, dim: int, encoder: str) -> None:
    about = folder / "store.json"
    expected = {"format": FORMAT, "dim": dim}
    if not about.exists():
        write_atomically(about, json.dumps(expected | {"encoder": encoder}).encode())
        return
    try:
        found = json.loads(about.read_text(encoding="utf-8"))
        same = {name: found[name] for name in expected} == expected
    except (OSError, ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise UnderstudyError(f"{folder} holds no features of {encoder} that can be read; delete this folder")


def pack_frame(keys: Sequence[tuple[bytes, int]]) -> bytes:
    body = HEAD.pack(MAGIC, len(keys)) + b"".join(KEY.pack(*key) for key in keys)
    return body + TAIL.pack(zlib.crc32(body))


def _frames(content: bytes) -> Iterator[tuple[int, list[tuple[bytes, int]]]]:
    """Whole frames from the start, each with the position after it, up to the first that is not whole."""
    start = 0
    while start + HEAD.size <= len(content):
        magic, count = HEAD.unpack_from(content, start)
        body_end = start + HEAD.size + count * KEY.size
        if magic != MAGIC or body_end + TAIL.size > len(content):
            return
        if TAIL.unpack_from(content, body_end)[0] != zlib.crc32(content[start:body_end]):
            return
        yield body_end + TAIL.size, list(KEY.iter_unpack(content[start + HEAD.size : body_end]))
        start = body_end + TAIL.size


def _read_notes(path: Path) -> dict[bytes, list[Note]]:
    notes: dict[bytes, list[Note]] = {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    for line in lines:
        try:
            digest, problem, remedy = json.loads(line)
            found = notes.setdefault(bytes.fromhex(digest), [])
        except (ValueError, TypeError):
            continue  # cut short by a kill; its item is computed again and the note written again
        if (problem, remedy) not in found:
            found.append((problem, remedy))
    return notes


def _open_for_append(path: Path) -> BinaryIO:
    path.touch()
    return path.open("r+b")
