"""The report of several comparisons says what the statistics over all of them say."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.made_up import made_up
from understudy.cli import main
from understudy.errors import UsageError
from understudy.experiments.conditions import Conditions, conditions_of, shared_conditions, short_titles
from understudy.experiments.joint_report import area_matrix, difference_matrix, open_joint, write_joint_report
from understudy.experiments.statistics import compare, rank_strategies

NAMES = ("surrogate", "margin", "random")
SCHEDULE = (6, 12, 24, 48)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = [
        made_up(tmp_path_factory.mktemp("one"), [*NAMES, "badge"], repeats=10, schedule=SCHEDULE),
        made_up(tmp_path_factory.mktemp("two"), NAMES, repeats=10, schedule=(6, 24, 96)),
        made_up(tmp_path_factory.mktemp("few"), NAMES, repeats=3, schedule=SCHEDULE),
    ]
    return [one.folder for one in made]


def test_the_matrix_has_the_differences_of_each_set_and_marks_those_that_are_significant(folders: list[Path]) -> None:
    of, _ = open_joint(folders)
    rows = {row[0]: row[1:] for row in difference_matrix(of).rows}
    assert list(rows) == of.best_first
    for column, curves in enumerate(of.curves):
        for one in compare(curves, "random"):
            mark = "" if one.p_holm is None or one.p_holm >= 0.05 else "▲ " if one.area.mean > 0 else "▼ "
            assert rows[one.strategy][column] == f"{mark}{100 * one.area.mean:+.2f}"
    assert rows["random"] == ("reference",) * 3
    assert rows["badge"][1:] == ("", "")
    assert not any(cell.startswith(("▲", "▼")) for cell in (row[2] for row in rows.values()))  # three repetitions


def test_ranks_are_over_all_sets_and_those_of_all(folders: list[Path]) -> None:
    of, _ = open_joint(folders)
    assert of.ranks is not None
    assert set(of.ranks.names) == set(NAMES)
    assert of.ranks.blocks == 23
    np.testing.assert_array_equal(of.ranks.average, rank_strategies(*of.curves).average)
    assert of.penalties is not None
    assert len(of.penalties.datasets) == 2  # three repetitions are not tested
    best = next(row for row in area_matrix(of).rows if row[0] == of.ranks.names[0])
    assert best[-1] == f"{of.ranks.average[0]:.2f}"


def test_the_page_its_figures_and_its_tables_are_written(folders: list[Path], tmp_path: Path) -> None:
    page = write_joint_report(folders, tmp_path / "all", with_figures=False).read_text()
    assert "Fewer than 5 repetitions decide nothing" in page
    assert "Not ranked, since not all sets have them: badge." in page
    assert "<span>made up</span><span>modern</span>" in page
    assert (tmp_path / "all" / "tables" / "matrix.md").exists()
    assert all(str(folder) in page for folder in folders)


def test_a_comparison_is_named_once(folders: list[Path]) -> None:
    with pytest.raises(UsageError, match="named twice"):
        open_joint([folders[0], folders[0]])


def test_titles_say_what_differs() -> None:
    one = Conditions("digits", "0", "modern", "as it is", (6, 12), 0)
    assert short_titles([one, replace(one, learner="paper")]) == ["modern", "paper"]
    assert short_titles([one, replace(one, dataset="cifar", regime="start 0")]) == ["digits", "cifar · start 0"]
    assert short_titles([one, replace(one, regime="start 0")]) == ["digits", "start 0"]
    assert short_titles([one, one]) == ["digits (1)", "digits (2)"]


def test_what_titles_leave_out_is_said_once_for_all() -> None:
    one = Conditions("digits", "0", "modern", "wrong 0.1", (6, 12), 0)
    assert shared_conditions([one, replace(one, dataset="cifar")]) == ["modern", "wrong 0.1"]
    assert shared_conditions([one, replace(one, learner="paper", regime="as it is")]) == ["digits"]


@pytest.mark.parametrize(
    ("plan", "regime"),
    [
        ({}, "as it is"),
        ({"start": 0}, "start 0"),
        ({"imbalance": 20}, "imbalance 20"),
        ({"wrong": 0.1, "start": None}, "wrong 0.1"),
        ({"start": 0, "predictions": "0123456789abcdef"}, "start 0, given predictions 01234567"),
    ],
)
def test_the_regime_is_whatever_else_the_plan_says(plan: dict[str, object], regime: str) -> None:
    settings = {"plan": {"dataset": "d", "digest": "0", "learner": "modern", "schedule": [6], "seed": 0, **plan}}
    assert conditions_of(settings).regime == regime
    assert conditions_of({**settings, "protocol": "picks of paper"}).regime.endswith("picks of paper")


def run_command(arguments: Sequence[object]) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return int(ended.value.code or 0)


def test_the_report_of_a_comparison_is_not_replaced(folders: list[Path]) -> None:
    with pytest.raises(UsageError, match="holds a comparison, whose own report this would replace"):
        write_joint_report(folders, folders[0])


def test_commands_write_the_pages_or_say_what_is_missing(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run_command(["report", *folders, "--out", tmp_path, "--metric", "log_loss"]) == 0
    assert "by log loss" in (tmp_path / "report.html").read_text()
    assert run_command(["report", *folders]) == 2
    assert "name it with --out" in capsys.readouterr().err
    assert run_command(["report", folders[0], "--out", tmp_path]) == 2
    assert run_command(["report", *folders, "--out", tmp_path, "--data", "digits"]) == 2
    assert run_command(["leaderboard", *folders, "--to", 24, "--out", tmp_path / "board.html"]) == 0
    assert "to 24 labels" in (tmp_path / "board.html").read_text()
