"""m perceptrons of one shape computed as one: every layer is a batched matrix product.

One small network leaves a GPU mostly waiting for the next call. m of them, each with its own weights, its own
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

Masks = Sequence[Float[Tensor, "..."]]  # one per hidden layer, broadcast against its output


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of m networks for b items each."""

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
        """Hidden outputs, after any dropout masks, and logits."""
        hidden: list[Tensor] = []
        last = inputs
        for i, (weight, bias) in enumerate(zip(self.weights[:-1], self.biases[:-1], strict=True)):
            last = ACTIVATIONS[self.activation](torch.baddbmm(bias, last, weight))
            if masks:
                last = last * masks[i]
            hidden.append(last)
        return Outputs(tuple(hidden), torch.baddbmm(self.biases[-1], last, self.weights[-1]))

    def pick(self, j: int) -> "Stack":
        """A copy of the j-th network alone."""
        return Stack(
            tuple(weight[j : j + 1].detach().clone() for weight in self.weights),
            tuple(bias[j : j + 1].detach().clone() for bias in self.biases),
            self.activation,
        )


def draw_stack(
    sizes: Sequence[int], activation: Activation, generators: Sequence[torch.Generator], device: torch.device
) -> Stack:
    """Networks with weights and biases uniform in ±1/√(inputs of the layer), each from its own generator."""
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
