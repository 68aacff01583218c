"""All pairs within a radius, for pools whose n x n distances do not fit into memory; and what balls of it cover."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core.blocks import block_slices
from understudy.errors import UnderstudyError
from understudy.strategies.clusters import k_means, nearest_centres
from understudy.strategies.points import ROWS_PER_BLOCK, Points, exact_distances, squared_lengths

# Whether pairs are stored with the length of each list, or with the owner of each pair; that; and the lists, joined.
Piece = tuple[bool, Int[Tensor, "_"], Int[Tensor, "_"]]
NUMBERS_PER_BOARD: Final = 2**24  # 64 MiB: allocations of that size are returned to the system
NUMBERS_PER_COUNT: Final = 2**22  # counted at a time
PAIRS_PER_BLOCK: Final = 2**12  # subtracted at a time
# Up to this share of a block's pairs are re-measured individually; above, subtracting all costs less.
MOST_PICKED_OUT: Final = 1 / 64
# Points seen along fewer directions are never farther apart: most pairs are ruled out by that.
MOST_DIRECTIONS: Final = 32
SAMPLED_ROWS: Final = 4096  # of which the directions are found
ROWS_PER_CELL_SEED: Final = 20  # of which cells are made
CELL_ITERATIONS: Final = 5
# More are refused: a processor takes an hour for so many between rows of a hundred columns, a GPU some minutes.
MOST_DISTANCES: Final = {"cpu": 2**40, "cuda": 2**44}


class Neighbours:
    """The points nearer than `radius` to each point. Every point is its own neighbour.

    Points are identified by their positions in `order`, and only the first `n_wanted` positions
    are searched for. `counts` is the number of them around each point. The pairs themselves are stored, four bytes for
    each direction, if there are at most `room`; otherwise they are found again on demand: one more pass over
    all pairs if every wanted point is queried once. An order that keeps nearby points together is faster.
    """

    def __init__(
        self,
        points: Float[Tensor, "n d"],
        radius: float,
        n_wanted: int,
        room: int,
        order: Int[Tensor, "n"] | None = None,
        most_picked_out: float = MOST_PICKED_OUT,
    ) -> None:
        self.most_picked_out = most_picked_out
        self.points, self.radius, self.n_wanted = points, radius, n_wanted
        self.order = torch.arange(len(points), device=points.device) if order is None else order
        self.lengths = squared_lengths(points)[self.order]
        self.outline = Outline.of(points, self.order)
        self.counts = torch.zeros(len(points), dtype=torch.int64, device=points.device)
        self.is_kept = True
        # For each block of points, where the list of each begins, and the lists concatenated.
        self._lists: list[tuple[Int[Tensor, "_"], Int[Tensor, "_"]]] = []
        self._find(room)

    def members(self, point: int) -> Int[Tensor, "k"]:
        """The wanted neighbours of one point, ascending."""
        if self.is_kept:
            found = self._list(point).long()
            return found[found < self.n_wanted]
        this = torch.tensor([point], device=self.points.device)
        near = torch.zeros(self.n_wanted, dtype=torch.bool, device=self.points.device)
        for others in block_slices(self.n_wanted, ROWS_PER_BLOCK):
            near[others] = self._near(this, others)[1].any(0)
        return near.nonzero()[:, 0]

    def count_around(self, which: Int[Tensor, "w"]) -> Int[Tensor, "n"]:
        """For every point, how many of these wanted points are its neighbours."""
        counts = torch.zeros_like(self.counts)
        if not self.is_kept:
            for part in block_slices(len(which), ROWS_PER_BLOCK):
                for others in block_slices(len(self.points), ROWS_PER_BLOCK):
                    counts[others] += self._near(which[part], others)[1].sum(0)
            return counts
        lists, length = [], 0
        for point in which.tolist():
            lists.append(self._list(point))
            length += len(lists[-1])
            if length > NUMBERS_PER_COUNT:
                counts += torch.bincount(torch.cat(lists), minlength=len(counts))
                lists, length = [], 0
        return counts + torch.bincount(torch.cat(lists), minlength=len(counts)) if lists else counts

    def _list(self, point: int) -> Int[Tensor, "k"]:
        starts, members = self._lists[point // ROWS_PER_BLOCK]
        first, last = starts[point % ROWS_PER_BLOCK : point % ROWS_PER_BLOCK + 2].tolist()
        return members[first:last]

    def _near(self, some: Int[Tensor, "b"], others: slice) -> tuple[Int[Tensor, "h"], Bool[Tensor, "h o"]]:
        """|x - y| < radius for those of the points that may have such a y, by place in `some`; no other has one.

        By a matrix product. Pairs within rounding error of the radius are re-measured, so the result equals that of
        subtraction in float64, whatever the blocks, and is symmetric.
        """
        is_own = (some >= others.start) & (some < others.stop)
        which = (self.outline.within_reach(some, others, self.radius) | is_own).nonzero()[:, 0]
        if not len(which):
            return which, is_own.new_empty((0, others.stop - others.start))
        Y, around = self.points[self.order[others]], self.lengths[others]
        X, lengths = self.points[self.order[some[which]]], self.lengths[some[which]]
        products = torch.addmm(around, X, Y.T, alpha=-2.0)
        limits = self.radius * self.radius - lengths
        rounding = (X.shape[1] + 8) * torch.finfo(X.dtype).eps * (lengths + around.max())
        # Most points have no neighbour here, and looking for the nearest one is all they cost.
        found = ((products.amin(1) < limits + rounding) | is_own[which]).nonzero()[:, 0]
        which, X, products, limits, rounding = (values[found] for values in (which, X, products, limits, rounding))
        near = products < (limits + rounding)[:, None]
        in_doubt = near & (products >= (limits - rounding)[:, None])
        if bool(in_doubt.any()):
            rows, columns = in_doubt.nonzero(as_tuple=True)
            if len(rows) > self.most_picked_out * in_doubt.numel():
                near = exact_distances(X, Y) < self.radius
            else:
                for part in block_slices(len(rows), PAIRS_PER_BLOCK):
                    apart = exact_distances(X[rows[part], None], Y[columns[part], None])[:, 0, 0]
                    near[rows[part], columns[part]] = apart < self.radius
        own = is_own[which].nonzero()[:, 0]
        near[own, some[which[own]] - others.start] = True
        return which, near

    def _find(self, room: int) -> None:
        """Visit every pair once: a block of the triangle gives the lists of its rows and, transposed, of its columns.

        Blocks without wanted points are left out.
        """
        n, device = len(self.points), self.points.device
        parts = list(block_slices(n, ROWS_PER_BLOCK))
        shelf = Shelf(device)
        pieces: list[list[Piece]] = [[] for _ in parts]
        for i, part in enumerate(parts):
            some = torch.arange(part.start, part.stop, device=device)
            for j in range(i, len(parts) if part.start < self.n_wanted else i):
                which, near = self._near(some, parts[j])
                if not len(which):
                    continue
                row, column = near.nonzero(as_tuple=True)
                self._keep(i, which[row], column + parts[j].start, pieces, shelf)
                if i != j:
                    column, row = near.T.nonzero(as_tuple=True)
                    self._keep(j, column, which[row] + part.start, pieces, shelf)
                if shelf.length > room:
                    self.is_kept = False
                    shelf, self._lists, pieces = Shelf(device), [], [[] for _ in parts]
            if self.is_kept:
                self._lists.append(_join_pieces(pieces[i], part.stop - part.start, device))
                pieces[i] = []

    def _keep(
        self, block: int, owners: Int[Tensor, "k"], found: Int[Tensor, "k"], pieces: list[list[Piece]], shelf: "Shelf"
    ) -> None:
        """Count and store the pairs of these points of a block, by place in it and ascending, with these positions."""
        size = min(ROWS_PER_BLOCK, len(self.points) - block * ROWS_PER_BLOCK)
        start = block * ROWS_PER_BLOCK
        self.counts[start : start + size] += torch.bincount(owners[found < self.n_wanted], minlength=size)
        if self.is_kept:
            # Few pairs are stored with the owner of each, many with the number of pairs of each owner.
            is_long = len(owners) > size
            by_owner = torch.bincount(owners, minlength=size) if is_long else owners
            pieces[block].append((is_long, shelf.put(by_owner), shelf.put(found)))


@dataclass(frozen=True, eq=False)
class Outline:
    """The points along a few directions of large variance: no two are farther apart there than they are.

    `seen` are the coordinates in the points' order; they have no columns where it would not pay. `slack` is by how
    much rounding may move two of them apart.
    """

    seen: Float[Tensor, "n m"]
    lengths: Float[Tensor, "n"]
    slack: float

    @classmethod
    def of(cls, points: Float[Tensor, "n d"], order: Int[Tensor, "n"]) -> "Outline":
        n, d = points.shape
        m = min(MOST_DIRECTIONS, d // 4) if n > ROWS_PER_BLOCK else 0
        seen = points.new_zeros((n, m))
        if not m:
            return cls(seen, seen.new_zeros(n), 0.0)
        sample = points[order[:: max(1, n // SAMPLED_ROWS)]].double()
        origin = sample.mean(0)
        sample -= origin
        directions = torch.linalg.eigh(sample.T @ sample).eigenvectors[:, -m:].to(points.dtype)
        longest = 0.0
        for part in block_slices(n, ROWS_PER_BLOCK):
            block = points[order[part]] - origin.to(points.dtype)
            longest = max(longest, float(block.square().sum(1).max()) ** 0.5)
            seen[part] = block @ directions
        eps = torch.finfo(points.dtype).eps
        # Each coordinate is a sum of d products; and the directions are orthonormal but for their own rounding.
        return cls(seen, seen.square().sum(1), 4 * m**0.5 * (d + 4) * eps * longest)

    def within_reach(self, some: Int[Tensor, "b"], others: slice, radius: float) -> Bool[Tensor, "b"]:
        """For which of these points another may be nearer than the radius."""
        if not self.seen.shape[1]:
            return torch.ones(len(some), dtype=torch.bool, device=some.device)
        around, lengths = self.lengths[others], self.lengths[some]
        products = torch.addmm(around, self.seen[some], self.seen[others].T, alpha=-2.0)
        rounding = (self.seen.shape[1] + 8) * torch.finfo(products.dtype).eps * (lengths + around.max())
        return products.amin(1) < (radius + self.slack) ** 2 - lengths + rounding


def order_by_cells(points: Float[Tensor, "n d"], is_last: Bool[Tensor, "n"]) -> Int[Tensor, "n"]:
    """The points with some of them last; apart from that, those of one cell of a rough k-means follow each other."""
    n_cells = len(points) // ROWS_PER_BLOCK
    if n_cells < 2:
        return torch.sort(is_last.byte(), stable=True).indices
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(points))[: ROWS_PER_CELL_SEED * n_cells])
    sample = Points(points, torch.from_numpy(rows).to(points.device))
    centres = k_means(sample, n_cells, rng, lloyd_up_to=n_cells, max_iterations=CELL_ITERATIONS).centres
    cells, _ = nearest_centres(Points(points), centres)
    return torch.sort(cells + n_cells * is_last, stable=True).indices


class Uncovered:
    """For each row, how many uncovered points lie within the radius: its degree, 0 where it may not be chosen.

    Each point is covered once, and only then do the degrees around it decrease by one: O(pairs) after the graph.
    """

    def __init__(
        self,
        points: Float[Tensor, "n d"],
        radius: float,
        is_covered: Bool[Tensor, "n"],
        is_open: Bool[Tensor, "n"],
        room: int,
        most_picked_out: float = MOST_PICKED_OUT,
        max_distances: int | None = None,
    ) -> None:
        n_uncovered = int((~is_covered).sum())
        check_distances(len(points), n_uncovered, points.device, max_distances)
        # Uncovered points come first: only these are searched for.
        order = order_by_cells(points, is_covered)
        self._near = Neighbours(points, radius, n_uncovered, room, order, most_picked_out)
        self._place = torch.empty_like(order)
        self._place[order] = torch.arange(len(order), device=order.device)
        self._left = torch.ones(n_uncovered, dtype=torch.bool, device=points.device)
        self._is_open = is_open
        self.degrees = torch.where(is_open, self._near.counts[self._place], 0)

    def around(self, row: int) -> Int[Tensor, "k"]:
        """The uncovered points within the radius of a row, for `cover`."""
        members = self._near.members(int(self._place[row]))
        return members[self._left[members]]

    def cover(self, row: int, members: Int[Tensor, "k"]) -> None:
        """Choose a row, which covers these points around it."""
        self._left[members] = False
        self.degrees -= torch.where(self._is_open, self._near.count_around(members)[self._place], 0)
        self.degrees[row] = 0


def check_distances(n: int, n_wanted: int, device: torch.device, most: int | None) -> None:
    """Raise if the pairs of which one is wanted are more than may be compared, before the hours that it would take."""
    distances, most = n_wanted * n - n_wanted * (n_wanted - 1) // 2, most or MOST_DISTANCES[device.type]
    if distances > most:
        gpu = "use a GPU, " if device.type == "cpu" else ""
        raise UnderstudyError(
            f"{n_wanted:,} of {n:,} rows are not covered, and their neighbours take {distances:,} distances, hours and "
            f"more than {most:,}; pass max_distances={distances} to have them, {gpu}or take max_herding, which looks "
            "at a sample"
        )


class Shelf:
    """Storage for many small integer tensors. Allocated one by one they would fragment the heap by gigabytes."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.length = device, 0
        self._board = torch.empty(0, dtype=torch.int32, device=device)
        self._used = 0

    def put(self, numbers: Int[Tensor, "k"]) -> Int[Tensor, "k"]:
        if self._used + len(numbers) > len(self._board):
            self._board = torch.empty(max(NUMBERS_PER_BOARD, len(numbers)), dtype=torch.int32, device=self.device)
            self._used = 0
        kept = self._board[self._used : self._used + len(numbers)]
        kept.copy_(numbers)
        self._used += len(numbers)
        self.length += len(numbers)
        return kept


def _join_pieces(pieces: list[Piece], n_lists: int, device: torch.device) -> tuple[Int[Tensor, "_"], Int[Tensor, "_"]]:
    """Concatenate pieces of n lists: where each list starts, and the lists."""
    starts = torch.zeros(n_lists + 1, dtype=torch.int64, device=device)
    sizes = [by_owner if is_long else torch.bincount(by_owner, minlength=n_lists) for is_long, by_owner, _ in pieces]
    for lengths in sizes:
        starts[1:] += lengths
    starts = starts.cumsum(0)
    members = torch.empty(int(starts[-1]), dtype=torch.int32, device=device)
    filled = starts[:-1].clone()
    for lengths, (_, _, some) in zip(sizes, pieces, strict=True):
        ahead = filled - (lengths.cumsum(0) - lengths)  # the offset of each part of the piece
        members[torch.arange(len(some), device=device) + ahead.repeat_interleave(lengths)] = some
        filled += lengths
    return starts, members
