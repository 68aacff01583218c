"""Folders of images as people have them: flat, by class, split, littered, linked in circles, oddly named."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy import UnderstudyError
from understudy.data.folders import list_images, load_folder
from understudy.data.pool import Pool


def fill(folder: Path, *names: str) -> Path:
    """Images of one pixel, and empty files where the name is none of an image."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in {".png", ".jpg"}:
            Image.new("RGB", (1, 1)).save(path)
        else:
            path.touch()
    return folder


def by_class(pool: Pool) -> dict[str, str | None]:
    assert pool.labels is not None
    names = [pool.classes[row] if row >= 0 else None for row in pool.labels]
    return dict(zip(pool.ids, names, strict=True))


def error(folder: Path) -> str:
    with pytest.raises(UnderstudyError) as caught:
        load_folder(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    dataset = load_folder(fill(tmp_path / "cats", "b.png", "a.JPG", "10.png", "9.png"))
    assert dataset.name == "cats"
    assert dataset.test is None
    assert dataset.pool.ids == ("10.png", "9.png", "a.JPG", "b.png")
    assert dataset.pool.labels is None
    assert dataset.pool.classes == ()
    assert dataset.pool.faults == ()


def test_a_row_is_the_file_it_is_named_for(tmp_path: Path) -> None:
    fill(tmp_path, "x/1.png", "x/2.png")
    Image.new("RGB", (3, 2), "red").save(tmp_path / "x" / "2.png")
    pool = load_folder(tmp_path).pool
    assert pool.items is not None
    image, _ = pool.items.decode(1, pool.items.read(1))
    assert np.asarray(image).shape == (2, 3, 3)


def test_folders_are_classes_however_deep_the_files_and_files_beside_them_have_none(tmp_path: Path) -> None:
    pool = load_folder(fill(tmp_path, "dog/1.png", "cat/deep/er/2.png", "cat/3.png", "loose.png")).pool
    assert pool.classes == ("cat", "dog")
    assert by_class(pool) == {"cat/3.png": "cat", "cat/deep/er/2.png": "cat", "dog/1.png": "dog", "loose.png": None}


def test_folders_need_not_be_classes(tmp_path: Path) -> None:
    pool = load_folder(fill(tmp_path, "2021/1.png", "2022/1.png"), folder_labels=False).pool
    assert pool.ids == ("2021/1.png", "2022/1.png")
    assert pool.labels is None


def test_a_folder_without_images_is_no_class(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert load_folder(fill(tmp_path, "cat/1.png", "notes/readme.txt")).pool.classes == ("cat",)


def test_a_folder_that_is_no_known_class_is_one_fault(tmp_path: Path) -> None:
    pool = load_folder(fill(tmp_path, "cat/1.png", "dgo/1.png", "dgo/2.png"), classes=("dog", "cat")).pool
    assert pool.classes == ("dog", "cat")
    assert by_class(pool) == {"cat/1.png": "cat"}
    assert [str(fault) for fault in pool.faults] == [
        "dgo/ (2 files): the label 'dgo' is not a known class; did you mean 'dog'?"
    ]


def test_litter_is_ignored_and_other_files_are_noted_once(tmp_path: Path) -> None:
    fill(tmp_path, "a.png", ".hidden.png", ".git/b.png", "Thumbs.db", "desktop.ini", "x/.DS_Store")
    assert load_folder(tmp_path).pool.faults == ()
    fill(tmp_path, "notes.txt", "raw.cr2", "c/d.csv")
    pool = load_folder(tmp_path).pool
    assert pool.ids == ("a.png",)
    assert [fault.item for fault in pool.faults] == ["3 files"]
    assert pool.faults[0].used


@pytest.mark.parametrize("other", ["test", "val", "Validation"])
def test_train_and_test_are_a_split(other: str, tmp_path: Path) -> None:
    dataset = load_folder(fill(tmp_path, "train/cat/1.png", f"{other}/dog/1.png", f"{other}/loose.png"))
    assert dataset.test is not None
    assert dataset.pool.classes == dataset.test.classes == ("cat", "dog")
    assert by_class(dataset.pool) == {"train/cat/1.png": "cat"}
    assert by_class(dataset.test) == {f"{other}/dog/1.png": "dog", f"{other}/loose.png": None}


def test_of_test_and_validation_the_test_set_is_used_and_the_other_noted(tmp_path: Path) -> None:
    dataset = load_folder(fill(tmp_path, "train/1.png", "test/2.png", "val/3.png", "val/4.png"))
    assert dataset.test is not None
    assert dataset.test.ids == ("test/2.png",)
    assert [(fault.item, fault.used) for fault in dataset.pool.faults] == [("val", True)]
    assert "2 of the validation split" in dataset.pool.faults[0].problem


def test_images_beside_a_split_are_noted_a_folder_each(tmp_path: Path) -> None:
    names = (
        "train/1.png",
        "test/1.png",
        "extra/a/1.png",
        "extra/2.png",
        "b.png",
        "a.png",
        "papers/x.pdf",
        ".git/1.png",
    )
    dataset = load_folder(fill(tmp_path, *names))
    assert [str(fault) for fault in dataset.pool.faults] == [
        "extra/: 2 images in a folder beside test and train; not used; move them into one of these",
        "a.png and 1 more: 2 images beside test and train; not used; move them into one of these",
    ]
    assert all(fault.used for fault in dataset.pool.faults)


def test_of_two_folders_for_one_part_the_one_that_is_not_used_is_named(tmp_path: Path) -> None:
    dataset = load_folder(fill(tmp_path, "train/1.png", "training/2.png", "val/3.png", "valid/4.png"))
    assert dataset.test is not None
    assert (dataset.pool.ids, dataset.test.ids) == (("train/1.png",), ("val/3.png",))
    assert [str(fault) for fault in dataset.pool.faults] == [
        "training/: 1 image of a second folder for the same part as train; not used; move them into train",
        "valid/: 1 image of a second folder for the same part as val; not used; move them into val",
    ]


def test_an_empty_test_folder_is_no_test_set(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    assert load_folder(fill(tmp_path, "train/1.png")).test is None
    assert load_folder(fill(tmp_path, "val/2.png")).test is not None


def test_a_class_called_train_or_test_alone_is_a_class(tmp_path: Path) -> None:
    assert load_folder(fill(tmp_path, "train/1.png", "bus/1.png")).pool.classes == ("bus", "train")


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    fill(tmp_path, "a/1.png", "b/2.png")
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "other").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "back").symlink_to(tmp_path / "a")
    (tmp_path / "b" / "again.png").symlink_to(tmp_path / "a" / "1.png")
    pool = load_folder(tmp_path).pool
    assert pool.ids == (
        "a/1.png", "a/other/2.png", "a/other/again.png", "b/2.png", "b/again.png", "b/back/1.png",
    )  # fmt: skip
    assert {fault.item for fault in pool.faults} >= {"a/self", "a/up", "a/other/back"}
    assert all(fault.used for fault in pool.faults)


def test_a_link_to_nothing_is_a_fault(tmp_path: Path) -> None:
    fill(tmp_path, "a.png")
    (tmp_path / "b.png").symlink_to("gone.png")
    os.mkfifo(tmp_path / "pipe.png")  # reading it would wait for ever
    pool = load_folder(tmp_path).pool
    assert pool.ids == ("a.png",)
    assert [(fault.item, fault.used) for fault in pool.faults] == [("b.png", False), ("pipe.png", False)]


def test_odd_names_are_names(tmp_path: Path) -> None:
    names = ["ä b.png", "'quote\".png", "\N{SNOWMAN}/1.png", "a,b;c/1.png", "50%.png", "x.tar.png"]
    pool = load_folder(fill(tmp_path, *names)).pool
    assert set(pool.ids) == set(names)
    assert pool.classes == ("a,b;c", "\N{SNOWMAN}")


def test_a_name_with_control_characters_is_one_line_and_leaves_the_terminal_alone(tmp_path: Path) -> None:
    pool = load_folder(fill(tmp_path, "new\nline/\x1b[31mred.png")).pool
    assert pool.ids == ("new\\nline/\\x1b[31mred.png",)
    assert pool.classes == ("new\\nline",)
    assert pool.items is not None
    assert pool.items.read(0)


def test_a_name_that_is_no_utf8_gets_an_identity_that_can_be_printed(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/K\xe4se.png"
    with open(path, "wb") as stream:  # noqa: PTH123
        Image.new("RGB", (1, 1)).save(stream, "PNG")
    pool = load_folder(tmp_path).pool
    assert pool.ids == ("K\\udce4se.png",)
    assert pool.items is not None
    assert pool.items.decode(0, pool.items.read(0))


def test_a_folder_without_images_is_an_error_that_says_what_is_there(tmp_path: Path) -> None:
    assert "has no images or texts; give a folder with files that end in" in error(tmp_path)
    assert "has no images or texts, but it has list.csv;" in error(fill(tmp_path, "list.csv"))
    (tmp_path / "train").mkdir()
    assert f"{tmp_path / 'train'} has no images" in error(fill(tmp_path, "test/1.png"))


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert "gone cannot be listed (No such file or directory)" in error(tmp_path / "gone")


def test_twenty_thousand_files_are_listed_in_order(tmp_path: Path) -> None:
    for folder in range(20):
        (tmp_path / f"{folder:02}").mkdir()
        for file in range(1000):
            os.close(os.open(f"{tmp_path}/{folder:02}/{file:03}.jpg", os.O_CREAT))
    names = list_images(tmp_path).files
    assert len(names) == 20_000
    assert names == sorted(names)
