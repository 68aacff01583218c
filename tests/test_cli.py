"""The command line: what it prints, and its exit codes."""

import json
import shlex
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
from understudy.projects.opening import create_or_open
from understudy.sessions.opening import open_session
from understudy.strategies.registry import STRATEGIES

runner = CliRunner()


def fail(**_: Any) -> None:
    raise UnderstudyError("the pool is empty; add items")


class Call:
    """Calls of `understudy` in this process, in a folder with something of every kind to be pointed at."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, line: str) -> tuple[int, str]:
        """The exit code of a command line, and what it said on standard error."""
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(line))
        return int(stopped.value.code or 0), self.capsys.readouterr().err


def test_the_help_begins_with_labelling_and_cuts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = runner.invoke(app, ["--help"]).output
    commands = shown.partition("Commands:")[2]
    assert commands.split()[0] == "label"
    assert "..." not in commands
    options = runner.invoke(app, ["label", "--help"]).output
    assert "--folder-labels / --no-folder-labels" in options
    assert "UNDERSTUDY_PASSWORD" in options
    assert "…" not in options


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    rng = np.random.default_rng(0)
    np.savez("pool.npz", X=rng.standard_normal((40, 3)), y=np.repeat([0, 1], 20))
    Path("notes.doc").write_text("no data")
    Path("items.csv").write_text("text,label\none,a\ntwo,b\n")
    Path("broken.npz").write_bytes(b"PK no archive")
    Path("empty").mkdir()
    return Call(capsys)


def test_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"understudy {__version__}\n")


def test_an_error_of_ours_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "demo_comparison", fail)
    with pytest.raises(SystemExit) as stopped:
        main(["demo"])
    assert stopped.value.code == 1
    assert capsys.readouterr() == ("", "understudy: the pool is empty; add items\n")


def test_debug_lets_the_error_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "demo_comparison", fail)
    with pytest.raises(UnderstudyError, match="the pool is empty"):
        main(["--debug", "demo"])


@pytest.mark.parametrize(
    "wrong", [["demo", "--repeats", "0"], ["demo", "--seed", "-1"], ["demo", "--repeats", "x"], ["sing"], ["--loud"]]
)
def test_what_cannot_be_parsed_is_exit_code_2(wrong: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "demo_comparison", lambda **_: pytest.fail("began"))
    assert runner.invoke(app, wrong).exit_code == 2


QUICK = "--learner quick --schedule 4,8 --repeats 1 --no-controls --jobs 1"
WRONG_CALLS = [
    # command line, and what its message names
    ("datasets --get mnits", "mnits"),
    ("embed nowhere --encoder pixels", "nowhere"),
    ("embed notes.doc --encoder pixels", "notes.doc"),
    ("embed empty --encoder pixels", "empty"),
    ("embed items.csv --encoder wrods", "wrods"),
    ("embed items.csv --encoder 'words?size=x'", "size"),
    ("embed items.csv --encoder 'words?colour=1'", "colour"),
    ("embed items.csv --encoder pixels", "text"),
    ("embed items.csv --encoder words --columns text=body", "body"),
    ("embed items.csv --encoder words --columns text", "columns"),
    ("embed items.csv --encoder words --device tpu", "tpu"),
    ("embed items.csv --encoder words --device cuda:99", "device cpu"),
    ("embed items.csv --encoder words --on-error cry", "cry"),
    ("embed items.csv --encoder words --classes a,a", "classes"),
    ("embed items.csv --encoder words --out notes.doc", "notes.doc"),
    ("embed pool.npz --encoder words", "features"),
    ("embed items.csv --encoder onnx:nowhere.onnx", "nowhere.onnx"),
    ("compare nowhere", "nowhere"),
    ("compare caltech256", "datasets --get caltech256"),
    ("compare pool.npz --strategies margni", "margni"),
    ("compare pool.npz --strategies margin,,random", "margin,,random"),
    ("compare pool.npz --strategies 'badge(start=1)'", "start"),
    ("compare pool.npz --strategies 'badge(pace=1)'", "pace"),
    ("compare pool.npz --strategies 'badge(start'", "badge(start"),
    ("compare pool.npz --strategies nowhere:Strategy", "nowhere:Strategy"),
    ("compare pool.npz --strategies all_labels", "all_labels"),
    ("compare pool.npz --learner modren", "modren"),
    ("compare pool.npz --learner nowhere:Learner", "nowhere:Learner"),
    ("compare pool.npz --learner resnet18", "images"),
    ("compare pool.npz --learner logistic --strategies badge", "badge"),
    ("compare pool.npz --schedule 8,4", "8,4"),
    ("compare pool.npz --schedule few", "few"),
    ("compare pool.npz --schedule 4,4000", "4,000"),
    ("compare pool.npz --protocol large", "large"),
    ("compare pool.npz --protocol small --schedule 4,8", "schedule"),
    ("compare pool.npz --start 5", "5"),
    ("compare pool.npz --device tpu", "tpu"),
    ("compare pool.npz --device cuda:99", "cuda:99"),
    ("compare pool.npz --engine spark", "spark"),
    ("compare pool.npz --ray-address here:1", "--engine ray"),
    ("replay nowhere --learner quick", "nowhere"),
    ("report nowhere", "nowhere"),
    ("report empty", "empty"),
    ("label", "PATH"),
    ("label nowhere", "nowhere"),
    ("label items.csv --demo", "--demo"),
    ("label --project nowhere", "nowhere"),
    ("label items.csv --project notes.doc", "notes.doc"),
    ("label items.csv --encoder wrods", "wrods"),
    ("label items.csv --encoder pixels", "pixels"),
    ("label items.csv --learner modren", "modren"),
    ("label items.csv --learner resnet18", "features"),
    ("label items.csv --columns text=body", "body"),
    ("label items.csv --classes a,a", "a"),
    ("label items.csv --classes a --classes-file items.csv", "not both"),
    ("label items.csv --classes-file nowhere", "nowhere"),
    ("label items.csv --store mysql://host/name", "postgresql"),
    ("label items.csv --audit-share 2", "audit_share"),
    ("label items.csv --retrain-growth 0.5", "retrain_growth"),
    ("label items.csv --basis-size 0", "basis_size"),
    ("label items.csv --lease-minutes 0", "lease_seconds"),
    ("label items.csv --device tpu", "tpu"),
    ("label items.csv --engine spark", "spark"),
    ("label items.csv --blocks 4", "--engine ray"),
    ("label items.csv --ray-address here:1", "--engine ray"),
    ("label items.csv --host 0.0.0.0", "--password"),
    ("label items.csv --annotators ann,ann", "ann,ann"),
    ("label items.csv --annotators ann --password word", "not both"),
    ("import nowhere items.csv", "nowhere"),
    ("export nowhere", "nowhere"),
]


@pytest.mark.parametrize(("line", "named"), WRONG_CALLS)
def test_a_wrong_call_is_exit_code_2_and_one_line(call: Call, line: str, named: str) -> None:
    code, said = call(line)
    assert (code, said.count("\n")) == (2, 1), said
    assert named in said
    assert said.startswith("understudy: ")


FAILING_WORK = [
    ("embed broken.npz --encoder words", "broken.npz"),
    ("compare broken.npz", "broken.npz"),
    (f"compare pool.npz {QUICK} --strategies random --out notes.doc", "notes.doc"),
    (f"compare pool.npz {QUICK} --strategies random,failing:Failing --out there", "failing:Failing"),
]


@pytest.mark.parametrize(("line", "named"), FAILING_WORK)
def test_work_that_fails_is_exit_code_1(call: Call, line: str, named: str) -> None:
    Path("failing.py").write_text(FAILING)
    code, said = call(line)
    assert code == 1, said
    assert named in said.splitlines()[-1]
    assert said.splitlines()[-1].startswith("understudy: ")


FAILING = """
from understudy.strategies.protocol import Needs


class Failing:
    needs = Needs()

    def select(self, view, n, rng):
        raise RuntimeError("no idea what to ask")
"""


def test_a_comparison_that_changed_is_a_wrong_call(call: Call) -> None:
    first = f"compare pool.npz {QUICK} --strategies random --out there"
    assert call(first)[0] == 0
    assert call(first)[0] == 0
    for line, named in (
        (f"{first} --seed 1", "another experiment"),
        ("replay there --learner modren", "modren"),
        ("replay there --learner logistic --data nowhere", "nowhere"),
        ("report there --data nowhere", "nowhere"),
    ):
        code, said = call(line)
        assert (code, named in said) == (2, True), said


def test_a_project_and_what_does_not_go_with_it(call: Call) -> None:
    np.savez("pool.npz", X=np.random.default_rng(0).standard_normal((40, 3)), y=np.full(40, -1))
    open_session(create_or_open("pool.npz", classes=["a", "b"])).close()
    for line, expected, named in (
        ("export pool.npz --format cvs", 2, "cvs"),
        ("export pool.npz --copy", 2, "--copy"),
        ("export pool.npz --format model", 1, "no model yet"),
        ("import pool.npz nowhere.csv", 2, "nowhere.csv"),
        ("import pool.npz items.csv --format cvs", 2, "cvs"),
        ("import pool.npz items.csv --columns text", 2, "columns"),
        ("import pool.npz notes.doc", 2, "--format"),
        ("label pool.npz --encoder words", 2, "words"),
        ("label pool.npz --audit-share 0.3", 2, "audit_share"),
        ("label pool.npz --classes c", 2, "class"),
        ("label items.csv --project pool.npz.understudy", 2, "another --project"),
        ("label pool.npz --store postgresql://h/d", 2, "the store"),
    ):
        code, said = call(line)
        assert (code, named in said) == (expected, True), (line, said)


def test_the_installed_command(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [str(Path(sys.executable).with_name("understudy")), "demo", "--out", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
