"""Items that come while a project is served: who may ask for them, what every call says of them, and kills."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from tests.sessions.commands import command
from tests.sessions.label_data import images
from tests.waiting import wait_until
from tests.web.browser import events
from tests.web.serving import Served, opened, served
from understudy.errors import Conflict
from understudy.projects import source_watch
from understudy.sessions import growth
from understudy.sessions.session import Session
from understudy.web.access import Access
from understudy.web.tokens import Tokens

TEAM = {"ann": "owner", "rex": "reviewer", "bob": "annotator"}
GIVEN: dict[str, Any] = {"encoder": "pixels?size=4", "classes": ["cat", "dog"], "device": "cpu", "learner": "quick"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watch, "STILL_SECONDS", 0.05)
    monkeypatch.setattr(growth, "LOOK_SECONDS", 0.05)


@contextmanager
def a_house(folder: Path) -> Iterator[tuple[Served, Session]]:
    """A project of twenty photos, served to people with links."""
    photos = images(folder / "photos", [f"{row:02}.png" for row in range(20)])
    with opened(folder, photos, people=TEAM, **GIVEN) as session:  # type: ignore[arg-type]
        tokens = Tokens(folder)
        links = tokens.links_for(list(TEAM))
        with served(session, Access(tokens=tokens)) as running:
            running.tokens = {name: str(token) for name, token in links.items()}
            yield running, session


def test_an_owner_has_new_files_looked_for_and_everybody_hears_of_them(tmp_path: Path) -> None:
    with a_house(tmp_path) as (house, session):

        def post(name: str) -> httpx.Response:
            return house.client.post("/api/items/look", json={"annotator": name}, headers=house.bearer(name))

        def status() -> dict[str, Any]:
            found: dict[str, Any] = house.client.get("/api/status", headers=house.bearer("bob")).json()
            return found

        assert (status()["items_news"], status()["joining"]) == (None, None)
        assert post("ann").json() == {"new": 0, "unusable": 0, "gone": 0, "notes": []}
        images(tmp_path / "photos", ["new1.png", "new2.png"], first=100)
        for name in ("rex", "bob"):
            refused = post(name)
            assert refused.status_code == 403
            assert refused.json()["detail"] == "only owners can look for new items; ask ann"
        assert status()["total"] == 20, "nobody asked who may"
        with house.client.stream("GET", "/api/live?annotator=bob", headers=house.bearer("bob")) as stream:
            lines = stream.iter_lines()
            assert post("ann").json()["new"] == 2
            news = next(
                found["items_news"]
                for line in lines
                if line.startswith("data: ") and (found := json.loads(line[6:])).get("items_news")
            )
        assert (news["count"], news["line"]) == (2, "2 new items joined; there are 22 now")
        assert status()["total"] == 22
        bob = house.bearer("bob")
        for item in (20, 21):
            assert house.client.get(f"/api/items/{item}/content", headers=bob).status_code == 200
            assert house.client.get(f"/api/items/{item}/why", headers=bob).status_code == 200
            assert house.client.get(f"/api/items/{item}/copies", headers=bob).status_code == 200
        listed = house.client.get("/api/items?name=new&rows=true", headers=house.bearer("rex")).json()
        assert listed["rows"] == [20, 21]
        assert len(house.client.get("/api/map/points", headers=house.bearer("rex")).content) == 4 * 22
        sent = {"item": 21, "label": 1, "annotator": "bob", "key": "k"}
        assert house.client.post("/api/labels", json=sent, headers=bob).status_code == 200
        exported = house.client.get("/api/export?format=jsonl", headers=house.bearer("ann")).text
        assert [json.loads(line)["id"] for line in exported.splitlines()] == ["new2.png"]
        assert not session.growth._polls


def test_an_owner_reads_what_is_amiss_in_the_data_and_no_path_of_the_server(tmp_path: Path) -> None:
    with a_house(tmp_path) as (house, session):
        (tmp_path / "photos" / "03.png").unlink()
        (tmp_path / "photos" / "broken.png").write_bytes(b"GIF89a")
        images(tmp_path / "photos", ["new.png"], first=100)
        ask = {"json": {"annotator": "ann"}, "headers": house.bearer("ann")}
        house.client.post("/api/items/look", **ask)  # type: ignore[arg-type]
        wait_until(lambda: session.record.n_items == 21)
        found = house.client.post("/api/items/look", **ask).json()  # type: ignore[arg-type]
        assert (found["new"], found["unusable"], found["gone"]) == (0, 1, 1)
        assert found["notes"][0] == "1 item is not in photos any more; their rows stay"
        assert found["notes"][1].startswith("1 item cannot be used; the first: broken.png: ")
        whole = house.client.get("/api/progress", headers=house.bearer("ann")).json()
        assert whole["data_notes"] == found["notes"]
        assert house.client.get("/api/progress", headers=house.bearer("bob")).json()["data_notes"] == []
        assert str(tmp_path) not in json.dumps([found, whole])
        (tmp_path / "photos").rename(tmp_path / "away")
        found = house.client.post("/api/items/look", **ask).json()  # type: ignore[arg-type]
        assert found["notes"][0] == "new items are not looked for: photos is not there; put it back"
        assert str(tmp_path) not in json.dumps(found)


def test_who_has_nothing_to_do_is_asked_for_what_joins(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", [f"{row}.png" for row in range(4)])
    with opened(tmp_path, photos, **GIVEN) as session, served(session) as running:
        session.growth.start()
        question = session.next("ann")
        for turn in range(4):
            assert question.item is not None
            question = session.label(question.item, turn % 2, "ann", f"k{turn}").next
        assert question.item is None
        images(photos, ["new.png"], first=100)
        wait_until(lambda: running.client.get("/api/status").json()["total"] == 5)
        assert running.client.post("/api/next", json={"annotator": "ann"}).json()["id"] == "new.png"


def test_the_command_add_takes_in_what_is_new_where_nobody_serves_the_project(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", [f"{row}.png" for row in range(6)])
    with opened(tmp_path, photos, **GIVEN) as session:
        session.announce("http://127.0.0.1:8000/")
        with pytest.raises(Conflict, match=r"in use: .*8000.* New files join there by themselves"):
            command("add", tmp_path / "project")
    images(photos, ["new1.png", "new2.png"], first=100)
    (photos / "broken.png").write_bytes(b"GIF89a")
    said = command("add", tmp_path / "project").splitlines()
    assert "2 new items joined; there are 8 now" in said
    assert any("1 item left out" in line and "broken.png" in line for line in said)
    assert command("add", tmp_path / "project").splitlines() == ["no new items; there are 8"]
    assert [event.kind for event in events(tmp_path / "project")].count("items_added") == 1


# -- kills ---------------------------------------------------------------------------------------------------------


class Watching:
    """The command on a folder, in a process of its own that can be killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = str(Path(sys.executable).with_name("understudy"))
        command = [program, "label", str(self.folder / "photos"), "--no-browser", "--port", str(self.port)]
        given = ["--encoder", "pixels?size=4", "--classes", "cat,dog", "--learner", "quick", "--no-folder-labels"]
        with (self.folder / "said.txt").open("ab") as said:
            self.process = subprocess.Popen(
                [*command, *given, *self.options], stdout=said, stderr=said, start_new_session=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        self.until(lambda found: found["phase"] == "ready")

    def get(self, path: str) -> Any:
        return httpx.get(f"http://127.0.0.1:{self.port}/api/{path}", timeout=None).json()

    def until(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The status, once it is so."""
        assert self.process is not None
        while self.process.poll() is None:
            with suppress(httpx.HTTPError):
                found: dict[str, Any] = self.get("status")
                if is_so(found):
                    return found
            time.sleep(0.05)
        pytest.fail((self.folder / "said.txt").read_text())

    def kill(self) -> None:
        """End the server and nothing that it started: these have to notice by themselves."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def test_a_server_that_is_killed_while_files_come_in_has_every_item_once_as_the_same_row(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", [f"{row:02}.png" for row in range(12)])
    server = Watching(tmp_path)
    known: dict[int, str] = {}
    try:
        for kill in range(3):
            server.start()
            before = server.get("status")["total"]
            images(photos, [f"kill{kill}-{row}.png" for row in range(5)], first=100 + 10 * kill)
            if kill == 1:  # at once, at any moment from the first look to the event
                time.sleep(3.0)
            else:
                server.until(lambda found, least=before: found["total"] > least)  # type: ignore[misc]
            page = server.get("items?limit=200")["items"]
            announced = {found["item"]: found["id"] for found in page}
            assert known.items() <= announced.items(), "a row is an item for ever"
            known = announced
            server.kill()
        server.start()
        server.until(lambda found: found["total"] == 27)
        page = {found["item"]: found["id"] for found in server.get("items?limit=200")["items"]}
        assert known.items() <= page.items()
        assert len(set(page.values())) == 27
    finally:
        server.end()
    log = events(tmp_path / "photos.understudy")
    counts = [event.data["count"] for event in log if event.kind == "items_added"]
    assert sum(counts) == 15
    table = pq.read_table(tmp_path / "photos.understudy" / "items.parquet")
    assert dict(enumerate(table["id"].to_pylist())) == page


def test_without_watching_files_are_left_for_the_next_start(tmp_path: Path) -> None:
    photos = images(tmp_path / "photos", [f"{row:02}.png" for row in range(6)])
    server = Watching(tmp_path, "--no-watch")
    try:
        server.start()
        images(photos, ["new.png"], first=100)
        time.sleep(3.0)
        assert server.get("status")["total"] == 6
        url = f"http://127.0.0.1:{server.port}/api/items/look"
        assert httpx.post(url, json={"annotator": "ann"}, timeout=None).json()["new"] == 1, "unless somebody asks"
        server.until(lambda found: found["total"] == 7)
    finally:
        server.end()
    assert "1 new item joined; there are 7 now" in (tmp_path / "said.txt").read_text()
