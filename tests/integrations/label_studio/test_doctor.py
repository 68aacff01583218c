"""The doctor: each half-connected state is found, with the line that mends it."""

from typing import Any

import httpx
import pytest

from understudy.integrations.label_studio.client import LabelStudio
from understudy.integrations.label_studio.doctor import Finding, examine

CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="choice" toName="text"><Choice value="a"/><Choice value="b"/>'
    "</Choices></View>"
)
TASK = {"id": 7, "updated_at": "2026-11-19T06:00:00Z", "annotations": [], "is_labeled": False}


class Studio:
    """Label Studio's answers to what the doctor asks, all as it should be unless it is changed."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "/api/version": {"release": "1.23.2"},
            "/api/current-user/whoami": {"id": 1},
            "/api/projects/3": {
                "id": 3, "title": "Birds", "label_config": CONFIG, "sampling": "Uncertainty sampling",
                "model_version": "understudy", "maximum_annotations": 1, "skip_queue": "REQUEUE_FOR_OTHERS",
            },
            "/api/projects": {"results": [{"id": 3, "title": "Birds"}]},
            "/api/predictions": [
                {"id": 1, "task": 7, "model_version": "understudy", "updated_at": "2026-11-19T06:00:00Z"}
            ],
            "/api/tasks": {"total": 1, "tasks": [TASK], "total_annotations": 0, "total_predictions": 1},
            "/api/webhooks/": [],
            "/api/ml": [],
            "/api/projects/3/annotators/": [],
        }  # fmt: skip
        self.guard = True
        self.written: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            self.written.append(f"{request.method} {request.url.path}")
            if request.method == "POST" and self.guard:
                detail = "URL resolves to a reserved network address (block: 127.0.0.0/8)"
                return httpx.Response(403, json={"detail": detail})
            return httpx.Response(201, json={"id": 5}) if request.method == "POST" else httpx.Response(204)
        found = self.answers.get(request.url.path)
        return httpx.Response(404, json={}) if found is None else httpx.Response(200, json=found)

    def change(self, **values: Any) -> None:
        self.answers["/api/projects/3"] |= values

    def findings(self, number: int = 3, webhook: str | None = None) -> list[Finding]:
        client = LabelStudio("http://studio", "token", transport=httpx.MockTransport(self), pause=lambda _: None)
        return list(examine(client, number, webhook))

    def said(self, level: str, webhook: str | None = None) -> str:
        return "\n".join(each.line for each in self.findings(webhook=webhook) if each.level == level)


@pytest.fixture
def studio() -> Studio:
    return Studio()


def annotated(*chosen: str, at: str = "2026-11-19T06:00:10Z") -> dict[str, Any]:
    result = [{"from_name": "choice", "value": {"choices": list(chosen)}}] if chosen else []
    return {**TASK, "annotations": [{"id": 1, "completed_by": 1, "result": result, "updated_at": at}]}


def test_where_all_is_well_only_how_to_enter_is_left_to_say(studio: Studio) -> None:
    found = studio.findings()
    assert not [each for each in found if each.level == "wrong"]
    assert [each.what[:47] for each in found if each.level == "note"] == [
        "annotators enter by the button Label All Tasks;"
    ]
    assert studio.written == []


def test_another_order_another_version_and_no_predictions_are_wrong(studio: Studio) -> None:
    studio.change(sampling="Sequential sampling", model_version="theirs")
    studio.answers["/api/predictions"] = []
    said = studio.said("wrong")
    for part in ("'Sequential sampling'", "its model version is 'theirs'", "serves at random"):
        assert part in said
    assert said.count("run: understudy labelstudio --url http://studio --project 3") == 3
    studio.change(model_version="")
    assert "it has no model version" in studio.said("wrong")


def test_annotations_that_nobody_follows_are_noticed(studio: Studio) -> None:
    studio.answers["/api/tasks"]["tasks"] = [annotated("a", at="2026-11-19T06:30:00Z")]
    assert "annotations came in the 1,800 s after our last prediction" in studio.said("wrong")


def test_a_backend_without_its_webhook_is_the_trap_that_says_nothing(studio: Studio) -> None:
    studio.answers["/api/ml"] = [{"url": "http://localhost:9090", "title": "ours"}]
    assert "half connected" in studio.said("wrong")
    assert "SSRF_PROTECTION_ENABLED=false" in studio.said("wrong")
    studio.answers["/api/webhooks/"] = [{"id": 1, "url": "http://localhost:9090/webhook", "is_active": True}]
    assert studio.said("wrong") == ""
    assert "connected too" in studio.said("note")


def test_a_webhook_that_the_guard_refuses_is_tried_and_nothing_is_left_of_it(studio: Studio) -> None:
    assert "request guard refuses webhooks" in studio.said("wrong", "127.0.0.1:9191")
    studio.guard = False
    assert studio.said("wrong", "127.0.0.1:9191") == ""
    assert studio.written[-2:] == ["POST /api/webhooks/", "DELETE /api/webhooks/5"]
    studio.answers["/api/webhooks/"] = [{"id": 1, "url": "http://127.0.0.1:9191/label-studio", "is_active": False}]
    assert "switched off" in studio.said("wrong", "127.0.0.1:9191")


def test_label_configs_and_annotations_that_are_not_one_class_are_named(studio: Studio) -> None:
    studio.answers["/api/tasks"]["tasks"] = [annotated("a", "b"), annotated(), annotated("a")]
    studio.answers["/api/tasks"]["total"] = 3
    assert "1 annotation name several classes" in studio.said("wrong").replace("1 annotations", "1 annotation")
    assert "submitted without a choice" in studio.said("note")
    studio.change(label_config="<View/>")
    assert "cannot be followed: it asks nothing" in studio.said("wrong")


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"maximum_annotations": 2}, "each task is wanted from 2 people"),
        ({"skip_queue": "IGNORE_SKIPPED"}, "skipped tasks count as finished"),
        ({"show_collab_predictions": True}, "tend to accept it"),
        ({"annotator_evaluation_enabled": True}, "ground truth tasks"),
    ],
)
def test_settings_that_change_the_order_are_noted(studio: Studio, values: dict[str, Any], part: str) -> None:
    studio.change(**values)
    assert part in studio.said("note")


def test_members_tasks_and_another_version_are_noted(studio: Studio) -> None:
    studio.answers["/api/projects/3/annotators/"] = [{"id": 1}, {"id": 2}]
    studio.answers["/api/version"] = {"release": "2.0.0"}
    assert "names 2 members" in studio.said("note")
    assert "Label Studio 2.0.0 answers; this was tried with 1.23" in studio.said("note")
    studio.answers["/api/tasks"] = {"total": 0, "tasks": []}
    assert "it has no tasks" in studio.said("wrong")


def test_it_ends_where_nothing_further_can_be_asked(studio: Studio) -> None:
    assert [each.level for each in studio.findings(4)] == ["ok", "ok", "wrong"]
    assert "there is 3 (Birds)" in studio.findings(4)[-1].what
    del studio.answers["/api/version"]
    assert [each.level for each in studio.findings()] == ["wrong"]
