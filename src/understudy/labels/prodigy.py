"""Prodigy's JSONL out. Coming in, it is read as a table: its columns `accept` and `answer` are known there."""

from collections.abc import Iterator
from typing import Any, Final

from understudy.labels.export_data import ExportData, LabelRow, about_resolution
from understudy.labels.imported_labels import seconds_since_1970
from understudy.labels.streams import jsonl_stream

ANSWERS: Final = {"label": "accept", "dont_know": "ignore", "skipped": "ignore", "bad": "reject"}


def write_prodigy(data: ExportData) -> Iterator[bytes]:
    """One line a decision, as Prodigy's choice interface saves them; flags alone and settlements have none."""
    options = [{"id": name, "text": name} for name in data.classes]
    return jsonl_stream(_choice(data, row, options) for row in data.rows if row.decision in ANSWERS)


def _choice(data: ExportData, row: LabelRow, options: list[dict[str, str]]) -> dict[str, Any]:
    return {
        **({"text": data.text(row.item)} if data.kind == "text" else {"image": row.id}),
        "id": row.id,
        "options": options,
        "accept": [] if row.label is None else [row.label],
        "answer": ANSWERS[row.decision],
        "_annotator_id": row.annotator,
        "_timestamp": round(seconds_since_1970(row.labelled_at) or 0),
        "_view_id": "choice",
        "meta": {"asked": row.asked, "why": row.why, "model": row.model, **about_resolution(row)},
    }
