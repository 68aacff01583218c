from pathlib import Path

import numpy as np
import pytest

from tests.sessions.training.test_artifacts import files_no_longer_than
from understudy.data.files import remove_drafts
from understudy.errors import NotStored, UnderstudyError
from understudy.sessions.training.array_folders import can_be_read, read_about, read_arrays, write_arrays

ARRAYS = {
    "large": np.arange(400_000, dtype=np.float64).reshape(400, 1000),
    "small": np.arange(3),
    "none": np.zeros((0, 5), bool),
    "text": np.array("a word"),
    "number": np.array(2.5),
}


def test_arrays_come_back_as_they_were_and_large_ones_are_mapped_for_the_reader_alone(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", ARRAYS, {"until": 7})
    found = read_arrays(tmp_path / "a")
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert isinstance(found["large"], np.memmap)
    found["large"][0] = -1
    assert read_arrays(tmp_path / "a")["large"][0, 0] == 0
    about = read_about(tmp_path / "a")
    assert about is not None
    assert about["until"] == 7


def test_a_folder_is_replaced_whole_and_who_has_mapped_it_keeps_what_he_has(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", ARRAYS, {})
    before = read_arrays(tmp_path / "a")
    write_arrays(tmp_path / "a", {"large": -ARRAYS["large"]}, {})
    assert list(read_arrays(tmp_path / "a")) == ["large"]
    np.testing.assert_array_equal(before["large"], ARRAYS["large"])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_linked_array_is_on_the_disk_once_and_is_written_where_there_is_nothing_to_link(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", ARRAYS, {})
    write_arrays(tmp_path / "b", ARRAYS, {}, linked={"large": tmp_path / "a" / "large.npy", "small": tmp_path / "no"})
    assert (tmp_path / "a" / "large.npy").samefile(tmp_path / "b" / "large.npy")
    np.testing.assert_array_equal(read_arrays(tmp_path / "b")["small"], ARRAYS["small"])


@pytest.mark.parametrize("broken", ["large.npy", "small.npy", "about.json"])
def test_what_is_cut_short_or_gone_does_not_open(broken: str, tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", ARRAYS, {})
    path = tmp_path / "a" / broken
    content = path.read_bytes()
    for damage in (content[: len(content) // 2], b"", None):
        path.unlink() if damage is None else path.write_bytes(damage)
        assert not can_be_read(tmp_path / "a")
        with pytest.raises(UnderstudyError, match="delete it, and it is made again"):
            read_arrays(tmp_path / "a")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", {"small": ARRAYS["small"]}, {})
    with files_no_longer_than(100_000), pytest.raises(NotStored, match="make room"):
        write_arrays(tmp_path / "a", ARRAYS, {})
    assert list(read_arrays(tmp_path / "a")) == ["small"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_objects_are_not_pickled(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        write_arrays(tmp_path / "a", {"odd": np.array([{}])}, {})
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_left_is_removed(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", ARRAYS, {})
    (tmp_path / ".draft-0123").mkdir()
    (tmp_path / ".draft-0123" / "large.npy").write_bytes(b"half")
    remove_drafts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
