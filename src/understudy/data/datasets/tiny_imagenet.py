"""Tiny ImageNet: 64 x 64 photographs of 200 classes; the validation images are the test set."""

from pathlib import Path
from typing import Final

import numpy as np

from understudy.data.archives import Limits
from understudy.data.datasets.source import DatasetSource, Remote
from understudy.data.faults import Fault
from understudy.data.items import ImageFiles
from understudy.data.pool import Dataset, Pool
from understudy.errors import UnderstudyError

FOLDER: Final = "tiny-imagenet-200"
ARCHIVE: Final = "tiny-imagenet-200.zip"


def _find(folder: Path) -> Path | None:
    """The unpacked folder, or the archive."""
    for place in (folder / FOLDER, folder):
        if (place / "wnids.txt").is_file():
            return place
    return folder / ARCHIVE if (folder / ARCHIVE).is_file() else None


def _load(root: Path) -> Dataset:
    """100,000 images to label and 10,000 to test on. Classes are in the order of their WordNet numbers.

    The official test images have no public labels and stay out.
    """
    wnids = sorted(_lines(root, "wnids.txt"))
    names = dict(line.split("\t", 1) for line in _lines(root, "words.txt") if "\t" in line)
    classes = tuple(f"{names[wnid].split(',')[0]} ({wnid})" if wnid in names else wnid for wnid in wnids)
    pool, faults = _training(root, wnids)
    test, test_faults = _validation(root, wnids)
    return Dataset("tiny_imagenet", _as_pool(root, pool, classes, faults), _as_pool(root, test, classes, test_faults))


def _training(root: Path, wnids: list[str]) -> tuple[list[tuple[str, int]], list[Fault]]:
    """Path and label of each image in `train/WNID/images`."""
    found: list[tuple[str, int]] = []
    faults = []
    for label, wnid in enumerate(wnids):
        folder = f"train/{wnid}/images"
        files = sorted(path.name for path in (root / folder).glob("*.JPEG"))
        if not files:
            faults.append(Fault(folder, "no images", "unpack the archive again"))
        found += [(f"{folder}/{file}", label) for file in files]
    return found, faults


def _validation(root: Path, wnids: list[str]) -> tuple[list[tuple[str, int]], list[Fault]]:
    """Path and label of each image in `val/val_annotations.txt`: file, class and a box, apart by tabs."""
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    there = {path.name for path in (root / "val" / "images").glob("*.JPEG")}
    found: dict[str, int] = {}
    faults = []
    for number, line in enumerate(_lines(root, "val/val_annotations.txt"), 1):
        file, wnid = [*line.split("\t"), "", ""][:2]
        path = f"val/images/{file}"
        if wnid not in label_of:
            faults.append(Fault(path, f"class {wnid!r} is not in wnids.txt", f"mend line {number} of its annotations"))
        elif file not in there:
            faults.append(Fault(path, "no such file", "unpack the archive again"))
        elif path in found:
            faults.append(Fault(path, "annotated twice", "the first is used", used=True))
        else:
            found[path] = label_of[wnid]
    return list(found.items()), faults


def _as_pool(root: Path, found: list[tuple[str, int]], classes: tuple[str, ...], faults: list[Fault]) -> Pool:
    ids = tuple(path for path, _ in found)
    labels = np.array([label for _, label in found], np.int64)
    return Pool(
        ids, ImageFiles([root / path for path in ids], ids), labels=labels, classes=classes, faults=tuple(faults)
    )


def _lines(root: Path, name: str) -> list[str]:
    try:
        return [line for line in (root / name).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UnderstudyError(
            f"{root / name} cannot be read ({error}); run: understudy datasets --get tiny_imagenet"
        ) from error


TINY_IMAGENET: Final = DatasetSource(
    name="tiny_imagenet",
    title="Tiny ImageNet",
    n_pool=100_000,
    n_test=10_000,
    n_classes=200,
    find=_find,
    load=_load,
    files=(Remote(ARCHIVE, f"http://cs231n.stanford.edu/{ARCHIVE}", "md5:90528d7ca1a48142e341f4ef8d21d0de"),),
    accepts=f"{ARCHIVE} or its folder",
    unpacked=FOLDER,
    limits=Limits(max_bytes=1 << 30, max_members=150_000),
)
