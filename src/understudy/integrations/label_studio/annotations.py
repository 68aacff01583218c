"""Annotations of Label Studio as decisions: who says what of a task, and who has taken it back."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from understudy.errors import UsageError
from understudy.integrations.label_studio.label_config import LabelQuestion
from understudy.labels.imported_labels import seconds_since_1970
from understudy.sessions.outside import OutsideDecision
from understudy.sessions.people import check_person_name

TOOL: Final = "label-studio:"  # what the keys of its decisions begin with


class People:
    """What the users of Label Studio are called in the project: by their email address, or else by their number."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def learn(self, users: Iterable[Mapping[str, Any]]) -> None:
        """Know these users by their email addresses."""
        for user in users:
            try:
                self._names[int(user["id"])] = check_person_name(str(user.get("email") or ""))
            except UsageError:
                self._names[int(user["id"])] = f"user {user['id']}"

    def knows(self, annotation: Mapping[str, Any]) -> bool:
        return _user_of(annotation) in self._names

    def name_of(self, annotation: Mapping[str, Any]) -> str:
        """Who made an annotation."""
        user = _user_of(annotation)
        return self._names.get(user, f"user {user}")


def _user_of(annotation: Mapping[str, Any]) -> int:
    by = annotation.get("completed_by")
    return int((by["id"] if isinstance(by, dict) else by) or 0)


def class_in(annotation: Mapping[str, Any], question: LabelQuestion) -> str | None:
    """The one class that an annotation names; None where it was passed over, is empty, or names none or several."""
    if annotation.get("was_cancelled"):
        return None
    chosen = [
        value
        for answer in annotation.get("result") or ()
        if answer.get("from_name") == question.control
        for value in (answer.get("value") or {}).get("choices", ())
    ]
    return question.class_of(chosen[0]) if len(chosen) == 1 else None


def has_unknown_class(annotation: Mapping[str, Any], question: LabelQuestion) -> bool:
    """Whether an annotation names a class that the label config did not have when it was read."""
    values = {
        value for answer in annotation.get("result") or () for value in (answer.get("value") or {}).get("choices", ())
    }
    return not annotation.get("was_cancelled") and not values <= set(question.values)


def decisions_in(
    annotations: Iterable[Mapping[str, Any]], question: LabelQuestion, people: People, numbers: Mapping[str, int | None]
) -> list[OutsideDecision]:
    """What each person says of a task: of several annotations by one person, the latest. `numbers` are of classes."""
    latest: dict[str, Mapping[str, Any]] = {}
    for annotation in sorted(annotations, key=lambda each: str(each.get("updated_at"))):
        latest[people.name_of(annotation)] = annotation
    return [_decision(who, annotation, question, numbers) for who, annotation in latest.items()]


def _decision(
    who: str, annotation: Mapping[str, Any], question: LabelQuestion, numbers: Mapping[str, int | None]
) -> OutsideDecision:
    name, at = class_in(annotation, question), str(annotation.get("updated_at") or "")
    seconds = annotation.get("lead_time")
    return OutsideDecision(
        who,
        None if name is None else numbers.get(name),
        key=f"{TOOL}{annotation['id']}:{''.join(filter(str.isdigit, at))}",
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        given_at=seconds_since_1970(annotation.get("updated_at")),
    )
