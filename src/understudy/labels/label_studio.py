"""Labels out of Label Studio's JSON: its full export (tasks with annotations), or the short one, one object a label."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from understudy.data.items import printable
from understudy.data.labels import text_of
from understudy.errors import UnderstudyError, UsageError
from understudy.labels.found_labels import (
    Entry,
    FoundLabel,
    LabelsFrom,
    Trouble,
    annotator_name,
    has_unseen,
    seconds_since_1970,
    settled,
)
from understudy.labels.matching import Matcher, agreed

# In the short export data, answers and these stand side by side.
ABOUT: Final = frozenset({
    "id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "was_cancelled", "project", "meta",
    "inner_id", "agreement", "drafts", "predictions", "total_annotations", "file_upload",
})  # fmt: skip
# Fields that hold the item itself or the way to it.
DATA: Final = frozenset({
    "image", "img", "text", "url", "path", "file", "filename", "file_name", "image_path", "image_url", "html",
})  # fmt: skip
USUAL_CONTROLS: Final = ("choice", "choices", "label", "class", "category")
IDENTITIES: Final = ("id", "item_id", "name")  # fields of a task's data or meta that may hold an identity


def read_label_studio(path: Path, matcher: Matcher, named: Mapping[str, str]) -> Iterator[Entry]:
    """Each annotation's label, or why it has none."""
    tasks = _tasks_of(path)
    full = [task for task in tasks if isinstance(task, dict) and ("annotations" in task or "completions" in task)]
    if full:
        control = _only_control(_controls_of(full), path, named.get("label"))
        yield LabelsFrom(control or "")
        for number, task in enumerate(tasks):
            yield from _of_task(task, number, matcher, control)
        return
    short = [task for task in tasks if isinstance(task, dict)]
    key = _only_control(_answers_of(short, matcher), path, named.get("label"))
    yield LabelsFrom(key or "")
    for number, task in enumerate(tasks):
        yield _of_short(task, number, matcher, key)


def _tasks_of(path: Path) -> list[Any]:
    try:
        tasks = json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UnderstudyError(f"{path} is not in UTF-8; export it again as JSON") from error
    except (ValueError, RecursionError) as error:
        raise UnderstudyError(f"{path} is no JSON ({error}); export it again as JSON") from error
    except OSError as error:
        raise UnderstudyError(f"{path} cannot be read ({error.strerror})") from error
    if isinstance(tasks, dict):
        tasks = [tasks]
    if not isinstance(tasks, list) or not any(isinstance(task, dict) for task in tasks):
        raise UnderstudyError(f"{path} has no list of tasks; export it from Label Studio as JSON or JSON-MIN")
    return tasks


def _only_control(names: Iterable[str], path: Path, wanted: str | None) -> str | None:
    """The control whose answers are labels; with several, the caller must say which."""
    found = list(dict.fromkeys(names))
    shown = ", ".join(map(repr, map(printable, found[:10])))
    if wanted is not None:
        if wanted not in found:
            raise UsageError(f"{path} has no answers to {wanted!r}; it has some to {shown or 'nothing'}")
        return wanted
    usual = [name for name in found if name in USUAL_CONTROLS]
    if len(found) > 1 and len(usual) != 1:
        raise UsageError(f"{path} has answers to more than one question, {shown}; name one, as in --columns label=NAME")
    return usual[0] if len(found) > 1 else next(iter(found), None)


# -- the full export ------------------------------------------------------------------------------------------


def _of_task(task: Any, number: int, matcher: Matcher, control: str | None) -> Iterator[FoundLabel | Trouble]:
    name = f"task {number + 1}"
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        yield Trouble("broken", f"{name}: no task with data")
        return
    sure = [*_identities(task["data"]), *_identities(task.get("meta")), *_strings(task["data"], DATA)]
    rows = _rows_meant(matcher, sure) or _rows_meant(matcher, _strings(task["data"]))
    called = _shown(name, sure)
    for annotation in _annotations_of(task):
        if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
            yield Trouble("broken", f"{called}: an annotation without a result")
        elif annotation.get("was_cancelled"):
            yield Trouble("unlabelled", called)
        else:
            answers = [
                answer for answer in _choices_in(annotation) if control is None or answer.get("from_name") == control
            ]
            yield _of_annotation(annotation, answers, rows, called)


def _of_annotation(
    annotation: Mapping[str, Any], answers: list[dict[str, Any]], rows: frozenset[int], name: str
) -> FoundLabel | Trouble:
    own = answers[0].get("meta") if answers else None
    own = own if isinstance(own, dict) else {}  # where our own export keeps who and when
    by = annotator_name(own.get("annotator")) or _person(annotation.get("completed_by"))
    times = (own.get("labelled_at"), annotation.get("updated_at"), annotation.get("created_at"))
    at = next((seconds for seconds in map(seconds_since_1970, times) if seconds is not None), None)
    return settled(rows, name, _one_choice([answer["value"]["choices"] for answer in answers]), by, at)


def _annotations_of(task: Mapping[str, Any]) -> list[Any]:
    found = task.get("annotations", task.get("completions"))
    return found if isinstance(found, list) else []


def _choices_in(annotation: Any) -> list[dict[str, Any]]:
    """The parts of a result that choose a class of the whole item."""
    result = annotation.get("result") if isinstance(annotation, dict) else None
    answers = [answer for answer in result if isinstance(answer, dict)] if isinstance(result, list) else []
    return [answer for answer in answers if isinstance(answer.get("value"), dict) and "choices" in answer["value"]]


def _controls_of(tasks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for task in tasks:
        for annotation in _annotations_of(task):
            yield from (str(answer.get("from_name")) for answer in _choices_in(annotation))


def _one_choice(given: list[Any]) -> str | None:
    """The one class that was chosen, "" for none, None for several or what is no name."""
    chosen = [name for names in given for name in (names if isinstance(names, list) else [names])]
    if len(chosen) > 1:
        return None
    if not chosen:
        return ""
    return chosen[0] if has_unseen(chosen[0]) else text_of(chosen[0])  # spelt out, it would be a class nobody meant


def _person(value: Any) -> str | None:
    """Who annotated: an address, or the number that Label Studio has for them."""
    if isinstance(value, dict):
        return annotator_name(value.get("email")) or _person(value.get("id"))
    return f"user {value}" if isinstance(value, int) and not isinstance(value, bool) else annotator_name(value)


# -- the short export -----------------------------------------------------------------------------------------


def _of_short(task: Any, number: int, matcher: Matcher, key: str | None) -> FoundLabel | Trouble:
    name = f"entry {number + 1}"
    if not isinstance(task, dict):
        return Trouble("broken", f"{name}: no object")
    data = {field: value for field, value in task.items() if field != key and (field not in ABOUT or field == "id")}
    sure = [*([task["id"]] if isinstance(task.get("id"), str) else []), *_strings(data, DATA)]
    rows = _rows_meant(matcher, sure) or _rows_meant(matcher, _strings(data))
    answer = task.get(key) if key is not None else None
    chosen = answer.get("choices") if isinstance(answer, dict) else answer
    label = "" if chosen is None or task.get("was_cancelled") else _one_choice([chosen])
    times = (task.get("updated_at"), task.get("created_at"))
    at = next((seconds for seconds in map(seconds_since_1970, times) if seconds is not None), None)
    return settled(rows, _shown(name, sure), label, _person(task.get("annotator")), at)


def _answers_of(tasks: Sequence[Mapping[str, Any]], matcher: Matcher) -> Iterator[str]:
    """The fields that may be answers: choices, and texts unless each names another item."""
    given: dict[str, list[Any]] = {}
    for task in tasks:
        for field, value in task.items():
            if field not in ABOUT and field not in DATA:
                given.setdefault(field, []).extend([] if value is None else [value])
    for field, values in given.items():
        texts = [value for value in values if isinstance(value, str)]
        has_choices = any(isinstance(value, dict) and "choices" in value for value in values)
        if has_choices or (texts and (field in USUAL_CONTROLS or not _all_items(texts, matcher))):
            yield field


def _all_items(texts: Sequence[str], matcher: Matcher) -> bool:
    return len(set(texts)) == len(texts) and all(matcher.by_text(text) or matcher.by_name(text) for text in texts)


# -- which item -----------------------------------------------------------------------------------------------


def _identities(data: Any) -> list[str]:
    found = [text_of(data.get(field)) for field in IDENTITIES] if isinstance(data, dict) else []
    return [name for name in found if name]


def _strings(data: Mapping[str, Any], fields: frozenset[str] | None = None) -> list[str]:
    """The texts in these fields, or in all."""
    return [
        value
        for field, value in data.items()
        if isinstance(value, str) and value and (fields is None or field.lower() in fields)
    ]


def _rows_meant(matcher: Matcher, clues: Iterable[str]) -> frozenset[int]:
    """The rows that all clues agree on: identities, paths, addresses, texts."""
    return agreed(matcher.by_text(clue) or matcher.by_name(clue) for clue in clues)


def _shown(name: str, clues: list[str]) -> str:
    return f"{name} ({printable(clues[0][:80])})" if clues else name
