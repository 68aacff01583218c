"""Decoding: the bytes of an image file to eight-bit RGB, or a fault that says what is wrong with it."""

import base64
import io
import re
from functools import cache
from importlib.util import find_spec
from typing import Final

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from understudy.data.faults import Fault, ItemFault
from understudy.messages import install_command, reason_of

# What Pillow opens and people keep pictures in. A folder is searched for these endings, in any case.
SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".avif", ".jp2"}
)
# And nothing else, whatever a file is called: some of what Pillow opens starts other programs.
FORMATS: Final = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "AVIF", "JPEG2000")
HEIC: Final = "HEIF"  # what Pillow calls the photographs of phones, once another package has taught it to read them
HEIC_SUFFIXES: Final = frozenset({".heic", ".heif", ".hif"})
_HEIC_BRANDS: Final = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})
MAX_BYTES: Final = 1 << 30  # of a file; none with fewer pixels than the next line allows is near this
MAX_PIXELS: Final = Image.MAX_IMAGE_PIXELS or 2**26  # Pillow's own line between a photograph and an attack


def reads_heic() -> bool:
    """Whether the package that reads HEIC is installed."""
    return find_spec("pillow_heif") is not None


def formats_for(content: bytes) -> tuple[str, ...]:
    """The formats that these bytes may be in. The reader of HEIC is loaded only for what looks like HEIC."""
    is_heic = content[4:8] == b"ftyp" and content[8:12] in _HEIC_BRANDS
    return (*FORMATS, HEIC) if is_heic and reads_heic() and _register_heic() else FORMATS


@cache
def _register_heic() -> bool:
    """Teach Pillow to read HEIC; False where the package is there and does not work."""
    try:
        from pillow_heif import register_heif_opener

        register_heif_opener()
    except Exception:  # a library of the system that does not fit, say
        return False
    return True


def decode(content: bytes, name: str) -> tuple[Image.Image, tuple[Fault, ...]]:
    """The image as RGB, upright, and what had to be decided to get it. An unusable one raises ItemFault."""
    if not content:
        raise ItemFault(Fault(name, "the file is empty", "copy it again or remove it"))
    try:
        with Image.open(io.BytesIO(content), formats=formats_for(content)) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise _huge(name, f"{width:,} x {height:,} pixels")
            frames, mode = getattr(image, "n_frames", 1), image.mode
            image.load()
            upright = ImageOps.exif_transpose(image)
            return in_rgb(upright, name), _notes(name, mode, frames)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        pixels = re.search(r"\d+", str(error))
        raise _huge(name, f"{int(pixels.group()):,} pixels" if pixels else "too many pixels") from error
    except UnidentifiedImageError as error:
        if content[4:8] == b"ftyp" and content[8:12] in _HEIC_BRANDS and not reads_heic():
            raise ItemFault(Fault(name, "HEIC, which needs one more package", install_command("heic"))) from error
        raise ItemFault(Fault(name, "none of the image formats that are read", "convert it to PNG or JPEG")) from error
    except ItemFault:
        raise
    except MemoryError as error:
        raise ItemFault(Fault(name, "no memory to decode it", "make it smaller, or use fewer workers")) from error
    except Exception as error:
        # Pillow's decoders report damage with whatever exception they happen to meet it with.
        reason = reason_of(error)
        raise ItemFault(Fault(name, f"broken or truncated ({reason})", "copy it again or remove it")) from error


def in_rgb(image: Image.Image, name: str) -> Image.Image:
    """Eight bits a channel: sixteen are scaled down, transparency lies on white."""
    if image.mode.startswith("I;16"):
        return _from_wide(np.asarray(image))
    if image.mode == "I":
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise ItemFault(Fault(name, "32-bit integers, which have no brightest value", "convert it to 8 or 16 bits"))
        return _from_wide(values)
    if image.mode == "F":
        raise ItemFault(Fault(name, "floating-point pixels, which have no brightest value", "convert it to 8 bits"))
    if image.mode in {"RGBA", "LA", "PA", "RGBa", "La"} or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def _from_wide(values: np.ndarray) -> Image.Image:
    """Sixteen bits of grey as eight, rounded: 65535 is white."""
    return Image.fromarray(((values.astype(np.uint32) * 255 + 0x7FFF) // 0xFFFF).astype(np.uint8)).convert("RGB")


def _notes(name: str, mode: str, frames: int) -> tuple[Fault, ...]:
    """What a person should know of an image that is used all the same."""
    found = []
    if frames > 1:
        found.append(Fault(name, f"animated or of several pages, {frames}", "the first is used", used=True))
    if mode == "CMYK":
        found.append(Fault(name, "CMYK colours", "converted to RGB without a colour profile", used=True))
    if mode.startswith("I"):
        found.append(Fault(name, "16 bits of grey", "scaled to 8 bits", used=True))
    return tuple(found)


def _huge(name: str, size: str) -> ItemFault:
    return ItemFault(Fault(name, f"{size}, more than {MAX_PIXELS:,}", "make it smaller"))


def thumbnail_uri(image: Image.Image, pixels: int) -> str:
    """A small picture as a data URI; its longer side has at most so many pixels."""
    small = image.convert("RGB")
    small.thumbnail((pixels, pixels))
    file = io.BytesIO()
    # Drawings with few colours stay sharp as PNG; a photograph as PNG would be four times as large.
    tiny = small.width * small.height <= 32 * 32
    small.save(file, "PNG" if tiny else "JPEG", **({"optimize": True} if tiny else {"quality": 82}))
    return f"data:image/{'png' if tiny else 'jpeg'};base64,{base64.b64encode(file.getvalue()).decode()}"
