"""Labels taken away and brought in through the web."""

import io
import socket
import zipfile

import httpx
import pytest

from tests.waiting import wait_until
from tests.web.serving import Served
from understudy.labels.formats import FORMATS, READERS
from understudy.sessions.session import Session
from understudy.web.guard import MAX_IMPORT_BYTES, Guard

RAW = {"Content-Type": "application/octet-stream"}


def table(session: Session, *rows: tuple[int, str, str]) -> bytes:
    lines = [f"{session.project.pool.ids[row]},{label},{who}" for row, label, who in rows]
    return "\n".join(["id,label,annotator", *lines]).encode()


def test_labels_brought_in_can_be_taken_away(server: Served, session: Session) -> None:
    sent = table(session, (500, "3", "zoe"), (501, "4", "zoe"))
    first = server.client.post("/api/import?annotator=ann&format=csv", content=sent, headers=RAW)
    assert (first.status_code, first.json()["added"]) == (200, 2)
    again = server.client.post("/api/import?annotator=ann", content=sent, headers=RAW).json()
    assert (again["added"], again["unchanged"]) == (0, 2)
    unknown = server.client.post("/api/import?annotator=ann", content=b"id,label\nnobody,3\n", headers=RAW).json()
    assert (unknown["added"], unknown["unknown"]["count"]) == (0, 1)
    assert "nobody" in unknown["unknown"]["first"][0]
    taken = server.client.get("/api/export?format=csv")
    assert taken.headers["content-disposition"] == 'attachment; filename="labels.csv"'
    assert session.project.pool.ids[500] in taken.text
    assert "zoe" in taken.text


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_a_download_or_says_why_not(server: Served, name: str) -> None:
    answer = server.client.get(f"/api/export?format={name}")
    assert answer.status_code in ((200, 404) if name.startswith(("predictions", "model")) else (200,))
    if answer.status_code == 404:
        assert "no model yet" in answer.json()["detail"]
        return
    assert answer.headers["content-type"] == FORMATS[name].media_type
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["cache-control"] == "no-store"
    if answer.headers["content-type"] == "application/zip":
        assert zipfile.ZipFile(io.BytesIO(answer.content)).testzip() is None


def test_the_formats_are_listed_as_people_choose_them(server: Served) -> None:
    cards = {card["format"]: card for card in server.client.get("/api/formats").json()}
    assert list(cards) == list(FORMATS)
    assert cards["csv"]["suffixes"] == [".csv", ".tsv", ".xlsx"]
    assert cards["csv"]["holds"].startswith("One line a label")
    assert [name for name, card in cards.items() if not card["suffixes"]] == [n for n in FORMATS if n not in READERS]
    assert [name for name, card in cards.items() if card["is_of_model"]][-1] == "model"


def test_what_cannot_be_read_or_is_too_much_is_refused(server: Served) -> None:
    for content in (b"", b"\x89PNG", b"{", b"\xff\xfe", b"PK\x03\x04", b"PAR1"):
        answer = server.client.post("/api/import?annotator=ann", content=content, headers=RAW)
        assert answer.status_code == 422, content
        assert "\n" not in answer.json()["detail"]
        assert "/tmp" not in answer.text
    large = server.client.post("/api/import?annotator=ann", content=b" " * (MAX_IMPORT_BYTES + 1), headers=RAW)
    assert large.status_code == 413
    assert server.client.post("/api/import?annotator=ann", json={}).status_code == 415
    assert server.client.get("/api/export?format=pickle").status_code == 422
    assert server.client.get("/api/export?format=../../etc/passwd").status_code == 422


def guard_of(server: Served) -> Guard:
    layer = server.app.middleware_stack
    while not isinstance(layer, Guard):
        layer = layer.app
    return layer


def test_a_second_import_waits_for_the_first_and_half_a_file_is_none(server: Served, session: Session) -> None:
    sent = table(session, (520, "3", "zoe"), (521, "4", "zoe"))
    head = "POST /api/import?annotator=ann HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
    host, port = server.url.removeprefix("http://").split(":")

    def bring() -> httpx.Response:
        return server.client.post("/api/import?annotator=ann&format=csv", content=sent, headers=RAW)

    with socket.create_connection((host, int(port))) as first:
        first.sendall(f"{head}Content-Length: {len(sent) + 1}\r\n\r\n".encode() + sent)
        wait_until(lambda: guard_of(server).importing)
        second = bring()
        assert (second.status_code, "under way" in second.json()["detail"]) == (409, True)
    wait_until(lambda: not guard_of(server).importing)  # the server has noticed that the first one hung up
    again = bring()
    assert (again.status_code, again.json()["added"]) == (200, 2)


def test_only_owners_bring_labels_in_also_those_of_others(team: Served, session: Session) -> None:
    def bring(visitor: str, annotator: str) -> int:
        sent = table(session, (510, "3", "bob"))
        headers = RAW | team.bearer(visitor)
        address = f"/api/import?annotator={annotator}&format=csv"
        return team.client.post(address, content=sent, headers=headers).status_code

    assert bring("bob", "bob") == 403
    assert bring("ann", "bob") == 403  # who brings them in is ann, whatever the file says
    assert session.card(510).labels == {}
    assert bring("ann", "ann") == 200
    assert session.card(510).labels == {"bob": 3}
