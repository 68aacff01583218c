"""The description for programs, tried out: calls made from it by the hundred, good and bad, none a failure of ours."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.web.serving import Served, opened, served
from understudy.sessions.people import ROLES, Role
from understudy.web.access import Access
from understudy.web.error_responses import MEANINGS
from understudy.web.tokens import Tokens

SOAK = bool(os.environ.get("UNDERSTUDY_SOAK"))

# Bytes that hold no labels are refused, and no description of bytes can say which those are; nor can that of a list say
# that a lasso has corners, that the lower confidence comes first, or that a prefix is for one format. A list may be too
# long for a body before it is too long for a list; and what would be an item in an address is no other method.
EXCEPT = """
[[operations]]
include-name = ["POST /api/import", "GET /api/items", "GET /api/export"]
checks.positive_data_acceptance.enabled = false

[[operations]]
include-name = "POST /api/classes/order"
checks.negative_data_rejection.enabled = false

[[operations]]
include-name = ["POST /api/items/label", "POST /api/items/flag", "POST /api/items/bad", "POST /api/items/put-back"]
checks.unsupported_method.enabled = false
"""


def test_no_call_that_the_description_allows_or_forbids_is_a_failure_of_ours(tmp_path: Path) -> None:
    """A few hundred calls; with UNDERSTUDY_SOAK set, some thousands."""
    options = ("--max-examples", "40") if SOAK else ("--phases", "examples,fuzzing", "--max-examples", "12")
    with opened(tmp_path) as session, served(session) as running:
        done = try_out(running.url, tmp_path, *options)
    assert done.returncode == 0, done.stdout[-6000:]
    found = re.search(r"(\d+) generated", done.stdout)
    assert found is not None, done.stdout[-2000:]
    assert int(found.group(1)) >= (2000 if SOAK else 300)


@pytest.mark.parametrize("role", ROLES)
def test_no_call_of_any_role_is_a_failure_of_ours(tmp_path: Path, role: Role) -> None:
    """What a role may not do is refused; whoever it is, and whatever they send, nothing breaks."""
    options = ("--max-examples", "14") if SOAK else ("--phases", "examples,fuzzing", "--max-examples", "3")
    people: dict[str, Role | None] = {each: each for each in ROLES}
    with opened(tmp_path, people=people) as session:
        tokens = Tokens(tmp_path)
        links = tokens.links_for(list(people))
        with served(session, Access(tokens=tokens)) as running:
            header = f"Authorization: Bearer {links[role]}"
            done = try_out(running.url, tmp_path, *options, "--header", header)
    assert done.returncode == 0, done.stdout[-6000:]
    found = re.search(r"(\d+) generated", done.stdout)
    assert found is not None, done.stdout[-2000:]
    assert int(found.group(1)) >= (700 if SOAK else 100)


def try_out(url: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """schemathesis with all its checks, which is what it does unless told otherwise."""
    (folder / "schemathesis.toml").write_text(EXCEPT)
    program = str(Path(sys.executable).with_name("schemathesis"))
    command = [program, "run", f"{url}/openapi.json", "--seed", "1", "--no-color", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_a_wrong_method_is_told_the_right_ones(server: Served) -> None:
    for path, methods in {"/api/classes": "GET, POST", "/api/settings": "GET, POST", "/api/settle": "POST"}.items():
        answer = server.client.request("OPTIONS", path)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)


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
