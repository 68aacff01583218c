"""Lists of items and decisions about many of them, over HTTP."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.sessions.small_projects import copied
from tests.sessions.small_projects import opened as opened_again
from tests.web.serving import Served, served
from understudy.sessions.session import Session
from understudy.web.access import Access
from understudy.web.tokens import Tokens


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("browse")
    with opened_again(copied(folder / "one", taught=2)) as session:
        yield session


@pytest.fixture(scope="module")
def http(project: Session) -> Iterator[httpx.Client]:
    with served(project) as running:
        yield running.client


def post(http: httpx.Client, path: str, **body: Any) -> httpx.Response:
    return http.post(f"/api/{path}", json={"annotator": "ann", "key": uuid.uuid4().hex, **body})


def page(http: httpx.Client, query: str = "") -> dict[str, Any]:
    answer = http.get(f"/api/items?{query}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_flagged_item_is_found_relabelled_and_put_back(http: httpx.Client) -> None:
    post(http, "flag", item=7, note="whose cat?", annotator="bob")
    found = page(http, "state=flagged")
    assert [shown["item"] for shown in found["items"]] == [7]
    assert found["items"][0]["flags"] == [{"by": "bob", "note": "whose cat?"}]
    assert found["counts"]["flagged"] == found["total"] == 1
    assert post(http, "items/label", items=[7], label="cat").status_code == 200
    assert page(http, "label=cat&state=flagged")["total"] == 1
    assert post(http, "items/put-back", items=[7], what="flagged").status_code == 200
    assert page(http, "state=flagged")["total"] == 0
    assert post(http, "undo").json()["what"] == "put_back"
    assert page(http, "state=flagged")["total"] == 1
    post(http, "undo")
    post(http, "undo", annotator="bob")
    assert page(http, "state=flagged")["total"] == 0


def test_an_item_is_opened_by_its_name_or_number(http: httpx.Client) -> None:
    assert [shown["id"] for shown in page(http, "id=0011.png")["items"]] == ["0011.png"]
    assert [shown["item"] for shown in page(http, "item=11")["items"]] == [11]
    assert page(http, "id=0011.PNG")["total"] == 0
    assert page(http, "name=0011.PNG")["total"] == 1
    assert page(http, "search=001")["total"] == 11


def test_pages_orders_and_likeness_are_in_the_address(http: httpx.Client) -> None:
    everything = page(http, "limit=200")
    assert everything["total"] == 40
    assert everything["rows"] == []
    second = page(http, "offset=15&limit=15&sort=name")
    assert (second["offset"], len(second["items"])) == (15, 15)
    near = page(http, "similar=3&rows=true&limit=1")
    assert near["rows"][0] == near["items"][0]["item"] == 3
    assert sorted(near["rows"]) == list(range(40))
    assert near["items"][0]["distance"] == 0
    both = page(http, "state=labelled&state=unlabelled&confidence_from=0.2&confidence_to=1&sort=confidence-down")
    assert both["total"] <= 40


def test_an_annotators_own_list_has_nothing_of_others(http: httpx.Client) -> None:
    post(http, "labels", item=20, label="dog", annotator="bob")
    post(http, "labels", item=20, label="fox", annotator="cy")
    own = page(http, "only=cy")
    assert [shown["item"] for shown in own["items"]] == [20]
    assert [each["by"] for each in own["items"][0]["labels"]] == ["cy"]
    assert page(http, "only=nobody-yet")["total"] == 0
    assert page(http, "state=disputed&person=bob")["total"] == 1


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("label=owl", 404, "there is no class 'owl'"),
        ("suggested=99", 404, "there is no class"),
        ("person=zoe", 404, "there is no annotator 'zoe'"),
        ("item=40", 404, "there is no item 40; there are 40"),
        ("similar=400", 404, "there is no item 400"),
        ("state=nice", 422, "labelled"),
        ("sort=nicest", 422, "similarity"),
        ("sort=similarity", 422, "similar=ITEM"),
        ("confidence_from=2", 422, "confidence_from"),
        ("confidence_from=nan", 422, "must be a number from 0 to 1"),
        ("confidence_from=0.9&confidence_to=0.1", 422, "got 0.9 to 0.1"),
        ("offset=-1", 422, "offset"),
        ("limit=201", 422, "limit"),
        ("limit=1_0", 422, "whole number"),
        ("lasso=1,2", 422, "got 1"),
        ("lasso=1,2;3,4;x,5", 422, "got 'x,5'"),
        ("classs=cat", 422, "classs"),
        ("person=%20", 422, "person"),
    ],
)
def test_a_filter_that_means_nothing_gets_one_line_with_its_value(
    http: httpx.Client, query: str, status: int, said: str
) -> None:
    answer = http.get(f"/api/items?{query}")
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("bad", {"items": []}, 422),
        ("bad", {"items": [1, 1]}, 422),
        ("bad", {"items": list(range(5001))}, 422),
        ("praise", {"items": [1]}, 405),
        ("label", {"items": [1]}, 422),
        ("label", {"items": [1], "label": "owl"}, 404),
        ("bad", {"items": [1], "label": 1}, 422),
        ("bad", {"items": [1, 900]}, 404),
        ("put-back", {"items": [1], "what": "labelled"}, 422),
        ("put-back", {"items": [1]}, 409),
        ("flag", {"items": [1], "on": False}, 409),
        ("flag", {"items": [1], "note": "x" * 501}, 422),
    ],
    ids=repr,
)
def test_what_cannot_be_decided_of_many_items_is_refused(
    http: httpx.Client, path: str, body: dict[str, Any], status: int
) -> None:
    before = http.get("/api/status").json()
    answer = post(http, f"items/{path}", **body)
    assert answer.status_code == status, answer.text
    assert "\n" not in answer.json()["detail"]
    after = http.get("/api/status").json()
    assert (after["labelled"], after["bad"]) == (before["labelled"], before["bad"])


def test_five_thousand_items_fit_into_one_call(http: httpx.Client) -> None:
    answer = post(http, "items/bad", items=list(range(2**31 - 5000, 2**31)))
    assert answer.status_code == 404, "not 413: the body is not too large"


def test_somebody_with_a_link_cannot_list_or_decide_in_anothers_name(project: Session, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    links = tokens.links_for(["ann"])
    with served(project, Access(tokens=tokens, annotators=("ann",))) as running:
        running.tokens = {name: str(token) for name, token in links.items()}
        assert _asked(running, "/api/items?only=ann") == 200
        assert _asked(running, "/api/items?only=bob") == 403
        body = {"items": [1], "annotator": "bob", "key": "k"}
        assert running.client.post("/api/items/bad", json=body, headers=running.bearer("ann")).status_code == 403
        assert running.client.get("/api/items").status_code == 401


def _asked(running: Served, address: str) -> int:
    return running.client.get(address, headers=running.bearer("ann")).status_code
