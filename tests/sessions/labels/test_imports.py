"""Labels in, whatever they come in."""

from pathlib import Path

import pytest

from understudy.errors import NotFound, UnderstudyError
from understudy.sessions.labels.imports import LARGEST_BODY, format_of_content, read_labels


def test_a_file_is_known_by_its_name_and_bytes_by_their_start(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,label\na,b\n")
    assert len(read_labels(tmp_path / "x.csv", None, ("a",)).labels) == 1
    starts = {
        b"PAR1..": "parquet",
        b"PK\x03\x04": "folders",
        b"\xef\xbb\xbf [": "labelstudio",
        b"{": "jsonl",
        b"i": "csv",
    }
    assert {start: format_of_content(start) for start in starts} == starts


def test_a_format_that_is_given_goes_before_the_name(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("id,label\na,b\n")
    assert len(read_labels(tmp_path / "x.txt", "csv", ("a",)).labels) == 1
    with pytest.raises(UnderstudyError, match="no known suffix"):
        read_labels(tmp_path / "x.txt", None, ("a",))


def test_classes_that_are_known_are_not_new() -> None:
    found = read_labels(b"id,label\na,x\nb,y\nc,x\nd,z\n", None, tuple("abcd"), classes=("x",))
    assert found.new_classes == ("y", "z")


def test_what_cannot_be_an_import_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"20\.0 MiB are more than 20 MiB"):
        read_labels(b"x" * (LARGEST_BODY + 1), "csv", ("a",))
    with pytest.raises(UnderstudyError, match="got 'pickle'"):
        read_labels(b"x", "pickle", ("a",))
    with pytest.raises(NotFound, match="no such file"):
        read_labels(tmp_path / "nothing.csv", None, ("a",))
    with pytest.raises(UnderstudyError, match="is a folder; csv is a file"):
        read_labels(tmp_path, "csv", ("a",))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "labelstudio", "folders"])
@pytest.mark.parametrize("content", [b"\x80\x04\x95cos\nsystem\n", b"\x00" * 100, b"[" * 100_000, b"PK\x03\x04bad"])
def test_hostile_bytes_end_in_one_line_or_in_nothing(form: str, content: bytes) -> None:
    said, found = "", None
    try:
        found = read_labels(content, form, ("a",))
    except UnderstudyError as error:
        said = str(error)
    assert found is None or found.labels == []
    assert "\n" not in said
    assert len(said) < 1000
