"""Class folders: known by name or content, never two classes for one item; safe names, complete or not at all."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from tests.sessions.leaving import IDS, TEXTS, arrays, images, leaving, text_project
from understudy.data.items import Texts
from understudy.errors import UnderstudyError
from understudy.labels.class_folders import (
    MAX_UNPACKED_BYTES,
    MIN_UNPACKED_BYTES,
    ZipUnpacker,
    folder_names,
    write_class_folders,
    write_zip,
)
from understudy.labels.formats import read_labels
from understudy.labels.imported_labels import Imported


def pairs(found: Imported) -> list[tuple[int, str]]:
    return [(label.row, label.label_name) for label in found.labels]


def put(folder: Path, name: str, content: bytes = b"x") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def test_the_folder_is_the_class_and_the_rest_of_the_path_the_item(tmp_path: Path) -> None:
    for name in ("cat/a.png", "dog/sub/b.png", "dog/unknown.png", "loose.png", "cat/.hidden", ".git/a.png"):
        put(tmp_path, name)
    found = read_labels(tmp_path, None, IDS)
    assert pairs(found) == [(0, "cat"), (1, "dog")]
    assert found.not_in_pool.first == ("dog/unknown.png",)


def test_a_pool_of_class_folders_finds_itself_again(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/1.png"):
        put(tmp_path, name)
    assert pairs(read_labels(tmp_path, None, ("cat/1.png", "dog/1.png"))) == [(0, "cat"), (1, "dog")]


def test_files_with_other_names_are_known_by_what_they_hold(tmp_path: Path) -> None:
    items = images(tmp_path / "pool")
    put(tmp_path / "sorted", "cat/renamed.png", items.read(2))
    put(tmp_path / "sorted", "dog/other.png", b"another picture")
    found = read_labels(tmp_path / "sorted", None, IDS, items=items)
    assert pairs(found) == [(2, "cat")]
    assert found.not_in_pool.first == ("dog/other.png",)


def test_of_two_classes_that_claim_an_item_the_content_decides(tmp_path: Path) -> None:
    items = images(tmp_path / "pool")
    put(tmp_path / "sorted", "cat/a.png", items.read(0))
    put(tmp_path / "sorted", "dog/a.png", items.read(4))
    put(tmp_path / "sorted", "fox/d.png", b"neither")
    put(tmp_path / "sorted", "owl/d.png", b"nor")
    found = read_labels(tmp_path / "sorted", None, IDS, items=items)
    assert pairs(found) == [(0, "cat"), (4, "dog")]
    assert found.ambiguous.first == ("fox/d.png", "owl/d.png")


def test_texts_come_as_files(tmp_path: Path) -> None:
    put(tmp_path, "warm/line 2.txt", b"red")
    put(tmp_path, "cold/anything.txt", b"blue")
    found = read_labels(tmp_path, None, ("line 2", "line 3"), items=Texts(["red", "blue"]))
    assert sorted(pairs(found)) == [(0, "warm"), (1, "cold")]


def test_a_file_called_after_a_line_with_another_text_is_not_that_line(tmp_path: Path) -> None:
    put(tmp_path, "warm/line 2.txt", b"red")
    put(tmp_path, "cold/line 3.txt", b"not here")
    found = read_labels(tmp_path, None, ("line 2", "line 3"), items=Texts(["blue", "red"]))
    assert pairs(found) == [(1, "warm")]
    assert found.not_in_pool.first == ("cold/line 3.txt",)


def test_a_folder_name_with_percents_that_is_not_ours_is_the_class(tmp_path: Path) -> None:
    put(tmp_path, "50%25/a.png")
    assert pairs(read_labels(tmp_path, None, IDS)) == [(0, "50%25")]


def test_a_zip_is_read_without_being_unpacked_and_never_leads_out_of_it(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (
            "cat/a.png",
            "../../etc/passwd",
            "/abs/d.png",
            "dog\\sub\\b.png",
            "__MACOSX/cat/._a.png",
            "top.png",
        ):
            archive.writestr(name, b"x")
    found = read_labels(path.read_bytes(), None, IDS)
    assert pairs(found) == [(5, "abs"), (0, "cat"), (1, "dog")]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.zip"]


def test_a_zip_that_would_burst_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.labels.class_folders.MAX_ITEM_BYTES", 1000)
    items = images(tmp_path)
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cat/bomb.png", b"\0" * 10_000_000)
        archive.writestr("cat/fine.png", items.read(3))
    found = read_labels(path, None, IDS, items=items)
    assert pairs(found) == [(3, "cat")]
    assert found.not_in_pool.count == 1


def test_what_is_unpacked_in_vain_counts_towards_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(40):
            archive.writestr(f"cat/{number}.png", bytes([number]) * 2**20)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        for member in members:
            if member.filename != "cat/39.png":
                # The checksum in the directory at the end, which is what the reader goes by.
                at = content.rindex(member.filename.encode()) - 46 + 16
                content[at] ^= 1
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        unpacker = ZipUnpacker(archive, path.stat().st_size)
        assert unpacker.bytes_left == MIN_UNPACKED_BYTES
        assert [unpacker.read(member) for member in archive.infolist()] == [None] * 40
        assert unpacker.bytes_left < 2**20


def test_files_smaller_than_a_piece_count_too_when_their_checksum_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cat/1.png", b"x" * 1000)
    content = bytearray(path.read_bytes())
    content[content.index(b"xxxx")] ^= 1
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        unpacker = ZipUnpacker(archive, 0)
        assert unpacker.read(archive.infolist()[0]) is None
        assert unpacker.bytes_left <= MIN_UNPACKED_BYTES - 1000


def test_a_zip_may_unpack_to_ten_times_its_size(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("cat/1.png", b"x")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        unpacker = ZipUnpacker(archive, 2**24)
        assert unpacker.read(archive.infolist()[0]) == b"x"
        assert unpacker.bytes_left == 10 * 2**24 - 2
        assert ZipUnpacker(archive, 2**40).bytes_left == MAX_UNPACKED_BYTES


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_that_can_burst_are_not_unpacked(tmp_path: Path, packed: int) -> None:
    items = images(tmp_path)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("cat/renamed.png", items.read(3), packed)
        archive.writestr("cat/a.png", b"known by its name", packed)
    found = read_labels(tmp_path / "x.zip", None, IDS, items=items)
    assert pairs(found) == [(0, "cat")]
    assert found.not_in_pool.first == ("cat/renamed.png",)


def test_many_files_are_compared_with_many_items_of_one_size(tmp_path: Path) -> None:
    texts = Texts([f"{number:05}" for number in range(4000)])
    for number in range(0, 4000, 2):
        put(tmp_path, f"even/{number}.md", f"{number:05}".encode())
    found = read_labels(tmp_path, None, tuple(f"line {number}" for number in range(4000)), items=texts)
    assert sorted(label.row for label in found.labels) == list(range(0, 4000, 2))


def test_a_folder_without_folders_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a.png")
    with pytest.raises(UnderstudyError, match="no files in folders"):
        read_labels(tmp_path, None, IDS)


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
    with zipfile.ZipFile(io.BytesIO(b"".join(write_zip(out)))) as archive:
        assert archive.read("left-out.txt").startswith(b"a.png: no such file")


def test_the_names_in_a_zip_are_safe_and_the_same_labels_make_the_same_zip(tmp_path: Path) -> None:
    hostile = ("../../etc/passwd", "/abs", "C:\\x", "con.png", "ok.png", "..", "a\nb", "")
    out = replace(text_project(), ids=hostile)
    content = b"".join(write_zip(out))
    assert content == b"".join(write_zip(out))
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
        write_zip(leaving())
