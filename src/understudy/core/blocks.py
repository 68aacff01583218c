"""Cutting rows into blocks that fit into memory: everything that reads a pool in parts uses these slices."""

from collections.abc import Iterator
from typing import Final

ROWS_PER_BLOCK: Final = {"cpu": 512, "cuda": 8192}  # processed at a time, by type of device


def block_slices(n_rows: int, rows_per_block: int) -> Iterator[slice]:
    """Slices that cover rows 0 to n in order; the last one may be shorter."""
    for start in range(0, n_rows, rows_per_block):
        yield slice(start, min(start + rows_per_block, n_rows))


def rows_that_fit(budget: int, per_row: int) -> int:
    """How many rows of this size fit into a budget, both in bytes or both in numbers; at least one."""
    return max(1, budget // per_row)
