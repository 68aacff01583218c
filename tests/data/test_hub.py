"""Hugging Face data sets: real ones, made in memory and saved to disk."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.leaving_out import import_or_leave_out
from understudy import UnderstudyError
from understudy.data.faults import ItemFault
from understudy.data.hub import from_datasets, is_saved, load_hub, load_saved
from understudy.data.objects import pool_of
from understudy.data.pool import Dataset, Pool

datasets = import_or_leave_out("datasets")
datasets.disable_progress_bars()

COLOURS = ("red", "lime", "blue")
RGB = {"red": (255, 0, 0), "lime": (0, 255, 0), "blue": (0, 0, 255)}


def pictures(*labels: int | None, column: str = "image") -> Any:
    features = datasets.Features({column: datasets.Image(), "label": datasets.ClassLabel(names=["warm", "cold"])})
    images = [Image.new("RGB", (2, 2), COLOURS[row % 3]) for row in range(len(labels))]
    return datasets.Dataset.from_dict({column: images, "label": list(labels)}, features=features)


def sentences(**columns: list[Any]) -> Any:
    return datasets.Dataset.from_dict(columns)


def labels(pool: Pool) -> list[str | None]:
    assert pool.labels is not None
    return [pool.classes[row] if row >= 0 else None for row in pool.labels]


def item(pool: Pool, row: int) -> Any:
    return pool.item(row)


def check_pictures(dataset: Dataset) -> None:
    assert dataset.pool.classes == ("warm", "cold")
    assert labels(dataset.pool) == ["warm", "cold", None]
    assert [item(dataset.pool, row).getpixel((0, 0)) for row in range(3)] == [RGB[name] for name in COLOURS]


@pytest.mark.parametrize("column", ["image", "img"])
def test_images_are_decoded_on_demand_and_classes_have_names(column: str) -> None:
    dataset = from_datasets(pictures(0, 1, -1, column=column))
    check_pictures(dataset)
    assert dataset.pool.ids == ("row 0", "row 1", "row 2")
    assert dataset.test is None


def test_pool_and_test_set_come_from_splits(tmp_path: Path) -> None:
    both = datasets.DatasetDict(train=pictures(0, 1, None), test=pictures(1, 1))
    both.save_to_disk(tmp_path / "colours")
    assert is_saved(tmp_path / "colours")
    for dataset in (from_datasets(both, "colours"), load_saved(tmp_path / "colours")):
        check_pictures(dataset)
        assert dataset.name == "colours"
        assert dataset.pool.ids == ("train/0", "train/1", "train/2")
        assert dataset.test is not None
        assert dataset.test.ids == ("test/0", "test/1")
        assert labels(dataset.test) == ["cold", "cold"]
        assert item(dataset.test, 1).getpixel((0, 0)) == RGB["lime"]


def test_a_saved_data_set_without_splits_is_a_pool(tmp_path: Path) -> None:
    pictures(0, 1, -1).save_to_disk(tmp_path / "colours")
    assert is_saved(tmp_path / "colours")
    assert not is_saved(tmp_path)
    check_pictures(load_saved(tmp_path / "colours"))


def test_a_format_set_by_the_caller_does_not_matter() -> None:
    check_pictures(from_datasets(pictures(0, 1, -1).with_format("numpy")))


def test_rows_that_were_selected_and_shuffled_are_the_rows() -> None:
    pool = from_datasets(pictures(0, 1, -1).select([2, 0])).pool
    assert item(pool, 0).getpixel((0, 0)) == RGB["blue"]
    assert labels(pool) == [None, "warm"]


def test_texts_with_labels_in_words_or_numbers() -> None:
    pool = from_datasets(sentences(text=["a", "b", "c"], label=["x", "y", None], id=[7, 8, 9])).pool
    assert pool.ids == ("7", "8", "9")
    assert labels(pool) == ["x", "y", None]
    assert item(pool, 1) == "b"
    assert labels(from_datasets(sentences(text=["a", "b"], label=[10, 9])).pool) == ["10", "9"]


def test_each_split_may_count_its_rows_from_nought() -> None:
    part = sentences(text=["a", "b"], id=[0, 1])
    dataset = from_datasets(datasets.DatasetDict(train=part, validation=part))
    assert dataset.test is not None
    assert (dataset.pool.ids, dataset.test.ids) == (("train/0", "train/1"), ("validation/0", "validation/1"))
    assert dataset.pool.faults == ()


def test_splits_that_are_not_used_are_noted() -> None:
    part = sentences(text=["a"])
    dataset = from_datasets(datasets.DatasetDict(train=part, test=part, val=part, extra=part))
    assert sorted(fault.item for fault in dataset.pool.faults) == ["extra", "hub"]
    assert all(fault.used for fault in dataset.pool.faults)
    only = from_datasets(datasets.DatasetDict(everything=part))
    assert only.pool.ids == ("everything/0",)


def test_known_classes_are_matched_by_name() -> None:
    pool = from_datasets(pictures(0, 1, 0), classes=("cold", "hot")).pool
    assert labels(pool) == ["cold"]
    assert [fault.item for fault in pool.faults] == ["row 0", "row 2"]


def test_columns_may_be_named() -> None:
    data = sentences(body=["a"], topic=["x"], label=["no"])
    pool = from_datasets(data, columns={"text": "body", "label": "topic"}).pool
    assert (item(pool, 0), labels(pool)) == ("a", ["x"])


def test_an_image_that_is_missing_is_a_fault_when_it_is_read() -> None:
    features = datasets.Features({"image": datasets.Image()})
    pool = from_datasets(datasets.Dataset.from_dict({"image": [None]}, features=features)).pool
    with pytest.raises(ItemFault, match=r"^row 0: no image in its cell"):
        item(pool, 0)


def test_what_cannot_be_decided_or_used_gets_one_line(tmp_path: Path) -> None:
    classes = datasets.ClassLabel(names=["a", "b"])
    two = datasets.Features({"text": datasets.Value("string"), "fine": classes, "coarse": classes})
    ambiguous = datasets.Dataset.from_dict({"text": ["t"], "fine": [0], "coarse": [1]}, features=two)
    part = sentences(text=["a"])
    (tmp_path / "dataset_info.json").write_text("{}")
    cases: list[tuple[Callable[[], Dataset], str]] = [
        (
            lambda: from_datasets(ambiguous),
            r"several columns for the label: 'fine', 'coarse'; name one, as in columns=",
        ),
        (lambda: from_datasets(sentences(a=[1], b=[2])), r"its columns are 'a', 'b'"),
        (lambda: from_datasets(part.to_iterable_dataset()), r"got IterableDataset; load it without streaming"),
        (lambda: from_datasets(datasets.DatasetDict()), r"DatasetDict that is not empty"),
        (lambda: from_datasets(datasets.DatasetDict(x=part, y=part)), r"has the splits x, y; give one of them"),
        (
            lambda: from_datasets(datasets.DatasetDict(train=part, test=sentences(text=["a"], label=["x"]))),
            r"other col",
        ),
        (lambda: load_saved(tmp_path), r"is not a complete Hugging Face data set \(.*\); save it again"),
    ]
    for call, message in cases:
        with pytest.raises(UnderstudyError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert labels(from_datasets(ambiguous, columns={"label": "coarse"}).pool) == ["b"]


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UnderstudyError, match=r"need an extra; install it with: pip install 'understudy-al\[hub\]'"):
        load_hub("hf:mnist")


def test_a_hub_that_cannot_be_reached_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        UnderstudyError, match=r"^hf:nobody/nothing:small could not be had from the .* hub \("
    ) as caught:
        load_hub("hf:nobody/nothing:small")
    assert "\n" not in str(caught.value)


def test_arrays_and_images_agree() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    features = datasets.Features({"image": datasets.Image()})
    data = datasets.Dataset.from_dict({"image": [Image.fromarray(pixels)]}, features=features)
    assert np.array_equal(np.asarray(item(from_datasets(data).pool, 0)), pixels)


def test_a_loop_takes_a_data_set_of_the_library_as_it_is() -> None:
    reviews = datasets.Dataset.from_dict({"text": ["Lovely.", "Never again."], "label": ["good", "bad"]})
    pool = pool_of(reviews)
    assert (pool.item(1), pool.classes, pool.features) == ("Never again.", ("bad", "good"), None)
    seen = pool_of(reviews, np.eye(2))
    assert seen.features is not None
    assert seen.features.shape == (2, 2)
