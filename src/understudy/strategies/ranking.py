"""From scores to rows: the highest, ties to the lowest row; or sampling weighted by score."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.core.blocks import block_slices
from understudy.errors import UnderstudyError
from understudy.strategies.view import Picks, Utilities


def in_blocks(
    rows: Int[Tensor, "m"], rows_per_block: int, compute: Callable[[Int[Tensor, "b"]], Float[Tensor, "b *values"]]
) -> Float[Tensor, "m *values"]:
    """What `compute` makes of all rows, a block of them at a time.

    It is written into one tensor: small ones kept between large temporaries would fragment the heap by gigabytes.
    """
    out = rows.new_empty(0)
    for part in block_slices(len(rows), rows_per_block):
        made = compute(rows[part])
        if not part.start:
            out = made.new_empty((len(rows), *made.shape[1:]))
        out[part] = made
    return out


def top(rows: Int[Tensor, "m"], scores: Float[Tensor, "m"], n: int) -> Picks:
    """The n rows of highest score, best first. `rows` must ascend, so that ties go to the lowest row."""
    _check_pairs(rows, scores)
    require_numbers(scores)
    order = torch.sort(scores, descending=True, stable=True).indices[:n]
    return picks(rows[order], scores[order], steady_utilities(rows, scores, len(order)))


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
    return picks(rows[order], scores[order], steady_utilities(rows, scores, len(order)))


def picks(
    rows: Int[Tensor, "q"], scores: Float[Tensor, "q"], utilities: Callable[[], Utilities] | None = None
) -> Picks:
    return Picks(rows.cpu().numpy().astype(np.int64), scores.double().cpu().numpy(), utilities)


def steady_utilities(rows: Int[Tensor, "m"], scores: Float[Tensor, "m"], n: int) -> Callable[[], Utilities]:
    """Utilities of scores that stay the same while n rows are chosen."""
    return lambda: utilities(rows, scores[None].expand(n, -1))


def utilities(rows: Int[Tensor, "m"], values: Float[Tensor, "q m"]) -> Utilities:
    return Utilities(rows.cpu().numpy().astype(np.int64), values.double().cpu().numpy())


def _check_pairs(rows: Tensor, scores: Tensor) -> None:
    pairs: tuple[tuple[str, object], ...] = (("rows", rows), ("scores", scores))
    for name, values in pairs:
        if not isinstance(values, Tensor):
            raise UnderstudyError(
                f"top takes {name} as a tensor; got {type(values).__name__}; pass torch.as_tensor({name})"
            )
    if scores.shape != rows.shape:
        raise UnderstudyError(
            f"top takes one score for each of its {len(rows):,} rows; got scores of shape {tuple(scores.shape)}; "
            "compute them for these rows alone, as from view.probs[rows]"
        )


def require_numbers(scores: Float[Tensor, "m"]) -> None:
    if bool(torch.isnan(scores).any()):
        raise UnderstudyError("some scores are NaN; check the features and probabilities for overflow")
