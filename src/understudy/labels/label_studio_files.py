"""Labels and predictions as tasks that Label Studio imports."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from understudy.labels.outgoing import LabelRow, Outgoing
from understudy.labels.streams import JSON, encoded, in_batches

CONTROL: Final = "label"  # name of the <Choices> in the labelling set-up
LOCAL_FILES: Final = "/data/local-files/?d="  # where Label Studio serves files of its own machine


def labels_label_studio(out: Outgoing) -> Iterator[bytes]:
    """Every item a task, with an annotation for each annotator's label and the model's prediction.

    Who labelled is kept beside the choice: Label Studio refuses a whole file over an annotator it does not know.
    """
    yield b"["
    first = True
    for batch in in_batches(range(len(out.ids)), 1000):
        tasks = (JSON.encode(_task(out, row)) for row in batch)
        yield encoded(("\n" if first else ",\n") + ",\n".join(tasks))
        first = False
    yield b"\n]\n"


def _task(out: Outgoing, row: int) -> dict[str, Any]:
    name = out.ids[row]
    text = out.text(row)
    data = {"image": LOCAL_FILES + quote(name)} if text is None else {"text": text}
    labelled = [found for found in out.rows_of_item.get(row, []) if found.label is not None]
    made: dict[str, Any] = {
        "data": {**data, "id": name},
        "annotations": [_annotation(found, out.kind) for found in labelled],
    }
    if out.probs is not None and row < len(out.probs):
        best = int(out.probs[row].argmax())
        made["predictions"] = [
            {
                "model_version": (out.model or "understudy")[:12],
                "score": float(out.probs[row, best]),
                "result": [_choice(out.classes[best], out.kind, f"p{row}")],
            }
        ]
    return made


def _annotation(row: LabelRow, kind: str) -> dict[str, Any]:
    assert row.label is not None
    about = {"annotator": row.annotator, "labelled_at": row.labelled_at, "asked": row.asked, "why": row.why}
    return {
        "result": [{**_choice(row.label, kind, f"a{row.item}"), "meta": about}],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": row.labelled_at,
        **({} if row.seconds is None else {"lead_time": row.seconds}),
    }


def _choice(name: str, kind: str, identity: str) -> dict[str, Any]:
    return {
        "id": identity,
        "from_name": CONTROL,
        "to_name": kind,
        "type": "choices",
        "value": {"choices": [name]},
    }
