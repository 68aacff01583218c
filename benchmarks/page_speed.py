"""From the key of a class to the next image on the screen, in a real browser: what a person who labels waits for.

    python benchmarks/page_speed.py --out benchmarks/results/page-speed.json

Chromium shows the page of `understudy label --demo`, and playwright presses the keys. The time runs in the page itself,
from the browser's own time of the key press to the moment after the frame that holds the next image, decoded, was
painted. "At a person's pace" leaves 0.6 seconds between two keys; "at once" presses as soon as there is something to
see, faster than anybody looks. "Fetched ahead": the image was there before the key was pressed.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import Page, sync_playwright

from understudy.data.sources import load

START = "from understudy.cli import main; main()"
NOTE_KEYS = """
window.presses = [];
addEventListener("keydown", (event) => { if (/^Digit/.test(event.code)) presses.push(event.timeStamp); }, true);
performance.setResourceTimingBufferSize(20000);
"""
NEXT = """(item) => {
  const frame = document.querySelector("[data-testid=item]");
  if (!frame || document.querySelector(".label.answered") || frame.dataset.shownItem === item) return null;
  return { item: frame.dataset.shownItem, id: document.querySelector(".stage .item-id").title };
}"""
TURNS = """() => {
  const fetched = {};
  for (const entry of performance.getEntriesByType("resource")) {
    const item = /items\\/(\\d+)\\/content/.exec(entry.name)?.[1];
    if (item) fetched[item] = entry.responseEnd;
  }
  const turns = window.__understudy.turns.filter((turn) => turn.keyAt !== null);
  return turns.map(({ item, shownAt }, i) => ({ ms: shownAt - presses[i], ahead: fetched[item] <= presses[i] }));
}"""


def serve(project: Path, learner: str) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", START, "label", "--demo", "--project", str(project), "--no-browser"]
    process = subprocess.Popen([*command, "--port", str(port), "--learner", learner], start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    while process.poll() is None:
        try:
            if httpx.get(f"{url}/api/status").json()["phase"] == "ready":
                return process, url
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise SystemExit("the server ended; see above")


def label(page: Page, truth: dict[str, int], count: int, pace: float) -> list[dict[str, Any]]:
    """So many labels with this pause before each; how long the next image took, each time."""
    before = len(page.evaluate(TURNS)) if page.evaluate("() => Boolean(window.__understudy)") else 0
    keys = page.locator(".classes kbd").all_inner_texts()
    item: str | None = None
    for _ in range(count):
        seen = page.wait_for_function(NEXT, arg=item).json_value()
        item = seen["item"]
        time.sleep(pace)
        page.keyboard.press(keys[truth[seen["id"]]])
    page.wait_for_function(NEXT, arg=item)
    time.sleep(0.3)
    turns: list[dict[str, Any]] = page.evaluate(TURNS)
    return turns[before:]


def figures(turns: list[dict[str, Any]]) -> dict[str, float]:
    times = [turn["ms"] for turn in turns]
    ahead = float(np.mean([turn["ahead"] for turn in turns]))
    low, ninety, high = np.percentile(times, [50, 90, 99])
    return {"labels": len(times), "median_ms": round(low, 1), "p90_ms": round(ninety, 1), "p99_ms": round(high, 1),
            "worst_ms": round(max(times), 1), "fetched_ahead": round(ahead, 3)}  # fmt: skip


def measure(count: int, learner: str) -> dict[str, Any]:
    pool = load("digits").pool
    assert pool.labels is not None
    truth = {name: int(digit) for name, digit in zip(pool.ids, pool.labels, strict=True)}
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("there is no chromium to measure with; install it")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        server, url = serve(Path(scratch) / "digits.understudy", learner)
        try:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.add_init_script(NOTE_KEYS)
            page.goto(url)
            page.get_by_test_id("name-input").fill("Ann")
            page.keyboard.press("Enter")
            page.get_by_test_id("item").wait_for()
            paced = label(page, truth, count, 0.6)
            at_once = label(page, truth, count, 0.0)
            version = browser.version
            browser.close()
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    return {"browser": f"Chromium {version}", "at_a_persons_pace": figures(paced), "at_once": figures(at_once)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=60)
    parser.add_argument("--learner", default="modern")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "learner": given.learner,
             **measure(given.labels, given.learner)}  # fmt: skip
    print(json.dumps(found, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
