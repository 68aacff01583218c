"""Near-copies and columns over HTTP."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.serving import Served, opened, served

TEXTS = ["one fine day", "one fine day", "one fine day", "a wet morning", "the last train", "no news at all"]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("reviews")
    with (folder / "reviews.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text", "title"], *([text, f"T{row}"] for row, text in enumerate(TEXTS))])
    with (
        opened(
            folder, folder / "reviews.csv", classes=["good", "bad"], encoder="words", learner="quick", audit_share=0.0
        ) as session,
        served(session) as server,
    ):
        yield server


def post(server: Served, path: str, key: str, **body: Any) -> Any:
    return server.client.post(path, json={"annotator": "ann", "key": key, **body})


def test_an_item_and_its_copies_are_labelled_in_one_call(reviews: Served) -> None:
    found = reviews.client.get("/api/items/0/copies").json()
    assert [(copy["item"], copy["text"], copy["exact"]) for copy in found["copies"]] == [
        (1, TEXTS[0], True), (2, TEXTS[0], True),
    ]  # fmt: skip
    assert found["line"] == "2 near-copies can be labelled with it."
    body = {"items": [0, 1, 2], "label": "bad", "source": "copies", "seconds": 1.5, "suggestion": 0}
    stored = post(reviews, "/api/labels/many", "c", **body).json()
    assert (stored["labelled"], stored["left_out"]) == (3, [])
    assert post(reviews, "/api/labels/many", "c", **body).json()["repeated"]
    assert [reviews.client.get(f"/api/items/{item}").json()["label"] for item in range(3)] == [1, 1, 1]
    history = reviews.client.get("/api/history", params={"annotator": "ann"}).json()
    assert sorted(entry["source"] for entry in history) == ["copies", "copies", "person"]
    assert post(reviews, "/api/undo", "u").status_code == 200
    assert [reviews.client.get(f"/api/items/{item}").json()["label"] for item in range(3)] == [None] * 3


def test_calls_about_copies_that_are_wrong_are_refused_in_a_line(reviews: Served) -> None:
    assert reviews.client.get("/api/items/99/copies").status_code == 404
    wrong = post(reviews, "/api/labels/many", "w", items=[0, 1], label=0, source="review")
    assert wrong.status_code == 422
    assert reviews.client.get("/api/items/0/copies").json()["labelled"] == 0


def test_columns_are_shown_after_a_setting_and_unknown_ones_are_refused(reviews: Served) -> None:
    refused = post(reviews, "/api/settings", "s1", show=["rating"])
    assert refused.status_code == 422
    assert "has no column 'rating' to show; it can show 'title'" in refused.json()["detail"]
    assert post(reviews, "/api/settings", "s2", show=["title"]).status_code == 200
    assert post(reviews, "/api/settings", "s2", show=["title"]).status_code == 200, "a call that is sent again"
    asked = reviews.client.post("/api/next", json={"annotator": "ann"}).json()
    assert asked["columns"] == [{"name": "title", "value": f"T{asked['item']}"}]
    ahead = reviews.client.get("/api/ahead", params={"annotator": "ann"}).json()
    assert all(shown["columns"][0]["value"] == f"T{shown['item']}" for shown in ahead)


def test_lists_of_items_have_the_columns_too(reviews: Served) -> None:
    assert post(reviews, "/api/settings", "b1", show=["title"]).status_code == 200
    found = reviews.client.get("/api/items", params={"text": "train"}).json()["items"]
    assert [item["columns"] for item in found] == [[{"name": "title", "value": "T4"}]]
