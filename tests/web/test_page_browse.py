"""Browse in a real browser: every filter, one item and many, the back button, and what others see."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sessions.small_projects import copied, opened
from tests.waiting import wait_until
from tests.web import browser
from tests.web.browser import Desk, desk
from tests.web.serving import Served, served
from understudy.sessions.browsing import Filter, Sort
from understudy.sessions.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
FOUND = "[...document.querySelectorAll('[data-testid=found]')].map(one => Number(one.dataset.item))"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Seventy images, some labelled; bob has put some aside, and cy disagrees with him."""
    with opened(copied(tmp_path / "one", n=70, taught=14)) as session:
        free = [
            item for item in range(70) if item not in session.record.effective and not session.record.is_audit(item)
        ]
        session.flag(free[0], "Bob", "b0", note="whose cat?")
        session.bad(free[1], "Bob", "b1")
        session.skip(free[2], "Bob", "b2")
        session.dont_know(free[3], "Bob", "b3")
        session.label(free[4], 0, "Bob", "b4")
        session.label(free[4], 2, "Cy", "c4")
        yield session


@pytest.fixture
def server(session: Session) -> Iterator[Served]:
    with served(session) as running:
        yield running


def listed(session: Session, sort: Sort | None = None, **fields: object) -> list[int]:
    """What the list is, by the session itself."""
    return [shown.item for shown in session.browser.page(Filter(**fields), sort).items]  # type: ignore[arg-type]


def until_listed(person: Desk, items: list[int]) -> None:
    """Until these items are on the page, in this order."""
    person.page.wait_for_function(f"items => JSON.stringify({FOUND}) === JSON.stringify(items)", arg=items)


def at_browse(person: Desk, address: str = "") -> Desk:
    person.page.goto(f"{person.url}/#/browse{address}")
    person.page.locator(
        "[data-testid=found], [data-testid=browse-empty], [data-testid=browse-trouble]"
    ).first.wait_for()
    return person


def open_item(person: Desk, item: int) -> None:
    person.page.locator(f"[data-testid=found][data-item='{item}'] .hit-open").click()
    person.page.locator(f"[data-testid=panel][data-item='{item}']").wait_for()
    person.get("panel-item").first.wait_for()


def pick(person: Desk, item: int) -> None:
    person.page.locator(f"[data-testid=found][data-item='{item}']").get_by_test_id("pick").click()


def test_every_filter_and_order_shows_what_the_session_finds_and_stands_in_the_address(
    chromium: "Browser", session: Session, server: Served
) -> None:
    with desk(chromium, server.url, "Ann") as ann:
        ann.go("browse")
        until_listed(ann, listed(session))
        assert ann.get("browse-total").inner_text() == "1–60 of 70"
        ann.get("page-after").click()
        until_listed(ann, [shown.item for shown in session.browser.page(Filter(), offset=60).items])
        ann.get("page-before").click()
        for state in ("flagged", "disputed", "skipped", "unknown", "bad", "labelled", "audit", "leased", "unlabelled"):
            ann.get(f"state-{state}").click()
            until_listed(ann, listed(session, states=(state,)))
            assert f"state={state}" in ann.page.url
            ann.get(f"state-{state}").click()
        steps: list[tuple[str, str, Callable[[], list[int]]]] = [
            ("browse-class", "1", lambda: listed(session, labels=(1,))),
            ("browse-suggested", "1", lambda: listed(session, suggested=(1,))),
            ("browse-person", "Bob", lambda: listed(session, person="Bob")),
        ]
        for testid, value, expected in steps:
            ann.get(testid).select_option(value)
            until_listed(ann, expected())
            ann.get(testid).select_option("")
            until_listed(ann, listed(session))
        ann.get("browse-from").select_option("0.5")
        until_listed(ann, listed(session, confidence_from=0.5))
        ann.get("browse-to").select_option("0.4")
        until_listed(ann, listed(session, confidence_from=0.4, confidence_to=0.4))
        ann.get("clear-filters").click()
        sorts: list[Sort] = ["confidence-up", "confidence-down", "surprise", "latest", "earliest", "name"]
        for sort in sorts:
            ann.get("browse-sort").select_option(sort)
            until_listed(ann, listed(session, sort))
        ann.get("browse-sort").select_option("")
        ann.get("browse-search").fill("001")
        until_listed(ann, listed(session, search="001"))
        ann.get("browse-search").fill("nothing has this name")
        ann.get("browse-empty").wait_for()
        ann.get("clear-filters").click()
        until_listed(ann, listed(session))
        assert ann.get("browse-search").input_value() == ""
        ann.require_calm()


def test_a_flagged_item_is_found_relabelled_and_put_back_and_undo_brings_all_of_it_back(
    chromium: "Browser", session: Session, server: Served
) -> None:
    item = listed(session, states=("flagged",))[0]
    with desk(chromium, server.url, "Ann") as ann:
        at_browse(ann)
        ann.get("state-flagged").click()
        until_listed(ann, [item])
        open_item(ann, item)
        assert ann.get("flag-shown").inner_text().replace("\n", " ").split() == ["⚑", "Bob", "whose", "cat?"]
        ann.press("2")
        ann.until_text("panel-label", "dog")
        assert session.record.label_of(item) == 1
        assert "Ann" in ann.get("said").inner_text()
        ann.get("put-back-flagged").click()
        ann.get("browse-empty").wait_for()
        assert ann.until_text("panel-states", "Labelled")
        assert session.record.flags == {}
        ann.press("Backspace")
        until_listed(ann, [item])
        ann.press("Backspace")
        ann.until_text("panel-states", "Unlabelled")
        assert session.record.flags == {item: {"Bob": "whose cat?"}}
        assert session.record.label_of(item) is None
        ann.press("Escape")
        ann.get("panel").wait_for(state="detached")
        ann.require_calm()


def test_a_relabelled_item_has_the_last_word_over_what_others_said(
    chromium: "Browser", session: Session, server: Served
) -> None:
    item = listed(session, states=("disputed",))[0]
    with desk(chromium, server.url, "Ann") as ann:
        at_browse(ann, f"?state=disputed&open={item}")
        ann.until_text("panel-label", "cat")
        ann.get("panel").get_by_test_id("class-2").click()
        ann.until_text("panel-label", "fox")
        ann.get("browse-empty").wait_for()
        assert ann.get("panel-place").inner_text() == "not in this list"
        assert session.record.label_of(item) == 2
        ann.require_calm()


def test_many_items_are_picked_by_mouse_and_keys_decided_at_once_and_taken_back_at_once(
    chromium: "Browser", session: Session, server: Served
) -> None:
    with desk(chromium, server.url, "Ann") as ann:
        at_browse(ann, "?state=unlabelled")
        items = listed(session, states=("unlabelled",))
        until_listed(ann, items)
        pick(ann, items[1])
        ann.page.locator(f"[data-testid=found][data-item='{items[4]}'] .hit-open").click(modifiers=["Shift"])
        assert ann.get("picked-count").inner_text() == "4 selected"
        ann.get("label-as").select_option("2")
        ann.until_sent()
        until_listed(ann, listed(session, states=("unlabelled",)))
        assert {session.record.label_of(item) for item in items[1:5]} == {2}
        ann.get("undo").click()
        until_listed(ann, items)
        assert all(session.record.label_of(item) is None for item in items)

        ann.get("pick-none").click()
        ann.page.locator(".hit-open").first.focus()
        ann.press("Space")
        ann.press("ArrowRight")
        ann.press("ArrowDown")
        ann.press("ArrowUp")
        ann.press("Shift+Space")
        assert ann.get("picked-count").inner_text() == "2 selected"
        ann.press("Shift+F")
        ann.get("flag-note").fill("both   look odd")
        ann.press("Enter")
        wait_until(lambda: session.record.flags.get(items[1]) == {"Ann": "both look odd"})
        assert session.record.flags[items[0]]["Ann"] == "both look odd"

        ann.press("Control+a")
        ann.until_text("picked-count", f"^{len(items)} selected")
        ann.get("bad-picked").click()
        ann.get("browse-empty").wait_for()
        assert len(session.record.bad) == len(items) + 1
        ann.press("Backspace")
        until_listed(ann, items)
        assert len(session.record.bad) == 1
        ann.press("Escape")
        ann.get("picked-bar").wait_for(state="detached")
        ann.require_calm()


def test_all_that_match_are_selected_across_pages(chromium: "Browser", session: Session, server: Served) -> None:
    with desk(chromium, server.url, "Ann") as ann:
        at_browse(ann)
        until_listed(ann, listed(session))
        ann.get("pick-page").click()
        ann.get("pick-all").click()
        ann.until_text("picked-count", "^70 selected")
        ann.get("put-back-picked").click()
        wait_until(lambda: not (session.record.bad or session.record.flags or session.record.skipped))
        ann.require_calm()


def test_the_back_button_leads_to_the_list_and_the_item_before(
    chromium: "Browser", session: Session, server: Served
) -> None:
    with desk(chromium, server.url, "Ann") as ann:
        ann.go("browse")
        everything = listed(session)
        until_listed(ann, everything)
        ann.get("state-labelled").click()
        labelled = listed(session, states=("labelled",))
        until_listed(ann, labelled)
        open_item(ann, labelled[0])
        ann.press("ArrowRight")
        ann.page.locator(f"[data-testid=panel][data-item='{labelled[1]}']").wait_for()
        ann.get("similar").click()
        until_listed(ann, listed(session, states=("labelled",), similar=labelled[1]))
        ann.get("not-similar").wait_for()
        ann.page.go_back()
        until_listed(ann, labelled)
        ann.page.go_back()
        ann.get("panel").wait_for(state="detached")
        ann.page.go_back()
        until_listed(ann, everything)
        ann.page.go_back()
        ann.page.locator("main[data-view=label]").wait_for()
        ann.page.go_forward()
        ann.page.go_forward()
        until_listed(ann, labelled)
        ann.page.reload()
        until_listed(ann, labelled)
        ann.require_calm()


def test_an_item_is_opened_by_its_name_and_stepping_goes_on_to_the_next_page(
    chromium: "Browser", session: Session, server: Served
) -> None:
    with desk(chromium, server.url, "Ann") as ann:
        at_browse(ann)
        ann.get("browse-search").fill("0068.png")
        ann.press("Enter")
        ann.page.locator("[data-testid=panel][data-item='68']").wait_for()
        ann.page.goto(f"{server.url}/#/browse?open=59")
        ann.page.locator("[data-testid=panel][data-item='59']").wait_for()
        until_listed(ann, listed(session))
        ann.get("next").click()
        ann.page.locator("[data-testid=panel][data-item='60']").wait_for()
        until_listed(ann, list(range(60, 70)))
        ann.get("previous").click()
        ann.page.locator("[data-testid=panel][data-item='59']").wait_for()
        assert ann.until_text("panel-place", "60 of 70")
        ann.require_calm()


def test_what_others_decide_comes_by_itself_and_moves_nothing_unasked(
    chromium: "Browser", session: Session, server: Served
) -> None:
    with desk(chromium, server.url, "Ann") as ann:
        items = listed(session, states=("unlabelled",))
        at_browse(ann, "?state=unlabelled")
        until_listed(ann, items)
        session.flag(items[3], "Bob", "x1", note="look")
        ann.page.locator(f"[data-testid=found][data-item='{items[3]}'] .sign.flagged").wait_for()
        session.label(items[0], 1, "Bob", "x2")
        ann.get("browse-refresh").wait_for()
        until_listed(ann, items)
        ann.get("browse-refresh").click()
        until_listed(ann, items[1:])
        ann.require_calm()


def test_an_address_that_asks_for_what_there_is_not_says_so(chromium: "Browser", server: Served) -> None:
    with desk(chromium, server.url, "Ann") as ann:
        at_browse(ann, "?person=Nobody%20here")
        assert "There is no annotator 'Nobody here'" in ann.until_text("browse-trouble", "annotator")
        ann.page.goto(f"{server.url}/#/browse?open=999")
        ann.until_text("toast", "There is no item 999")
        ann.get("founds").locator("li").first.wait_for()
        ann.errors = [error for error in ann.errors if "404" not in error]  # the browser itself says so too
        ann.require_calm()


def test_a_flag_gets_a_note_while_labelling_and_browse_shows_it(
    chromium: "Browser", session: Session, server: Served
) -> None:
    with desk(chromium, server.url, "Ann") as ann:
        item = ann.seen().item
        ann.press("Shift+F")
        ann.get("flag-note").fill("upside down")
        ann.press("Enter")
        wait_until(lambda: session.record.flags.get(item) == {"Ann": "upside down"})
        assert ann.page.locator(".stage .flagged").inner_text().strip() == "⚑ flagged: upside down"
        ann.get("edit-note").click()
        assert ann.get("flag-note").input_value() == "upside down"
        ann.get("flag-note").fill("mirrored")
        ann.get("flag-with-note").click()
        wait_until(lambda: session.record.flags.get(item) == {"Ann": "mirrored"})
        ann.press("f")
        wait_until(lambda: item not in session.record.flags)
        ann.press("f")
        wait_until(lambda: session.record.flags.get(item) == {"Ann": ""})
        at_browse(ann, f"?state=flagged&open={item}")
        assert re.search("Ann\\s+without a note", ann.until_text("flag-shown", "Ann"))
        ann.get("panel-flag").click()
        ann.get("flag-note").fill("mirrored, then")
        ann.press("Enter")
        ann.until_text("flag-shown", "mirrored, then")
        ann.require_calm()


def test_on_a_phone_the_item_takes_the_whole_screen(chromium: "Browser", session: Session, server: Served) -> None:
    with desk(chromium, server.url, "Ann", viewport={"width": 390, "height": 844}, has_touch=True) as ann:
        at_browse(ann)
        until_listed(ann, listed(session))
        ann.get("browse-more").click()
        ann.get("browse-class").select_option("0")
        until_listed(ann, items := listed(session, labels=(0,)))
        open_item(ann, items[0])
        box = ann.get("panel").bounding_box()
        assert box is not None
        assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 390, 844)
        ann.get("panel").get_by_test_id("class-1").tap()
        ann.until_text("panel-label", "dog")
        ann.get("close-panel").tap()
        ann.get("panel").wait_for(state="detached")
        ann.require_calm()
