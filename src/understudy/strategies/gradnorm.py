"""GradNorm: the rows with the largest gradient norm of a loss that needs no label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_choice
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import in_blocks, top
from understudy.strategies.view import Picks, PoolView, check_subset_size

Scheme = Literal["entropy", "expected_released", "egl"]
Layers = Literal["all", "last"]
ROWS_PER_BLOCK: Final = 4096


# The learners have the same function of logits, and the same `Layers`; strategies may not import learners.
def entropy_slope(probs: Float[Tensor, "b c"]) -> Float[Tensor, "b"]:
    """The norm of the entropy's gradient with respect to the logits, whose entries are -p (ln p + entropy)."""
    terms = torch.special.entr(probs)
    return (terms - probs * terms.sum(1, keepdim=True)).norm(dim=1)


def expected_slope(probs: Float[Tensor, "b c"]) -> Float[Tensor, "b"]:
    """Σ p_y |p - e_y|: the expected norm of the cross-entropy's gradient with respect to the logits."""
    squares = (probs**2).sum(1, keepdim=True) - 2 * probs + 1
    return (probs * squares.clamp(min=0).sqrt()).sum(1)


# The expected loss of the published code, Σ p_y (-ln p_y) with p differentiated too, is the entropy.
SLOPES: Final[dict[Scheme, Callable[[Tensor], Tensor]]] = {
    "entropy": entropy_slope,
    "expected_released": entropy_slope,
    "egl": expected_slope,
}


@dataclass(frozen=True)
class GradNorm:
    """The largest gradient norms among a random subset of the open rows.

    For the entropy, one norm per weight matrix and bias, summed; for `egl` that of all parameters as one vector.
    """

    scheme: Scheme = "entropy"
    layers: Layers = "all"
    subset_size: int | None = 25_000

    def __post_init__(self) -> None:
        check_choice("scheme", self.scheme, SLOPES)
        check_choice("layers", self.layers, get_args(Layers))
        check_subset_size(self.subset_size)

    @property
    def needs(self) -> Needs:
        if self.layers == "last":
            return Needs(frozenset({"hidden", "probs"}))
        return Needs(frozenset({"gradient_norms"}), gradient_of="each_class" if self.scheme == "egl" else "entropy")

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.subset_size, rng)
        if self.layers == "all":
            return top(rows, view.gradient_norms[rows], n)
        return top(rows, self.lengths_of_rows(view, rows), n)

    def lengths_of_rows(
        self, view: PoolView, rows: Int[Tensor, "m"], rows_per_block: int = ROWS_PER_BLOCK
    ) -> Float[Tensor, "m"]:
        """The norm of the last layer's gradient at each of these rows, computed in blocks."""
        return in_blocks(rows, rows_per_block, lambda some: self.last_lengths(view.hidden[some], view.probs[some]))

    def last_lengths(self, hidden: Float[Tensor, "b h"], probs: Float[Tensor, "b c"]) -> Float[Tensor, "b"]:
        """The gradient of the last weights is an outer product with the hidden outputs; of the last bias, with 1."""
        lengths = hidden.double().norm(dim=1)
        factor = (lengths**2 + 1).sqrt() if self.scheme == "egl" else lengths + 1
        return SLOPES[self.scheme](probs.double()) * factor
