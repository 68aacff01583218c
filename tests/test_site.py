"""The check of the documentation site finds what is wrong with one, and the site's own parts do what they say.

The site itself is built and checked by `make check`.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import understudy

ROOT = Path(__file__).parents[1]
API = [ROOT / "docs" / "api.md", *sorted((ROOT / "docs" / "api").glob("*.md"))]


@pytest.fixture(scope="module", autouse=True)
def _on_the_path() -> Iterator[None]:
    folder = str(ROOT / "docs" / "site")
    sys.path.insert(0, folder)
    yield
    sys.path.remove(folder)


@pytest.fixture(scope="module")
def pages() -> Any:
    return importlib.import_module("repository_pages")


@pytest.fixture(scope="module")
def checks() -> Any:
    return importlib.import_module("check_site")


def site(folder: Path, **files: str) -> Path:
    """A small site: pages by name, and an index of words in which "anchor" is on docs/a alone."""
    index = {"docnames": ["docs/a", "docs/b"], "terms": {"anchor": 0, "label": [0, 1]}, "titleterms": {"page": [0, 1]}}
    (folder / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})")
    for name, text in files.items():
        (folder / f"{name}.html").write_text(text)
    return folder.resolve()


def test_a_site_whose_links_hold_has_no_faults(tmp_path: Path, checks: Any) -> None:
    whole = site(
        tmp_path, a='<h1 id="top"><a href="b.html#end">b</a> <a href="#top">', b='<p id="end"><img src="a.html">'
    )
    assert list(checks.check(whole, {"anchors": "docs/a", "labelling page": "docs/b"})) == []


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="gone.html">', "leads nowhere: gone.html"),
        ('<a href="../outside.html">', "leads nowhere: ../outside.html"),
        ('<a href="a.html#gone">', "no such place on the page: a.html#gone"),
        ('<img alt="" src="gone.png">', "leads nowhere: gone.png"),
        ('<script src="https://cdn.example/a.js">', "asks another host: https://cdn.example/a.js"),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', "asks another host: //fonts.example/a.css"),
    ],
)
def test_a_link_that_does_not_hold_is_named_with_its_page(tmp_path: Path, checks: Any, page: str, fault: str) -> None:
    assert list(checks.check(site(tmp_path, a=page), {})) == [f"a.html: {fault}"]


def test_a_style_sheet_that_asks_another_host_is_named(tmp_path: Path, checks: Any) -> None:
    (tmp_path / "a.css").write_text("@import 'https://fonts.example/a'; p { background: url(data:image/png;base64,) }")
    assert list(checks.check(site(tmp_path), {})) == ["a.css: asks another host: https://fonts.example/a"]


def test_a_search_that_misses_its_page_is_named(tmp_path: Path, checks: Any) -> None:
    found = list(checks.check(site(tmp_path), {"anchored labels": "docs/b", "nothing": "docs/a"}))
    assert found == [
        "a search for 'anchored labels' does not find docs/b",
        "a search for 'nothing' does not find docs/a",
    ]


def test_docstrings_are_read_as_they_are_written(pages: Any) -> None:
    lines = ["`ask` of |n| rows * k;", "see docs/strategies/badge.md"]
    pages.read_as_markdown(None, "function", "ask", None, None, lines)
    assert lines == [r"``ask`` of \|n\| rows \* k;", "see :doc:`/docs/strategies/badge`"]


def test_types_are_named_as_the_code_names_them(pages: Any) -> None:
    arguments = (
        "(a: numpy.ndarray, rng: numpy.random._generator.Generator, on: str | torch.device, n: typing.Any = 0.5)"
    )
    assert pages.name_types(None, "", "", None, None, arguments, "understudy.loop.ActiveLoop") == (
        "(a: np.ndarray, rng: np.random.Generator, on: str | torch.device, n: Any = 0.5)",
        "ActiveLoop",
    )


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("src/understudy/core/surrogate.py", "src/understudy/core/surrogate.py"),
        ("examples/notebooks/your_own_model.py", "docs/notebooks/your_own_model"),
        ("benchmarks/picks.py", "benchmarks/picks.py"),
        ("docs/images/label.png", None),
        ("tests/test_site.py", None),
    ],
)
def test_a_file_of_python_has_a_page_and_others_are_downloads(pages: Any, path: str, page: str | None) -> None:
    assert pages.page_of(path) == page
    assert (ROOT / path).exists()


def test_every_name_at_the_front_door_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "api" / "understudy.md").read_text()
    assert [name for name in understudy.__all__ if f":: {name}\n" not in text] == []


def test_the_reference_leads_to_each_of_its_pages() -> None:
    assert [page.name for page in API[1:] if f"(api/{page.name})" not in API[0].read_text()] == []
