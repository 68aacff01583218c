"""Axe on every view and window, light and dark, wide, narrow, very narrow and on its side: nothing is found.

One walk shows every state in all sizes and colours, since walking takes longer than looking.
"""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sessions.small_projects import copied, label_next
from tests.sessions.small_projects import opened as reopened
from tests.waiting import wait_until
from tests.web import axe, browser
from tests.web.browser import Desk, another_tab, desk
from tests.web.looks import COVERS, CRUSHED, STICKS_OUT, TOO_WIDE
from tests.web.serving import Served, opened, served
from understudy.web.access import Access, Tries
from understudy.web.session_holder import SessionHolder
from understudy.web.tokens import Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
SIZES = {"wide": (1280, 800), "narrow": (390, 844), "very narrow": (320, 568), "on its side": (844, 390)}
SCHEMES = ("light", "dark")
Look = Callable[[str], None]

CLASSES = [f"class {number}" for number in range(29)] + ["an uncommonly long name for a class of letters"]
TEXTS = ["The train is late again.", "A long letter. " * 300, "Lovely weather", "Unbroken" * 60] * 16


class Looker:
    """Looks at a page in all sizes and colours, and remembers what is wrong."""

    def __init__(self, person: Desk, shots: Path | None = None) -> None:
        self.person, self.shots = person, shots
        self.found: dict[str, list[str]] = {}
        self.seen: set[str] = set()

    def __call__(self, where: str) -> None:
        self.seen.add(where)
        page = self.person.page
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
                if faults := self._faults(scheme):
                    self.found[f"{where}, {scheme}, {size}"] = faults
                if self.shots:
                    page.screenshot(path=self.shots / f"{where}-{scheme}-{width}.png")
        page.set_viewport_size({"width": 1280, "height": 800})

    def _faults(self, scheme: str) -> list[str]:
        """What is wrong now. Names and places do not depend on the colours and are looked at once."""
        page = self.person.page
        if scheme == "dark":
            return axe.findings(page, axe.OF_COLOURS)
        questions = (STICKS_OUT, COVERS, CRUSHED, TOO_WIDE)
        return axe.findings(page) + [fault for question in questions for fault in page.evaluate(question)]

    def require_nothing_found(self) -> None:
        assert self.found == {}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Digits with a model of labels given at random: there is something to see in every view."""
    folder = copied(tmp_path_factory.mktemp("axe"), "digits", taught=16)
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


def looking(chromium: "Browser", url: str, walk: Callable[[Desk, Look], None], shots: Path | None = None) -> Looker:
    """Walk through states of the page, and look at each."""
    with desk(chromium, url) as person:
        person.page.add_init_script(axe.source())
        looker = Looker(person, shots)
        walk(person, looker)
        return looker


def walk_to_label(person: Desk, look: Look) -> None:
    """The first word, and the first item with its reasons open and a suggestion."""
    person.page.goto(person.url)
    person.get("name-input").wait_for()
    look("welcome")
    person.sit_down("Ann")
    person.page.locator(".why-words").wait_for()
    person.press("s")
    person.press("w")
    person.page.locator(".why-more").wait_for()
    look("label")


def walk_to(view: str, sign: str) -> Callable[[Desk, Look], None]:
    """To one of the other views, until something is seen there."""

    def walk(person: Desk, look: Look) -> None:
        person.sit_down("Ann")
        person.go(view)
        person.page.locator(sign).first.wait_for()
        if view == "grid":
            person.get("class-0").click()
            person.page.locator("[data-testid=grid-tile], [data-testid=grid-empty]").first.wait_for()
        look(view)

    return walk


WALKS = {
    "label": walk_to_label,
    "grid": walk_to("grid", "[data-testid=class-0]"),
    "review": walk_to("review", "[data-testid=review-card], [data-testid=review-empty]"),
    "progress": walk_to("progress", "[data-testid=hint]"),
    "export": walk_to("export", "[data-testid=export-csv]"),
}


def walk_through_windows(person: Desk, look: Look) -> None:
    person.sit_down("Ann")
    person.open_windows(look)
    person.get("add-class").click()
    person.get("find-class").fill("CLASS 0" if person.page.locator("text=class 0").count() else "new")
    look("add-class")
    person.press("Escape")
    person.get("settings").click()
    person.page.locator("summary", has_text="Change keys").click()
    person.page.locator("summary", has_text="Project").click()
    person.get("save-settings").wait_for()
    look("settings")
    person.press("Escape")


def walk_through_troubles(person: Desk, look: Look) -> None:
    """Another tab is ahead; the server is away, then nothing is left to show, then it refuses what was kept."""
    person.sit_down("Ann")
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


@pytest.mark.parametrize("view", WALKS)
@pytest.mark.parametrize("project", ["images", "texts"])
def test_axe_finds_nothing_on_any_view(
    chromium: "Browser", project: str, view: str, request: pytest.FixtureRequest
) -> None:
    looker = looking(chromium, request.getfixturevalue(project).url, WALKS[view])
    looker.require_nothing_found()
    assert view in looker.seen


def test_axe_finds_nothing_in_any_window(chromium: "Browser", texts: Served) -> None:
    looker = looking(chromium, texts.url, walk_through_windows)
    looker.require_nothing_found()
    assert looker.seen == {"help-dialog", "find-class", "add-class", "settings"}


def test_axe_finds_nothing_while_the_server_is_away_and_when_it_refuses(chromium: "Browser", images: Served) -> None:
    looker = looking(chromium, images.url, walk_through_troubles)
    looker.require_nothing_found()
    assert looker.seen == {"stale", "stranded", "refused"}


def test_axe_finds_nothing_before_one_is_let_in(chromium: "Browser", tmp_path: Path) -> None:
    """While features are made, where a password is wanted, and without a personal link."""
    tokens = Tokens(tmp_path)
    tokens.set_password("open sesame")
    waiting = SessionHolder(name="birds")
    for where, access in {
        "preparing": Access(),
        "password": Access(tokens=tokens, password=True, tries=Tries(lambda: 0.0)),
        "link": Access(tokens=tokens, annotators=("ann",)),
    }.items():

        def walk(person: Desk, look: Look, where: str = where) -> None:
            person.page.goto(person.url)
            if where == "preparing":
                person.get("name-input").fill("Ann")
                person.press("Enter")
            sign = {"preparing": "preparing", "password": "password-input", "link": "trouble"}[where]
            person.get(sign).wait_for()
            look(where)

        with served(waiting, access) as running:
            looking(chromium, running.url, walk).require_nothing_found()


def test_planted_faults_are_found(chromium: "Browser", texts: Served) -> None:
    """The checks above can fail: each of these is found."""

    def walk(person: Desk, look: Look) -> None:
        person.sit_down("Ann")
        person.page.evaluate("""() => {
            const strip = Object.assign(document.createElement("div"), { innerText: "words ".repeat(80) });
            strip.style.cssText = "height: 20px; width: 60px; overflow: auto";
            const heading = Object.assign(document.createElement("h4"), { innerText: "out of order" });
            const wide = document.createElement("div");
            wide.style.cssText = "width: 3000px; height: 1px";
            document.getElementById("main").append(strip, heading, wide);
            const caption = document.querySelector(".item-id");
            caption.style.cssText = "position: absolute; bottom: 30px";
            document.querySelector(".classes").style.cssText = "height: 20px; min-height: 0; flex: none";
        }""")
        look("spoilt")

    found = looking(chromium, texts.url, walk).found["spoilt, light, wide"]
    for fault in ("scrollable-region-focusable", "heading-order", "covers its caption", "MAIN is 3000 wide", "20 high"):
        assert any(fault in line for line in found), fault
