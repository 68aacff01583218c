"""The demo is a comparison like others: it has the settings it promises, ends with a report, and goes on."""

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from understudy import UnderstudyError
from understudy.cli import app
from understudy.experiments import demo
from understudy.experiments.results import Results

SCHEDULE = (20, 40)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SCHEDULE", SCHEDULE)
    monkeypatch.setattr("understudy.experiments.compare.default_jobs", lambda _device: 1)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_what_is_compared(tmp_path: Path) -> None:
    comparison = demo.demo_comparison(out=tmp_path)
    plan = comparison.task.experiment.plan
    assert (plan.dataset, plan.learner, plan.seed) == ("digits", "quick", 0)
    assert plan.schedule == tuple(range(20, 201, 20))
    assert (comparison.strategies, comparison.repeats) == (("understudy", "margin", "entropy", "random"), 10)
    assert comparison.task.total == 4 * 10 * 10  # no controls


@pytest.mark.usefixtures("small")
def test_the_command_ends_with_a_table_and_a_report_and_goes_on(tmp_path: Path) -> None:
    command = ["demo", "--seed", "3", "--out", str(tmp_path), "--repeats"]
    first = CliRunner().invoke(app, [*command, "1"])
    assert first.exit_code == 0, first.output
    assert all(name in first.stdout for name in demo.STRATEGIES)
    assert f"report: {tmp_path / 'report.html'}" in first.stdout
    assert (tmp_path / "report.html").exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "rounds").rglob("*.parquet")}

    again = CliRunner().invoke(app, [*command, "2"])
    assert "8 of 16 rounds left" in again.stderr
    assert "of 2 repetitions" in " ".join(again.stdout.split())
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())

    curves = Results.open(tmp_path).curves()
    assert (curves.schedule, curves.repeats, tuple(curves.accuracy)) == (SCHEDULE, 2, demo.STRATEGIES)
    firsts, lasts = (np.stack([values[:, i] for values in curves.accuracy.values()]) for i in (0, -1))
    assert (firsts == firsts[0]).all()  # paired
    assert (firsts > 0.3).all()
    assert (lasts > firsts).all()


def test_a_folder_of_another_seed_is_refused(tmp_path: Path) -> None:
    demo.demo_comparison(seed=1, out=tmp_path)
    with pytest.raises(UnderstudyError, match="seed was 1 and is now 2; choose another folder with --out"):
        demo.demo_comparison(seed=2, out=tmp_path)


def test_a_folder_that_cannot_be_made_is_said_before_any_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnderstudyError, match="choose another folder"):
        demo.demo_comparison(out=tmp_path / "file" / "below")
