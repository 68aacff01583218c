"""Every view, light and dark, wide and narrow: readable, named, calm, and all of it reached by keys alone."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.sessions.small_projects import copied, opened
from tests.web import browser
from tests.web.browser import Desk, desk
from tests.web.looks import FOCUS, MOVING, NAMELESS, PALE, STICKS_OUT
from tests.web.serving import Served, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
VIEWS = ("label", "grid", "review", "progress", "export")
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Digits with a model of labels given at random: there is something to see in every view."""
    folder = copied(tmp_path_factory.mktemp("looks"), "digits", taught=16)
    with opened(folder) as session, served(session) as running:
        yield running


def walk(person: Desk, look: Callable[[str], None]) -> None:
    """Through all that can be on the screen."""
    person.page.goto(person.url)
    person.get("name-input").wait_for()
    look("welcome")
    person.sit_down("Ann")
    person.page.locator(".why-words").wait_for()
    person.press("s")
    look("label")
    person.open_windows(look)
    person.get("settings").click()
    person.page.locator("summary", has_text="Change keys").click()
    look("settings")
    person.press("Escape")
    for view, sign in (
        ("grid", "[data-testid=class-0]"),
        ("review", "[data-testid=review-card], [data-testid=review-empty]"),
        ("progress", "[data-testid=hint]"),
        ("export", "[data-testid=export-csv]"),
    ):
        person.go(view)
        person.page.locator(sign).first.wait_for()
        if view == "grid":
            person.get("class-0").click()
            person.page.locator("[data-testid=grid-tile], [data-testid=grid-empty]").first.wait_for()
        look(view)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_readable_and_named_and_fits(chromium: "Browser", server: Served, scheme: str, size: str) -> None:
    width, height = SIZES[size]
    options: dict[str, Any] = {
        "color_scheme": scheme,
        "viewport": {"width": width, "height": height},
        "has_touch": size == "narrow",
    }
    found: dict[str, list[str]] = {}
    with desk(chromium, server.url, **options) as person:

        def look(where: str) -> None:
            found[where] = [
                fault for question in (NAMELESS, PALE, STICKS_OUT) for fault in person.page.evaluate(question)
            ]

        walk(person, look)
        person.require_calm()
    assert {where: faults for where, faults in found.items() if faults} == {}
    assert len(found) == 9


def test_nothing_moves_for_those_who_asked_for_it(chromium: "Browser", server: Served) -> None:
    moving: set[str] = set()
    with desk(chromium, server.url, reduced_motion="reduce") as person:
        walk(person, lambda _: moving.update(person.page.evaluate(MOVING)))
    assert moving == set()


def test_all_views_are_reached_and_left_by_keys_alone(chromium: "Browser", server: Served) -> None:
    with desk(chromium, server.url, "Ann") as person:
        for view in VIEWS[1:] + VIEWS[:1]:
            tab_to(person, f"nav-{view}")
            person.press("Enter")
            person.page.locator(f"main[data-view={view}]").wait_for()
        seen = person.seen()
        tab_to(person, "help")
        person.press("Enter")
        person.get("help-dialog").wait_for()
        person.press("Escape")
        person.get("help-dialog").wait_for(state="detached")
        assert person.page.evaluate(FOCUS) == {"name": "help", "shows": True}  # where it was before
        tab_to(person, "class-1")
        person.press("Enter")
        seen = person.seen(other_than=seen.item)
        assert person.answer("2").item != seen.item
        person.require_calm()


def tab_to(person: Desk, name: str) -> None:
    """Press Tab until it has the focus; whatever has it on the way must show it."""
    for _ in range(60):
        person.press("Tab")
        focus = person.page.evaluate(FOCUS)
        if focus["name"] == name:
            assert focus["shows"]
            return
    pytest.fail(f"{name} is not reached by Tab")


def test_a_class_is_chosen_and_a_decision_undone_by_touch(chromium: "Browser", server: Served) -> None:
    with desk(chromium, server.url, "Tom", viewport={"width": 390, "height": 844}, has_touch=True) as person:
        first = person.seen()
        person.get("class-1").tap()
        second = person.seen(other_than=first.item)
        person.get("skip").tap()
        person.seen(other_than=second.item)
        person.get("undo").tap()
        person.until_seen(second.item)
        person.get("undo").tap()
        person.until_seen(first.item)
        person.require_calm()


def test_planted_faults_are_found(chromium: "Browser", server: Served) -> None:
    """The questions above can be answered with no."""
    with desk(chromium, server.url, "Ann") as person:
        person.page.evaluate("""() => {
            const button = document.createElement("button");
            const words = Object.assign(document.createElement("p"), { innerText: "pale words" });
            words.style.cssText = "color: rgb(0 0 0 / 40%); width: 2000px; transition: color 1s";
            document.querySelector("main").append(button, new Image(), words);
        }""")
        assert len(person.page.evaluate(NAMELESS)) == 2
        assert [words.partition("“")[2] for words in person.page.evaluate(PALE)] == ["pale words”"]
        assert any("pale words" in found for found in person.page.evaluate(STICKS_OUT))
        assert any("pale words" in found for found in person.page.evaluate(MOVING))
