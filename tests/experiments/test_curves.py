"""Statistics of learning curves, against numbers worked out by hand."""

import numpy as np
import pytest

from understudy import UnderstudyError
from understudy.experiments.curves import Curves


def curves(**accuracy: list[list[float]]) -> Curves:
    return Curves("toy", (10, 20, 40), {name: np.array(values) for name, values in accuracy.items()})


TWO = curves(
    margin=[[0.5, 0.7, 0.9], [0.5, 0.8, 1.0]],
    random=[[0.5, 0.6, 0.7], [0.5, 0.5, 0.8]],
)


def test_the_area_weighs_each_step_by_its_labels() -> None:
    # (10 * 0.6 + 20 * 0.8) / 30 and (10 * 0.65 + 20 * 0.9) / 30
    np.testing.assert_allclose(TWO.area("margin"), [22 / 30, 24.5 / 30])


def test_one_round_has_its_accuracy_for_an_area() -> None:
    assert Curves("toy", (5,), {"random": np.array([[0.4], [0.6]])}).area("random").tolist() == [0.4, 0.6]


def test_some_strategies_in_their_own_order() -> None:
    assert list(TWO.only(["random", "margin"]).accuracy) == ["random", "margin"]
    assert list(TWO.only(name for name in ["random"]).accuracy) == ["random"]
    with pytest.raises(UnderstudyError, match="toy has no curves of 'badge'; it has margin, random"):
        TWO.only(["badge"])


def test_the_first_budgets() -> None:
    assert TWO.first(2).schedule == (10, 20)
    np.testing.assert_allclose(TWO.first(2).area("margin"), [0.6, 0.65])


@pytest.mark.parametrize("wrong", [[[0.5, 0.6]], [[0.5, 0.6, 0.7]], [0.5, 0.6, 0.7]])
def test_curves_of_another_shape_are_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(UnderstudyError, match=r"badge are .* pass \(2, 3\)"):
        curves(random=[[0.5, 0.6, 0.7]] * 2, badge=wrong)


def test_only_curves_of_accuracy_have_accuracies() -> None:
    assert TWO.accuracy is TWO.values
    losses = Curves("toy", (10, 20, 40), TWO.values, "log_loss")
    with pytest.raises(UnderstudyError, match=r"of toy are of log_loss, not of accuracy; use \.values"):
        losses.accuracy  # noqa: B018  # raises
    assert losses.only(["margin"]).metric == losses.first(2).metric == "log_loss"
    with pytest.raises(UnderstudyError, match="no metric 'f1'; choose accuracy, balanced_accuracy, log_loss"):
        Curves("toy", (10, 20, 40), TWO.values, "f1").measure  # noqa: B018  # raises
    np.testing.assert_array_equal(losses.upwards(losses.area("margin")), -TWO.area("margin"))
