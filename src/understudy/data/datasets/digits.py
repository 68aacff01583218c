"""Scikit-learn's 8 x 8 digits, which need no download."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from understudy.data.datasets.source import DatasetSource
from understudy.data.items import ArrayImages
from understudy.data.pool import Dataset, Pool

BRIGHTEST: Final = 16


def _find(_folder: Path) -> Path | None:
    """Where scikit-learn is: it brings them."""
    found = find_spec("sklearn")
    return Path(found.origin).parent if found and found.origin else None


def _load(_place: Path) -> Dataset:
    """1,297 images to label and 500 to test on, the same ones always; features are the pixels in [0, 1]."""
    # Imported here, so that a list of the data sets need not wait a second for it.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    values, labels = load_digits(return_X_y=True)
    features = (values / BRIGHTEST).astype(np.float32)
    images = np.rint(values * (255 / BRIGHTEST)).astype(np.uint8).reshape(-1, 8, 8)

    def pool(rows: np.ndarray) -> Pool:
        return Pool(
            ids=tuple(f"digits/{row:04d}" for row in rows),
            items=ArrayImages(images[rows]),
            features=features[rows],
            labels=labels[rows].astype(np.int64),
            classes=tuple("0123456789"),
        )

    pool_rows, test_rows = train_test_split(np.arange(len(labels)), test_size=500, stratify=labels, random_state=0)
    return Dataset("digits", pool(pool_rows), pool(test_rows))


DIGITS: Final = DatasetSource(
    name="digits",
    title="Digits 8 x 8",
    n_pool=1_297,
    n_test=500,
    n_classes=10,
    find=_find,
    load=_load,
    accepts="nothing: it comes with scikit-learn",
)
