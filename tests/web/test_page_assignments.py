"""Assigning people their part on the page, and what each of them sees of it, in a real browser."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.sessions.small_projects import copied
from tests.sessions.small_projects import opened as reopened
from tests.web import axe, browser
from tests.web.browser import Desk, desk
from tests.web.looks import PALE, STICKS_OUT
from tests.web.serving import Served, served
from understudy.sessions.session import Session
from understudy.web.access import Access
from understudy.web.tokens import Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
PEOPLE = {"Ann": "owner", "Bea": "annotator", "Christopher-Alexander": "annotator"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = copied(tmp_path_factory.mktemp("work"), "digits", taught=16, audit_share=0.1, agreement_share=0.2)
    with reopened(folder, people=PEOPLE) as session:
        for turn in range(30):
            for who, label in (("Bea", turn % 3), ("Christopher-Alexander", turn % 2)):
                item = session.next(who).item
                assert item is not None
                session.label(item, label, who, f"{who} {turn}", seconds=3.0 + turn % 5, ago=20.0 * (30 - turn))
        session.skip(session.next("Bea").item or 0, "Bea", "skip")
        for who in PEOPLE:
            session.release(who)
        yield session


@pytest.fixture(scope="module")
def server(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokens = Tokens(tmp_path_factory.mktemp("tokens"))
    links = tokens.links_for(list(PEOPLE))
    with served(session, Access(tokens=tokens, annotators=tuple(PEOPLE))) as running:
        running.tokens = {name: str(token) for name, token in links.items()}
        yield running


def come_in(person: Desk, server: Served, name: str) -> Desk:
    person.page.add_init_script(axe.source())
    person.page.goto(f"{server.url}/?token={server.tokens[name]}")
    return person


def look(person: Desk, name: str) -> None:
    """Nothing sticks out, is pale or has a finding of axe, at any width, light and dark; pictures where asked for."""
    page, pictures = person.page, os.environ.get("UNDERSTUDY_PICTURES")
    for width, height in ((1280, 800), (390, 844), (320, 640)):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            if pictures:
                page.screenshot(path=Path(pictures) / f"{name}-{width}-{scheme}.png", full_page=True)
            assert page.evaluate(PALE) == [], (name, width, scheme)
            assert page.evaluate(STICKS_OUT) == [], (name, width, scheme)
        assert axe.findings(page, axe.OF_PLACES) == [], (name, width)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_an_owner_assigns_and_the_person_sees_how_far_they_are_until_the_quota_is_reached(
    chromium: "Browser", server: Served, session: Session
) -> None:
    with desk(chromium, server.url) as owner, desk(chromium, server.url) as bea:
        come_in(owner, server, "Ann").seen()
        come_in(bea, server, "Bea").seen()
        assert not bea.get("own-work").is_visible()
        owner.go("progress")
        owner.get("assign-Bea").click()
        owner.get("assign-share").fill("150")
        owner.get("assign-save").click()
        assert owner.get("assign-dialog").is_visible(), "the browser refuses more than the pool"
        owner.get("assign-share").fill("40")
        owner.get("assign-quota").fill("32")
        owner.get("assign-class-1").check()
        look(owner, "assign")
        owner.get("assign-save").click()
        owner.get("assign-dialog").wait_for(state="detached")
        owner.page.locator("[data-person=Bea] .assigned", has_text="40% of the pool; class 1").wait_for()
        look(owner, "people")
        assert session.assignments.of("Bea").quota == 32

        bea.answer("1")
        bea.page.locator("[data-testid=own-work]", has_text="31 of 32 labels").wait_for()
        look(bea, "own-work")
        bea.press("1")
        bea.get("all-done").wait_for()
        assert "You have given 32 labels, as many as you were asked for." in bea.get("all-done").inner_text()
        look(bea, "all-given")
        bea.get("undo").click()
        bea.page.locator("[data-testid=own-work]", has_text="31 of 32 labels").wait_for()
        bea.press("1")
        bea.get("all-done").wait_for()

        owner.page.locator("[data-testid=assignment-note]", has_text="Bea has reached the quota").wait_for()
        owner.get("assign-Bea").click()
        assert owner.get("assign-share").input_value() == "40"
        assert owner.get("assign-class-1").is_checked()
        owner.get("assign-quota").fill("40")
        owner.press("Enter")
        bea.seen()  # the page asks again by itself

        bea.go("progress")
        bea.get("people").wait_for()
        assert bea.page.locator("[data-person]").count() == 1, "an annotator sees their own row"
        assert bea.page.locator("[data-testid^=assign-]").count() == 0
        look(bea, "own-row")


def test_what_the_server_refuses_is_said_in_the_window_and_nothing_is_lost(
    chromium: "Browser", server: Served, session: Session
) -> None:
    before = session.assignments.of("Bea").share or 0.0
    with desk(chromium, server.url) as owner:
        come_in(owner, server, "Ann").seen()
        owner.go("progress")
        owner.get("assign-Christopher-Alexander").click()
        owner.get("assign-share").fill(str(100 - 100 * before + 10))
        owner.press("Enter")
        owner.page.locator("[data-testid=assign-trouble]", has_text="add up to 1 at most").wait_for()
        owner.get("assign-share").fill("20")
        owner.press("Enter")
        owner.get("assign-dialog").wait_for(state="detached")
        assert session.assignments.of("Christopher-Alexander").share == 0.2
        owner.errors.clear()  # the browser notes the refusal


def test_programs_assign_by_name_and_null_takes_away_what_was_given(server: Served, session: Session) -> None:
    def assign(key: str, who: str = "Ann", **values: object) -> httpx.Response:
        body = {"person": "Christopher-Alexander", "annotator": who, "key": key, **values}
        return server.client.post("/api/people/assign", json=body, headers=server.bearer(who))

    assert assign("a", quota=90, classes=["3", 5]).status_code == 200
    before = session.assignments.of("Christopher-Alexander")
    assert (before.quota, set(before.classes)) == (90, {3, 5})
    assert assign("a", quota=90, classes=["3", 5]).status_code == 200, "sent again, it is done once"
    said = assign("b", quota=None).json()["changes"][0]
    assert said["line"] == "“Christopher-Alexander” is asked for any number of labels."
    after = session.assignments.of("Christopher-Alexander")
    assert (after.quota, set(after.classes), after.share) == (None, {3, 5}, before.share)
    rows = server.client.get("/api/progress", headers=server.bearer("Ann")).json()["people"]
    assert next(row for row in rows if row["name"] == "Christopher-Alexander")["classes"] == [3, 5]
    for name, value in {"share": 2, "quota": 0, "speed": 3}.items():
        refused = assign("c", "Ann", **{name: value})
        assert (refused.status_code, name in refused.json()["detail"]) == (422, True)
    assert assign("d", classes=["wolf"]).status_code == 404
    assert assign("e", classes=[77]).status_code == 422
    assert assign("f", who="Bea", quota=1).status_code == 403
    own = server.client.get("/api/progress", headers=server.bearer("Bea")).json()["people"]
    assert [row["name"] for row in own] == ["Bea"]
