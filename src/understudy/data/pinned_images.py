"""Images that stay what they were when they were listed: other files or pixels in their place are never read."""

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image

from understudy.data import images
from understudy.data.faults import Fault, ItemFault
from understudy.data.features import digest_of
from understudy.data.items import ArrayImages, ImageFiles, Items, Kind, Stamp, content_of


class PinnedImageFiles:
    """Images in files, by real paths. One that has become a link since is not followed: it could lead anywhere."""

    kind: Kind = "image"

    def __init__(self, paths: Sequence[Path], names: Sequence[str]) -> None:
        self.files = ImageFiles(paths, names)
        self.paths, self.names = self.files.paths, self.files.names

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, row: int) -> bytes:
        path = self.paths[row]
        if os.path.realpath(path) != str(path):
            problem = "has become a link, or lies behind one, since the project was opened"
            raise ItemFault(Fault(self.names[row], problem, "put the file back, or open the project again"))
        return content_of(path, self.names[row], follow=False)  # nor if it becomes one right now

    def decode(self, row: int, content: bytes) -> tuple[Image.Image, tuple[Fault, ...]]:
        return self.files.decode(row, content)

    def stamp(self, row: int) -> Stamp | None:
        return self.files.stamp(row)

    def take(self, rows: Sequence[int]) -> "PinnedImageFiles":
        return PinnedImageFiles([self.paths[row] for row in rows], [self.names[row] for row in rows])


class PinnedSourceImages:
    """Images inside an array or a table, each known by its digest.

    `rows` says where each is now; some may be gone.
    """

    kind: Kind = "image"

    def __init__(
        self, items: Items | None, rows: Mapping[int, int], names: Sequence[str], digests: Sequence[str | None]
    ) -> None:
        self.items, self.rows = items, dict(rows)
        self.names, self.digests = tuple(names), tuple(digests)

    def __len__(self) -> int:
        return len(self.names)

    def read(self, row: int) -> bytes:
        place = self.rows.get(row)
        if self.items is None or place is None:
            raise ItemFault(Fault(self.names[row], "not in the source any more", "put it back, then open it again"))
        content = self.items.read(place)
        if self.digests[row] not in (None, digest_of(content).hex()):
            problem = "another image stands in its place now"
            raise ItemFault(Fault(self.names[row], problem, "put the source back as it was"))
        return _as_png(self.items, place, content) if isinstance(self.items, ArrayImages) else content

    def decode(self, row: int, content: bytes) -> tuple[Image.Image, tuple[Fault, ...]]:
        return images.decode(content, self.names[row])

    def stamp(self, row: int) -> Stamp | None:
        return None

    def take(self, rows: Sequence[int]) -> "PinnedSourceImages":
        kept = {new: self.rows[row] for new, row in enumerate(rows) if row in self.rows}
        return PinnedSourceImages(
            self.items, kept, [self.names[row] for row in rows], [self.digests[row] for row in rows]
        )


def _as_png(items: ArrayImages, row: int, content: bytes) -> bytes:
    stream = io.BytesIO()
    items.decode(row, content)[0].save(stream, "PNG")
    return stream.getvalue()


def real_paths(paths: Iterable[Path]) -> Iterator[str]:
    """Paths with every link followed. Each folder is looked up once only: there are fewer of them than files."""
    folders: dict[str, str] = {}
    for path in paths:
        above, name = os.path.split(path)
        if above not in folders:
            folders[above] = os.path.realpath(above)
        real = f"{folders[above].rstrip(os.sep)}{os.sep}{name}"
        yield os.path.realpath(real) if name in ("", ".", "..") or os.path.islink(real) else real  # noqa: PTH114
