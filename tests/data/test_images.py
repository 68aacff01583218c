"""Images of every odd kind, written by Pillow or by hand: decoded to upright RGB, or named with what is wrong."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from understudy.data.faults import ItemFault
from understudy.data.images import MAX_PIXELS, SUFFIXES, decode

RNG = np.random.default_rng(0)
NOISE = Image.fromarray(RNG.integers(0, 256, (40, 30, 3), dtype=np.uint8))
DEEP = np.array([[0, 65535], [128, 32768]], dtype=np.uint16)


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A PNG whose header claims this size, with next to no data behind it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")
    )


def problem(content: bytes) -> str:
    with pytest.raises(ItemFault) as caught:
        decode(content, "x.png")
    assert caught.value.fault.item == "x.png"
    assert caught.value.fault.remedy
    assert "\n" not in str(caught.value)
    return caught.value.fault.problem


def pixels(content: bytes) -> np.ndarray:
    image, _ = decode(content, "x.png")
    assert image.mode == "RGB"
    return np.asarray(image)


@pytest.mark.parametrize("form", ["PNG", "BMP", "PPM", "TIFF"])
def test_what_is_stored_without_loss_comes_back(form: str) -> None:
    assert np.array_equal(pixels(encoded(NOISE, form)), np.asarray(NOISE))


def test_pillow_opens_every_ending_that_folders_are_searched_for() -> None:
    Image.init()
    assert set(Image.registered_extensions()) >= SUFFIXES


def test_a_plain_image_comes_without_notes() -> None:
    assert decode(encoded(NOISE, "JPEG"), "x.jpg")[1] == ()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"])
def test_a_single_pixel_of_any_kind_is_an_image(mode: str) -> None:
    assert pixels(encoded(Image.new(mode, (1, 1)), "PNG")).shape == (1, 1, 3)


def test_an_empty_file_is_a_fault() -> None:
    assert problem(b"") == "the file is empty"


@pytest.mark.parametrize("content", [b"hello", b"\0" * 1000, b"<svg/>"])
def test_what_is_no_image_is_a_fault(content: bytes) -> None:
    assert problem(content) == "none of the image formats that are read"


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP", "PPM"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_truncated_file_is_a_fault(form: str, share: float) -> None:
    content = encoded(NOISE, form)
    assert problem(content[: int(len(content) * share)]).startswith("broken or truncated (")


@given(st.sampled_from(["JPEG", "PNG", "WEBP", "TIFF", "GIF", "AVIF"]), st.data())
def test_damage_anywhere_gives_an_image_or_a_fault_and_nothing_else(form: str, data: st.DataObject) -> None:
    content = bytearray(encoded(NOISE, form))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    try:
        image, _ = decode(bytes(content), "x")
    except ItemFault:
        return
    assert image.mode == "RGB"


@pytest.mark.parametrize("size", [(100_000, 100_000), (10_000, 10_000)])
def test_an_image_of_absurd_size_is_a_fault_before_it_is_decoded(size: tuple[int, int]) -> None:
    found = problem(png_of_size(*size))
    assert f"{size[0] * size[1]:,} pixels" in found
    assert f"more than {MAX_PIXELS:,}" in found


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_somewhat_too_large_is_a_fault_also_where_pillow_only_warns() -> None:
    assert problem(png_of_size(10_000, 10_000)).startswith("10,000 x 10,000 pixels, more than")


def test_cmyk_becomes_rgb_with_a_note() -> None:
    image, notes = decode(encoded(Image.new("CMYK", (2, 2), (0, 255, 255, 0)), "TIFF"), "x.tif")
    assert image.getpixel((0, 0)) == (255, 0, 0)
    assert [note.used for note in notes] == [True]
    assert "CMYK" in notes[0].problem


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
def test_sixteen_bits_of_grey_are_scaled_to_eight(form: str) -> None:
    image, notes = decode(encoded(Image.fromarray(DEEP), form), "x")
    assert np.asarray(image)[..., 0].tolist() == [[0, 255], [0, 128]]  # 128 of 65,535 is half a step of 255
    assert "16 bits" in notes[0].problem
    assert notes[0].used


def test_integers_of_32_bits_are_read_where_16_hold_them_and_a_fault_where_not() -> None:
    narrow = Image.fromarray(DEEP.astype(np.int32))
    assert pixels(encoded(narrow, "TIFF"))[0, 1].tolist() == [255, 255, 255]
    assert "32-bit integers" in problem(encoded(Image.fromarray(DEEP.astype(np.int32) * 1000), "TIFF"))


def test_floating_point_pixels_are_a_fault() -> None:
    assert "floating-point" in problem(encoded(Image.fromarray(np.ones((2, 2), np.float32)), "TIFF"))


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_an_animation_the_first_image_is_used(form: str) -> None:
    red, *others = (Image.new("RGB", (4, 4), colour) for colour in ("red", "lime", "blue"))
    image, notes = decode(encoded(red, form, save_all=True, append_images=others), "x")
    assert np.allclose(np.asarray(image)[0, 0], (255, 0, 0), atol=3)
    assert "3" in notes[0].problem
    assert notes[0].used


@pytest.mark.parametrize(
    ("colour", "seen"), [((0, 0, 0, 0), 255), ((0, 0, 0, 255), 0), ((0, 0, 0, 127), 128), ((255, 255, 255, 9), 255)]
)
def test_transparency_lies_on_white(colour: tuple[int, ...], seen: int) -> None:
    assert pixels(encoded(Image.new("RGBA", (1, 1), colour), "PNG"))[0, 0].tolist() == [seen] * 3


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_a_transparent_colour_of_a_palette_is_white(form: str) -> None:
    image = Image.new("P", (2, 1), 0)
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((1, 0), 1)
    assert pixels(encoded(image, form, transparency=0)).tolist() == [[[255, 255, 255], [0, 0, 255]]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_turned_upright(orientation: int) -> None:
    upright = Image.new("RGB", (4, 2), "black")
    upright.putpixel((0, 0), (255, 255, 255))
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(undo[orientation]) if orientation > 1 else upright
    exif = stored.getexif()
    exif[274] = orientation
    assert np.array_equal(pixels(encoded(stored, "PNG", exif=exif)), np.asarray(upright))
