"""The documentation is complete, its links lead somewhere, and its numbers are those of the code."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
import torch

import understudy
import understudy.core
from tests.made_pages import first_sentence, folders, modules_page, strategies_page
from understudy import Explanation, Surrogate
from understudy.core.options import DEFAULTS, METHODS
from understudy.core.options import NAMES as OPTIONS
from understudy.strategies.listing import GROUPS, module_of
from understudy.strategies.registry import STRATEGIES

ROOT = Path(__file__).parents[1]
PAGES = [
    page for folder in (".", "docs", "docs/api", "docs/strategies") for page in sorted(ROOT.glob(f"{folder}/*.md"))
]
NAMES = [page.relative_to(ROOT).as_posix().removeprefix("docs/") for page in PAGES]
DOCS = {name: page.read_text() for name, page in zip(NAMES, PAGES, strict=True)}
SECTIONS = ["What it does", "When it helps", "Cost", "Where it comes from", "What the original code does differently"]

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")


def in_code(page: str) -> set[str]:
    """What a page sets in code spans outside its blocks, cut into words."""
    return {word for span in CODE.findall(FENCE.sub("", DOCS[page])) for word in re.findall(r"\w+", span)}


def anchors(text: str) -> set[str]:
    """The names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [name for name in vars(Surrogate) if not name.startswith("_")])
def test_every_public_name_of_the_surrogate_is_documented(name: str) -> None:
    assert name in in_code("surrogate.md")
    assert inspect.getdoc(getattr(Surrogate, name))


@pytest.mark.parametrize("name", list(inspect.signature(Surrogate).parameters))
def test_every_option_of_the_surrogate_is_documented_with_its_default(name: str) -> None:
    assert name in in_code("surrogate.md")
    parameter = inspect.signature(Surrogate).parameters[name]
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        row = re.search(rf"^\| `{name}` \| ([^|]*) \|", DOCS["surrogate.md"], re.MULTILINE)
        assert row is not None, "the table of options lacks it"
        default = row.group(1).strip("`")
        shown = f'"{parameter.default}"' if isinstance(parameter.default, str) else str(parameter.default)
        assert default == shown


@pytest.mark.parametrize("name", OPTIONS)
def test_the_table_of_methods_has_every_option_with_its_defaults(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| ([^|]*) \| ([^|]*) \| [A-Z]", DOCS["surrogate.md"], re.MULTILINE)
    assert row is not None, "the table lacks it"
    for method, found in zip(METHODS, row.groups(), strict=True):
        if name not in DEFAULTS[method]:
            assert found == "–", f"{method} has no use for it"
        else:
            value = DEFAULTS[method][name]
            number = isinstance(value, float)
            shown = f'`"{value}"`' if isinstance(value, str) else str(value)
            assert float(found) == value if number else found == shown


def test_every_field_of_an_explanation_is_documented() -> None:
    assert set(Explanation.__dataclass_fields__) <= in_code("surrogate.md")


@pytest.mark.parametrize("name", [name for name in understudy.__all__ if not name.startswith("_")])
def test_every_name_at_the_front_door_is_documented(name: str) -> None:
    assert any(name in in_code(page) for page in ("surrogate.md", "pools.md", "loop.md", "strategies.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        if heading:
            assert heading in anchors(target.read_text()), f"{link}: no such heading"


BLOCK_OF_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [name for name in NAMES if BLOCK_OF_PYTHON.search(DOCS[name])])
def test_every_name_that_a_page_imports_is_there(page: str) -> None:
    """The blocks are run elsewhere, which takes minutes; a name that moved shows here at once."""
    for code in BLOCK_OF_PYTHON.findall(DOCS[page]):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("understudy"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == [], node.module


def test_the_page_of_modules_is_that_of_the_code() -> None:
    assert DOCS["modules.md"] == modules_page(), "run: make format"


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_every_module_says_what_it_is_for(folder: Path) -> None:
    assert [file.name for file in folder.glob("*.py") if not first_sentence(file)] == []


def test_the_notation_of_the_core_is_that_of_the_mathematics_page() -> None:
    table = re.split(r"^-{5}.*$", understudy.core.__doc__ or "", flags=re.MULTILINE)[1]
    names = [name for line in table.splitlines() for name in re.findall(r"\w+", line[11:23])]
    assert {"features", "F", "W", "R", "M", "nu", "influence", "accuracy", "Z"} <= set(names)
    assert not set(names) - in_code("mathematics.md")


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_has_a_page_with_every_section(name: str) -> None:
    page = f"strategies/{module_of(name)}.md"
    assert name in in_code(page)
    headings = re.findall(r"^## (.*)$", FENCE.sub("", DOCS[page]), re.MULTILINE)
    assert [heading for heading in headings if heading in SECTIONS] == SECTIONS
    assert f"[`{name}`]({page})" in DOCS["strategies.md"], "the table of all strategies lacks it"


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_setting_of_a_strategy_is_on_its_page(name: str) -> None:
    given = STRATEGIES[name]
    settings = inspect.signature(getattr(given, "func", given)).parameters
    assert set(settings) <= in_code(f"strategies/{module_of(name)}.md")


def test_the_tables_of_strategies_are_those_of_the_code() -> None:
    assert DOCS["strategies.md"] == strategies_page(), "run: make format"
    assert {name for members in GROUPS.values() for name in members} == set(STRATEGIES)


def constants() -> list[tuple[str, str]]:
    """Name and value of each constant in the mathematics page's table of them."""
    return re.findall(r"^\| `(\w+\.\w+(?:\[\w+\])?)` \| (\S+) \|", DOCS["mathematics.md"], re.MULTILINE)


@pytest.mark.parametrize(("name", "value"), constants())
def test_constants_on_the_mathematics_page_are_those_of_the_code(name: str, value: str) -> None:
    module, attribute, key = re.fullmatch(r"(\w+)\.(\w+)(?:\[(\w+)\])?", name).groups()  # type: ignore[union-attr]
    found = getattr(importlib.import_module(f"understudy.core.{module}"), attribute)
    assert (found[getattr(torch, key)] if key else found) == float(value)


def test_there_are_constants_to_compare() -> None:
    assert len(constants()) > 10


def test_the_changelog_speaks_of_this_version() -> None:
    assert f"[{understudy.__version__}]" in DOCS["CHANGELOG.md"]


def test_every_verb_of_the_makefile_is_in_the_contributing_page() -> None:
    verbs = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(verbs) > 3
    for verb in verbs:
        assert f"`make {verb}`" in DOCS["CONTRIBUTING.md"]


def linked(page: Path) -> set[Path]:
    """The pages that a page links to."""
    links = re.findall(r"\]\(([^)#\s]+\.md)[^)\s]*\)", FENCE.sub("", page.read_text()))
    return {(page.parent / link).resolve() for link in links if not re.match(r"[a-z]+:", link)}


def test_the_index_names_every_page_and_leads_to_every_strategy() -> None:
    index = ROOT / "docs" / "index.md"
    named = linked(index)
    assert sorted(page.name for page in ROOT.glob("docs/*.md") if page != index and page not in named) == []
    assert {page.resolve() for page in ROOT.glob("docs/strategies/*.md")} <= linked(ROOT / "docs" / "strategies.md")
    assert {index, ROOT / "docs" / "tutorial.md"} <= linked(ROOT / "README.md")


def test_the_first_screen_of_the_readme_needs_no_link() -> None:
    """Where the README is shown without the repository, on PyPI say, its relative links lead nowhere."""
    first, _, _ = DOCS["README.md"].partition("\n## ")
    assert len(first.splitlines()) < 35
    pictures = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", first)
    assert [target for _, target in pictures] == re.findall(r"\]\(([^)]+)\)", first)
    for said in ("make demo", "make test", "pip install understudy-al", "understudy label"):
        assert said in first
    for description, target in pictures:
        assert len(description) > 40, "this is all that is shown where the picture is not"
        assert (ROOT / target).stat().st_size < 150_000


def test_the_readme_imports_from_the_front_door() -> None:
    code = "".join(BLOCK_OF_PYTHON.findall(DOCS["README.md"]))
    imported = re.findall(r"^(?:from|import) (understudy(?:\.\w+)*)(?: import (.*))?$", code, re.MULTILINE)
    assert {module for module, _ in imported} == {"understudy"}
    assert {name for _, names in imported for name in names.split(", ") if names} <= set(understudy.__all__)


def test_the_readme_counts_the_strategies_right() -> None:
    assert f"There are {len(STRATEGIES)} strategies" in DOCS["README.md"]


def exists(path: str) -> bool:
    return (ROOT / path).exists() or (ROOT / "src" / "understudy" / path).exists()


def text_of(path: str) -> str:
    inside = ROOT / "src" / "understudy" / path
    return (inside if inside.exists() else ROOT / path).read_text()


def test_the_architecture_names_files_that_are_there_and_what_is_in_them() -> None:
    text = " ".join(FENCE.sub("", DOCS["architecture.md"]).split())
    paths = set(re.findall(r"`([\w/-]+/[\w-]*(?:\.\w+)?)`", text))
    assert len(paths) > 20
    assert sorted(path for path in paths if not exists(path)) == []
    named = re.findall(r"`(\w+)(?:\.(\w+))?` in `([\w/]+\.\w+)`", text)
    assert len(named) > 8
    assert [(name, path) for *names, path in named for name in names if name and name not in text_of(path)] == []
