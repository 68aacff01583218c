"""Two people at once, and a server that is killed while keys are being pressed: no label twice, none lost."""

import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sessions.small_projects import opened
from tests.web import browser
from tests.web.browser import Desk, desk, events, truth
from tests.web.killable import Killable
from tests.web.serving import served
from understudy.sessions.backup import back_up, restore_backup
from understudy.sessions.record import Record

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
EACH = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    made = Killable(tmp_path_factory.mktemp("team") / "project", free_port())
    made.start()
    try:
        made.until_ready()
        yield made
    finally:
        made.end()


def test_two_people_label_two_hundred_items_and_no_item_twice(chromium: "Browser", server: Killable) -> None:
    with desk(chromium, server.url, "Ann") as ann, desk(chromium, server.url, "Bob") as bob:
        keys = ann.keys()
        ann.page.locator("[data-testid=online][data-count='2']").wait_for()
        now = {ann: ann.seen(), bob: bob.seen()}
        for _ in range(EACH):
            assert now[ann].item != now[bob].item
            for person, seen in now.items():  # both keys are on their way before either answer is awaited
                person.press(keys[str(truth()[seen.id])])
            now = {person: person.seen(other_than=seen.item) for person, seen in now.items()}
        assert ann.labelled(2 * EACH) == bob.labelled(2 * EACH)
        for person in (ann, bob):
            person.until_sent()
            person.require_calm()
            assert len(person.accepted()) == EACH
    labelled = [
        event for event in events(server.project) if event.annotator in ("Ann", "Bob") and "label" in event.data
    ]
    assert Counter(event.annotator for event in labelled) == {"Ann": EACH, "Bob": EACH}
    assert len({event.item for event in labelled}) == 2 * EACH


def test_a_server_killed_under_the_keys_loses_nothing_and_doubles_nothing(
    chromium: "Browser", server: Killable
) -> None:
    with desk(chromium, server.url, "Cleo") as cleo:
        keys = cleo.keys()
        for _ in range(10):
            press_right(cleo, keys)
        cleo.until_stocked(8)
        server.kill()
        for _ in range(5):  # from what was fetched ahead
            press_right(cleo, keys)
        assert "nothing is lost" in cleo.until_text("banner", "waits? here")
        assert int(cleo.get("queue-count").inner_text()) >= 3
        assert cleo.get("connection").get_attribute("data-state") == "away"
        before = cleo.accepted()
        press_right(cleo, keys)
        cleo.press("Backspace")
        taken_back = next(entry for entry in cleo.accepted() if entry not in before)
        cleo.until_seen(taken_back["item"])
        server.start()
        connected = cleo.page.locator("[data-testid=connection][data-state=connected]")
        for _ in range(600):  # while it starts: some keys come when nothing is there to be seen
            if cleo.page.locator(".label.answered, [data-testid=stranded]").count() == 0:
                press_right(cleo, keys, wait=False)
            if connected.count():
                break
            cleo.page.wait_for_timeout(100)
        connected.wait_for()
        cleo.until_sent()
        cleo.get("banner").wait_for(state="detached")
        for _ in range(5):
            press_right(cleo, keys)
        cleo.until_sent()
        accepted = [entry for entry in cleo.accepted() if entry["path"] == "api/labels" and entry != taken_back]
        assert cleo.get("refused").count() == 0
        stored = events(server.project)
    assert len(accepted) >= 20
    by_key = Counter(event.key for event in stored if event.annotator == "Cleo" and "label" in event.data)
    assert {entry["key"]: 1 for entry in accepted} == {key: n for key, n in by_key.items() if key != taken_back["key"]}
    labels = {item: marks["Cleo"].label for item, marks in Record.from_events(stored).labels.items() if "Cleo" in marks}
    assert labels == {entry["item"]: entry["label"] for entry in accepted}


def test_a_backup_made_under_the_keys_of_two_people_opens_in_the_browser(
    chromium: "Browser", server: Killable, tmp_path: Path
) -> None:
    file, again = tmp_path / "copy.zip", tmp_path / "again"
    with desk(chromium, server.url, "Dana") as dana, desk(chromium, server.url, "Eli") as eli:
        keys = dana.keys()
        for person in (dana, eli) * 5:
            press_right(person, keys)
        for person in (dana, eli):
            person.until_sent()
        known = {entry["key"] for person in (dana, eli) for entry in person.accepted()}
        with ThreadPoolExecutor(1) as other:  # the server is a process of its own, as it is to `understudy backup`
            backup = other.submit(lambda: list(back_up(str(server.project), file)))
            while not backup.done():
                for person in (dana, eli):
                    press_right(person, keys)
            backup.result()
        dana.require_calm()
    list(restore_backup(file, again))
    kept = events(again)
    assert kept == events(server.project)[: len(kept)]
    assert known <= {event.key for event in kept}
    with (
        opened(again) as session,
        served(session) as second,
        desk(chromium, second.url, "Dana") as dana,
    ):
        assert dana.labelled(len(Record.from_events(kept).effective)) == len(Record.from_events(kept).effective)
        press_right(dana, keys)
        dana.until_sent()
        dana.require_calm()


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


def press_right(person: Desk, keys: dict[str, str], *, wait: bool = True) -> None:
    seen = person.seen()
    person.press(keys[str(truth()[seen.id])])
    if wait:
        person.seen(other_than=seen.item)
