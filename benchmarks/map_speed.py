"""How long a frame of the map takes while somebody zooms and moves it, in a real browser, beside a map of few items.

    python benchmarks/map_speed.py [--out benchmarks/results/map-speed.json]

Chromium without a graphics card: WebGL is computed by the processor (SwiftShader), which is the slow case. The page is
that of a small project, its map is made up: 60,000 items in clusters, and ten for a frame that is all but empty. A
frame lasts from one animation frame to the next, each with a turn of the wheel.
"""

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from page_speed import serve
from playwright.sync_api import Browser, Page, Route, sync_playwright

FRAMES = 150
CLASSES = 10
MEASURE = """async (frames) => {
  const canvas = document.querySelector("[data-testid=map-canvas]");
  const box = canvas.getBoundingClientRect();
  const next = () => new Promise(requestAnimationFrame);
  const lasts = [];
  let before = await next();
  for (let turn = 0; turn < frames; turn++) {
    const deltaY = Math.sin(turn / 12) > 0 ? -30 : 30;
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, cancelable: true, bubbles: true,
      clientX: box.left + box.width * 0.4, clientY: box.top + box.height * 0.6 }));
    const now = await next();
    lasts.push(now - before);
    before = now;
  }
  return lasts;
}"""


def made_up(n: int) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    own = rng.integers(0, CLASSES, n)
    middles = rng.random((CLASSES, 2)) * 0.8 + 0.1
    places = np.clip(middles[own] + rng.normal(0, 0.04, (n, 2)), 0, 1)
    confidence = rng.integers(30, 100, n).astype(np.uint8)
    states = (rng.random(n) < 0.05).astype(np.uint8)
    shown = {"items": n, "layout": "neighbours", "is_being_made": False, "trouble": None, "points": "p", "colours": "c"}
    return {
        "map": json.dumps(shown).encode(),
        "points": np.round(places * 65535).astype("<u2").tobytes(),
        "colours": own.astype(np.uint8).tobytes() + confidence.tobytes() + states.tobytes(),
    }


def frames(browser: Browser, url: str, n: int, query: str) -> dict[str, Any]:
    page: Page = browser.new_page(viewport={"width": 1280, "height": 800})
    answers = made_up(n)

    def answer(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        kind = "application/json" if name == "map" else "application/octet-stream"
        route.fulfill(body=answers[name], content_type=kind)

    page.route("**/api/map**", answer)
    page.goto(url)
    page.get_by_test_id("name-input").fill("Ann")
    page.keyboard.press("Enter")
    page.get_by_test_id("item").wait_for()
    page.goto(f"{url}#/map{query}")
    page.get_by_test_id("map-canvas").wait_for()
    page.evaluate(MEASURE, 20)
    lasts = page.evaluate(MEASURE, FRAMES)
    drawn_by = page.get_by_test_id("map-canvas").get_attribute("data-drawn-by")
    page.close()
    half, ninety_five = np.percentile(lasts, [50, 95])
    found = {"items": n, "drawn_by": drawn_by, "median_ms": round(half, 1), "p95_ms": round(ninety_five, 1)}
    print(json.dumps(found), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("there is no chromium to measure with; install it")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        server, url = serve(Path(scratch) / "digits.understudy", "quick")
        try:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            found = [frames(browser, url, n, query) for query in ("", "?canvas=2d") for n in (10, 60_000)]
            version = browser.version
            browser.close()
        finally:
            server.kill()
            server.wait()
    report = {
        "browser": f"Chromium {version}, no graphics card",
        "cores": os.cpu_count(),
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "frames": found,
        "median_beside_an_empty_frame": {
            few["drawn_by"]: round(many["median_ms"] / few["median_ms"], 2)
            for few, many in zip(found[::2], found[1::2], strict=True)
        },
    }
    print(json.dumps(report, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
