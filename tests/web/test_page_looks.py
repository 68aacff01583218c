"""Every view and window, light and dark, wide, narrow, very narrow and on its side: axe finds nothing, all is readable,
named, calm and large enough to press, and all of it is reached by keys alone.

One walk shows every state in all sizes and colours, since walking takes longer than looking.
"""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sessions.label_data import images as write_images
from tests.sessions.small_projects import SMALL, copied, label_next
from tests.sessions.small_projects import opened as reopened
from tests.waiting import wait_until
from tests.web import axe, browser
from tests.web.browser import Desk, another_tab, desk
from tests.web.looks import (
    COVERS,
    CRUSHED,
    FOCUS,
    MOVING,
    NAMELESS,
    PALE,
    STICKS_OUT,
    TOO_SMALL,
    TOO_WIDE,
)
from tests.web.serving import Served, opened, served
from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session
from understudy.web.access import Access, Tries
from understudy.web.session_holder import SessionHolder
from understudy.web.tokens import Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
VIEWS = ("label", "browse", "grid", "review", "progress", "export")
BROWSING = ("note", "selection", "open item", "map", "lasso")
SIZES = {"wide": (1280, 800), "narrow": (390, 844), "very narrow": (320, 568), "on its side": (844, 390)}
EXTREMES = ("wide", "very narrow")
QUESTIONS = (NAMELESS, STICKS_OUT, COVERS, CRUSHED, TOO_WIDE, MOVING)  # whatever the colours
Look = Callable[[str], None]

CLASSES = [f"class {number}" for number in range(29)] + ["an uncommonly long name for a class of letters"]
TEXTS = ["The train is late again.", "A long letter. " * 300, "Lovely weather", "Unbroken" * 60] * 16


class Looker:
    """Looks at a page in all sizes and colours, and remembers what is wrong."""

    def __init__(self, person: Desk) -> None:
        self.person = person
        self.found: dict[str, list[str]] = {}
        self.seen: set[str] = set()

    def __call__(self, where: str) -> None:
        self.seen.add(where)
        page = self.person.page
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme="light", reduced_motion="reduce")
            questions = QUESTIONS if size == "wide" else (*QUESTIONS, TOO_SMALL)
            faults = [fault for question in questions for fault in page.evaluate(question)]
            # Contrast is asked about everywhere, and axe's own slow way of asking is heard in the extreme sizes.
            self._note(f"{where}, light, {size}", faults, axe.ALL if size in EXTREMES else axe.OF_PLACES)
            page.emulate_media(color_scheme="dark", reduced_motion="reduce")
            self._note(f"{where}, dark, {size}", [], axe.OF_COLOURS if size in EXTREMES else ())
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 800})

    def _note(self, where: str, faults: list[str], rules: tuple[str, ...] | None) -> None:
        page = self.person.page
        by_axe = axe.findings(page, rules) if rules != () else []
        if faults := [*faults, *page.evaluate(PALE), *by_axe]:
            self.found[where] = faults


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Digits with a model of labels given at random: there is something to see in every view."""
    folder = copied(tmp_path_factory.mktemp("looks"), "digits", taught=16)
    with reopened(folder) as session, served(session) as running:
        yield running


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Long texts in thirty classes, which two people have labelled, not always alike."""
    folder = tmp_path_factory.mktemp("texts")
    with (folder / "texts.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([f"{number} {text}"] for number, text in enumerate(TEXTS))])
    with opened(
        folder, folder / "texts.csv", classes=CLASSES, encoder="words", learner="quick",
        agreement_share=0.9, audit_share=0.3, retrain_growth=100.0,
    ) as session:  # fmt: skip
        for turn in range(24):
            label_next(session, "Bea", f"b{turn}", turn % 3 if turn < 23 else 29)
            label_next(session, "Cy", f"c{turn}", turn % 2)
        wait_until(lambda: session.record.trainings and not session.learning.is_busy)
        with served(session) as running:
            yield running


def look_at(chromium: "Browser", url: str, walk: Callable[[Desk, Look], None], expected: set[str]) -> None:
    """Walk through states of the page and look at each: these are seen, and nothing is wrong with any."""
    with desk(chromium, url) as person:
        person.page.add_init_script(axe.source())
        looker = Looker(person)
        walk(person, looker)
        assert looker.found == {}
        assert looker.seen == expected


def go_to_item(person: Desk, look: Look) -> None:
    """The first item with its reasons open and a suggestion."""
    person.sit_down("Ann")
    person.page.locator(".why-words").wait_for()
    person.press("s")
    person.press("w")
    person.page.locator(".why-more").wait_for()
    look("label")


def go_to_others(person: Desk, look: Look, views: tuple[str, ...]) -> None:
    signs = {
        "browse": "[data-testid=found]",
        "grid": "[data-testid=class-0]",
        "review": "[data-testid=review-card], [data-testid=review-empty]",
        "progress": "[data-testid=hint]",
        "export": "[data-testid=export-csv]",
    }
    for view in views:
        person.go(view)
        person.page.locator(signs[view]).first.wait_for()
        if view == "grid":
            person.get("class-0").click()
            person.page.locator("[data-testid=grid-tile], [data-testid=grid-empty]").first.wait_for()
        if view == "browse":
            look_through_browse(person, look)
            look_through_map(person, look)
        look(view)


def go_to_disputes(person: Desk, look: Look) -> None:
    """The most disputed item, and one that was settled, with a note in writing."""
    person.go("review")
    person.get("tab-disputes").click()
    person.get("dispute-card").wait_for()
    look("disputes")
    person.press("Enter")
    person.get("show-settled").check()
    person.page.locator(".strip-item.decided").click()
    person.page.locator("[data-testid=dispute-state][data-state=settled]").wait_for()
    person.press("n")
    person.get("dispute-note").fill("The second sentence is a question. " * 8)
    person.get("toast").wait_for(state="detached")
    look("settled")
    person.press("Enter")


def look_through_map(person: Desk, look: Look) -> None:
    """The map in colours and in numbers, and with a lasso; then the list again."""
    person.get("tab-map").click()
    person.page.locator("[data-testid=map][data-layout=neighbours]").wait_for()
    person.get("map-numbers").locator("summary").click()
    look("map")
    person.get("map-lasso").click()
    box = person.get("map-canvas").bounding_box()
    assert box is not None
    for turn, (x, y) in enumerate([(0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9)]):
        person.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        if turn == 0:
            person.page.mouse.down()
    person.page.mouse.up()
    person.get("map-list").wait_for()
    look("lasso")
    person.get("tab-browse").click()
    person.get("found").first.wait_for()


def look_through_browse(person: Desk, look: Look) -> None:
    """A selection with the window for its note, and an item that is open; the list is left as it was."""
    for pick in person.get("pick").all()[:2]:
        pick.click()
    person.get("flag-picked").click()
    person.get("flag-note").fill("Is this one cut off?")
    look("note")
    person.press("Enter")
    person.get("note-dialog").wait_for(state="detached")
    person.get("toast").wait_for(state="detached")
    look("selection")
    person.get("pick-none").click()
    person.page.locator(".hit-open").first.click()
    person.get("panel-item").first.wait_for()
    person.until_text("flag-shown", "cut off")
    look("open item")
    person.get("panel-undo").click()
    person.get("flag-shown").wait_for(state="detached")
    person.get("close-panel").click()
    person.get("toast").wait_for(state="detached")


def open_all_windows(person: Desk, look: Look) -> None:
    person.go("label")
    person.open_windows(look)
    person.press("Shift+C")
    person.get("open-0").click()
    person.get("remove").click()
    look("classes")
    person.press("Escape")
    person.get("add-class").click()
    person.get("find-class").fill("CLASS 0")
    look("add-class")
    person.press("Escape")
    person.get("settings").click()
    person.page.locator("summary", has_text="Change keys").click()
    person.page.locator("summary", has_text="Project").click()
    person.get("save-settings").wait_for()
    look("settings")
    person.press("Escape")


def go_into_trouble(person: Desk, look: Look) -> None:
    """Another tab is ahead; the server is away, then nothing is left to show, then it refuses what was kept."""
    person.go("label")
    person.seen()
    other = another_tab(person.page.context, person.url)
    other.page.goto(person.url)
    other.answer("1")
    person.get("stale").wait_for()
    look("stale")
    other.page.close()
    person.get("go-on-here").click()
    person.get("stale").wait_for(state="detached")
    person.page.route("**/api/**", lambda route: route.abort())
    while not person.get("stranded").is_visible():
        person.press("1")
        person.page.locator(".label:not(.answered), [data-testid=stranded]").first.wait_for()
    look("stranded")
    person.page.unroute("**/api/**")
    person.page.route("**/api/labels", lambda route: route.fulfill(status=409, json={"detail": "no, for a test"}))
    person.get("refused").wait_for()
    person.page.get_by_text("See which, and why").click()
    person.get("refused-dialog").wait_for()
    look("refused")


def test_nothing_is_wrong_on_any_view_of_images_and_in_any_trouble(chromium: "Browser", images: Served) -> None:
    def walk(person: Desk, look: Look) -> None:
        person.page.goto(person.url)
        person.get("name-input").wait_for()
        look("welcome")
        go_to_item(person, look)
        go_to_others(person, look, ("browse", "grid", "review"))
        go_into_trouble(person, look)

    views = {"label", "browse", *BROWSING, "grid", "review"}
    look_at(chromium, images.url, walk, {"welcome", *views, "stale", "stranded", "refused"})


def test_nothing_is_wrong_on_any_view_of_texts_and_in_any_window(chromium: "Browser", texts: Served) -> None:
    def walk(person: Desk, look: Look) -> None:
        go_to_item(person, look)
        go_to_others(person, look, VIEWS[1:])
        go_to_disputes(person, look)
        open_all_windows(person, look)
        person.require_calm()

    windows = {"help-dialog", "find-class", "classes", "add-class", "settings"}
    look_at(chromium, texts.url, walk, {*VIEWS, *BROWSING, *windows, "disputes", "settled"})


def test_nothing_is_wrong_before_one_labels(chromium: "Browser", tmp_path: Path) -> None:
    """While features are made, where a password or a link is wanted, while folders are asked about, without classes."""
    tokens = Tokens(tmp_path)
    tokens.set_password("open sesame")
    write_images(tmp_path / "photos", [f"2024-01-0{day}/{number}.png" for day in range(1, 5) for number in range(3)])
    dated = create_or_open(
        tmp_path / "photos", project=tmp_path / "project", encoder=SMALL, device="cpu", ask_folders=lambda _: None
    )
    session = open_session(dated)
    try:
        for sign, holder, access in (
            ("preparing", SessionHolder(name="birds"), Access()),
            ("password-input", SessionHolder(), Access(tokens=tokens, password=True, tries=Tries(lambda: 0.0))),
            ("trouble", SessionHolder(), Access(tokens=tokens, annotators=("ann",))),
            ("folder-question", SessionHolder(session), Access()),
        ):

            def walk(person: Desk, look: Look, sign: str = sign) -> None:
                person.page.goto(person.url)
                if sign in ("preparing", "folder-question"):
                    person.get("name-input").fill("Ann")
                    person.press("Enter")
                person.get(sign).wait_for()
                look(sign)
                if sign == "folder-question":
                    person.get("folders-only").click()
                    person.get("no-classes").wait_for()
                    person.get("features-note").wait_for()
                    look("no-classes")

            with served(holder, access) as running:
                expected = {sign, "no-classes"} if sign == "folder-question" else {sign}
                look_at(chromium, running.url, walk, expected)
    finally:
        session.close()


def test_all_views_are_reached_and_left_by_keys_alone(chromium: "Browser", images: Served) -> None:
    with desk(chromium, images.url, "Ann") as person:
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


def test_a_class_is_chosen_and_a_decision_undone_by_touch(chromium: "Browser", images: Served) -> None:
    with desk(chromium, images.url, "Tom", viewport={"width": 390, "height": 844}, has_touch=True) as person:
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


def test_planted_faults_are_found(chromium: "Browser", texts: Served) -> None:
    """The checks above can fail: each of these is found."""
    with desk(chromium, texts.url) as person:
        person.page.add_init_script(axe.source())
        person.sit_down("Ann")
        person.page.evaluate("""() => {
            const strip = Object.assign(document.createElement("div"), { innerText: "words ".repeat(80) });
            strip.style.cssText = "height: 20px; width: 60px; overflow: auto";
            const heading = Object.assign(document.createElement("h4"), { innerText: "out of order" });
            const wide = document.createElement("div");
            wide.style.cssText = "width: 3000px; height: 1px";
            const pale = Object.assign(document.createElement("p"), { innerText: "pale words" });
            pale.style.cssText = "color: rgb(0 0 0 / 40%); width: 2000px; transition: color 1s !important";
            const small = Object.assign(document.createElement("button"), { className: "planted" });
            small.style.cssText = "min-height: 20px; width: 20px; height: 20px; transition: color 1s !important";
            document.getElementById("main").append(strip, heading, wide, pale, small, new Image());
            const caption = document.querySelector(".item-id");
            caption.style.cssText = "position: absolute; bottom: 30px";
            document.querySelector(".classes").style.cssText = "height: 20px; min-height: 0; flex: none";
        }""")
        looker = Looker(person)
        looker("spoilt")
        for where, faults in {
            "light, wide": (
                "scrollable-region-focusable", "heading-order", "covers its caption", "MAIN is 3000 wide", "20 high",
                "pale words", "sticks out", "color-contrast", '<button class="planted"', "<img>", "moves:",
            ),
            "light, narrow": ("scrollable-region-focusable", "heading-order", "x 20: <button"),
            "dark, very narrow": ("pale words", "color-contrast"),
        }.items():  # fmt: skip
            for fault in faults:
                assert any(fault in line for line in looker.found[f"spoilt, {where}"]), (where, fault)
