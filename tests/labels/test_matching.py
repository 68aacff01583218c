"""Which item is meant: found where it is certain, and never guessed."""

from pathlib import Path

import pytest

from tests.sessions.leaving import IDS, TEXTS, images
from understudy.data.items import Texts
from understudy.labels.matching import Matcher, combine_clues

POOL = ("1.png", "cat/1.png", "cat/2.png", "dog/3.png", "ä ö.png", "row 5")
NONE: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("cat/1.png", {1}),
        ("1.png", {0}),
        ("./cat/2.png", {2}),
        ("cat\\2.png", {2}),
        ("/home/me/photos/cat/2.png", {2}),
        ("https://example.org/photos/cat/2.png?size=9#x", {2}),
        ("s3://bucket/deep/dog/3.png", {3}),
        ("/data/local-files/?d=photos/cat/2.png", {2}),
        ("/data/local-files/?d=%C3%A4%20%C3%B6.png", {4}),
        ("/data/upload/7/0a1b2c3d-3.png", {3}),
        ("2.png", {2}),
        (" row 5 ", {5}),
        ("/photos/cat/1.png", {0, 1}),  # the pool may begin at photos or at cat
        ("dog/1.png", {0}),
        ("bird/9.png", NONE),
        ("", NONE),
        ("/", NONE),
        ("http://[broken", NONE),
        ("xcat/22.png", NONE),
    ],
)
def test_items_are_known_by_identity_path_and_address(name: str, rows: set[int]) -> None:
    assert Matcher(POOL).by_name(name) == rows


def test_a_bare_name_that_several_items_have_means_none_of_them_for_certain() -> None:
    assert Matcher(("cat/1.png", "dog/1.png")).by_name("1.png") == {0, 1}


def test_a_path_is_cut_only_as_deep_as_items_lie() -> None:
    matcher = Matcher(POOL)
    assert matcher.depth == 2
    assert matcher.by_name("a/" * 60 + "cat/2.png") == {2}
    assert matcher.by_name("a/" * 64 + "cat/2.png") == NONE
    assert matcher.by_name("x" * 4096 + "/cat/2.png") == NONE
    long = "x" * 5000
    assert Matcher((long,)).by_name(long) == {0}  # to the letter, a name may be as long as it likes


def test_long_paths_and_names_that_many_items_have() -> None:
    matcher = Matcher(tuple(f"scene {number}/frame.png" for number in range(5000)))
    for number in range(5000):
        assert matcher.by_name(f"other {number}/frame.png") == NONE
        assert len(matcher.by_name("frame.png")) == 5000
    assert matcher.by_name("/".join("a" * 200_000)) == NONE
    assert matcher.by_end("scene 7/frame.png") == {7}


def test_texts_are_known_by_what_they_say_to_the_letter() -> None:
    matcher = Matcher(IDS, Texts([*TEXTS[:7], TEXTS[0]]))
    assert matcher.by_text(TEXTS[1]) == {1}
    assert matcher.by_text(TEXTS[0]) == {0, 7}
    assert matcher.by_text(TEXTS[1] + " ") == NONE
    assert Matcher(IDS).by_text(TEXTS[1]) == NONE


def test_files_are_known_by_what_they_hold(tmp_path: Path) -> None:
    matcher = Matcher(IDS, images(tmp_path))
    assert matcher.by_content((tmp_path / IDS[2]).read_bytes()) == {2}
    assert matcher.by_content(b"something else") == NONE
    (tmp_path / IDS[3]).unlink()
    fresh = Matcher(IDS, images(tmp_path / "other"))
    (tmp_path / "other" / IDS[1]).unlink()
    assert fresh.by_content((tmp_path / IDS[1]).read_bytes()) == NONE


def test_clues_that_agree_settle_what_one_alone_does_not() -> None:
    assert combine_clues([frozenset({1}), frozenset({0, 1}), NONE]) == {1}
    assert combine_clues([frozenset({1}), frozenset({2})]) == {1, 2}
    assert combine_clues([NONE]) == NONE
