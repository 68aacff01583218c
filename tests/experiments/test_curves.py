"""Statistics of learning curves, against numbers worked out by hand."""

import numpy as np
import pytest
from rich.console import Console

from understudy import UnderstudyError
from understudy.experiments.curves import Curves, summary


def curves(**accuracy: list[list[float]]) -> Curves:
    return Curves("toy", (10, 20, 40), {name: np.array(values) for name, values in accuracy.items()})


def shown(of: Curves) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(summary(of))
    return capture.get()


TWO = curves(
    margin=[[0.5, 0.7, 0.9], [0.5, 0.8, 1.0]],
    random=[[0.5, 0.6, 0.7], [0.5, 0.5, 0.8]],
)


def test_the_area_weighs_each_step_by_its_labels() -> None:
    # (10 * 0.6 + 20 * 0.8) / 30 and (10 * 0.65 + 20 * 0.9) / 30
    np.testing.assert_allclose(TWO.area("margin"), [22 / 30, 24.5 / 30])


def test_one_round_has_its_accuracy_for_an_area() -> None:
    assert Curves("toy", (5,), {"random": np.array([[0.4], [0.6]])}).area("random").tolist() == [0.4, 0.6]


def test_the_gain_is_paired_by_repetition() -> None:
    # Random's areas are 18.5/30 and 18/30, so the differences are 3.5/30 and 6.5/30.
    mean, error = TWO.gain("margin")
    assert mean == pytest.approx(5 / 30)
    assert error == pytest.approx(1.5 / 30)


def test_the_summary_shows_mean_deviation_and_gain() -> None:
    text = shown(TWO)
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    assert lines == [
        ["10", "50.0 ± 0.0", "50.0 ± 0.0"],
        ["20", "75.0 ± 7.1", "55.0 ± 7.1"],
        ["40", "95.0 ± 7.1", "75.0 ± 7.1"],
        ["whole curve", "77.5 ± 5.9", "60.8 ± 1.2"],
        ["minus random", "+16.7 ± 5.0", ""],
    ]


def test_a_single_repetition_has_no_deviation() -> None:
    text = shown(curves(margin=[[0.5, 0.7, 0.9]], random=[[0.5, 0.6, 0.7]]))
    assert "nan" not in text
    assert "± " not in "".join(line for line in text.splitlines() if "│" in line)


def test_some_strategies_in_their_own_order() -> None:
    assert list(TWO.only(["random", "margin"]).accuracy) == ["random", "margin"]
    assert list(TWO.only(name for name in ["random"]).accuracy) == ["random"]
    with pytest.raises(UnderstudyError, match="'badge' for toy; there are margin, random"):
        TWO.only(["badge"])


def test_the_first_budgets() -> None:
    assert TWO.first(2).schedule == (10, 20)
    np.testing.assert_allclose(TWO.first(2).area("margin"), [0.6, 0.65])


@pytest.mark.parametrize("wrong", [[[0.5, 0.6]], [[0.5, 0.6, 0.7]], [0.5, 0.6, 0.7]])
def test_curves_of_another_shape_are_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(UnderstudyError, match=r"badge are .* give \(2, 3\)"):
        curves(random=[[0.5, 0.6, 0.7]] * 2, badge=wrong)
