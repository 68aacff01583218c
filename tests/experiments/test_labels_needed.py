"""Labels needed for a target, against a literal bootstrap and numbers worked out by hand."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from tests.experiments.made_up import made_up
from understudy.errors import UsageError
from understudy.experiments.cost_tables import cost_grid, needed_grid, needed_tables, seconds_of_runs
from understudy.experiments.curves import Curves
from understudy.experiments.labels_needed import default_targets, labels_needed, parse_targets
from understudy.experiments.metrics import METRICS
from understudy.experiments.statistics import contestants, labels_to_reach

SCHEDULE = (100, 200, 400, 900)


def noisy(repeats: int = 6) -> Curves:
    rng = np.random.default_rng(5)
    rise = np.array([0.5, 0.62, 0.6, 0.75])
    values = {
        name: rise + gain * np.array([0, 1, 1, 1]) + rng.normal(0, 0.05, (repeats, 4))
        for name, gain in {"random": 0.0, "margin": 0.05, "ceiling": 0.3, "slow": -0.1}.items()
    }
    return Curves("toy", SCHEDULE, values)


def literal(curves: Curves, name: str, target: float, rows: np.ndarray) -> tuple[float, float]:
    """What is known of the labels needed by the mean curve of these repetitions, step by step."""
    curve = isotonic_regression(np.round(curves.values[name][rows].mean(0), 12)).x
    if curve[0] >= target:
        return 0, SCHEDULE[0]
    for i in range(1, len(SCHEDULE)):
        if curve[i] >= target:
            share = (target - curve[i - 1]) / (curve[i] - curve[i - 1])
            at = SCHEDULE[i - 1] + share * (SCHEDULE[i] - SCHEDULE[i - 1])
            return at, at
    return SCHEDULE[-1], math.inf


@pytest.mark.parametrize("target", [0.4, 0.52, 0.63, 0.7, 0.76, 0.9])
def test_intervals_are_those_of_a_literal_paired_bootstrap(target: float) -> None:
    curves, n = noisy(), 400
    draws = np.random.default_rng(7).integers(6, size=(n, 6))
    for (one,) in labels_needed(curves, [target], seed=7, resamples=n):
        ours = [literal(curves, one.strategy, target, rows) for rows in draws]
        theirs = [literal(curves, "random", target, rows) for rows in draws]
        assert one.labels == pytest.approx(literal(curves, one.strategy, target, np.arange(6)))
        assert one.missed == np.mean([math.isinf(high) for _, high in ours])
        low, high = math.floor(0.025 * (n - 1)), math.ceil(0.975 * (n - 1))
        assert one.interval == pytest.approx((sorted(a for a, _ in ours)[low], sorted(b for _, b in ours)[high]))
        if one.strategy == "random":
            assert one.ratio is one.ratio_interval is None
            continue
        lows = sorted(a / d for (a, _), (_, d) in zip(ours, theirs, strict=True))
        highs = sorted(b / c if c else math.inf for (_, b), (c, _) in zip(ours, theirs, strict=True))
        assert one.ratio_interval == pytest.approx((lows[low], highs[high]))


def test_the_number_itself_is_that_of_labels_to_reach() -> None:
    curves = noisy()
    for row in labels_needed(curves, [0.55, 0.6, 0.64], resamples=10):
        for one in row:
            expected = labels_to_reach(curves, one.strategy, one.target)
            if expected is None:
                assert one.labels == (900, math.inf)
                assert one.missed > 0
            else:
                assert one.labels[1] == pytest.approx(expected)


def test_metrics_of_which_lower_is_better_need_the_same_labels() -> None:
    up = noisy()
    down = Curves("toy", SCHEDULE, {name: 1 - values for name, values in up.values.items()}, "ece")
    for ups, downs in zip(labels_needed(up, [0.6, 0.7]), labels_needed(down, [0.4, 0.3]), strict=True):
        for one, other in zip(ups, downs, strict=True):
            assert one.interval is not None
            assert other.interval == pytest.approx(one.interval)
            assert (other.strategy, other.missed) == (one.strategy, one.missed)
            assert other.labels == pytest.approx(one.labels)


def test_a_narrow_terminal_has_a_table_for_each_target() -> None:
    curves = noisy()
    rows = labels_needed(curves, [0.6, 0.65, 0.7], resamples=50)
    assert len(needed_tables(curves, rows, 200)) == 1
    narrow = needed_tables(curves, rows, 80)
    assert [str(table.columns[1].header) for table in narrow] == ["60.0 %", "65.0 %", "70.0 %"]
    assert [table.caption is None for table in narrow] == [True, True, False]


def test_targets_are_round_reached_by_all_and_start_above_every_start() -> None:
    curves = Curves("toy", (10, 20), {"random": np.array([[0.503, 0.7]]), "margin": np.array([[0.5, 0.834]])})
    assert default_targets(curves) == (0.56, 0.63, 0.7)
    down = replace(curves, values={name: 1 - values for name, values in curves.values.items()}, metric="ece")
    assert default_targets(down) == pytest.approx((0.44, 0.37, 0.3))
    for name in curves.values:
        for target in default_targets(curves):
            assert labels_to_reach(curves, name, target) is not None
    flat = Curves("toy", (10, 20), {"random": np.full((2, 2), 0.5)})
    assert default_targets(flat) == ()
    assert needed_grid(flat).notes == ("No value is shared by all.",)


def test_without_a_shared_value_targets_are_those_of_the_reference() -> None:
    apart = Curves("toy", (10, 20), {"random": np.array([[0.1, 0.4]]), "margin": np.array([[0.5, 0.6]])})
    assert default_targets(apart) == (0.2, 0.3, 0.4)


def test_the_table_by_hand_invents_nothing_beyond_the_last_budget() -> None:
    curves = Curves(
        "toy",
        (100, 200, 400),
        {
            "random": np.array([[0.5, 0.6, 0.7], [0.5, 0.6, 0.7]]),
            "fast": np.array([[0.5, 0.7, 0.8], [0.5, 0.7, 0.8]]),
            "slow": np.array([[0.5, 0.55, 0.6], [0.5, 0.55, 0.6]]),
        },
    )
    grid = needed_grid(curves, labels_needed(curves, [0.4, 0.65]))
    assert grid.headings == ("strategy", "40.0 %", "of random", "65.0 %", "not reached", "of random")
    assert grid.rows == (
        ("fast", "≤100", "–", "175 [175, 175]", "0 %", "0.58 [0.58, 0.58]"),
        ("random", "≤100", "reference", "300 [300, 300]", "0 %", "reference"),
        ("slow", "≤100", "–", ">400", "100 %", "≥1.33 [≥1.33]"),
    )
    assert any("by 400 labels, the last budget" in note for note in grid.notes)
    alone = curves.only(["fast"])
    assert needed_grid(alone, labels_needed(alone, [0.75])).rows == (("fast", "300 [300, 300]"),)


@pytest.mark.parametrize("text", ["", "a", "0.8,", "85", "inf", "-0.1"])
def test_targets_that_are_none_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="target"):
        parse_targets(text, METRICS["accuracy"])


def test_targets_are_sorted_from_the_easiest() -> None:
    assert parse_targets("0.85,0.8", METRICS["accuracy"]) == (0.8, 0.85)
    assert parse_targets("0.4,1.2", METRICS["log_loss"]) == (1.2, 0.4)


def test_costs_are_sums_over_the_rounds_of_a_run(tmp_path: Path) -> None:
    results = made_up(tmp_path, ["margin", "vaal", "vaal (selection only)", "random"], repeats=3)
    curves = results.curves()
    seconds = seconds_of_runs(results, curves, (0, 2))
    for name in curves.values:
        rows = [row for row in results.timings.to_pylist() if row["strategy"] == name and row["repeat"] != 1]
        choose, predict, train = (
            sum(row[f"{what}_seconds"] for row in rows) / 2 for what in ("choose", "predict", "train")
        )
        assert seconds[name] == pytest.approx((choose, predict, train, choose + predict + train))
    grid = cost_grid(results, curves, (0, 1, 2))
    assert grid.headings[2:] == ("of random", "choose (s)", "predict (s)", "train (s)", "all (s)")
    assert {row[0] for row in grid.rows} == set(contestants(curves).values)
    assert [row[:3] for row in grid.apart] == [("vaal", "", "")]
    assert any("1 model was trained at once" in note and "unfair" in note for note in grid.notes)
