"""Weight-decay scheduling: entropy, and a learner whose weight decay falls as labels come in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.checks import check_choice, check_number
from understudy.errors import UnderstudyError
from understudy.hooks import Setup, Step, TrainingHook
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import top
from understudy.strategies.uncertainty import entropy
from understudy.strategies.view import Picks, PoolView, check_subset_size

Form = Literal["inverse_round", "inverse_size", "fixed"]


class DecayHook(TrainingHook):
    """Changes the weight decay and nothing else."""

    def __init__(self, share: Callable[[int], float]) -> None:
        self.share = share

    def weight_decay(self, usual: float, n_labels: int) -> float:
        return usual * self.share(n_labels)


class DistillationHook(DecayHook):
    """Changes the weight decay, and distils from the model of the previous round in addition to the labels."""

    def __init__(self, share: Callable[[int], float], teacher: Any, alpha: float, temperature: float) -> None:
        super().__init__(share)
        self.teacher = teacher
        self.alpha = alpha
        self.temperature = temperature
        self.taught = torch.empty(0)  # (m, n, c): the teacher's logits for each model's labelled items

    def begin(self, setup: Setup) -> None:
        if not hasattr(self.teacher, "logits"):
            raise UnderstudyError(
                f"distillation needs a teacher with logits, which {type(self.teacher).__name__} does not have; "
                "use another learner, or distillation=False"
            )
        logits = np.stack([self.teacher.logits(inputs) for inputs in setup.inputs])
        if logits.shape[2] != setup.n_classes:
            raise UnderstudyError(
                f"the teacher has {logits.shape[2]} classes, but {setup.n_classes} are to be learnt; "
                "create the hook without a teacher this time"
            )
        self.taught = torch.from_numpy(logits).to(setup.labels.device)

    def loss(self, step: Step) -> Float[Tensor, "m"]:
        which = torch.arange(len(step.rows), device=step.rows.device)[:, None]
        taught = self.taught[which, step.rows].to(step.logits)
        return distillation_loss(step.losses, step.logits, taught, self.alpha, self.temperature).mean(1)


def distillation_loss(
    losses: Float[Tensor, "*b"],
    logits: Float[Tensor, "*b c"],
    taught: Float[Tensor, "*b c"],
    alpha: float,
    temperature: float,
) -> Float[Tensor, "*b"]:
    """(1 - α) loss + α T² KL(softmax(taught / T) ‖ softmax(logits / T)), per item."""
    target = (taught / temperature).log_softmax(-1)
    divergence = (target.exp() * (target - (logits / temperature).log_softmax(-1))).sum(-1)
    return (1 - alpha) * losses + alpha * temperature**2 * divergence


@dataclass(eq=False)
class WeightSchedule:
    """The rows of highest entropy; the learner's weight decay decreases as labelling progresses."""

    form: Form = "inverse_round"
    distillation: bool = False
    alpha: float = 0.5
    temperature: float = 6.0
    subset_size: int | None = None
    rounds: int = field(default=0, init=False)  # trainings so far
    first_size: int | None = field(default=None, init=False)  # labels of the first training

    def __post_init__(self) -> None:
        check_choice("form", self.form, get_args(Form))
        check_number("alpha", self.alpha, least=0, most=1)
        check_number("temperature", self.temperature, above=0)
        check_subset_size(self.subset_size)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"probs"}), hook=True)

    def training_hook(self, teacher: Any, rng: np.random.Generator) -> DecayHook:
        """The hook of the next round; without a teacher there is nothing to distil."""
        number = self.rounds = self.rounds + 1

        def share(n_labels: int) -> float:
            return self.share(number, n_labels)

        if self.distillation and teacher is not None:
            return DistillationHook(share, teacher, self.alpha, self.temperature)
        return DecayHook(share)

    @property
    def shares_training(self) -> bool:
        return not self.distillation  # each run has its own teacher

    def adopt(self, hook: TrainingHook) -> None:
        """Count a joint training as one more round. The hook itself holds nothing per model."""
        self.rounds += 1

    def share(self, number: int, n_labels: int) -> float:
        """The share of the learner's weight decay in this round, counted from 1."""
        if self.first_size is None:
            self.first_size = n_labels
        if self.form == "inverse_round":
            return 1 / number
        return self.first_size / n_labels if self.form == "inverse_size" else 1.0

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.subset_size, rng)
        return top(rows, entropy(view.probs[rows]), n)
