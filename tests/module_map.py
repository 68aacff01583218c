"""The page of all modules, made of the first sentence of each: `python tests/module_map.py` writes docs/modules.md."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "understudy"
PAGE = ROOT / "docs" / "modules.md"
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


def page() -> str:
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


if __name__ == "__main__":
    PAGE.write_text(page())
