"""The webhook: who may call it, what it follows, and when it answers."""

import json
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from understudy.errors import UnderstudyError, UsageError
from understudy.integrations.label_studio.client import LabelStudio
from understudy.integrations.label_studio.follower import Follower
from understudy.integrations.label_studio.webhook import PATH, Webhook, follow_event, make_app, split_address


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Hooks:
    """Label Studio's webhooks."""

    def __init__(self, *urls: str) -> None:
        self.there = {number: {"id": number, "url": url, "is_active": True} for number, url in enumerate(urls, 1)}
        self.added: list[dict[str, Any]] = []
        self.client = LabelStudio("http://studio", "token", transport=httpx.MockTransport(self), pause=lambda _: None)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.added.append(json.loads(request.content))
            self.there[90] = {"id": 90, **self.added[-1]}
            return httpx.Response(201, json=self.there[90])
        if request.method == "DELETE":
            del self.there[int(request.url.path.rsplit("/", 1)[1])]
            return httpx.Response(204)
        return httpx.Response(200, json=list(self.there.values()))


class Followed(Follower):
    """What was asked of a follower."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.calls: list[Any] = []
        self.fails = False

    def take_in_annotation(self, task: int, annotation: Mapping[str, Any]) -> int:
        if self.fails:
            raise UnderstudyError("the disk is full")
        self.calls.append((task, annotation["id"]))
        return 1

    def forget_annotations(self, numbers: Collection[int]) -> int:
        self.calls.append(numbers)
        return 0

    def place(self, when_first: Callable[[], object] = lambda: None) -> list[int]:
        self.calls.append("placed")
        when_first()
        return []


CREATED = {"action": "ANNOTATION_CREATED", "task": {"id": 7}, "annotation": {"id": 3}}


def test_it_is_known_to_label_studio_while_it_listens_and_only_once() -> None:
    hooks = Hooks("http://127.0.0.1:9191/other")
    webhook = Webhook(hooks.client, 1, f"127.0.0.1:{free_port()}", print)
    hooks.there[2] = {"id": 2, "url": webhook.url, "is_active": True}  # a kill left it
    webhook.follower = follower = Followed()
    webhook.start()
    try:
        assert sorted(hooks.there) == [1, 90]
        secret = hooks.added[0]["headers"]
        assert httpx.post(webhook.url, json=CREATED).status_code == 403
        assert httpx.post(webhook.url, json=CREATED, headers=secret).status_code == 204
        assert follower.calls == [(7, 3), "placed"]
    finally:
        webhook.stop()
    assert sorted(hooks.there) == [1]


def test_deletions_come_with_their_numbers_only_and_other_events_are_left_to_the_poll() -> None:
    follower = Followed()
    follow_event(follower, {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 83}]}, print)
    follow_event(follower, {"action": "TASKS_CREATED", "tasks": [{"id": 9}]}, print)
    assert follower.calls == [[83]]


def test_what_cannot_be_followed_is_said_and_answered_all_the_same() -> None:
    said: list[str] = []
    webhook = Webhook(Hooks().client, 1, "127.0.0.1:9191", said.append)
    webhook.follower = follower = Followed()
    follower.fails = True
    with TestClient(make_app(webhook)) as page:
        webhook._secret = "s"
        assert page.post(PATH, json=CREATED, headers={"Authorization": "s"}).status_code == 204
    assert said == ["an event could not be followed (the disk is full); the next poll will"]


@pytest.mark.parametrize("address", ["9191", ":9191", "host:", "host:0", "host:http"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        split_address(address)
    assert split_address("0.0.0.0:9191") == ("0.0.0.0", 9191)
