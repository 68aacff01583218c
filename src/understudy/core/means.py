"""The surrogate's mean of every row and its entropy, kept up to date label by label.

A label moves all classes of all rows, and exponentials of all of them would cost far more than the rest
of a pick when classes are many. Nearly all of the move goes to the few classes with a large innovation:
those are applied at once. The others are put by for at most `WAVES` labels: each label one wave
of the rows (every `WAVES`-th block) is given all it has missed. How far any entry may be behind
is bounded as it goes; beyond `tolerance` everything is brought up to date on the spot. With at most
`AT_ONCE` classes, a tolerance of zero, or the simplex link, nothing is ever behind.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.core import links
from understudy.core.links import Link

AT_ONCE = 32
MOST_AT_ONCE = 64
WAVES = 32
PATIENCE = 1 / 3  # a class may wait if no row's mean moves by more than this part of the tolerance
ENTRIES = {"cpu": 2**20, "cuda": 2**28}  # class weights computed at a time
CACHED_ENTRIES = {"cpu": 2**17, "cuda": 2**28}  # likewise, where they had best stay in a core's cache


class Means:
    """Link inputs Z of a block of rows, class-major, and the sums that give their entropies."""

    def __init__(self, probs: Float[Tensor, "n c"], link: Link, tolerance: float) -> None:
        self.probs, self.link, self.tolerance = probs, link, tolerance
        n, c = probs.shape
        # The simplex link's entropy is so steep near zero that a small delay changes picks; it saves little there.
        self.defers = tolerance > 0 and c > AT_ONCE and link != "simplex"
        self.Z = torch.empty((c, n), dtype=probs.dtype, device=probs.device)
        self.A, self.D, self.scale = torch.empty((3, n), dtype=torch.float64, device=probs.device)
        for columns in _slices(n, c, ENTRIES[probs.device.type]):
            self.Z[:, columns] = links.base(link, probs[columns]).T
            self._sum_up(columns)
            now, learner = links.entropy(self.A[columns], self.D[columns]), links.entropy_of(probs[columns])
            self.scale[columns] = torch.where(now > 0, learner / now.clamp_min(1e-300), 0.0)
        self.turn = 0
        if self.defers:
            self.past_s = torch.zeros((WAVES, n), dtype=probs.dtype, device=probs.device)
            self.past_change = torch.zeros((WAVES, c), dtype=probs.dtype, device=probs.device)
            self.behind = torch.zeros(n, dtype=probs.dtype, device=probs.device)

    def uncertainty(self) -> Float[Tensor, "n"]:
        """u²: the learner's entropy times the ratio of the surrogate's entropy now and at the anchor."""
        return links.entropy(self.A, self.D).mul_(self.scale)

    def shift(self, s: Float[Tensor, "n"], change: Float[Tensor, "c"]) -> None:
        """mean += s changeᵀ, exactly for the classes that matter and within the tolerance for the rest."""
        change = change.to(self.Z.dtype)
        if not self.defers:
            self.Z.addr_(change, s)
            for columns in _slices(len(s), len(change), ENTRIES[s.device.type]):
                self._sum_up(columns)
            return
        classes = self._classes_that_matter(s, change)
        for columns in _slices(len(s), len(classes), CACHED_ENTRIES[s.device.type]):
            moved = self.Z[:, columns][classes]
            q, q_log = links.weights(self.link, moved)
            A, D = q.sum(0), q_log.sum(0)
            moved.addr_(change[classes], s[columns])
            q, q_log = links.weights(self.link, moved)
            self.A[columns] += q.sum(0).sub_(A)
            self.D[columns] += q_log.sum(0).sub_(D)
            self.Z[:, columns][classes] = moved
        rest = change.index_fill(0, classes, 0.0)
        self.past_s[self.turn] = s
        self.past_change[self.turn] = rest
        self.behind.addcmul_(s.abs(), rest.abs().max())
        self._catch_up(self._wave(self.turn), slice(None))
        self.turn = (self.turn + 1) % WAVES

    def behind_by(self) -> float:
        """The most by which an entry may differ from the exact mean."""
        return float(self.behind.max()) if self.defers else 0.0

    def catch_up(self) -> None:
        """Bring every row up to date."""
        if not self.defers:
            return
        for wave in range(WAVES):
            missed = (self.turn - 1 - wave) % WAVES  # labels since this wave had its turn
            if missed:
                self._catch_up(self._wave(wave), [(self.turn - 1 - i) % WAVES for i in range(missed)])
        self.past_change.zero_()

    def reset(self, W: Float[Tensor, "n k"], B: Float[Tensor, "k c"]) -> None:
        """Exact means of every row from the weights: Z = base + W B, with nothing behind."""
        B = B.to(W.dtype)
        for columns in _slices(len(W), B.shape[1], ENTRIES[W.device.type]):
            self.Z[:, columns] = torch.addmm(links.base(self.link, self.probs[columns]), W[columns], B).T
            self._sum_up(columns)
        if self.defers:
            self.past_change.zero_()
            self.behind.zero_()

    def _classes_that_matter(self, s: Float[Tensor, "n"], change: Float[Tensor, "c"]) -> Int[Tensor, "m"]:
        size = change.abs()
        count = AT_ONCE
        if not size.is_cuda:  # on a GPU the count would have to wait for the device
            bound = self.tolerance * PATIENCE / s.abs().max().clamp_min(1e-30)
            count = min(MOST_AT_ONCE, len(change), max(1, int((size > bound).sum())))
        return size.topk(count).indices

    def _wave(self, wave: int) -> slice:
        n = len(self.A)
        return slice(n * wave // WAVES, n * (wave + 1) // WAVES)

    def _catch_up(self, columns: slice, turns: list[int] | slice) -> None:
        """Give some rows the changes that were put by in these turns."""
        self.Z[:, columns].addmm_(self.past_change[turns].T, self.past_s[turns, columns])
        self._sum_up(columns)
        self.behind[columns] = 0.0

    def _sum_up(self, columns: slice) -> None:
        q, q_log = links.weights(self.link, self.Z[:, columns])
        self.A[columns] = q.sum(0)
        self.D[columns] = q_log.sum(0)


def _slices(n: int, n_classes: int, entries: int) -> list[slice]:
    """Runs of rows with at most so many class weights together."""
    size = max(1, entries // n_classes)
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]
