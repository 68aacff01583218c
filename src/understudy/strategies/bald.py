"""BALD: rows on which dropout passes are each confident but disagree; and sampling by that score."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.core.blocks import block_slices, rows_that_fit
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import in_blocks, top, weighted_draw
from understudy.strategies.uncertainty import entropy
from understudy.strategies.view import Picks, PoolView

Kind = Literal["power", "softmax", "softrank"]
LEAST_SCORE: Final = 1e-12  # lower bound of a score before its logarithm is taken
NUMBERS_PER_BLOCK: Final = 1 << 18  # probabilities converted to float64 at a time


def entropies(
    stochastic: Float[Tensor, "n t c"], rows: Int[Tensor, "m"], numbers_per_block: int = NUMBERS_PER_BLOCK
) -> tuple[Float[Tensor, "m"], Float[Tensor, "m"]]:
    """The entropy of the mean prediction of these rows, and the mean of the entropies; float64, in nats."""
    size = min(len(rows), rows_that_fit(numbers_per_block, stochastic[0].numel()))
    # Blocks are made in the same memory each time: allocated anew they fragment the heap, up to the size of all.
    taken = stochastic.new_empty((size, *stochastic.shape[1:]))
    exact, terms = (torch.empty_like(taken, dtype=torch.float64) for _ in range(2))
    found = exact.new_empty((2, len(rows)))
    for part in block_slices(len(rows), size):
        block = torch.index_select(stochastic, 0, rows[part], out=taken[: part.stop - part.start])
        probs = exact[: len(block)].copy_(block)
        found[0, part] = entropy(probs.mean(1))
        found[1, part] = torch.special.entr(probs, out=terms[: len(block)]).sum(-1).mean(1)
    return found[0], found[1]


def mutual_information(
    stochastic: Float[Tensor, "n t c"], rows: Int[Tensor, "m"], numbers_per_block: int = NUMBERS_PER_BLOCK
) -> Float[Tensor, "m"]:
    """Mutual information between the label of each of these rows and the model's parameters; 0 or more."""
    of_mean, mean_of = entropies(stochastic, rows, numbers_per_block)
    return of_mean.sub_(mean_of).clamp_min_(0)


def variation_ratio(
    stochastic: Float[Tensor, "n t c"], rows: Int[Tensor, "m"], numbers_per_block: int = NUMBERS_PER_BLOCK
) -> Float[Tensor, "m"]:
    """1 minus the largest probability of the mean prediction of these rows; float64."""
    size = rows_that_fit(numbers_per_block, stochastic[0].numel())
    return in_blocks(rows, size, lambda block: 1 - stochastic[block].double().mean(1).amax(1))


def stochastic_needs(passes: int, dropout: float) -> Needs:
    """The needs of a strategy that reads several passes; the settings are checked here."""
    check_whole_number("passes", passes, 1)
    check_number("dropout", dropout, above=0, below=1)
    return Needs(frozenset({"stochastic"}), passes=passes, dropout=dropout)


class ReadsPasses:
    """A strategy that reads several stochastic passes: what BALD and its variants share."""

    passes: int
    dropout: float

    def __post_init__(self) -> None:
        stochastic_needs(self.passes, self.dropout)

    @property
    def needs(self) -> Needs:
        return stochastic_needs(self.passes, self.dropout)


@dataclass(frozen=True)
class Bald(ReadsPasses):
    """The rows whose label is most informative about the learner's parameters."""

    passes: int = 20
    dropout: float = 0.5

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        return top(rows, mutual_information(view.stochastic, rows), n)


@dataclass(frozen=True)
class PowerBald(ReadsPasses):
    """Rows sampled with odds that grow with BALD's score, so that a batch is not redundant."""

    kind: Kind = "power"
    beta: float = 1.0
    passes: int = 20
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        check_number("beta", self.beta, above=0)
        super().__post_init__()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        scores = mutual_information(view.stochastic, rows)
        # Gumbel noise of scale 1/beta is the same as noise of scale 1 on beta times the logarithm.
        return weighted_draw(rows, scores, self.beta * log_weights(scores, self.kind), n, rng)


def log_weights(scores: Float[Tensor, "m"], kind: Kind) -> Float[Tensor, "m"]:
    """The logarithm of a row's odds, which are its score (power), exp(score) (softmax) or 1 / rank (softrank)."""
    if kind == "power":
        return scores.clamp_min(LEAST_SCORE).log()
    if kind == "softmax":
        return scores
    ranks = torch.empty_like(scores)
    order = torch.sort(scores, descending=True, stable=True).indices
    ranks[order] = torch.arange(1, len(scores) + 1, device=scores.device).to(scores.dtype)
    return -ranks.log()
