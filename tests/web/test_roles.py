"""Who may do what: every call against every role, from the calls' own description; none can be forgotten."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts

from tests.web.serving import Served, opened, served
from understudy.errors import UnderstudyError
from understudy.sessions.log.events import Event
from understudy.sessions.people import ROLES, may
from understudy.web import several
from understudy.web.access import Access, access_for
from understudy.web.app import create_app
from understudy.web.dependencies import declare_roles, require_roles
from understudy.web.tokens import Tokens

TEAM = {"ann": "owner", "rex": "reviewer", "bob": "annotator", "old": "annotator"}
VISITORS = ("stranger", "retired", *ROLES)
NAMES = {"owner": "ann", "reviewer": "rex", "annotator": "bob", "retired": "old"}
NOT_DESCRIBED = {"/api/live": "annotator"}  # a stream has no end; tools that try all calls out would wait for it

# What each role may call beyond the one before it, written down by hand: the description must say exactly the same.
CALLS = {
    "anybody": "GET /api/me, POST /api/login, POST /api/logout",
    "annotator": """
        GET /api/status, GET /api/settings, GET /api/classes, GET /api/progress, GET /api/history, GET /api/ahead,
        GET /api/items, GET /api/items/{item}, GET /api/items/{item}/content, GET /api/items/{item}/thumbnail,
        GET /api/items/{item}/why, GET /api/items/{item}/copies, GET /api/likely, GET /api/grid,
        POST /api/next, POST /api/labels, POST /api/labels/many, POST /api/skip, POST /api/dont-know, POST /api/bad,
        POST /api/flag, POST /api/put-back, POST /api/undo, POST /api/release,
        POST /api/items/label, POST /api/items/flag, POST /api/items/bad
    """,
    "reviewer": """
        GET /api/review, POST /api/keep, GET /api/disputes, POST /api/settle, POST /api/items/put-back,
        GET /api/map, GET /api/map/points, GET /api/map/colours
    """,
    "owner": """
        POST /api/classes, POST /api/classes/change, POST /api/classes/merge, POST /api/classes/remove,
        POST /api/classes/order, POST /api/classes/undo, POST /api/folders, POST /api/settings, POST /api/train,
        GET /api/formats, GET /api/export, POST /api/import, GET /api/people, POST /api/people/add,
        POST /api/people/change, POST /api/people/assign, POST /api/people/link, POST /api/people/undo,
        POST /api/items/look
    """,
}
CALLS_OF_A_LIST = {"GET /api/projects": "annotator", "GET /api/me": "anybody", "POST /api/login": "anybody"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A project with somebody in each role, and with one who has retired."""
    folder = tmp_path_factory.mktemp("roles")
    with opened(folder, people=TEAM) as session:  # type: ignore[arg-type]
        session.change_people(Event("person_changed", None, "ann", "out", {"person": "old", "retired": True}))
        tokens = Tokens(folder)
        links = tokens.links_for(list(TEAM))
        with served(session, Access(tokens=tokens)) as running:
            running.tokens = {name: str(token) for name, token in links.items()}
            yield running


def described_calls(house: Served) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every call."""
    described = house.client.get("/openapi.json", headers=house.bearer("ann")).json()
    return [
        (method.upper(), path, call | {"schemas": described["components"]["schemas"]})
        for path, methods in described["paths"].items()
        for method, call in methods.items()
    ]


def send(house: Served, method: str, path: str, call: dict[str, Any], visitor: str) -> httpx.Response:
    """The call with values that are well formed, and harmless where it is allowed: most are about nothing."""
    name = NAMES.get(visitor, "nobody")
    values: dict[str, Any] = {
        "annotator": name, "item": 10**6, "items": [10**6], "label": 1, "key": uuid.uuid4().hex, "what": "dont_know",
        "name": "0", "number": 9999, "into": 9998, "order": [1], "change": 10**6, "labels": True, "person": "nobody",
        "password": "wrong", "role": "annotator",
    }  # fmt: skip
    body = call.get("requestBody", {}).get("content", {})
    sent: dict[str, Any] = {}
    if "application/json" in body:
        fields = call["schemas"][body["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        sent["json"] = {field: values[field] for field in fields.get("required", ())}
    elif body:
        sent["content"] = b"id,label\nnowhere,0\n"
    wanted = [each["name"] for each in call.get("parameters", ()) if each["in"] == "query" and each.get("required")]
    headers = {} if visitor == "stranger" else house.bearer(name)
    if method == "POST" and "content" in sent:
        headers["Content-Type"] = "application/octet-stream"
    sent["params"] = {field: values[field] for field in wanted}
    return house.client.request(method, path.replace("{item}", "0"), headers=headers, **sent)


def test_every_call_is_allowed_to_its_roles_and_refused_to_all_others(house: Served) -> None:
    calls = described_calls(house)
    table = {(method, path, visitor): send(house, method, path, call, visitor)
             for method, path, call in calls for visitor in VISITORS if path != "/api/logout"}  # fmt: skip
    needed = {(method, path): call["x-role"] for method, path, call in calls}
    assert len(table) == len(VISITORS) * (len(calls) - 1)
    for (method, path, visitor), answer in table.items():
        role, said = needed[method, path], (method, path, visitor, answer.status_code, answer.text[:200])
        if visitor in ("stranger", "retired"):
            assert answer.status_code == 401, said
            assert ("retired" in answer.json()["detail"]) == (visitor == "retired"), said
        elif role == "anybody" or may(visitor, role):  # type: ignore[arg-type]
            assert answer.status_code not in (401, 403, 500), said
        else:
            assert answer.status_code == 403, said
            who = "reviewers and owners" if role == "reviewer" else "owners"
            assert answer.json()["detail"].startswith(f"only {who} can "), said
            assert answer.json()["detail"].endswith("; ask ann"), said


def test_the_roles_are_those_that_were_agreed_on(house: Served) -> None:
    agreed = {call.strip(): role for role, calls in CALLS.items() for call in calls.split(",")}
    assert {f"{method} {path}": call["x-role"] for method, path, call in described_calls(house)} == agreed
    described = several.Several([], Access()).lister.openapi()["paths"]
    listed = {
        f"{method.upper()} {path}": call["x-role"]
        for path, calls in described.items()
        for method, call in calls.items()
    }
    assert listed == CALLS_OF_A_LIST


def test_the_table_has_every_call_that_is_served(house: Served) -> None:
    table = {(method, path) for method, path, _ in described_calls(house)}
    for call in iter_route_contexts(house.app.routes):
        if str(call.path).startswith("/api"):
            for method in (call.methods or set()) - {"HEAD"}:
                assert (method, call.path) in table or call.path in NOT_DESCRIBED
                assert getattr(call, "openapi_extra", {})["x-role"]
    for path, role in NOT_DESCRIBED.items():
        assert role == "annotator"
        assert house.client.get(path).status_code == 401
        assert house.client.get(path, headers=house.bearer("old")).status_code == 401


def test_a_call_that_declares_no_role_is_not_served() -> None:
    router = APIRouter(prefix="/api")

    @router.get("/forgotten")
    def forgotten() -> None:
        """Nobody thought of who may."""

    with pytest.raises(UnderstudyError, match=r"/api/forgotten must declare the one role .* it declares none"):
        declare_roles(router)
    app = FastAPI()
    app.include_router(router)
    with pytest.raises(UnderstudyError, match="/api/forgotten declares no role"):
        require_roles(app)


def test_where_everybody_may_come_in_everybody_is_owner(server: Served) -> None:
    assert server.client.get("/api/me").json()["role"] == "owner"
    assert server.client.get("/api/me?annotator=bob").json() == {
        "annotator": "bob", "person": "bob", "role": "owner", "login": False, "fixed": False, "several": None
    }  # fmt: skip
    assert server.client.get("/api/people").json()["entry"] == "open"


def test_a_label_that_settles_takes_a_reviewer(house: Served) -> None:
    body = {"item": 3, "label": 1, "source": "review"}
    for name, status in (("bob", 403), ("rex", 200), ("ann", 200)):
        sent = body | {"annotator": name, "key": uuid.uuid4().hex}
        answer = house.client.post("/api/labels", json=sent, headers=house.bearer(name))
        assert answer.status_code == status, answer.text
        if status == 403:
            assert answer.json()["detail"] == "only reviewers and owners can settle labels in a review; ask ann"


def test_an_annotator_sees_what_they_said_themselves_and_others_see_all(house: Served) -> None:
    for name, label in (("bob", 1), ("rex", 2)):
        sent = {"annotator": name, "item": 5, "label": label, "key": uuid.uuid4().hex}
        assert house.client.post("/api/labels", json=sent, headers=house.bearer(name)).status_code == 200
    cards = {
        name: house.client.get("/api/items/5", headers=house.bearer(name)).json() for name in ("ann", "rex", "bob")
    }
    assert cards["bob"]["labels"] == {"bob": 1}
    assert cards["bob"]["label"] == 1
    assert cards["ann"]["labels"] == cards["rex"]["labels"] == {"bob": 1, "rex": 2}
    own = house.client.get("/api/progress", headers=house.bearer("bob")).json()
    assert [person["name"] for person in own["people"]] == ["bob"]
    assert own["agreement"] is None
    whole = house.client.get("/api/progress", headers=house.bearer("rex")).json()
    assert {"bob", "rex"} <= {person["name"] for person in whole["people"]}
    assert whole["agreement"]["disagreements"]


def test_an_annotator_reads_no_label_of_others_beside_the_reason_for_an_item(house: Served) -> None:
    said = {30: "bob", 31: "rex", 32: "rex"}
    for item, name in said.items():
        sent = {"annotator": name, "item": item, "label": 4, "key": uuid.uuid4().hex}
        assert house.client.post("/api/labels", json=sent, headers=house.bearer(name)).status_code == 200
    nearest = {
        name: house.client.get("/api/items/40/why", headers=house.bearer(name)).json()["nearest"]
        for name in ("ann", "rex", "bob")
    }
    assert {row["item"] for row in nearest["bob"]} >= {31, 32}
    assert all(row["label"] is not None for name in ("ann", "rex") for row in nearest[name])
    own = house.client.get("/api/items?state=labelled&rows=true", headers=house.bearer("bob")).json()["rows"]
    assert {row["item"] for row in nearest["bob"] if row["label"] is not None} == (
        {row["item"] for row in nearest["bob"]} & set(own)
    )


def test_an_annotator_finds_nothing_of_others_by_any_filter_or_order_of_a_list(house: Served) -> None:
    for name, item in (("bob", 33), ("rex", 34), ("rex", 33)):
        sent = {"annotator": name, "item": item, "label": 5, "key": uuid.uuid4().hex}
        assert house.client.post("/api/labels", json=sent, headers=house.bearer(name)).status_code == 200
    everywhere = "-2,-2;2,-2;2,2;-2,2"
    for asked in (
        {}, {"person": "rex"}, {"label": 5}, {"state": "labelled"}, {"state": "disputed"}, {"state": "unlabelled"},
        {"sort": "latest"}, {"sort": "surprise"}, {"sort": "confidence-up"}, {"similar": 34}, {"lasso": everywhere},
        {"item": 34}, {"suggested": 5},
    ):  # fmt: skip
        answer = house.client.get("/api/items", params={**asked, "rows": True}, headers=house.bearer("bob"))
        assert answer.status_code == 200, (asked, answer.text)
        page = answer.json()
        assert 34 not in page["rows"], asked
        assert page["people"] in ([], ["bob"]), asked
        for shown in page["items"]:
            assert {label["by"] for label in shown["labels"]} <= {"bob"}, asked
            assert not {"disputed", "audit", "leased"} & set(shown["states"])
    refused = house.client.get("/api/items", params={"only": "rex"}, headers=house.bearer("bob"))
    assert refused.status_code == 403


def test_the_history_of_others_is_for_reviewers(house: Served) -> None:
    asked = {name: house.client.get("/api/history?annotator=bob", headers=house.bearer(name)).status_code
             for name in ("ann", "rex", "bob")}  # fmt: skip
    assert asked == {"ann": 200, "rex": 200, "bob": 200}
    assert house.client.get("/api/history?annotator=rex", headers=house.bearer("bob")).status_code == 403


def test_annotators_put_their_own_items_back_and_reviewers_anybodys(house: Served) -> None:
    def post(path: str, name: str, **values: Any) -> None:
        body = {"annotator": name, "key": uuid.uuid4().hex} | values
        assert house.client.post(path, json=body, headers=house.bearer(name)).status_code == 200

    def skipped(item: int) -> list[str]:
        return list(house.client.get(f"/api/items/{item}", headers=house.bearer("ann")).json()["skipped_by"])

    post("/api/skip", "bob", item=20)
    post("/api/skip", "rex", item=20)
    post("/api/skip", "rex", item=21)
    post("/api/put-back", "bob", what="skipped")
    assert (skipped(20), skipped(21)) == (["rex"], ["rex"])
    post("/api/skip", "bob", item=22)
    post("/api/put-back", "rex", what="skipped")
    assert (skipped(20), skipped(21), skipped(22)) == ([], [], [])


def test_roles_hold_while_a_project_is_prepared(tmp_path: Path) -> None:
    rule, links = access_for(tmp_path, "127.0.0.1", annotators="ann,bob:reviewer")
    assert {name: rule.visitor_with(str(token)).role for name, token in links.items()} == {  # type: ignore[union-attr]
        "ann": "owner", "bob": "reviewer"
    }  # fmt: skip


def test_the_application_can_be_made_twice(house: Served) -> None:
    """Declaring roles leaves the calls as they are."""
    again = create_app(house.app.state.holder)
    assert again.openapi()["paths"]["/api/train"]["post"]["x-role"] == "owner"
