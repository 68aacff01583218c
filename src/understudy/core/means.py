"""The surrogate's mean of every row and its doubt, updated with every label.

Doubt is the paper's calibrated entropy (`Entropies`) or 1 minus the margin between the two most likely classes
(`Margins`).

A label changes all classes of all rows, and updating all of them would cost far more than the rest
of a pick when there are many classes. Nearly all of the change goes to the few classes with a large innovation:
those are updated at once. The others are deferred for at most `WAVES` labels: with each label one wave
of the rows (every `WAVES`-th block) receives all its deferred updates. A running bound says how far any entry
may be behind; beyond `tolerance` everything is brought up to date immediately. With few classes
(`CLASSES_AT_ONCE`, `MARGIN_CLASSES_AT_ONCE`), a tolerance of zero, or the simplex link, nothing is deferred.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.core import links
from understudy.core.blocks import block_slices, rows_that_fit
from understudy.core.links import Link
from understudy.core.options import Options

CLASSES_AT_ONCE = 32
MARGIN_CLASSES_AT_ONCE = 32
MAX_CLASSES_AT_ONCE = 64
WAVES = 32
CLASS_GROUPS = 4  # of classes; the most likely class of each, and one more, are tracked between two waves
SHARE_THAT_MAY_WAIT = 1 / 3  # a class is deferred if no row's mean changes by more than this share of the tolerance
ENTRIES_PER_BLOCK = {"cpu": 2**20, "cuda": 2**28}  # class weights computed at a time
CACHED_ENTRIES_PER_BLOCK = {"cpu": 2**17, "cuda": 2**28}  # likewise, where they should stay in a core's cache
COLUMNS_AT_ONCE = {"cpu": 2**16, "cuda": 2**28}  # rows of the pool whose tracked classes are updated together


class _DeferredMeans:
    """Values Z of a block of rows, class-major, that every label changes, and the changes that were deferred."""

    probs: Float[Tensor, "n c"]  # the learner's predictions, F
    scale: Float[Tensor, "n"]  # factor that calibrates the surrogate's doubt
    Z: Float[Tensor, "c n"]

    def __init__(self, probs: Float[Tensor, "n c"], tolerance: float, defers: bool) -> None:
        self.probs, self.tolerance, self.defers = probs, tolerance, defers
        self.turn = 0
        n, c = probs.shape
        if defers:
            self.past_s = torch.zeros((WAVES, n), dtype=probs.dtype, device=probs.device)
            self.past_change = torch.zeros((WAVES, c), dtype=probs.dtype, device=probs.device)
            self.behind = torch.zeros(n, dtype=probs.dtype, device=probs.device)

    def shift(self, s: Float[Tensor, "n"], change: Float[Tensor, "c"]) -> None:
        """mean += s changeᵀ, exactly for the classes that matter and within the tolerance for the rest."""
        change = change.to(self.Z.dtype)
        if not self.defers:
            for columns in self._pieces():
                self.Z[:, columns].addr_(change, s[columns])
                self._sum_up(columns)
            return
        classes = self._classes_that_matter(s, change)
        self._exchange(classes, change[classes], s)
        rest = change.index_fill(0, classes, 0.0)
        self.past_s[self.turn] = s
        self.past_change[self.turn] = rest
        self.behind.addcmul_(s.abs(), rest.abs().max())
        self._catch_up(self._wave(self.turn), slice(None))
        self.turn = (self.turn + 1) % WAVES

    def behind_by(self) -> float:
        """An upper bound of the difference between any entry and the exact mean."""
        return float(self.behind.max()) if self.defers else 0.0

    def catch_up(self) -> None:
        """Bring every row up to date."""
        if not self.defers:
            return
        for wave in range(WAVES):
            missed = (self.turn - 1 - wave) % WAVES  # labels since this wave was last brought up to date
            if missed:
                self._catch_up(self._wave(wave), [(self.turn - 1 - i) % WAVES for i in range(missed)])
        self.past_change.zero_()

    def reset(self, W: Float[Tensor, "n k"], B: Float[Tensor, "k c"]) -> None:
        """Recompute the exact means of every row from the weights: Z = base + W B, with nothing deferred."""
        B = B.to(W.dtype)
        for columns in self._pieces():
            self.Z[:, columns] = torch.addmm(self._base(self.probs[columns]), W[columns], B).T
            self._sum_up(columns)
        if self.defers:
            self.past_change.zero_()
            self.behind.zero_()

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a label changes."""
        state = {"Z": self.Z}
        if self.defers:
            state |= {"past_s": self.past_s, "past_change": self.past_change, "behind": self.behind}
        return state

    def _classes_that_matter(self, s: Float[Tensor, "n"], change: Float[Tensor, "c"]) -> Int[Tensor, "m"]:
        size = change.abs()
        count = CLASSES_AT_ONCE
        if not size.is_cuda:  # on a GPU reading the count would synchronise with the device
            bound = self.tolerance * SHARE_THAT_MAY_WAIT / s.abs().max().clamp_min(1e-30)
            count = min(MAX_CLASSES_AT_ONCE, len(change), max(1, int((size > bound).sum())))
        return size.topk(count).indices

    def _wave(self, wave: int) -> slice:
        n = len(self.probs)
        return slice(n * wave // WAVES, n * (wave + 1) // WAVES)

    def _catch_up(self, columns: slice, turns: list[int] | slice) -> None:
        """Apply to some rows the changes that were deferred in these turns."""
        self.Z[:, columns].addmm_(self.past_change[turns].T, self.past_s[turns, columns])
        self._sum_up(columns)
        self.behind[columns] = 0.0

    def _pieces(self) -> list[slice]:
        return _slices(len(self.probs), self.probs.shape[1], ENTRIES_PER_BLOCK[self.probs.device.type])

    def _base(self, probs: Float[Tensor, "b c"]) -> Float[Tensor, "b c"]:
        """Z where the surrogate's correction is zero."""
        raise NotImplementedError

    def _sum_up(self, columns: slice) -> None:
        """Recompute the sums over all classes that these rows need."""
        raise NotImplementedError

    def _exchange(self, classes: Int[Tensor, "m"], change: Float[Tensor, "m"], s: Float[Tensor, "n"]) -> None:
        """Change some classes of every row, and update the sums over all classes accordingly."""
        raise NotImplementedError


class Entropies(_DeferredMeans):
    """Link inputs of a block of rows, and the sums that give their entropies."""

    def __init__(self, probs: Float[Tensor, "n c"], link: Link, tolerance: float) -> None:
        n, c = probs.shape
        # The simplex link's entropy is so steep near zero that a small delay changes picks; it saves little there.
        super().__init__(probs, tolerance, defers=tolerance > 0 and c > CLASSES_AT_ONCE and link != "simplex")
        self.link: Link = link
        self.Z = torch.empty((c, n), dtype=probs.dtype, device=probs.device)
        self.A, self.D, self.scale = torch.empty((3, n), dtype=torch.float64, device=probs.device)
        for columns in self._pieces():
            self.Z[:, columns] = self._base(probs[columns]).T
            self._sum_up(columns)
            now, learner = links.entropy(self.A[columns], self.D[columns]), links.entropy_of(probs[columns])
            self.scale[columns] = torch.where(now > 0, learner / now.clamp_min(1e-300), 0.0)

    def after(self, probs: Float[Tensor, "n c"]) -> "Entropies":
        """The same with other predictions, without a correction."""
        return Entropies(probs, self.link, self.tolerance)

    def uncertainty(self) -> Float[Tensor, "n"]:
        """u²: the learner's entropy times the ratio of the surrogate's entropy now and at the anchor."""
        return links.entropy(self.A, self.D).mul_(self.scale)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"A": self.A, "D": self.D}

    def _base(self, probs: Float[Tensor, "b c"]) -> Float[Tensor, "b c"]:
        return links.base(self.link, probs)

    def _sum_up(self, columns: slice) -> None:
        q, q_log = links.weights(self.link, self.Z[:, columns])
        self.A[columns] = q.sum(0)
        self.D[columns] = q_log.sum(0)

    def _exchange(self, classes: Int[Tensor, "m"], change: Float[Tensor, "m"], s: Float[Tensor, "n"]) -> None:
        for columns in _slices(len(s), len(classes), CACHED_ENTRIES_PER_BLOCK[s.device.type]):
            moved = self.Z[:, columns][classes]
            q, q_log = links.weights(self.link, moved)
            A, D = q.sum(0), q_log.sum(0)
            moved.addr_(change, s[columns])
            q, q_log = links.weights(self.link, moved)
            self.A[columns] += q.sum(0).sub_(A)
            self.D[columns] += q_log.sum(0).sub_(D)
            self.Z[:, columns][classes] = moved


class Margins(_DeferredMeans):
    """Means of a block of rows, and their doubt: 1 minus the margin between the two largest entries.

    Without `follows` it is that of the predictions, and no label changes it. With few classes the table is updated
    and searched in pieces that stay in a core's cache, so that memory is read once. With many, a few
    of each row's largest classes are tracked between two waves, and the class that rises most joins them; any other
    class can be missed until the row's next wave.
    """

    def __init__(self, probs: Float[Tensor, "n c"], floor: float, tolerance: float, follows: bool) -> None:
        n, c = probs.shape
        self.is_live = follows  # even with a single class, where nothing can be tracked yet: a second may be added
        follows = follows and c > 1
        super().__init__(probs, tolerance, defers=follows and tolerance > 0 and c > MARGIN_CLASSES_AT_ONCE)
        self.floor, self.follows = floor, follows
        self.scale = torch.ones(n, dtype=torch.float64, device=probs.device)
        self.doubt = torch.empty(n, dtype=torch.float64, device=probs.device)
        if self.defers:
            self.tracked = torch.zeros((CLASS_GROUPS + 1, n), dtype=torch.int32, device=probs.device)
            self.largest = torch.zeros((CLASS_GROUPS + 1, n), dtype=probs.dtype, device=probs.device)
        if follows:
            self.Z = torch.empty((c, n), dtype=probs.dtype, device=probs.device)
        for columns in self._pieces():
            if follows:
                self.Z[:, columns] = probs[columns].T
                self._sum_up(columns)
            else:
                self.doubt[columns] = margin_doubt(probs[columns].double(), floor)

    def after(self, probs: Float[Tensor, "n c"]) -> "Margins":
        """The same with other predictions, without a correction."""
        return Margins(probs, self.floor, self.tolerance, self.is_live)

    def uncertainty(self) -> Float[Tensor, "n"]:
        return self.doubt

    def shift(self, s: Float[Tensor, "n"], change: Float[Tensor, "c"]) -> None:
        if self.follows:
            super().shift(s, change)

    def reset(self, W: Float[Tensor, "n k"], B: Float[Tensor, "k c"]) -> None:
        if self.follows:
            super().reset(W, B)

    def tensors(self) -> dict[str, Tensor]:
        if not self.follows:
            return {}
        state = super().tensors() | {"doubt": self.doubt}
        return state | {"tracked": self.tracked, "largest": self.largest} if self.defers else state

    def _pieces(self) -> list[slice]:
        if not self.defers:
            return super()._pieces()
        return _slices(len(self.probs), self.probs.shape[1], CACHED_ENTRIES_PER_BLOCK[self.probs.device.type])

    def _base(self, probs: Float[Tensor, "b c"]) -> Float[Tensor, "b c"]:
        return probs

    def _sum_up(self, columns: slice) -> None:
        if self.defers:
            self._track(columns)
            self._note(columns, self.largest[:, columns])
        else:
            self._note(columns, self.Z[:, columns])

    def _track(self, columns: slice) -> None:
        """Track the largest class of each group, and the largest of all others.

        The two largest of all are among them, and finding them takes two searches.
        """
        Z = self.Z[:, columns]
        size = -(-len(Z) // CLASS_GROUPS)
        groups = Z.new_full((CLASS_GROUPS, size, Z.shape[1]), -torch.inf)
        flat = groups.view(CLASS_GROUPS * size, -1)
        flat[: len(Z)] = Z
        values, winners = groups.max(1)
        winners = winners + size * torch.arange(CLASS_GROUPS, device=Z.device)[:, None]
        flat.scatter_(0, winners, -torch.inf)
        value, winner = flat.max(0)
        self.largest[:, columns] = torch.cat([values, value[None]])
        self.tracked[:, columns] = torch.cat([winners, winner[None]]).to(torch.int32)

    def _note(self, columns: slice, values: Float[Tensor, "m b"]) -> None:
        first, second = two_largest(values)
        self.doubt[columns] = (1.0 - (first - second)).clamp_(self.floor, 1.0)

    def _exchange(self, classes: Int[Tensor, "m"], change: Float[Tensor, "m"], s: Float[Tensor, "n"]) -> None:
        if self.Z.is_cuda:
            self.Z[classes] = self.Z[classes].addr_(change, s)
        else:  # row by row: a copy of so many rows, and back, would go through memory twice more
            for row, step in zip(classes.tolist(), change.tolist(), strict=True):
                self.Z[row].add_(s, alpha=step)
        everywhere = torch.zeros_like(self.past_change[0]).index_copy_(0, classes, change)
        # Only the class that rises most (with a negative covariance, falls most) can overtake.
        extremes = classes[torch.stack([change.argmin(), change.argmax()])]
        for columns in block_slices(len(s), COLUMNS_AT_ONCE[s.device.type]):
            self._overtake(columns, everywhere, extremes, s[columns])
            self._note(columns, self.largest[:, columns])

    def _overtake(
        self, columns: slice, change: Float[Tensor, "c"], extremes: Int[Tensor, "2"], s: Float[Tensor, "b"]
    ) -> None:
        """Move what is tracked; an extreme class that overtakes the smallest is tracked in its place."""
        largest, tracked = self.largest[:, columns], self.tracked[:, columns]
        largest.addcmul_(change.index_select(0, tracked.flatten()).view_as(largest), s)
        falling, rising = self.Z[:, columns].index_select(0, extremes)
        value = torch.where(s > 0, rising, falling)
        # It overtakes in few rows. A GPU is not asked in which, since the host would wait for the answer.
        rows = slice(None) if s.is_cuda else (value > largest.amin(0)).nonzero()[:, 0]
        values, classes, value = largest[:, rows], tracked[:, rows], value[rows]
        riser = torch.where(s[rows] > 0, extremes[1], extremes[0]).to(classes.dtype)
        least, place = values.min(0)
        joins = value > least
        for is_other in classes != riser:  # many times faster than `all`
            joins &= is_other
        place = torch.where(joins, place, 0)[None]
        largest[:, rows] = values.scatter(0, place, torch.where(joins, value, values[0])[None])
        tracked[:, rows] = classes.scatter(0, place, torch.where(joins, riser, classes[0])[None])


Means: TypeAlias = Entropies | Margins


def means_for(probs: Float[Tensor, "n c"], options: Options, has_learner: bool) -> Means:
    """`has_learner`: whether a learner made the predictions. Uniform ones have no margin that could be tracked."""
    if options.link is not None:
        return Entropies(probs, options.link, options.mean_tolerance)
    assert options.floor is not None
    return Margins(probs, options.floor, options.mean_tolerance, follows=has_learner and options.doubt == "live")


def doubt_of(
    options: Options, has_learner: bool, mean: Float[Tensor, "q c"], probs: Float[Tensor, "q c"], scale: Tensor
) -> Float[Tensor, "q"]:
    """The doubt of a few rows, from their exact means."""
    if options.link is None:
        assert options.floor is not None
        return margin_doubt(mean if has_learner and options.doubt == "live" else probs, options.floor)
    # base + μ, where f^ = F + μ
    z = mean if options.link in ("softmax", "simplex") else links.base(options.link, probs) + mean - probs
    q, q_log = links.weights(options.link, z)
    return links.entropy(q.sum(1), q_log.sum(1)) * scale


def margin_doubt(mean: Float[Tensor, "q c"], floor: float) -> Float[Tensor, "q"]:
    """1 - (largest - second largest entry), between a floor and 1; 1 where there is one class only."""
    if mean.shape[1] == 1:
        return torch.ones_like(mean[:, 0])
    first, second = mean.topk(2, dim=1).values.unbind(1)
    return (1.0 - (first - second)).clamp_(floor, 1.0)


def two_largest(values: Float[Tensor, "m b"]) -> tuple[Float[Tensor, "b"], Float[Tensor, "b"]]:
    """The largest and the second largest of every column."""
    if values.is_cuda:
        return two_largest_by_tournament(values)
    # On a CPU by one row after another: more operations, but what they work on stays in a core's cache.
    first, second = torch.maximum(values[0], values[1]), torch.minimum(values[0], values[1])
    lesser = torch.empty_like(first)
    for row in values[2:]:
        torch.minimum(first, row, out=lesser)
        torch.maximum(second, lesser, out=second)
        torch.maximum(first, row, out=first)
    return first, second


def two_largest_by_tournament(values: Float[Tensor, "m b"]) -> tuple[Float[Tensor, "b"], Float[Tensor, "b"]]:
    """The same in few operations on large tensors, since on a GPU the number of operations is what costs."""
    half = len(values) // 2
    left_over = values[2 * half :]
    one, two = values[:half], values[half : 2 * half]
    first, second = torch.maximum(one, two), torch.minimum(one, two)
    while len(first) > 1:
        half = len(first) // 2
        one, two, rest = first[:half], first[half : 2 * half], slice(2 * half, None)
        beaten = torch.minimum(one, two)
        beaten = torch.maximum(beaten, torch.maximum(second[:half], second[half : 2 * half]))
        # With an odd number one pair has no opponent and waits for the next round.
        first = torch.cat([torch.maximum(one, two), first[rest]])
        second = torch.cat([beaten, second[rest]])
    if len(left_over):
        second = torch.maximum(second, torch.minimum(first, left_over))
        first = torch.maximum(first, left_over)
    return first[0], second[0]


def _slices(n: int, n_classes: int, entries: int) -> list[slice]:
    """Consecutive rows with at most `entries` class weights per slice."""
    return list(block_slices(n, rows_that_fit(entries, n_classes)))
