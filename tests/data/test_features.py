import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.data.image_pools import Counting, by_hand, image, images, pool_of
from understudy.data import features as features_module
from understudy.data.embedding import embed
from understudy.data.features import default_folder, open_dataset, open_features, output_folder, summarize
from understudy.data.items import ArrayImages
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError
from understudy.version import __version__

LATER = 10**9  # a second, in nanoseconds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    embed(pool_of(images(tmp_path / "images", 5)), Counting(), out=tmp_path / "out", source="some images")
    return tmp_path / "out"


def test_the_files_say_what_they_hold(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir() if path.name != ".lock") == [
        "embedding.json", "faults.jsonl", "features.npy", "items.parquet",
    ]  # fmt: skip
    about = json.loads((folder / "embedding.json").read_text())
    assert about == {
        "format": 1, "encoder": "counting", "identity": Counting().identity, "source": "some images", "n": 5, "d": 48,
        "classes": ["even", "odd"], "kind": "image", "version": __version__,
    }  # fmt: skip
    rows = pq.read_table(folder / "items.parquet").to_pylist()
    assert [row["id"] for row in rows] == [f"{i:04}.png" for i in range(5)]
    assert [row["class"] for row in rows] == ["even", "odd", "even", "odd", "even"]
    assert all(Path(row["path"]).stat().st_mtime_ns == row["mtime_ns"] for row in rows)
    assert len({row["digest"] for row in rows}) == 5


def test_a_folder_is_opened_as_the_pool_it_was(folder: Path) -> None:
    pool = open_features(folder)
    assert pool.ids == tuple(f"{i:04}.png" for i in range(5))
    assert isinstance(pool.features, np.memmap)
    paths = sorted((folder.parent / "images").iterdir())
    np.testing.assert_array_equal(pool.features, by_hand(paths))
    assert pool.labels is not None
    assert pool.labels.tolist() == [0, 1, 0, 1, 0]
    assert (pool.classes, pool.faults) == (("even", "odd"), ())
    assert pool.items is not None
    item, _ = pool.items.decode(2, pool.items.read(2))
    np.testing.assert_array_equal(np.asarray(item), np.asarray(image(2)))


def test_files_that_changed_or_vanished_are_named_with_their_remedy_and_touched_ones_are_not(folder: Path) -> None:
    paths = sorted((folder.parent / "images").iterdir())
    image(99).save(paths[1])
    os.utime(paths[1], ns=(LATER, LATER))
    paths[3].unlink()
    os.utime(paths[4], ns=(LATER, LATER))
    pool = open_features(folder)
    assert [str(fault) for fault in pool.faults] == [
        "0001.png: changed since it was embedded; run embed again",
        "0003.png: embedded, but now: no such file; run embed again",
    ]
    assert all(fault.used for fault in pool.faults)
    assert len(pool) == 5
    assert open_features(folder, check=False).faults == ()


def test_images_of_an_array_have_features_and_no_items_afterwards(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 4), dtype=np.uint8)
    embed(Pool(("a", "b", "c"), ArrayImages(pixels)), Counting(), out=tmp_path / "out")
    pool = open_features(tmp_path / "out")
    assert pool.items is None
    assert pool.labels is None
    assert pool.features is not None
    np.testing.assert_array_equal(pool.features[:, ::3], pixels.reshape(3, 16).astype(np.float32) / 255)


@pytest.mark.parametrize("missing", ["embedding.json", "features.npy", "items.parquet", "faults.jsonl"])
def test_a_folder_that_is_not_whole_is_refused(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(
        UnderstudyError, match=r"not a features folder, or was not finished|is damaged .*run embed again"
    ):
        open_features(folder)


@pytest.mark.parametrize("broken", ["embedding.json", "features.npy", "items.parquet", "faults.jsonl"])
def test_a_folder_that_is_damaged_is_refused(folder: Path, broken: str) -> None:
    content = (folder / broken).read_bytes() or b"x"
    (folder / broken).write_bytes(content[: len(content) // 2] or b"{")
    with pytest.raises(UnderstudyError, match=r"run embed again"):
        open_features(folder)


def test_files_of_different_runs_are_recognised(folder: Path) -> None:
    np.save(folder / "features.npy", np.zeros((4, 48), np.float32))
    with pytest.raises(UnderstudyError, match=r"5 rows of 48 were written, features.npy has shape \(4, 48\)"):
        open_features(folder)
    about = json.loads((folder / "embedding.json").read_text())
    (folder / "embedding.json").write_text(json.dumps(about | {"format": 7}))
    with pytest.raises(UnderstudyError, match="has format 7, this version reads 1; run embed again"):
        open_features(folder)


def test_a_test_set_lies_in_a_folder_of_its_own(folder: Path, tmp_path: Path) -> None:
    assert open_dataset(folder).test is None
    embed(pool_of(images(tmp_path / "more", 2, first=50)), Counting(), out=folder / "test")
    found = open_dataset(folder)
    assert found.name == "out"
    assert found.test is not None
    assert (len(found.pool), len(found.test)) == (5, 2)


def test_a_test_set_of_another_encoder_is_refused(folder: Path, tmp_path: Path) -> None:
    embed(pool_of(images(tmp_path / "more", 2, first=50)), Counting("5"), out=folder / "test")
    with pytest.raises(
        UnderstudyError, match=r"out was made by counting with 48 columns, its test set by .* with 75; run embed again"
    ):
        open_dataset(folder)


def test_a_path_that_is_no_text_is_kept(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"na\xefve.png")
    try:
        image(0).save(path)
    except OSError:
        pytest.skip("this file system wants UTF-8")
    embed(pool_of([path, *images(tmp_path, 1)]), Counting(), out=tmp_path / "out")
    pool = open_features(tmp_path / "out")
    assert pool.faults == ()
    assert pool.items is not None
    assert pool.items.read(0) == path.read_bytes()


def test_the_summary_counts_and_names(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 4)
    paths[2].write_bytes(b"")
    embed(pool_of(paths[:1]), Counting(), out=tmp_path / "first")
    said = summarize(embed(pool_of(paths), Counting(), out=tmp_path / "out"))
    assert said.startswith("pool: 3 x 48 features in ")
    assert ", 2 computed, 1 from the cache\n1 item left out: 0002.png: the file is empty; " in said
    assert said.endswith(f"\nall of this is in {tmp_path / 'out' / 'faults.jsonl'}\nwritten: {tmp_path / 'out'}")


def test_the_summary_says_which_part_it_is_of_and_what_the_notes_are(tmp_path: Path) -> None:
    paths = images(tmp_path / "images", 4)
    for path in paths[1:3]:
        image(5).convert("CMYK").save(path, format="jpeg")
    for path in (paths[0], *images(tmp_path / "images", 1, first=9)):
        path.write_bytes(b"")
    said = summarize(embed(pool_of(sorted((tmp_path / "images").iterdir())), Counting(), out=tmp_path / "out"), "test")
    assert said.startswith("test: 3 x 48 features in ")
    assert "\n2 items left out:\n  0000.png: the file is empty" in said
    assert "\n2 notes, the first: 0001.png: CMYK colours; converted to RGB without a colour profile\n" in said
    assert not [line for line in said.splitlines() if line != line.rstrip()]


def test_features_lie_beside_what_they_were_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    assert default_folder("photos") == default_folder(str(tmp_path / "photos")) == tmp_path / "photos.features"
    assert default_folder("cifar10") == tmp_path / "cifar10.features"
    assert default_folder("hf:some/set") == tmp_path / "set.features"
    monkeypatch.chdir(tmp_path / "photos")
    assert default_folder(".") == tmp_path / "photos.features"
    assert default_folder("..") == tmp_path.with_name(f"{tmp_path.name}.features")
    (tmp_path / "link").symlink_to("photos")
    assert default_folder(str(tmp_path / "link")) == tmp_path / "link.features"
    with pytest.raises(UnderstudyError, match=r"^/ has no name and nothing lies beside it; say where .* with --out$"):
        default_folder("/")


@pytest.mark.parametrize("out", ["photos", "photos/new", "."])
def test_features_do_not_go_where_they_would_be_read(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images(tmp_path / "photos", 1)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnderstudyError, match=r"are the same or one lies in the other; give --out a folder of its own"):
        output_folder("photos", Path(out))
    assert output_folder("photos", Path("new")) == Path("new")
    assert output_folder("photos", None) == tmp_path / "photos.features"


def test_the_folder_of_a_manifest_may_take_its_features(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("text\nhello\n")
    assert output_folder(str(tmp_path / "list.csv"), tmp_path / "features") == tmp_path / "features"


def test_a_large_array_is_synced_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever syncs a line to the same disk meanwhile does not wait for all of it."""
    synced: list[int] = []
    sync = os.fsync

    def note(handle: int) -> None:
        synced.append(os.fstat(handle).st_size)
        sync(handle)

    monkeypatch.setattr(features_module, "BYTES_PER_SYNC", 1_000)
    monkeypatch.setattr(os, "fsync", note)
    rows = np.random.default_rng(0).normal(size=(100, 10)).astype(np.float32)
    features_module.write_array(
        tmp_path / "x.npy", (rows[start : start + 10] for start in range(0, 100, 10)), (100, 10)
    )
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), rows)
    steps = np.diff([0, *synced])
    assert len(steps) >= 4
    assert steps.max() <= 1_600
