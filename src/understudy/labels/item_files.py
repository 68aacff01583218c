"""Items as files of their own: what each holds, and a name that every system can store."""

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
from understudy.data.shown_items import PinnedImages

LONGEST: Final = 180  # bytes of one part of a path; file systems take 255, and a suffix may follow
UNSAFE: Final = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*%\u2028\u2029\ud800-\udfff]|^[. ]|[. ]$')
FILES: Final = (ImageFiles, PinnedImages)  # items that are files of their own, with `paths` to them
RESERVED: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)", re.IGNORECASE)


def item_file(items: Items, row: int) -> tuple[bytes, str]:
    """What the file of an item holds, and its usual suffix; ItemFault where the item cannot be read."""
    content = items.read(row)
    if items.kind == "text":
        return content, ".txt"
    suffix = "" if isinstance(items, ArrayImages) else _image_suffix(content)
    if suffix:
        return content, suffix
    try:
        image, _ = items.decode(row, content)  # no file of its own: pixels of an array
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
    """The name, with a suffix after it where it has none of this kind: pictures keep theirs."""
    own = PurePosixPath(name).suffix.lower()
    return name if own == suffix or (suffix != ".txt" and own in SUFFIXES) else name + suffix


def safe_name(name: str) -> str:
    """One part of a path, for every system: what is not allowed there is written %XX; no part stays empty.

    It never leads out of its folder, hides, or is a device of Windows.
    """
    safe = UNSAFE.sub(lambda found: _percents(found.group()), name)
    if RESERVED.match(safe):
        safe = _percents(safe[0]) + safe[1:]
    return _shortened(safe) or "%"


def _shortened(name: str) -> str:
    """The name, its end replaced by a digest of all of it where it is too long."""
    content = name.encode()
    if len(content) <= LONGEST:
        return name
    suffix = PurePosixPath(name).suffix
    suffix = suffix if suffix.isascii() and len(suffix) <= 8 else ""
    return f"{content[:140].decode(errors='ignore')}~{hashlib.sha256(content).hexdigest()[:16]}{suffix}"


def _percents(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def item_names(ids: Sequence[str], items: Items | None = None) -> list[str]:
    """A relative path for each item: safe, and distinct also where a system takes A and a for the same."""
    named = [with_suffix(name, _known_suffix(items, row)) for row, name in enumerate(ids)]
    safe = ["/".join(map(safe_name, re.split(r"[/\\]", name))) for name in named]
    files = set(safe)
    flat = [name.replace("/", "%2F") if any(map(files.__contains__, _folders(name))) else name for name in safe]
    return distinct(flat)


def _folders(name: str) -> list[str]:
    """The folders that a path lies in."""
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with ~2, ~3 and so on in those that some system would take for an earlier one."""
    seen: set[str] = set()
    found = []
    for name in names:
        count, unique = 1, name
        while folded(unique) in seen:
            count, path = count + 1, PurePosixPath(name)
            unique = str(path.with_name(f"{path.stem}~{count}{path.suffix}"))
        seen.add(folded(unique))
        found.append(unique)
    return found


def folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
