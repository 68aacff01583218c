"""HEIC, the photographs of phones: read where the package is there, else counted out loud."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy.data import images
from understudy.data.faults import ItemFault
from understudy.data.folders import load_folder
from understudy.errors import UsageError

# The first bytes of a HEIC file; enough to be known by.
HEAD = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + b"\x00" * 40


def heic(shade: int = 200, size: tuple[int, int] = (32, 16)) -> bytes:
    pillow_heif = pytest.importorskip("pillow_heif")
    pixels = np.full((size[1], size[0], 3), shade, np.uint8)
    pixels[:, : size[0] // 2, 0] = 0
    file = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(pixels)).save(file, quality=95)
    return file.getvalue()


def test_a_heic_file_is_decoded_and_its_reader_is_used_for_nothing_else() -> None:
    image, notes = images.decode(heic(), "a.heic")
    assert (image.mode, image.size, notes) == ("RGB", (32, 16), ())
    left, right = np.asarray(image)[8, 4], np.asarray(image)[8, 28]
    assert left[0] < 40 < right[0]
    assert images.HEIC not in images.formats_for(b"\xff\xd8\xff\xe0")


def test_a_folder_of_heic_files_is_a_pool(tmp_path: Path) -> None:
    (tmp_path / "IMG_1.HEIC").write_bytes(heic())
    Image.new("RGB", (4, 4)).save(tmp_path / "b.png")
    pool = load_folder(tmp_path).pool
    assert pool.ids == ("IMG_1.HEIC", "b.png")
    assert pool.faults == ()


def test_without_the_package_they_are_counted_out_loud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "reads_heic", lambda: False)
    for number in range(3):
        (tmp_path / f"{number}.heic").write_bytes(HEAD)
    with pytest.raises(UsageError, match=r"has 3 \.heic files, and HEIC needs one more package: pip install"):
        load_folder(tmp_path)
    Image.new("RGB", (4, 4)).save(tmp_path / "b.png")
    (tmp_path / "clip.mov").touch()
    heic_note, other = map(str, load_folder(tmp_path).pool.faults)
    assert heic_note.startswith("3 .heic files: left out, as HEIC needs one more package; pip install")
    assert other.startswith("1 file: left out, not images judging by their names: 1 .mov (clip.mov)")
    with pytest.raises(ItemFault, match=r"needs one more package; pip install 'understudy-al\[heic\]'"):
        images.decode(HEAD, "0.heic")


def test_a_damaged_heic_file_is_a_fault() -> None:
    with pytest.raises(ItemFault):
        images.decode(heic()[:200], "a.heic")
