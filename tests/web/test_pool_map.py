"""The calls for the map: what is shown, its bytes, and that nothing is sent twice that has not changed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.sessions.small_projects import copied, opened
from tests.waiting import wait_until
from tests.web.serving import Served, served
from understudy.sessions.session import Session
from understudy.web.access import Access
from understudy.web.tokens import Tokens


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[tuple[Session, Served]]:
    with opened(copied(tmp_path)) as session:
        session.map.shown()
        wait_until(lambda: not session.map.is_being_made)
        with served(session) as server:
            yield session, server


def test_places_and_colours_come_as_bytes_that_say_whether_they_changed(mapped: tuple[Session, Served]) -> None:
    session, server = mapped
    said = server.client.get("/api/map").json()
    assert (said["items"], said["layout"], said["is_being_made"]) == (40, "neighbours", False)
    for what, expected in (("points", session.map.shown().to_bytes()), ("colours", session.map_colours()[1])):
        answer = server.client.get(f"/api/map/{what}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["etag"] == f'"{said[what]}"'
        assert answer.content == expected
        again = server.client.get(f"/api/map/{what}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_a_label_changes_the_colours_and_no_place(mapped: tuple[Session, Served]) -> None:
    session, server = mapped
    before = server.client.get("/api/map").json()
    item = next(item for item in range(40) if item not in session.record.effective)
    session.label(item, 2, "ann", "key")
    after = server.client.get("/api/map").json()
    assert after["points"] == before["points"]
    assert after["colours"] != before["colours"]
    tag = {"If-None-Match": f'"{before["colours"]}"'}
    colours = server.client.get("/api/map/colours", headers=tag).content
    assert (colours[item], colours[80 + item]) == (2, 1)


def test_a_lasso_of_the_list_is_one_on_the_map(mapped: tuple[Session, Served]) -> None:
    session, server = mapped
    points = session.map.shown().points
    x = float(np.median(points[:, 0])) + 1e-5
    found = server.client.get("/api/items", params={"lasso": f"-1,-1;{x},-1;{x},2;-1,2", "limit": 100}).json()
    assert [each["item"] for each in found["items"]] == np.flatnonzero(points[:, 0] < x).tolist()


def test_who_is_not_known_sees_no_map(mapped: tuple[Session, Served], tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.links_for(["ann"])
    with served(mapped[0], Access(tokens=tokens, annotators=("ann",))) as server:
        for what in ("", "/points", "/colours"):
            assert server.client.get(f"/api/map{what}").status_code == 401
