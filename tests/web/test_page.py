"""One person labels digits by key in a browser, then undoes, skips, reviews, confirms and exports."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.web import browser
from tests.web.browser import Desk, Seen, desk, events, truth
from tests.web.serving import opened, served
from understudy.sessions.session import Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium
LABELS = 60
LOOK_EVERY = 6  # labels: the page shows its numbers five times a second
IS_FETCHED = "item => performance.getEntriesByType('resource').some(one => one.name.endsWith(`/items/${item}/content`))"
NOTE_NAME_INPUT = """window.askedForName = false;
new MutationObserver(() => { window.askedForName ||= document.querySelector("[data-testid=name-input]") !== null; })
  .observe(document, { childList: true, subtree: true });"""
WRONG = range(20, LABELS, 5)  # of these turns: what a tired person does


@dataclass
class Morning:
    """Sixty labels by key, and what was seen while they were given."""

    desk: Desk
    session: Session
    pressed: list[tuple[int, int]]  # item, label
    counts: list[int]

    @property
    def project(self) -> Path:
        return self.session.project.folder

    def since(self, seq: int) -> list[tuple[str, int | None]]:
        """Decisions in the log after an event, with their items."""
        self.desk.until_sent()
        silent = {"asked", "released", "trained", "lease_expired"}
        return [(event.kind, event.item) for event in events(self.project)[seq:] if event.kind not in silent]

    def now(self) -> int:
        self.desk.until_sent()
        return len(events(self.project))


@pytest.fixture(scope="module")
def morning(chromium: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Morning]:
    with (
        opened(tmp_path_factory.mktemp("page"), learner="quick") as session,
        served(session) as server,
        desk(chromium, server.url, "Ann") as ann,
    ):
        keys, pressed, counts = ann.keys(), [], []
        seen = ann.seen()
        for turn in range(LABELS):
            label = (truth()[seen.id] + (turn in WRONG)) % 10
            pressed.append((seen.item, label))
            seen = ann.answer(keys[session.record.classes[label]])
            if (turn + 1) % LOOK_EVERY == 0:
                counts.append(ann.labelled(turn + 1))
        yield Morning(ann, session, pressed, counts)
        ann.require_calm()


@pytest.fixture
def ann(morning: Morning) -> Desk:
    """At the labelling view, with nothing open."""
    morning.desk.go("label")
    morning.desk.seen()
    return morning.desk


def right_key(ann: Desk, seen: Seen) -> str:
    return ann.key_of(str(truth()[seen.id]))


def test_sixty_labels_by_key_are_counted_and_each_is_in_the_log_once(morning: Morning) -> None:
    assert morning.counts == list(range(LOOK_EVERY, LABELS + 1, LOOK_EVERY))
    labelled = [event for event in events(morning.project) if event.kind == "labelled"][:LABELS]
    assert [(event.item, event.data["label"]) for event in labelled] == morning.pressed
    assert {event.annotator for event in labelled} == {"Ann"}
    assert all(event.data["seconds"] > 0 for event in labelled)


def test_a_model_is_trained_meanwhile_and_its_accuracy_stands_there_with_an_interval(morning: Morning) -> None:
    assert "%" in morning.desk.until_text("accuracy", r"\d%\s+\d+–\d+")
    assert morning.desk.get("training").get_attribute("data-state") in {"waiting", "running"}
    assert morning.session.record.trainings


def test_the_next_image_is_there_before_the_key_is_pressed(ann: Desk) -> None:
    fetched: list[str] = []
    kept, late, turns = 0, 0, 12  # promises kept: a label or a training may change which item comes next
    ann.page.on("request", lambda request: fetched.append(request.url))
    for _ in range(turns):
        with ann.page.expect_response("**/api/ahead*") as ahead:
            seen = ann.answer(right_key(ann, ann.seen()))
        likeliest = next(shown["item"] for shown in ahead.value.json() if shown["item"] != seen.item)
        ann.page.wait_for_function(IS_FETCHED, arg=likeliest)
        fetched.clear()
        shown = ann.answer(right_key(ann, seen))
        if shown.item == likeliest:
            kept += 1
            late += any(url.endswith(f"/items/{shown.item}/content") for url in fetched)
    assert kept > 0
    assert late == 0


@pytest.mark.parametrize("key", ["Backspace", "Control+z"])
def test_undo_brings_the_item_back_and_the_count_down(ann: Desk, morning: Morning, key: str) -> None:
    start, before, first = morning.now(), morning.session.status().labelled, ann.seen()
    second = ann.answer(right_key(ann, first))
    ann.answer(right_key(ann, second))
    ann.labelled(before + 2)
    ann.press(key)
    ann.until_seen(second.item)
    ann.press(key)
    ann.until_seen(first.item)
    ann.until_text("labelled-count", f"^{before}$")
    assert morning.since(start) == [
        ("labelled", first.item), ("labelled", second.item), ("undone", second.item), ("undone", first.item)
    ]  # fmt: skip


def test_skip_dont_know_bad_and_flag_are_different_things(ann: Desk, morning: Morning) -> None:
    start, before = morning.now(), morning.session.status()
    flagged = ann.seen()
    ann.press("f")
    ann.page.locator(".flagged").wait_for()
    assert ann.get("flag").get_attribute("aria-pressed") == "true"
    assert ann.seen() == flagged  # it stays
    skipped = flagged
    unknown = ann.answer("Space")
    bad = ann.answer("u")
    ann.answer("x")
    expected = [("flagged", flagged), ("skipped", skipped), ("dont_know", unknown), ("bad", bad)]
    assert morning.since(start) == [(kind, seen.item) for kind, seen in expected]
    after = morning.session.status()
    assert (after.skipped, after.unknown, after.bad, after.flagged) == (
        before.skipped + 1, before.unknown + 1, before.bad + 1, before.flagged + 1
    )  # fmt: skip
    assert after.labelled == before.labelled


def test_a_class_that_is_missing_is_typed_after_a_slash_and_used(ann: Desk, morning: Morning) -> None:
    start, first = morning.now(), ann.seen()
    ann.press("/")
    ann.page.keyboard.type("no digit")  # at once: not a letter is lost
    assert "no digit" in ann.get("add-class-option").inner_text()
    ann.press("Enter")
    second = ann.seen(other_than=first.item)
    key = ann.key_of("no digit")
    assert key == "Shift+Digit1"  # the eleventh
    ann.answer(key)
    assert morning.since(start) == [("class_added", None), ("labelled", first.item), ("labelled", second.item)]
    assert morning.session.status().class_counts[10] == 2
    for item in (second.item, first.item):  # they were digits after all
        ann.press("Backspace")
        ann.until_seen(item)


def test_suggestions_are_hidden_until_switched_on_and_enter_accepts_one(ann: Desk, morning: Morning) -> None:
    first = ann.seen()
    assert not ann.get("suggestion").is_visible()
    assert ann.page.locator(".class.guess").count() == 0
    ann.press("Enter")  # means nothing yet
    assert ann.seen() == first
    ann.press("s")
    for _ in range(20):  # audit items have none
        ann.get("suggestion").wait_for()
        if ann.get("accept").is_visible():
            break
        ann.answer(right_key(ann, ann.seen()))
    shown, start = ann.seen(), morning.now()
    guess = ann.page.locator(".class.guess .class-name").inner_text()
    ann.answer("Enter")
    assert morning.since(start) == [("labelled", shown.item)]
    label = next(event for event in events(morning.project)[start:] if event.kind == "labelled").data
    assert morning.session.record.classes[label["label"]] == guess
    assert label["suggestion"] == label["label"]
    ann.press("s")
    assert not ann.get("suggestion").is_visible()


def test_one_line_says_why_this_item_is_asked_for(ann: Desk, morning: Morning) -> None:
    seen = ann.seen()
    ann.page.locator(".why-words").filter(has_text=re.compile(r"\w+ \w+")).wait_for()
    assert ann.page.locator(".why-words").inner_text() == morning.session.why(seen.item).line
    ann.press("w")
    ann.page.locator(".why-more img").first.wait_for()
    ann.press("w")
    ann.page.locator(".why-more").wait_for(state="detached")


def test_the_reason_for_an_item_comes_once_the_server_is_back(ann: Desk) -> None:
    ann.page.route("**/why", lambda route: route.abort())
    ann.answer(right_key(ann, ann.seen()))
    ann.page.wait_for_timeout(400)
    assert not ann.page.locator(".why-words").inner_text().strip()
    ann.page.unroute("**/why")
    ann.page.locator(".why-words").filter(has_text=re.compile(r"\w+ \w+")).wait_for()
    ann.errors.clear()  # the browser's own words on calls that we cut off


def test_a_review_shows_planted_errors_and_one_key_keeps_or_changes(ann: Desk, morning: Morning) -> None:
    wrong = {morning.pressed[turn][0] for turn in WRONG}
    ann.go("review")
    ann.get("review-card").wait_for()
    found = {doubt.item for doubt in morning.session.review()[:8]}
    assert len(found & wrong) >= 2  # of the worst eight
    start, kept = morning.now(), int(ann.get("review-card").get_attribute("data-item") or -1)
    ann.press("k")
    ann.page.locator(f"[data-testid=review-card]:not([data-item='{kept}'])").wait_for()
    changed = int(ann.get("review-card").get_attribute("data-item") or -1)
    expected = ann.page.locator(".verdict .accent").inner_text()
    ann.press(ann.key_of(expected))
    ann.page.locator(f"[data-testid=review-card]:not([data-item='{changed}']), [data-testid=review-empty]").wait_for()
    assert morning.since(start) == [("kept", kept), ("relabelled", changed)]
    assert morning.session.record.classes[morning.session.card(changed).label or 0] == expected
    ann.press("Backspace")
    ann.page.locator(f"[data-testid=review-card][data-item='{changed}']").wait_for()
    assert morning.since(start)[-1] == ("undone", changed)
    assert kept not in {doubt.item for doubt in morning.session.review()}


def test_the_grid_confirms_many_likely_items_but_for_those_taken_out(ann: Desk, morning: Morning) -> None:
    start, before = morning.now(), morning.session.status().labelled
    ann.go("grid")
    tiles = ann.get("grid-tile")
    tiles.first.wait_for()  # of a class that has few labels, before one is picked
    ann.press(ann.key_of("3"))
    ann.page.locator("h1", has_text="Is each of these “3”?").wait_for()
    tiles.first.wait_for()
    shares = [int(words.split()[-1].removesuffix("%")) for words in tiles.locator(".tile-foot").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] <= 99  # nothing is ever certain
    items = [int(item) for item in tiles.evaluate_all("all => all.map(tile => tile.dataset.item)")]
    assert 2 < len(items) <= 20
    ann.press("b")
    assert tiles.nth(1).get_attribute("aria-pressed") == "false"
    ann.press("Enter")
    ann.labelled(before + len(items) - 1)
    chosen = [item for item in items if item != items[1]]
    assert morning.since(start) == [("labelled", item) for item in chosen]
    assert {event.data["source"] for event in events(morning.project)[start:] if event.kind == "labelled"} == {"grid"}
    shown = tiles.evaluate_all("all => all.map(tile => Number(tile.dataset.item))")
    assert not set(shown) & set(items)
    ann.press("Backspace")  # all at once
    ann.until_text("labelled-count", f"^{before}$")


def test_the_csv_that_is_downloaded_holds_what_the_log_holds(ann: Desk, morning: Morning, tmp_path: Path) -> None:
    ann.go("export")
    with ann.page.expect_download() as download:
        ann.get("export-csv").click()
    download.value.save_as(tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    record = morning.session.record
    ids = morning.session.project.pool.ids
    labelled = {
        ids[item]: record.classes[mark.label] for item, marks in record.labels.items() for mark in marks.values()
    }
    of_labels = [row for row in rows if row["decision"] == "label"]
    assert {row["id"]: row["label"] for row in of_labels} == labelled
    assert len(of_labels) == len(labelled)
    assert {row["annotator"] for row in rows} == {"Ann"}


def test_progress_shows_the_curve_and_whether_to_go_on(ann: Desk) -> None:
    ann.go("progress")
    ann.get("hint").locator("p").wait_for()
    assert len(ann.get("hint").locator("p").inner_text()) > 20
    ann.page.locator(".progress svg polyline.line").first.wait_for()
    assert "Ann" in ann.get("people").inner_text()


def test_a_question_mark_shows_all_keys_and_escape_gives_the_keys_back(ann: Desk) -> None:
    ann.press("?")
    assert "Skip" in ann.until_text("help-dialog", "Undo")
    before = ann.seen()
    ann.press("1")  # not while help is open
    assert ann.seen() == before
    ann.press("Escape")
    ann.get("help-dialog").wait_for(state="detached")
    ann.answer(right_key(ann, before))


@pytest.mark.parametrize("button", ["settings", "help"])
def test_after_a_window_was_opened_by_a_click_space_is_an_answer_again(
    ann: Desk, morning: Morning, button: str
) -> None:
    start, seen = morning.now(), ann.seen()
    ann.get(button).click()
    ann.get(f"{button}-dialog").wait_for()
    ann.press("Escape")
    ann.get(f"{button}-dialog").wait_for(state="detached")
    ann.answer("Space")
    assert ann.get(f"{button}-dialog").count() == 0
    assert morning.since(start) == [("skipped", seen.item)]


def test_a_class_that_differs_only_by_case_is_asked_about_first(ann: Desk, morning: Morning) -> None:
    before = list(morning.session.record.classes)

    def add(name: str) -> None:
        ann.get("add-class").click()
        ann.page.keyboard.type(name)
        ann.press("Enter")

    add("blot")
    ann.get("find-class").wait_for(state="detached")
    add("Blot")
    assert "“blot” already" in ann.until_text("class-twin", "too")
    ann.press("Enter")  # no
    ann.get("find-class").wait_for(state="detached")
    assert morning.session.record.classes == [*before, "blot"]
    add("Blot")
    ann.get("class-twin-yes").click()
    ann.get("find-class").wait_for(state="detached")
    assert morning.session.record.classes == [*before, "blot", "Blot"]


def test_labels_that_cannot_be_sent_survive_a_reload_and_are_sent_once(ann: Desk, morning: Morning) -> None:
    start = morning.now()
    ann.page.route("**/api/labels", lambda route: route.abort())
    given = []
    for _ in range(3):
        seen = ann.seen()
        given.append(seen.item)
        ann.answer(right_key(ann, seen))
    ann.until_text("banner", "3")
    assert morning.desk.get("queue-count").inner_text() == "3"
    ann.page.reload()
    ann.until_text("banner", "3")
    assert not ann.get("name-input").is_visible()
    assert ann.seen().item not in given  # nobody is asked twice
    ann.page.unroute("**/api/labels")
    ann.until_sent()
    ann.get("banner").wait_for(state="detached")
    assert morning.since(start) == [("labelled", item) for item in given]
    ann.seen()
    ann.errors.clear()  # the browser's own words on calls that we cut off


def test_two_tabs_of_one_person_send_each_label_once(ann: Desk, morning: Morning) -> None:
    start = morning.now()
    ann.page.route("**/api/labels", lambda route: route.abort())
    first = ann.seen()
    ann.answer(right_key(ann, first))
    ann.until_text("banner", "1")
    other = browser.another_tab(ann.page.context, ann.url)
    other.page.add_init_script(NOTE_NAME_INPUT)
    other.page.goto(ann.url)
    shared = other.seen()
    assert not other.page.evaluate("askedForName")  # known already, from the first moment on
    other.answer(right_key(other, shared))
    ann.page.unroute("**/api/labels")
    ann.until_sent()
    assert shared.item != first.item  # that one is decided, though the server has not heard of it
    assert Counter(morning.since(start)) == {("labelled", first.item): 1, ("labelled", shared.item): 1}
    other.require_calm()
    other.page.close()
    ann.errors.clear()
