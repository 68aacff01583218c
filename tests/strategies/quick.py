"""Settings that make slow strategies quick enough for the contract, and which strategies draw random numbers."""

from typing import Any

QUICK: dict[str, dict[str, Any]] = {}

# Strategies whose picks depend on the generator. All others must give the same rows whatever the seed, and rows that
# move with the pool when it is permuted.
DRAWS: set[str] = {"random"}

# Rounding decides between near ties in these, so that float32 and float64 need not choose alike.
SENSITIVE: set[str] = set()
