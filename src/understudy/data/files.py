"""Atomic writing: a file or folder appears complete or not at all, whenever a process is killed or a disk is full.

What is new is written to a draft beside its destination, forced onto the disk (fsync), and renamed; then the folder is
forced onto the disk too, because without that a power failure can undo the rename. Every OSError becomes a NotStored
that names the path. `read_blocks` is for whoever copies or hashes a large file.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, Final

from understudy.errors import NotStored
from understudy.messages import DISK_FAILED, DISK_IS_FULL

FULL_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BYTES_PER_READ: Final = 2**20
DRAFT_NAMES: Final = (".*.part", ".draft-*")  # the second as older versions named them


def write_atomically(
    path: Path, content: bytes | Iterable[bytes], *, mode: int | None = None, parents: bool = False
) -> int:
    """Write a file, from bytes or a stream of pieces; on any failure it stays as it was. Its size in bytes."""
    with atomic_file(path, mode=mode, parents=parents) as file:
        return sum(file.write(piece) for piece in ([content] if isinstance(content, bytes) else content))


def read_blocks(path: Path) -> Iterator[bytes]:
    """The content of a file, a block at a time."""
    with path.open("rb") as file:
        while block := file.read(BYTES_PER_READ):
            yield block


@contextmanager
def atomic_file(path: Path, *, mode: int | None = None, parents: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` once all is written and on the disk.

    `mode` is its permissions, whatever the umask; without it they are what the umask leaves. With `parents`, missing
    folders above it are made.
    """
    with _name_in_errors(str(path)):
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        with _draft(path.parent, mode) as draft:
            yield draft.file
            draft.move_to(path)


@dataclass(frozen=True)
class Draft:
    """A file that is being written beside its destination."""

    path: Path
    file: BinaryIO

    def move_to(self, path: Path) -> None:
        """Put all of it on the disk, then in the place of `path`."""
        sync_file(self.file)
        self.file.close()
        replace_durably(self.path, path)


@contextmanager
def draft_file(folder: Path, *, mode: int | None = None) -> Iterator[Draft]:
    """A draft in a folder, for a file whose name follows from its content; it vanishes unless it is moved."""
    with _name_in_errors(f"to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        with _draft(folder, mode) as draft:
            yield draft


@contextmanager
def _draft(folder: Path, mode: int | None) -> Iterator[Draft]:
    def open_privately(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    path = _draft_path(folder)
    try:
        with open(path, "xb", opener=None if mode is None else open_privately) as file:
            if mode is not None:
                path.chmod(mode)
            yield Draft(path, file)
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path, *, durable: bool = True) -> Iterator[Path]:
    """A new folder to write to, which replaces `folder` in the end, or vanishes on any failure.

    A folder cannot be renamed over another one: a kill just between leaves none. With `durable` every file is forced
    onto the disk first. Without, a power failure may leave damaged files, so it suits what can be made again.
    """
    draft = _draft_path(folder.parent)
    with _name_in_errors(f"to {folder.parent}"):
        try:
            draft.mkdir(parents=True)
            yield draft
            if durable:
                _sync_tree(draft)
            remove_folder(folder)
            draft.rename(folder)
            if durable:
                sync_folder(folder.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder and all in it, its name at once. Whoever has mapped its files keeps them."""
    gone = _draft_path(folder.parent)
    with suppress(FileNotFoundError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Remove what a kill left half written or half removed in a folder. Only while nobody writes there."""
    for pattern in DRAFT_NAMES:
        for draft in folder.glob(pattern):
            if draft.is_dir() and not draft.is_symlink():
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)


def is_draft(name: str) -> bool:
    """Whether a file of this name is what a kill left half written."""
    return any(fnmatchcase(name, pattern) for pattern in DRAFT_NAMES)


@contextmanager
def synced_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that is on the disk in the end: for drafts that `replace_durably` puts in place."""
    with path.open("wb") as file:
        yield file
        sync_file(file)


def replace_durably(draft: Path, path: Path) -> None:
    """Rename a draft, whose content is on the disk, so that this outlasts a power failure."""
    draft.replace(path)
    sync_folder(path.parent)


def sync_file(file: BinaryIO) -> None:
    """Force what was written to an open file onto the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Force the names in a folder onto the disk, where the system lets one ask for it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sync_tree(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if not path.is_symlink():
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
        sync_folder(Path(place))


def _draft_path(folder: Path) -> Path:
    # A name of its own, so that two who write the same file at once do not write into each other's.
    return folder / f".{secrets.token_hex(8)}.part"


@contextmanager
def _name_in_errors(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise NotStored(
            f"cannot write {place}: {reason}; make room or check its permissions, then try again",
            DISK_IS_FULL if error.errno in FULL_DISK else DISK_FAILED,
        ) from error
