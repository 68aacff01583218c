"""Checks a built site without a browser: every link leads somewhere, no other host is asked, and words are found.

python docs/site/check_site.py site
"""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.search.en import SearchEnglish

# What a reader may look for, and the page that must be found.
SEARCHES = {
    "lasso": "docs/label",
    "BADGE": "docs/strategies/badge",
    "anchor": "docs/surrogate",
    "ActiveLoop": "docs/api/understudy",
    "audit items": "docs/accuracy-and-stopping",
    "postgresql": "docs/event-log",
    "handwritten digits": "docs/notebooks/choose_what_to_label",
}
TAG = re.compile(r"<(a|link|script|img|source|iframe)\b[^>]*?\b(href|src)=\"([^\"]*)\"", re.IGNORECASE)
ANCHOR = re.compile(r"\b(?:id|name)=\"([^\"]+)\"")
STYLE_URL = re.compile(r"url\(\s*[\"']?(?!data:)([^\"')]+)|@import\s+[\"']([^\"']+)")


@cache
def anchors_of(page: Path) -> frozenset[str]:
    return frozenset(unescape(name) for name in ANCHOR.findall(page.read_text()))


def faults_of(page: Path, site: Path) -> Iterator[str]:
    """Links of a page that lead nowhere, and what it would load from elsewhere."""
    for tag, _, target in set(TAG.findall(page.read_text())):
        url = urlsplit(unescape(target))
        if url.scheme or url.netloc:
            if tag.lower() != "a" and url.scheme != "data":
                yield f"asks another host: {target}"
            continue
        file = (page.parent / unquote(url.path)).resolve() if url.path else page
        if file.is_dir():
            file /= "index.html"
        if not file.is_relative_to(site) or not file.exists():
            yield f"leads nowhere: {target}"
        elif url.fragment and file.suffix == ".html" and unquote(url.fragment) not in anchors_of(file):
            yield f"no such place on the page: {target}"


def faults_of_style(style: Path) -> Iterator[str]:
    """What a style sheet would load that is not there."""
    for target in {"".join(found) for found in STYLE_URL.findall(style.read_text())}:
        url = urlsplit(target)
        if url.scheme or url.netloc:
            yield f"asks another host: {target}"
        elif url.path and not (style.parent / url.path).exists():
            yield f"leads nowhere: {target}"


def found_by(words: str, site: Path) -> set[str]:
    """The pages that hold every one of these words, by the index that the site's search uses."""
    text = (site / "searchindex.js").read_text()
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    stem = SearchEnglish({}).stem
    pages: list[set[str]] = []
    for word in map(stem, words.lower().split()):
        places = [index[kind].get(word, []) for kind in ("terms", "titleterms")]
        numbers = {number for place in places for number in (place if isinstance(place, list) else [place])}
        pages.append({index["docnames"][number] for number in numbers})
    return set.intersection(*pages)


def check(site: Path, searches: dict[str, str]) -> Iterator[str]:
    """Everything that is wrong with a site, in a line each."""
    for page in sorted(site.rglob("*.html")):
        yield from (f"{page.relative_to(site)}: {fault}" for fault in sorted(faults_of(page, site)))
    for style in sorted(site.rglob("*.css")):
        yield from (f"{style.relative_to(site)}: {fault}" for fault in sorted(faults_of_style(style)))
    for words, wanted in searches.items():
        if wanted not in found_by(words, site):
            yield f"a search for {words!r} does not find {wanted}"


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    found = list(check(folder, SEARCHES))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(list(folder.rglob('*.html')))} pages, {len(SEARCHES)} searches, {len(found)} faults")
    sys.exit(bool(found))
