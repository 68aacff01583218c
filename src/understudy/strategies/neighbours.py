"""All pairs within a radius, for pools whose n x n distances do not fit into memory."""

from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core.blocks import block_slices
from understudy.strategies.points import ROWS_PER_BLOCK, exact_distances, squared_lengths

Piece = tuple[Int[Tensor, "_"], Int[Tensor, "_"]]  # the lengths of some lists, and the lists concatenated
NUMBERS_PER_BOARD: Final = 2**24  # 64 MiB: allocations of that size are returned to the system
NUMBERS_PER_COUNT: Final = 2**22  # counted at a time
PAIRS_PER_BLOCK: Final = 2**12  # subtracted at a time
# Up to this share of a block's pairs are re-measured individually; above, subtracting all costs less.
MOST_PICKED_OUT: Final = 1 / 64


class Neighbours:
    """The points nearer than `radius` to each point. Every point is its own neighbour.

    Points are identified by their positions in `order`, and only the first `n_wanted` positions
    are searched for. `counts` is the number of them around each point. The pairs themselves are stored, four bytes for
    each direction, if there are at most `room`; otherwise they are found again on demand: one more pass over
    all pairs if every wanted point is queried once.
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
            near[others] = self._near(this, others)[0]
        return near.nonzero()[:, 0]

    def count_around(self, which: Int[Tensor, "w"]) -> Int[Tensor, "n"]:
        """For every point, how many of these wanted points are its neighbours."""
        counts = torch.zeros_like(self.counts)
        if not self.is_kept:
            for part in block_slices(len(which), ROWS_PER_BLOCK):
                for others in block_slices(len(self.points), ROWS_PER_BLOCK):
                    counts[others] += self._near(which[part], others).sum(0)
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

    def _near(self, some: Int[Tensor, "b"], others: slice) -> Bool[Tensor, "b o"]:
        """|x - y| < radius, by a matrix product. Pairs within rounding error of the radius are re-measured.

        So the result equals that of subtraction in float64, whatever the blocks, and is symmetric.
        """
        X, Y = self.points[self.order[some]], self.points[self.order[others]]
        lengths, around = self.lengths[some], self.lengths[others]
        products = torch.addmm(around, X, Y.T, alpha=-2.0)
        limits = self.radius * self.radius - lengths
        rounding = (X.shape[1] + 8) * torch.finfo(X.dtype).eps * (lengths + around.max())
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
        own = ((some >= others.start) & (some < others.stop)).nonzero()[:, 0]
        near[own, some[own] - others.start] = True
        return near

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
                near = self._near(some, parts[j])
                for turned, to, around in ((near, i, j), (near.T, j, i))[: 1 + (i != j)]:
                    wanted = min(self.n_wanted - parts[around].start, turned.shape[1])
                    if wanted > 0:
                        self.counts[parts[to]] += turned[:, :wanted].sum(1, dtype=torch.int32)
                    if self.is_kept:
                        found = turned.nonzero()
                        lengths = torch.bincount(found[:, 0], minlength=len(turned))
                        pieces[to].append((shelf.put(lengths), shelf.put(found[:, 1] + parts[around].start)))
                if shelf.length > room:
                    self.is_kept = False
                    shelf, self._lists, pieces = Shelf(device), [], [[] for _ in parts]
            if self.is_kept:
                self._lists.append(_join_pieces(pieces[i], part.stop - part.start, device))
                pieces[i] = []


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
    for lengths, _ in pieces:
        starts[1:] += lengths
    starts = starts.cumsum(0)
    members = torch.empty(int(starts[-1]), dtype=torch.int32, device=device)
    filled = starts[:-1].clone()
    for lengths, some in pieces:
        ahead = filled - (lengths.cumsum(0) - lengths)  # the offset of each part of the piece
        members[torch.arange(len(some), device=device) + ahead.repeat_interleave(lengths)] = some
        filled += lengths
    return starts, members
