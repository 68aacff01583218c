"""Items as files: names that every system can store, and no two of them the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import lists, text
from PIL import Image

from tests.sessions.leaving import IDS, TEXTS, arrays, images
from understudy.data.items import StoredImages, Texts
from understudy.labels.item_files import distinct_names, fold_name, item_file, item_names, safe_name, with_suffix


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("cat", "cat"), ("", "%"), ("..", "%2E%2E"), (".", "%2E"), (".hidden", "%2Ehidden"), ("../x", "%2E.%2Fx"),
        ("con", "%63on"), ("COM1.txt", "%43OM1.txt"), ("nul", "%6Eul"), ("console", "console"), ("a\\b", "a%5Cb"),
        ("50%", "50%25"), ("end.", "end%2E"), ("end ", "end%20"), ("a\nb", "a%0Ab"), ("C:", "C%3A"), ("ä", "ä"),
    ],
)  # fmt: skip
def test_names_that_are_not_safe_are_spelt_out(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@given(text(max_size=400))
def test_no_name_leads_out_of_its_folder_or_is_too_long(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert "/" not in safe
    assert "\\" not in safe
    assert "\x00" not in safe
    assert not safe.startswith(".")
    assert not safe.endswith((".", " "))
    assert len(safe.encode()) < 200


@given(lists(text(alphabet="aA/.ß~2", max_size=5), unique=True, max_size=12))
def test_files_of_different_items_have_names_that_no_system_takes_for_the_same(ids: list[str]) -> None:
    names = item_names(ids)
    assert len({fold_name(name) for name in names}) == len(ids)
    folders = {"/".join(name.split("/")[:end]) for name in names for end in range(1, name.count("/") + 1)}
    assert not folders & set(names)


def test_names_that_differ_in_case_only_are_numbered() -> None:
    assert distinct_names(["a.png", "A.png", "b", "B", "b"]) == ["a.png", "A~2.png", "b", "B~2", "b~3"]


def test_a_long_name_keeps_its_suffix_and_stays_apart_from_its_like() -> None:
    first, second = safe_name("x" * 300 + "1.png"), safe_name("x" * 300 + "2.png")
    assert first != second
    assert first.endswith(".png")
    assert len(first) < 190


def test_every_kind_of_item_has_a_file_of_its_own(tmp_path: Path) -> None:
    assert item_file(Texts(TEXTS), 1) == (TEXTS[1].encode(), ".txt")
    assert item_file(images(tmp_path), 0) == ((tmp_path / "a.png").read_bytes(), ".png")
    content, suffix = item_file(arrays(), 3)
    assert content.startswith(b"\x89PNG")
    assert suffix == ".png"
    Image.new("RGB", (3, 3)).save(tmp_path / "x.jpg")
    stored = StoredImages([(tmp_path / "x.jpg").read_bytes(), b"no image"].__getitem__, ["row 0", "row 1"])
    assert item_file(stored, 0)[1] == ".jpg"
    assert item_file(stored, 1) == (b"no image", "")


def test_texts_end_in_txt_and_pictures_keep_what_they_have() -> None:
    assert with_suffix("line 3", ".txt") == "line 3.txt"
    assert with_suffix("a.JPG", ".png") == "a.JPG"
    assert with_suffix("row 5", ".png") == "row 5.png"
    assert item_names(["a.png", "b"], Texts(["x", "y"])) == ["a.png.txt", "b.txt"]
    assert item_names(IDS[:2]) == ["a.png", "sub/b.png"]
