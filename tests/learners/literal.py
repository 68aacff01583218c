"""Training one head the plain way: torch's own layers, torch's own optimiser, one item list, no stacking."""

import numpy as np
import torch
from torch import Tensor, nn

from understudy.learners.heads import Head
from understudy.learners.stack import Stack, draw_stack

LAYERS = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}


def as_sequential(stack: Stack) -> nn.Sequential:
    """The one network in a stack of one, as torch writes it."""
    layers: list[nn.Module] = []
    for weight, bias in zip(stack.weights, stack.biases, strict=True):
        linear = nn.Linear(weight.shape[1], weight.shape[2])
        linear.weight.data = weight[0].T.detach().clone()
        linear.bias.data = bias[0, 0].detach().clone()
        layers += [linear, LAYERS[stack.activation]()]
    return nn.Sequential(*layers[:-1])


def train_literally(head: Head, inputs: np.ndarray, labels: np.ndarray, n_classes: int, seed: int) -> nn.Sequential:
    """The head of `Head.fit` without dropout or scaling, step by step."""
    recipe, generator = head.recipe, torch.Generator().manual_seed(seed)
    sizes = (inputs.shape[1], *head.hidden, n_classes)
    net = as_sequential(draw_stack(sizes, head.activation, [generator], torch.device("cpu")))
    if recipe.optimiser == "sgd":
        optimiser: torch.optim.Optimizer = torch.optim.SGD(
            net.parameters(), recipe.learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
        )
    else:
        optimiser = torch.optim.AdamW(net.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, recipe.step_every, recipe.gamma)
    x, y = torch.from_numpy(inputs).float(), torch.from_numpy(labels)
    for _ in range(recipe.epochs):
        for rows in torch.split(torch.randperm(len(x), generator=generator), recipe.batch_size):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows], label_smoothing=recipe.label_smoothing)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        scheduler.step()
    return net


def gradient_lengths(net: nn.Module, item: Tensor, of: str) -> float:
    """By automatic differentiation of one item: of the entropy, the lengths in all parameters summed.

    Otherwise the expected length of the gradient of the cross-entropy, all parameters laid end to end.
    """

    def gradients(loss: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)

    def whole(loss: Tensor) -> float:
        return float(torch.cat([gradient.flatten() for gradient in gradients(loss)]).double().norm())

    logits = net(item[None])[0].double()  # in float32 the gradient of a small cross-entropy, p - 1, has few digits
    probs = logits.softmax(0)
    if of == "entropy":
        return sum(float(gradient.norm()) for gradient in gradients(-(probs * probs.log()).sum()))
    classes = range(len(logits))
    return sum(
        float(probs[label].detach()) * whole(nn.functional.cross_entropy(logits[None], torch.tensor([label])))
        for label in classes
    )
