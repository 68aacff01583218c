"""Folders of classes out: safe names, links or copies, whole or not at all."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from tests.sessions.leaving import TEXTS, arrays, images, leaving, text_project
from understudy.errors import UnderstudyError
from understudy.labels.class_folder_files import class_folders_zip, folder_names, write_class_folders


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


EXPECTED = [
    ".understudy.json",
    "%63on/=1+1.png",
    "-1/f.png",
    "=cmd%7C' %2FC calc'!A0/sub/b.png",
    "Cat~2/ä ö.png",
    "cat/a.png",
]


def test_every_labelled_item_is_in_the_folder_of_its_class(tmp_path: Path) -> None:
    out = leaving(images(tmp_path / "pool"))
    count, left_out = write_class_folders(out, tmp_path / "sorted")
    assert (count, left_out) == (5, [])
    assert files(tmp_path / "sorted") == sorted(EXPECTED)
    link = tmp_path / "sorted" / "cat" / "a.png"
    assert link.is_symlink()
    assert link.read_bytes() == (tmp_path / "pool" / "a.png").read_bytes()


def test_copies_are_files_of_their_own(tmp_path: Path) -> None:
    out = leaving(images(tmp_path / "pool"))
    write_class_folders(out, tmp_path / "sorted", copy=True)
    assert files(tmp_path / "sorted") == sorted(EXPECTED)
    assert not any(path.is_symlink() for path in (tmp_path / "sorted").rglob("*"))


def test_class_names_that_are_no_folders_are_escaped_and_stay_apart() -> None:
    assert list(folder_names(("../x", "con", "Cat", "cat", "a/b", "..")).values()) == [
        "%2E.%2Fx", "%63on", "Cat", "cat~2", "a%2Fb", "%2E%2E",
    ]  # fmt: skip


def test_texts_and_images_in_arrays_become_files(tmp_path: Path) -> None:
    write_class_folders(text_project(), tmp_path / "texts")
    assert (tmp_path / "texts" / "cat" / "a.png.txt").read_text() == TEXTS[0]
    write_class_folders(leaving(arrays()), tmp_path / "arrays")
    assert (tmp_path / "arrays" / "cat" / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_is_there_is_not_written_into(tmp_path: Path) -> None:
    out = leaving(images(tmp_path / "pool"))
    with pytest.raises(UnderstudyError, match="is there already; give a new folder"):
        write_class_folders(out, tmp_path / "pool")
    (tmp_path / "empty").mkdir()
    assert write_class_folders(out, tmp_path / "empty")[0] == 5


def test_images_that_vanished_are_left_out_and_named(tmp_path: Path) -> None:
    out = leaving(images(tmp_path / "pool"))
    (tmp_path / "pool" / "a.png").unlink()
    for copy in (False, True):
        count, left_out = write_class_folders(out, tmp_path / f"sorted {copy}", copy=copy)
        assert count == 4
        assert len(left_out) == 1
        assert left_out[0].startswith("a.png: no such file")
    with zipfile.ZipFile(io.BytesIO(b"".join(class_folders_zip(out)))) as archive:
        assert archive.read("left-out.txt").startswith(b"a.png: no such file")


def test_the_names_in_a_zip_are_safe_and_the_same_labels_make_the_same_zip(tmp_path: Path) -> None:
    hostile = ("../../etc/passwd", "/abs", "C:\\x", "con.png", "ok.png", "..", "a\nb", "")
    out = replace(text_project(), ids=hostile)
    content = b"".join(class_folders_zip(out))
    assert content == b"".join(class_folders_zip(out))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        archive.extractall(tmp_path / "out")
    assert len(names) == 6
    for name in names:
        assert not PurePosixPath(name).is_absolute()
        assert ".." not in PurePosixPath(name).parts
        assert "\\" not in name
        assert ":" not in name
        assert "\n" not in name
    assert len(files(tmp_path / "out")) == 6
    assert files(tmp_path) == [f"out/{name}" for name in files(tmp_path / "out")]


def test_a_pool_of_features_alone_has_nothing_to_put_into_folders() -> None:
    with pytest.raises(UnderstudyError, match="features only"):
        class_folders_zip(leaving())
