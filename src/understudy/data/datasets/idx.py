"""FashionMNIST: 28 x 28 grey images of clothes, in four IDX files."""

import gzip
import io
import math
import struct
import zlib
from pathlib import Path
from typing import Final

import numpy as np

from understudy.data.datasets.source import DatasetSource, Remote, note_differing
from understudy.data.items import ArrayImages
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError

CLASSES: Final = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
PARTS: Final = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
                "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")}  # fmt: skip
FILES: Final = tuple(name for pair in PARTS.values() for name in pair)
# Of the content: Debian packs the same bytes with another gzip.
OFFICIAL: Final = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}
HOST: Final = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
UNSIGNED_BYTES: Final = 0x08  # the only one of IDX's types that these sets use
MAX_BYTES: Final = 1 << 30


def _find(folder: Path) -> Path | None:
    """The folder, if all four files are in it."""
    here = all((folder / f"{name}.gz").exists() or (folder / name).exists() for name in FILES)
    return folder if here else None


def load(folder: Path) -> Dataset:
    """60,000 images to label and 10,000 to test on, in the order of the files."""
    contents = {name: content_of(folder, name) for name in FILES}
    parts = {part: _labelled_images(part, contents) for part in PARTS}
    faults = note_differing(contents, OFFICIAL)
    pools = {
        part: Pool(
            ids=tuple(f"{part}/{row:05d}" for row in range(len(labels))),
            items=ArrayImages(pixels),
            labels=labels,
            classes=CLASSES,
            faults=faults if part == "train" else (),
        )
        for part, (pixels, labels) in parts.items()
    }
    return Dataset("fashion_mnist", pools["train"], pools["test"])


def _labelled_images(part: str, contents: dict[str, bytes]) -> tuple[np.ndarray, np.ndarray]:
    images_file, labels_file = PARTS[part]
    pixels = parse(contents[images_file], images_file, axes=3)
    labels = parse(contents[labels_file], labels_file, axes=1).astype(np.int64)
    if len(pixels) != len(labels):
        raise _broken(labels_file, f"{len(labels):,} labels for the {len(pixels):,} images of {images_file}")
    if len(labels) and labels.max() >= len(CLASSES):
        raise _broken(labels_file, f"label {labels.max()} where 0 to {len(CLASSES) - 1} are classes")
    return pixels, labels


def parse(content: bytes, name: str, axes: int) -> np.ndarray:
    """The array in an IDX file: two zeros, type, number of axes, their lengths, then the bytes."""
    head = 4 + 4 * axes
    if len(content) < head:
        raise _broken(name, f"{len(content)} bytes where the head alone has {head}")
    magic, *shape = struct.unpack(f">{1 + axes}I", content[:head])
    if magic != UNSIGNED_BYTES << 8 | axes:
        raise _broken(name, f"it begins with {magic:#010x} where {UNSIGNED_BYTES << 8 | axes:#010x} was expected")
    if len(content) - head != math.prod(shape):
        sizes = " x ".join(map(str, shape))
        raise _broken(name, f"{len(content) - head:,} bytes follow where its head promises {sizes}")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def content_of(folder: Path, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """A file's bytes, unpacked if it is packed; an error if they are more than `max_bytes`."""
    for path in (folder / f"{name}.gz", folder / name):
        try:
            with path.open("rb") as file:
                packed = file.read(2) == b"\x1f\x8b"  # by its content: names are changed by browsers
                file.seek(0)
                content = _read_at_most(max_bytes, gzip.GzipFile(fileobj=file) if packed else file, path)
        except FileNotFoundError:
            continue
        except (OSError, EOFError, zlib.error) as error:
            raise _broken(str(path), f"it cannot be read to its end ({error})") from error
        return content
    raise UnderstudyError(
        f"{name}.gz is missing in {folder}; put it there or run: understudy datasets --get fashion_mnist"
    )


def _read_at_most(max_bytes: int, file: io.BufferedIOBase, path: Path) -> bytes:
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise _broken(str(path), f"it has more than {max_bytes:,} bytes")
    return content


def _broken(name: str, problem: str) -> UnderstudyError:
    return UnderstudyError(f"{name} is not what it should be: {problem}; download it again")


FASHION_MNIST: Final = DatasetSource(
    name="fashion_mnist",
    title="FashionMNIST",
    n_pool=60_000,
    n_test=10_000,
    n_classes=10,
    find=_find,
    load=load,
    files=(
        Remote(
            "train-images-idx3-ubyte.gz", f"{HOST}/train-images-idx3-ubyte.gz", "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d"
        ),
        Remote(
            "train-labels-idx1-ubyte.gz", f"{HOST}/train-labels-idx1-ubyte.gz", "md5:25c81989df183df01b3e8a0aad5dffbe"
        ),
        Remote(
            "t10k-images-idx3-ubyte.gz", f"{HOST}/t10k-images-idx3-ubyte.gz", "md5:bef4ecab320f06d8554ea6380940ec79"
        ),
        Remote(
            "t10k-labels-idx1-ubyte.gz", f"{HOST}/t10k-labels-idx1-ubyte.gz", "md5:bb300cfdad3c16e7a12a480ee83cd310"
        ),
    ),
    accepts="the four IDX files, gzipped or plain",
    also_in=(Path("/usr/share/datasets/fashion-mnist"),),
    package="Debian's package dataset-fashion-mnist",
)
