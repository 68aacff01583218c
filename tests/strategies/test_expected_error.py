"""Expected error reduction: the exchange of one class equals adding every label and judging every row again."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from tests.pools import make_pool
from tests.strategies.pools import make_arrays, view_for
from understudy import Surrogate
from understudy.errors import UnderstudyError
from understudy.strategies.expected_error import ExpectedError, expected_risk, most_probable_classes
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.view import PoolView


def clipped(means: np.ndarray) -> np.ndarray:
    kept = np.maximum(means, 0)
    return kept / kept.sum(-1, keepdims=True)


def risk(means: np.ndarray, clip: bool) -> float:
    return float((1 - (clipped(means) if clip else means).max(1)).mean())


def literal(s: Surrogate, row: int, judged: Any, max_labels: int, clip: bool) -> float:
    """The fall of the risk, with every likely label added to a copy."""
    chances = clipped(s.mean[row])
    labels = np.argsort(-chances)[:max_labels]
    after = [risk(deepcopy(s).tell([row], [label]).mean[judged], clip) for label in labels]
    return risk(s.mean[judged], clip) - float(chances[labels] @ after / chances[labels].sum())


def double(strategy: ExpectedError) -> ExpectedError:
    strategy.process = SurrogateStrategy(**strategy.process.options.given() | {"dtype": "float64"})
    return strategy


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("n_classes", "max_labels"), [(2, 10), (4, 10), (4, 2), (3, 1)])
def test_it_equals_adding_each_label_and_judging_every_row_again(n_classes: int, max_labels: int, clip: bool) -> None:
    pool = make_pool(40, n_classes, seed=1)
    labels = np.full(40, -1)
    labels[:12] = pool.labels[:12]
    # The learner has seen the first three only, so that the means have moved away from its predictions.
    view = PoolView(labels, n_classes, features=pool.features, probs=pool.probs, skipped=[39], trained_on=[0, 1, 2])
    strategy = double(ExpectedError(basis_size=15, max_labels=max_labels, clip=clip))
    picks = strategy.select(view, 27, np.random.default_rng(0))
    s = strategy.process.surrogate
    assert s is not None
    assert s.mean.min() < 0 or n_classes == 2
    judged = np.arange(12, 40)
    expected = [literal(s, row, judged, max_labels, clip) for row in picks.rows.tolist()]
    np.testing.assert_allclose(picks.scores, expected, atol=1e-10)
    assert (np.diff(picks.scores) <= 0).all()


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_the_exchange_of_a_class_equals_all_classes_anew(n_classes: int, clip: bool) -> None:
    rng = np.random.default_rng(0)
    means = rng.dirichlet(np.ones(n_classes), 7)
    means[0] = 1 / n_classes  # all tie
    at, ratios = rng.dirichlet(np.ones(n_classes), 4), rng.uniform(-0.5, 1, (4, 7))
    weights, labels = most_probable_classes(torch.from_numpy(at), n_classes)
    ours = expected_risk(torch.from_numpy(means), torch.from_numpy(ratios), torch.from_numpy(at), labels, weights, clip)
    for i in range(4):
        moved = [risk(means + ratios[i][:, None] * (np.eye(n_classes)[y] - at[i]), clip) for y in range(n_classes)]
        assert float(ours[i]) == pytest.approx(float(at[i] @ moved), abs=1e-12)


def test_no_label_is_expected_to_do_harm_unless_means_are_clipped() -> None:
    """The mean after a label is the mean before, on average, so its largest number can only rise."""
    arrays = make_arrays()
    arrays.probs[:] = np.eye(3)[arrays.truth] * 0.9 + 0.1 / 3  # a learner that is sure of everything
    found = {}
    for clip in (False, True):
        strategy = double(ExpectedError(basis_size=12, clip=clip))
        found[clip] = strategy.select(view_for(strategy, arrays, [1, 2]), 38, np.random.default_rng(0)).scores
    assert found[False].min() > -1e-12
    assert found[False].max() > 1e-4
    assert found[True].min() < -1e-4  # sure rows can lose but not gain


def test_blocks_change_nothing_and_neither_do_more_labels_than_classes() -> None:
    arrays, rows = make_arrays(), torch.arange(3, 40)

    def falls(max_labels: int = 10, pairs_per_block: int = 2**20) -> torch.Tensor:
        strategy = ExpectedError(basis_size=12, max_labels=max_labels)
        return strategy.expected_falls(view_for(strategy, arrays, [1, 2]), rows, rows, pairs_per_block)

    whole = falls()
    assert float(whole.max()) > 0
    torch.testing.assert_close(falls(pairs_per_block=100), whole)
    torch.testing.assert_close(falls(max_labels=3), whole)


def test_a_row_whose_label_says_something_of_many_comes_first() -> None:
    features = np.concatenate([np.zeros((9, 1)) + np.linspace(0, 0.1, 9)[:, None], [[50.0], [100.0]]])
    probs = np.full((11, 2), 0.5)
    probs[0] = probs[10] = 0.52, 0.48
    view = PoolView(np.full(11, -1), 2, features=features, probs=probs)
    picks = ExpectedError(basis_size=11).select(view, 1, np.random.default_rng(0))
    assert picks.rows[0] < 9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_that_turn_no_prediction_tie_and_the_lowest_rows_come_first(dtype: type) -> None:
    rng = np.random.default_rng(0)
    features = 10.0 * np.arange(12)[:, None] + rng.random((12, 1))  # all far apart
    probs = np.tile([0.98, 0.01, 0.01], (12, 1)) + rng.uniform(0, 1e-3, (12, 1)) * [1, -1, 0]
    view = PoolView(np.full(12, -1), 3, features=features.astype(dtype), probs=probs.astype(dtype))
    # Four basis points leave most of each row to noise, so a label cannot even turn its own row.
    picks = ExpectedError(basis_size=4, noise=3.0).select(view, 12, np.random.default_rng(0))
    assert picks.scores.tolist() == [0.0] * 12
    assert picks.rows.tolist() == list(range(12))


def test_only_so_many_rows_are_tried_and_judged() -> None:
    arrays = make_arrays()
    strategy = ExpectedError(max_candidates=4, max_judged=6, basis_size=10)
    view = view_for(strategy, arrays, [3, 5])
    seen = {row for seed in range(6) for row in strategy.select(view, 4, np.random.default_rng(seed)).rows.tolist()}
    assert 4 < len(seen) < 38
    assert len(strategy.select(view, 20, np.random.default_rng(0))) == 20


def test_the_seed_of_an_earlier_call_changes_nothing() -> None:
    used, fresh = ExpectedError(max_candidates=12, basis_size=8), ExpectedError(max_candidates=12, basis_size=8)
    view = view_for(used, make_arrays(), [3, 8, 11])
    used.select(view, 4, np.random.default_rng(0))
    again, first = (strategy.select(view, 4, np.random.default_rng(1)) for strategy in (used, fresh))
    assert again.rows.tolist() == first.rows.tolist()
    assert again.scores.tolist() == first.scores.tolist()


@pytest.mark.parametrize("name", ["max_candidates", "max_judged", "max_labels", "basis_size", "width"])
def test_a_bad_setting_is_named(name: str) -> None:
    bad: dict[str, Any] = {name: 0}
    with pytest.raises(UnderstudyError, match=name):
        ExpectedError(**bad)
