import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from safetensors.numpy import save_file

from understudy.errors import UnderstudyError
from understudy.labels.predictions import read_predictions, read_with_notes

IDS = ("cats/a.jpg", "cats/b.jpg", "dogs/c.jpg", "dogs/d.jpg")
CLASSES = ("cat", "dog", "fox")
PROBS = np.array([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.0, 1.0, 0.0]], np.float32)
EVEN = [1 / 3, 1 / 3, 1 / 3]
TURNED = PROBS[::-1, ::-1]


def as_npy(path: Path) -> Path:
    np.save(path / "p.npy", PROBS)
    return path / "p.npy"


def as_npz(path: Path) -> Path:
    np.savez(path / "p.npz", probs=TURNED, ids=np.array(IDS[::-1]), classes=np.array(CLASSES[::-1]))
    return path / "p.npz"


def as_bare_npz(path: Path) -> Path:
    np.savez_compressed(path / "p.npz", anything=PROBS.astype(np.float64))
    return path / "p.npz"


def as_safetensors(path: Path) -> Path:
    save_file({"probs": PROBS}, path / "p.safetensors")
    return path / "p.safetensors"


def as_wide_csv(path: Path) -> Path:
    lines = ["id;fox;note;dog;cat"]
    lines += [f"{name};{p[0]};x;{p[1]};{p[2]}" for name, p in zip(IDS[::-1], TURNED, strict=True)]
    (path / "p.csv").write_text("\n".join(lines))
    return path / "p.csv"


def as_long_jsonl(path: Path) -> Path:
    rows = [
        {"id": name, "label": label, "probability": float(p)}
        for name, probs in zip(IDS, PROBS, strict=True)
        for label, p in zip(CLASSES, probs, strict=True)
    ]
    (path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[::-1]))
    return path / "p.jsonl"


def as_nested_jsonl(path: Path) -> Path:
    rows = [
        {
            "id": name,
            "predicted": "cat",
            "label": None,
            "probabilities": dict(zip(CLASSES, probs.tolist(), strict=True)),
        }
        for name, probs in zip(IDS, PROBS, strict=True)
    ]
    (path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path / "p.jsonl"


def as_exported_parquet(path: Path) -> Path:
    columns = {"id": list(IDS), "predicted": ["cat"] * 4, "confidence": [0.5] * 4, "label": [None] * 4}
    columns |= {f"p_{name}": PROBS[:, i].tolist() for i, name in enumerate(CLASSES)}
    parquet.write_table(pyarrow.table(columns), path / "p.parquet")
    return path / "p.parquet"


@pytest.mark.parametrize(
    "make",
    [as_npy, as_npz, as_bare_npz, as_safetensors, as_wide_csv, as_long_jsonl, as_nested_jsonl, as_exported_parquet],
)
def test_predictions_come_from_any_of_these_files(make: Callable[[Path], Path], tmp_path: Path) -> None:
    given = read_with_notes(make(tmp_path), IDS, CLASSES)
    np.testing.assert_allclose(given.probs, PROBS, atol=1e-6)
    assert given.probs.dtype == np.float32
    assert given.notes == ()


def read(folder: Path, text: str, name: str = "p.csv") -> tuple[np.ndarray, str]:
    (folder / name).write_text(text)
    given = read_with_notes(folder / name, IDS, CLASSES)
    np.testing.assert_allclose(given.probs.sum(1), 1, atol=1e-6)
    return given.probs, " | ".join(given.notes)


def test_items_without_a_prediction_start_even_and_unknown_ones_are_left_out(tmp_path: Path) -> None:
    probs, notes = read(tmp_path, "id,cat,dog,fox\n/data/cats/b.jpg,1,0,0\nelse.jpg,1,0,0\n")
    np.testing.assert_allclose(probs, [EVEN, [1.0, 0, 0], EVEN, EVEN], atol=1e-6)
    assert "1 items of the file are not in the pool and were left out: else.jpg" in notes
    assert "3 items have no prediction and start uniform: cats/a.jpg, dogs/c.jpg, dogs/d.jpg" in notes


def test_what_a_person_should_know_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    np.save(tmp_path / "p.npy", 2 * PROBS)
    np.testing.assert_allclose(read_predictions(tmp_path / "p.npy", IDS, CLASSES), PROBS, atol=1e-6)
    assert "p.npy: 4 items had scores that were scaled to sum to 1: cats/a.jpg" in caplog.text


def test_scores_are_scaled_and_it_is_said(tmp_path: Path) -> None:
    probs, notes = read(tmp_path, "id,cat,dog,owl\ncats/a.jpg,30,10,60\ncats/b.jpg,0,0,1\n")
    np.testing.assert_allclose(probs[0], [0.75, 0.25, 0])
    np.testing.assert_allclose(probs[1], 1 / 3)
    assert "1 items had scores that were scaled to sum to 1: cats/a.jpg" in notes
    assert "1 items have only zeros and start uniform: cats/b.jpg" in notes
    assert "1 classes have no prediction in the file and start at 0: fox" in notes


def test_where_only_the_likeliest_class_is_named_the_others_share_the_rest(tmp_path: Path) -> None:
    probs, notes = read(tmp_path, "path,label,confidence\ncats/a.jpg,cat,0.6\ndogs/c.jpg,dog,1\ncats/b.jpg,owl,0.4\n")
    np.testing.assert_allclose(probs[:3], [[0.6, 0.2, 0.2], EVEN, [0, 1.0, 0]], atol=1e-6)
    assert "1 classes of the file are not in the project and were left out: owl" in notes


def test_labels_that_are_numbers_are_places_in_the_list_of_classes(tmp_path: Path) -> None:
    probs, notes = read(tmp_path, "id,label,probability\ncats/a.jpg,1,0.8\n")
    np.testing.assert_allclose(probs[0], [0.1, 0.8, 0.1], atol=1e-6)
    assert "0 for cat" in notes


def test_broken_lines_are_noted_and_the_others_count(tmp_path: Path) -> None:
    probs, notes = read(tmp_path, "id,cat,dog,fox\ncats/a.jpg,1,0\ncats/b.jpg,1,0,0\n")
    np.testing.assert_allclose(probs[1], [1, 0, 0])
    assert "1 lines could not be read, the first: line 2" in notes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id,cat,dog,fox\ncats/a.jpg,-1.5,2,0\n", r"'cats/a.jpg' has the score -1.5, .* apply a softmax first"),
        ("id,cat,dog,fox\ncats/a.jpg,inf,2,0\n", "the score inf"),
        ("id,cat,dog,fox\ncats/a.jpg,much,2,0\n", "line 2: 'much' is not a number"),
        ("id,cat,dog\ncats/a.jpg,1,0\ncats/a.jpg,1,0\n", "more than one row for 'cats/a.jpg'"),
        ("id,label,score\ncats/a.jpg,cat,1\ncats/a.jpg,cat,0\n", "line 3: 'cats/a.jpg' has 'cat' twice"),
        ("id,cat,dog\nx.jpg,1,0\n", "none is in both: check the column id"),
        ("id,owl,elk\ncats/a.jpg,1,0\n", "needs a column id and one for each class"),
        ("cat,dog\n1,0\n", "needs a column id and one for each class"),
        ("id,label,score\ncats/a.jpg,owl,1\n", "none is in both: rename them"),
    ],
)
def test_tables_that_cannot_be_used_are_refused_in_one_line(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=problem) as refused:
        read(tmp_path, text)
    assert "\n" not in str(refused.value)


def test_arrays_that_cannot_be_used_are_refused_in_one_line(tmp_path: Path) -> None:
    def refused(problem: str, name: str = "p.npy", **arrays: np.ndarray) -> None:
        if name == "p.npy" and arrays:
            np.save(tmp_path / name, arrays["probs"])
        elif arrays:
            np.savez(tmp_path / name, **arrays)  # type: ignore[arg-type]
        with pytest.raises(UnderstudyError, match=problem) as found:
            read_with_notes(tmp_path / name, IDS, CLASSES)
        assert "\n" not in str(found.value)

    refused("3 rows for 4 items", probs=PROBS[:3])
    refused("2 columns for 3 classes", probs=PROBS[:, :2])
    refused("must hold numbers of shape", probs=PROBS[0])
    refused("must hold numbers of shape", probs=np.array([["a"]]))
    refused("apply a softmax first", probs=np.log(PROBS + 1e-9))
    refused("has no array probs; it has 'a', 'b'", "p.npz", a=PROBS, b=PROBS)
    refused("2 classes for predictions of shape", "p.npz", probs=PROBS, classes=np.array(["cat", "dog"]))
    (tmp_path / "q.npy").write_bytes(b"\x80\x04K\x01.")  # a pickle
    refused("cannot be read .* without Python objects", "q.npy")
    (tmp_path / "q.npz").write_bytes(as_npz(tmp_path).read_bytes()[:200])
    refused("cannot be read", "q.npz")
    (tmp_path / "q.safetensors").write_bytes(b"no")
    refused("cannot be read", "q.safetensors")
    refused("no such file", "none.npy")
    refused("no such file", "none.csv")
    refused("no such file", "none.safetensors")
    refused("give one of .npy", "p.txt")
    with pytest.raises(UnderstudyError, match="add them first"):
        read_with_notes(as_npy(tmp_path), IDS, ())
