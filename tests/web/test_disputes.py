"""Disputes over HTTP: listed, settled by a class's number or name, and refused in a line."""

import uuid
from typing import Any

import pytest

from tests.web.serving import Served


def body(item: int, annotator: str, **other: Any) -> dict[str, Any]:
    return {"item": item, "annotator": annotator, "key": uuid.uuid4().hex} | other


def differ(server: Served, item: int) -> None:
    for who, label in (("ann", 1), ("bob", "2")):
        assert server.client.post("/api/labels", json=body(item, who, label=label)).status_code == 200


def test_a_dispute_is_listed_settled_by_name_and_undone(server: Served) -> None:
    item = 1201
    differ(server, item)
    before = server.client.get("/api/status").json()["disputed"]
    listed = server.client.get("/api/disputes?state=disputed&label=1&other=2&person=bob&n=200").json()
    (dispute,) = (each for each in listed["disputes"] if each["item"] == item)
    assert [(each["annotator"], each["label"]) for each in dispute["opinions"]] == [("ann", 1), ("bob", 2)]
    assert listed["disputed"] == before >= 1
    settle = body(item, "rev", label="7", note="a seven with a bar")
    first = server.client.post("/api/settle", json=settle).json()
    assert (server.client.post("/api/settle", json=settle).json()["repeated"], first["repeated"]) == (True, False)
    assert server.client.get(f"/api/items/{item}").json()["label"] == 7
    assert server.client.get("/api/status").json()["disputed"] == before - 1
    settled = server.client.get("/api/disputes?state=settled&person=rev").json()["disputes"]
    assert [(each["item"], each["settlement"]["note"]) for each in settled] == [(item, "a seven with a bar")]
    row = next(
        line for line in server.client.get("/api/export?format=csv").text.splitlines() if ",settled,rev," in line
    )
    assert row.endswith(",settled,false,rev,a seven with a bar")
    undone = server.client.post("/api/undo", json={"annotator": "rev", "key": uuid.uuid4().hex}).json()
    assert undone["what"] == "settled"
    assert server.client.get("/api/status").json()["disputed"] == before


def test_what_nobody_disputes_is_refused_in_one_line(server: Served) -> None:
    answer = server.client.post("/api/settle", json=body(1203, "rev", label=1))
    assert answer.status_code == 409
    assert answer.json() == {"detail": "item 1203 has no label, so there is nothing to settle; label it instead"}
    assert server.client.post("/api/settle", json=body(5000, "rev", label=1)).status_code == 404
    assert server.client.post("/api/settle", json=body(1203, "rev", label="no such")).status_code == 404


@pytest.mark.parametrize(
    "wrong", [{"note": "a\nb"}, {"note": "x" * 501}, {"note": None}, {"label": None}, {"seconds": 1}]
)
def test_a_wrong_value_is_refused(server: Served, wrong: dict[str, Any]) -> None:
    assert server.client.post("/api/settle", json=body(1203, "rev", label=1) | wrong).status_code == 422


@pytest.mark.parametrize(
    "query", ["state=open", "label=", "first=-1", "first=a", "n=0", "n=201", "person=", "person=a%0Ab"]
)
def test_a_wrong_query_is_refused(server: Served, query: str) -> None:
    assert server.client.get(f"/api/disputes?{query}").status_code == 422


def test_a_class_in_the_query_that_is_not_there_is_not_found(server: Served) -> None:
    for query in ("label=99", "label=no%20such", "label=1&other=no%20such"):
        assert server.client.get(f"/api/disputes?{query}").status_code == 404


def test_nobody_settles_in_anothers_name(team: Served) -> None:
    answer = team.client.post("/api/settle", json=body(1203, "ann", label=1), headers=team.bearer("bob"))
    assert answer.status_code == 403
    assert team.client.get("/api/disputes").status_code == 401
