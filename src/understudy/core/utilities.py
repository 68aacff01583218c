"""Influence, doubt, look-ahead, and how they are combined: as a product, or as the paper's weighted sum."""

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
    """What each block must report about its two measures to compute their standard deviations over all blocks."""

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
        """1/std, or 0 where a measure is constant up to rounding and so carries no information.

        Rounding is `resolution` times the mean, or `least`, the rounding error left from the values before any label.
        """
        std = (self.squares / self.count).sqrt_()
        return torch.where(std > torch.maximum(resolution * self.mean.abs(), least), std.reciprocal(), 0.0)


def moments(measures: Float[Tensor, "2 n"], counts: Float[Tensor, "n"] | None = None, count: int = 0) -> Moments:
    """Moments over all rows, or over the `count` rows where `counts` is one."""
    if counts is None:
        mean = measures.mean(1, keepdim=True)
        return Moments(measures.shape[1], mean[:, 0], (measures - mean).square_().sum(1))
    mean = (measures * counts).sum(1, keepdim=True) / count
    return Moments(count, mean[:, 0], (measures - mean).square_().mul_(counts).sum(1))


def combine(measures: Float[Tensor, "2 m"], weights: Float[Tensor, "2"] | None) -> Float[Tensor, "m"]:
    """The utility: the weighted sum of the two measures, or their product if there are no weights."""
    if weights is None:
        return measures[0] * measures[1]
    return torch.addcmul(measures[0] * weights[0], measures[1], weights[1])


def leaders(
    u: Float[Tensor, "n"], q: int, nearness: float, at_least: Float[Tensor, ""] | None = None
) -> tuple[Int[Tensor, "m"], Float[Tensor, "m"]]:
    """The lowest-numbered row within `nearness` of the best (or of at least that utility), and the q best rows.

    `u` is padded with -inf to a multiple of `LANES`. The best row of each lane (consecutive rows) is found;
    the q best rows of all lie in the q lanes with the best maxima, and the lowest-numbered near the best in the first
    lane with such a maximum. One search of all rows and two short ones, where a partial sort would take a GPU
    eight passes.
    """
    lanes = u.view(LANES, -1)
    maxima = lanes.amax(1)
    _, lane = maxima.topk(q)
    values, place = lanes[lane].flatten().topk(q)
    length = lanes.shape[1]
    rows = lane[place // length] * length + place % length
    least = near_to(values[0], nearness) if at_least is None else at_least
    # `argmax` of what is true or false is the first that is true.
    first_lane = (maxima >= least).int().argmax(0, keepdim=True)
    first = first_lane * length + (lanes[first_lane] >= least).int().argmax(1)
    rows = torch.cat([first, rows])
    return rows, u[rows]


def near_to(best: Float[Tensor, ""], nearness: float) -> Float[Tensor, ""]:
    """The least utility that counts as near the best."""
    return torch.sub(best, best.abs(), alpha=nearness)


def choose(rows: Int[Tensor, "q"], u: Float[Tensor, "q"], tie: float = TIE) -> Int[Tensor, "1"]:
    """The position of the largest utility; among ties, that of the lowest-numbered row."""
    best = u.max()
    tied = u >= near_to(best, tie)
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

    `ratios` holds s_j/d: a label y changes row j by ratio (onehot_y - mean). All labels share the part
    without the one-hot, so each class is updated once: O(q n c), not O(q n c²).
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
