"""The map in the browser: what it shows where, what a lasso leads to, and that it follows what people do."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.sessions.small_projects import copied, opened
from tests.waiting import wait_until
from tests.web import browser
from tests.web.browser import Desk, desk
from tests.web.serving import Served, served
from understudy.sessions.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
WHOLE = 24  # pixels around the whole map
WITHIN = """() => {
  const [card, map] = ["map-card", "map-canvas"].map((id) => document.querySelector(`[data-testid=${id}]`));
  const [inner, outer] = [card.getBoundingClientRect(), map.getBoundingClientRect()];
  return inner.top >= outer.top && inner.bottom <= outer.bottom
    && inner.left >= outer.left && inner.right <= outer.right;
}"""  # all of the card can be seen, once what is in it has come


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[tuple[Session, Served]]:
    with opened(copied(tmp_path)) as session:
        session.map.shown()
        wait_until(lambda: not session.map.is_being_made)
        with served(session) as server:
            yield session, server


def open_map(ann: Desk, without_webgl: bool = False) -> None:
    ann.page.goto(f"{ann.url}#/map{'?canvas=2d' if without_webgl else ''}")
    ann.get("map-canvas").wait_for()


def place_of(ann: Desk, session: Session, item: int) -> tuple[float, float]:
    """Where an item is on the screen while the whole map is shown."""
    box = ann.get("map-canvas").bounding_box()
    assert box is not None
    side = min(box["width"], box["height"]) - 2 * WHOLE
    x, y = session.map.shown().points[item]
    return box["x"] + (box["width"] - side) / 2 + x * side, box["y"] + (box["height"] - side) / 2 + y * side


def lonely_item(session: Session) -> int:
    """The item that is farthest from its nearest neighbour on the map."""
    points = session.map.shown().points
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2) + np.eye(len(points))
    return int(gaps.min(1).argmax())


def draw_lasso(ann: Desk, session: Session, items: list[int]) -> None:
    """Draw a diamond around each of these items and what lies between them."""
    places = np.array([place_of(ann, session, item) for item in items])
    (left, top), (right, bottom) = places.min(0) - 14, places.max(0) + 14
    middle_x, middle_y = (left + right) / 2, (top + bottom) / 2
    corners = [(left, middle_y), (middle_x, top), (right, middle_y), (middle_x, bottom)]
    ann.page.mouse.move(*corners[0])
    ann.page.mouse.down()
    for corner in corners[1:]:
        ann.page.mouse.move(*corner, steps=5)
    ann.page.mouse.up()


@pytest.mark.parametrize("without_webgl", [False, True])
def test_pointing_at_an_item_shows_it_and_a_click_opens_it(
    chromium: "Browser", mapped: tuple[Session, Served], without_webgl: bool
) -> None:
    session, server = mapped
    with desk(chromium, server.url, "Ann") as ann:
        item = lonely_item(session)
        session.label(item, 2, "bob", "key")
        open_map(ann, without_webgl)
        drawn_by = ann.get("map-canvas").get_attribute("data-drawn-by")
        assert drawn_by == "canvas" if without_webgl else drawn_by in ("webgl", "canvas")
        ann.page.mouse.move(*place_of(ann, session, item))
        card = ann.page.locator(f"[data-testid=map-card][data-item='{item}']")
        card.wait_for()
        card.locator("img").wait_for()
        assert ann.until_text("map-card-label", ".") == "fox"
        assert session.project.pool.ids[item] in card.inner_text()
        ann.page.mouse.click(*place_of(ann, session, item))
        ann.page.wait_for_url(re.compile(rf"#/browse\?open={item}$"))
        ann.require_calm()


def test_a_lasso_leads_to_exactly_the_items_inside(chromium: "Browser", mapped: tuple[Session, Served]) -> None:
    session, server = mapped
    with desk(chromium, server.url, "Ann") as ann:
        open_map(ann)
        ann.get("map-lasso").click()
        draw_lasso(ann, session, [0, 1, 2])
        said = ann.until_text("map-found", "inside")
        ann.get("map-list").click()
        ann.get("found").first.wait_for()
        lasso = re.search(r"lasso=([^&]+)", ann.page.url.replace("%2C", ",").replace("%3B", ";"))
        assert lasso is not None
        corners = [(float(x), float(y)) for x, y in (corner.split(",") for corner in lasso.group(1).split(";"))]
        inside = session.map.rows_inside(corners).tolist()
        assert inside
        found = ann.get("found").evaluate_all("all => all.map(one => Number(one.dataset.item))")
        assert found == inside
        assert said.startswith(f"{len(inside)} item")
        ann.require_calm()


def test_shift_and_dragging_is_a_lasso_too_and_escape_takes_it_away(
    chromium: "Browser", mapped: tuple[Session, Served]
) -> None:
    session, server = mapped
    with desk(chromium, server.url, "Ann") as ann:
        open_map(ann)
        ann.page.keyboard.down("Shift")
        draw_lasso(ann, session, list(range(40)))
        ann.page.keyboard.up("Shift")
        ann.get("map-found").wait_for()
        ann.get("map-canvas").focus()
        ann.press("Escape")
        ann.get("map-found").wait_for(state="detached")


def count_of(ann: Desk, key: str) -> str:
    return ann.get(f"map-key-{key}").locator(".faint").inner_text()


def test_the_map_follows_what_others_label_without_being_loaded_again(
    chromium: "Browser", mapped: tuple[Session, Served]
) -> None:
    session, server = mapped
    with desk(chromium, server.url, "Ann") as ann:
        open_map(ann)
        assert count_of(ann, "none") == "40"
        ann.page.evaluate("() => { window.same = true }")
        for item in range(3):
            session.label(item, 1, "bob", f"k{item}")
        ann.get("map-key-1").filter(has_text="3").wait_for()
        ann.get("map-key-none").filter(has_text="37").wait_for()
        ann.get("map-by-state").click()
        assert ann.page.locator(".map-key", has_text="not labelled").locator(".faint").inner_text() == "37"
        session.bad(5, "bob", "bad")
        ann.page.locator(".map-key", has_text="bad item").wait_for()
        assert ann.page.evaluate("() => window.same")
        points = "() => performance.getEntriesByType('resource').filter((e) => e.name.endsWith('map/points')).length"
        assert ann.page.evaluate(points) == 1
        ann.require_calm()


def test_the_map_can_be_walked_by_keys_and_read_as_numbers(chromium: "Browser", mapped: tuple[Session, Served]) -> None:
    session, server = mapped
    with desk(chromium, server.url, "Ann") as ann:
        open_map(ann)
        ann.get("map-canvas").focus()
        ann.press("+")
        ann.press("0")
        for _ in range(40):
            ann.press("ArrowLeft")
            if ann.get("map-card").count():
                break
        item = int(ann.get("map-card").get_attribute("data-item") or -1)
        assert 0 <= item < session.record.n_items
        ann.get("map-numbers").locator("summary").click()
        assert "not labelled: 40" in ann.get("map-numbers").inner_text()
        ann.get("map-canvas").focus()
        ann.press("Enter")
        ann.page.wait_for_url(re.compile(rf"#/browse\?open={item}$"))
        ann.get("tab-map").click()
        ann.get("map-canvas").wait_for()
        ann.require_calm()


def test_the_card_of_an_item_at_any_edge_is_seen_whole(chromium: "Browser", mapped: tuple[Session, Served]) -> None:
    session, server = mapped
    points = session.map.shown().points
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    for item in {int(find(points[:, axis])) for axis in (0, 1) for find in (np.argmin, np.argmax)}:
        with desk(chromium, server.url, "Ann", **phone) as ann:
            open_map(ann)
            ann.page.touchscreen.tap(*place_of(ann, session, item))
            card = ann.page.locator(f"[data-testid=map-card][data-item='{item}']")
            card.locator("img").wait_for()
            ann.page.wait_for_function(WITHIN)


def test_two_fingers_zoom_and_a_tap_shows_an_item_with_a_way_to_it(
    chromium: "Browser", mapped: tuple[Session, Served]
) -> None:
    session, server = mapped
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with desk(chromium, server.url, "Ann", **phone) as ann:
        open_map(ann)
        item = lonely_item(session)
        x, y = place_of(ann, session, item)
        ann.page.touchscreen.tap(x, y)
        card = ann.page.locator(f"[data-testid=map-card][data-item='{item}']")
        card.locator("img").wait_for()
        ann.page.wait_for_function(WITHIN)
        touches = ann.page.context.new_cdp_session(ann.page)

        def touch(kind: str, *places: tuple[float, float]) -> None:
            points = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(places)]
            touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        marker = ann.page.locator(".map-marker")
        before = (float(marker.get_attribute("cx") or 0), float(marker.get_attribute("cy") or 0))
        box, on_card = ann.get("map-canvas").bounding_box(), card.bounding_box()
        assert box is not None
        assert on_card is not None
        # Above the card or below it, which stands beside the item and may be in the middle of the map.
        edge = box["y"] + 30
        middle = (box["x"] + box["width"] / 2, edge if on_card["y"] > edge + 10 else box["y"] + box["height"] - 30)
        touch("touchStart", (middle[0] - 20, middle[1]), (middle[0] + 20, middle[1]))
        for apart in (30, 40, 50):
            touch("touchMove", (middle[0] - apart, middle[1]), (middle[0] + apart, middle[1]))
        touch("touchEnd")
        half = box["width"] / 2
        spread = (
            "([half, x]) => { const at = document.querySelector('.map-marker').cx.baseVal.value;"
            " return Math.abs((at - half) / (x - half) - 2.5) < 0.25 }"  # fingers 40 pixels apart, then 100
        )
        ann.page.wait_for_function(spread, arg=[half, before[0]])
        card.get_by_role("link", name="Open").click()
        ann.page.wait_for_url(re.compile(rf"#/browse\?open={item}$"))
