"""What pages say of the code, made from the code: `python tests/made_pages.py` writes it.

docs/modules.md is made of the first sentence of every module, the tables of docs/strategies.md of the strategies.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from understudy.strategies.listing import as_markdown

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "understudy"
MODULES = ROOT / "docs" / "modules.md"
STRATEGIES = ROOT / "docs" / "strategies.md"
TABLES = re.compile(r"(?<=^## All of them\n\n).*?(?=^## )", re.MULTILINE | re.DOTALL)
HEAD = """# Modules

What each module is for, as its own first sentence says. This page is made by `make format`;
[the architecture](architecture.md) says how the modules work together and which may import which.
"""


def first_sentence(file: Path) -> str:
    """The first paragraph of a module's docstring as one line, up to the end of its first sentence."""
    paragraph = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.strip()


def folders() -> list[Path]:
    """The package and all its parts, by name."""
    return [PACKAGE, *sorted(path for path in PACKAGE.rglob("*") if (path / "__init__.py").exists())]


def modules_page() -> str:
    return HEAD + "".join(f"\n{line}\n" for folder in folders() for line in section(folder))


def section(folder: Path) -> Iterator[str]:
    """Heading, sentence and table of one folder."""
    name = ".".join(folder.relative_to(PACKAGE.parent).parts)
    yield f"## {name}"
    yield first_sentence(folder / "__init__.py")
    modules = [file for file in sorted(folder.glob("*.py")) if file.name != "__init__.py"]
    rows = [f"| [`{file.name}`](../{file.relative_to(ROOT)}) | {first_sentence(file)} |" for file in modules]
    if rows:
        yield "\n".join(["| module | |", "|---|---|", *rows])


def strategies_page() -> str:
    """The page of strategies as it is, with the tables of those that there are."""
    page, count = TABLES.subn(lambda _: f"{as_markdown()}\n", STRATEGIES.read_text())
    assert count == 1, "docs/strategies.md has no section called 'All of them'"
    return page


if __name__ == "__main__":
    MODULES.write_text(modules_page())
    STRATEGIES.write_text(strategies_page())
