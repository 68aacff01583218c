"""Pictures and texts as they are sent: only what is a picture, as what it is, and nothing that runs."""

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.data.test_heic import heic
from tests.web.serving import Served
from understudy.data.items import ArrayImages, ImageFiles, Texts
from understudy.data.pool import Pool
from understudy.errors import NotFound
from understudy.web.content import TEXT, Contents

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HTML = b"<!doctype html><script>alert(1)</script>"


def picture(folder: Path, name: str, size: tuple[int, int] = (30, 20), mode: str = "RGB", **options: Any) -> Path:
    rng = np.random.default_rng(0)
    pixels = Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), np.uint8))
    path = folder / name
    (pixels.convert(mode) if mode != "RGB" else pixels).save(path, **options)
    return path


def pool_of(*paths: Path) -> Pool:
    names = [path.name for path in paths]
    return Pool(tuple(names), ImageFiles(paths, names))


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("a.png", "image/png"), ("a.jpg", "image/jpeg"), ("a.gif", "image/gif"), ("a.webp", "image/webp")],
)
def test_what_browsers_show_is_sent_as_it_is(tmp_path: Path, name: str, media_type: str) -> None:
    path = picture(tmp_path, name)
    found = Contents().content(pool_of(path), 0)
    assert found.body == path.read_bytes()
    assert found.media_type == media_type


def test_a_picture_is_what_its_bytes_say_whatever_its_name(tmp_path: Path) -> None:
    path = picture(tmp_path, "a.gif")
    renamed = path.rename(tmp_path / "a.png")
    assert Contents().content(pool_of(renamed), 0).media_type == "image/gif"


@pytest.mark.parametrize("name", ["a.tiff", "a.bmp", "a.ppm"])
def test_other_pictures_are_converted_without_loss(tmp_path: Path, name: str) -> None:
    path = picture(tmp_path, name)
    found = Contents().content(pool_of(path), 0)
    assert found.media_type == "image/png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(found.body))), np.asarray(Image.open(path)))


def test_photographs_in_heic_are_converted(tmp_path: Path) -> None:
    (tmp_path / "a.heic").write_bytes(heic(size=(60, 40)))
    for look in (Contents().content, Contents().thumbnail):
        found = look(pool_of(tmp_path / "a.heic"), 0)
        assert found.media_type in ("image/png", "image/jpeg")
        with Image.open(io.BytesIO(found.body)) as shown:
            assert shown.size == (60, 40)


def test_sixteen_bits_of_grey_are_converted(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 65535, np.uint16)).save(tmp_path / "a.png")
    found = Contents().content(pool_of(tmp_path / "a.png"), 0)
    with Image.open(io.BytesIO(found.body)) as shown:
        assert shown.mode == "RGB"
        assert np.asarray(shown).min() == 255


@pytest.mark.parametrize(
    "raw", [SVG, HTML, b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"%PDF-1.4"]
)
def test_what_is_no_picture_is_never_sent(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.png").write_bytes(raw)
    pool = pool_of(tmp_path / "a.png")
    for look in (Contents().content, Contents().thumbnail):
        with pytest.raises(NotFound, match="bad item"):
            look(pool, 0)


def test_a_picture_with_a_page_behind_it_is_still_a_picture(tmp_path: Path) -> None:
    path = picture(tmp_path, "a.gif")
    path.write_bytes(path.read_bytes() + HTML)
    assert Contents().content(pool_of(path), 0).media_type == "image/gif"


def test_a_vanished_picture_is_said_plainly(tmp_path: Path) -> None:
    path = picture(tmp_path, "a.png")
    pool = pool_of(path)
    path.unlink()
    with pytest.raises(NotFound, match=r"a\.png: no such file; put it back, or mark it as a bad item"):
        Contents().content(pool, 0)


def test_a_huge_picture_is_made_smaller_and_an_absurd_one_refused(tmp_path: Path) -> None:
    path = picture(tmp_path, "a.png", (3000, 100))
    found = Contents(max_bytes_as_is=1000).content(pool_of(path), 0)
    with Image.open(io.BytesIO(found.body)) as shown:
        assert shown.size == (2048, 68)
    with pytest.raises(NotFound, match="more than"):
        Contents(max_pixels=1000).content(pool_of(path), 0)


@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_a_thumbnail_is_small_and_upright(tmp_path: Path, name: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    path = picture(tmp_path, name, (900, 300), exif=exif)
    found = Contents().thumbnail(pool_of(path), 0)
    with Image.open(io.BytesIO(found.body)) as shown:
        assert shown.size in ((53, 160), (54, 160))
        assert found.media_type == "image/jpeg"


def test_eight_by_eight_pixels_stay_eight_by_eight() -> None:
    pixels = np.arange(128, dtype=np.uint8).reshape(2, 8, 8)
    pool = Pool(("0", "1"), ArrayImages(pixels))
    for found in (Contents().content(pool, 1), Contents().thumbnail(pool, 1)):
        assert found.media_type == "image/png"
        with Image.open(io.BytesIO(found.body)) as shown:
            assert np.array_equal(np.asarray(shown)[..., 0], pixels[1])


def test_texts_are_plain_and_have_no_thumbnail() -> None:
    pool = Pool(("0", "1"), Texts(["<script>alert(1)</script>", "half \ud800 a character"]))
    found = Contents().content(pool, 0)
    assert (found.body, found.media_type) == (b"<script>alert(1)</script>", TEXT)
    assert Contents().content(pool, 1).body.decode().startswith("half ")
    with pytest.raises(NotFound, match="no thumbnail"):
        Contents().thumbnail(pool, 0)


def test_converted_pictures_are_kept_within_bounds() -> None:
    contents = Contents(max_cached_bytes=5000)
    pool = Pool(
        tuple(map(str, range(50))), ArrayImages(np.random.default_rng(0).integers(0, 255, (50, 20, 20), np.uint8))
    )
    first = contents.thumbnail(pool, 0)
    assert contents.thumbnail(pool, 0) is first
    for row in range(50):
        contents.thumbnail(pool, row)
    assert 0 < contents.size <= 5000
    assert contents.size == sum(len(kept.body) for kept in contents.kept.values())


def test_large_files_are_read_two_at_a_time_and_small_ones_meanwhile(tmp_path: Path) -> None:
    together = Together([picture(tmp_path, "a.png", (200, 100)), picture(tmp_path, "b.png")])
    assert together.paths[0].stat().st_size > 10_000 > together.paths[1].stat().st_size
    contents, pool = Contents(max_bytes_as_is=10_000), Pool(("a", "b"), together)
    with ThreadPoolExecutor(12) as threads:
        found = [threads.submit(contents.thumbnail, pool, 0) for _ in range(10)]
        small = threads.submit(contents.content, pool, 1)
        assert small.result().media_type == "image/png"
        assert len({waited.result().tag for waited in found}) == 1
    assert together.most == 2


class Together(ImageFiles):
    """Images of which it is counted how many large ones are read at once."""

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths)
        self.now = self.most = 0
        self.are_two = threading.Event()

    def read(self, row: int) -> bytes:
        if row == 0:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == 2:
                self.are_two.set()
            self.are_two.wait()
            time.sleep(0.02)  # for a third
            self.now -= 1
        return super().read(row)


def test_a_row_outside_the_pool_and_a_pool_of_features_are_not_found() -> None:
    pool = Pool(("0",), Texts(["a"]))
    for row in (-1, 1):
        with pytest.raises(NotFound, match="there is no item"):
            Contents().content(pool, row)
    with pytest.raises(NotFound, match="features only"):
        Contents().content(Pool(("0",)), 0)


def test_what_a_browser_has_is_not_sent_again(server: Served) -> None:
    first = server.client.get("/api/items/3/content")
    assert first.headers["content-type"] == "image/png"
    assert "private" in first.headers["cache-control"]
    assert "sandbox" in first.headers["content-security-policy"]
    again = server.client.get("/api/items/3/content", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = server.client.get("/api/items/4/content", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200
