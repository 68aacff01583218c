"""m perceptrons of one shape as one: every layer is a batched product.

One small network leaves a processor mostly waiting for the next call. m of them, each with its own weights, its own
data and its own random numbers, need no more calls than one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import torch
from jaxtyping import Float
from torch import Tensor

Activation = Literal["tanh", "relu", "gelu"]
ACTIVATIONS: Final = {"tanh": torch.tanh, "relu": torch.relu, "gelu": torch.nn.functional.gelu}

Masks = Sequence[Float[Tensor, "..."]]  # one a hidden layer, broadcast against its output


@dataclass(frozen=True, eq=False)
class Outputs:
    """What m networks make of b items each."""

    hidden: tuple[Float[Tensor, "m b _"], ...]
    logits: Float[Tensor, "m b c"]


@dataclass(frozen=True, eq=False)
class Stack:
    """Weights and biases of m perceptrons, layer by layer."""

    weights: tuple[Float[Tensor, "m _ _"], ...]
    biases: tuple[Float[Tensor, "m 1 _"], ...]
    activation: Activation

    def __len__(self) -> int:
        return len(self.weights[0])

    @property
    def parameters(self) -> list[Tensor]:
        return [*self.weights, *self.biases]

    def __call__(self, inputs: Float[Tensor, "m b d"], masks: Masks = ()) -> Outputs:
        """Hidden outputs, after their masks where there are any, and logits."""
        hidden: list[Tensor] = []
        last = inputs
        for i, (weight, bias) in enumerate(zip(self.weights[:-1], self.biases[:-1], strict=True)):
            last = ACTIVATIONS[self.activation](torch.baddbmm(bias, last, weight))
            if masks:
                last = last * masks[i]
            hidden.append(last)
        return Outputs(tuple(hidden), torch.baddbmm(self.biases[-1], last, self.weights[-1]))

    def pick(self, j: int) -> "Stack":
        """The j-th of them alone, with weights of its own."""
        return Stack(
            tuple(weight[j : j + 1].detach().clone() for weight in self.weights),
            tuple(bias[j : j + 1].detach().clone() for bias in self.biases),
            self.activation,
        )


def draw_stack(
    sizes: Sequence[int], activation: Activation, generators: Sequence[torch.Generator], device: torch.device
) -> Stack:
    """Networks with weights and biases uniform in ±1/√(inputs of the layer), each from a generator of its own."""
    weights, biases = [], []
    for before, after in pairwise(sizes):
        bound = 1 / math.sqrt(before)
        drawn = [
            2 * bound * torch.rand(before + 1, after, generator=generator, dtype=torch.float32) - bound
            for generator in generators
        ]
        layer = torch.stack(drawn).to(device)
        weights.append(layer[:, 1:].contiguous())
        biases.append(layer[:, :1].contiguous())
    return Stack(tuple(weights), tuple(biases), activation)


# -- gradients, item by item ------------------------------------------------------------------------------


def entropy_slope(logits: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
    """∂ entropy(softmax z) / ∂ z."""
    logs = logits.log_softmax(-1)
    probs = logs.exp()
    entropy = -(probs * logs).sum(-1, keepdim=True)
    return -probs * (logs + entropy)


def gradient_norms(
    stack: Stack, inputs: Float[Tensor, "b d"], outputs: Outputs, slope: Float[Tensor, "b c"]
) -> Float[Tensor, "b"]:
    """For each item, the length of a loss's gradient in each weight matrix and each bias, summed over those.

    `slope` is the gradient of that loss in the logits. Every gradient in a weight matrix is an outer product, so that
    its length is the product of two lengths: nothing of the size of the weights is ever made for an item.
    """
    before = [inputs, *(layer[0] for layer in outputs.hidden)]
    total = inputs.new_zeros(len(inputs))
    for i in reversed(range(len(before))):
        total += slope.norm(dim=1) * (before[i].norm(dim=1) + 1)  # the weights, and 1 for the bias
        if i:
            slope = slope @ stack.weights[i][0].T * activation_slope(stack, before[i - 1], i - 1, before[i])
    return total


def activation_slope(
    stack: Stack, before: Float[Tensor, "b i"], layer: int, after: Float[Tensor, "b o"]
) -> Float[Tensor, "b o"]:
    """The derivative of a hidden layer's activation, from the layer's input and output."""
    if stack.activation == "tanh":
        return 1 - after**2
    if stack.activation == "relu":
        return (after > 0).to(after.dtype)
    z = torch.addmm(stack.biases[layer][0], before, stack.weights[layer][0])
    cumulative = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    return cumulative + z * torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
