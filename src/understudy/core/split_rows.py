"""One pool out of several blocks of rows: numbers are offset, sums added up, and the best of the best chosen.

Picks are those of one block. What is summed up over blocks differs in the last digits, since the order of the sums
does; and where means are deferred (many classes), each block defers by its own largest covariance, within the same
tolerance.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core.checks import bytes_of, in_gib
from understudy.core.features import Features
from understudy.core.kernels import Kernel
from understudy.core.options import Options
from understudy.core.posterior import InfluenceStep, MeanStep
from understudy.core.protocol import Extra, Leaders, MostTaught, PoolRows, Reach, Taken, Usual
from understudy.core.rows import Rows, bytes_besides_rows
from understudy.core.utilities import Moments, near_to
from understudy.errors import UnderstudyError


class SplitRows:
    """A pool in blocks, each of consecutive rows.

    `_order` and `_ask` are all that reaches the blocks: whoever keeps them elsewhere overrides these two, to send
    orders along with the next question and to ask all blocks at once.
    """

    def __init__(self, options: Options, blocks: Sequence[PoolRows]) -> None:
        self.options, self.blocks = options, list(blocks)
        self.device, self.dtype, self.n_basis = blocks[0].device, blocks[0].dtype, blocks[0].n_basis
        self.n_classes, self.is_recordable = blocks[0].n_classes, False
        self._count()

    def _count(self) -> None:
        ends = torch.tensor([len(block) for block in self.blocks]).cumsum(0).tolist()
        self.spans = [slice(end - len(block), end) for end, block in zip(ends, self.blocks, strict=True)]
        self._first_rows = torch.tensor([span.start for span in self.spans], device=self.device)
        for i, span in enumerate(self.spans):
            self._order("lie_at", {i: (span.start, len(self))})

    def __len__(self) -> int:
        return self.spans[-1].stop

    # -- reaching the blocks ------------------------------------------------------------------------------

    def _order(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> None:
        """Give each of these blocks an order, with these arguments."""
        for i, given in arguments.items():
            getattr(self.blocks[i], name)(*given)

    def _ask(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """The answers of these blocks to a question, in their order."""
        return [getattr(self.blocks[i], name)(*given) for i, given in arguments.items()]

    def _all(self, *arguments: Any) -> dict[int, tuple[Any, ...]]:
        """The same arguments for every block."""
        return dict.fromkeys(range(len(self.blocks)), arguments)

    def _each(self, arguments_of: Callable[[slice], tuple[Any, ...]]) -> dict[int, tuple[Any, ...]]:
        """Arguments for every block, from the rows that lie in it."""
        return {i: arguments_of(span) for i, span in enumerate(self.spans)}

    def _owners(self, rows: Int[Tensor, "q"]) -> dict[int, Int[Tensor, "m"]]:
        """By block, the places in `rows` of those that lie there."""
        owner = torch.bucketize(rows, self._first_rows, right=True) - 1
        return {i: (owner == i).nonzero()[:, 0] for i in sorted(set(owner.tolist()))}

    def _by_owner(self, rows: Int[Tensor, "q"], *values: Tensor) -> dict[int, tuple[Tensor, ...]]:
        """Arguments for those blocks in which some of these rows lie: their numbers there, and the values of each."""
        return {
            i: (rows[places] - self.spans[i].start, *(value[places] for value in values))
            for i, places in self._owners(rows).items()
        }

    def _join(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> Tensor:
        return torch.cat(self._ask(name, arguments))

    # -- orders -------------------------------------------------------------------------------------------

    def lie_at(self, first: int, n: int) -> None:
        for i, span in enumerate(self.spans):
            self._order("lie_at", {i: (first + span.start, n)})

    def anchor(self, kernel: Kernel, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        self.n_classes = probs.shape[1]
        self._order("anchor", self._each(lambda span: (kernel, probs[span], has_learner)))

    def adopt(self, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        self.n_classes = probs.shape[1]
        self._order("adopt", self._each(lambda span: (probs[span], has_learner)))

    def extend(self, kernel: Kernel, features: Features, probs: Float[Tensor, "b c"] | None) -> None:
        """Append rows to the last block."""
        self._order("extend", {len(self.blocks) - 1: (kernel, features, probs)})
        self._count()

    def add_class(self) -> None:
        self.n_classes += 1
        self._order("add_class", self._all())

    def refresh(self, R: Float[Tensor, "k k"], M: Float[Tensor, "k k"], first: int = 0) -> None:
        later = {i: (R, M, max(0, first - span.start)) for i, span in enumerate(self.spans) if first < span.stop}
        self._order("refresh", later)

    def reset_means(self, B: Float[Tensor, "k c"]) -> None:
        self._order("reset_means", self._all(B))

    def restore(self, saved: Mapping[str, Tensor], B: Float[Tensor, "k c"]) -> None:
        self._order("restore", self._each(lambda span: ({name: part[span] for name, part in saved.items()}, B)))

    def apply(self, influence: Sequence[InfluenceStep], mean: Sequence[MeanStep]) -> None:
        self._order("apply", self._all(influence, mean))

    def catch_up(self, exact: bool) -> None:
        self._order("catch_up", self._all(exact))

    def set_masks(
        self, is_open: Bool[Tensor, "n"], is_askable: Bool[Tensor, "n"], is_in_pool: Bool[Tensor, "n"]
    ) -> None:
        masks = is_open, is_askable, is_in_pool
        self._order("set_masks", self._each(lambda span: tuple(mask[span] for mask in masks)))

    def set_askable(self, rows: Sequence[int], is_askable: Sequence[bool]) -> None:
        index, flags = torch.tensor(rows, device=self.device), torch.tensor(is_askable)
        for i, places in self._owners(index).items():
            here = (index[places] - self.spans[i].start).tolist()
            self._order("set_askable", {i: (here, flags[places.cpu()].tolist())})

    def close(self, row: Int[Tensor, "1"]) -> None:
        self._order("close", self._by_owner(row))

    def open(self, row: Int[Tensor, "1"]) -> None:
        self._order("open", self._by_owner(row))

    def drop(self, row: Int[Tensor, "1"]) -> None:
        self._order("drop", self._by_owner(row))

    def undrop(self, row: Int[Tensor, "1"]) -> None:
        self._order("undrop", self._by_owner(row))

    def keep_influence(self) -> None:
        self._order("keep_influence", self._all())

    def take_back_influence(self) -> None:
        self._order("take_back_influence", self._all())

    def measure(self) -> None:
        self._order("measure", self._all())

    def look_ahead(self, rows: Int[Tensor, "q"], falls: Float[Tensor, "q"]) -> None:
        self._order("look_ahead", self._by_owner(rows, falls) if len(rows) else self._all(rows, falls))

    # -- questions: sums over rows ------------------------------------------------------------------------

    def gram(self) -> Float[Tensor, "k k"]:
        return reduce(add, self._ask("gram", self._all()))

    def precision(self, rows: Int[Tensor, "q"]) -> Float[Tensor, "k k"]:
        nothing = torch.zeros((self.n_basis,) * 2, dtype=torch.float64, device=self.device)
        return reduce(add, self._ask("precision", self._by_owner(rows)), nothing)

    def row_sum(self) -> tuple[Float[Tensor, "k"], int]:
        sums, counts = zip(*self._ask("row_sum", self._all()), strict=True)
        return reduce(add, sums), sum(counts)

    def smallest_variance(self) -> Float[Tensor, ""]:
        return torch.stack(self._ask("smallest_variance", self._all())).min()

    def largest_doubt(self) -> Float[Tensor, ""]:
        return torch.stack(self._ask("largest_doubt", self._all())).max()

    def open_doubt(self) -> Float[Tensor, ""]:
        return torch.stack(self._ask("open_doubt", self._all())).sum()

    def expected_entropy(
        self,
        p: Float[Tensor, "q k"],
        d: Float[Tensor, "q 1"],
        means: Float[Tensor, "q c"],
        probs: Float[Tensor, "q c"],
    ) -> Float[Tensor, "q"]:
        return reduce(add, self._ask("expected_entropy", self._all(p, d, means, probs)))

    def moments(self) -> Moments:
        return _sum_of_moments(self._ask("moments", self._all()))

    def tried_moments(self) -> Moments:
        return _sum_of_moments(self._ask("tried_moments", self._all()))

    # -- questions: a few rows ----------------------------------------------------------------------------

    def best(
        self,
        weights: Float[Tensor, "2"] | None,
        q: int,
        nearness: float,
        among: Bool[Tensor, "n"] | None = None,
        extras: Collection[Extra] = (),
        at_least: Float[Tensor, ""] | None = None,
    ) -> Leaders:
        def arguments(at_least: Tensor | None) -> dict[int, tuple[Any, ...]]:
            return self._each(
                lambda span: (weights, q, nearness, None if among is None else among[span], extras, at_least)
            )

        found: list[Leaders] = self._ask("best", arguments(at_least))
        top = torch.stack([leaders.values.max() for leaders in found])
        near = near_to(top.max(), nearness) if at_least is None else at_least
        # The first row near the best of its own block need not be near the best of all, and a later one may be.
        firsts = torch.stack([leaders.values[0] for leaders in found])
        again = ((top >= near) & (firsts < near)).nonzero()[:, 0].tolist()
        if again:
            asked = arguments(near)
            for i, leaders in zip(again, self._ask("best", {i: asked[i] for i in again}), strict=True):
                found[i] = leaders
        starts = [span.start for span in self.spans]
        rows = torch.cat([leaders.rows + start for leaders, start in zip(found, starts, strict=True)])
        values = torch.cat([leaders.values for leaders in found])
        is_first = torch.zeros(len(values), dtype=torch.bool, device=values.device)
        lengths = torch.tensor([len(leaders.values) for leaders in found], device=values.device)
        is_first[lengths.cumsum(0) - lengths] = True
        first = torch.where(is_first & (values >= near), rows, len(self)).argmin(0, keepdim=True)
        best = values.masked_fill(is_first, -torch.inf).topk(q).indices
        places = torch.cat([first, best])
        taken = Taken.join([leaders.taken for leaders in found]).at(places)
        return Leaders(
            rows[places],
            values[places],
            taken,
            measures=_join([leaders.measures for leaders in found], 1, places),
            smallest=_least([leaders.smallest for leaders in found]),
            usual=_sum_of_usual([leaders.usual for leaders in found]),
        )

    def take(self, rows: Int[Tensor, "q"]) -> Taken:
        owners = self._owners(rows) or {0: rows}  # no rows at all have their form, too
        taken = Taken.join(self._ask("take", {i: (rows[at] - self.spans[i].start,) for i, at in owners.items()}))
        return taken.at(torch.cat(list(owners.values())).argsort())

    def usual(self) -> Usual:
        found = _sum_of_usual(self._ask("usual", self._all()))
        assert found is not None
        return found

    def most_taught(
        self, p: Float[Tensor, "k"], d: Float[Tensor, "1"], row: int | None, q: int, noteworthy: float
    ) -> MostTaught:
        def inside(span: slice) -> int | None:
            return row - span.start if row is not None and span.start <= row < span.stop else None

        found: list[MostTaught] = self._ask("most_taught", self._each(lambda span: (p, d, inside(span), q, noteworthy)))
        rows = torch.cat([part.rows + span.start for part, span in zip(found, self.spans, strict=True)])
        top = torch.cat([part.shares for part in found]).topk(min(q, len(rows)))
        return MostTaught(rows[top.indices], top.values, sum(part.count for part in found))

    def reaching(self, among: Bool[Tensor, "n"] | None, by_influence: int, by_reach: int) -> Reach:
        asked = self._each(lambda span: (None if among is None else among[span], by_influence, by_reach))
        found: list[Reach] = self._ask("reaching", asked)
        starts = [span.start for span in self.spans]
        influence = torch.cat([part.influence for part in found]).topk
        first = influence(min(by_influence, sum(len(part.influence) for part in found)))
        reach = torch.cat([part.reach for part in found]).topk
        second = reach(min(by_reach, sum(len(part.reach) for part in found)))
        by_first = torch.cat([part.by_influence + start for part, start in zip(found, starts, strict=True)])
        by_second = torch.cat([part.by_reach + start for part, start in zip(found, starts, strict=True)])
        return Reach(by_first[first.indices], first.values, by_second[second.indices], second.values)

    # -- readings -----------------------------------------------------------------------------------------

    def mean(self, B: Float[Tensor, "k c"]) -> Float[Tensor, "n c"]:
        return self._join("mean", self._all(B))

    def influence(self) -> Float[Tensor, "n"]:
        return self._join("influence", self._all())

    def variance(self) -> Float[Tensor, "n"]:
        return self._join("variance", self._all())

    def doubt(self) -> Float[Tensor, "n"]:
        return self._join("doubt", self._all())

    def terms(self) -> Float[Tensor, "2 n"]:
        return torch.cat(self._ask("terms", self._all()), 1)

    def products(self, V: Float[Tensor, "k q"]) -> Float[Tensor, "n q"]:
        return self._join("products", self._all(V))

    def state(self, whole: bool) -> dict[str, Tensor]:
        parts = self._ask("state", self._all(whole))
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def turn(self) -> int:
        found: int = self._ask("turn", {0: ()})[0]
        return found

    def set_turn(self, turn: int) -> None:
        self._order("set_turn", self._all(turn))

    def changing_tensors(self) -> dict[str, Tensor]:
        raise NotImplementedError("a pool of several blocks is not recorded; see `is_recordable`")

    def slow_or_lost(self) -> Sequence[str]:
        return [line for block in self.blocks for line in block.slow_or_lost()]


@dataclass(frozen=True)
class InMemory:
    """Rows are kept in the memory of the surrogate's device, in one block or in several of the same size.

    `memory`: how much of it they may take, in bytes or as in "8 GiB"; None: as much as there is.
    """

    blocks: int = 1
    memory: int | str | None = None
    is_lasting: bool = field(default=False, init=False)

    def require_room(self, n_rows: int, n_basis: int, n_classes: int, options: Options, device: torch.device) -> None:
        rows = n_rows * n_basis * options.torch_dtype.itemsize * (2 if options.sees_predictions else 1)
        needed = rows + n_rows * bytes_besides_rows(n_classes, options)
        limit = None if self.memory is None else bytes_of(self.memory)
        if limit is not None and needed > limit:
            raise UnderstudyError(
                f"{n_rows:,} rows with {n_basis} basis points and {n_classes} classes take {in_gib(needed)} of memory, "
                f"more than memory={self.memory!r}; keep rows in files with storage=InFiles(folder), lower basis_size, "
                "or allow more"
            )

    def recall(self, name: str) -> None:
        """Nothing: memory does not outlast the process."""

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Nothing is kept, see `recall`."""

    def place(self, features: Features) -> Features:
        return features

    def make(self, kernel: Kernel, options: Options, features: Features) -> PoolRows:
        spans = self._spans(len(features))
        return self._together(options, [Rows(kernel, options, features.between(*span)) for span in spans])

    def load(
        self,
        options: Options,
        of_features: Float[Tensor, "n k"] | None,
        W: Float[Tensor, "n k"],
        stats: Float[Tensor, "n 4"],
    ) -> PoolRows:
        """Rows that are already whitened."""
        blocks = [
            Rows.from_whitened(options, None if of_features is None else of_features[a:b], W[a:b], stats[a:b])
            for a, b in self._spans(len(W))
        ]
        return self._together(options, blocks)

    def _spans(self, n: int) -> list[tuple[int, int]]:
        count = min(self.blocks, n)
        return [(n * i // count, n * (i + 1) // count) for i in range(count)]

    @staticmethod
    def _together(options: Options, blocks: list[Rows]) -> PoolRows:
        return blocks[0] if len(blocks) == 1 else SplitRows(options, blocks)


def _sum_of_moments(parts: Sequence[Moments]) -> Moments:
    counted = [part for part in parts if part.count]
    return reduce(add, counted) if counted else parts[0]


def _sum_of_usual(parts: Sequence[Usual | None]) -> Usual | None:
    found = [part for part in parts if part is not None]
    if not found:
        return None
    count = sum(part.count for part in found)
    total = reduce(add, [part.logs * part.count for part in found])
    return Usual(total / max(1, count), count)


def _join(parts: Sequence[Tensor | None], dim: int, places: Int[Tensor, "m"]) -> Tensor | None:
    given = [part for part in parts if part is not None]
    return torch.cat(given, dim).index_select(dim, places) if given else None


def _least(parts: Sequence[Tensor | None]) -> Tensor | None:
    given = [part for part in parts if part is not None]
    return torch.stack(given).min() if given else None
