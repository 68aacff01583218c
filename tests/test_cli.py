"""The command line: what it prints, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from understudy import UnderstudyError, __version__
from understudy.cli import app, main
from understudy.experiments import demo
from understudy.strategies.registry import STRATEGIES

runner = CliRunner()


def fail(**_: Any) -> None:
    raise UnderstudyError("the pool is empty; add items")


def test_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"understudy {__version__}\n")


def test_an_error_of_ours_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "demo_comparison", fail)
    monkeypatch.setattr(sys, "argv", ["understudy", "demo"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert capsys.readouterr() == ("", "understudy: the pool is empty; add items\n")


def test_debug_lets_the_error_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "demo_comparison", fail)
    monkeypatch.setattr(sys, "argv", ["understudy", "--debug", "demo"])
    with pytest.raises(UnderstudyError, match="the pool is empty"):
        main()


@pytest.mark.parametrize(
    "wrong", [["demo", "--repeats", "0"], ["demo", "--seed", "-1"], ["demo", "--repeats", "x"], ["sing"], ["--loud"]]
)
def test_a_wrong_call_is_exit_code_2(wrong: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "demo_comparison", lambda **_: pytest.fail("began"))
    assert runner.invoke(app, wrong).exit_code == 2


def test_the_installed_command(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [str(Path(sys.executable).with_name("understudy")), "demo", "--out", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("understudy: cannot write to ")
    assert done.stderr.count("\n") == 1


def test_strategies_are_listed_with_what_they_need() -> None:
    shown = runner.invoke(app, ["strategies"], env={"COLUMNS": "120"}).output
    listed = json.loads(runner.invoke(app, ["strategies", "--json"]).output)
    assert {entry["name"] for entry in listed} == set(STRATEGIES)
    assert all(entry["name"] in shown for entry in listed)
    (badge,) = (entry for entry in listed if entry["name"] == "badge")
    assert badge["needs"] == ["hidden", "probs"]
    assert badge["chooses"][:20] in shown
