"""Pieces of messages, and the one spelling of our distribution's name."""

import re
import tomllib
from pathlib import Path

import pytest

from understudy.messages import DISTRIBUTION, UPGRADE, count_of, install_command, list_some

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


def test_a_count_has_its_noun_in_the_right_number() -> None:
    assert [count_of(n, "item") for n in (0, 1, 2000)] == ["0 items", "1 item", "2,000 items"]
    assert count_of(["x"], "file") == "1 file"
