"""Gradient norms per item, without storing a gradient for each item."""

import math
from collections.abc import Iterator
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.learners.stack import Outputs, Stack

GradientOf = Literal["entropy", "each_class"]
Layers = Literal["all", "last"]


def check_gradients(of: str, layers: str) -> None:
    if of not in get_args(GradientOf) or layers not in get_args(Layers):
        raise UnderstudyError(f"of must be 'entropy' or 'each_class', layers 'all' or 'last'; got {of!r}, {layers!r}")


def slopes(of: GradientOf, logits: Float[Tensor, "b c"]) -> Iterator[tuple[Float[Tensor, "b"], Float[Tensor, "b c"]]]:
    """The gradients with respect to the logits whose norms are needed, one after the other, each with its weight."""
    if of == "entropy":
        yield torch.ones_like(logits[:, 0]), entropy_slope(logits)
        return
    probs = logits.softmax(1)
    for label in range(probs.shape[1]):
        slope = probs.clone()
        slope[:, label] = 0
        slope[:, label] = -slope.sum(1)  # p - 1, which would lose precision where p is nearly 1
        yield probs[:, label], slope


def entropy_slope(logits: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
    """∂ entropy(softmax z) / ∂ z."""
    logs = logits.log_softmax(-1)
    probs = logs.exp()
    entropy = -(probs * logs).sum(-1, keepdim=True)
    return -probs * (logs + entropy)


def join_lengths(of: GradientOf, lengths: Float[Tensor, "b p"]) -> Float[Tensor, "b"]:
    """One norm per item, from the norms of its gradient with respect to each of p parameters.

    For the entropy they are summed, as in GradNorm. Expected gradient length treats all parameters as one vector.
    """
    return lengths.sum(1) if of == "entropy" else lengths.norm(dim=1)


def gradient_lengths(
    stack: Stack, inputs: Float[Tensor, "b d"], outputs: Outputs, slope: Float[Tensor, "b c"]
) -> Float[Tensor, "b p"]:
    """For each item, the norm of a loss's gradient with respect to each weight matrix and each bias.

    `slope` is the gradient with respect to the logits. That of a weight matrix is an outer product, so its norm is
    the product of two norms, and nothing of the size of the weights is ever stored per item.
    """
    before = [inputs, *(layer[0] for layer in outputs.hidden)]
    lengths = []
    for i in reversed(range(len(before))):
        of_bias = slope.norm(dim=1)
        lengths += [of_bias * before[i].norm(dim=1), of_bias]
        if i:
            slope = slope @ stack.weights[i][0].T * _activation_slope(stack, before[i - 1], i - 1, before[i])
    return torch.stack(lengths, dim=1)


def _activation_slope(
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
