"""Influence, doubt, look-ahead, and how they are brought together: a product, or the paper's weighed sum."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.core import links
from understudy.core.links import Link

Mode = Literal["product", "combined", "influence", "uncertainty", "uniform", "lookahead", "variance"]
MODES: tuple[str, ...] = get_args(Mode)
TIE = 1e-12  # utilities that agree to twelve digits are equal
LANES = 1024


@dataclass(frozen=True)
class Moments:
    """What a block must tell of its two utilities so that their deviations over all blocks can be had."""

    count: int
    mean: Float[Tensor, "2"]
    squares: Float[Tensor, "2"]  # squared deviations from the mean, summed

    def __add__(self, other: "Moments") -> "Moments":
        count = self.count + other.count
        gap = other.mean - self.mean
        return Moments(
            count,
            self.mean + gap * (other.count / count),
            self.squares + other.squares + gap * gap * (self.count * other.count / count),
        )

    def inverse_std(self, resolution: float, least: Float[Tensor, "2"]) -> Float[Tensor, "2"]:
        """1/std, or 0 where a utility is constant up to rounding and has nothing to say.

        Rounding is `resolution` of the mean, or `least`, what is left of what there was when nothing was known.
        """
        std = (self.squares / self.count).sqrt_()
        return torch.where(std > torch.maximum(resolution * self.mean.abs(), least), std.reciprocal(), 0.0)


def moments(measures: Float[Tensor, "2 n"], counts: Float[Tensor, "n"] | None = None, count: int = 0) -> Moments:
    """Moments over all rows, or over the `count` of them that `counts` has a one for."""
    if counts is None:
        mean = measures.mean(1, keepdim=True)
        return Moments(measures.shape[1], mean[:, 0], (measures - mean).square_().sum(1))
    mean = (measures * counts).sum(1, keepdim=True) / count
    return Moments(count, mean[:, 0], (measures - mean).square_().mul_(counts).sum(1))


def together(measures: Float[Tensor, "2 m"], weights: Float[Tensor, "2"] | None) -> Float[Tensor, "m"]:
    """The utility: the two measures weighed and added, or without weights their product."""
    if weights is None:
        return measures[0] * measures[1]
    return torch.addcmul(measures[0] * weights[0], measures[1], weights[1])


def leaders(u: Float[Tensor, "n"], q: int, nearness: float) -> tuple[Int[Tensor, "m"], Float[Tensor, "m"]]:
    """The lowest row within `nearness` of the best, and the q best rows; beside them their utilities.

    `u` is filled up with -inf to a multiple of `LANES`. The best row of each lane (a run of neighbours) is found;
    the q best rows of all are among the q lanes with the best ones. Two short searches, where a partial
    sort of all rows would take a GPU eight sweeps.
    """
    lanes = u.view(LANES, -1)
    _, lane = lanes.amax(1).topk(q)
    values, place = lanes[lane].flatten().topk(q)
    length = lanes.shape[1]
    rows = lane[place // length] * length + place % length
    near = u >= torch.sub(values[0], values[0].abs(), alpha=nearness)
    first = torch.where(near, torch.arange(len(u), device=u.device), len(u)).amin()[None]
    rows = torch.cat([first, rows])
    return rows, u[rows]


def choose(rows: Int[Tensor, "q"], u: Float[Tensor, "q"], tie: float = TIE) -> Int[Tensor, "1"]:
    """The place of the largest utility; of the lowest row among those that tie."""
    best = u.max()
    tied = u >= torch.sub(best, best.abs(), alpha=tie)
    return torch.where(tied, rows, torch.iinfo(torch.int64).max).argmin(0, keepdim=True)


def expected_entropy(
    Z: Float[Tensor, "c n"],
    scale: Float[Tensor, "n"],
    ratios: Float[Tensor, "q n"],
    means: Float[Tensor, "q c"],
    probs: Float[Tensor, "q c"],
    link: Link,
) -> Float[Tensor, "q"]:
    """For each candidate, Σ_y probs_y Σ_j scale_j Ent(row j if the candidate's label were y).

    `ratios` holds s_j/d: a label y moves row j by ratio (onehot_y - mean). All labels share the part
    without the one-hot, so each class is exchanged once: O(q n c), not O(q n c²).
    """
    dtype = ratios.dtype
    means, scale = means.to(dtype), scale.to(dtype)
    A = torch.zeros_like(ratios)
    D = torch.zeros_like(ratios)
    for c, z in enumerate(Z):
        q, q_log = links.weights(link, torch.addcmul(z, ratios, means[:, c : c + 1], value=-1.0))
        A += q
        D += q_log
    total = torch.zeros(len(ratios), dtype=torch.float64, device=ratios.device)
    for y, z in enumerate(Z):
        without = torch.addcmul(z, ratios, means[:, y : y + 1], value=-1.0)
        q0, q0_log = links.weights(link, without)
        q1, q1_log = links.weights(link, without + ratios)
        entropies = links.entropy(A - q0 + q1, D - q0_log + q1_log)
        total += probs[:, y] * (entropies * scale).sum(1, dtype=torch.float64)
    return total
