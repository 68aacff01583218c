"""Imports point one way."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = [path for path in (ROOT / "src" / "understudy" / "core").glob("*.py") if path.name != "__init__.py"]


def test_the_import_linter_finds_every_contract_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", done.stdout), done.stdout


def test_modules_of_the_core_import_only_those_above_them_in_the_architecture_page() -> None:
    tree = (ROOT / "docs" / "architecture.md").read_text()
    place = {module.name: tree.index(f" {module.name} ") for module in CORE}
    for module in CORE:
        for name in imported_from_core(module):
            assert place[name] < place[module.name], f"{module.name} imports {name}, which stands below it"


def imported_from_core(module: Path) -> set[str]:
    """File names of the core modules that one imports at run time, at its top."""
    found: set[str] = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module == "understudy.core":
                found |= {f"{alias.name}.py" for alias in node.names}
            elif node.module.startswith("understudy.core."):
                found.add(f"{node.module.removeprefix('understudy.core.')}.py")
    return found
