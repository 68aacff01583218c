"""Pieces of messages, and the one spelling of our distribution's name."""

import re
import tomllib
from pathlib import Path

import pytest

from understudy.messages import DISTRIBUTION, UPGRADE, count_of, install_command, list_lines, list_some, reason_of

ROOT = Path(__file__).parents[1]
PLACES = ("src", "docs", "benchmarks", "examples", "tests", "page/src", ".ci")
TEXTS = (".py", ".md", ".toml", ".ts", ".tsx", ".svelte", ".js", ".html", ".jinja", ".yml", ".txt")


def test_the_distribution_is_the_one_that_is_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    extras = project["optional-dependencies"]
    assert install_command("vision") == "pip install 'understudy-al[vision]'"
    own = [needed for names in extras.values() for needed in names if needed.startswith("understudy")]
    assert own
    assert all(needed.startswith(f"{DISTRIBUTION}[") for needed in own)


def test_nothing_tells_people_to_install_the_other_project() -> None:
    files = [path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in TEXTS]
    wrong = re.compile(r"understudy\[|pip install (-\S+ )*['\"]?understudy(?!-al)\b")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()[:80]}"
        for path in [*files, *ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile"]
        if path != Path(__file__)
        for line in path.read_text(errors="replace").splitlines()
        if wrong.search(line)
    ]
    assert len(files) > 400
    assert found == []
    assert wrong.search("pip install understudy")
    assert not wrong.search(f"{UPGRADE}; {install_command('all')}")


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d"], "a, b, c and 1 more"),
     (range(1234), "0, 1, 2 and 1,231 more")],
)  # fmt: skip
def test_a_long_list_is_cut_short(names: list[object], text: str) -> None:
    assert list_some(names) == text


def test_of_a_list_that_was_cut_before_the_rest_is_counted_too() -> None:
    assert list_some(["a", "b", "c", "d"], 3, total=1000) == "a, b, c and 997 more"
    assert list_some(["a", "b"], 3, total=2) == "a, b"
    assert list_some(["a", "b"], 3, total=3) == "a, b and 1 more"


def test_lines_are_indented_and_cut_short() -> None:
    assert list_lines([]) == ""
    assert list_lines(["a", "b"], 2) == "\n  a\n  b"
    assert list_lines(range(1234), 2) == "\n  0\n  1\n  and 1,232 more"


def test_a_count_has_its_noun_in_the_right_number() -> None:
    assert [count_of(n, "item") for n in (0, 1, 2000)] == ["0 items", "1 item", "2,000 items"]
    assert count_of(["x"], "file") == "1 file"
    assert [count_of(n, "class", "classes") for n in (1, 2)] == ["1 class", "2 classes"]


def test_the_reason_of_an_error_is_one_line_and_never_empty() -> None:
    assert reason_of(ValueError("two\n  lines")) == "two lines"
    assert reason_of(MemoryError()) == "MemoryError"
