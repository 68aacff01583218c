"""Files that are copied in while somebody labels, in a real browser: news, new items to label, and a way to ask."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.sessions.label_data import images
from tests.web import browser
from tests.web.browser import desk
from tests.web.serving import Served, opened, served
from understudy.projects import source_watch
from understudy.sessions import growth
from understudy.web.access import access_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
GIVEN: dict[str, Any] = {"encoder": "pixels?size=4", "classes": ["cat", "dog"], "learner": "quick", "device": "cpu"}


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(source_watch, "STILL_SECONDS", 0.1)
    monkeypatch.setattr(growth, "LOOK_SECONDS", 0.1)
    return images(tmp_path / "photos", [f"{row}.png" for row in range(5)])


@pytest.fixture
def server(photos: Path, tmp_path: Path) -> Iterator[Served]:
    """Five photos; the server looks for more."""
    with opened(tmp_path, photos, retrain_growth=100.0, **GIVEN) as session:
        session.growth.start()
        with served(session) as running:
            yield running


def test_photos_that_are_copied_in_join_and_are_asked_while_one_labels(
    chromium: "Browser", server: Served, photos: Path
) -> None:
    with desk(chromium, server.url, "ann") as ann:
        met = {ann.seen().id}
        met.add(ann.answer("1").id)
        images(photos, ["new1.png", "new2.png"], first=100)
        assert ann.until_text("toast", "joined") == "2 new items joined; there are 7 now."
        for turn in range(5):
            met.add(ann.answer("1" if turn % 2 else "2").id)
        ann.seen()
        ann.press("2")
        ann.get("all-done").wait_for()
        assert met == {*(f"{row}.png" for row in range(5)), "new1.png", "new2.png"}
        images(photos, ["last.png"], first=200)  # nobody has to press anything
        assert ann.seen().id == "last.png"
        ann.go("browse")
        ann.get("browse-search").fill("new")
        ann.until_text("browse-total", "1–2 of 2")
        ann.require_calm()


def test_an_owner_has_the_data_looked_at_and_sees_what_is_amiss(
    chromium: "Browser", server: Served, photos: Path
) -> None:
    with desk(chromium, server.url, "ann") as ann:
        ann.go("progress")
        ann.get("look-for-items").click()
        assert ann.until_text("toast", "new items") == "There are no new items."
        assert ann.get("items-line").count() == 0
        (photos / "3.png").unlink()
        (photos / "broken.png").write_bytes(b"GIF89a")
        images(photos, ["new.png"], first=100)
        said = ann.until_text("items-line", r"broken\.png")
        assert "1 item is not in photos any more; their rows stay." in said
        ann.until_text("toast", "joined")
        ann.require_calm()


def test_an_annotator_hears_of_new_items_and_is_not_offered_to_look(
    chromium: "Browser", photos: Path, tmp_path: Path
) -> None:
    team = {"ann": "owner", "bob": "annotator"}
    with opened(tmp_path, photos, people=team, **GIVEN) as session:  # type: ignore[arg-type]
        session.growth.start()
        access, tokens = access_for(tmp_path, "127.0.0.1", annotators="ann:owner,bob", people=session.record.people)
        with served(session, access) as running, desk(chromium, running.url) as bob:
            bob.page.goto(f"{running.url}/?token={tokens['bob']}")
            bob.seen()
            images(photos, ["new.png"], first=100)
            assert bob.until_text("toast", "joined") == "1 new item joined; there are 6 now."
            bob.go("progress")
            assert bob.get("look-for-items").count() == 0
            bob.require_calm()
