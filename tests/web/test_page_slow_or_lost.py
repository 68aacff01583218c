"""A lost or slow block of a pool on a cluster, as the page names it, in a real browser."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.distributed.lost_blocks import lost_block, rows_of, session_on_workers
from tests.web import browser
from tests.web.browser import desk
from tests.web.serving import served
from understudy.distributed.holders import ROUNDS_SHOWN, SLOW_ROUNDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

chromium = browser.chromium


def test_the_page_names_a_block_that_is_lost_or_slow_and_labelling_goes_on(chromium: "Browser", tmp_path: Path) -> None:
    with session_on_workers(tmp_path) as session, served(session) as running, desk(chromium, running.url, "ann") as ann:
        first = ann.seen()
        assert ann.get("slow-or-lost").count() == 0
        with lost_block(session, 1) as may_go_on:
            ann.press("1")
            said = ann.until_text("slow-or-lost", "lost")
            assert said == "The block of rows 20 to 39 on 10.0.0.3 was lost and is being made again; labels are safe."
            may_go_on.set()
            assert ann.seen(other_than=first.item).item != first.item
        said = ann.until_text("slow-or-lost", "has been made again")
        assert (
            said
            == "The block of rows 20 to 39 on 10.0.0.3 was lost and has been made again on 10.0.0.3; no label was lost."
        )
        rows = rows_of(session)
        with session.lock:
            for _ in range(ROUNDS_SHOWN):
                rows.row_sum()
        ann.get("slow-or-lost").wait_for(state="detached")
        for _ in range(SLOW_ROUNDS):
            rows.holders._note_slow({0: 0.9, 1: 0.01, 2: 0.02})
        said = ann.until_text("slow-or-lost", "slow")
        assert said == (
            "The block of rows 0 to 19 on 10.0.0.3 has been slow for 5 rounds: 0.90 s where the others take 0.01 s."
        )
        ann.go("progress")
        assert ann.get("slow-or-lost").is_visible()
        rows.holders._note_slow({0: 0.02, 1: 0.01, 2: 0.02})
        ann.get("slow-or-lost").wait_for(state="detached")
        ann.require_calm()
