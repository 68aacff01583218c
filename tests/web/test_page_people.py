"""An owner changes people in one browser; what it means for the others is seen in theirs at once."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.sessions.small_projects import copied
from tests.web import axe, browser
from tests.web.browser import Desk, desk
from tests.web.looks import COVERS, NAMELESS, PALE, STICKS_OUT
from tests.web.serving import Served, served
from understudy.projects.opening import create_or_open
from understudy.sessions.log.events import Event
from understudy.sessions.opening import open_session
from understudy.sessions.session import Session
from understudy.web.access import access_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium


class House(NamedTuple):
    session: Session
    server: Served
    links: dict[str, str]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A project with an owner, a reviewer and an annotator, each with a link."""
    folder = copied(tmp_path, taught=6)
    wanted = {"Ann": "owner", "Rex": "reviewer", "Bob": "annotator"}
    session = open_session(create_or_open(project=folder), people=wanted)  # type: ignore[arg-type]
    teacher = {"person": "teacher", "retired": True}  # who labelled first, so an owner
    try:
        session.change_people(Event("person_changed", None, "Ann", "teacher", teacher))
        access, tokens = access_for(folder, "127.0.0.1", annotators="Ann,Rex,Bob", people=session.record.people)
        with served(session, access) as server:
            yield House(session, server, {name: f"{server.url}/?token={token}" for name, token in tokens.items()})
    finally:
        session.close()


def sit_down(person: Desk, link: str) -> Desk:
    person.page.goto(link)
    person.seen()
    return person


def open_people(person: Desk) -> None:
    person.get("settings").click()
    person.get("open-people").click()
    person.get("people-dialog").wait_for()


def open_person(person: Desk, who: str) -> None:
    person.get(f"open-person-{who}").click()
    person.get(f"person-form-{who}").wait_for()


def shown(person: Desk, testid: str) -> bool:
    return person.page.locator(f"[data-testid={testid}]:visible").count() > 0


def test_somebody_is_added_and_their_link_works(chromium: "Browser", house: House) -> None:
    with desk(chromium, house.server.url) as ann, desk(chromium, house.server.url) as eve:
        sit_down(ann, house.links["Ann"])
        open_people(ann)
        ann.get("new-person").fill("bob")
        ann.get("add-person").click()
        assert "easily taken" in ann.until_text("people-result", "Bob")
        ann.get("new-person").fill("Eve")
        ann.get("new-role").select_option("reviewer")
        ann.get("add-person").click()
        link = ann.get("issued-link").input_value()
        ann.get("copy-link").click()
        ann.until_text("copy-link", "Copied")
        sit_down(eve, link)
        assert shown(eve, "nav-review")
        assert not shown(eve, "nav-export")
        ann.page.locator("[data-testid=person-Eve] .dot.on").wait_for()
        ann.until_text("people-changes", "“Eve” was added as reviewer.")
        open_person(ann, "Eve")
        ann.get("new-link").click()
        ann.page.wait_for_function("old => document.querySelector('[data-testid=issued-link]').value !== old", arg=link)
        eve.get("locked").wait_for()  # the link that was open stopped working
        sit_down(eve, ann.get("issued-link").input_value())


def test_a_new_name_is_seen_by_the_others_at_once_and_the_person_goes_on(chromium: "Browser", house: House) -> None:
    with desk(chromium, house.server.url) as ann, desk(chromium, house.server.url) as bob:
        sit_down(ann, house.links["Ann"])
        sit_down(bob, house.links["Bob"])
        ann.page.locator("[data-testid=online][data-count='2']").wait_for()
        open_people(ann)
        open_person(ann, "Bob")
        ann.get("person-name").fill("Robert")
        ann.get("rename-person").click()
        bob.until_text("toast", "You are called Robert now")
        before = bob.seen()
        bob.answer("1")
        bob.until_sent()
        assert list(house.session.record.labels[before.item]) == ["Bob"]
        assert house.session.card(before.item).labels == {"Robert": 0}
        ann.until_text("person-Bob", "formerly Bob")
        ann.press("Escape")
        ann.page.locator("[data-testid=online][title*=Robert]").wait_for()
        ann.go("progress")
        ann.until_text("people", "Robert")
        bob.get("settings").click()
        bob.until_text("who", "Robert")
        for person in (ann, bob):
            person.require_calm()


def test_a_role_is_followed_by_what_the_page_offers(chromium: "Browser", house: House) -> None:
    with desk(chromium, house.server.url) as ann, desk(chromium, house.server.url) as bob:
        sit_down(ann, house.links["Ann"])
        sit_down(bob, house.links["Bob"])
        for missing in ("nav-review", "nav-export", "add-class"):
            assert not shown(bob, missing), missing
        bob.press("/")
        bob.page.keyboard.type("owl")
        bob.page.get_by_text("owners of the project add classes").wait_for()
        bob.press("Escape")
        bob.page.goto(f"{house.server.url}/#/export")  # by its address, it is the label view
        bob.page.locator("main[data-view=label]").wait_for()
        bob.press("Shift+C")
        bob.get("classes-dialog").wait_for()
        assert bob.get("open-0").count() == 0
        bob.press("Escape")
        open_people(ann)
        open_person(ann, "Bob")
        ann.get("change-role").select_option("reviewer")
        bob.until_text("toast", "You are a reviewer now")
        bob.get("nav-review").wait_for()
        ann.get("change-role").select_option("owner")
        bob.get("nav-export").wait_for()
        bob.go("export")
        ann.get("change-role").select_option("annotator")
        bob.page.locator("main[data-view=label]").wait_for()  # also where they are in the middle of it
        bob.require_calm()
        ann.get("people-changes").get_by_role("button").first.click()
        ann.until_text("people-result", "Taken back")
        bob.get("nav-export").first.wait_for()
        ann.require_calm()


def test_who_retires_is_out_at_once_and_comes_back_to_where_they_were(chromium: "Browser", house: House) -> None:
    with desk(chromium, house.server.url) as ann, desk(chromium, house.server.url) as bob:
        sit_down(ann, house.links["Ann"])
        sit_down(bob, house.links["Bob"])
        held = bob.seen().item
        open_people(ann)
        open_person(ann, "Bob")
        ann.get("retire").click()
        assert "You have retired from this project; ask Ann." in bob.until_text("locked", "retired")
        assert held not in house.session.record.leases
        assert shown(bob, "item") is False
        ann.until_text("person-Bob", "retired")
        ann.page.locator("[data-testid=online][data-count='1']").wait_for(state="attached")
        ann.get("retire").click()
        bob.seen()  # by itself
        open_again = ann.get("open-person-Ann")
        open_again.click()
        ann.get("person-form-Ann").get_by_test_id("retire").click()
        assert "make somebody else owner first" in ann.until_text("people-result", "owner")


def test_an_open_server_says_how_to_give_people_links(chromium: "Browser", tmp_path: Path) -> None:
    session = open_session(create_or_open(project=copied(tmp_path, taught=6)))
    with served(session) as server, desk(chromium, server.url, "Ann") as ann, desk(chromium, server.url) as other:
        other.page.goto(server.url)
        other.get("name-input").fill("ann")
        other.press("Enter")
        assert "easily taken" in other.until_text("welcome-trouble", "Ann")
        ann.go("progress")
        ann.get("open-people").click()
        assert "--annotators" in ann.until_text("people-open", "This server is open")
        open_person(ann, "Ann")
        ann.get("person-name").fill("Anna")
        ann.get("rename-person").click()
        ann.until_text("toast", "You are called Anna now")
        ann.page.reload()
        ann.get("settings").click()
        ann.until_text("who", "Anna")
        ann.require_calm()
        other.get("name-input").fill("Ann")  # a former name means the same person
        other.press("Enter")
        other.get("settings").click()
        other.until_text("who", "Anna")
    session.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844), (320, 640)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_window_of_people_is_legible_and_fits(
    chromium: "Browser", house: House, width: int, height: int, scheme: str
) -> None:
    options: dict[str, Any] = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
    with desk(chromium, house.server.url, **options) as ann:
        ann.page.add_init_script(axe.source())
        sit_down(ann, house.links["Ann"])
        open_people(ann)
        ann.get("new-person").fill("Maximiliane von und zu Hohenlohe-Langenburg")
        ann.get("add-person").click()
        ann.get("issued").wait_for()
        open_person(ann, "Bob")
        for look in (NAMELESS, PALE, STICKS_OUT, COVERS):
            assert not ann.page.evaluate(look)
        assert axe.findings(ann.page) == []
        assert re.search(r"token=[\w-]{40,}", ann.get("issued-link").input_value())
