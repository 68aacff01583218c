"""`understudy compare`, `report` and `replay`: what they print, what they leave, and how they refuse."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.experiments.small import ARRAYS, LEARNER
from understudy.cli import main
from understudy.experiments.report import commands_to_repeat
from understudy.experiments.results import Results
from understudy.strategies.protocol import Needs


@pytest.fixture
def features(tmp_path: Path) -> Path:
    X, y = ARRAYS.features, ARRAYS.truth
    np.savez(tmp_path / "small.npz", X=X[:120], y=y[:120], Xt=X[120:], yt=y[120:])
    return tmp_path / "small.npz"


@pytest.fixture(autouse=True)
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have their tables only, as without matplotlib: figures take seconds, and are tested elsewhere."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def understudy(arguments: Sequence[object]) -> int:
    """The exit code of a command in this process."""
    try:
        main([*map(str, arguments)])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def compared(features: Path, out: Path, *more: object) -> list[object]:
    wanted: list[object] = ["compare", features, "--strategies", "margin,random", "--repeats", 2, "--schedule", "9,14"]
    return [*wanted, "--learner", LEARNER, "--out", out, "--jobs", 1, *more]


def test_a_comparison_ends_with_a_table_a_report_and_results(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert understudy(compared(features, out)) == 0
    said = capsys.readouterr()
    assert "120 rows to choose from, 50 to test on, 3 classes" in said.err
    assert "trained from scratch at 9, 14 labels (own schedule)" in said.err
    for shown in ("margin", "random", "margin_x10", "trained on all labels", f"report: {out / 'report.html'}"):
        assert shown in said.out
    table = pq.read_table(out / "results.parquet")
    assert set(table["strategy"].to_pylist()) == {"margin", "random", "margin_x10", "ceiling"}
    assert {"dataset", "strategy", "repeat", "labels", "accuracy"} <= set(table.column_names)
    assert (out / "report.html").stat().st_size > 5_000


def test_the_same_command_goes_on_and_adds_what_is_new(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert understudy(compared(features, out, "--no-controls")) == 0
    kept = {path: path.stat().st_mtime_ns for path in (out / "rounds").rglob("*.parquet")}
    assert understudy([*compared(features, out, "--no-controls"), "--strategies", "entropy"]) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert Results.open(out).strategies == ["margin", "random", "entropy"]
    assert "4 of 4 rounds" not in capsys.readouterr().err


def test_a_report_is_made_again_and_picks_are_judged_by_another_learner(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert understudy(compared(features, out, "--no-controls")) == 0
    (out / "report.html").unlink()
    assert understudy(["report", out]) == 0
    assert (out / "report.html").exists()
    assert understudy(["replay", out, "--learner", "logistic", "--jobs", 1]) == 0
    judged = Results.open(out / "replay-logistic")
    assert judged.picks("margin", 1)[1].tolist() == Results.open(out).picks("margin", 1)[1].tolist()
    assert "picks of" in capsys.readouterr().err


def test_regimes_and_the_oracle_are_a_word_each(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    harder = ("--imbalance", 2, "--wrong", 0.1, "--duplicates", 0.3, "--oracle", "--repeats", 1)
    assert understudy([*compared(features, out, "--no-controls"), *harder]) == 0
    said = capsys.readouterr()
    assert "class sizes of the pool fall to 1/2" in said.err
    assert "controls: oracle" in said.err
    assert Results.open(out).settings["plan"]["wrong"] == 0.1
    assert "10 % of the answers are wrong" in (out / "report.html").read_text()
    assert understudy([*compared(features, out, "--no-controls"), "--repeats", 1]) == 2
    assert "imbalance was 2.0 and is now not given" in capsys.readouterr().err


def test_picks_go_into_a_file_and_a_replay_takes_them(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "out", tmp_path / "picks.parquet"
    assert understudy(compared(features, out, "--no-controls")) == 0
    capsys.readouterr()
    assert understudy(["picks", out, "--out", file]) == 0
    assert Results.open(out).settings["picks"]["sha256"] in capsys.readouterr().out
    replayed = ["replay", out, "--learner", "logistic", "--jobs", 1, "--picks", file]
    assert understudy([*replayed, "--metric", "log_loss"]) == 0
    assert "log loss" in capsys.readouterr().out.lower()
    assert f"--picks {file}" in commands_to_repeat(Results.open(out / "replay-logistic"))[0]
    file.write_bytes(b"")
    assert understudy(["replay", out, "--learner", "logistic", "--picks", file]) == 2
    assert "pass the file that was last written as picks.parquet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--wrong", "1.5"], "wrong must be a number above 0 and below 1; got 1.5"),
        (["--strategies", "oracle"], "oracle is a control and runs where --oracle"),
        (["--strategies", "margn"], "there is no strategy 'margn'; did you mean 'margin'?"),
        (["--strategies", "margin(subset=1)"], "margin has no setting 'subset'; it has score"),
        (["--schedule", "9,500"], "the schedule ends at 500 labels, but the pool has 120 rows"),
        (["--schedule", "2,9"], "the schedule starts from 2 labels for 3 classes; start from 3 or more"),
        (["--schedule", "9,x"], "a schedule must be numbers of labels"),
        (["--learner", "modrn"], "there is no learner 'modrn'"),
        (["--protocol", "large"], "protocol must be 'paper' or 'small'"),
        (["--protocol", "paper"], "the schedule ends at 11,000 labels"),
        (["--protocol", "paper", "--schedule", "9,14"], "both set the numbers of labels at which"),
        (["--strategies", "coreset", "--learner", "logistic"], "coreset cannot be run with the learner logistic"),
        (["--engine", "spark"], "--engine must be local or ray"),
        (["--ray-address", "here:1"], "give --engine ray with it"),
    ],
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(
    changed: list[str],
    said: str,
    features: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [part for part in compared(features, tmp_path / "out") if part not in ("--schedule", "9,14")]
    if "--protocol" not in changed:
        arguments += ["--schedule", "9,14"]
    assert understudy([*arguments, *changed]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert not (tmp_path / "out").exists()


def test_an_unknown_data_set_is_answered_with_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert understudy(["compare", "digit", "--out", tmp_path / "out"]) == 2
    assert "did you mean digits?" in capsys.readouterr().err


def test_the_folder_of_another_experiment_is_left_alone(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert understudy(compared(features, out, "--no-controls")) == 0
    before = (out / "results.parquet").read_bytes()
    capsys.readouterr()
    assert understudy([*compared(features, out), "--seed", 1]) == 2
    assert "is of another experiment: seed was 0 and is now 1; choose another folder" in capsys.readouterr().err
    assert (out / "results.parquet").read_bytes() == before


def test_a_round_cut_short_is_named_and_made_again_once_it_is_deleted(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert understudy(compared(features, out, "--no-controls")) == 0
    before = (out / "results.parquet").read_bytes()
    broken = next((out / "rounds" / "margin").rglob("*14.parquet"))
    broken.write_bytes(broken.read_bytes()[:100])
    capsys.readouterr()
    assert understudy(["report", out]) == 1
    assert f"{broken} is truncated or not a Parquet file; delete it" in capsys.readouterr().err
    broken.unlink()
    assert understudy(compared(features, out, "--no-controls")) == 0
    assert (out / "results.parquet").read_bytes() == before


def test_a_strategy_that_fails_is_told_and_the_others_are_reported(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, broken = tmp_path / "out", f"{__name__}:Broken"
    assert understudy([*compared(features, out, "--no-controls"), "--strategies", f"margin,{broken}"]) == 1
    said = capsys.readouterr()
    assert f"{broken}, repetition 0 failed: ZeroDivisionError: division by zero (" in said.err
    assert "test_commands.py, line " in said.err
    assert ", in select; traceback in" in said.err
    assert "margin" in said.out
    rows = [line.split() for line in said.out.splitlines() if line.strip().startswith("tests.")]
    assert rows[0][-1] == "failed"
    assert f"{broken} failed, with 0 of 2 repetitions done: ZeroDivisionError: division by zero; see " in said.out
    assert (out / "report.html").exists()


def test_metrics_and_targets_are_chosen_by_name(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    chosen = ["--metric", "log_loss,balanced_accuracy", "--reach", "2,1"]
    assert understudy([*compared(features, out, "--no-controls"), *chosen]) == 0
    said = capsys.readouterr().out
    assert said.index("test log loss, mean") < said.index("test balanced accuracy in %") < said.index("labels needed")
    before = (out / "report.html").read_text()
    assert understudy(["report", out]) == 0
    assert "test accuracy in %" in capsys.readouterr().out
    assert before != (out / "report.html").read_text()
    names = "choose accuracy, balanced_accuracy, log_loss, brier, ece"
    for command in (["report", out], compared(features, tmp_path / "other")):
        assert understudy([*command, "--metric", "f1"]) == 2
        assert f"there is no metric 'f1'; {names}" in capsys.readouterr().err
        assert understudy([*command, "--reach", "85"]) == 2
        assert "must be between 0 and 1, e.g. 0.85; got 85" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_round_that_breaks_meanwhile_hides_no_strategy_that_failed(
    features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, clumsy = tmp_path / "out", f"{__name__}:Clumsy"
    arguments = compared(features, out, "--no-controls")
    assert understudy([*arguments, "--strategies", "random", "--repeats", 1]) == 0
    monkeypatch.setattr(Clumsy, "breaks", next(out.rglob("rounds/random/*/*14.parquet")))
    capsys.readouterr()
    assert understudy([*arguments, "--strategies", clumsy, "--repeats", 1]) == 1
    said = capsys.readouterr().err
    assert f"{clumsy}, repetition 0 failed: ZeroDivisionError" in said
    assert f"{Clumsy.breaks} is truncated or not a Parquet file; delete it" in said
    # And one that is broken from the start is told before anything is played.
    assert understudy([*arguments, "--strategies", "margin", "--repeats", 1]) == 1
    assert f"{Clumsy.breaks} is truncated or not a Parquet file; delete it" in capsys.readouterr().err
    assert not (out / "rounds" / "margin").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_own_modules_are_found_in_the_current_folder(
    jobs: int, features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"here_{jobs}_of_a_test"
    (tmp_path / f"{name}.py").write_text("from understudy.strategies.random_rows import Random as Mine\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part not in ("", str(tmp_path))])
    out, own = tmp_path / "out", f"{name}:Mine"
    arguments = compared(features, out, "--no-controls", "--strategies", f"random,{own}", "--jobs", jobs)
    assert understudy([*arguments, "--learner", "logistic"]) == 0
    assert Results.open(out).picks(own, 1)[1].tolist() == Results.open(out).picks("random", 1)[1].tolist()


class Clumsy:
    """A strategy that breaks what another has stored, and then itself."""

    needs = Needs()
    breaks: ClassVar[Path] = Path()

    def select(self, view: object, n: int, rng: object) -> object:
        self.breaks.write_bytes(self.breaks.read_bytes()[:50])
        return n / 0


class Broken:
    """A strategy with a fault."""

    needs = Needs()

    def select(self, view: object, n: int, rng: object) -> object:
        return n / 0
