"""Caltech-256: photographs of 256 kinds of things and of clutter, one folder a class."""

import re
from pathlib import Path
from typing import Final

import numpy as np

from understudy.data.archives import Limits
from understudy.data.datasets.source import DatasetSource, Remote
from understudy.data.faults import Fault
from understudy.data.images import SUFFIXES
from understudy.data.items import ImageFiles
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError

FOLDER: Final = "256_ObjectCategories"
ARCHIVE: Final = "256_ObjectCategories.tar"
CLASS_FOLDER: Final = re.compile(r"\d{3}\.(.+)")
N_POOL, N_TEST = 22_897, 7_710
SEED: Final = 256


def _find(folder: Path) -> Path | None:
    """The folder of class folders, or the archive."""
    for place in (folder / FOLDER, folder):
        if (place / "001.ak47").is_dir():
            return place
    return folder / ARCHIVE if (folder / ARCHIVE).is_file() else None


def _load(root: Path) -> Dataset:
    """22,897 images to label and 7,710 to test on, drawn once: the split is the same on every machine."""
    folders = _class_folders(root)
    found = [
        (f"{folder.name}/{path.name}", label)
        for label, folder in enumerate(folders)
        for path in sorted(folder.iterdir())
        # The official archive also holds a folder within a folder, and files that are not images.
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ]
    found.sort()
    ids = tuple(path for path, _ in found)
    labels = np.array([label for _, label in found], np.int64)
    items = ImageFiles([root / path for path in ids], ids)
    classes = tuple(folder.name.partition(".")[2] for folder in folders)
    both = Pool(ids, items, labels=labels, classes=classes)
    pool_rows, test_rows = split(len(ids))
    pool = both.take(pool_rows)
    return Dataset("caltech256", Pool(pool.ids, pool.items, labels=pool.labels, classes=classes,
                                      faults=_notes(root, len(ids))), both.take(test_rows))  # fmt: skip


def _class_folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if CLASS_FOLDER.fullmatch(path.name) and path.is_dir())
    except OSError as error:
        raise UnderstudyError(f"cannot read {root}: {error.strerror}; check its permissions") from error


def split(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to label and rows to test on, each in order; of another number of images, the same share."""
    n_pool = round(n * N_POOL / (N_POOL + N_TEST))
    # Raw output: numpy promises that it stays the same, and not that a permutation does.
    order = np.argsort(np.random.PCG64(SEED).random_raw(n), kind="stable")
    return np.sort(order[:n_pool]), np.sort(order[n_pool:])


def _notes(root: Path, n: int) -> tuple[Fault, ...]:
    if n == N_POOL + N_TEST:
        return ()
    problem = f"{n:,} images where the official set has {N_POOL + N_TEST:,}"
    return (Fault(root.name, problem, "split in the same proportion; unpack it again if that is not meant", used=True),)


CALTECH256: Final = DatasetSource(
    name="caltech256",
    title="Caltech-256",
    n_pool=N_POOL,
    n_test=N_TEST,
    n_classes=257,
    find=_find,
    load=_load,
    files=(
        Remote(ARCHIVE, f"https://data.caltech.edu/records/nyy15-4j048/files/{ARCHIVE}",
               "md5:67b4f42ca05d46448c6bb8ecd2220f6d"),
    ),
    accepts=f"{ARCHIVE} or its folder",
    unpacked=FOLDER,
    limits=Limits(max_bytes=4 << 30, max_members=50_000),
)  # fmt: skip
