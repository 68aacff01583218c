import math

import pytest
import torch

from tests.learners.literal import as_sequential
from understudy.learners.stack import ACTIVATIONS, Stack, draw_stack

SIZES = (4, 7, 6, 5, 3)


def a_stack(activation: str, m: int = 3) -> Stack:
    generators = [torch.Generator().manual_seed(seed) for seed in range(m)]
    return draw_stack(SIZES, activation, generators, torch.device("cpu"))  # type: ignore[arg-type]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_each_network_of_a_stack_is_what_torch_makes_of_its_weights(activation: str) -> None:
    stack, inputs = a_stack(activation), torch.randn(3, 11, 4, generator=torch.Generator().manual_seed(9))
    outputs = stack(inputs)
    for j in range(3):
        net = as_sequential(stack.pick(j))
        torch.testing.assert_close(outputs.logits[j], net(inputs[j]))
        torch.testing.assert_close(outputs.hidden[1][j], net[:4](inputs[j]))
        torch.testing.assert_close(outputs.hidden[-1][j], net[:-1](inputs[j]))


def test_a_network_is_drawn_the_same_alone_and_among_others() -> None:
    alone = draw_stack(SIZES, "tanh", [torch.Generator().manual_seed(2)], torch.device("cpu"))
    for among, own in zip(a_stack("tanh").parameters, alone.parameters, strict=True):
        assert torch.equal(among[2:], own)


def test_weights_are_uniform_within_one_over_the_root_of_the_inputs() -> None:
    stack = draw_stack((400, 300), "tanh", [torch.Generator().manual_seed(0)], torch.device("cpu"))
    for values in (stack.weights[0], stack.biases[0]):
        assert values.abs().max() <= 1 / 20
    assert stack.weights[0].std().item() == pytest.approx(1 / 20 / math.sqrt(3), rel=0.01)
    assert stack.biases[0].std().item() == pytest.approx(1 / 20 / math.sqrt(3), rel=0.1)


def test_masks_are_applied_to_hidden_layers() -> None:
    stack, inputs = a_stack("relu"), torch.randn(3, 2, 4)
    masks = [torch.ones(1, 1, 7), torch.zeros(1, 1, 6), torch.ones(1, 1, 5)]
    outputs = stack(inputs, masks)
    assert not outputs.hidden[1].any()
    torch.testing.assert_close(outputs.logits[:, 0], outputs.logits[:, 1])
