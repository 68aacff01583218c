"""Influence u¹, uncertainty u², look-ahead u³, and how they are weighed against each other."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core import links
from understudy.core.links import Link

Mode = Literal["combined", "influence", "uncertainty", "uniform", "lookahead", "variance"]
MODES: tuple[str, ...] = get_args(Mode)
TIE = 1e-12  # utilities that agree to twelve digits are equal


def influence(
    g: Float[Tensor, "n"],
    h: Float[Tensor, "n"],
    nu: Float[Tensor, "n"],
    is_open: Bool[Tensor, "n"] | None,
    n_classes: int,
) -> Float[Tensor, "n"]:
    """u¹: how much variance a label of each row takes from the open rows (without itself, given `is_open`)."""
    fall = h if is_open is None else h - g * g * is_open
    return fall.clamp_min(0.0).mul_(n_classes).div_(nu + g)


@dataclass(frozen=True)
class Moments:
    """What a block must tell of a utility so that its deviation over all blocks can be had."""

    count: int
    mean: Float[Tensor, ""]
    squares: Float[Tensor, ""]  # squared deviations from the mean, summed

    def __add__(self, other: "Moments") -> "Moments":
        count = self.count + other.count
        gap = other.mean - self.mean
        return Moments(
            count,
            self.mean + gap * (other.count / count),
            self.squares + other.squares + gap * gap * (self.count * other.count / count),
        )

    def inverse_std(self, resolution: float) -> Float[Tensor, ""]:
        """1/std, or 0 where the utility is constant up to rounding and has nothing to say."""
        std = torch.sqrt(self.squares / self.count)
        return torch.where(std > resolution * self.mean.abs(), 1.0 / std, 0.0)


def moments(values: Float[Tensor, "n"]) -> Moments:
    mean = values.mean()
    return Moments(len(values), mean, (values - mean).square_().sum())


@dataclass(frozen=True)
class Weights:
    """What each utility is multiplied by; None where it does not count at all."""

    influence: Float[Tensor, ""] | None = None
    uncertainty: Float[Tensor, ""] | None = None
    variance: Float[Tensor, ""] | None = None

    def combine(self, u1: Tensor | None, u2: Tensor | None, var: Tensor | None) -> Tensor:
        terms = [
            values * weight
            for values, weight in ((u1, self.influence), (u2, self.uncertainty), (var, self.variance))
            if values is not None and weight is not None
        ]
        return terms[0] if len(terms) == 1 else terms[0].add_(terms[1])


def leaders(u: Float[Tensor, "n"], q: int) -> Int[Tensor, "m"]:
    """The q best rows, and before them the lowest row within rounding of the best."""
    top = u.topk(min(q, len(u)))
    near = top.values[0] - 1e-6 * top.values[0].abs()
    return torch.cat([(u >= near).to(torch.uint8).argmax(0, keepdim=True), top.indices])


def choose(rows: Int[Tensor, "q"], u: Float[Tensor, "q"]) -> Int[Tensor, "1"]:
    """The row with the largest utility; the lowest of those that tie."""
    best = u.max()
    tied = u >= best - TIE * best.abs()
    return torch.where(tied, rows, torch.iinfo(torch.int64).max).min()[None]


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
