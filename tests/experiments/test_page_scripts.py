"""The scripts in a page of results: the plotting library that was built from pinned packages, and nothing fetched."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "understudy" / "experiments" / "static"
NAMESPACE = re.compile(r"http://www\.w3\.org/[\w/]+")  # names of XML, never fetched


@pytest.mark.parametrize("path", sorted(STATIC.iterdir()), ids=lambda path: path.name)
def test_a_script_fetches_nothing_and_stands_in_a_page(path: Path) -> None:
    text = NAMESPACE.sub("", path.read_text())
    assert re.findall(r"https?://", text) == []
    assert not re.search(r"\beval\(|new Function\(|\bimport\(|sourceMappingURL", text)
    assert "</script" not in text
    assert "<!--" not in text


def test_the_library_is_of_the_pinned_version_and_brings_its_licences() -> None:
    lock = json.loads((ROOT / "page" / "plot" / "package-lock.json").read_text())["packages"]
    head = (STATIC / "plot.js").read_text().partition("*/")[0]
    named = dict(re.findall(r"(?:^|, )((?:@observablehq/)?[\w-]+) (\d+\.\d+\.\d+) \(", head, re.MULTILINE))
    assert {"@observablehq/plot", "d3-scale", "d3-shape"} <= set(named)
    for name, version in named.items():
        assert lock[f"node_modules/{name}"]["version"] == version, "run make page"
    assert "Permission to use, copy, modify" in head
    assert (STATIC / "plot.js").stat().st_size < 300_000
