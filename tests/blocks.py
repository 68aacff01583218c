"""What the local blocks of a surrogate keep, for tests that look at it or disturb it."""

from functools import partial

import torch
from torch import Tensor

from understudy import Surrogate
from understudy.core.rows import Rows
from understudy.core.split_rows import SplitRows


def lies_here(s: Surrogate) -> bool:
    """Whether the rows lie in the memory of this process, and not on workers."""
    return not hasattr(s.parts.rows, "holders")


def blocks_of(s: Surrogate) -> list[Rows]:
    rows = s.parts.rows
    if not lies_here(s):
        from tests.distributed.one_process import local_blocks

        return local_blocks(rows)
    blocks = rows.blocks if isinstance(rows, SplitRows) else [rows]
    return [block for block in blocks if isinstance(block, Rows)]


def column(s: Surrogate, name: str) -> Tensor:
    """Something that blocks keep for every row, of all rows: W, stats, var, h, is_open, is_closed, ..."""
    return torch.cat([getattr(block, name)[: len(block)] for block in blocks_of(s)])


def scale_h(s: Surrogate, factor: float, rows: list[int] | None = None) -> None:
    """Disturb what (some) rows carry of their influence, as if rounding had piled up."""

    def scale(block: Rows, here: list[int]) -> None:
        block.h[here] *= factor

    first, holders = 0, getattr(s.parts.rows, "holders", None)
    for number, block in enumerate(blocks_of(s)):
        here = [row - first for row in (range(len(s)) if rows is None else rows) if 0 <= row - first < len(block)]
        if holders is None:
            scale(block, here)
        else:
            holders.actors[number].change(holders.number, partial(scale, here=here))
        first += len(block)
