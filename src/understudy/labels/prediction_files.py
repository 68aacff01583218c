"""The last model's predictions for the whole pool as files, with the probability of every class."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow

from understudy.labels.label_files import csv_stream, json_lines
from understudy.labels.outgoing import Outgoing
from understudy.labels.streams import BATCH, parquet_stream

DIGITS: Final = 6  # of probabilities that are written as text


def predictions_csv(out: Outgoing) -> Iterator[bytes]:
    names = _columns(out, out.require_probs())
    return csv_stream(names, ((*start, *probs) for start, probs in _predicted(out, DIGITS)))


def predictions_jsonl(out: Outgoing) -> Iterator[bytes]:
    classes = _class_names(out, out.require_probs())
    return json_lines(
        {
            "id": name,
            "predicted": best,
            "confidence": confidence,
            "label": label,
            "probabilities": dict(zip(classes, probs, strict=True)),
        }
        for (name, best, confidence, label), probs in _predicted(out, DIGITS)
    )


def predictions_parquet(out: Outgoing) -> Iterator[bytes]:
    names = _columns(out, out.require_probs())
    kinds = [pyarrow.string(), pyarrow.string(), pyarrow.float32(), pyarrow.string()]
    kinds += [pyarrow.float32()] * (len(names) - len(kinds))
    rows = ((*start, *probs) for start, probs in _predicted(out))
    return parquet_stream(rows, pyarrow.schema(list(zip(names, kinds, strict=True))))


def _columns(out: Outgoing, probs: np.ndarray) -> list[str]:
    """`p_` before the classes: one may be called id or label."""
    return ["id", "predicted", "confidence", "label", *(f"p_{name}" for name in _class_names(out, probs))]


def _class_names(out: Outgoing, probs: np.ndarray) -> tuple[str, ...]:
    """The classes that the model knows; those added since come after them in the project."""
    return out.classes[: probs.shape[1]]


def _predicted(
    out: Outgoing, digits: int | None = None
) -> Iterator[tuple[tuple[str, str, float, str | None], list[float]]]:
    """Each item: identity, likeliest class, its probability, the label where it is known; and all probabilities."""
    probs, classes = out.require_probs(), _class_names(out, out.require_probs())
    for start in range(0, len(probs), BATCH):
        block = np.asarray(probs[start : start + BATCH], dtype=np.float64)
        block = block if digits is None else block.round(digits)
        best = block.argmax(1).tolist()
        for row, (values, label) in enumerate(zip(block.tolist(), best, strict=True), start):
            yield (out.ids[row], classes[label], values[label], out.effective.get(row)), values
