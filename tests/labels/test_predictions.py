"""Predictions for the whole pool."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from tests.sessions.leaving import CLASSES, IDS, TEXTS, leaving, text_project
from understudy.errors import NotFound
from understudy.labels.export_data import ExportData
from understudy.labels.predictions import read_predictions, write_csv, write_jsonl, write_parquet

PROBS = np.random.default_rng(0).dirichlet(np.ones(4), len(IDS)).astype(np.float32)  # two classes came later


def predicted() -> ExportData:
    return replace(leaving(), predictions=lambda: PROBS, is_raw=True)


def test_a_row_an_item_and_a_column_a_class() -> None:
    rows = list(csv.DictReader(io.StringIO(b"".join(write_csv(predicted())).decode("utf-8-sig"), newline="")))
    assert [row["id"] for row in rows] == ["a.png", "sub/b.png", "'=1+1.png", *IDS[3:]]
    assert list(rows[0]) == ["id", "predicted", "confidence", "label", *(f"p_{name}" for name in CLASSES[:4])]
    best = PROBS.argmax(1)
    assert [row["predicted"].removeprefix("'") for row in rows] == [CLASSES[label] for label in best]
    assert [row["label"] for row in rows][:1] == ["cat"]
    assert rows[4]["label"] == ""
    np.testing.assert_allclose([float(row["p_cat"]) for row in rows], PROBS[:, 0], atol=1e-6)
    np.testing.assert_allclose([float(row["confidence"]) for row in rows], PROBS.max(1), atol=1e-6)


def test_parquet_and_lines_of_json_say_the_same() -> None:
    table = parquet.read_table(io.BytesIO(b"".join(write_parquet(predicted()))))
    entries = [json.loads(line) for line in b"".join(write_jsonl(predicted())).splitlines()]
    assert table["id"].to_pylist() == [entry["id"] for entry in entries] == list(IDS)
    assert table["predicted"].to_pylist() == [entry["predicted"] for entry in entries]
    assert table["label"].to_pylist() == [entry["label"] for entry in entries]
    for name, column in zip(CLASSES[:4], PROBS.T, strict=True):
        np.testing.assert_array_equal(table[f"p_{name}"].to_numpy(), column)
        np.testing.assert_allclose([entry["probabilities"][name] for entry in entries], column, atol=1e-6)


def test_texts_come_last_and_the_file_can_be_started_from_again(tmp_path: Path) -> None:
    data = replace(text_project(), predictions=lambda: PROBS, is_raw=True)
    (tmp_path / "p.csv").write_bytes(b"".join(write_csv(data)))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "p.csv").read_text(encoding="utf-8-sig"), newline="")))
    assert list(rows[0])[-1] == "text"
    assert [row["text"] for row in rows][:1] == [TEXTS[0]]
    entries = [json.loads(line) for line in b"".join(write_jsonl(data)).splitlines()]
    table = parquet.read_table(io.BytesIO(b"".join(write_parquet(data))))
    assert [entry["text"] for entry in entries] == table["text"].to_pylist() == list(TEXTS)
    np.testing.assert_allclose(read_predictions(tmp_path / "p.csv", IDS, CLASSES[:4]), PROBS, atol=1e-5)


def test_probabilities_are_calibrated_unless_they_are_to_stay_raw() -> None:
    data = replace(predicted(), is_raw=False)  # one audit item has an answer
    assert (data.calibration.audited, data.calibration.is_rough) == (1, True)
    literal = PROBS.astype(np.float64) ** (1 / data.calibration.temperature)
    literal /= literal.sum(1, keepdims=True)
    assert abs(literal - PROBS).max() > 0.01
    table = parquet.read_table(io.BytesIO(b"".join(write_parquet(data))))
    np.testing.assert_allclose(table["confidence"].to_numpy(), literal.max(1), rtol=1e-6)
    assert table["predicted"].to_pylist() == [CLASSES[label] for label in PROBS.argmax(1)]


@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_parquet])
def test_without_a_model_there_is_nothing_and_that_is_said_at_once(write) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NotFound, match="no model yet"):
        write(leaving())
