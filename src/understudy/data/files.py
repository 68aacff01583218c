"""Files that appear whole or not at all, whenever a process is killed or a disk is full."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from understudy.errors import UnderstudyError


def write_whole(path: Path, content: bytes) -> None:
    """The file appears with all its content, or stays as it was."""
    with whole(path) as file:
        file.write(content)


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes its place when all is written and on the disk."""
    # A name of its own, so that two who write the same file at once do not write into each other's.
    draft = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        try:
            with draft.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UnderstudyError(f"cannot write {path}: {reason}; make room, then run the same again") from error


def sync_folder(folder: Path) -> None:
    """What was renamed in this folder stays so when the power fails; not every system lets one ask for it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
