"""Every page of the documentation site, looked at in a real browser: what is broken, too wide, or asks another host?

    make site && python docs/site/look_at_site.py site --out benchmarks/results/site-pages.txt

Chromium opens each page at the width of a desk and of a telephone, light and dark; a page that shows a source file only
as a telephone does, light. Any host but the site's own is refused and named. `--pictures FOLDER` keeps what it saw.
Then it searches for a few words, as a reader would.
"""

import argparse
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from check_site import SEARCHES
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, Route, sync_playwright

WIDTHS = (1280, 390)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SETTLE = "() => window.MathJax?.startup ? MathJax.startup.promise.then(() => true) : true"
SEARCHED = "() => /[0-9]|did not match/.test(document.querySelector('#search-results p')?.textContent)"
FAULTS = """() => {
  const found = [];
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) {
    const past = (e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".sidebar-drawer, .toc-drawer");
    const widest = [...document.querySelectorAll("article *, main *")].find(past);
    found.push(`${wide} px too wide: ${widest ? widest.outerHTML.slice(0, 80) : "?"}`);
  }
  for (const image of document.images)
    if (image.complete && !image.naturalWidth) found.push(`picture not shown: ${image.src}`);
  for (const error of document.querySelectorAll("mjx-merror, .problematic, .system-message"))
    found.push(`error on the page: ${error.textContent.slice(0, 80)}`);
  const words = document.createTreeWalker(document.querySelector("article, main"), NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const { data, parentElement } = words.currentNode;
    if (parentElement.closest("pre, code, script, style, mjx-container")) continue;
    if (/\\$[^\\s$][^$]*\\$|\\\\\\(|\\\\\\[/.test(data)) found.push(`mathematics as text: ${data.trim().slice(0, 80)}`);
  }
  const formulas = [...document.querySelectorAll(".math")].filter((e) => !e.querySelector("mjx-container"));
  if (formulas.length) found.push(`${formulas.length} formulas not set, the first: ${formulas[0].textContent}`);
  return found;
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: what fails is reported by the page that asked for it."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


class Visitor:
    """A browser window of one width and theme that notes what goes wrong."""

    def __init__(self, browser: Browser, root: str, width: int, theme: Literal["light", "dark"]) -> None:
        self.root, self.name = root, f"{width}-{theme}"
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        self.faults: list[str] = []
        self.page.route(lambda url: urlsplit(url).netloc != urlsplit(root).netloc, self.refuse)
        self.page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))
        self.page.on("console", self.told)
        self.page.on("requestfailed", self.failed)
        self.page.on("response", self.answered)

    def refuse(self, route: Route) -> None:
        self.faults.append(f"asks another host: {route.request.url}")
        route.abort()

    def told(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type} in the console: {message.text}")

    def answered(self, response: Response) -> None:
        if response.status >= 400:
            self.faults.append(f"missing: {response.url}")

    def failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # so end requests of a page that is being left, for its icon say
            self.faults.append(f"failed: {request.url}")

    def visit(self, path: str, pictures: Path | None = None) -> list[str]:
        """What is wrong with a page, in a line each."""
        self.faults.clear()
        self.page.goto(self.root + path, wait_until="load")
        self.page.evaluate(SETTLE)
        self.faults.extend(self.page.evaluate(FAULTS))
        if pictures:
            file = pictures / f"{path.removesuffix('.html').replace('/', '_')}-{self.name}.png"
            self.page.screenshot(path=file, full_page=True)
        return [f"{path} {self.name}: {fault}" for fault in dict.fromkeys(self.faults)]

    def search(self, words: str) -> list[str]:
        """The pages that are found, best first."""
        self.page.goto(self.root + f"search.html?q={words}", wait_until="load")
        self.page.wait_for_function(SEARCHED)
        links = self.page.locator("#search-results li > a").evaluate_all("links => links.map((link) => link.href)")
        return [urlsplit(link).path.lstrip("/") for link in links]


def look_at(browser: Browser, site: Path, root: str, pictures: Path | None) -> Iterator[str]:
    """What is wrong, one line each, and at the end of each kind what was looked at."""
    paths = sorted(file.relative_to(site).as_posix() for file in site.rglob("*.html"))
    paths.remove("index.html")  # which leads on at once
    files = [path for path in paths if re.search(r"\.py\.html$", path)]
    pages = [path for path in paths if path not in files]
    visits = [(size, pages) for size in product(WIDTHS, THEMES)] + [((WIDTHS[-1], THEMES[0]), files)]
    faults = 0
    for (width, theme), chosen in visits:
        visitor = Visitor(browser, root, width, theme)
        for path in chosen:
            found = visitor.visit(path, pictures if chosen is pages else None)
            faults += len(found)
            yield from found
        visitor.page.close()
        yield f"{len(chosen)} pages{' of source files' if chosen is files else ''} at {width} px, {theme}"
    finder = Visitor(browser, root, WIDTHS[0], THEMES[0])
    for words, page in SEARCHES.items():
        wanted, found = f"{page}.html", finder.search(words)
        place = found.index(wanted) + 1 if wanted in found else None
        faults += place is None or place > 5
        yield f"search for {words!r}: {wanted} is number {place} of {len(found)}"
    yield f"{faults} faults"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pictures", type=Path)
    args = parser.parse_args()
    if args.pictures:
        args.pictures.mkdir(parents=True, exist_ok=True)
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright, served(args.site) as root:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        version, lines = browser.version, []
        for line in look_at(browser, args.site, root, args.pictures):
            print(line, flush=True)
            lines.append(line)
        browser.close()
    if args.out:
        args.out.write_text("\n".join([f"Chromium {version}; a fault has a line of its own", *lines, ""]))
    raise SystemExit(lines[-1] != "0 faults")


if __name__ == "__main__":
    main()
