"""Classes are changed in one browser while a second person watches in another, also after a restart."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.sessions.small_projects import copied, opened
from tests.web import browser
from tests.web.browser import Desk, desk
from tests.web.serving import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium


def until_offered(person: Desk, *names: str) -> None:
    """Until these classes are on the page, in this order."""
    shown = "[...document.querySelectorAll('.side .class-name')].map(one => one.innerText).join()"
    person.page.wait_for_function(f"names => {shown} === names", arg=",".join(names))


def change(person: Desk, number: int) -> None:
    """Open what can be done to a class, in the window of classes."""
    if person.get("classes-dialog").count() == 0:
        person.press("Shift+C")
    person.get(f"open-{number}").click()
    person.get(f"form-{number}").wait_for()


def take_back(person: Desk, line: str) -> None:
    person.get("class-changes").locator("li", has_text=line).get_by_role("button").click()
    person.until_text("classes-result", "Taken back")


def test_classes_change_under_the_eyes_of_a_second_person_and_can_be_taken_back_after_a_restart(
    chromium: "Browser", tmp_path: Path
) -> None:
    folder = copied(tmp_path, taught=6)
    with opened(folder) as session:
        given = dict(session.record.effective)
        with (
            served(session) as server,
            desk(chromium, server.url, "Ann") as ann,
            desk(chromium, server.url, "Bob") as bob,
        ):
            until_offered(bob, "cat", "dog", "fox")
            change(ann, 0)
            ann.get("class-name").fill("Dog")
            ann.get("rename").click()
            assert "easily taken" in ann.until_text("classes-result", "Dog")
            ann.get("class-name").fill("Katze")
            ann.get("rename").click()
            until_offered(bob, "Katze", "dog", "fox")
            assert "Ann" in bob.until_text("toast", "renamed")
            ann.get("class-description").fill("It purrs.")
            ann.press("Enter")
            ann.get("class-key").press("q")
            ann.until_text("classes-result", "q is the key")
            ann.get("add-example").click()
            ann.get("class-row-0").locator(".examples").first.wait_for()
            bob.page.locator(".side .class kbd", has_text=re.compile("^q$")).wait_for()
            assert "It purrs." in (bob.get("class-0").get_attribute("title") or "")

            before = bob.seen()
            bob.answer("q")
            bob.until_sent()
            assert session.record.label_of(before.item) == 0
            given[before.item] = 0

            change(ann, 2)
            ann.get("merge-into").select_option("1")
            ann.get("merge").click()
            until_offered(bob, "Katze", "dog")
            change(ann, 0)
            ann.get("remove").click()
            assert f"{sum(label == 0 for label in given.values())} labels" in ann.get("remove-question").inner_text()
            ann.get("remove-yes").click()
            until_offered(bob, "dog")
            assert set(session.record.effective.values()) == {1}
            take_back(ann, "was removed")
            until_offered(bob, "Katze", "dog")
            ann.get("up-1").click()
            until_offered(bob, "dog", "Katze")
            ann.get("open-1").click()
            ann.get("hide").click()
            until_offered(bob, "Katze")
            bob.require_calm()
            ann.require_calm()
        assert session.record.effective == given
    with opened(folder) as session, served(session) as server, desk(chromium, server.url, "Bob") as bob:
        until_offered(bob, "Katze")
        bob.press("Shift+C")
        assert "It purrs." in bob.until_text("class-row-0", "Katze")
        take_back(bob, "merged")
        take_back(bob, "hidden")
        until_offered(bob, "dog", "Katze", "fox")
        bob.press("Escape")
        bob.press("/")
        bob.page.keyboard.type("owl")
        bob.press("Enter")
        until_offered(bob, "dog", "Katze", "fox", "owl")
        bob.seen()
        bob.press("Backspace")  # the label that made the class
        until_offered(bob, "dog", "Katze", "fox")
        bob.press("Shift+C")
        bob.get("up-2").click()
        bob.until_text("classes-result", "Moved")
        bob.press("Escape")
        until_offered(bob, "dog", "fox", "Katze")
        bob.press("Backspace")
        until_offered(bob, "dog", "Katze", "fox")
        bob.until_text("toast", "taken back")
        assert session.record.effective == given
        bob.require_calm()
