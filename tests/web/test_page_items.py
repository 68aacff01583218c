"""Texts and pictures of all kinds in the browser: nothing in them runs, and what cannot be shown is said."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sessions.label_data import images
from tests.web import browser
from tests.web.browser import Desk, desk, events
from tests.web.serving import Served, opened, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
SCRIPT = "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'><b>bold</b> & more"
LONG = "A long letter. " * 400 + "Yours, Zoe"
TEXTS = ["The train is late again", "Lovely weather", "=1+1", "Ärger & Öl: 日本語 🙂", "two\nlines", LONG, SCRIPT]
SVG = "<svg xmlns='http://www.w3.org/2000/svg'><script>window.ran = 3</script><rect width='9' height='9'/></svg>"


@pytest.fixture
def texts(tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    with (tmp_path / "texts.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in TEXTS)])
    with (
        opened(tmp_path, tmp_path / "texts.csv", classes=["good", "bad"], encoder="words", learner="quick") as session,
        served(session) as server,
    ):
        yield server, session.project.folder


def test_texts_are_shown_as_they_are_and_never_run(chromium: "Browser", texts: tuple[Served, Path]) -> None:
    server, project = texts
    found: dict[int, str] = {}
    with desk(chromium, server.url, "Ann", viewport={"width": 390, "height": 844}) as ann:
        for turn in range(len(TEXTS)):
            seen = ann.seen()
            found[seen.item] = seen.text
            require_room(ann)
            ann.press(ann.key_of("good"))
            if turn < len(TEXTS) - 1:
                ann.seen(other_than=seen.item)
        ann.get("all-done").wait_for()
        assert ann.page.evaluate("() => window.ran") is None
        ann.until_sent()
        ann.require_calm()
    assert sorted(text.strip() for text in found.values()) == sorted(text.strip() for text in TEXTS)
    assert sum(event.kind == "labelled" for event in events(project)) == len(TEXTS)


def require_room(ann: Desk) -> None:
    """However long the text, the classes are in the window and nothing sticks out."""
    box = ann.get("class-1").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 844
    assert ann.page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_what_cannot_be_shown_is_said_and_can_be_marked_bad(chromium: "Browser", tmp_path: Path) -> None:
    folder = images(tmp_path / "photos", [f"{number}.png" for number in range(6)])
    with opened(tmp_path, folder, classes=["cat", "dog"], encoder="pixels?size=4", learner="quick") as session:
        (folder / "1.png").write_text(SVG)
        (folder / "2.png").unlink()
        said: dict[str, str] = {}
        with served(session) as server, desk(chromium, server.url, "Ann") as ann:
            for turn in range(6):
                seen = ann.seen()
                if seen.text:
                    said[seen.id] = seen.text
                    ann.press("1")  # refused: nobody has seen it
                    ann.get("toast").wait_for()
                    assert ann.seen().item == seen.item
                ann.press("x" if seen.text else "1")
                if turn < 5:
                    ann.seen(other_than=seen.item)
            ann.get("all-done").wait_for()
            ann.until_sent()
            assert ann.page.evaluate("() => window.ran") is None
            assert ann.page.evaluate("violations") == []
        assert said.keys() == {"1.png", "2.png"}
        assert all("cannot be shown" in words for words in said.values())
        ids = session.project.pool.ids
        bad = {ids[event.item or 0] for event in events(session.project.folder) if event.kind == "bad"}
        assert bad == said.keys()
        assert session.status().labelled == 4
