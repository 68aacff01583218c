"""Label Studio's JSON in and out.

Coming in, it is the full export (tasks with annotations) or JSON-MIN (one object a label). Going out, tasks with
annotations and predictions.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from understudy.data.class_names import text_of
from understudy.data.items import make_printable
from understudy.errors import UnderstudyError, UsageError
from understudy.labels.export_data import ExportData, LabelRow, about_resolution
from understudy.labels.imported_labels import (
    ImportedLabel,
    ImportEntry,
    LabelColumn,
    UnusableEntry,
    annotator_name,
    has_unseen,
    label_of_entry,
    seconds_since_1970,
)
from understudy.labels.matching import LINE_NUMBER, Matcher, combine_clues
from understudy.labels.streams import JSON, encode_utf8, in_batches
from understudy.messages import list_some

CONTROL: Final = "label"  # name of the <Choices> in the labelling configuration
LOCAL_FILES: Final = "/data/local-files/?d="  # where Label Studio serves files of its own machine
TASKS_PER_BATCH: Final = 1000
# In JSON-MIN these stand beside the data and the answers.
TASK_FIELDS: Final = frozenset({
    "id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "was_cancelled", "project", "meta",
    "inner_id", "agreement", "drafts", "predictions", "total_annotations", "file_upload",
})  # fmt: skip
# Fields that hold the item itself, or its path or URL.
ITEM_FIELDS: Final = frozenset({
    "image", "img", "text", "url", "path", "file", "filename", "file_name", "image_path", "image_url", "html",
})  # fmt: skip
USUAL_CONTROLS: Final = ("choice", "choices", "label", "class", "category")
ID_FIELDS: Final = ("id", "item_id", "name")  # of a task's data or meta that may hold an item's id


def read_label_studio(path: Path, matcher: Matcher, columns: Mapping[str, str]) -> Iterator[ImportEntry]:
    """Each annotation's label, or why it has none."""
    tasks = _read_tasks(path)
    full = [task for task in tasks if isinstance(task, dict) and ("annotations" in task or "completions" in task)]
    if full:
        control = _label_control(_controls_in(full), path, columns.get("label"))
        yield LabelColumn(control or "")
        for number, task in enumerate(tasks):
            yield from _labels_of_task(task, number, matcher, control)
        return
    objects = [task for task in tasks if isinstance(task, dict)]
    key = _label_control(_answer_fields(objects, matcher), path, columns.get("label"))
    yield LabelColumn(key or "")
    for number, task in enumerate(tasks):
        yield _label_of_short_task(task, number, matcher, key)


def _read_tasks(path: Path) -> list[Any]:
    try:
        tasks = json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UnderstudyError(f"{path} is not in UTF-8; export it again as JSON") from error
    except (ValueError, RecursionError) as error:
        raise UnderstudyError(f"{path} is not JSON ({error}); export it again as JSON") from error
    except OSError as error:
        raise UnderstudyError(f"{path} cannot be read ({error.strerror})") from error
    if isinstance(tasks, dict):
        tasks = [tasks]
    if not isinstance(tasks, list) or not any(isinstance(task, dict) for task in tasks):
        raise UnderstudyError(f"{path} must be a list of tasks; export it from Label Studio as JSON or JSON-MIN")
    return tasks


def _label_control(names: Iterable[str], path: Path, wanted: str | None) -> str | None:
    """The control whose answers are labels; with several, the caller must say which."""
    found = list(dict.fromkeys(names))
    listed = list_some((repr(make_printable(name)) for name in found), 10)
    if wanted is not None:
        if wanted not in found:
            raise UsageError(f"{path} has no answers to {wanted!r}; it has some to {listed or 'nothing'}")
        return wanted
    usual = [name for name in found if name in USUAL_CONTROLS]
    if len(found) > 1 and len(usual) != 1:
        raise UsageError(
            f"{path} has answers to more than one question, {listed}; name one, as in --columns label=NAME"
        )
    return usual[0] if len(found) > 1 else next(iter(found), None)


# -- the full export -------------------------------------------------------------------------------------------


def _labels_of_task(task: Any, number: int, matcher: Matcher, control: str | None) -> Iterator[ImportEntry]:
    name = f"task {number + 1}"
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        yield UnusableEntry("broken", f"{name}: not a task with data")
        return
    sure = [*_ids_in(task["data"]), *_ids_in(task.get("meta")), *_texts_in(task["data"], ITEM_FIELDS)]
    rows = _matching_rows(matcher, sure) or _matching_rows(matcher, _texts_in(task["data"]))
    name = _entry_name(name, sure)
    for annotation in _annotations_of(task):
        if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
            yield UnusableEntry("broken", f"{name}: an annotation without a result")
        elif annotation.get("was_cancelled"):
            yield UnusableEntry("unlabelled", name)
        else:
            answers = [
                answer for answer in _choices_in(annotation) if control is None or answer.get("from_name") == control
            ]
            yield _label_of_annotation(annotation, answers, rows, name)


def _label_of_annotation(
    annotation: Mapping[str, Any], answers: list[dict[str, Any]], rows: frozenset[int], name: str
) -> ImportedLabel | UnusableEntry:
    own = answers[0].get("meta") if answers else None
    own = own if isinstance(own, dict) else {}  # our own export keeps here who labelled and when
    by = annotator_name(own.get("annotator")) or _annotator(annotation.get("completed_by"))
    at = _first_time(own.get("labelled_at"), annotation.get("updated_at"), annotation.get("created_at"))
    return label_of_entry(rows, name, _only_choice([answer["value"]["choices"] for answer in answers]), by, at)


def _annotations_of(task: Mapping[str, Any]) -> list[Any]:
    found = task.get("annotations", task.get("completions"))
    return found if isinstance(found, list) else []


def _choices_in(annotation: Any) -> list[dict[str, Any]]:
    """The parts of a result that choose a class of the whole item."""
    result = annotation.get("result") if isinstance(annotation, dict) else None
    answers = [answer for answer in result if isinstance(answer, dict)] if isinstance(result, list) else []
    return [answer for answer in answers if isinstance(answer.get("value"), dict) and "choices" in answer["value"]]


def _controls_in(tasks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for task in tasks:
        for annotation in _annotations_of(task):
            yield from (str(answer.get("from_name")) for answer in _choices_in(annotation))


def _only_choice(given: list[Any]) -> str | None:
    """The one class that was chosen; "" for none, None for several or for what is not a name."""
    chosen = [name for names in given for name in (names if isinstance(names, list) else [names])]
    if len(chosen) > 1:
        return None
    if not chosen:
        return ""
    # One with invisible characters stays as it is: escaped, it would become a class that nobody meant.
    return chosen[0] if has_unseen(chosen[0]) else text_of(chosen[0])


def _annotator(value: Any) -> str | None:
    """Who annotated: an email address, or the number that Label Studio has for them."""
    if isinstance(value, dict):
        return annotator_name(value.get("email")) or _annotator(value.get("id"))
    return f"user {value}" if isinstance(value, int) and not isinstance(value, bool) else annotator_name(value)


def _first_time(*values: Any) -> float | None:
    return next((seconds for seconds in map(seconds_since_1970, values) if seconds is not None), None)


# -- JSON-MIN --------------------------------------------------------------------------------------------------


def _label_of_short_task(task: Any, number: int, matcher: Matcher, key: str | None) -> ImportedLabel | UnusableEntry:
    name = f"entry {number + 1}"
    if not isinstance(task, dict):
        return UnusableEntry("broken", f"{name}: not an object")
    fields = [field for field in task if field != key and (field not in TASK_FIELDS or field == "id")]
    data = {field: task[field] for field in fields}
    sure = [*([task["id"]] if isinstance(task.get("id"), str) else []), *_texts_in(data, ITEM_FIELDS)]
    rows = _matching_rows(matcher, sure) or _matching_rows(matcher, _texts_in(data))
    answer = task.get(key) if key is not None else None
    chosen = answer.get("choices") if isinstance(answer, dict) else answer
    label = "" if chosen is None or task.get("was_cancelled") else _only_choice([chosen])
    at = _first_time(task.get("updated_at"), task.get("created_at"))
    return label_of_entry(rows, _entry_name(name, sure), label, _annotator(task.get("annotator")), at)


def _answer_fields(tasks: Sequence[Mapping[str, Any]], matcher: Matcher) -> Iterator[str]:
    """The fields that may be answers: choices, and texts unless every one of them names a different item."""
    given: dict[str, list[Any]] = {}
    for task in tasks:
        for field, value in task.items():
            if field not in TASK_FIELDS and field not in ITEM_FIELDS:
                given.setdefault(field, []).extend([] if value is None else [value])
    for field, values in given.items():
        texts = [value for value in values if isinstance(value, str)]
        has_choices = any(isinstance(value, dict) and "choices" in value for value in values)
        if has_choices or (texts and (field in USUAL_CONTROLS or not _name_items(texts, matcher))):
            yield field


def _name_items(texts: Sequence[str], matcher: Matcher) -> bool:
    return len(set(texts)) == len(texts) and all(matcher.by_text(text) or matcher.by_name(text) for text in texts)


# -- which item ------------------------------------------------------------------------------------------------


def _ids_in(data: Any) -> list[str]:
    found = [text_of(data.get(field)) for field in ID_FIELDS] if isinstance(data, dict) else []
    return [name for name in found if name]


def _texts_in(data: Mapping[str, Any], fields: frozenset[str] | None = None) -> list[str]:
    """The texts in these fields, or in all."""
    return [
        value
        for field, value in data.items()
        if isinstance(value, str) and value and (fields is None or field.lower() in fields)
    ]


def _matching_rows(matcher: Matcher, clues: Iterable[str]) -> frozenset[int]:
    """The rows that all clues agree on: ids, paths, URLs, texts. A text goes before an id that only numbers a line."""
    found = {clue: matcher.by_text(clue) or matcher.by_name(clue) for clue in clues}
    texts = [clue for clue in found if not LINE_NUMBER.fullmatch(clue)]
    for clue in found.keys() - set(texts) if texts else ():
        found[clue] = frozenset(
            row for row in found[clue] if not all(matcher.is_contradicted(row, text) for text in texts)
        )
    return combine_clues(found.values())


def _entry_name(name: str, clues: list[str]) -> str:
    return f"{name} ({make_printable(clues[0][:80])})" if clues else name


# -- out -------------------------------------------------------------------------------------------------------


def write_label_studio(data: ExportData) -> Iterator[bytes]:
    """Every item as a task, with an annotation for each annotator's label and the model's prediction.

    Who labelled is kept beside the choice: Label Studio refuses a whole file if it names an unknown annotator.
    """
    prefix, root = _find_root(data)
    yield b"["
    first = True
    for batch in in_batches(range(len(data.ids)), TASKS_PER_BATCH):
        tasks = (JSON.encode(_task(data, row, prefix + quote(_path_of(data, row, root)))) for row in batch)
        yield encode_utf8(("\n" if first else ",\n") + ",\n".join(tasks))
        first = False
    yield b"\n]\n"


def _task(data: ExportData, row: int, address: str) -> dict[str, Any]:
    name = data.ids[row]
    text = data.text(row)
    content = {"image": address} if text is None else {"text": text}
    labelled = [found for found in data.rows_of_item.get(row, []) if found.decision == "label"]
    task: dict[str, Any] = {
        "data": {**content, "id": name},
        "annotations": [_annotation(found, data.kind) for found in labelled],
    }
    if data.probs is not None and row < len(data.probs):
        best = int(data.probs[row].argmax())
        task["predictions"] = [
            {
                "model_version": (data.model or "understudy")[:12],
                "score": float(data.probs[row, best]),
                "result": [_choice(data.known_classes[best], data.kind, f"p{row}")],
            }
        ]
    return task


def _find_root(data: ExportData) -> tuple[str, Path | None]:
    """What addresses begin with, and the real folder that paths are relative to.

    Label Studio's local files lie below its document root, and a storage must lie below that, too: never the root
    itself. So without a prefix the name of the folder of images stands before each path.
    """
    root = None if data.base is None else data.base.resolve()
    if data.prefix is not None:
        return data.prefix, root
    folder = "" if data.base is None else data.base.absolute().name
    return LOCAL_FILES + quote(os.fsencode(f"{folder}/" if folder else "")), root


def _path_of(data: ExportData, row: int, root: Path | None) -> bytes:
    """The path of an item's file below the root; the item's name where it has no file, or one elsewhere."""
    paths = getattr(data.items, "paths", None)
    if paths is not None and root is not None and paths[row].is_relative_to(root):
        return os.fsencode(paths[row].relative_to(root).as_posix())
    return encode_utf8(data.ids[row])


def check_address(prefix: str) -> None:
    """An error where this is not how an address begins: a URL, or a path that begins with a slash."""
    is_url = re.match(r"https?://[^/\s]+/|/", prefix) is not None
    if not is_url or re.search(r"[\s\x00-\x1f\x7f<>\"]", prefix):
        raise UsageError(
            f"a prefix is an address such as https://example.org/photos/ or {LOCAL_FILES}photos/, with spaces written "
            f"as %20; got {make_printable(prefix)!r}"
        )


def _annotation(row: LabelRow, kind: str) -> dict[str, Any]:
    assert row.label is not None
    about = {
        "annotator": row.annotator,
        "labelled_at": row.labelled_at,
        "asked": row.asked,
        "why": row.why,
        **about_resolution(row),
    }
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
