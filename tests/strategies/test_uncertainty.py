"""Entropy, margin and least confidence: the golden numbers, and what each prefers."""

import numpy as np
import pytest
import torch

from understudy.errors import UnderstudyError
from understudy.strategies.registry import make_strategy
from understudy.strategies.uncertainty import Uncertainty, entropy, least_confidence, margin
from understudy.strategies.view import PoolView

GOLDEN = torch.tensor([[0.6, 0.4, 0.0], [0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], dtype=torch.float64)


def ranked(name: str, probs: torch.Tensor) -> list[int]:
    view = PoolView(np.full(len(probs), -1), probs.shape[1], probs=probs)
    rows: list[int] = make_strategy(name).select(view, len(probs), np.random.default_rng(0)).rows.tolist()
    return rows


def test_golden_numbers() -> None:
    assert entropy(GOLDEN).tolist() == pytest.approx([0.6730117, 1.0397208, 0.6931472], abs=1e-6)
    assert margin(GOLDEN).tolist() == pytest.approx([0.8, 0.75, 1.0])
    assert least_confidence(GOLDEN).tolist() == pytest.approx([0.4, 0.5, 0.5])


@pytest.mark.parametrize(
    ("name", "order"), [("entropy", [1, 2, 0]), ("margin", [2, 0, 1]), ("least_confidence", [1, 2, 0])]
)
def test_golden_order_with_ties_to_the_lowest_row(name: str, order: list[int]) -> None:
    assert ranked(name, GOLDEN) == order


def test_two_classes_are_ranked_alike_by_all_three() -> None:
    first = np.random.default_rng(0).random(50)
    probs = torch.from_numpy(np.stack([first, 1 - first], 1))
    assert ranked("entropy", probs) == ranked("margin", probs) == ranked("least_confidence", probs)


def test_a_single_class_leaves_no_doubt() -> None:
    assert ranked("margin", torch.ones(4, 1)) == [0, 1, 2, 3]


def test_certainty_has_no_entropy_in_either_precision() -> None:
    for dtype in (torch.float32, torch.float64):
        assert entropy(torch.tensor([[1.0, 0.0]], dtype=dtype)).tolist() == [0.0]


def test_an_unknown_score_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="score must be one of entropy"):
        Uncertainty("doubt")  # type: ignore[arg-type]
