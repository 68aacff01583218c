"""Tiny ImageNet in its official layout, packed and unpacked, made small."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data.official import packed, tiny_imagenet
from tests.data.official import write as write_files
from understudy.data.datasets import load_named
from understudy.data.faults import FaultsFound
from understudy.errors import UnderstudyError


def write(folder: Path, files: dict[str, bytes]) -> Path:
    write_files(folder / "tiny-imagenet-200", files)
    return folder


def pack(folder: Path, files: dict[str, bytes]) -> Path:
    packed(folder / "tiny-imagenet-200.zip", {f"tiny-imagenet-200/{name}": content for name, content in files.items()})
    return folder


@pytest.mark.parametrize("lay_out", [pack, write])
def test_training_and_validation_images_are_those_of_the_layout(
    tmp_path: Path, lay_out: Callable[[Path, dict[str, bytes]], Path]
) -> None:
    lay_out(tmp_path, tiny_imagenet())
    data = load_named("tiny_imagenet", folder=tmp_path)
    assert (tmp_path / "tiny-imagenet-200" / "wnids.txt").is_file()
    assert data.pool.classes == ("goldfish (n01443537)", "Egyptian cat (n02124075)", "n04067472")
    assert data.pool.ids[0] == "train/n01443537/images/n01443537_0.JPEG"
    assert len(data.pool) == 12
    assert data.pool.labels is not None
    assert all(data.pool.classes[label].rstrip(")").endswith(name.split("/")[1])
               for name, label in zip(data.pool.ids, data.pool.labels, strict=True))  # fmt: skip
    assert data.test is not None
    assert data.test.ids == ("val/images/val_0.JPEG", "val/images/val_1.JPEG")
    assert data.test.labels is not None
    assert data.test.labels.tolist() == [2, 0]


def test_grey_images_become_rgb(tmp_path: Path) -> None:
    items = load_named("tiny_imagenet", folder=write(tmp_path, tiny_imagenet())).pool.items
    assert items is not None
    image, _ = items.decode(3, items.read(3))
    assert isinstance(image, Image.Image)
    assert image.mode == "RGB"
    assert np.ptp(np.asarray(image), axis=2).max() == 0


def test_an_archive_in_a_folder_of_ones_own_is_unpacked_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    pack(tmp_path, tiny_imagenet())
    assert len(load_named("tiny_imagenet").pool) == 12
    assert (tmp_path / "home" / "datasets" / "tiny_imagenet" / "tiny-imagenet-200" / "wnids.txt").is_file()
    assert not (tmp_path / "tiny-imagenet-200").exists()


def test_an_annotation_without_image_or_class_is_a_fault(tmp_path: Path) -> None:
    files = tiny_imagenet()
    files["val/val_annotations.txt"] += b"val_7.JPEG\tn01443537\t0\t0\t1\t1\nval_1.JPEG\tn99999999\t0\t0\t1\t1\nodd\n"
    del files["train/n04067472/images/n04067472_0.JPEG"]
    write(tmp_path, files)
    data = load_named("tiny_imagenet", folder=tmp_path)
    assert data.test is not None
    assert [(fault.item, fault.problem) for fault in data.test.faults] == [
        ("val/images/val_7.JPEG", "no such file"),
        ("val/images/val_1.JPEG", "class 'n99999999' is not in wnids.txt"),
        ("val/images/odd", "class '' is not in wnids.txt"),
    ]
    assert len(data.test) == 2
    with pytest.raises(FaultsFound, match="3 items cannot be used"):
        load_named("tiny_imagenet", folder=tmp_path, on_error="fail")


def test_a_class_without_images_is_a_fault(tmp_path: Path) -> None:
    files = {name: content for name, content in tiny_imagenet().items() if "train/n01443537/images" not in name}
    data = load_named("tiny_imagenet", folder=write(tmp_path, files))
    assert [fault.item for fault in data.pool.faults] == ["train/n01443537/images"]


@pytest.mark.parametrize("gone", ["words.txt", "val/val_annotations.txt"])
def test_a_missing_list_is_one_line(tmp_path: Path, gone: str) -> None:
    files = tiny_imagenet()
    del files[gone]
    with pytest.raises(UnderstudyError, match=rf"{gone} cannot be read .*--get tiny_imagenet"):
        load_named("tiny_imagenet", folder=write(tmp_path, files))
