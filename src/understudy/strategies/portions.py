"""Picks made in portions, for methods whose memory limits the number of rows."""

from collections.abc import Callable

import numpy as np
import torch

from understudy.strategies.view import Picks, PoolView

Select = Callable[[PoolView, int, np.random.Generator], Picks]


def select_in_portions(select: Select, view: PoolView, n: int, size: int, rng: np.random.Generator) -> Picks:
    """The picks of a method that considers at most `size` rows at a time, however many are asked for.

    If one call is not enough, each picks half of the rows it considers, so that there is a choice, and earlier
    picks count as pending.
    """
    view.candidates(n)  # raises if there are too few
    portions: list[Picks] = []
    left = n
    if n <= size:
        return select(view, n, rng)
    while left > size:
        portions.append(select(view, max(1, size // 2), rng))
        left -= len(portions[-1])
        view = _with_pending(view, portions[-1].rows)
    portions.append(select(view, left, rng))
    rows, scores = (np.concatenate([getattr(part, name) for part in portions]) for name in ("rows", "scores"))
    return Picks(rows, scores)


def _with_pending(view: PoolView, rows: np.ndarray) -> PoolView:
    """The view with these rows pending as well."""
    pending = view.is_pending.clone()
    pending[torch.from_numpy(rows).to(pending.device)] = True
    masks = (pending, view.is_skipped, view.is_trained)
    held, skipped, trained = (mask.nonzero()[:, 0] for mask in masks)
    return view.after(view.labels, pending=held, skipped=skipped, trained_on=trained)
