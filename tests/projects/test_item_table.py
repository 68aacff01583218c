import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.sessions.label_data import image, images, pixels, prepared, texts
from tests.warm_training import WarmProcess
from understudy.data.embedding import embed
from understudy.data.encoders import make_encoder
from understudy.data.pinned_images import real_paths
from understudy.data.sources import load
from understudy.errors import UnderstudyError
from understudy.projects import item_table
from understudy.projects.opening import create_or_open

SMALL = "pixels?size=4"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return images(tmp_path / "photos", ["b.png", "d.png", "f.png"])


def test_new_images_come_at_the_end_and_old_rows_stay(photos: Path) -> None:
    before = prepared(photos, encoder=SMALL)
    features, path = np.array(before.features), before.features_path
    images(photos, ["a.png", "c.png"], first=10)
    opened = create_or_open(photos)
    assert (opened.is_ready, opened.total, len(opened.pool)) == (False, 5, 3)
    opened.prepare()
    assert opened.pool.ids == ("b.png", "d.png", "f.png", "a.png", "c.png")
    assert (opened.added, opened.is_ready) == (2, True)
    np.testing.assert_array_equal(opened.features[:3], features)
    np.testing.assert_array_equal(opened.features[3], pixels(opened, 3))
    assert np.load(opened.features_path).shape == (5, 48)
    assert not path.exists()
    np.testing.assert_array_equal(before.features, features)  # who has them open keeps them
    again = prepared(photos)
    assert (again.added, again.pool.ids) == (0, opened.pool.ids)


def test_a_kill_between_features_and_items_leaves_the_pool_as_it_was(photos: Path, warm: WarmProcess) -> None:
    before = prepared(photos, encoder=SMALL)
    images(photos, ["a.png"], first=10)
    code = (
        "import os, signal, sys\nfrom understudy.projects import item_table\n"
        "from understudy.projects.opening import create_or_open\n"
        "item_table.atomic_file = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "create_or_open(sys.argv[1]).prepare()\n"
    )
    assert warm.run(code, photos) == -signal.SIGKILL
    assert len(list((before.folder / "features").glob("*.npy"))) == 2
    (photos / "a.png").unlink()
    images(photos, ["g.png"], first=11)  # what is new is another item by now
    project = create_or_open(photos)
    assert project.pool.ids == before.pool.ids
    np.testing.assert_array_equal(project.features, before.features)
    project.prepare()
    assert project.pool.ids == (*before.pool.ids, "g.png")
    np.testing.assert_array_equal(project.features[3], pixels(project, 3))
    assert [path.name for path in (before.folder / "features").iterdir()] == ["features-4.npy"]


def test_images_that_vanish_or_change_keep_their_rows_and_are_noted(photos: Path) -> None:
    before = prepared(photos, encoder=SMALL)
    (photos / "b.png").unlink()
    images(photos, ["d.png"], first=20)
    os.utime(photos / "f.png", (1, 1))  # touched, not changed
    project = prepared(photos)
    assert project.pool.ids == before.pool.ids
    np.testing.assert_array_equal(project.features, before.features)
    assert "1 item is not in" in project.notes[0]
    assert "2 items changed" in project.notes[1]
    assert "no such file" in project.notes[1]
    assert project.pool.items is not None
    with pytest.raises(UnderstudyError, match="no such file"):
        project.pool.items.read(0)


def test_lines_without_names_are_known_by_their_text(tmp_path: Path) -> None:
    table = texts(tmp_path / "t.jsonl", [{"text": "one"}, {"text": "two"}, {"text": "two"}, {"text": "three"}])
    before = prepared(table, encoder="words")
    assert before.pool.ids == ("line 1", "line 2", "line 3", "line 4")
    texts(table, [{"text": text} for text in ("zero", "one", "two", "two", "three, mended", "two")])
    project = prepared(table)
    assert [project.pool.item(row) for row in range(7)] == [
        "one", "two", "two", "three", "zero", "three, mended", "two",
    ]  # fmt: skip
    assert project.pool.ids == (*before.pool.ids, "line 1 (2)", "line 5", "line 6")
    assert project.added == 3
    np.testing.assert_array_equal(project.features[6], project.features[1])
    assert "1 item is not in" in project.notes[0]


def test_texts_with_names_keep_what_was_embedded(tmp_path: Path) -> None:
    table = texts(tmp_path / "t.jsonl", [{"id": "x", "text": "one"}, {"id": "y", "text": "two"}])
    prepared(table, encoder="words")
    texts(table, [{"id": "y", "text": "two, mended"}, {"id": "z", "text": "three"}, {"id": "x", "text": "one"}])
    project = prepared(table)
    assert project.pool.ids == ("x", "y", "z")
    assert [project.pool.item(row) for row in range(3)] == ["one", "two", "three"]
    assert "1 item changed" in project.notes[0]
    assert "y (reads differently in the source now)" in project.notes[0]


def test_images_of_an_array_are_found_wherever_they_stand(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).integers(0, 256, (4, 4, 4, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", X=drawn[:3])
    before = prepared(tmp_path / "a.npz", encoder=SMALL).pool
    np.savez(tmp_path / "a.npz", X=drawn[[3, 2, 1]])
    project = prepared(tmp_path / "a.npz")
    assert project.pool.ids == (*before.ids, "row 0 (2)")
    assert before.features is not None
    np.testing.assert_array_equal(project.features[:3], before.features)
    for row in (1, 2, 3):
        shown = project.pool.item(row)
        assert isinstance(shown, Image.Image)
        np.testing.assert_array_equal(np.asarray(shown), drawn[row])
    with pytest.raises(UnderstudyError, match="not in the source any more"):
        project.pool.item(0)
    (tmp_path / "a.npz").unlink()
    with pytest.raises(UnderstudyError, match="not in the source any more"):
        prepared(tmp_path / "a.npz.understudy").pool.item(1)


def test_another_image_in_a_cell_is_never_shown_for_the_first(tmp_path: Path) -> None:
    files = [path.read_bytes() for path in sorted(images(tmp_path / "x", ["1.png", "2.png"]).iterdir())]
    pq.write_table(pa.table({"image": files, "id": ["p", "q"]}), tmp_path / "cells.parquet")
    project = prepared(tmp_path / "cells.parquet", encoder=SMALL)
    assert project.pool.items is not None
    assert project.pool.items.read(1) == files[1]
    pq.write_table(pa.table({"image": [files[0], files[0]], "id": ["p", "q"]}), tmp_path / "cells.parquet")
    items = prepared(tmp_path / "cells.parquet").pool.items
    assert items is not None
    assert items.read(0) == files[0]
    with pytest.raises(UnderstudyError, match="another image stands in its place"):
        items.read(1)


def test_a_new_class_folder_is_a_new_class(tmp_path: Path) -> None:
    folder = images(tmp_path / "animals", ["cat/1.png", "dog/1.png"])
    prepared(folder, encoder=SMALL)
    images(folder, ["ape/1.png", "cat/2.png"], first=5)
    project = prepared(folder)
    assert (project.new_classes, project.classes_at_start) == (("ape",), ("cat", "dog"))
    assert project.pool.ids == ("cat/1.png", "dog/1.png", "ape/1.png", "cat/2.png")
    assert project.source_labels == {0: "cat", 1: "dog", 2: "ape", 3: "cat"}
    assert project.seed_labels == {0: "cat", 1: "dog", 3: "cat"}


def test_where_new_items_cannot_be_embedded_the_old_are_still_labelled(photos: Path, tmp_path: Path) -> None:
    code = "from understudy.data.encoders.pixels import PixelEncoder\n\n\ndef make(weights, device):\n"
    (tmp_path / "mine.py").write_text(f'{code}    return PixelEncoder("mine", "4")\n')
    prepared(photos, encoder=f"python:{tmp_path / 'mine.py'}:make")
    (tmp_path / "mine.py").unlink()
    images(photos, ["a.png"], first=10)
    project = prepared(photos)
    assert (len(project.pool), project.added, project.is_ready) == (3, 0, True)
    assert "1 new item could not be added" in project.notes[-1]


def test_features_of_another_encoder_are_not_mixed_in(photos: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    embed(load(photos).pool, make_encoder(SMALL), out=made, progress=False)
    prepared(made)
    images(photos, ["a.png"], first=10)
    embed(load(photos).pool, make_encoder(SMALL), out=made, progress=False)
    grown = prepared(made)
    assert grown.pool.ids[-1] == "a.png"
    np.testing.assert_array_equal(grown.features[3], pixels(grown, 3))
    images(photos, ["c.png"], first=11)
    embed(load(photos).pool, make_encoder("pixels?size=48x1&grey=1"), out=made, progress=False)
    same = prepared(made)
    assert len(same.pool) == 4
    assert "embedded anew, by another encoder" in same.notes[-1]


def test_damage_is_said_in_one_line(photos: Path) -> None:
    project = prepared(photos, encoder=SMALL)
    kept = (project.folder / "items.parquet").read_bytes()
    newer = item_table.SCHEMA.with_metadata({"understudy.items": "9"})
    for content, said in (
        (b"nonsense", "is damaged"),
        (b"", "is damaged"),
        (None, "has format 9, this version reads up to 1"),
    ):
        if content is None:
            pq.write_table(newer.empty_table(), project.folder / "items.parquet")
        else:
            (project.folder / "items.parquet").write_bytes(content)
        with pytest.raises(UnderstudyError, match=said):
            create_or_open(photos)
    (project.folder / "items.parquet").write_bytes(kept)
    shutil.rmtree(project.folder / "features")
    with pytest.raises(UnderstudyError, match="is missing or damaged"):
        _ = create_or_open(photos).pool


def test_what_a_kill_left_of_the_faults_is_no_obstacle(photos: Path) -> None:
    (photos / "x.png").write_bytes(b"broken")
    project = prepared(photos, encoder=SMALL)
    (project.folder / "faults.jsonl").write_text('{"item": "x.png", "pro')
    again = prepared(photos)
    assert again.pool.ids == project.pool.ids
    assert "could not be added" in again.notes[-1]


def test_real_paths_follow_links_of_folders_and_files(tmp_path: Path) -> None:
    images(tmp_path / "real", ["1.png"])
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "2.png").symlink_to("1.png")
    given = [tmp_path / "linked" / "1.png", tmp_path / "linked" / "2.png", tmp_path / "real" / "1.png"]
    assert set(real_paths(given)) == {os.path.realpath(tmp_path / "real" / "1.png")}


def test_names_that_are_taken_get_a_number() -> None:
    assert item_table.number_taken_names(["a", "b", "a"], ["a", "a (2)"]) == ["a (3)", "b", "a (4)"]


def test_pictures_are_as_they_were_made(photos: Path) -> None:
    shown = prepared(photos, encoder=SMALL).pool.item(1)
    assert isinstance(shown, Image.Image)
    np.testing.assert_array_equal(np.asarray(shown), np.asarray(image(1)))
