import json
import os
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.data.image_pools import Counting, by_hand, image, images, pool_of
from understudy.data.embedding import embed
from understudy.data.features import default_folder, open_dataset, open_features, summary
from understudy.data.items import ArrayImages
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError

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
        "classes": ["even", "odd"], "kind": "image", "version": version("understudy"),
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
    with pytest.raises(UnderstudyError, match=r"no features folder, or was not finished|is damaged .*run embed again"):
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
    said = summary(embed(pool_of(paths), Counting(), out=tmp_path / "out"))
    assert said.startswith("3 x 48 features in ")
    assert ", 2 computed, 1 from the cache\n1 item left out: 0002.png: the file is empty; " in said
    assert said.endswith(f"written: {tmp_path / 'out'}")


def test_features_lie_beside_what_they_were_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    assert default_folder("photos") == default_folder(str(tmp_path / "photos")) == tmp_path / "photos.features"
    assert default_folder("cifar10") == tmp_path / "cifar10.features"
    assert default_folder("hf:some/set") == tmp_path / "set.features"
