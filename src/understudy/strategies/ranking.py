"""From scores to rows: the highest, ties to the lowest row; or sampling weighted by score."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.strategies.view import Picks


def top(rows: Int[Tensor, "m"], scores: Float[Tensor, "m"], n: int) -> Picks:
    """The n rows of highest score, best first. `rows` must ascend, so that ties go to the lowest row."""
    require_numbers(scores)
    order = torch.sort(scores, descending=True, stable=True).indices[:n]
    return picks(rows[order], scores[order])


def weighted_draw(
    rows: Int[Tensor, "m"],
    scores: Float[Tensor, "m"],
    log_weights: Float[Tensor, "m"],
    n: int,
    rng: np.random.Generator,
) -> Picks:
    """n rows sampled without replacement, each with odds exp(log_weights), by the Gumbel top-k trick.

    Sampling one by one is equivalent to taking the n largest of log weight plus Gumbel noise.
    """
    noise = torch.from_numpy(rng.gumbel(size=len(rows))).to(log_weights.device)
    require_numbers(scores)
    order = torch.sort(log_weights.double() + noise, descending=True, stable=True).indices[:n]
    return picks(rows[order], scores[order])


def picks(rows: Int[Tensor, "q"], scores: Float[Tensor, "q"]) -> Picks:
    return Picks(rows.cpu().numpy().astype(np.int64), scores.double().cpu().numpy())


def require_numbers(scores: Float[Tensor, "m"]) -> None:
    if bool(torch.isnan(scores).any()):
        raise UnderstudyError("some scores are NaN; check the features and probabilities for overflow")
