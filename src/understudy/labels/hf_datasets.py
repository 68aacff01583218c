"""Labelled items with their types, as Hugging Face `datasets` takes them: one Parquet file, a row an item.

The file says in its schema what each column is, in the words of `datasets`: the label is a ClassLabel with its names,
an image an Image. The library itself is not needed to write it.
"""

import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pyarrow
from pyarrow import parquet

from understudy.data.faults import ItemFault
from understudy.errors import NotFound
from understudy.labels.export_data import ExportData
from understudy.labels.item_files import item_file
from understudy.labels.streams import Drain, encode_utf8

BYTES_PER_ROW_GROUP: Final = 32 * 2**20  # of items; readers hold a group or two in memory
ROWS_PER_ROW_GROUP: Final = 5000
log = logging.getLogger(__name__)


def write_datasets(data: ExportData) -> Iterator[bytes]:
    """The file; an error at once where nothing is labelled."""
    if not data.effective:
        raise NotFound("nothing is labelled yet, so there is nothing to learn from; label some items first")
    return _write(data)


def _write(data: ExportData) -> Iterator[bytes]:
    features = _features_of(data)
    schema = pyarrow.schema(
        [(name, kind) for name, (_, kind) in features.items()],
        metadata={
            "huggingface": json.dumps({"info": {"features": {name: said for name, (said, _) in features.items()}}})
        },
    )
    drain = Drain()
    with parquet.ParquetWriter(pyarrow.PythonFile(drain, mode="w"), schema, compression="zstd") as writer:
        for rows in _in_groups(_rows(data)):
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
            yield drain.take()
    yield drain.take()


def _features_of(data: ExportData) -> dict[str, tuple[dict[str, Any], Any]]:
    """The columns: what `datasets` calls each, and its type in Arrow. There is none that would be empty."""
    label = {"names": list(data.classes), "_type": "ClassLabel"}, pyarrow.int64()
    features = {
        "id": _value("string", pyarrow.string()),
        **_feature_of_item(data),
        "label": label,
        "resolution": _value("string", pyarrow.string()),
        "annotator": _value("string", pyarrow.string()),
        "labelled_at": _value("timestamp[us, tz=UTC]", pyarrow.timestamp("us", tz="UTC")),
    }
    if data.probs is not None:
        number, kind = _value("float32", pyarrow.float32())
        said = {"feature": number, "length": len(data.classes), "_type": "List"}
        features["prediction"] = label
        features["probabilities"] = said, pyarrow.list_(kind, len(data.classes))
    return features


def _feature_of_item(data: ExportData) -> dict[str, tuple[dict[str, Any], Any]]:
    if data.items is None:
        return {}
    if data.kind == "text":
        return {"text": _value("string", pyarrow.string())}
    return {"image": ({"_type": "Image"}, pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()}))}


def _value(name: str, kind: Any) -> tuple[dict[str, Any], Any]:
    return {"dtype": name, "_type": "Value"}, kind


def _rows(data: ExportData) -> Iterator[dict[str, Any]]:
    """The labelled items in the order of the pool. One that cannot be read is left out, and a warning names it."""
    number = {name: place for place, name in enumerate(data.classes)}
    known = () if data.probs is None else [number.get(name) for name in data.known_classes]
    for row in sorted(data.effective):
        found: dict[str, Any] = {"id": encode_utf8(data.ids[row]).decode()}
        if data.items is not None:
            try:
                content, _ = item_file(data.items, row)
            except ItemFault as fault:
                log.warning("left out: %s", fault)
                continue
            if data.kind == "text":
                found["text"] = content.decode("utf-8", "replace")
            else:
                found["image"] = {"bytes": content, "path": found["id"]}
        found["label"] = number[data.effective[row]]
        found |= _origin(data, row)
        if data.probs is not None:
            probs = [0.0] * len(data.classes)
            if row < len(data.probs):
                for place, value in zip(known, data.probs[row].tolist(), strict=True):
                    if place is not None:
                        probs[place] = value
                found["prediction"] = max(range(len(probs)), key=probs.__getitem__)
                found["probabilities"] = probs
        yield found


def _origin(data: ExportData, row: int) -> dict[str, Any]:
    """How the label that counts came about, by a model say; who gave it, and when: of several people, the last."""
    decided = data.rows_of_item.get(row, ())
    gave = [each for each in decided if each.decision in ("label", "settled") and each.label == data.effective[row]]
    if not gave:
        return {"resolution": None, "annotator": None, "labelled_at": None}
    return {
        "resolution": gave[-1].resolution,
        "annotator": encode_utf8(gave[-1].annotator).decode(),
        "labelled_at": datetime.fromisoformat(gave[-1].labelled_at),
    }


def _in_groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows of one row group after another: as many as fit into memory."""
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row["image"]["bytes"]) if "image" in row else len(row.get("text", ""))
        if size >= BYTES_PER_ROW_GROUP or len(group) >= ROWS_PER_ROW_GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group
