import math

import pytest
import torch

from tests.learners.literal import as_sequential
from tests.learners.literal import gradient_lengths as literally
from tests.learners.test_stack import a_stack
from understudy.learners.gradients import entropy_slope, gradient_lengths, join_lengths, slopes
from understudy.learners.stack import ACTIVATIONS


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("of", ["entropy", "cross-entropy"])
def test_gradient_lengths_are_those_of_automatic_differentiation(activation: str, of: str) -> None:
    stack = a_stack(activation).pick(1)
    net = as_sequential(stack)
    inputs = torch.randn(9, 4, generator=torch.Generator().manual_seed(3))
    outputs = stack(inputs[None])
    logits = outputs.logits[0]
    if of == "entropy":
        found = join_lengths("entropy", gradient_lengths(stack, inputs, outputs, entropy_slope(logits)))
        expected = [literally(net, item, "entropy") for item in inputs]
    else:
        probs = logits.softmax(1)
        found = sum(
            probs[:, label]
            * join_lengths("each_class", gradient_lengths(stack, inputs, outputs, probs - torch.eye(3)[label]))
            for label in range(3)
        )  # type: ignore[assignment]
        expected = [literally(net, item, "expected") for item in inputs]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_lengths_are_summed_for_the_entropy_and_squared_first_for_the_expected_length() -> None:
    lengths = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert join_lengths("entropy", lengths).tolist() == [7, 0]
    assert join_lengths("each_class", lengths).tolist() == [5, 0]


def test_the_slope_of_a_cross_entropy_keeps_its_digits_where_a_class_is_nearly_certain() -> None:
    logits = torch.tensor([[12.0, 0.0, 1.0], [0.3, -0.2, 0.9]])
    probs = logits.double().softmax(1)
    for label, (weight, slope) in enumerate(slopes("each_class", logits)):
        torch.testing.assert_close(weight.double(), probs[:, label], rtol=1e-5, atol=0)
        torch.testing.assert_close(slope.double(), probs - torch.eye(3)[label], rtol=1e-5, atol=0)


def test_the_entropy_is_flat_where_classes_are_equally_likely_or_one_is_certain() -> None:
    assert entropy_slope(torch.zeros(1, 2)).abs().max() == 0
    assert entropy_slope(torch.tensor([[60.0, 0.0]])).abs().max() < 1e-20


def test_with_two_classes_the_slope_of_the_entropy_is_the_known_one() -> None:
    p = torch.linspace(0.02, 0.98, 25, dtype=torch.float64)
    slope = entropy_slope(torch.stack([p.log(), (1 - p).log()], dim=1))
    expected = math.sqrt(2) * p * (1 - p) * (p / (1 - p)).log().abs()
    torch.testing.assert_close(slope.norm(dim=1), expected)
