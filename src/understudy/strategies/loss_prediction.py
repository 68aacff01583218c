"""A module trained jointly with the learner to predict its loss from the outputs of its hidden layers.

Only the ranking of the losses is learnt: they shrink while the learner trains, and a module that regressed their size
would learn little else.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.errors import UnderstudyError
from understudy.hooks import Setup, Step, TrainingHook
from understudy.strategies.ranking import in_blocks

PairLoss = Literal["margin", "rank"]
SEED_STREAM: Final = 2  # combined with a model's seed: the module's weights have their own random stream
ROWS_PER_BLOCK: Final = 4096  # predicted at a time


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of m networks."""

    weight: Float[Tensor, "m i o"]
    bias: Float[Tensor, "m 1 o"]

    def __call__(self, values: Float[Tensor, "m b i"]) -> Float[Tensor, "m b o"]:
        return torch.baddbmm(self.bias, values, self.weight)

    def pick(self, j: int, like: Tensor) -> "Layer":
        """The layer of the j-th network alone, on the device and in the dtype of another tensor."""
        return Layer(self.weight[j : j + 1].detach().to(like), self.bias[j : j + 1].detach().to(like))


@dataclass(frozen=True, eq=False)
class LossModule:
    """m modules: a small layer on every hidden layer, and one output from all of those."""

    inner: tuple[Layer, ...]
    last: Layer

    def __call__(self, hidden: Sequence[Float[Tensor, "m b _"]]) -> Float[Tensor, "m b"]:
        """The predicted loss of b items of each of m models."""
        seen = [torch.relu(layer(outputs)) for layer, outputs in zip(self.inner, hidden, strict=True)]
        return self.last(torch.cat(seen, dim=2))[:, :, 0]

    @property
    def parameters(self) -> list[Tensor]:
        return [tensor for layer in (*self.inner, self.last) for tensor in (layer.weight, layer.bias)]

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(layer.weight.shape[1] for layer in self.inner)

    def pick(self, j: int, like: Tensor) -> "LossModule":
        """The j-th of them alone, on the device and in the dtype of another tensor."""
        return LossModule(tuple(layer.pick(j, like) for layer in self.inner), self.last.pick(j, like))


def _draw_module(widths: Sequence[int], width: int, seeds: Sequence[int], device: torch.device) -> LossModule:
    """Modules for hidden layers of these widths, one per seed, independent of each other."""
    generators = [
        torch.Generator().manual_seed(int(np.random.default_rng([seed, SEED_STREAM]).integers(2**63))) for seed in seeds
    ]
    inner = tuple(_draw_layer(before, width, generators, device) for before in widths)
    return LossModule(inner, _draw_layer(width * len(widths), 1, generators, device))


def _draw_layer(before: int, after: int, generators: Sequence[torch.Generator], device: torch.device) -> Layer:
    """Weights and biases uniform in ±1/√(inputs of the layer), to be trained."""
    bound = 1 / math.sqrt(before)
    drawn = torch.stack([2 * bound * torch.rand(before + 1, after, generator=own) - bound for own in generators])
    drawn = drawn.to(device)
    return Layer(drawn[:, 1:].clone().requires_grad_(), drawn[:, :1].clone().requires_grad_())


def mirrored_pairs(values: Float[Tensor, "m b"]) -> tuple[Float[Tensor, "m p"], Float[Tensor, "m p"]]:
    """Pair the first with the last, the second with the second to last, ...; an odd batch's middle has no partner."""
    pairs = values.shape[1] // 2
    return values[:, :pairs], values.flip(1)[:, :pairs]


def margin_loss(
    predicted: Float[Tensor, "m b"], losses: Float[Tensor, "m b"], margin: float = 1.0
) -> Float[Tensor, "m"]:
    """Hinge loss: the larger loss of a pair must be predicted larger by a margin. A tie counts as smaller."""
    one, other = mirrored_pairs(predicted)
    loss, against = mirrored_pairs(losses)
    sign = torch.where(loss > against, 1.0, -1.0)
    return (margin - sign * (one - other)).clamp(min=0).mean(1)


def rank_loss(predicted: Float[Tensor, "m b"], losses: Float[Tensor, "m b"]) -> Float[Tensor, "m"]:
    """Cross-entropy of which loss of a pair is larger; the logit is the difference of the predictions."""
    one, other = mirrored_pairs(predicted)
    loss, against = mirrored_pairs(losses)
    return binary_cross_entropy_with_logits(one - other, (loss > against).to(one), reduction="none").mean(1)


@dataclass(eq=False)
class LossPredictionHook(TrainingHook):
    """Trains a loss module along with each model.

    Up to epoch `detach_after` times the number of epochs, counted from 0, the module's loss also reaches the
    learner's layers; after it, only the module is trained by it.
    """

    pair_loss: PairLoss = "margin"
    weight: float = 1.0
    margin: float = 1.0
    width: int = 128
    detach_after: float = 0.6
    module: LossModule | None = field(default=None, init=False)
    last_attached: int = field(default=0, init=False)
    pair_losses: list[Float[Tensor, "m"]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        check_choice("pair_loss", self.pair_loss, get_args(PairLoss))
        for name in ("weight", "margin"):
            check_number(name, getattr(self, name), above=0)
        check_number("detach_after", self.detach_after, least=0, most=1)
        check_whole_number("width", self.width, 1)

    def begin(self, setup: Setup) -> None:
        self.module = _draw_module(setup.widths, self.width, setup.seeds, setup.labels.device)
        self.last_attached = round(self.detach_after * setup.epochs)
        self.pair_losses = []

    def parameters(self) -> Sequence[Tensor]:
        return self.trained_module.parameters

    def loss(self, step: Step) -> Float[Tensor, "m"]:
        usual = step.losses.mean(1)
        if step.losses.shape[1] < 2:  # no pair to compare
            return usual
        attached = step.epoch <= self.last_attached
        predicted = self.trained_module([layer if attached else layer.detach() for layer in step.hidden])
        pairs = self.compare(predicted, step.losses.detach())
        self.pair_losses.append(pairs.detach())  # stays on its device: reading it would synchronise every step
        return usual + self.weight * pairs

    def part(self, model: int) -> "LossPredictionHook":
        """A hook with the module of one model only."""
        alone = copy(self)
        alone.module = self.trained_module.pick(model, like=self.trained_module.last.weight)
        alone.pair_losses = [losses[model : model + 1] for losses in self.pair_losses]
        return alone

    def compare(self, predicted: Float[Tensor, "m b"], losses: Float[Tensor, "m b"]) -> Float[Tensor, "m"]:
        if self.pair_loss == "margin":
            return margin_loss(predicted, losses, self.margin)
        return rank_loss(predicted, losses)

    @property
    def trained_module(self) -> LossModule:
        if self.module is None:
            raise UnderstudyError("no loss module was trained yet; train the learner with this strategy's hook first")
        return self.module

    @property
    def history(self) -> Float[np.ndarray, "steps m"]:
        """The pair losses of every model by step of the latest training; steps without pairs are left out."""
        if not self.pair_losses:
            return np.zeros((0, len(self.trained_module.last.weight)), np.float32)
        return torch.stack(self.pair_losses).cpu().numpy()

    @torch.no_grad()
    def predict(
        self,
        activations: Sequence[Float[Tensor, "n _"]],
        rows: Int[Tensor, "r"] | None = None,
        model: int = 0,
        rows_per_block: int = ROWS_PER_BLOCK,
    ) -> Float[Tensor, "_"]:
        """The predicted loss of these rows, or of all, from the outputs of every hidden layer of a finished model.

        Computed on the outputs' device and in their dtype, in blocks of rows.
        """
        widths, learnt = tuple(layer.shape[1] for layer in activations), self.trained_module.widths
        if widths != learnt:
            raise UnderstudyError(
                f"the loss module was trained on hidden layers of widths {learnt}, but the activations have "
                f"{widths}; pass those of the learner that was trained with this hook"
            )
        module = self.trained_module.pick(model, like=activations[0])
        if rows is None:
            rows = torch.arange(len(activations[0]), device=activations[0].device)
        return in_blocks(rows, rows_per_block, lambda some: module([layer[some][None] for layer in activations])[0])


class LearnsLosses:
    """A strategy whose hook trains a loss module along with the learner; shared by Learning Loss and TA-VAAL."""

    hook: LossPredictionHook  # of the latest training

    def make_hook(self) -> LossPredictionHook:
        raise NotImplementedError

    def training_hook(self, teacher: Any, rng: np.random.Generator) -> LossPredictionHook:
        """A new module for each training, like the learner: its weights come from the learner's seed."""
        self.hook = self.make_hook()
        return self.hook

    @property
    def shares_training(self) -> bool:
        return True

    def adopt(self, hook: TrainingHook) -> None:
        """Use the module that another run's hook trained along with this run's model."""
        assert isinstance(hook, LossPredictionHook)
        self.hook = hook
