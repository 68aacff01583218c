"""Looking closely in the browser: zoom and pan, other columns of the table, near-copies answered together."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from tests.sessions.label_data import image
from tests.waiting import wait_until
from tests.web import axe, browser
from tests.web.browser import Desk, desk, events
from tests.web.looks import MOVING, PALE, STICKS_OUT
from tests.web.serving import Served, opened, served
from understudy.sessions.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
Photos = tuple[Served, Session]
LONG = "long " * 100
PHONE = {"width": 390, "height": 844}
SIGHT = """() => {
  const frame = document.querySelector(".picture-frame");
  const img = frame.querySelector("img");
  const box = img.getBoundingClientRect();
  const { a: scale, e: x, f: y } = new DOMMatrix(getComputedStyle(img).transform);
  const [middle_x, middle_y] = [box.left + box.width / 2 - x, box.top + box.height / 2 - y];
  return { zoom: Number(frame.dataset.zoom), scale, x, y, middle_x, middle_y };
}"""
STILL = "() => document.querySelector('.picture-frame img').getAnimations().length === 0"
# Where the rest of the page is: neither zooming nor what is found meanwhile may move it.
PLACES = """() => [...document.querySelectorAll("button:not(.zoom *, .copies-button), .stage, .caption, .item-id")]
  .map((e) => [e.className, ...Object.values(e.getBoundingClientRect().toJSON())].join())"""


@pytest.fixture
def photos(tmp_path: Path) -> Iterator[Photos]:
    """Large images, one tiny, and two copies of each of the large ones."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(4):
        image(number, 8).resize((1600, 1200), Image.Resampling.BICUBIC).save(folder / f"{number}.png")
        for copy in ("a", "b"):
            copyfile(folder / f"{number}.png", folder / f"{number}{copy}.png")
    image(9, 8).save(folder / "tiny.png")
    with (
        opened(
            tmp_path, folder, classes=["cat", "dog"], encoder="pixels?size=4", learner="quick", audit_share=0.0
        ) as session,
        served(session) as server,
    ):
        yield server, session


@pytest.fixture
def reviews(tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    rows = [
        [
            f"text {word} {word}{word}",
            f"Title {word}",
            "https://example.org/a?b=c",
            "javascript:alert(1)",
            "long " * 100,
        ]
        for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
    ]
    with (tmp_path / "reviews.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text", "title", "page", "trick", "about"], *rows])
    with (
        opened(
            tmp_path,
            tmp_path / "reviews.csv",
            classes=["good", "bad"],
            encoder="words",
            learner="quick",
            show=["title", "page", "trick", "about"],
        ) as session,
        served(session) as server,
    ):
        yield server, session.project.folder


@contextmanager
def looked_at(chromium: "Browser", url: str, **options: Any) -> Iterator[Desk]:
    """A person at the page, which axe can look at."""
    with desk(chromium, url, **options) as ann:
        ann.page.add_init_script(axe.source())
        yield ann.sit_down("Ann")


def sight(ann: Desk) -> dict[str, float]:
    ann.page.wait_for_function(STILL)
    found: dict[str, float] = ann.page.evaluate(SIGHT)
    assert found["zoom"] == pytest.approx(found["scale"], abs=0.01)
    return found


def require_whole(ann: Desk) -> None:
    ann.page.wait_for_function("() => document.querySelector('.picture-frame').dataset.zoom === '1'")
    assert ann.get("zoom-level").inner_text() == "Fit"


def test_the_wheel_zooms_around_the_pointer_and_a_drag_pans(chromium: "Browser", photos: Photos) -> None:
    with desk(chromium, photos[0].url, "Ann") as ann:
        ann.page.wait_for_function("() => document.querySelector('.picture-frame img')?.naturalWidth === 1600")
        before, places = sight(ann), ann.page.evaluate(PLACES)
        at = (before["middle_x"] + 100, before["middle_y"] - 60)
        ann.page.mouse.move(*at)
        for _ in range(3):
            ann.page.mouse.wheel(0, -240)
        ann.page.wait_for_function("() => Number(document.querySelector('.picture-frame').dataset.zoom) > 3")
        zoomed = sight(ann)
        found = (zoomed["x"] + 100 * zoomed["scale"], zoomed["y"] - 60 * zoomed["scale"])
        assert found == pytest.approx((100, -60), abs=1), "what is under the pointer stays there"
        assert ann.page.evaluate(PLACES) == places
        ann.page.mouse.down()
        ann.page.mouse.move(at[0] - 50, at[1] + 30, steps=5)
        ann.page.mouse.up()
        panned = sight(ann)
        assert (panned["x"], panned["y"]) == pytest.approx((zoomed["x"] - 50, zoomed["y"] + 30), abs=1)
        ann.page.mouse.move(at[0] - 80, at[1])
        assert sight(ann) == panned, "it follows no further once the button is up"
        ann.page.mouse.dblclick(*at)
        require_whole(ann)
        ann.page.mouse.dblclick(*at)
        assert ann.get("zoom-level").inner_text() == "100 %"
        ann.answer("1")
        require_whole(ann)
        ann.until_sent()
        ann.require_calm()


def test_keys_zoom_and_pan_in_the_label_view(chromium: "Browser", photos: Photos) -> None:
    with desk(chromium, photos[0].url, "Ann") as ann:
        item = ann.seen().item
        ann.press("z")
        assert sight(ann)["scale"] > 1
        ann.press("z")
        require_whole(ann)
        for _ in range(4):
            ann.press("+")
        larger = sight(ann)
        assert larger["scale"] == pytest.approx(1.4**4, rel=0.01)
        ann.press("Shift+ArrowRight")
        ann.press("Shift+ArrowDown")
        moved = sight(ann)
        assert moved["x"] < larger["x"]
        assert moved["y"] < larger["y"]
        ann.press("-")
        assert sight(ann)["scale"] == pytest.approx(1.4**3, rel=0.01)
        for _ in range(30):
            ann.press("Shift+ArrowLeft")
        edge = sight(ann)
        ann.press("Shift+ArrowLeft")
        assert sight(ann) == edge, "nothing beyond the edge"
        for _ in range(10):
            ann.press("-")
        require_whole(ann)
        assert ann.seen().item == item, "no key of these is an answer"
        ann.get("zoom-in").click()
        assert sight(ann)["scale"] == pytest.approx(1.4, rel=0.01)
        ann.press("1")
        ann.seen(other_than=item)
        require_whole(ann)
        ann.until_sent()
        ann.require_calm()


def touch(session: Any, kind: str, *points: tuple[float, float]) -> None:
    fingers = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
    session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})


def test_two_fingers_pinch_and_pan(chromium: "Browser", photos: Photos) -> None:
    with desk(chromium, photos[0].url, "Ann", viewport=PHONE, has_touch=True, is_mobile=True) as ann:
        ann.page.wait_for_function("() => document.querySelector('.picture-frame img')?.naturalWidth === 1600")
        start = sight(ann)
        x, y = start["middle_x"], start["middle_y"]
        fingers = ann.page.context.new_cdp_session(ann.page)
        touch(fingers, "touchStart", (x - 30, y), (x + 30, y))
        for step in range(1, 7):
            touch(fingers, "touchMove", (x - 30 - 10 * step, y), (x + 30 + 10 * step, y))
        touch(fingers, "touchEnd")
        pinched = sight(ann)
        assert pinched["scale"] == pytest.approx(3, rel=0.1), "as far apart as the fingers went"
        touch(fingers, "touchStart", (x, y))
        for step in range(1, 6):
            touch(fingers, "touchMove", (x + 8 * step, y))
        touch(fingers, "touchEnd")
        assert sight(ann)["x"] - pinched["x"] == pytest.approx(40, abs=12)
        assert ann.page.evaluate("() => visualViewport.scale") == 1, "the page itself stays as it is"
        assert ann.page.evaluate("() => document.documentElement.scrollWidth") == PHONE["width"]
        ann.require_calm()


def test_tiny_images_stay_sharp_and_nothing_glides_where_motion_is_unwanted(
    chromium: "Browser", photos: Photos
) -> None:
    with desk(chromium, photos[0].url, "Ann", reduced_motion="reduce") as ann:
        while ann.seen().id != "tiny.png":
            ann.answer("1")
        ann.press("+")
        ann.press("+")
        assert ann.page.evaluate(MOVING) == []
        rendering = "() => getComputedStyle(document.querySelector('.picture-frame img')).imageRendering"
        assert ann.page.evaluate(rendering) == "pixelated"
        assert sight(ann)["scale"] == pytest.approx(1.96, rel=0.01)
        ann.until_sent()
        ann.require_calm()


def test_copies_are_answered_when_asked_for_and_undone_at_once(chromium: "Browser", photos: Photos) -> None:
    session = photos[1]
    with looked_at(chromium, photos[0].url) as ann:
        while ann.seen().id == "tiny.png":
            ann.answer("1")
        first = ann.seen()
        labelled = len(session.record.effective)
        ann.get("copies").wait_for()
        assert ann.get("copies").inner_text().split("\n")[0].strip().startswith("2 near-copies")
        ann.press("c")
        ann.get("copies-panel").wait_for()
        assert not ann.get("copies-together").is_checked(), "shown is not yet asked for"
        assert ann.page.evaluate(PALE) == []
        ann.press("c")
        assert ann.get("copies-together").is_checked()
        assert "3 items" in ann.get("copies-panel").inner_text()
        assert axe.findings(ann.page) == []
        second = ann.answer("2")
        ann.until_sent()
        wait_until(lambda: len(session.record.effective) == labelled + 3)
        assert not ann.get("copies-panel").is_visible(), "the next item begins anew"
        ann.press("Backspace")
        ann.until_seen(first.item)
        ann.until_sent()
        assert len(session.record.effective) == labelled
        ann.get("copies").wait_for()
        ann.press("c")
        ann.get("copies-together").check()
        ann.get("copy").first.click()
        assert "2 items" in ann.get("copies-panel").inner_text()
        ann.press("1")
        ann.seen(other_than=first.item)
        ann.until_sent()
        wait_until(lambda: len(session.record.effective) == labelled + 2)
        assert second.item != first.item
        ann.require_calm()
    sources = [event.data["source"] for event in events(session.project.folder) if event.kind == "labelled"]
    assert sources[-2:] == ["person", "copies"]


def test_an_answer_goes_to_one_item_unless_copies_are_asked_for(chromium: "Browser", photos: Photos) -> None:
    session = photos[1]
    with desk(chromium, photos[0].url, "Ann") as ann:
        while ann.seen().id == "tiny.png":
            ann.answer("1")
        labelled = len(session.record.effective)
        ann.get("copies").wait_for()
        ann.press("c")
        ann.get("copies-panel").wait_for()
        ann.answer("1")
        ann.until_sent()
        assert len(session.record.effective) == labelled + 1
        ann.require_calm()


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 800}, PHONE])
def test_columns_are_text_beside_the_text(
    chromium: "Browser", reviews: tuple[Served, Path], viewport: dict[str, int]
) -> None:
    with looked_at(chromium, reviews[0].url, viewport=viewport) as ann:
        word = ann.seen().text.split()[1]
        shown = ann.get("columns")
        assert f"Title {word}" in shown.inner_text()
        links = shown.get_by_role("link")
        assert [links.nth(i).get_attribute("href") for i in range(links.count())] == ["https://example.org/a?b=c"]
        assert links.first.get_attribute("rel") == "noopener noreferrer"
        assert links.first.inner_text() == "https://example.org/a?b=c"
        assert "javascript:alert(1)" in shown.inner_text()
        assert len(shown.inner_text()) < 400
        shown.get_by_role("button", name="more").click()
        assert len(shown.inner_text()) > 500
        assert ann.page.evaluate(STICKS_OUT) == []
        assert ann.page.evaluate(PALE) == []
        assert axe.findings(ann.page) == []
        box = ann.get("class-1").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= viewport["height"]
        ann.require_calm()


def test_a_disputed_text_is_shown_with_its_columns(chromium: "Browser", reviews: tuple[Served, Path]) -> None:
    server = reviews[0]
    for who, label in (("ann", 0), ("bob", 1)):
        body = {"item": 0, "label": label, "annotator": who, "key": f"{who}-0"}
        assert server.client.post("/api/labels", json=body).status_code == 200
    with desk(chromium, server.url, "Rev") as rev:
        rev.page.goto(f"{server.url}/#/review/disputes")
        rev.get("dispute-card").wait_for()
        assert "Title alpha" in rev.until_text("columns", "Title")
        rev.require_calm()


def test_columns_are_chosen_in_the_settings(chromium: "Browser", reviews: tuple[Served, Path]) -> None:
    with desk(chromium, reviews[0].url, "Ann") as ann:
        ann.seen()
        ann.get("settings").click()
        ann.get("project-settings").locator("summary").click()
        choice = ann.get("setting-show")
        for name in ("page", "trick", "about"):
            choice.get_by_label(name, exact=True).uncheck()
        ann.get("save-settings").click()
        ann.get("settings-result").wait_for()
        assert "'title'" in ann.get("settings-result").inner_text()
        ann.press("Escape")
        ann.page.wait_for_function("() => document.querySelectorAll('[data-testid=columns] dt').length === 1")
        ann.answer("1")
        assert ann.page.locator("[data-testid=columns] dt").all_inner_texts() == ["title"]
        ann.until_sent()
        ann.require_calm()
