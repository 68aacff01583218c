"""From the surrogate's mean to class weights: four interpretations of the paper's ρ(f^).

Every link gives each class a weight q(z) > 0 from one number z; the entropy of the normalised weights
is ln A - D/A with A = Σ_c q and D = Σ_c q ln q, so that one class can be updated without touching the others.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

Link = Literal["softmax", "simplex", "logit", "residual"]
LINKS: tuple[str, ...] = get_args(Link)
SMALLEST = 1e-6  # lower bound of a class probability


def base(link: Link, probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """z where the surrogate's correction is zero."""
    if link == "logit":
        return probs.clamp_min(SMALLEST).log_()
    if link == "residual":
        return torch.zeros_like(probs)
    return probs.clone()


def weights(link: Link, z: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """q(z) and q ln q."""
    if link == "simplex":
        q = z.clamp_min(SMALLEST)
        return q, q.log().mul_(q)
    q = z.exp()
    return q, q * z


def entropy(A: Float[Tensor, "*rows"], D: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """Entropy of the normalised weights, never below zero."""
    return torch.addcdiv(A.log(), D, A, value=-1.0).clamp_min_(0.0)


def entropy_of(probs: Float[Tensor, "n c"]) -> Float[Tensor, "n"]:
    """Entropy of each row in nats, with 0 ln 0 = 0."""
    probs = probs.double()
    return -torch.special.xlogy(probs, probs).sum(1)
