"""Labelled items leave as `datasets` reads them, with their types, and come back."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.leaving_out import import_or_leave_out
from tests.sessions.leaving import AT, CLASSES, IDS, TEXTS, images, leaving, made, numbered, text_project
from understudy import load
from understudy.data.pool import Pool
from understudy.errors import NotFound
from understudy.labels import hf_datasets
from understudy.labels.export_data import ExportData
from understudy.labels.formats import FORMATS, read_labels
from understudy.projects.settings import Settings
from understudy.sessions.label_rows import collect_labels
from understudy.sessions.record import Record

datasets = import_or_leave_out("datasets")
datasets.disable_progress_bars()
LABELLED = sorted(leaving().effective.items())


def written(out: ExportData, folder: Path) -> Path:
    path = folder / "labelled.parquet"
    path.write_bytes(b"".join(FORMATS["datasets"].write(out)))
    return path


def read(path: Path, folder: Path) -> Any:
    return datasets.load_dataset("parquet", data_files=str(path), cache_dir=str(folder / "cache"), split="train")


def test_texts_leave_with_their_types(tmp_path: Path) -> None:
    found = read(written(text_project(), tmp_path), tmp_path)
    assert found.features == datasets.Features(
        id=datasets.Value("string"),
        text=datasets.Value("string"),
        label=datasets.ClassLabel(names=list(CLASSES)),
        resolution=datasets.Value("string"),
        annotator=datasets.Value("string"),
        labelled_at=datasets.Value("timestamp[us, tz=UTC]"),
    )
    assert found["text"][:] == [TEXTS[row] for row, _ in LABELLED]
    assert [found.features["label"].int2str(row["label"]) for row in found] == [name for _, name in LABELLED]
    last = found[-1]
    assert (last["annotator"], last["labelled_at"]) == ("ann", datetime.fromtimestamp(AT + 17, UTC))
    out = text_project()
    resolutions = {row.item: row.resolution for row in out.read_rows() if row.effective is not None}
    assert found["resolution"][:] == [resolutions[row] for row, _ in LABELLED]


def test_labels_that_only_a_model_gave_are_marked(tmp_path: Path) -> None:
    out = text_project()
    first = LABELLED[0][0]
    by_model = [row._replace(resolution="model", source="model") for row in out.read_rows() if row.item == first]
    others = [row for row in out.read_rows() if row.item != first]
    found = read(written(replace(out, read_rows=lambda: [*by_model, *others]), tmp_path), tmp_path)
    assert found["resolution"][0] == "model"
    assert "model" not in found["resolution"][1:]


def test_a_folder_that_datasets_saves_of_it_is_a_pool_with_the_same_classes(tmp_path: Path) -> None:
    read(written(text_project(), tmp_path), tmp_path).save_to_disk(tmp_path / "saved")
    reloaded = datasets.load_from_disk(tmp_path / "saved")
    assert isinstance(reloaded.features["label"], datasets.ClassLabel)
    for source in (reloaded, tmp_path / "saved", tmp_path / "labelled.parquet"):
        pool = load(source).pool
        assert pool.classes == CLASSES
        assert pool.labels is not None
        assert [pool.classes[label] for label in pool.labels] == [name for _, name in LABELLED]


def test_images_leave_as_the_files_they_are(tmp_path: Path) -> None:
    files = images(tmp_path / "pool")
    found = read(written(leaving(files), tmp_path), tmp_path)
    assert found.features["image"] == datasets.Image()
    stored = found.cast_column("image", datasets.Image(decode=False))
    for place, (row, _) in enumerate(LABELLED):
        assert stored[place]["image"]["bytes"] == files.paths[row].read_bytes()
        assert found[place]["image"].tobytes() == Image.open(files.paths[row]).tobytes()


def test_an_image_that_is_gone_is_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = images(tmp_path / "pool")
    files.paths[LABELLED[0][0]].unlink()
    assert len(read(written(leaving(files), tmp_path), tmp_path)) == len(LABELLED) - 1
    assert "left out: a.png: no such file" in caplog.text


def test_probabilities_leave_as_a_list_in_the_order_of_the_classes(tmp_path: Path) -> None:
    known = ("Cat", "cat", "-1")  # the model knows three classes, in an order of its own
    probs = np.tile(np.array([0.125, 0.25, 0.625], np.float32), (len(IDS) - 1, 1))  # and not the last item
    out = replace(text_project(), model_classes=(*known, *set(CLASSES) - set(known)), predictions=lambda: probs)
    found = read(written(replace(out, is_raw=True), tmp_path), tmp_path)
    assert found.features["probabilities"] == datasets.List(datasets.Value("float32"), length=len(CLASSES))
    assert found[0]["probabilities"] == [{"Cat": 0.125, "cat": 0.25, "-1": 0.625}.get(name, 0) for name in CLASSES]
    assert found.features["prediction"].int2str(found[0]["prediction"]) == "-1"
    assert found[-1]["probabilities"] is None


def test_it_comes_back_as_the_labels_that_count(tmp_path: Path) -> None:
    for kind, out in (("text", text_project()), ("image", leaving(images(tmp_path / "pool")))):
        (tmp_path / kind).mkdir()
        found = read_labels(written(out, tmp_path / kind), None, out.ids, items=out.items, classes=out.classes)
        assert sorted((label.row, label.label_name) for label in found.labels) == LABELLED
        assert (found.labels[-1].annotator, found.labels[-1].at) == ("ann", AT + 17)
        assert found.new_classes == ()


def test_many_items_leave_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_datasets, "BYTES_PER_ROW_GROUP", 20)
    assert len(list(FORMATS["datasets"].write(text_project()))) > 3
    assert read(written(text_project(), tmp_path), tmp_path)["id"][:] == [IDS[row] for row, _ in LABELLED]


def test_without_labels_that_is_said_before_anything_is_sent() -> None:
    out = collect_labels(Record.from_events(numbered(made(Settings(classes=CLASSES), 3, []))), Pool(("a", "b", "c")))
    with pytest.raises(NotFound, match="nothing is labelled yet"):
        FORMATS["datasets"].write(out)
