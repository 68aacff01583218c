"""The last model's predictions for the whole pool, with the probability of every class: CSV, JSONL and Parquet out."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow

from understudy.labels.export_data import ExportData
from understudy.labels.streams import ROWS_PER_BATCH, csv_stream, jsonl_stream, parquet_stream

DECIMALS: Final = 6  # of probabilities that are written as text


def write_csv(data: ExportData) -> Iterator[bytes]:
    names = _columns(data, data.require_probs())
    return csv_stream(names, ((*start, *probs) for start, probs in _predictions(data, DECIMALS)))


def write_jsonl(data: ExportData) -> Iterator[bytes]:
    classes = _known_classes(data, data.require_probs())
    return jsonl_stream(
        {
            "id": name,
            "predicted": best,
            "confidence": confidence,
            "label": label,
            "probabilities": dict(zip(classes, probs, strict=True)),
        }
        for (name, best, confidence, label), probs in _predictions(data, DECIMALS)
    )


def write_parquet(data: ExportData) -> Iterator[bytes]:
    names = _columns(data, data.require_probs())
    kinds = [pyarrow.string(), pyarrow.string(), pyarrow.float32(), pyarrow.string()]
    kinds += [pyarrow.float32()] * (len(names) - len(kinds))
    rows = ((*start, *probs) for start, probs in _predictions(data))
    return parquet_stream(rows, pyarrow.schema(list(zip(names, kinds, strict=True))))


def _columns(data: ExportData, probs: np.ndarray) -> list[str]:
    """The names of the columns; classes have `p_` in front, since one may be called id or label."""
    return ["id", "predicted", "confidence", "label", *(f"p_{name}" for name in _known_classes(data, probs))]


def _known_classes(data: ExportData, probs: np.ndarray) -> tuple[str, ...]:
    """The classes that the model knows; those added since come after them in the project."""
    return data.classes[: probs.shape[1]]


def _predictions(
    data: ExportData, decimals: int | None = None
) -> Iterator[tuple[tuple[str, str, float, str | None], list[float]]]:
    """Each item: its id, likeliest class, confidence and label if it has one; and all probabilities."""
    probs, classes = data.require_probs(), _known_classes(data, data.require_probs())
    for start in range(0, len(probs), ROWS_PER_BATCH):
        block = np.asarray(probs[start : start + ROWS_PER_BATCH], dtype=np.float64)
        block = block if decimals is None else block.round(decimals)
        best = block.argmax(1).tolist()
        for row, (values, label) in enumerate(zip(block.tolist(), best, strict=True), start):
            yield (data.ids[row], classes[label], values[label], data.effective.get(row)), values
