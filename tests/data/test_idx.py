"""FashionMNIST from small files in the official format, and from broken ones."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy.data.datasets import idx, load_named
from understudy.data.datasets.idx import CLASSES, FASHION_MNIST
from understudy.errors import UnderstudyError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 28, 28), dtype=np.uint8)


def images_file(pixels: np.ndarray, magic: int = 0x803) -> bytes:
    return struct.pack(">4I", magic, *pixels.shape) + pixels.tobytes()


def labels_file(labels: list[int], magic: int = 0x801) -> bytes:
    return struct.pack(">2I", magic, len(labels)) + bytes(labels)


def official(folder: Path, pack: Callable[[bytes], bytes] = gzip.compress, ending: str = ".gz") -> Path:
    """Seven images to label and three to test on, in the four files of the set."""
    for name, content in (
        (IMAGES, images_file(PIXELS)),
        (LABELS, labels_file([9, 0, 1, 2, 3, 4, 5])),
        ("t10k-images-idx3-ubyte", images_file(PIXELS[:3, ::-1])),
        ("t10k-labels-idx1-ubyte", labels_file([6, 7, 8])),
    ):
        (folder / f"{name}{ending}").write_bytes(pack(content))
    return folder


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (bytes, ""), (bytes, ".gz")])
def test_images_and_labels_are_those_of_the_files(tmp_path: Path, pack: Callable[[bytes], bytes], ending: str) -> None:
    data = load_named("fashion_mnist", folder=official(tmp_path, pack, ending))
    assert data.pool.ids[:2] == ("train/00000", "train/00001")
    assert data.pool.labels is not None
    assert data.pool.labels.tolist() == [9, 0, 1, 2, 3, 4, 5]
    assert data.pool.classes[9] == "Ankle boot"
    assert data.pool.items is not None
    image, _ = data.pool.items.decode(2, data.pool.items.read(2))
    assert isinstance(image, Image.Image)
    assert (np.asarray(image) == PIXELS[2][:, :, None]).all()
    assert data.test is not None
    assert (data.test.ids[-1], data.test.labels is not None and data.test.labels[-1]) == ("test/00002", 8)


def test_content_that_is_not_the_official_one_is_noted_and_used(tmp_path: Path) -> None:
    notes = load_named("fashion_mnist", folder=official(tmp_path), on_error="fail").pool.faults
    assert {note.item for note in notes} == {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                             "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}  # fmt: skip
    assert all(note.used for note in notes)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (IMAGES, gzip.compress(images_file(PIXELS))[:-100], "cannot be read to its end"),
        (IMAGES, b"\x1f\x8b" + bytes(50), "cannot be read to its end"),
        (IMAGES, images_file(PIXELS, magic=0x801), "begins with 0x00000801 where 0x00000803"),
        (IMAGES, images_file(PIXELS, magic=0xD03), "begins with 0x00000d03"),  # floats
        (IMAGES, images_file(PIXELS)[:-1], "5,487 bytes follow where its head promises 7 x 28 x 28"),
        (IMAGES, images_file(PIXELS) + b"\0", "5,489 bytes follow"),
        (IMAGES, struct.pack(">4I", 0x803, 2**31, 2**31, 2**31), "0 bytes follow"),
        (IMAGES, images_file(PIXELS)[:10], "10 bytes where the head alone has 16"),
        (IMAGES, b"", "0 bytes where the head alone has 16"),
        (LABELS, labels_file([0] * 6), "6 labels for the 7 images"),
        (LABELS, labels_file([0] * 6 + [10]), "label 10 where 0 to 9 are classes"),
        (LABELS, labels_file([0] * 7, magic=0x803), "begins with 0x00000803 where 0x00000801"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path, file: str, content: bytes, words: str) -> None:
    (official(tmp_path) / f"{file}.gz").write_bytes(content)
    with pytest.raises(UnderstudyError, match=f"{file}.*{words}.*download it again") as broken:
        load_named("fashion_mnist", folder=tmp_path)
    assert "\n" not in str(broken.value)


def test_three_files_are_not_the_set(tmp_path: Path) -> None:
    (official(tmp_path) / f"{LABELS}.gz").unlink()
    with pytest.raises(
        UnderstudyError, match=f"is not here: put .*{LABELS}.gz .* into {tmp_path}, .*--get fashion_mnist"
    ):
        load_named("fashion_mnist", folder=tmp_path)
    with pytest.raises(UnderstudyError, match=f"{LABELS}.gz is missing in {tmp_path}; .*--get fashion_mnist"):
        idx.load(tmp_path)  # it vanished since it was found


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    folder = official(tmp_path)
    with pytest.raises(UnderstudyError, match=f"{IMAGES}.gz .*more than 5,000 bytes"):
        idx.content_of(folder, IMAGES, max_bytes=5000)


def test_there_is_a_name_for_each_class() -> None:
    assert len(set(CLASSES)) == FASHION_MNIST.n_classes
