"""Tasks on this disk: what becomes of texts and pictures, and what cannot be used."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from understudy.errors import Conflict, UnderstudyError
from understudy.integrations.label_studio.client import LabelStudio, Unreachable
from understudy.integrations.label_studio.label_config import LabelQuestion
from understudy.integrations.label_studio.task_files import Link, TaskFiles

LINK = Link("http://studio.example.org", 3)
PICTURES = LabelQuestion("choice", "image", "image", "image", ("a", "b"), ("a", "b"))
TEXTS = LabelQuestion("choice", "text", "text", "body", ("a", "b"), ("a", "b"))


class Pictures:
    """Label Studio's files: those with "missing" in their name are not there."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.client = LabelStudio(LINK.url, "token", transport=httpx.MockTransport(self), pause=lambda _: None)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.fetched.append(request.url.path)
        return httpx.Response(404) if "missing" in request.url.path else httpx.Response(200, content=b"picture")


def tasks(field: str, *values: Any) -> list[dict[str, Any]]:
    return [{"id": 10 + place, "data": {field: value}} for place, value in enumerate(values)]


def test_texts_stand_in_the_table_under_the_numbers_of_their_tasks(tmp_path: Path) -> None:
    files = TaskFiles(tmp_path / "studio", LINK, TEXTS)
    assert files.add(Pictures().client, tasks("body", 'He said "no",\nand left', "", None, "ünlü")) == 2
    assert [json.loads(line) for line in files.table.read_text().splitlines()] == [
        {"id": "10", "text": 'He said "no",\nand left'},
        {"id": "13", "text": "ünlü"},
    ]
    assert files.notes == [
        "2 tasks left out: task 11: it has no 'body' in its data, task 12: it has no 'body' in its data"
    ]


def test_pictures_are_fetched_once_and_those_that_cannot_be_had_are_named(tmp_path: Path) -> None:
    studio, given = Pictures(), tasks("image", "/data/upload/3/a%20b.PNG", "/data/missing.jpg", "/data/c?size=9")
    files = TaskFiles(tmp_path / "studio", LINK, PICTURES)
    assert files.add(studio.client, given) == 2
    lines = [json.loads(line) for line in files.table.read_text().splitlines()]
    assert lines == [{"id": "10", "path": "images/10.png"}, {"id": "12", "path": "images/12.jpg"}]
    assert (files.folder / "images" / "10.png").read_bytes() == b"picture"
    assert "task 11: " in files.notes[0]
    again = TaskFiles(tmp_path / "studio", LINK, PICTURES)
    studio.fetched.clear()
    assert again.add(studio.client, given) == 0  # only what failed before is tried again
    assert studio.fetched == ["/data/missing.jpg"]
    assert len(again) == 2


def test_where_label_studio_is_away_no_task_is_left_out(tmp_path: Path) -> None:
    files = TaskFiles(tmp_path / "studio", LINK, PICTURES)

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    client = LabelStudio(LINK.url, "token", transport=httpx.MockTransport(answer), pause=lambda _: None)
    with pytest.raises(Unreachable):
        files.add(client, tasks("image", "/data/a.png", "/data/b.png"))
    assert files.add(Pictures().client, tasks("image", "/data/a.png", "/data/b.png", "http://[half/c.png")) == 2
    assert "task 12: http://[half/c.png cannot be an address" in files.notes[0]


def test_a_folder_belongs_to_one_project(tmp_path: Path) -> None:
    TaskFiles(tmp_path / "studio", LINK, TEXTS)
    with pytest.raises(Conflict, match=r"belongs to project 3 of http://studio.example.org; give another --folder"):
        TaskFiles(tmp_path / "studio", Link(LINK.url, 4), TEXTS)
    (tmp_path / "studio" / "label-studio.json").write_text("[]")
    with pytest.raises(UnderstudyError, match="cannot be used"):
        TaskFiles(tmp_path / "studio", LINK, TEXTS)
