"""The page in a real browser: Chromium, driven by playwright, and a person who looks and presses keys."""

import importlib.util
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.leaving_out import leave_out
from understudy.data.sources import load
from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog
from understudy.store_urls import sqlite_url

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

WAIT = 30_000  # ms, for what comes in a fraction of it: a busy machine is no fault of the page

# What the page accepts goes through the browser's storage: each decision is noted there, with its key.
NOTE_ALL = """
window.accepted = [];
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective + event.blockedURI));
const setItem = Storage.prototype.setItem;
Storage.prototype.setItem = function (name, value) {
  if (name.includes(":out:")) {
    const entry = JSON.parse(value);
    if (!accepted.some((each) => each.key === entry.key)) accepted.push({ ...entry.body, path: entry.path });
  }
  return setItem.call(this, name, value);
};
performance.setResourceTimingBufferSize(20000);
"""
SEEN = """() => {
  const frame = document.querySelector("[data-testid=item]");
  if (!frame || document.querySelector(".label.answered")) return null;
  const id = document.querySelector(".stage .item-id").title;
  return { item: Number(frame.dataset.shownItem), id, text: frame.innerText };
}"""
STOCKED = """(n) => {
  const shown = new Set(window.__understudy.turns.map((turn) => String(turn.item)));
  const fetched = performance.getEntriesByType("resource").map((entry) => /items.(\\d+).content/.exec(entry.name)?.[1]);
  return new Set(fetched.filter((item) => item && !shown.has(item))).size >= n;
}"""
OTHER_THAN = f"(item) => {{ const seen = ({SEEN})(); return seen && seen.item !== item ? seen : null; }}"


def why_not() -> str | None:
    """Why no browser can be driven here, if so."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is NOT INSTALLED: the tests of the page in a browser were NOT RUN"
    if program() is None:
        return "Chromium is NOT INSTALLED: the tests of the page in a browser were NOT RUN"
    return None


def program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


# For a module, not for all: while playwright runs, nothing else in this thread can run an event loop.
@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    if reason := why_not():
        leave_out(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        yield browser
        browser.close()


class Seen(NamedTuple):
    """The item on the screen."""

    item: int
    id: str
    text: str


class Desk:
    """A person at the page: what they see, and what they press."""

    def __init__(self, page: "Page", url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        page.set_default_timeout(WAIT)
        page.on("console", lambda said: self.errors.append(said.text) if _is_fault(said.type, said.text) else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def sit_down(self, name: str) -> "Desk":
        """Open the page, say who it is, and wait for the first item."""
        self.page.goto(self.url)
        self.get("name-input").fill(name)
        self.press("Enter")
        self.seen()
        return self

    def get(self, testid: str) -> "Locator":
        return self.page.get_by_test_id(testid)

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def open_windows(self, look: Callable[[str], None]) -> None:
        """Open the windows that keys open, one after another, and look at each."""
        for key, window in (("?", "help-dialog"), ("/", "find-class")):
            self.press(key)
            self.get(window).wait_for()
            look(window)
            self.press("Escape")
            self.get(window).wait_for(state="detached")

    def seen(self, other_than: int | None = None) -> Seen:
        """The item that waits for an answer, as soon as one does."""
        found = self.page.wait_for_function(OTHER_THAN, arg=other_than, timeout=WAIT)
        return Seen(**found.json_value())

    def until_seen(self, item: int) -> Seen:
        """That very item, waiting for an answer."""
        asked = f"(item) => {{ const seen = ({SEEN})(); return seen?.item === item ? seen : null; }}"
        return Seen(**self.page.wait_for_function(asked, arg=item, timeout=WAIT).json_value())

    def answer(self, key: str) -> Seen:
        """Press, and wait for the next item."""
        now = self.seen()
        self.press(key)
        return self.seen(other_than=now.item)

    def until_stocked(self, n: int) -> None:
        """Until so many items that were not shown yet have been fetched ahead."""
        self.page.wait_for_function(STOCKED, arg=n, timeout=WAIT)

    def key_of(self, name: str) -> str:
        """The key that the button of a class shows."""
        button = self.page.locator(".classes button", has=self.page.locator(".class-name", has_text=exactly(name)))
        return re.sub("⇧(.)", r"Shift+Digit\1", button.locator("kbd").inner_text())

    def keys(self) -> dict[str, str]:
        """The keys of all classes, as their buttons show them."""
        found = self.page.locator(".classes button").evaluate_all(
            "all => all.map(one => [one.querySelector('.class-name').innerText, one.querySelector('kbd').innerText])"
        )
        return {name: re.sub("⇧(.)", r"Shift+Digit\1", key) for name, key in found}

    def labelled(self, at_least: int) -> int:
        """The count on the page, once it is as large."""
        count = "number => { const n = Number(document.querySelector('[data-testid=labelled-count]').innerText);" \
            " return n >= number ? n + 1 : 0 }"  # fmt: skip
        return int(self.page.wait_for_function(count, arg=at_least, timeout=WAIT).json_value()) - 1

    def until_text(self, testid: str, pattern: str) -> str:
        """The words of an element, once they are such."""
        place = self.get(testid).filter(has_text=re.compile(pattern)).first
        place.wait_for()
        return place.inner_text()

    def go(self, view: str) -> None:
        """To another view, by the navigation that is seen at this width."""
        self.page.locator(f"[data-testid=nav-{view}]:visible, [data-testid=thumb-{view}]:visible").first.click()
        self.page.locator(f"main[data-view={view}]").wait_for()

    def accepted(self) -> list[dict[str, Any]]:
        """All decisions that the page took, sent or not."""
        found: list[dict[str, Any]] = self.page.evaluate("accepted")
        return found

    def until_sent(self) -> None:
        """Until nothing waits in the browser any more."""
        nothing = "() => Object.keys(localStorage).every((name) => !name.includes(':out:'))"
        self.page.wait_for_function(nothing, timeout=WAIT)

    def require_calm(self) -> None:
        """Nothing went wrong in the page, and nothing left the machine."""
        assert self.errors == []
        assert self.page.evaluate("violations") == []
        assert self.hosts <= {urlsplit(self.url).netloc, ""}


@contextmanager
def desk(chromium: "Browser", url: str, name: str | None = None, **options: Any) -> Iterator[Desk]:
    """A person in a browser of their own, at the page, with the first item before them."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    try:
        made = another_tab(context, url)
        yield made if name is None else made.sit_down(name)
    finally:
        context.close()


def another_tab(context: "BrowserContext", url: str) -> Desk:
    page = context.new_page()
    page.add_init_script(NOTE_ALL)
    return Desk(page, url)


def _is_fault(kind: str, words: str) -> bool:
    """Whether the page is to blame for what the console says; not for the pace of a machine without a graphics card."""
    return kind in ("error", "warning") and "GL Driver Message (OpenGL, Performance" not in words


def exactly(words: str) -> re.Pattern[str]:
    return re.compile(f"^{re.escape(words)}$")


@cache
def truth() -> dict[str, int]:
    """The digits' own classes, by the name of the item."""
    pool = load("digits").pool
    assert pool.labels is not None
    return {name: int(label) for name, label in zip(pool.ids, pool.labels, strict=True)}


def events(project: Path) -> list[Event]:
    """The log of a project, also while it is served."""
    with closing(EventLog.open(sqlite_url(project / "log.sqlite3"), read_only=True)) as log:
        return list(log.read())
