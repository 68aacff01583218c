"""Bodies and queries that are wrong in every way there is: 422 and one line, never a failure of ours."""

import json
import threading
import time
import uuid
from typing import Any

import httpx
import pytest

from tests.web.serving import Served
from understudy.sessions.session import Session

JSON = {"Content-Type": "application/json"}


def label(**other: Any) -> dict[str, Any]:
    return {"item": 5, "label": 1, "annotator": "ann", "key": uuid.uuid4().hex} | other


@pytest.mark.parametrize(
    "wrong",
    [
        {"item": -1},
        {"item": 2**31},
        {"item": 10**30},
        {"item": 1.5},
        {"item": "1"},
        {"item": True},
        {"item": None},
        {"item": [1]},
        {"item": "../../etc/passwd"},
        {"label": -1},
        {"label": 1.5},
        {"label": ""},
        {"label": True},
        {"label": "x" * 201},
        {"label": None},
        {"annotator": ""},
        {"annotator": " "},
        {"annotator": " ann"},
        {"annotator": "x" * 65},
        {"annotator": "a\nb"},
        {"annotator": "a\x00b"},
        {"annotator": "a\u202eb"},
        {"annotator": 7},
        {"annotator": ["ann"]},
        {"key": ""},
        {"key": "x" * 65},
        {"key": "a b"},
        {"key": "ä"},
        {"key": None},
        {"seconds": -1},
        {"seconds": "1"},
        {"seconds": 1e9},
        {"suggestion": "cat"},
        {"source": "import"},
        {"source": "nobody"},
        {"extra": 1},
        {"__class__": "x"},
    ],
    ids=repr,
)
def test_a_wrong_value_is_refused_and_nothing_is_stored(
    server: Served, session: Session, wrong: dict[str, Any]
) -> None:
    before = session.status().labelled
    answer = server.client.post("/api/labels", json=label(**wrong))
    assert answer.status_code == 422
    assert list(answer.json()) == ["detail"]
    assert "\n" not in answer.json()["detail"]
    assert len(answer.text) < 600
    assert session.status().labelled == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe\x00",
        b'{"annotator": "\xff"}',
        b'{"annotator": "\\ud800"}',
        b'{"annotator": "\\u0000"}',
        b'{"annotator": "ann", "\\ud800": 1}',
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b'{"annotator": ' + b"1" * 50_000 + b"}",
        b'{"annotator": NaN}',
        b'{"annotator": "ann", "annotator": "\\udfff"}',
        "{'annotator': 'ann'}".encode("utf-16"),
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_body_that_is_no_json_of_ours_is_refused(server: Served, body: bytes) -> None:
    answer = server.client.post("/api/next", content=body, headers=JSON)
    assert answer.status_code == 422
    assert list(answer.json()) == ["detail"]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "-0.001"])
def test_seconds_are_a_number(server: Served, value: str) -> None:
    body = json.dumps(label(seconds=0)).replace('"seconds": 0', f'"seconds": {value}')
    assert server.client.post("/api/labels", content=body, headers=JSON).status_code == 422


@pytest.mark.parametrize(
    "item", ["-1", "1.0", "1e3", "NaN", "+1", "%201", "1_0", "٣", "0x1", str(2**31), "9" * 400, "a", "%00"]
)
def test_an_item_in_an_address_is_a_number_in_digits(server: Served, item: str) -> None:
    for rest in ("", "/content", "/thumbnail", "/why"):
        assert server.client.get(f"/api/items/{item}{rest}").status_code == 422


def test_an_item_that_is_not_there_is_not_found(server: Served) -> None:
    for path in (
        "/api/items/1797",
        f"/api/items/{2**31 - 1}/content",
        "/api/items/1797/thumbnail",
        "/api/items/1797/why",
    ):
        assert server.client.get(path).status_code == 404
    assert server.client.post("/api/labels", json=label(item=1797)).status_code == 404
    assert server.client.post("/api/labels", json=label(label=4000)).status_code == 404
    assert server.client.post("/api/labels", json=label(label="no such class")).status_code == 404
    assert server.client.get("/api/likely?label=no%20such").status_code == 404
    assert server.client.get("/api/likely?label=4000").status_code == 404


@pytest.mark.parametrize("query", ["n=0", "n=201", "n=-1", "n=1.5", "n=a", "n=", "n=1&n=x", "n=99999999999999999999"])
def test_how_many_has_bounds(server: Served, query: str) -> None:
    for path in ("/api/review?", "/api/likely?label=1&", "/api/history?annotator=ann&", "/api/ahead?annotator=ann&"):
        assert server.client.get(path + query).status_code == 422


@pytest.mark.parametrize("name", ["", "%00", "a%0Ab", "%ff", "x" * 65, "%ED%A0%80%0A"])
def test_a_name_in_a_query_is_checked_like_any_other(server: Served, name: str) -> None:
    for path in ("/api/history", "/api/ahead", "/api/live"):
        answer = server.client.get(f"{path}?annotator={name}") if name != "%ff" else None
        assert answer is None or answer.status_code == 422


def test_names_of_many_languages_are_heard(server: Served) -> None:
    for name in ("José", "李雷", "Ann-Marie O'Neil", "अनीता", "ann@example.org", "🦊"):
        assert server.client.post("/api/next", json={"annotator": name}).status_code == 200
        assert server.client.post("/api/release", json={"annotator": name}).status_code == 200


def test_a_label_by_number_and_by_name_are_the_same(server: Served) -> None:
    first = server.client.post("/api/labels", json=label(item=20, label=3))
    second = server.client.post("/api/labels", json=label(item=21, label="3"))
    assert (first.status_code, second.status_code) == (200, 200)
    assert {"stored", "repeated", "next", "labelled"} <= set(first.json())


def test_a_key_sent_twice_is_one_label_and_for_something_else_a_conflict(server: Served) -> None:
    body = label(item=30)
    first, again = (server.client.post("/api/labels", json=body).json() for _ in range(2))
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["stored"] == first["stored"]
    assert again["labelled"] == first["labelled"]
    assert server.client.post("/api/labels", json=body | {"item": 31}).status_code == 409
    assert server.client.post("/api/labels", json=body | {"label": 2}).status_code == 409
    assert server.client.post("/api/skip", json={k: body[k] for k in ("item", "annotator", "key")}).status_code == 409


def test_many_items_at_once_have_bounds(server: Served) -> None:
    def many(items: list[int]) -> int:
        body = {"items": items, "label": 1, "annotator": "grid", "key": uuid.uuid4().hex}
        return server.client.post("/api/labels/many", json=body).status_code

    assert many([40, 41, 42]) == 200
    assert many([]) == 422
    assert many([43, 43]) == 422
    assert many(list(range(101))) == 422
    assert many([1797]) == 404


def test_undo_of_many_threads_takes_each_decision_back_once(server: Served) -> None:
    for item in range(60, 70):
        answer = server.client.post("/api/labels", json=label(item=item, annotator="undoer"))
        assert answer.status_code == 200
    answers: list[httpx.Response] = []

    def undo() -> None:
        for _ in range(5):
            body = {"annotator": "undoer", "key": uuid.uuid4().hex}
            answers.append(httpx.post(f"{server.url}/api/undo", json=body, timeout=None))

    threads = [threading.Thread(target=undo) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200] * 10 + [409] * 10
    undone = [answer.json()["undone"] for answer in answers if answer.status_code == 200]
    assert len(set(undone)) == 10


def test_all_calls_of_the_page_are_there(server: Served) -> None:
    who = {"annotator": "ann"}
    item = server.client.post("/api/next", json=who).json()["item"]
    for path in ("flag", "dont-know"):
        body = {"item": item, "annotator": "ann", "key": uuid.uuid4().hex}
        assert server.client.post(f"/api/{path}", json=body).status_code == 200
    assert (
        server.client.post("/api/bad", json={"item": 80, "annotator": "ann", "key": uuid.uuid4().hex}).status_code
        == 200
    )
    for what in ("skipped", "dont_know"):
        body = {"what": what, "annotator": "ann", "key": uuid.uuid4().hex}
        assert server.client.post("/api/put-back", json=body).status_code == 200
    new = {"name": "a new class", "annotator": "ann", "key": uuid.uuid4().hex}
    assert server.client.post("/api/classes", json=new).status_code == 200
    assert server.client.post("/api/classes", json=new | {"key": uuid.uuid4().hex}).status_code == 409
    assert "a new class" in server.client.get("/api/status").json()["classes"]
    assert server.client.post("/api/release", json=who).json() == {}
    for path in (
        "ahead?annotator=ann",
        "items/0",
        "items/0/why",
        "review",
        "likely?label=1",
        "progress",
        "history?annotator=ann",
    ):
        assert server.client.get(f"/api/{path}").status_code == 200, path


def change(server: Served, **changes: Any) -> httpx.Response:
    return server.client.post("/api/settings", json={"annotator": "ann", "key": uuid.uuid4().hex, **changes})


def test_settings_are_read_and_changed(server: Served, session: Session) -> None:
    drawn = session.record.audit_rows
    answer = change(server, audit_share=0.2, lease_seconds=120)
    assert answer.status_code == 200
    assert "more audit items, a random sample" in answer.json()["notes"][0]
    values = {each["name"]: each["value"] for each in server.client.get("/api/settings").json()["settings"]}
    assert (values["audit_share"], values["lease_seconds"]) == (0.2, 120)
    assert len(session.record.audit_rows) > len(drawn)
    assert session.record.audit_rows[: len(drawn)] == drawn


@pytest.mark.parametrize(
    "wrong",
    [
        {"audit_share": 0.6},
        {"audit_share": "0.2"},
        {"seed": 3},
        {"learner": "os:system"},  # code of one's own is for the console
        {"retrain_at_most": 0},
        {"suggestions": 1},
    ],
    ids=repr,
)
def test_a_setting_that_cannot_be_is_refused(server: Served, session: Session, wrong: dict[str, Any]) -> None:
    before = session.record.settings
    assert change(server, **wrong).status_code == 422
    assert session.record.settings == before


def test_how_long_a_decision_waited_is_taken_as_it_comes(server: Served) -> None:
    call = {"item": 5, "label": 1, "annotator": "waiting", "key": "w1", "ago": 90.5}
    assert server.client.post("/api/labels", json=call).status_code == 200
    for place, path in enumerate(("skip", "dont-know", "bad", "flag")):
        body = {"item": 6, "annotator": "waiting", "key": f"x{place}", "ago": -3.0}  # a clock that was put back
        assert server.client.post(f"/api/{path}", json=body).status_code == 200
    assert server.client.post("/api/labels", json=call | {"key": "w2", "ago": "long"}).status_code == 422
    entry = server.client.get("/api/history", params={"annotator": "waiting"}).json()[-1]
    assert time.time() - entry["at"] > 90
    for _ in range(5):
        server.client.post("/api/undo", json={"annotator": "waiting", "key": uuid.uuid4().hex})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the name of a class is empty; give it one"),
        (" cat", "the name of a class has a space before or after it; take it away"),
        ("a\x00b", "the name of a class has characters that cannot be seen"),
        ("x" * 201, "the name of a class has 201 characters, 200 are the most"),
    ],
)
def test_a_bad_name_of_a_class_gets_a_sentence(server: Served, name: str, words: str) -> None:
    for path, body in (("classes", {}), ("classes/change", {"number": 0})):
        answer = server.client.post(f"/api/{path}", json={"name": name, "annotator": "ann", "key": "n", **body})
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith(f"name: {words}")


def test_what_cannot_be_done_to_a_class_is_said_in_a_sentence(server: Served) -> None:
    for path, body, status, words in (
        ("classes", {"name": " 1".strip()}, 409, "there already is a class '1'; use it, or give another name"),
        ("classes/change", {"number": 0, "colour": "red"}, 422, "colour: a colour must be # and six digits"),
        ("classes/change", {"number": 0, "shortcut": "Enter"}, 422, "shortcut: the key of a class must be"),
        ("classes/merge", {"number": 0, "into": 0}, 409, "'0' cannot be merged into itself; choose another class"),
        ("classes/remove", {"number": 99}, 404, "there is no class 99"),
        ("classes/order", {"order": [0]}, 409, "the classes have changed meanwhile"),
        ("classes/undo", {"change": 1}, 404, "event 1 is not a change of classes"),
    ):
        answer = server.client.post(f"/api/{path}", json={"annotator": "ann", "key": uuid.uuid4().hex, **body})
        assert answer.status_code == status, answer.text
        assert answer.json()["detail"].startswith(words)
