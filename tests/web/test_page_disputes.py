"""Two people differ, and a reviewer settles it by one key: in the browser, over the log and in the export."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sessions.small_projects import copied, opened
from tests.web import browser
from tests.web.browser import Desk, desk
from tests.web.serving import Served, served
from understudy.sessions.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
CAT, DOG, FOX = range(3)
KEYS = {CAT: "1", DOG: "2", FOX: "3"}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(copied(tmp_path, taught=2)) as session:
        yield session


@pytest.fixture
def server(session: Session) -> Iterator[Served]:
    with served(session) as running:
        yield running


def differ(session: Session, count: int) -> list[int]:
    """Items that ann calls a cat, and bob and cy a dog, in the order in which they are listed."""
    record = session.record
    items = [row for row in range(record.n_items) if row not in record.effective and not record.is_audit(row)][:count]
    for item in items:
        for who, label in (("ann", CAT), ("bob", DOG), ("cy", DOG)):
            session.label(item, label, who, f"{who}-{item}")
    return items


def at_disputes(person: Desk) -> Desk:
    person.go("review")
    person.get("tab-disputes").click()
    person.page.locator("[data-testid=dispute-card], [data-testid=disputes-empty]").first.wait_for()
    return person


def until_at(person: Desk, item: int) -> None:
    person.page.locator(f"[data-testid=dispute-card][data-item='{item}']").wait_for()


def until_tab_says(person: Desk, count: int) -> None:
    person.page.locator("[data-testid=tab-disputes] .badge", has_text=browser.exactly(str(count))).wait_for()


def rows_of(server: Served, name: str) -> list[dict[str, str]]:
    text = server.client.get("/api/export?format=csv").content.decode("utf-8-sig")
    return [row for row in csv.DictReader(io.StringIO(text)) if row["id"] == name]


def test_a_reviewer_settles_by_one_key_takes_it_back_and_the_export_says_so(
    chromium: "Browser", session: Session, server: Served
) -> None:
    first, second, third = differ(session, 3)
    session.flag(first, "bob", "f", note="look at the ears")
    name = session.project.pool.ids[first]
    assert {row["resolution"] for row in rows_of(server, name)} == {"majority"}
    with desk(chromium, server.url, "Rev") as rev:
        assert rev.until_text("review-badge", "3") == "3"
        at_disputes(rev)
        until_at(rev, first)
        said = rev.get("opinions").locator("li").all_inner_texts()
        assert [text.split("\n")[:2] for text in said] == [["ann", "cat"], ["bob", "dog"], ["cy", "dog"]]
        assert "look at the ears" in said[1]
        assert "2 of 3 people said dog" in rev.get("dispute-state").inner_text()
        rev.press("+")
        rev.until_text("zoom-level", "%")
        rev.press("z")
        rev.until_text("zoom-level", "Fit")
        rev.press("n")
        rev.get("dispute-note").fill("a fox, by its tail")
        rev.press("Enter")
        rev.press(KEYS[FOX])
        until_at(rev, second)
        until_tab_says(rev, 2)
        assert session.record.label_of(first) == FOX
        row = rows_of(server, name)[-1]
        assert (row["decision"], row["effective"], row["resolution"]) == ("settled", "fox", "settled")
        assert (row["disputed"], row["settled_by"], row["settled_note"]) == ("false", "Rev", "a fox, by its tail")
        rev.press("Enter")  # what most say
        until_at(rev, third)
        until_tab_says(rev, 1)
        assert session.record.label_of(second) == DOG
        rev.press("Backspace")
        until_at(rev, second)
        until_tab_says(rev, 2)
        rev.press("Backspace")
        until_at(rev, first)
        until_tab_says(rev, 3)
        assert {row["resolution"] for row in rows_of(server, name)} == {"majority"}
        assert session.record.contest_counts["disputed"] == 3
        rev.press("ArrowRight")
        rev.press("ArrowRight")
        rev.press("ArrowLeft")
        rev.press("ArrowLeft")
        until_at(rev, first)
        rev.until_sent()
        rev.require_calm()


def test_settled_items_are_shown_on_request_with_who_has_differed_since(
    chromium: "Browser", session: Session, server: Served
) -> None:
    open_one, settled = differ(session, 2)
    session.settle(settled, FOX, "Rita", "s", note="the tail")
    session.label(settled, CAT, "bob", "later")
    with desk(chromium, server.url, "Rev") as rev:
        at_disputes(rev)
        until_at(rev, open_one)
        assert rev.page.locator(".strip-item").count() == 1
        rev.get("show-settled").check()
        rev.page.locator(".strip-item.decided").click()
        until_at(rev, settled)
        line = rev.get("dispute-state").inner_text()
        assert "Rita settled it as fox" in line
        assert "the tail" in line
        assert "bob labelled it otherwise since" in line
        rev.press(KEYS[DOG])
        rev.until_sent()
        assert session.record.label_of(settled) == DOG
        rev.require_calm()


def test_the_list_follows_what_others_label_and_settle(chromium: "Browser", session: Session, server: Served) -> None:
    with desk(chromium, server.url, "Rev") as rev, desk(chromium, server.url, "Rita") as rita:
        at_disputes(rev).get("disputes-empty").wait_for()
        first, second = differ(session, 2)
        until_at(rev, first)
        until_tab_says(rev, 2)
        at_disputes(rita)
        until_at(rita, first)
        rita.press("Enter")
        until_at(rev, second)
        assert "not disputed any more" in rev.get("toast").inner_text()
        session.label(second, DOG, "ann", "gives-in")
        for person in (rev, rita):
            person.get("disputes-empty").wait_for()
            person.require_calm()


def test_progress_names_disputes_and_how_far_people_agree(
    chromium: "Browser", session: Session, server: Served
) -> None:
    item, other = differ(session, 2)
    session.label(other, FOX, "ann", "f")
    with desk(chromium, server.url, "Rev") as rev:
        rev.go("progress")
        assert "2 disputed" in " ".join(rev.get("disputed-count").inner_text().split())
        figures = rev.get("agreement-figures").inner_text()
        for name in ("Alike", "Fleiss’ kappa", "Krippendorff’s alpha"):
            assert name in figures
        assert rev.get("agreement-pairs").locator("tbody tr").count() == 3
        by_class = rev.get("agreement-by-class").locator("tbody tr").all_inner_texts()
        assert by_class[-1].split() == ["dog", "50%", "4", "2"], "the surest class last"
        rev.get("agreement-confused").locator("li", has_text="cat").get_by_text("Look").click()
        until_at(rev, item)
        assert rev.page.locator(".strip-item").count() == 1
        rev.get("disputes-filter").click()
        rev.page.locator(".strip-item").nth(1).wait_for()
        rev.require_calm()
