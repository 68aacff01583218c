"""Caltech-256 in its official layout, made small; its split, in full size."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.official import packed
from understudy.data.datasets import load_named
from understudy.data.datasets.caltech256 import N_POOL, N_TEST, split

CLASSES = ("001.ak47", "056.dog", "198.spider", "257.clutter")
IMAGES = {f"{name}/{name[:3]}_{i:04d}.jpg": b"jpeg" for name in CLASSES for i in range(1, 26)}
STRAY = {"198.spider/RENAME2": b"#!/bin/sh", "056.dog/greg/vision309/056_0001.jpg": b"jpeg", "056.dog/greg/x.txt": b""}


def official(folder: Path) -> Path:
    for name, content in (IMAGES | STRAY).items():
        path = folder / "256_ObjectCategories" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_every_image_is_in_one_half_and_strays_are_in_none(tmp_path: Path) -> None:
    data = load_named("caltech256", folder=official(tmp_path))
    assert data.test is not None
    assert sorted(data.pool.ids + data.test.ids) == sorted(IMAGES)
    assert data.pool.classes == ("ak47", "dog", "spider", "clutter")
    for pool in (data.pool, data.test):
        assert pool.labels is not None
        assert [CLASSES[label] for label in pool.labels] == [name.split("/")[0] for name in pool.ids]
        assert list(pool.ids) == sorted(pool.ids)


def test_another_number_of_images_is_noted_and_split_alike(tmp_path: Path) -> None:
    data = load_named("caltech256", folder=official(tmp_path), on_error="fail")
    assert len(data.pool) == round(100 * N_POOL / (N_POOL + N_TEST)) == 75
    assert [str(note) for note in data.pool.faults] == [
        "256_ObjectCategories: 100 images where the official set has 30,607; "
        "split in the same proportion; unpack it again if that is not meant"
    ]


def test_it_is_unpacked_from_its_archive(tmp_path: Path) -> None:
    official(tmp_path / "a")
    (tmp_path / "b").mkdir()
    packed(tmp_path / "b" / "256_ObjectCategories.tar",
           {f"256_ObjectCategories/{name}": content for name, content in (IMAGES | STRAY).items()})  # fmt: skip
    from_folder, from_archive = (load_named("caltech256", folder=tmp_path / name) for name in "ab")
    assert from_folder.pool.ids == from_archive.pool.ids


def test_the_official_number_gives_the_split_of_the_paper() -> None:
    pool, test = split(N_POOL + N_TEST)
    assert (len(pool), len(test)) == (22_897, 7_710)
    # For ever: a result on one machine must be a result on another.
    assert test[:8].tolist() == [1, 2, 7, 9, 11, 13, 19, 36]
    assert int(test.sum()) == 117_822_411


@given(st.integers(0, 2000))
def test_a_split_leaves_nothing_out(n: int) -> None:
    pool, test = split(n)
    assert np.array_equal(np.sort(np.concatenate([pool, test])), np.arange(n))


@pytest.mark.parametrize("n", [100, 30_607])
def test_the_split_is_one_of_chance(n: int) -> None:
    pool, _ = split(n)
    assert abs(pool.mean() / (n - 1) - 0.5) < 3 * np.sqrt(1 / 12 / len(pool))
