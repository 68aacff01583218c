"""The content of items for browsers: by row, as a picture that cannot run code, or as plain text.

No path comes from a client. What a picture is, its bytes say, never its name; and what Pillow does not know as a
picture is not served at all, so neither SVG nor HTML ever reaches a browser.
"""

import hashlib
import io
import threading
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from anyio import CapacityLimiter
from PIL import Image, ImageOps

from understudy.data.faults import ItemFault
from understudy.data.images import MAX_PIXELS, formats_for, in_rgb
from understudy.data.items import ArrayImages, Items
from understudy.data.pool import Pool
from understudy.errors import NotFound

SERVED_AS_IS: Final = {"JPEG": "image/jpeg", "MPO": "image/jpeg", "PNG": "image/png", "GIF": "image/gif",
                       "WEBP": "image/webp"}  # fmt: skip
EIGHT_BITS: Final = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA"})  # shown alike by all browsers
MAX_BYTES_AS_IS: Final = 8 * 1024 * 1024  # of a file that is sent as it is
MAX_SIDE: Final = 2048  # of one that is not
THUMBNAIL_SIDE: Final = 160
MAX_LOSSLESS_PIXELS: Final = 1024 * 1024  # pixels of a converted picture that stay as they are
MAX_LOSSLESS_THUMBNAIL: Final = 64 * 64  # and of a thumbnail
MAX_CACHED_BYTES: Final = 64 * 1024 * 1024  # bytes of pictures that were converted
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Content:
    """Bytes to send, what they are, and a name that changes with them."""

    body: bytes
    media_type: str
    tag: str


class Contents:
    """The contents of a pool's items. Converted pictures are kept for a while, as many as fit."""

    def __init__(
        self,
        max_bytes_as_is: int = MAX_BYTES_AS_IS,
        max_cached_bytes: int = MAX_CACHED_BYTES,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.max_bytes_as_is, self.max_cached_bytes, self.max_pixels = max_bytes_as_is, max_cached_bytes, max_pixels
        self.kept: OrderedDict[str, Content] = OrderedDict()
        self.size = 0
        self.lock = threading.Lock()
        self.threads = CapacityLimiter(8)  # of their own: no decision waits because many pictures are asked for
        self.large = threading.BoundedSemaphore(2)  # files in memory that are not sent as they are
        self.converting = threading.BoundedSemaphore(2)  # a large picture takes much memory

    def content(self, pool: Pool, row: int) -> Content:
        """The item as people see it."""
        with self.room_for(pool, row):
            return self.make_content(pool, row)

    def thumbnail(self, pool: Pool, row: int) -> Content:
        """The item, small. Texts have none."""
        with self.room_for(pool, row):
            items, raw = _read_item(pool, row)
            if items.kind == "text":
                raise NotFound("a text has no thumbnail; ask for its content")
            if not isinstance(items, ArrayImages):
                self.type_as_is(raw, pool.ids[row])  # an error for what is not a picture
            return self.convert(items, row, raw, THUMBNAIL_SIDE)

    def room_for(self, pool: Pool, row: int) -> AbstractContextManager[object]:
        """Waits for its turn before a large file is even read: a dozen at once would fill the memory."""
        stamp = pool.items.stamp(row) if pool.items is not None and 0 <= row < len(pool) else None
        return nullcontext() if stamp is None or stamp[0] <= self.max_bytes_as_is else self.large

    def make_content(self, pool: Pool, row: int) -> Content:
        items, raw = _read_item(pool, row)
        if items.kind == "text":
            text, _ = _decode(items, row, raw)
            assert isinstance(text, str)
            return Content(text.encode("utf-8", "replace"), TEXT, _tag_of(raw, "text"))
        if not isinstance(items, ArrayImages):
            media_type = self.type_as_is(raw, pool.ids[row])
            if media_type is not None:
                return Content(raw, media_type, _tag_of(raw, "raw"))
        return self.convert(items, row, raw, MAX_SIDE)

    def type_as_is(self, raw: bytes, name: str) -> str | None:
        """The type under which these bytes may be sent as they are; None if they must be converted first."""
        try:
            # Named formats only: Pillow has readers that start other programs.
            with Image.open(io.BytesIO(raw), formats=formats_for(raw)) as image:
                width, height = image.size
                if width * height > self.max_pixels:
                    raise _not_shown(name, f"{width:,} x {height:,} pixels, more than {self.max_pixels:,}")
                plain = image.mode in EIGHT_BITS or (
                    image.mode in ("CMYK", "YCbCr") and image.format in ("JPEG", "MPO")
                )
                return SERVED_AS_IS.get(image.format or "") if plain and len(raw) <= self.max_bytes_as_is else None
        except NotFound:
            raise
        except Exception as error:  # whatever Pillow's readers happen to meet the damage with
            raise _not_shown(name, "not a picture that can be shown") from error

    def convert(self, items: Items, row: int, raw: bytes, side: int) -> Content:
        tag = _tag_of(raw, str(side))
        with self.lock:
            known = self.kept.get(tag)
            if known is not None:
                self.kept.move_to_end(tag)
                return known
        with self.converting:
            body, media_type = _encode(
                _shrink(items, row, raw, side),
                MAX_LOSSLESS_THUMBNAIL if side == THUMBNAIL_SIDE else MAX_LOSSLESS_PIXELS,
            )
        made = Content(body, media_type, tag)
        with self.lock:
            if tag not in self.kept:
                self.kept[tag] = made
                self.size += len(body)
            while self.size > self.max_cached_bytes:
                _, oldest = self.kept.popitem(last=False)
                self.size -= len(oldest.body)
        return made


def _read_item(pool: Pool, row: int) -> tuple[Items, bytes]:
    if pool.items is None:
        raise NotFound("this project has features only, nothing to look at; make it from the items themselves")
    if not 0 <= row < len(pool):
        raise NotFound(f"there is no item {row}; items are 0 to {len(pool) - 1}")
    try:
        return pool.items, pool.items.read(row)
    except ItemFault as error:
        raise _not_shown(pool.ids[row], error.fault.problem) from error


def _decode(items: Items, row: int, raw: bytes) -> tuple[Image.Image | str, object]:
    try:
        return items.decode(row, raw)
    except ItemFault as error:
        raise _not_shown(error.fault.item, error.fault.problem) from error


def _not_shown(name: str, problem: str) -> NotFound:
    return NotFound(f"{name}: {problem}; put it back, or mark it as a bad item")


def _shrink(items: Items, row: int, raw: bytes, side: int) -> Image.Image:
    """The picture, upright, no side longer than `side`."""
    if not isinstance(items, ArrayImages):
        quick = _from_jpeg(raw, side)
        if quick is not None:
            return quick
    image, _ = _decode(items, row, raw)
    assert isinstance(image, Image.Image)
    image.thumbnail((side, side))
    return image


def _from_jpeg(raw: bytes, side: int) -> Image.Image | None:
    """A JPEG decoded at about the size that is wanted, which takes a fraction of the time; None for all else."""
    try:
        with Image.open(io.BytesIO(raw), formats=["JPEG"]) as image:
            image.draft("RGB", (side, side))
            upright = in_rgb(ImageOps.exif_transpose(image), "image")
            upright.thumbnail((side, side))
            return upright
    except Exception:
        return None  # the slow way says what is wrong with it


def _encode(image: Image.Image, lossless: int) -> tuple[bytes, str]:
    """As PNG up to `lossless` pixels, else as JPEG."""
    buffer = io.BytesIO()
    if image.width * image.height <= lossless:
        image.save(buffer, "PNG")
        return buffer.getvalue(), "image/png"
    image.save(buffer, "JPEG", quality=88)
    return buffer.getvalue(), "image/jpeg"


def _tag_of(raw: bytes, variant: str) -> str:
    return f'"{hashlib.sha256(raw).hexdigest()[:32]}-{variant}"'
