import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from understudy.data.feature_store import FeatureStore, open_store, pack_frame
from understudy.errors import UnderstudyError

DIM = 3


def digests(count: int, first: int = 0) -> list[bytes]:
    return [i.to_bytes(16, "little") for i in range(first, first + count)]


def vectors(count: int, first: int = 0) -> np.ndarray:
    return (np.arange(count * DIM, dtype=np.float32) + DIM * first).reshape(count, DIM)


def filled(folder: Path, batches: int = 3, size: int = 2) -> None:
    with open_store(folder, dim=DIM, encoder="e") as store:
        for first in range(0, batches * size, size):
            store.append(digests(size, first), vectors(size, first), {digests(1, first)[0]: [("odd", "used")]})


def require_whole(store: FeatureStore) -> None:
    """Everything that is promised is there, in whole batches."""
    assert len(store) % 2 == 0
    for i in range(len(store)):
        found = store.get(digests(1, i)[0])
        assert found is not None
        np.testing.assert_array_equal(found, vectors(1, i)[0])


def test_what_was_appended_is_there_when_opened_again(tmp_path: Path) -> None:
    filled(tmp_path)
    with open_store(tmp_path, dim=DIM, encoder="e") as store:
        assert len(store) == 6
        require_whole(store)
        assert store.get(b"x" * 16) is None
        assert store.notes == {digests(1, first)[0]: [("odd", "used")] for first in (0, 2, 4)}


def test_keys_cut_at_any_byte_leave_whole_batches_to_which_more_can_be_added(tmp_path: Path) -> None:
    filled(tmp_path)
    whole = (tmp_path / "keys.bin").read_bytes()
    values = (tmp_path / "vectors.f32").read_bytes()
    step = len(whole) // 3
    for length in range(len(whole) + 1):
        (tmp_path / "keys.bin").write_bytes(whole[:length])
        (tmp_path / "vectors.f32").write_bytes(values)
        with open_store(tmp_path, dim=DIM, encoder="e") as store:
            assert len(store) == 2 * (length // step)
            require_whole(store)
            store.append(digests(2, len(store)), vectors(2, len(store)), {})
        with open_store(tmp_path, dim=DIM, encoder="e") as store:
            assert len(store) == 2 * (length // step) + 2
            require_whole(store)


def test_vectors_cut_at_any_byte_leave_whole_batches(tmp_path: Path) -> None:
    filled(tmp_path)
    keys = (tmp_path / "keys.bin").read_bytes()
    values = (tmp_path / "vectors.f32").read_bytes()
    for length in range(len(values) + 1):
        (tmp_path / "keys.bin").write_bytes(keys)
        (tmp_path / "vectors.f32").write_bytes(values[:length])
        with open_store(tmp_path, dim=DIM, encoder="e") as store:
            assert len(store) == 2 * (length // (2 * DIM * 4))
            require_whole(store)
    assert (tmp_path / "keys.bin").read_bytes() == keys


def test_a_longer_tail_of_vectors_is_cut(tmp_path: Path) -> None:
    filled(tmp_path)
    with (tmp_path / "vectors.f32").open("ab") as file:
        file.write(b"half a vec")
    filled_size = 6 * DIM * 4
    with open_store(tmp_path, dim=DIM, encoder="e") as store:
        require_whole(store)
    assert (tmp_path / "vectors.f32").stat().st_size == filled_size


def test_any_flipped_byte_of_the_keys_is_recognised(tmp_path: Path) -> None:
    filled(tmp_path, batches=2)
    keys, values = (tmp_path / "keys.bin").read_bytes(), (tmp_path / "vectors.f32").read_bytes()
    for place in range(len(keys)):
        broken = bytearray(keys)
        broken[place] ^= 0x40
        (tmp_path / "keys.bin").write_bytes(broken)
        (tmp_path / "vectors.f32").write_bytes(values)
        with open_store(tmp_path, dim=DIM, encoder="e") as store:
            assert len(store) == 2 * (place >= len(keys) // 2)
            require_whole(store)


def test_a_vector_that_is_not_what_was_written_is_as_good_as_missing_and_can_be_written_again(tmp_path: Path) -> None:
    filled(tmp_path)
    values = bytearray((tmp_path / "vectors.f32").read_bytes())
    values[DIM * 4 + 1] ^= 1
    (tmp_path / "vectors.f32").write_bytes(values)
    damaged = digests(1, 1)[0]
    with open_store(tmp_path, dim=DIM, encoder="e") as store:
        assert [store.get(digest) is None for digest in digests(3)] == [False, True, False]
        store.append([damaged], vectors(1, 1), {})
    with open_store(tmp_path, dim=DIM, encoder="e") as store:
        found = store.get(damaged)
        assert found is not None
        np.testing.assert_array_equal(found, vectors(1, 1)[0])


def test_a_note_cut_short_is_forgotten(tmp_path: Path) -> None:
    filled(tmp_path)
    notes = (tmp_path / "notes.jsonl").read_text()
    (tmp_path / "notes.jsonl").write_text(notes[:-9])
    with open_store(tmp_path, dim=DIM, encoder="e") as store:
        assert len(store.notes) == 2


def test_another_process_is_told_to_wait(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom understudy.data.feature_store import open_store\n"
        f"with open_store(Path({str(tmp_path)!r}), dim={DIM}, encoder='e'): pass"
    )
    with open_store(tmp_path, dim=DIM, encoder="e"):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "another process is computing features of e; wait until it is done" in done.stderr
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_who_waits_is_told_so_and_goes_on_when_the_other_is_done(tmp_path: Path) -> None:
    first = open_store(tmp_path, dim=DIM, encoder="e")
    first.__enter__()
    told: list[int] = []

    def wait() -> None:
        told.append(len(told))
        if len(told) == 2:
            first.__exit__(None, None, None)

    with open_store(tmp_path, dim=DIM, encoder="e", on_wait=wait) as store:
        assert len(store) == 0
    assert told == [0, 1]


def test_waiting_ends_with_what_is_raised(tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyError("enough")

    with (
        open_store(tmp_path, dim=DIM, encoder="e"),
        pytest.raises(KeyError, match="enough"),
        open_store(tmp_path, dim=DIM, encoder="e", on_wait=stop),
    ):
        pass
    with open_store(tmp_path, dim=DIM, encoder="e"):
        pass


@pytest.mark.parametrize("about", ['{"format": 2, "dim": 3}', '{"format": 1, "dim": 4}', "{", "[]"])
def test_a_folder_of_another_kind_is_refused(tmp_path: Path, about: str) -> None:
    filled(tmp_path)
    (tmp_path / "store.json").write_text(about)
    with (
        pytest.raises(UnderstudyError, match="holds no features of e that can be read; delete this folder"),
        open_store(tmp_path, dim=DIM, encoder="e"),
    ):
        pass


def test_a_thread_that_finds_a_place_finds_its_checksum(tmp_path: Path) -> None:
    class Watched(dict[bytes, int]):
        def __setitem__(self, digest: bytes, place: int) -> None:
            super().__setitem__(digest, place)
            assert store.get(digest) is not None

    with open_store(tmp_path, dim=DIM, encoder="e") as store:
        store.places = Watched()
        store.append(digests(2), vectors(2), {})
        assert len(store.places) == 2


def test_a_frame_is_as_long_as_it_says() -> None:
    assert len(pack_frame([(b"x" * 16, 1), (b"y" * 16, 2)])) == 8 + 2 * 20 + 4


def test_the_folder_says_what_it_is_for(tmp_path: Path) -> None:
    filled(tmp_path)
    assert json.loads((tmp_path / "store.json").read_text()) == {"format": 1, "dim": DIM, "encoder": "e"}
