"""The description for programs, tried out: calls made from it by the hundred, good and bad, none a failure of ours."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.web.serving import Served, opened, served
from understudy.web.error_responses import MEANINGS

# Bytes that hold no labels are refused, and no description of bytes can say which those are; nor can that of a list say
# that a lasso has corners, or that the lower confidence comes first.
EXCEPT = """
[[operations]]
include-name = "POST /api/import"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-name = "GET /api/items"
checks.positive_data_acceptance.enabled = false
"""


def test_no_call_that_the_description_allows_or_forbids_is_a_failure_of_ours(tmp_path: Path) -> None:
    """A few hundred calls; with UNDERSTUDY_SOAK set, some thousands."""
    soak = bool(os.environ.get("UNDERSTUDY_SOAK"))
    options = ("--max-examples", "40") if soak else ("--phases", "examples,fuzzing", "--max-examples", "12")
    with opened(tmp_path) as session, served(session) as running:
        done = try_out(running.url, tmp_path, *options)
    assert done.returncode == 0, done.stdout[-6000:]
    found = re.search(r"(\d+) generated", done.stdout)
    assert found is not None, done.stdout[-2000:]
    assert int(found.group(1)) >= (2000 if soak else 300)


def try_out(url: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """schemathesis with all its checks, which is what it does unless told otherwise."""
    (folder / "schemathesis.toml").write_text(EXCEPT)
    program = str(Path(sys.executable).with_name("schemathesis"))
    command = [program, "run", f"{url}/openapi.json", "--seed", "1", "--no-color", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_every_status_is_described_and_nothing_comes_from_elsewhere(server: Served) -> None:
    described = server.client.get("/openapi.json").json()
    assert len(described["paths"]) >= 25
    for path, methods in described["paths"].items():
        for call in methods.values():
            assert "403" in call["responses"], path
            assert call.get("description"), path
            assert set(call["responses"]) <= {"200", "304", *map(str, MEANINGS)}
    assert "servers" not in described
    for path in ("/docs", "/redoc"):
        assert server.client.get(path).status_code == 404
