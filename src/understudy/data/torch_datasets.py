"""Pools from a torch `Dataset` of items, or of pairs of an item and its class. All of its items are read."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from understudy.data.items import make_printable
from understudy.data.tables import Table
from understudy.errors import UnderstudyError
from understudy.messages import reason_of


def is_torch_dataset(source: Any) -> bool:
    library = sys.modules.get("torch.utils.data")
    return library is not None and isinstance(source, library.Dataset)


def is_loader(source: Any) -> bool:
    """Whether this deals out batches, and no item by its number."""
    library = sys.modules.get("torch.utils.data")
    return library is not None and isinstance(source, library.DataLoader)


@dataclass(frozen=True, eq=False)
class TorchItems:
    """What a data set gives: rows of numbers or images as `values`, or texts; the labels and the names of classes."""

    values: np.ndarray | None
    texts: tuple[str, ...] | None
    labels: list[Any] | None
    classes: tuple[str, ...] | None

    def as_table(self, labels: Any, ids: Any) -> Table:
        """Texts as the table that a manifest would be."""
        texts = list(self.texts or ())
        given = self.labels if labels is None else list(labels)
        found: dict[str, Sequence[Any]] = {"text": texts}
        found |= {role: values for role, values in (("label", given), ("id", ids)) if values is not None}
        return Table(found, [f"row {row}" for row in range(len(texts))], classes=self.classes)


def read(source: Any) -> TorchItems:
    """All items of a data set. Vectors are features; images become bytes; strings are texts."""
    if not hasattr(source, "__len__"):
        raise UnderstudyError(
            f"{type(source).__name__} has no length, so its items have no rows; pass a map-style Dataset"
        )
    if not len(source):
        raise UnderstudyError("this data set is empty; pass one with items")
    inputs, labels = [], []
    for row in range(len(source)):
        try:
            item = source[row]
        except Exception as error:  # whatever its own code raises
            raise UnderstudyError(
                f"item {row} of the data set cannot be read ({reason_of(error)}); leave it out"
            ) from error
        is_pair = isinstance(item, tuple | list)
        inputs.append(item[0] if is_pair else item)
        labels.append(_label_of(item[1]) if is_pair and len(item) > 1 else None)
    known = labels if any(label is not None for label in labels) else None
    if all(isinstance(value, str) for value in inputs):
        return TorchItems(None, tuple(inputs), known, _classes_of(source))
    return TorchItems(
        _join([_array_of(row, value) for row, value in enumerate(inputs)]), None, known, _classes_of(source)
    )


def _label_of(label: Any) -> Any:
    if hasattr(label, "item"):
        if getattr(label, "shape", ()) not in ((), (1,)):
            raise UnderstudyError(
                f"a label must be one class, not an array of shape {tuple(label.shape)}; take argmax if it is one-hot"
            )
        return label.item()
    return label


def _classes_of(source: Any) -> tuple[str, ...] | None:
    """The names that torchvision's data sets, and subsets of them, have."""
    names = getattr(source, "classes", None) or getattr(getattr(source, "dataset", None), "classes", None)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(map(make_printable, names))


def _array_of(row: int, value: Any) -> np.ndarray:
    """A vector as it is; an image as bytes, channels last."""
    if isinstance(value, Image.Image):
        return np.asarray(value.convert("RGB"))
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    if array.ndim == 1 and array.dtype.kind in "fiub":
        return array
    if array.ndim == 3 and array.shape[0] in (1, 3):  # as torch has it; the others have the channels last
        array = array[0] if array.shape[0] == 1 else np.moveaxis(array, 0, 2)
    if array.dtype == np.uint8 and array.ndim in (2, 3):
        return array
    if array.dtype.kind == "f" and array.ndim in (2, 3) and array.min() >= 0 and array.max() <= 1:
        return np.rint(array * 255).astype(np.uint8)
    raise UnderstudyError(
        f"item {row} of the data set is {array.dtype} of shape {array.shape}; a pool takes vectors, strings, and "
        "images as bytes or from 0 to 1: leave out a Normalize among its transforms"
    )


def _join(rows: list[np.ndarray]) -> np.ndarray:
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        some = " and ".join(map(str, sorted(shapes)[:2]))
        raise UnderstudyError(
            f"the items of a data set must be of one shape, got {some}; add a Resize to its transforms"
        )
    return np.stack(rows)
