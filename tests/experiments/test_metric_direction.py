"""What is better is better whichever way a metric goes: minus a metric, lower being better, comes to the same."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import UnderstudyError
from understudy.experiments import figures, metrics, tables
from understudy.experiments.curves import Curves
from understudy.experiments.headline import headline
from understudy.experiments.metrics import METRICS, Metric, signed_text
from understudy.experiments.statistics import (
    by_area,
    compare,
    labelling_efficiency,
    labels_saved,
    labels_to_reach,
    penalty_matrix,
    rank_strategies,
    rising_curve,
    shared_range,
)
from understudy.experiments.styles import shared_styles
from understudy.experiments.summary import Findings

MINUS = "minus_accuracy"
SCHEDULE = (100, 200, 400, 800)


@pytest.fixture(autouse=True)
def minus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric that is minus the accuracy, of which lower is better."""
    monkeypatch.setitem(metrics.METRICS, MINUS, Metric(MINUS, "minus accuracy", True, True, "accuracy", float))


def up_and_down(repeats: int = 12) -> tuple[Curves, Curves]:
    """Noisy accuracies, which also fall at times, and the same turned upside down."""
    rng = np.random.default_rng(3)
    names = ("random", "badge", "margin", "vaal", "vaal (selection only)", "margin_x10")
    values = {
        name: 0.6 + 0.01 * place + np.array([0, 0.05, 0.04, 0.1]) + rng.normal(0, 0.02, (repeats, 4))
        for place, name in enumerate(names)
    }
    up = Curves("toy", SCHEDULE, values)
    return up, replace(up, values={name: -value for name, value in values.items()}, metric=MINUS)


def test_paired_comparisons_are_the_same() -> None:
    up, down = up_and_down()
    assert compare(down) == compare(up)
    assert any(one.p_holm is not None and one.p_holm < 0.05 and one.wins > one.losses for one in compare(up))
    assert compare(down, "margin") == compare(up, "margin")


def test_orders_ranks_penalties_and_styles_are_the_same() -> None:
    up, down = up_and_down()
    assert by_area(down) == by_area(up)
    ups, downs = rank_strategies(up), rank_strategies(down)
    assert (downs.names, downs.groups, downs.friedman_p) == (ups.names, ups.groups, ups.friedman_p)
    np.testing.assert_array_equal(downs.average, ups.average)
    np.testing.assert_array_equal(downs.different, ups.different)
    np.testing.assert_array_equal(penalty_matrix(down).matrix, penalty_matrix(up).matrix)
    assert penalty_matrix(up).matrix.any()
    assert shared_styles([down], False) == shared_styles([up], False)


def test_labels_needed_and_saved_are_the_same() -> None:
    up, down = up_and_down()
    np.testing.assert_array_equal(rising_curve(down, "margin"), -rising_curve(up, "margin"))
    assert (np.diff(up.of("margin").mean(0)) < 0).any(), "otherwise the direction of the regression is not tried"
    for name in ("random", "badge", "margin"):
        ups, downs = labels_saved(up, name), labels_saved(down, name)
        assert [one.labels for one in downs] == [one.labels for one in ups]
        assert [one.saved for one in downs] == [one.saved for one in ups]
        assert [-one.accuracy for one in downs] == [one.accuracy for one in ups]
        for level in (0.5, 0.62, 0.66, 0.7, 0.9):
            assert labels_to_reach(down, name, -level) == labels_to_reach(up, name, level)
            assert labelling_efficiency(down, name, -level) == labelling_efficiency(up, name, level)
        low, high = shared_range(up, name) or (0, 0)
        assert shared_range(down, name) == (-low, -high)


def test_tables_say_the_same_of_differences_and_the_best() -> None:
    up, down = up_and_down()
    for full in (True, False):
        ups, downs = (tables.comparison_grid(curves, full=full) for curves in (up, down))
        assert downs.bold == ups.bold != frozenset()
        assert [row[0] for row in downs.rows] == [row[0] for row in ups.rows]
        at = 1 + ups.headings.index("minus random")
        assert [row[at - 1 :] for row in downs.rows] == [row[at - 1 :] for row in ups.rows]
        assert downs.headings[at - 1] == "less than random"
        assert "Lower is better." in downs.notes
        assert "Lower is better." not in ups.notes
    assert "Less than random: in points of area, paired, with 95 % interval; positive is better." in downs.notes
    ups, downs = tables.savings_grid(up), tables.savings_grid(down)
    assert [row[1:-1] for row in downs.rows] == [row[1:-1] for row in ups.rows]


def test_the_headline_leads_with_the_same_strategy() -> None:
    up, down = (Findings(curves) for curves in up_and_down())
    assert down.best_first == up.best_first
    ups, downs = headline(up), headline(down)
    assert ("random needed" in downs.sentence) == ("random needed" in ups.sentence)
    assert downs.verdicts[0] == ups.verdicts[0].replace("largest", "smallest").replace("more than", "less than")
    assert downs.verdicts[1:2] == ups.verdicts[1:2]


def test_figures_draw_differences_upwards() -> None:
    up, down = up_and_down(4)
    drawn = [figures.draw_offset_curves([curves], "random").axes[0] for curves in (up, down)]
    lines = [
        {line.get_gid(): np.asarray(line.get_ydata(), float) for line in axes.lines if line.get_gid()} for axes in drawn
    ]
    assert lines[0]
    assert lines[0].keys() == lines[1].keys()
    for name, values in lines[0].items():
        np.testing.assert_allclose(lines[1][name], values)
    assert drawn[1].get_ylabel() == "minus accuracy, random minus this (points)"
    assert drawn[0].get_ylabel() == "accuracy minus random (points)"


def test_curves_of_two_metrics_are_not_compared() -> None:
    with pytest.raises(UnderstudyError, match="curves of accuracy and minus_accuracy cannot be compared"):
        rank_strategies(*up_and_down())


def test_every_metric_knows_its_direction_and_how_it_is_written() -> None:
    lower = {name for name, one in METRICS.items() if one.lower_is_better}
    assert lower == {"log_loss", "brier", "ece", MINUS}
    assert METRICS["accuracy"].text(0.8734) == "87.3 %"
    assert METRICS["log_loss"].text(0.4118) == "0.412"
    assert METRICS["accuracy"].signed(0.0123) == "+1.23"
    assert METRICS["brier"].signed(0.01234) == "+0.0123"


@pytest.mark.parametrize(
    ("value", "text"),
    [(-0.0026, "-0.00"), (0.0026, "+0.00"), (0.0, "0.00"), (-0.0, "0.00"), (-1e-14, "0.00"), (-0.006, "-0.01")],
)
def test_a_number_keeps_its_sign_when_it_is_rounded(value: float, text: str) -> None:
    assert signed_text(value, 2) == text
    # Table, sentence and figure share the rule.
    points = value / 100
    assert tables.interval_text((points, points)) == f"[{text}, {text}]"
    drawn = figures.draw_differences({"a": value}, {"a": (value, value)}, ["a"], "points").axes[0]
    assert f"{text}  [{text}, {text}]".replace("-", "−") in {label.get_text() for label in drawn.texts}


def rare_classes() -> tuple[Curves, Curves]:
    """Accuracies and balanced accuracies on classes of 90, 6, 3 and 1 %: who finds the rare ones, and who does not."""
    shares = np.array([0.90, 0.06, 0.03, 0.01])
    classes = {  # accuracies of each class at the first and at the last budget
        "finds_rare": ([0.99, 0.20, 0.10, 0.00], [0.93, 0.90, 0.85, 0.80]),
        "random": ([0.99, 0.20, 0.10, 0.00], [0.99, 0.55, 0.30, 0.05]),
        "only_common": ([0.99, 0.20, 0.10, 0.00], [1.00, 0.50, 0.20, 0.00]),
    }
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.001, (10, 2, 4))
    per_class = {name: np.clip(np.array(ends) + noise, 0, 1) for name, ends in classes.items()}
    read = METRICS["balanced_accuracy"].read
    balanced = {
        name: np.array([[read(list(budget)) for budget in repeat] for repeat in found])
        for name, found in per_class.items()
    }
    return (
        Curves("rare", (40, 400), {name: found @ shares for name, found in per_class.items()}),
        Curves("rare", (40, 400), balanced, "balanced_accuracy"),
    )


def test_accuracy_ranks_last_what_finds_rare_classes_and_balanced_accuracy_first() -> None:
    plain, balanced = rare_classes()
    assert by_area(plain)[-1] == "finds_rare"
    assert by_area(balanced) == ["finds_rare", "random", "only_common"]
    for curves, sign in ((plain, -1), (balanced, 1)):
        found = next(one for one in compare(curves) if one.strategy == "finds_rare")
        assert sign * found.area.mean > 0
        assert found.p_holm is not None
        assert found.p_holm < 0.05
    assert "balanced accuracy" in tables.comparison_grid(balanced).title
