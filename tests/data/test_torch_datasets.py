"""Pools from torch's own way of holding items and their classes."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from understudy import ActiveLoop, UnderstudyError, load
from understudy.data.items import ArrayImages

VECTORS = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])


class Listed(Dataset[Any]):
    """Items one after another, with the names of their classes as torchvision has them."""

    def __init__(self, items: list[Any], classes: Any = None) -> None:
        self.items = items
        if classes is not None:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        return self.items[row]


def test_pairs_of_vectors_and_classes_are_features_and_labels() -> None:
    found = load(TensorDataset(VECTORS, torch.tensor([1, 0, 1]))).pool
    assert found.features is not None
    assert found.labels is not None
    assert found.features.tolist() == VECTORS.tolist()
    assert (found.labels.tolist(), found.classes) == ([1, 0, 1], ("0", "1"))
    assert load(TensorDataset(VECTORS)).pool.labels is None


def test_names_of_classes_come_along_through_a_subset() -> None:
    whole = Listed([(vector, number % 2) for number, vector in enumerate(VECTORS)], ["cat", "dog"])
    found = load(Subset(whole, [1, 2])).pool
    assert found.labels is not None
    assert (found.classes, found.labels.tolist()) == (("cat", "dog"), [1, 0])


PICTURE = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)


@pytest.mark.parametrize(
    "item",
    [
        Image.fromarray(PICTURE),
        torch.from_numpy(PICTURE).movedim(2, 0),
        torch.from_numpy(PICTURE).movedim(2, 0) / 255,
        PICTURE,
    ],
    ids=["picture", "bytes", "from 0 to 1", "channels last"],
)
def test_images_become_bytes(item: Any) -> None:
    items = load(Listed([(item, 0)] * 2)).pool.items
    assert isinstance(items, ArrayImages)
    np.testing.assert_array_equal(items.pixels, np.stack([PICTURE, PICTURE]))


def test_grey_images_of_one_channel_have_none_left() -> None:
    items = load(Listed([torch.ones(1, 4, 4)])).pool.items
    assert isinstance(items, ArrayImages)
    np.testing.assert_array_equal(items.pixels, np.full((1, 4, 4), 255))


def test_strings_are_texts() -> None:
    found = load(Listed([("Rain.", 1), ("A draw.", 0)], ["sport", "weather"])).pool
    assert found.labels is not None
    assert [found.item(row) for row in range(2)] == ["Rain.", "A draw."]
    assert (found.labels.tolist(), found.classes) == ([1, 0], ("sport", "weather"))


def test_the_labels_of_a_data_set_are_kept_for_simulations_and_ignored_otherwise() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(40) % 2
    data = TensorDataset(torch.from_numpy(rng.normal(size=(40, 3)) + 3 * truth[:, None]), torch.from_numpy(truth))
    loop = ActiveLoop(data, "logistic", "margin", schedule=[10])
    assert len(loop.labelled) == 0
    assert loop.pool.labels is not None
    loop.rehearse(12, loop.pool.labels)
    assert loop.classes == ("0", "1")
    assert loop.round == 1


class Broken(Listed):
    def __getitem__(self, row: int) -> Any:
        raise OSError("the disk is gone")


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Stream(), "Stream has no length, so its items have no rows; pass a map-style Dataset"),
        (Listed([]), "this data set is empty"),
        (Broken([1]), "item 0 of the data set cannot be read (the disk is gone); leave it out"),
        (Listed([torch.zeros(2), torch.zeros(3)]), "must be of one shape, got (2,) and (3,); add a Resize"),
        (Listed([torch.full((3, 4, 4), -1.0)]), "leave out a Normalize among its transforms"),
        (Listed([(torch.zeros(2), torch.tensor([0, 1]))]), "a label must be one class, not an array of shape (2,)"),
    ],
)
def test_what_cannot_be_a_pool_is_one_line(source: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)):
        load(source)
