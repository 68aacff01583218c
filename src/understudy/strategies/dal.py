"""DAL: the rows that a small classifier most confidently tells apart from the labelled ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from understudy.checks import check_number, check_whole_number
from understudy.strategies.protocol import Needs
from understudy.strategies.randomness import draw_subset, seeded_layers, torch_generator
from understudy.strategies.ranking import in_blocks, top, utilities, weighted_draw
from understudy.strategies.view import Picks, PoolView, Utilities

ROWS_PER_BLOCK: Final = 4096  # predicted at a time
SHARPNESS: Final = 0.01  # of the sampling: odds fall by a factor e for each decrease of the probability by this much


@dataclass(frozen=True)
class ClassifierTraining:
    """How the classifier is trained: Adam, until it is accurate enough or the epochs are over."""

    learning_rate: float
    epochs: int
    batch_size: int


# By the number of inputs; the last entry is for all other numbers.
TRAININGS: Final = {512: ClassifierTraining(2e-4, 500, 1024), 128: ClassifierTraining(1e-4, 1000, 128)}
OTHER_TRAINING: Final = ClassifierTraining(1e-3, 1000, 32)


@dataclass(frozen=True)
class DAL:
    """Picks in sub-batches, each most confidently unlabelled to a classifier that counts earlier ones as labelled.

    `learning_rate`, `max_epochs` and `batch_size` default to values that depend on the number of inputs.
    """

    stochastic: bool = False
    sub_batches: int | None = None  # 20, or 10 if stochastic
    subsample: int = 10  # unlabelled rows per labelled one
    stop_above: float = 0.98
    learning_rate: float | None = None
    max_epochs: int | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        for name in ("sub_batches", "subsample", "max_epochs", "batch_size"):
            if getattr(self, name) is not None:
                check_whole_number(name, getattr(self, name), 1)
        check_number("stop_above", self.stop_above, above=0, most=1)
        if self.learning_rate is not None:
            check_number("learning_rate", self.learning_rate, above=0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"hidden"}), labelled=1)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        view.require_labelled("dal")
        taken = view.taken
        chosen, judged = [], []
        for size in self.sizes(n):
            some = draw_subset(rows, max(size, self.subsample * len(taken)), rng)
            likely = self.unlabelled_probability(view.hidden, taken, some, rng)
            if self.stochastic:
                found = weighted_draw(some, likely, (likely - 1) / SHARPNESS, size, rng)
            else:
                found = top(some, likely, size)
            chosen.append(found)
            judged.append((some, likely, size))
            new = torch.from_numpy(found.rows).to(rows.device)
            taken = torch.cat([taken, new])
            rows = rows[~torch.isin(rows, new)]
        return Picks(
            np.concatenate([some.rows for some in chosen]),
            np.concatenate([some.scores for some in chosen]),
            lambda: _all_probabilities(view, judged),
        )

    def sizes(self, n: int) -> list[int]:
        """n split as evenly as possible, without zeros."""
        parts = min(self.sub_batches or (10 if self.stochastic else 20), n)
        return [(i + 1) * n // parts - i * n // parts for i in range(parts)]

    def unlabelled_probability(
        self, hidden: Float[Tensor, "n h"], taken: Int[Tensor, "t"], rows: Int[Tensor, "m"], rng: np.random.Generator
    ) -> Float[Tensor, "m"]:
        """The probability of being unlabelled, from a classifier trained to tell rows apart from the taken ones."""
        usual = TRAININGS.get(hidden.shape[1], OTHER_TRAINING)
        training = ClassifierTraining(
            self.learning_rate or usual.learning_rate,
            self.max_epochs or usual.epochs,
            self.batch_size or usual.batch_size,
        )
        with seeded_layers(rng):
            classifier = make_classifier(hidden.shape[1]).to(hidden)
        train_classifier(
            classifier,
            hidden,
            taken=taken,
            others=rows,
            training=training,
            stop_above=self.stop_above,
            generator=torch_generator(rng),
        )
        with torch.no_grad():
            logits = in_blocks(rows, ROWS_PER_BLOCK, lambda some: classifier(hidden[some]).double())
        return logits.softmax(1)[:, 1]


def _all_probabilities(view: PoolView, judged: Sequence[tuple[Tensor, Tensor, int]]) -> Utilities:
    """The probabilities by which each pick was chosen: those of its sub-batch; -inf for rows outside its sample."""
    lines = torch.full((sum(size for _, _, size in judged), len(view)), -torch.inf, dtype=torch.float64)
    start = 0
    for some, likely, size in judged:
        lines[start : start + size, some.cpu()] = likely.double().cpu()
        start += size
    return utilities(torch.arange(len(view)), lines)


def make_classifier(inputs: int) -> nn.Sequential:
    """Three hidden layers and two classes, taken or not; narrow for few inputs."""
    width = 20 if inputs < 30 else 256
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 2),
    )


@torch.inference_mode(False)
@torch.enable_grad()
def train_classifier(
    classifier: nn.Sequential,
    hidden: Float[Tensor, "n h"],
    taken: Int[Tensor, "t"],
    others: Int[Tensor, "m"],
    training: ClassifierTraining,
    stop_above: float,
    generator: torch.Generator,
) -> int:
    """Train the classifier, and return the number of epochs it took.

    It stops once its accuracy exceeds `stop_above`: a classifier that has memorised every row has no
    uncertainty left to rank by. Both classes are weighted equally.
    """
    rows = torch.cat([taken, others])
    is_other = torch.arange(len(rows), device=rows.device) >= len(taken)
    weights = torch.where(is_other, len(rows) / len(others), len(rows) / len(taken)).to(hidden.dtype)
    optimiser = torch.optim.Adam(classifier.parameters(), lr=training.learning_rate, fused=True)
    for epoch in range(training.epochs):
        right = torch.zeros((), dtype=torch.int64, device=rows.device)
        order = torch.randperm(len(rows), generator=generator).to(rows.device)
        for batch in torch.split(order, training.batch_size):
            logits, classes = classifier(hidden[rows[batch]]), is_other[batch].long()
            loss = (weights[batch] * cross_entropy(logits, classes, reduction="none")).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            right += (logits.argmax(1) == classes).sum()
        if int(right) > stop_above * len(rows):
            return epoch + 1
    return training.epochs
