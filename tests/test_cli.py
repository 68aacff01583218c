"""The command line: what it prints, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from understudy import UnderstudyError, __version__
from understudy.cli import app, main
from understudy.experiments import demo
from understudy.experiments.curves import Curves
from understudy.strategies.registry import STRATEGIES

runner = CliRunner()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `run_demo` was called with; it answers at once."""
    calls: list[dict[str, Any]] = []

    def run_demo(**options: Any) -> Curves:
        calls.append(options)
        accuracy = {name: np.array([[0.25], [0.75]]) for name in demo.STRATEGIES}
        return Curves("digits", (20,), accuracy, (Path("some/digits.csv"),))

    monkeypatch.setattr(demo, "run_demo", run_demo)
    return calls


def fail(**_: Any) -> Curves:
    raise UnderstudyError("the pool is empty; add items")


def test_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"understudy {__version__}\n")


def test_demo_passes_its_options_on_and_prints_the_table(calls: list[dict[str, Any]]) -> None:
    result = runner.invoke(app, ["demo", "--repeats", "2", "--seed", "7", "--out", "some"])
    assert result.exit_code == 0
    assert calls == [{"repeats": 2, "seed": 7, "out": Path("some")}]
    assert "50.0 ± 35.4" in result.stdout
    assert "some/digits.csv" in result.stdout


def test_demo_says_how_to_get_the_picture_where_there_is_none(calls: list[dict[str, Any]]) -> None:
    assert "pip install understudy[plot]" in runner.invoke(app, ["demo"]).stdout
    assert len(calls) == 1


def test_an_error_of_ours_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "run_demo", fail)
    monkeypatch.setattr(sys, "argv", ["understudy", "demo"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert capsys.readouterr() == ("", "understudy: the pool is empty; add items\n")


def test_debug_lets_the_error_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run_demo", fail)
    monkeypatch.setattr(sys, "argv", ["understudy", "--debug", "demo"])
    with pytest.raises(UnderstudyError, match="the pool is empty"):
        main()


@pytest.mark.parametrize(
    "wrong", [["demo", "--repeats", "0"], ["demo", "--seed", "-1"], ["demo", "--repeats", "x"], ["sing"], ["--loud"]]
)
def test_a_wrong_call_is_exit_code_2(wrong: list[str], calls: list[dict[str, Any]]) -> None:
    assert runner.invoke(app, wrong).exit_code == 2
    assert not calls


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
