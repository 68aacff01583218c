"""For methods that can hold only so many rows: picks made portion by portion."""

from collections.abc import Callable

import numpy as np
import torch

from understudy.strategies.view import Picks, PoolView

Select = Callable[[PoolView, int, np.random.Generator], Picks]


def in_portions(select: Select, view: PoolView, n: int, size: int, rng: np.random.Generator) -> Picks:
    """The picks of a method that looks at no more than `size` rows, however many are asked for.

    Where one look would not do, each gives half of what it sees, so that there is a choice, and those that were
    chosen before are pending.
    """
    view.candidates(n)  # the view's own words if there are too few
    portions: list[Picks] = []
    left = n
    while left > size:
        portions.append(select(view, max(1, size // 2), rng))
        left -= len(portions[-1])
        view = _with_pending(view, portions[-1].rows)
    portions.append(select(view, left, rng))
    rows, scores = (np.concatenate([getattr(part, name) for part in portions]) for name in ("rows", "scores"))
    return Picks(rows, scores)


def _with_pending(view: PoolView, rows: np.ndarray) -> PoolView:
    """The view once somebody is at these rows too."""
    pending = view.is_pending.clone()
    pending[torch.from_numpy(rows).to(pending.device)] = True
    masks = (pending, view.is_skipped, view.is_trained)
    held, skipped, trained = (mask.nonzero()[:, 0] for mask in masks)
    return view.after(view.labels, pending=held, skipped=skipped, trained_on=trained)
