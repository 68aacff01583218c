"""Near-copies of an item: exact copies by their content, and items whose features are nearly the same.

Items are near-copies where their features lie much closer than is usual in the pool: at most a third of the median
distance to the tenth-nearest item. The tenth, not the nearest: in a pool where most items have a few copies the nearest
is one of them, and says nothing of what is usual.

No list of all pairs is made: of 60,000 items with 512 columns that would take 2 x 10^12 operations, and most pairs are
never looked at. Rows are projected once onto a few orthonormal directions, in which no two of them lie further apart
than they do. So the projection finds all that may be near, in one pass over n x 32 numbers, and the features decide.
Setting up takes 200 x n x d operations and reads the features three times, in blocks: 0.4 s for 60,000 x 512 on one
core. Each item after that takes 4 ms.
"""

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from jaxtyping import Float, Int

ROWS_PER_BLOCK: Final = 4096
DIRECTIONS: Final = 32  # of the projection
ROWS_FOR_DIRECTIONS: Final = 500
ROWS_FOR_USUAL: Final = 200  # whose tenth-nearest items say what is usual
USUAL_NEIGHBOUR: Final = 10
NEAR: Final = 1 / 3  # of the usual distance
MAX_GROWTH: Final = 1.1  # of a pool, before what is usual in it is found anew
MAX_COPIES: Final = 99  # of an item: it and they are answered in one call
ROUNDING: Final = 1e-5  # of a distance in the projection, in units of the largest norm: it is in single precision
STREAM: Final = 0x636F7079


@dataclass(frozen=True)
class NearCopy:
    """An item that is nearly the same as another. `distance` is in units of what is usual in the pool."""

    item: int
    is_exact: bool
    distance: float


class NearCopies:
    """Near-copies of any item of a pool, worked out when they are asked for. Threads may share it.

    `before` are those of the same pool when it had fewer items. What is usual in the pool is found anew once it has
    grown by a tenth.
    """

    def __init__(
        self, features: np.ndarray, digests: Sequence[str | None], seed: int = 0, before: "NearCopies | None" = None
    ) -> None:
        self._features, self._seed = features, seed
        self._digests = digests
        self._setup: _Setup | None = None
        self._before: _Setup | None = (
            None if before is None else before._setup or before._before
        )  # of the first of these items
        self._making = threading.Lock()

    def of(self, item: int) -> list[NearCopy]:
        """The near-copies of an item, exact ones first, then the nearest; at most 99."""
        setup = self._prepare()
        exact = [row for row in setup.same_content.get(self._digests[item] or "", []) if row != item]
        known = set(exact)
        near = [(far, row) for row, far in setup.near(self._features, item) if row not in known]
        found = [NearCopy(row, True, 0.0) for row in exact]
        found += [NearCopy(row, False, far / setup.usual if setup.usual else 0.0) for far, row in sorted(near)]
        return found[:MAX_COPIES]

    def _prepare(self) -> "_Setup":
        with self._making:
            if self._setup is None:
                before, self._before = self._before, None
                if before is None or len(self._features) > MAX_GROWTH * before.looked_at:
                    self._setup = _Setup.of(self._features, self._digests, self._seed)
                else:
                    self._setup = before.extended(self._features, self._digests)
            return self._setup


@dataclass(frozen=True, eq=False)
class _Setup:
    """What is worked out once for the features of a pool."""

    projected: Float[np.ndarray, "n k"]
    directions: Float[np.ndarray, "d k"]
    looked_at: int  # items that the directions, and what is usual, were found in
    usual: float  # the median distance to the tenth-nearest item
    largest: float  # norm of a row, by which rounding is judged
    same_content: dict[str, list[int]]

    @classmethod
    def of(cls, features: np.ndarray, digests: Sequence[str | None], seed: int) -> "_Setup":
        rng = np.random.default_rng([seed, STREAM])
        directions = _find_directions(features, rng)
        return cls(
            _project(features, directions),
            directions,
            len(features),
            _usual_distance(features, rng),
            _largest_norm(features),
            _rows_of_same_content(digests),
        )

    def extended(self, features: np.ndarray, digests: Sequence[str | None]) -> "_Setup":
        """The same for a pool that has more items after these."""
        new = features[len(self.projected) :]
        return replace(
            self,
            projected=np.concatenate([self.projected, _project(new, self.directions)]),
            largest=max(self.largest, _largest_norm(new)),
            same_content=_rows_of_same_content(digests),
        )

    def near(self, features: np.ndarray, item: int) -> list[tuple[int, float]]:
        """The other rows within a third of the usual distance, and how far away they are."""
        own = np.asarray(features[item], np.float64)
        if not own.any():
            return []  # all zero: its encoder knows nothing of it, a text without a known word say
        radius = NEAR * self.usual
        bounds = np.square(self.projected - self.projected[item]).sum(1)
        reach = radius + ROUNDING * self.largest
        rows = np.flatnonzero(bounds <= reach**2)
        if len(rows) > 4 * MAX_COPIES:  # where a large part of the pool is one heap: some of it will do
            rows = rows[np.argpartition(bounds[rows], 4 * MAX_COPIES)[: 4 * MAX_COPIES]]
        distances = np.sqrt(np.square(np.asarray(features[np.sort(rows)], np.float64) - own).sum(1))
        pairs = zip(np.sort(rows).tolist(), distances.tolist(), strict=True)
        return [(row, far) for row, far in pairs if row != item and far <= radius]


def _rows_of_same_content(digests: Sequence[str | None]) -> dict[str, list[int]]:
    """The rows of every content that more than one item has."""
    same: dict[str, list[int]] = defaultdict(list)
    for row, digest in enumerate(digests):
        if digest:
            same[digest].append(row)
    return {digest: rows for digest, rows in same.items() if len(rows) > 1}


def _find_directions(features: Float[np.ndarray, "n d"], rng: np.random.Generator) -> Float[np.ndarray, "d k"]:
    """Orthonormal directions in which a sample of the rows varies most."""
    some = np.sort(rng.choice(len(features), min(ROWS_FOR_DIRECTIONS, len(features)), replace=False))
    sample = np.asarray(features[some], np.float64)
    _, _, directions = np.linalg.svd(sample - sample.mean(0), full_matrices=False)
    return np.asarray(directions[:DIRECTIONS].T)


def _project(features: Float[np.ndarray, "n d"], directions: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "n k"]:
    """All rows along these directions, block by block."""
    projected = np.empty((len(features), directions.shape[1]), np.float32)
    for start in range(0, len(features), ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        projected[block] = np.asarray(features[block], np.float32) @ directions.astype(np.float32)
    return projected


def _largest_norm(features: Float[np.ndarray, "n d"]) -> float:
    """The largest Euclidean norm of a row."""
    blocks = (features[start : start + ROWS_PER_BLOCK] for start in range(0, len(features), ROWS_PER_BLOCK))
    return max((float(np.linalg.norm(np.asarray(block, np.float32), axis=1).max()) for block in blocks), default=0.0)


def _usual_distance(features: Float[np.ndarray, "n d"], rng: np.random.Generator) -> float:
    """The median, over a sample of the rows, of the distance to the tenth-nearest other row; 0 where there is no other.

    O(200 n d).
    """
    n = len(features)
    if n < 2:
        return 0.0
    some: Int[np.ndarray, "s"] = np.sort(rng.choice(n, min(ROWS_FOR_USUAL, n), replace=False))
    sample = np.asarray(features[some], np.float32)
    squares = np.empty((len(some), n), np.float32)
    own = np.square(sample).sum(1)[:, None]
    for start in range(0, n, ROWS_PER_BLOCK):
        block = np.asarray(features[start : start + ROWS_PER_BLOCK], np.float32)
        squares[:, start : start + len(block)] = own - 2 * sample @ block.T + np.square(block).sum(1)
    squares[np.arange(len(some)), some] = np.inf
    nth = min(USUAL_NEIGHBOUR, n - 1)
    nearest = np.argpartition(squares, nth - 1, axis=1)[:, :nth]
    # Products find who is near; subtraction says how near.
    far = [
        np.square(np.asarray(features[np.sort(rows)], np.float64) - features[row]).sum(1).max()
        for row, rows in zip(some.tolist(), nearest, strict=True)
    ]
    return float(np.sqrt(np.median(far)))
