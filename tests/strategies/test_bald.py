"""BALD: the golden numbers; draws that favour it."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from tests.strategies.pools import make_arrays, view_for
from understudy.errors import UnderstudyError
from understudy.strategies.bald import Bald, Kind, PowerBald, log_weights, mutual_information, variation_ratio
from understudy.strategies.ranking import top
from understudy.strategies.view import PoolView

OPPOSED = [[0.9, 0.1], [0.1, 0.9]]
ALIKE = [[0.6, 0.4], [0.6, 0.4]]
UNSURE = [[0.5, 0.5], [0.5, 0.5]]


def view_of(*stochastic: list[list[float]]) -> PoolView:
    return PoolView(np.full(len(stochastic), -1), 2, stochastic=np.array(stochastic))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_golden_numbers(dtype: torch.dtype) -> None:
    stochastic = torch.tensor([OPPOSED, ALIKE, UNSURE, [[1.0, 0.0], [0.0, 1.0]]], dtype=dtype)
    found = mutual_information(stochastic, torch.arange(4))
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([0.368064, 0, 0, math.log(2)], abs=1e-6)
    assert (found >= 0).all()


def test_it_is_the_entropy_of_the_mean_less_the_mean_entropy_also_in_blocks() -> None:
    stochastic = make_arrays(30).stochastic
    mean = stochastic.mean(1)
    slow = -(mean * np.log(mean)).sum(1) + (stochastic * np.log(stochastic)).sum(2).mean(1)
    rows = torch.arange(2, 28)
    found = mutual_information(torch.from_numpy(stochastic), rows, numbers_per_block=100).numpy()
    assert np.allclose(found, slow[2:28], rtol=0, atol=1e-12)


def test_the_variation_ratio_goes_by_the_mean_prediction_also_in_blocks() -> None:
    stochastic = torch.tensor([OPPOSED, ALIKE, [[1.0, 0.0], [0.5, 0.5]]])
    found = variation_ratio(stochastic, torch.arange(3), numbers_per_block=5)
    assert found.tolist() == pytest.approx([0.5, 0.4, 0.25])


def test_contradiction_is_preferred_to_doubt() -> None:
    picks = Bald().select(view_of(UNSURE, ALIKE, OPPOSED), 3, np.random.default_rng(0))
    assert picks.rows.tolist() == [2, 0, 1]
    assert picks.scores[0] == pytest.approx(0.368064, abs=1e-6)


def test_it_asks_for_the_passes_it_was_set_to() -> None:
    assert (Bald(passes=7).needs.passes, PowerBald(passes=9, dropout=0.25).needs.dropout) == (7, 0.25)


def test_log_weights_of_each_kind() -> None:
    scores = torch.tensor([0.2, 0.0, 0.5, 0.2], dtype=torch.float64)
    assert log_weights(scores, "power").exp().tolist() == pytest.approx([0.2, 1e-12, 0.5, 0.2])
    assert log_weights(scores, "softmax").tolist() == scores.tolist()
    assert log_weights(scores, "softrank").exp().tolist() == pytest.approx([1 / 2, 1 / 4, 1, 1 / 3])


@pytest.mark.parametrize(
    ("kind", "beta", "odds"),
    [
        ("power", 1.0, lambda s: s),
        ("power", 2.0, lambda s: s**2),
        ("softmax", 3.0, lambda s: np.exp(3 * s)),
        ("softrank", 1.0, lambda s: 1 / (1 + np.argsort(np.argsort(-s)))),
    ],
)
def test_the_first_row_is_drawn_with_the_odds_of_its_kind(kind: Kind, beta: float, odds: object) -> None:
    assert callable(odds)
    view = view_for(PowerBald(), make_arrays(6), [])
    scores = mutual_information(view.stochastic, torch.arange(6)).numpy()
    shares = odds(scores) / odds(scores).sum()
    rng, draws = np.random.default_rng(0), 1_000
    firsts = [int(PowerBald(kind, beta).select(view, 1, rng).rows[0]) for _ in range(draws)]
    assert chisquare(np.bincount(firsts, minlength=6), draws * shares).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["power", "softmax", "softrank"])
def test_a_large_beta_leaves_the_order_of_bald(kind: Kind) -> None:
    view = view_for(PowerBald(), make_arrays(12), [0])
    rows = view.candidates(5)
    expected = top(rows, mutual_information(view.stochastic, rows), 5)
    picks = PowerBald(kind, 1e9).select(view, 5, np.random.default_rng(0))
    assert picks.rows.tolist() == expected.rows.tolist()
    assert picks.scores.tolist() == expected.scores.tolist()


def test_bad_settings_are_errors() -> None:
    with pytest.raises(UnderstudyError, match="kind must be one of power, softmax, softrank"):
        PowerBald("linear")  # type: ignore[arg-type]
    for beta in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UnderstudyError, match="beta must be a number above 0"):
            PowerBald(beta=beta)
    for made in (Bald, PowerBald):
        with pytest.raises(UnderstudyError, match="passes must be a whole number of at least 1"):
            made(passes=0)
        with pytest.raises(UnderstudyError, match="dropout must be a number above 0 and below 1"):
            made(dropout=1.0)
