"""Raw items on demand: image files, images in an array or in a table, texts. Nothing is decoded before it is asked for.

An item is read, then decoded: two steps, since its bytes alone tell whether its features are known already.
"""

import os
import stat
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, overload, runtime_checkable

import numpy as np
from PIL import Image

from understudy.data import images
from understudy.data.faults import Fault, ItemFault
from understudy.errors import UnderstudyError

Kind = Literal["image", "text"]
Stamp = tuple[int, int]  # size in bytes, time of the last change in nanoseconds
NO_WAITING: Final = getattr(os, "O_NONBLOCK", 0)  # opening a pipe that nobody writes to would block for ever
NO_FOLLOWING: Final = getattr(os, "O_NOFOLLOW", 0)
UNSEEN: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control characters, halves of characters, ends of lines
TURNING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # the direction of what follows


@runtime_checkable
class Items(Protocol):
    """n raw items of one kind."""

    @property
    def kind(self) -> Kind: ...

    def __len__(self) -> int: ...

    def read(self, row: int) -> bytes:
        """The bytes that make up the item; ItemFault where there are none."""

    def decode(self, row: int, content: bytes) -> tuple[Image.Image | str, tuple[Fault, ...]]:
        """The item in the bytes that `read` gave, and notes on it; ItemFault where it is unusable."""

    def stamp(self, row: int) -> Stamp | None:
        """What changes when the item changes and costs nothing to get; None where there is no such thing."""

    def take(self, rows: Sequence[int]) -> "Items":
        """These rows, in this order."""


class ImageFiles:
    """Images in files."""

    kind: Kind = "image"

    def __init__(self, paths: Sequence[Path], names: Sequence[str] | None = None) -> None:
        self.paths = tuple(paths)
        self.names = tuple(map(str, paths)) if names is None else tuple(names)

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, row: int) -> bytes:
        return content_of(self.paths[row], self.names[row])

    def decode(self, row: int, content: bytes) -> tuple[Image.Image, tuple[Fault, ...]]:
        return images.decode(content, self.names[row])

    def stamp(self, row: int) -> Stamp | None:
        try:
            status = self.paths[row].stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def take(self, rows: Sequence[int]) -> "ImageFiles":
        return ImageFiles([self.paths[row] for row in rows], [self.names[row] for row in rows])


class ArrayImages:
    """Images in one array of bytes: (n, height, width), or with 3 (RGB) or 4 (RGBA) channels as a fourth axis."""

    kind: Kind = "image"

    def __init__(self, pixels: np.ndarray) -> None:
        if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or pixels.shape[3:] not in ((), (3,), (4,)):
            raise UnderstudyError(
                "images in an array must be uint8 of shape (n, height, width) or (n, height, width, 3 or 4); "
                f"got {pixels.dtype} of shape {pixels.shape}"
            )
        if 0 in pixels.shape[1:]:
            raise UnderstudyError(f"images in an array must have pixels; got shape {pixels.shape}")
        self.pixels = pixels

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, row: int) -> bytes:
        # The shape is part of what is hashed: 2 x 8 pixels are not 4 x 4.
        return str(self.pixels.shape[1:]).encode() + b"\n" + self.pixels[row].tobytes()

    def decode(self, row: int, content: bytes) -> tuple[Image.Image, tuple[Fault, ...]]:
        pixels = np.frombuffer(content.split(b"\n", 1)[1], np.uint8).reshape(self.pixels.shape[1:])
        return images.in_rgb(Image.fromarray(pixels), f"row {row}"), ()

    def stamp(self, row: int) -> Stamp | None:
        return None

    def take(self, rows: Sequence[int]) -> "ArrayImages":
        return ArrayImages(self.pixels[np.asarray(rows, dtype=np.int64)])


class StoredImages:
    """Images in the cells of a table: the bytes of a file each, or {"bytes", "path"} as Hugging Face writes them.

    Paths are relative to `folder`. Where `confined` is a folder, those that lead out of it, also by links, are faults.
    """

    kind: Kind = "image"

    def __init__(
        self,
        cell: Callable[[int], object],
        names: Sequence[str],
        rows: Sequence[int] | None = None,
        folder: Path = Path(),
        confined: Path | None = None,
    ) -> None:
        self.cell = cell
        self.folder, self.confined = folder, confined
        self.names = tuple(names)
        self.rows = tuple(range(len(names))) if rows is None else tuple(rows)

    def __len__(self) -> int:
        return len(self.names)

    def read(self, row: int) -> bytes:
        try:
            cell = self.cell(self.rows[row])
        except (OSError, MemoryError) as error:
            raise _unreadable(self.names[row], error) from error
        content, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) else (cell, None)
        if isinstance(content, bytes):
            return content
        if content is None and isinstance(path, str):
            return self.read_named_file(row, path)
        raise ItemFault(Fault(self.names[row], "no image in its cell", "fill it in or remove its row"))

    def decode(self, row: int, content: bytes) -> tuple[Image.Image, tuple[Fault, ...]]:
        return images.decode(content, self.names[row])

    def stamp(self, row: int) -> Stamp | None:
        return None

    def take(self, rows: Sequence[int]) -> "StoredImages":
        names, places = [self.names[row] for row in rows], [self.rows[row] for row in rows]
        return StoredImages(self.cell, names, places, self.folder, self.confined)

    def confined_to(self, folder: Path) -> "StoredImages":
        """The same images, of which those outside of the folder are faults."""
        return StoredImages(self.cell, self.names, self.rows, self.folder, folder)

    def read_named_file(self, row: int, path: str) -> bytes:
        """What is in the file that a cell names."""
        if self.confined is None:
            return content_of(self.folder / path, self.names[row])
        try:
            real = os.path.realpath(self.folder / path)
        except (OSError, ValueError) as error:  # a name that no file can have
            raise _unreadable(self.names[row], error) from error
        if not lies_in(real, os.path.realpath(self.confined)):
            problem = f"its cell names a file outside of {self.confined}"
            raise ItemFault(Fault(self.names[row], problem, "put the file there, or its bytes into the cell"))
        return content_of(Path(real), self.names[row], follow=False)


class Texts:
    """Texts in memory."""

    kind: Kind = "text"

    def __init__(self, texts: Sequence[str], names: Sequence[str] | None = None) -> None:
        self.texts = tuple(texts)
        self.names = tuple(f"row {row}" for row in range(len(texts))) if names is None else tuple(names)

    def __len__(self) -> int:
        return len(self.texts)

    def read(self, row: int) -> bytes:
        return self.texts[row].encode("utf-8", "surrogatepass")

    def decode(self, row: int, content: bytes) -> tuple[str, tuple[Fault, ...]]:
        text = content.decode("utf-8", "replace")
        if not text.strip():
            raise ItemFault(Fault(self.names[row], "the text is empty", "fill it in or remove its line"))
        return text, ()

    def stamp(self, row: int) -> Stamp | None:
        return None

    def take(self, rows: Sequence[int]) -> "Texts":
        return Texts([self.texts[row] for row in rows], [self.names[row] for row in rows])


class RawItems(Sequence[Image.Image | str]):
    """Items as a sequence of images or texts, each read when it is asked for; so is a part of them."""

    def __init__(self, items: Items) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, rows: int) -> Image.Image | str: ...

    @overload
    def __getitem__(self, rows: slice | np.ndarray) -> "RawItems": ...

    def __getitem__(self, rows: int | slice | np.ndarray) -> "Image.Image | str | RawItems":
        if isinstance(rows, slice):
            return RawItems(self.items.take(range(*rows.indices(len(self)))))
        if isinstance(rows, np.ndarray):
            return RawItems(self.items.take(rows.tolist()))
        row = range(len(self))[rows]  # from the end where it is negative; an IndexError ends a loop
        return self.items.decode(row, self.items.read(row))[0]


def content_of(path: Path, name: str, *, follow: bool = True) -> bytes:
    """The content of a file; ItemFault where it cannot be read. Unless `follow`, a symbolic link cannot be."""
    try:
        with open(path, "rb", opener=_without_waiting if follow else _without_following) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ItemFault(Fault(name, "a pipe or a device, not a file", "put a file there or remove its line"))
            if status.st_size > images.MAX_BYTES:
                problem = f"{status.st_size:,} bytes, more than {images.MAX_BYTES:,}"
                raise ItemFault(Fault(name, problem, "make it smaller"))
            return file.read()
    except FileNotFoundError as error:
        raise ItemFault(Fault(name, "no such file", "put it back or remove its line")) from error
    except ItemFault:
        raise
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a name that no file can have
        raise _unreadable(name, error) from error


def lies_in(path: str, folder: str) -> bool:
    """Whether a real path is below a real folder."""
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | NO_WAITING)


def _without_following(path: str, flags: int) -> int:
    return os.open(path, flags | NO_WAITING | NO_FOLLOWING)


def _unreadable(name: str, error: Exception) -> ItemFault:
    if isinstance(error, MemoryError):
        return ItemFault(Fault(name, "no memory to read it", "make it smaller, or use fewer workers"))
    reason = getattr(error, "strerror", None) or error
    return ItemFault(Fault(name, f"cannot be read ({reason})", "check its permissions and the disk"))


def make_printable(name: str) -> str:
    """A name in one line that any file and terminal takes: what is not seen, or is not UTF-8, is spelt out.

    Characters that join others stay, since words of some languages need them.
    """
    if name.isascii() and name.isprintable():
        return name
    return "".join(spell_out(sign) if _is_unseen(sign) else sign for sign in name)


def _is_unseen(sign: str) -> bool:
    return sign in TURNING or unicodedata.category(sign) in UNSEEN


def spell_out(sign: str) -> str:
    return sign.encode("unicode_escape").decode()
