"""CIFAR-10 and CIFAR-100: 32 x 32 colour photographs, from the official binary or Python archives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from understudy.data.archives import Limits, read_members
from understudy.data.datasets import pickles
from understudy.data.datasets.source import DatasetSource, Remote, has_all, note_differing
from understudy.data.items import ArrayImages
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError

PIXELS: Final = 3 * 32 * 32
LIMITS: Final = Limits(max_bytes=1 << 29, max_members=100)
HOST: Final = "https://www.cs.toronto.edu/~kriz"
CIFAR10_CLASSES: Final = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

Batch = tuple[np.ndarray, np.ndarray]  # pixels (n, 3072) plane by plane, labels (n,)


@dataclass(frozen=True)
class Layout:
    """One of the ways in which a set is published: an archive with one folder in it.

    `names` is the file with the class names, where we need one; `official` are the MD5 sums we are certain of.
    """

    archive: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    batch: Callable[[bytes, str], Batch]
    names: str = ""
    class_names: Callable[[bytes], tuple[str, ...]] | None = None
    official: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, *self.test, *((self.names,) if self.names else ()))


def _find(layouts: tuple[Layout, ...], folder: Path) -> Path | None:
    """The unpacked folder or the archive of the first layout that is there."""
    for layout in layouts:
        for place in (folder / layout.folder, folder):
            if has_all(place, layout.files):
                return place
        if (folder / layout.archive).is_file():
            return folder / layout.archive
    return None


def _load(name: str, layouts: tuple[Layout, ...], place: Path) -> Dataset:
    """50,000 images to label and 10,000 to test on, in the order of the files."""
    layout = next(layout for layout in layouts if place.name == layout.archive or has_all(place, layout.files))
    contents = _from_folder(place, layout) if place.is_dir() else _from_archive(place, layout)
    missing = [file for file in layout.files if file not in contents]
    if missing:
        raise UnderstudyError(f"{place} lacks {', '.join(missing)}; run: understudy datasets --get {name}")
    classes = layout.class_names(contents[layout.names]) if layout.class_names else CIFAR10_CLASSES

    def pool(part: str, files: tuple[str, ...]) -> Pool:
        batches = [_check(layout.batch(contents[file], file), file, len(classes)) for file in files]
        labels = np.concatenate([labels for _, labels in batches])
        return Pool(
            ids=tuple(f"{part}/{row:05d}" for row in range(len(labels))),
            items=ArrayImages(_upright(np.concatenate([pixels for pixels, _ in batches]))),
            labels=labels,
            classes=classes,
            faults=note_differing({file: contents[file] for file in files}, layout.official),
        )

    return Dataset(name, pool("train", layout.train), pool("test", layout.test))


def _from_folder(folder: Path, layout: Layout) -> dict[str, bytes]:
    try:
        return {file: (folder / file).read_bytes() for file in layout.files if (folder / file).exists()}
    except OSError as error:
        raise UnderstudyError(f"cannot read {error.filename}: {error.strerror}; check its permissions") from error


def _from_archive(archive: Path, layout: Layout) -> dict[str, bytes]:
    wanted = {f"{layout.folder}/{file}": file for file in layout.files}
    return {wanted[path]: content for path, content in read_members(archive, wanted, LIMITS).items()}


def _upright(pixels: np.ndarray) -> np.ndarray:
    """(n, 3072), red plane first -> (n, 32, 32, 3)."""
    return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _binary_batch(label_bytes: int, content: bytes, name: str) -> Batch:
    """Records of labels and 3,072 bytes; the last of the labels is the fine one."""
    record = label_bytes + PIXELS
    if not content or len(content) % record:
        raise _broken(name, f"{len(content):,} bytes are not a whole number of records of {record:,}")
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


def _pickled_batch(labels_key: str, content: bytes, name: str) -> Batch:
    found = pickles.read(content, name)
    pixels, labels = found.get("data"), found.get(labels_key)
    if not isinstance(pixels, np.ndarray) or not isinstance(labels, list):
        raise _broken(name, f"'data' and '{labels_key}' are not in it; it has {', '.join(sorted(found))}")
    if pixels.ndim != 2 or pixels.shape[1] != PIXELS or len(pixels) != len(labels):
        raise _broken(name, f"images of shape {pixels.shape} for {len(labels):,} labels")
    if not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise _broken(name, "labels that are not small numbers")
    return pixels, np.array(labels, np.int64)


def _check(batch: Batch, name: str, n_classes: int) -> Batch:
    labels = batch[1]
    if len(labels) and labels.max() >= n_classes:
        raise _broken(name, f"label {labels.max()} where 0 to {n_classes - 1} are classes")
    return batch


def _listed_names(content: bytes) -> tuple[str, ...]:
    """Class names, one a line."""
    return tuple(content.decode("latin1").split())


def _pickled_names(content: bytes) -> tuple[str, ...]:
    names = pickles.read(content, "meta").get("fine_label_names")
    if not isinstance(names, list) or not all(isinstance(word, bytes) for word in names):
        raise _broken("meta", "the list 'fine_label_names' is not in it")
    return tuple(word.decode("latin1") for word in names)


def _broken(name: str, problem: str) -> UnderstudyError:
    return UnderstudyError(f"{name} is not what it should be: {problem}; download it again")


CIFAR10_LAYOUTS: Final = (
    Layout(
        archive="cifar-10-binary.tar.gz",
        folder="cifar-10-batches-bin",
        train=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        test=("test_batch.bin",),
        batch=partial(_binary_batch, 1),
        official={
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
    ),
    Layout(
        archive="cifar-10-python.tar.gz",
        folder="cifar-10-batches-py",
        train=tuple(f"data_batch_{i}" for i in range(1, 6)),
        test=("test_batch",),
        batch=partial(_pickled_batch, "labels"),
        official={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
    ),
)
CIFAR100_LAYOUTS: Final = (
    Layout(
        archive="cifar-100-binary.tar.gz",
        folder="cifar-100-binary",
        train=("train.bin",),
        test=("test.bin",),
        batch=partial(_binary_batch, 2),
        names="fine_label_names.txt",
        class_names=_listed_names,
    ),
    Layout(
        archive="cifar-100-python.tar.gz",
        folder="cifar-100-python",
        train=("train",),
        test=("test",),
        batch=partial(_pickled_batch, "fine_labels"),
        names="meta",
        class_names=_pickled_names,
        official={"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    ),
)

CIFAR10: Final = DatasetSource(
    name="cifar10",
    title="CIFAR-10",
    n_pool=50_000,
    n_test=10_000,
    n_classes=10,
    find=partial(_find, CIFAR10_LAYOUTS),
    load=partial(_load, "cifar10", CIFAR10_LAYOUTS),
    files=(Remote("cifar-10-binary.tar.gz", f"{HOST}/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"),),
    accepts="the binary or the Python archive, or its folder",
    limits=LIMITS,
)
CIFAR100: Final = DatasetSource(
    name="cifar100",
    title="CIFAR-100",
    n_pool=50_000,
    n_test=10_000,
    n_classes=100,
    find=partial(_find, CIFAR100_LAYOUTS),
    load=partial(_load, "cifar100", CIFAR100_LAYOUTS),
    files=(
        Remote("cifar-100-binary.tar.gz", f"{HOST}/cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8"),
    ),
    accepts="the binary or the Python archive, or its folder",
    limits=LIMITS,
)
