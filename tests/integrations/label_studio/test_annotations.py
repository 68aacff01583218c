"""Annotations as decisions: who says what of a task."""

from typing import Any

from understudy.integrations.label_studio.annotations import People, class_in, decisions_in, has_unknown_class
from understudy.integrations.label_studio.label_config import LabelQuestion

QUESTION = LabelQuestion("choice", "text", "text", "text", ("bad", "good"), ("bad", "good"))
NUMBERS = {"bad": 0, "good": 1}


def annotation(number: int, by: Any, *chosen: str, minute: int = 0, **values: Any) -> dict[str, Any]:
    result = [{"from_name": "choice", "type": "choices", "value": {"choices": list(chosen)}}] if chosen else []
    at = f"2026-11-19T05:{minute:02}:40.345987Z"
    return {"id": number, "completed_by": by, "result": result, "updated_at": at, "lead_time": 3, **values}


def people() -> People:
    known = People()
    known.learn(
        [{"id": 1, "email": "ann@example.org"}, {"id": 2, "email": ""}, {"id": 3, "email": f"{'x' * 90}@a.org"}]
    )
    return known


def test_users_are_known_by_their_addresses_or_else_by_their_numbers() -> None:
    known = people()
    by = [1, 2, 3, 9, {"id": 1}, None]
    names = [known.name_of({"completed_by": who}) for who in by]
    assert names == ["ann@example.org", "user 2", "user 3", "user 9", "ann@example.org", "user 0"]
    assert [known.knows({"completed_by": who}) for who in (1, 2, 9)] == [True, True, False]


def test_of_several_annotations_by_one_person_the_latest_counts() -> None:
    given = [annotation(4, 1, "good", minute=2), annotation(9, 1, "bad", minute=1), annotation(5, 2, "bad", minute=3)]
    said = {each.annotator: each for each in decisions_in(given, QUESTION, people(), NUMBERS)}
    assert {who: each.label for who, each in said.items()} == {"ann@example.org": 1, "user 2": 0}
    assert said["ann@example.org"].key == "label-studio:4:20261119050240345987"
    assert said["ann@example.org"].seconds == 3.0
    assert said["user 2"].given_at == 1795064620.345987


def test_skips_empty_answers_and_several_choices_are_no_label() -> None:
    assert class_in(annotation(1, 1, "good", was_cancelled=True), QUESTION) is None
    assert class_in(annotation(1, 1), QUESTION) is None
    assert class_in(annotation(1, 1, "good", "bad"), QUESTION) is None
    assert class_in(annotation(1, 1, "good"), QUESTION) == "good"
    other = annotation(1, 1, "good")
    other["result"][0]["from_name"] = "mood"
    assert class_in(other, QUESTION) is None


def test_a_class_that_was_added_to_the_label_config_is_noticed() -> None:
    assert has_unknown_class(annotation(1, 1, "new"), QUESTION)
    assert not has_unknown_class(annotation(1, 1, "good"), QUESTION)
    assert not has_unknown_class(annotation(1, 1, was_cancelled=True), QUESTION)
