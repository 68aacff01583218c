"""From scores to rows: the highest, ties to the lowest row; or a draw that favours the higher."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.strategies.view import Picks


def top(rows: Int[Tensor, "m"], scores: Float[Tensor, "m"], n: int) -> Picks:
    """The n rows of highest score, best first. `rows` ascend, so that equal scores leave the lowest row first."""
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
    """n rows drawn one after the other without replacement, each with odds exp(log_weights): the Gumbel trick.

    Drawing one by one is the same as taking the n largest of log weight plus Gumbel noise.
    """
    noise = torch.from_numpy(rng.gumbel(size=len(rows))).to(log_weights.device)
    require_numbers(scores)
    order = torch.sort(log_weights.double() + noise, descending=True, stable=True).indices[:n]
    return picks(rows[order], scores[order])


def picks(rows: Int[Tensor, "q"], scores: Float[Tensor, "q"]) -> Picks:
    return Picks(rows.cpu().numpy().astype(np.int64), scores.double().cpu().numpy())


def require_numbers(scores: Float[Tensor, "m"]) -> None:
    if bool(torch.isnan(scores).any()):
        raise UnderstudyError("some scores are not numbers; is there an overflow in the features or probabilities?")
