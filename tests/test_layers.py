"""Imports point one way, and every name is defined."""

import ast
import json
import re
import subprocess
import sys
from itertools import groupby
from operator import itemgetter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_import_linter_finds_every_contract_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", done.stdout), done.stdout


def test_no_name_is_undefined() -> None:
    # Shapes such as "n k" stand in annotations as strings, and a linter takes them for names. So the check is off for
    # the code at large, and here it counts where a name stands in the code itself.
    linter = str(Path(sys.executable).with_name("ruff"))
    asked = [linter, "check", "--isolated", "--select", "F821", "--output-format", "json", "src", "benchmarks", "tests"]
    found = json.loads(subprocess.run(asked, cwd=ROOT, capture_output=True, text=True).stdout)
    assert len(found) > 100, "the linter no longer looks into shapes: let it check undefined names everywhere"
    wrong = []
    for path, places in groupby(found, key=itemgetter("filename")):
        nodes = ast.walk(ast.parse(Path(path).read_text()))
        names = {(node.lineno, node.col_offset + 1) for node in nodes if isinstance(node, ast.Name)}
        at = [(place["location"]["row"], place["location"]["column"], place["message"]) for place in places]
        wrong += [f"{path}:{row}: {message}" for row, column, message in at if (row, column) in names]
    assert not wrong, "\n".join(wrong)
