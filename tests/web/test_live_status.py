"""The stream of live numbers: soon, not too often, by whoever may hear it, and over when the server is."""

import asyncio
import json
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx

from tests.waiting import wait_until
from tests.web.serving import Served, served
from understudy.sessions.session import Session
from understudy.web.session_holder import SessionHolder


def events_of(lines: Iterator[str], kind: str) -> Iterator[dict[str, Any]]:
    """The data of the events of one kind."""
    for line in lines:
        if line == f"event: {kind}":
            yield json.loads(next(lines).removeprefix("data: "))


def statuses(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    return events_of(lines, "status")


def label(server: Served, item: int) -> int:
    body = {"item": item, "label": 1, "annotator": "ann", "key": uuid.uuid4().hex}
    return int(httpx.post(f"{server.url}/api/labels", json=body, timeout=None).json()["labelled"])


def test_the_status_comes_at_once_and_after_a_label(server: Served) -> None:
    with server.client.stream("GET", "/api/live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        found = statuses(answer.iter_lines())
        assert next(found)["phase"] == "ready"
        labelled = label(server, 200)
        while next(found)["labelled"] != labelled:
            pass


def test_many_changes_are_few_events(server: Served) -> None:
    events = 1
    with server.client.stream("GET", "/api/live") as answer:
        found = statuses(answer.iter_lines())
        before = next(found)["labelled"]
        assert isinstance(before, int)
        start = time.monotonic()
        worker = threading.Thread(target=lambda: [label(server, 300 + item) for item in range(40)])
        worker.start()
        while next(found)["labelled"] != before + 40:
            events += 1
        worker.join()
        took = time.monotonic() - start
    assert events <= 5 * took + 3  # so many a second, however long it took


def test_who_has_the_page_open_is_online_until_it_is_closed(server: Served, session: Session) -> None:
    def online() -> list[str]:
        return session.status().online

    with (
        server.client.stream("GET", "/api/live?annotator=eve") as answer,
        httpx.stream("GET", f"{server.url}/api/live?annotator=eve", timeout=None) as second,
    ):
        open_streams = [statuses(stream.iter_lines()) for stream in (answer, second)]
        for stream in open_streams:
            next(stream)
        wait_until(lambda: "eve" in online())
    wait_until(lambda: "eve" not in online())


def test_the_owner_of_a_token_is_online_without_saying_who(team: Served, session: Session) -> None:
    with team.client.stream("GET", "/api/live", headers=team.bearer("bob")) as answer:
        found = statuses(answer.iter_lines())
        next(found)
        wait_until(lambda: "bob" in session.status().online)


def test_while_a_project_is_prepared_the_page_hears_how_far_it_is(session: Session) -> None:
    holder = SessionHolder(name="birds")
    with served(holder) as running:
        with running.client.stream("GET", "/api/live?annotator=ann") as answer:
            found = statuses(answer.iter_lines())
            first = next(found)
            assert (first["project"], first["phase"], first["done"]) == ("birds", "preparing", 0)
            holder.report_progress(5, 10)
            second = next(found)
            assert (second["phase"], second["done"], second["total"]) == ("preparing", 5, 10)
            early = httpx.post(f"{running.url}/api/next", json={"annotator": "ann"}, timeout=None)
            assert (early.status_code, early.headers["retry-after"]) == (503, "1")
            assert "5 of 10" in early.json()["detail"]
            assert second["setup"] is None
            holder.report_setup("basis", 0.25)
            third = next(found)
            assert (third["phase"], third["setup"]) == ("preparing", {"phase": "basis", "share": 0.25})
            assert httpx.get(f"{running.url}/api/items/0/content", timeout=None).status_code == 503
            assert httpx.get(f"{running.url}/api/status", timeout=None).json()["phase"] == "preparing"
            assert httpx.get(f"{running.url}/", timeout=None).status_code == 200
            holder.arrive(session)
            while (last := next(found))["phase"] != "ready":
                pass
            assert last["setup"] is None
            wait_until(lambda: "ann" in session.status().online)
        assert httpx.post(f"{running.url}/api/next", json={"annotator": "ann"}, timeout=None).status_code == 200


def test_open_streams_do_not_hold_up_the_end(session: Session) -> None:
    with (
        served(session) as running,
        httpx.stream("GET", f"{running.url}/api/live?annotator=ann", timeout=None) as answer,
    ):
        lines = answer.iter_lines()
        while not next(lines).startswith("data: "):
            pass
        running.server.should_exit = True
        for _ in lines:  # ends, without an error
            pass
    wait_until(lambda: "ann" not in session.status().online)


def test_a_quiet_stream_beats_now_and_then(server: Served) -> None:
    server.app.state.live.heartbeat = 0.2
    with server.client.stream("GET", "/api/live") as answer:
        assert any(line.startswith(":") for line in answer.iter_lines())


def test_a_hundred_listeners_need_one_thread(server: Served) -> None:
    async def listen() -> int:
        async with httpx.AsyncClient(
            base_url=server.url, timeout=None, limits=httpx.Limits(max_connections=200)
        ) as client:
            requests = [client.send(client.build_request("GET", "/api/live"), stream=True) for _ in range(100)]
            answers = await asyncio.gather(*requests)
            for answer in answers:
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        break
            watching = sum(thread.name == "live" for thread in threading.enumerate())
            for answer in answers:
                await answer.aclose()
            return watching

    assert asyncio.run(listen()) == sum(thread.name == "live" for thread in threading.enumerate())


def test_a_second_tab_hears_that_its_item_was_decided_in_the_first(server: Served) -> None:
    who = {"annotator": "two tabs"}

    def ask() -> dict[str, Any]:
        return dict(httpx.post(f"{server.url}/api/next", json=who, timeout=None).json())

    first = ask()
    assert ask()["lease"] == first["lease"], "both tabs have the same item"
    with server.client.stream("GET", "/api/live", params=who) as second_tab:
        leases = events_of(second_tab.iter_lines(), "lease")
        assert next(leases) == {"item": first["item"], "lease": first["lease"]}, "what it has, at once"
        body = {"item": first["item"], "label": 1, "key": uuid.uuid4().hex} | who
        told = httpx.post(f"{server.url}/api/labels", json=body, timeout=None).json()["next"]
        assert told["lease"] > first["lease"]
        assert next(leases) == {"item": told["item"], "lease": told["lease"]}
        undone = httpx.post(f"{server.url}/api/undo", json=who | {"key": uuid.uuid4().hex}, timeout=None).json()["next"]
        assert undone["item"] == first["item"]
        assert undone["lease"] > told["lease"], "the same item again, but later"
        assert next(leases) == {"item": undone["item"], "lease": undone["lease"]}
    httpx.post(f"{server.url}/api/release", json=who, timeout=None)
