"""Archives opened without trust: nothing is written outside the folder, and nothing grows without bound.

Only files and folders come out. A link, a device, a path that is absolute or climbs with `..`, a name given twice,
or more members or bytes than allowed ends it with an error, and nothing is left behind.
"""

import gzip
import io
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from filelock import FileLock

from understudy.data.files import replace_durably
from understudy.errors import UnderstudyError

SUFFIXES: Final = (".tar", ".tar.gz", ".tgz", ".zip")
MAX_BYTES: Final = 4 << 30
MAX_MEMBERS: Final = 200_000
BYTES_PER_READ: Final = 1 << 20
DAMAGE: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, EOFError, NotImplementedError, RuntimeError,
)  # fmt: skip
TAR_HEADER_BYTES: Final = 512  # a tar header; names too long for one take some more


@dataclass(frozen=True)
class Limits:
    """The most that may come out of an archive."""

    max_bytes: int = MAX_BYTES
    max_members: int = MAX_MEMBERS


USUAL: Final = Limits()


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def unpack(archive: Path, target: Path, inner: str = "", limits: Limits = USUAL) -> Path:
    """The archive's content, or that of its folder `inner`, as the new folder `target`: complete or not at all."""
    temporary = target.with_name(f".{target.name}.unpacking")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            if target.exists():
                return target  # made by the process that held the lock
            shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
            temporary.mkdir()
            try:
                for path, content in _members(archive, limits):
                    _put(temporary / path, content)
                if not (temporary / inner).is_dir():
                    raise _hostile(archive, f"holds no folder {inner}")
                replace_durably(temporary / inner, target)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        problem = error.strerror or str(error)
        raise UnderstudyError(f"cannot unpack {archive} into {target}: {problem}; make room or mend it") from error
    return target


def read_members(archive: Path, wanted: Collection[str], limits: Limits = USUAL) -> dict[str, bytes]:
    """The content of some files of an archive, by path; those that are not in it are not in the answer."""
    found: dict[str, bytes] = {}
    try:
        for path, content in _members(archive, limits):
            if content is not None and str(path) in wanted:
                found[str(path)] = content.read()
    except OSError as error:
        raise UnderstudyError(f"cannot read {archive}: {error.strerror or error}; check the file") from error
    return found


def _members(archive: Path, limits: Limits) -> Iterator[tuple[PurePosixPath, Readable | None]]:
    """Path and content of each member, once it is known to be harmless; a folder's content is None."""
    if not archive.name.lower().endswith(SUFFIXES):
        raise UnderstudyError(f"{archive} must end in {', '.join(SUFFIXES)} to be unpacked")
    is_zip = archive.name.lower().endswith(".zip")
    seen: set[PurePosixPath] = set()
    bytes_left = limits.max_bytes
    with _explain_damage(archive):
        for name, content in (_zip_members if is_zip else _tar_members)(archive, limits):
            path = path_inside(archive, name)
            if content is None:
                yield path, None
                continue
            if path in seen:
                raise _hostile(archive, f"holds {name} twice")
            seen.add(path)
            counted = Counted(content, bytes_left, archive)
            yield path, counted
            while counted.read(BYTES_PER_READ):
                pass  # what the caller left unread counts as well
            bytes_left = counted.left


@contextmanager
def _explain_damage(archive: Path) -> Iterator[None]:
    """Whatever the standard library meets damage with, as one line."""
    try:
        yield
    except DAMAGE as error:
        raise UnderstudyError(f"{archive} is truncated or damaged ({error}); download it again") from error


def _tar_members(archive: Path, limits: Limits) -> Iterator[tuple[str, Readable | None]]:
    packed = not archive.name.lower().endswith(".tar")
    most = limits.max_bytes + 4 * TAR_HEADER_BYTES * (limits.max_members + 8)
    with (
        archive.open("rb") as file,
        Bounded(gzip.GzipFile(fileobj=file) if packed else file, most, archive) as stream,
        tarfile.open(fileobj=stream, mode="r:") as tar,
    ):
        for i, member in enumerate(tar):
            if i == limits.max_members:
                raise _too_large(archive, limits)
            if member.issparse() or not (member.isreg() or member.isdir()):
                raise _hostile(archive, f"holds {member.name}, which is neither file nor folder")
            yield member.name, None if member.isdir() else tar.extractfile(member)
        # To tarfile a header it cannot read is the end. The true end is a block of zeros.
        stream.seek(tar.offset)
        if stream.read(TAR_HEADER_BYTES) != bytes(TAR_HEADER_BYTES):
            raise tarfile.ReadError("the end is missing")
        while stream.read(BYTES_PER_READ):
            pass  # gzip compares its checksum only when it has read everything


def _zip_members(archive: Path, limits: Limits) -> Iterator[tuple[str, Readable | None]]:
    with zipfile.ZipFile(archive) as file:
        if len(file.infolist()) > limits.max_members:
            raise _too_large(archive, limits)
        for member in file.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _hostile(archive, f"holds {member.filename}, which is neither file nor folder")
            if member.is_dir():
                yield member.filename, None
                continue
            with file.open(member) as content:
                yield member.filename, content


def path_inside(archive: Path, name: str) -> PurePosixPath:
    """The member's path if it lies within the folder on every system."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
        raise _hostile(archive, f"holds {name!r}, a path that leads outside")
    return path


def _put(path: Path, content: Readable | None) -> None:
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(content, file, BYTES_PER_READ)


class Counted:
    """A member's content that ends in an error where the archive has given all it may."""

    def __init__(self, content: Readable, left: int, archive: Path) -> None:
        self.content, self.left, self.archive = content, left, archive

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return b"".join(iter(lambda: self.read(BYTES_PER_READ), b""))
        with _explain_damage(self.archive):
            # One byte more than allowed is asked for, and no more: a bomb is known by it.
            data = self.content.read(min(size, self.left + 1))
        self.left -= len(data)
        if self.left < 0:
            raise _hostile(self.archive, "unpacks to more bytes than allowed")
        return data


class Bounded(io.RawIOBase):
    """A stream of limited length, read in small pieces: a header that claims gigabytes is not believed."""

    def __init__(self, stream: io.BufferedIOBase, most: int, archive: Path) -> None:
        self.stream, self.most, self.archive = stream, most, archive

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= BYTES_PER_READ or self.stream.tell() > self.most:
            raise _hostile(self.archive, "unpacks to more bytes than allowed")
        return self.stream.read(size)

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return self.stream.seek(position, whence)

    def tell(self) -> int:
        return self.stream.tell()


def _too_large(archive: Path, limits: Limits) -> UnderstudyError:
    return _hostile(archive, f"holds more than the {limits.max_members:,} members allowed")


def _hostile(archive: Path, what: str) -> UnderstudyError:
    return UnderstudyError(f"{archive} {what}; it is not the official file: download it again")
