"""What the page says of a project as a whole: its features, its audit share, its classes, folders and settings."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from tests.sessions.label_data import images
from tests.sessions.small_projects import SMALL, copied, label_next
from tests.sessions.small_projects import opened as reopened
from tests.web import browser
from tests.web.browser import another_tab, desk, events
from tests.web.serving import Served, served
from understudy.projects.opening import create_or_open
from understudy.sessions.encoder_change import change_encoder
from understudy.sessions.opening import open_session
from understudy.sessions.session import Session
from understudy.web.session_holder import SessionHolder

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
UNDERSTUDY = Path(sys.executable).with_name("understudy")
OWN_ENCODER = """
import torch
from understudy.data.encoders import ImageEncoder, Preprocessing

def encoder(weights, device):
    torch.manual_seed(0)
    return ImageEncoder(torch.nn.Conv2d(3, 5, 4), Preprocessing(size=16), name="mine", device=device)
"""


@contextmanager
def of_noise(folder: Path, taught: int = 0) -> Iterator[tuple[Session, Served]]:
    """Texts of one word each: what is shared by no two items says nothing about their class."""
    with reopened(copied(folder, "noise", n=400, taught=taught)) as session, served(session) as server:
        yield session, server


def test_features_that_say_nothing_are_called_so_after_forty_labels(chromium: "Browser", tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with of_noise(tmp_path, taught=16) as (session, server):
        for turn in range(30):
            label_next(session, "teacher", f"u{turn}", int(rng.integers(2)))
        session.release("teacher")
        with desk(chromium, server.url, "Ann") as ann:
            assert "Features: shared words only" in ann.get("features-note").inner_text()
            ann.get("features-how").click()
            assert "Not better than guessing" in ann.until_text("hint", "guessing")
            assert "Use an encoder" in ann.get("hint").inner_text()
            assert "understudy encoder" in ann.until_text("features", "shared words only")
            ann.go("label")
            ann.get("features-dismiss").click()
            ann.get("features-note").wait_for(state="detached")
            ann.page.reload()
            ann.seen()
            assert ann.get("features-note").count() == 0  # read once
            ann.require_calm()


def test_the_welcome_says_what_the_audit_items_can_show_and_raises_their_share(
    chromium: "Browser", tmp_path: Path
) -> None:
    with of_noise(tmp_path) as (session, server), desk(chromium, server.url) as ann:
        ann.page.goto(server.url)
        words = ann.until_text("outlook", "audit items")
        assert "40 random audit items measure the model: its accuracy will be known to about ±10 points." in words
        assert "Raise their share from 10% of the items to 40%" in words
        ann.get("outlook-raise").check()
        ann.get("name-input").fill("Ann")
        ann.press("Enter")
        ann.seen()
        assert len(session.record.audit_rows) == 160
        assert session.record.settings.audit_share == 0.4
        ann.go("progress")
        ann.get("hint").wait_for()
        assert ann.get("audit-offer").count() == 0
        ann.require_calm()


def test_the_progress_page_offers_to_raise_the_share_too(chromium: "Browser", tmp_path: Path) -> None:
    with of_noise(tmp_path) as (session, server), desk(chromium, server.url, "Ann") as ann:
        ann.answer("1")
        ann.go("progress")
        ann.get("raise-audit-share").click()
        ann.until_text("toast", "more audit items")
        ann.get("audit-offer").wait_for(state="detached")
        assert len(session.record.audit_rows) == 160
        ann.require_calm()


def test_every_class_is_scored_and_confusions_are_the_literal_counts(chromium: "Browser", tmp_path: Path) -> None:
    with reopened(copied(tmp_path, taught=6)) as session, served(session) as server:
        session.change_settings({"audit_share": 0.5}, "Bea", "more audit items")
        for turn in range(30):
            label_next(session, "Bea", f"k{turn}", (turn * 7) % 3)
        session.release("Bea")
        matrix = np.zeros((3, 3), int)
        for item in session.record.asked["audit"]:
            label, guess = session.record.audit_label(item), session.models.guess(item)
            if label is not None and guess is not None:
                matrix[label, guess] += 1
        assert matrix.sum() >= 10
        with desk(chromium, server.url, "Ann") as ann:
            ann.go("progress")
            ann.get("confusions").wait_for()
            shown = (
                ann.get("confusions")
                .locator("tbody tr")
                .evaluate_all(
                    "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => Number(cell.innerText) || 0))"
                )
            )
            assert shown == matrix.tolist()
            right = ann.get("by-class").locator("tbody tr td:nth-child(2)").all_inner_texts()
            assert right == [f"{matrix[k, k]} of {matrix[k].sum()}" for k in range(3)]
            ann.require_calm()


def test_a_page_that_is_open_while_the_encoder_is_changed_goes_on_with_its_labels(
    chromium: "Browser", tmp_path: Path
) -> None:
    """The server is stopped, `understudy encoder` makes other features, and the server comes back at its address."""
    folder = copied(tmp_path, taught=6)
    (tmp_path / "own.py").write_text(OWN_ENCODER)
    with ExitStack() as until_stopped:
        server = until_stopped.enter_context(served(until_stopped.enter_context(reopened(folder))))
        address = urlsplit(server.url)
        with desk(chromium, server.url, "Ann") as ann:
            assert "colours and shapes only" in ann.get("features-note").inner_text()
            ann.answer("1")
            before = ann.labelled(7)
            ann.until_sent()
            until_stopped.close()
            ann.page.locator("[data-testid=connection][data-state=away]").wait_for()
            lines = list(change_encoder(str(folder), f"python:{tmp_path / 'own.py'}:encoder", device="cpu"))
            assert lines[-1] == f"{before} labels kept, and the log with them"
            with reopened(folder) as session, served(session, port=address.port or 0):
                ann.page.locator("[data-testid=connection][data-state=connected]").wait_for()
                ann.get("features-note").wait_for(state="detached")
                ann.answer("2")
                assert ann.labelled(before + 1) == before + 1
                ann.go("progress")
                assert "made by mine" in ann.until_text("features", "made by")
                assert session.project.features.shape[1] == 5
                assert ann.page.evaluate("violations") == []


def test_a_tab_that_is_behind_says_so_and_takes_no_answer(chromium: "Browser", tmp_path: Path) -> None:
    with reopened(copied(tmp_path / "one")) as session, served(session) as server:
        with desk(chromium, server.url, "Ann") as ann:
            first = ann.seen()
            other = another_tab(ann.page.context, server.url)
            other.page.goto(server.url)
            assert other.seen().item == first.item  # one person has one item
            other.answer("1")
            ann.get("stale").wait_for()
            ann.press("2")
            ann.press("Backspace")
            ann.get("go-on-here").click()
            ann.get("stale").wait_for(state="detached")
            second = ann.seen()
            assert second.item == other.seen().item != first.item
            ann.answer("2")
            ann.until_sent()
            other.get("stale").wait_for()
            other.press("Enter")
            other.get("stale").wait_for(state="detached")
            assert other.seen().item == ann.seen().item
            assert ann.get("stale").count() == 0
            for person in (ann, other):
                person.require_calm()
        stored = [
            (event.item, event.data["label"]) for event in events(session.project.folder) if "label" in event.data
        ]
        assert stored == [(first.item, 0), (second.item, 1)]


def test_folders_become_classes_only_when_somebody_says_so(chromium: "Browser", tmp_path: Path) -> None:
    project = create_or_open(
        dated_photos(tmp_path), project=tmp_path / "project", encoder=SMALL, device="cpu", ask_folders=lambda _: None
    )
    holder = SessionHolder(open_session(project))

    def labelled() -> int:
        return -1 if holder.session is None else len(holder.session.record.effective)

    try:
        with served(holder) as server, desk(chromium, server.url) as ann:
            ann.page.goto(server.url)
            ann.get("name-input").fill("Ann")
            ann.press("Enter")
            words = ann.until_text("folder-question", "4 folders")
            assert "2024-01-01" in words
            assert "date" in words
            assert "main" in (ann.get("folders-only").get_attribute("class") or "")
            ann.press("1")  # no answer to what nobody has seen
            ann.get("folders-only").click()
            ann.seen()
            assert "Name the first class" in ann.get("no-classes").inner_text()
            assert labelled() == 0
            ann.get("settings").click()  # as long as nobody has labelled, the choice can be changed
            ann.get("folders-classes").click()
            ann.press("Escape")
            assert "taken for classes" in ann.until_text("all-done", "taken for classes")
            assert labelled() == 24
            ann.get("folders-only").click()
            ann.seen()
            assert labelled() == 0
            assert all("503" in error for error in ann.errors)  # asked for while the project began anew
    finally:
        if holder.session is not None:
            holder.session.close()


def test_folders_that_the_console_asked_about_are_not_asked_about_again(chromium: "Browser", tmp_path: Path) -> None:
    terminal, inside = pty.openpty()
    command = (UNDERSTUDY, "label", dated_photos(tmp_path), "--project", tmp_path / "project", "--encoder", SMALL,
               "--basis-size", "20", "--device", "cpu", "--no-browser")  # fmt: skip
    process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
    try:
        asked = read_until(terminal, r"classes or for folders\? \[f\]")
        assert "4 folders" in asked
        assert "2024-01-01" in asked
        os.write(terminal, b"f\n")
        address = read_until(terminal, r"http://127\.0\.0\.1:\d+/").split()[-1]
        with desk(chromium, address, "Ann") as ann:  # an item at once: the folders are not asked about again
            ann.get("no-classes").wait_for()
            assert ann.labelled(0) == 0
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(inside)
        os.close(terminal)


def dated_photos(folder: Path) -> Path:
    return images(folder / "photos", [f"2024-01-0{day}/{number}.png" for day in range(1, 5) for number in range(6)])


def read_until(terminal: int, pattern: str) -> str:
    """What a terminal shows, until it shows this."""
    shown = ""
    while re.search(pattern, shown) is None:
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown[: re.search(pattern, shown).end()]  # type: ignore[union-attr]


def test_settings_of_the_project_are_changed_on_the_page(chromium: "Browser", tmp_path: Path) -> None:
    with (
        reopened(copied(tmp_path / "one")) as session,
        served(session) as server,
        desk(chromium, server.url, "Ann") as ann,
    ):
        ann.get("settings").click()
        ann.page.locator("summary", has_text="Project").click()
        ann.get("setting-retrain_at_most").fill("25")
        ann.get("setting-suggestions").uncheck()
        ann.get("save-settings").click()
        ann.until_text("settings-result", "Saved")
        assert session.record.settings.retrain_at_most == 25
        ann.get("setting-audit_share").fill("0.9")
        ann.get("save-settings").click()
        assert not ann.get("setting-audit_share").evaluate("input => input.checkValidity()")
        ann.press("Escape")
        ann.get("suggest").wait_for(state="detached")
        ann.require_calm()


def test_what_waited_here_keeps_the_time_at_which_it_was_decided(chromium: "Browser", tmp_path: Path) -> None:
    with (
        reopened(copied(tmp_path / "one")) as session,
        served(session) as server,
        desk(chromium, server.url, "Ann") as ann,
    ):
        ann.page.route("**/api/labels", lambda route: route.abort())
        ann.press("1")
        ann.until_text("banner", "waits? here")
        key = "Object.keys(localStorage).find((name) => name.includes(':out:'))"
        ann.page.evaluate(
            f"() => {{ const key = {key}; const entry = JSON.parse(localStorage.getItem(key));"
            " entry.at -= 3600_000; localStorage.setItem(key, JSON.stringify(entry)); }"
        )
        with ann.page.expect_request("**/api/labels") as asked:
            ann.page.unroute("**/api/labels")
        ann.until_sent()
        sent = asked.value.post_data_json
        assert sent is not None
        assert sent["ago"] >= 3600
        (entry,) = [entry for entry in session.history("Ann") if entry.what == "labelled"]
        assert entry.at < time.time() - 3000
