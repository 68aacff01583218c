"""Items as files of their own: what each holds, and a name that every file system can store."""

import hashlib
import io
import re
import unicodedata
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from PIL import Image, UnidentifiedImageError

from understudy.data.faults import ItemFault
from understudy.data.images import SUFFIXES
from understudy.data.items import ArrayImages, ImageFiles, Items
from understudy.data.pinned_images import PinnedImageFiles

MAX_PART_BYTES: Final = 180  # of one part of a path; file systems take 255, and a suffix may follow
UNSAFE: Final = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*%\u2028\u2029\ud800-\udfff]|^[. ]|[. ]$')
FILES: Final = (ImageFiles, PinnedImageFiles)  # items that are files of their own, with `paths` to them
WINDOWS_DEVICES: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)", re.IGNORECASE)


def item_file(items: Items, row: int) -> tuple[bytes, str]:
    """What the file of an item holds, and its usual suffix; ItemFault where the item cannot be read."""
    content = items.read(row)
    if items.kind == "text":
        return content, ".txt"
    suffix = "" if isinstance(items, ArrayImages) else _image_suffix(content)
    if suffix:
        return content, suffix
    try:
        image, _ = items.decode(row, content)  # pixels of an array, not a file
    except ItemFault:
        return content, ""
    assert isinstance(image, Image.Image)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue(), ".png"


def _known_suffix(items: Items | None, row: int) -> str:
    """The suffix of an item's file, where it is known without reading it."""
    if isinstance(items, FILES):
        return items.paths[row].suffix.lower()
    if isinstance(items, ArrayImages):
        return ".png"
    return ".txt" if items is not None and items.kind == "text" else ""


def _image_suffix(content: bytes) -> str:
    try:
        with Image.open(io.BytesIO(content)) as image:
            form = (image.format or "").lower()
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return ""
    suffix = {"jpeg": ".jpg", "jpeg2000": ".jp2", "mpo": ".jpg"}.get(form, f".{form}")
    return suffix if suffix in SUFFIXES else ""


def with_suffix(name: str, suffix: str) -> str:
    """The name with this suffix, unless it has one of its kind: images keep theirs."""
    own = PurePosixPath(name).suffix.lower()
    return name if own == suffix or (suffix != ".txt" and own in SUFFIXES) else name + suffix


def safe_name(name: str) -> str:
    """One part of a path that every system accepts: other characters are written %XX; it is never empty.

    It never leads out of its folder, is never hidden, and never names a Windows device.
    """
    safe = UNSAFE.sub(lambda found: _percent_encode(found.group()), name)
    if WINDOWS_DEVICES.match(safe):
        safe = _percent_encode(safe[0]) + safe[1:]
    return _shorten(safe) or "%"


def _shorten(name: str) -> str:
    """The name; if it is too long, its end is replaced by a digest of the whole."""
    content = name.encode()
    if len(content) <= MAX_PART_BYTES:
        return name
    suffix = PurePosixPath(name).suffix
    suffix = suffix if suffix.isascii() and len(suffix) <= 8 else ""
    return f"{content[:140].decode(errors='ignore')}~{hashlib.sha256(content).hexdigest()[:16]}{suffix}"


def _percent_encode(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def item_names(ids: Sequence[str], items: Items | None = None) -> list[str]:
    """A relative path for each item: safe, and distinct also on systems where A and a are the same."""
    named = [with_suffix(name, _known_suffix(items, row)) for row, name in enumerate(ids)]
    safe = ["/".join(map(safe_name, re.split(r"[/\\]", name))) for name in named]
    files = set(safe)
    flat = [name.replace("/", "%2F") if any(map(files.__contains__, _parent_folders(name))) else name for name in safe]
    return distinct_names(flat)


def _parent_folders(name: str) -> list[str]:
    """The folders that a path lies in."""
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with ~2, ~3 and so on in those that some system would confuse with an earlier one."""
    seen: set[str] = set()
    found = []
    for name in names:
        count, unique = 1, name
        while fold_name(unique) in seen:
            count, path = count + 1, PurePosixPath(name)
            unique = str(path.with_name(f"{path.stem}~{count}{path.suffix}"))
        seen.add(fold_name(unique))
        found.append(unique)
    return found


def fold_name(name: str) -> str:
    """What systems that ignore case and compatibility forms compare."""
    return unicodedata.normalize("NFKC", name).casefold()
