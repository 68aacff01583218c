"""The queue in Label Studio: what is served next follows from what was placed."""

import itertools
import json
from typing import Any

import httpx
import pytest

from understudy.errors import Conflict
from understudy.integrations.label_studio.client import LabelStudio
from understudy.integrations.label_studio.queue import MODEL_VERSION, SAMPLING, Planned, Queue


class Predictions:
    """Label Studio's predictions and a project, as far as the queue knows them."""

    def __init__(self, tasks: int = 20) -> None:
        self.there: dict[int, dict[str, Any]] = {}
        self.tasks = set(range(tasks))
        self.project = {"sampling": "Sequential sampling", "model_version": ""}
        self.numbers = itertools.count(1)
        self.calls: list[str] = []
        client = LabelStudio("http://studio", "token", transport=httpx.MockTransport(self), pause=lambda _: None)
        self.queue = Queue(client, 1)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        content = json.loads(request.content) if request.content else {}
        kind, _, number = request.url.path.removeprefix("/api/").partition("/")
        if request.method != "GET":
            self.calls.append(f"{request.method} {kind}")
        if kind == "projects":
            assert any(each["model_version"] == content["model_version"] for each in self.there.values())
            self.project |= content
            return httpx.Response(200, json=self.project)
        if kind == "tasks":
            return httpx.Response(200 if int(number) in self.tasks else 404, json={})
        if request.method == "GET":
            return httpx.Response(200, json=list(self.there.values()))
        if request.method == "POST":
            if content["task"] not in self.tasks:
                return httpx.Response(400, json={"validation_errors": {"task": ["Invalid pk"]}})
            made = next(self.numbers)
            self.there[made] = {"id": made, **content}
            return httpx.Response(201, json=self.there[made])
        if int(number) not in self.there:
            return httpx.Response(404)
        if request.method == "DELETE":
            del self.there[int(number)]
            return httpx.Response(204)
        self.there[int(number)] |= content
        return httpx.Response(200, json=self.there[int(number)])

    def served(self, *finished: int) -> list[int]:
        """The tasks in the order in which Label Studio serves them."""
        ours = [each for each in self.there.values() if each["model_version"] == self.project["model_version"]]
        return [each["task"] for each in sorted(ours, key=lambda each: each["score"]) if each["task"] not in finished]

    def place(self, *tasks: int, finished: tuple[int, ...] = ()) -> list[int]:
        return self.queue.place([Planned(task, [{"of": task}]) for task in tasks], finished)


def test_tasks_are_served_in_the_order_in_which_they_are_placed() -> None:
    studio = Predictions()
    studio.place(7, 3, 5)
    assert studio.served() == [7, 3, 5]
    assert studio.project == {"sampling": SAMPLING, "model_version": MODEL_VERSION}
    studio.place(3, 9, 5, finished=(7,))
    assert studio.served(7) == [3, 9, 5]
    studio.place(11, 3, finished=(7,))
    assert studio.served(7) == [11, 3]
    assert studio.served() == studio.queue.in_order([3, 7, 11])


def test_nothing_is_sent_where_all_is_as_it_was() -> None:
    studio = Predictions()
    studio.place(7, 3, 5)
    studio.calls.clear()
    studio.place(7, 3, 5)
    assert studio.calls == []
    studio.place(3, 5, finished=(7,))
    assert studio.calls == []
    studio.queue.place([Planned(3, [{"of": "another class"}]), Planned(5, [{"of": 5}])], (7,))
    assert studio.calls == ["PATCH predictions"]


def test_the_first_is_served_before_anything_else_is_changed() -> None:
    studio = Predictions()
    studio.place(7, 3, 5)
    seen: list[list[int]] = []
    plan = [Planned(task, []) for task in (12, 13)]
    studio.queue.place(plan, (7,), lambda: seen.append(studio.served(7)))
    assert seen[0][0] == 12
    assert studio.served(7) == [12, 13]


def test_a_task_whose_annotation_is_deleted_comes_next_at_once() -> None:
    studio = Predictions()
    studio.place(7, 3, 5)
    studio.place(3, 5, 9, finished=(7,))
    assert studio.served()[0] == 7


def test_the_reserve_stands_behind_the_queue_and_stays_there_while_the_queue_moves_on() -> None:
    studio = Predictions()
    plan = [[Planned(task, []) for task in tasks] for tasks in ((7, 3), (3, 5), (15, 5), (16,))]
    studio.queue.place(plan[0], (), reserve=(15, 16))
    assert studio.served() == [7, 3, 15, 16]
    studio.calls.clear()
    studio.queue.place(plan[1], (7,), reserve=(15, 16))
    assert studio.calls == ["POST predictions"]
    assert studio.served(7) == [3, 5, 15, 16]
    studio.queue.place(plan[2], (7, 3), reserve=(16, 17))
    assert studio.served(7, 3) == [15, 5, 16, 17]
    assert sorted(studio.queue.reserve) == [16, 17]
    studio.queue.place(plan[3], (7, 3, 15, 5))
    assert studio.served(7, 3, 15, 5) == [16]
    assert studio.queue.reserve == []


def test_every_order_can_be_placed_after_every_other() -> None:
    studio = Predictions()
    for tasks in itertools.permutations(range(4), 3):
        studio.place(*tasks)
        assert studio.served() == list(tasks)


def test_tasks_that_are_gone_are_told_and_predictions_that_were_removed_are_made_again() -> None:
    studio = Predictions()
    studio.place(7, 3)
    studio.tasks.remove(5)
    assert studio.place(5, 7) == [5]
    assert studio.served() == [7]
    studio.there.clear()
    studio.queue.place([Planned(7, [{"new": 1}]), Planned(8, [])], ())
    assert studio.served() == [7, 8]


def test_what_is_refused_otherwise_is_an_error() -> None:
    studio = Predictions()
    studio.tasks = {1}
    client = studio.queue.client
    assert client is not None
    transport = httpx.MockTransport(
        lambda request: httpx.Response(400 if request.method == "POST" else 200, json={"detail": "no"})
    )
    queue = Queue(LabelStudio("http://studio", "token", transport=transport, pause=lambda _: None), 1)
    with pytest.raises(Conflict, match="POST /api/predictions with 400: no"):
        queue.place([Planned(1, [])], ())


def test_no_prediction_is_removed_since_a_page_may_show_it() -> None:
    studio = Predictions()
    for tasks in itertools.permutations(range(5), 2):
        studio.place(*tasks)
        assert studio.served() == list(tasks)
    assert not [call for call in studio.calls if call.startswith("DELETE")]
    assert sorted(each["task"] for each in studio.there.values()) == [0, 1, 2, 3, 4]  # one each, used again
    fresh = Queue(studio.queue.client, 1)
    fresh.read()
    assert fresh.total == 5
    studio.calls.clear()
    fresh.check_live(studio.project)
    fresh.place([Planned(task, []) for task in (0, 1)], ())
    assert studio.served() == [0, 1]
    assert set(studio.calls) == {"PATCH predictions"}


def test_what_is_there_is_read_and_a_second_prediction_for_a_task_is_set_aside() -> None:
    studio = Predictions()
    studio.place(7, 3)
    studio.there[90] = {"id": 90, "task": 7, "model_version": MODEL_VERSION, "score": 9.0, "result": []}
    studio.there[91] = {"id": 91, "task": 7, "model_version": "theirs", "score": 0.1, "result": []}
    fresh = Queue(studio.queue.client, 1)
    fresh.read()
    assert studio.served() == fresh.in_order([3, 7, 8]) == [7, 3]
    assert fresh.total == len(studio.there) == 4
    studio.calls.clear()
    fresh.check_live(studio.project)
    fresh.place([Planned(7, [{"of": 7}]), Planned(3, [{"of": 3}])], ())
    assert studio.calls == []


def test_a_project_that_was_set_to_another_order_follows_ours_again() -> None:
    studio = Predictions()
    studio.place(7, 3)
    assert studio.queue.check_live(studio.project)
    assert not studio.queue.check_live({"sampling": SAMPLING, "model_version": "theirs"})
    assert studio.project["model_version"] == MODEL_VERSION
