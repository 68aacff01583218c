"""The kernel over features, or over features and predictions, and its widths."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.core import linalg
from understudy.core.basis import SAMPLED_POOL
from understudy.core.blocks import block_slices
from understudy.core.features import Features

SAMPLED_PAIRS = 1_000_000
ROWS_PER_BAND = 128  # whose distances to their followers are one matrix product
PAIRED_SAMPLE = 40_000  # rows of a large pool: their mean distance is within about a thousandth of that of all
SAMPLED_ROWS = 4_000  # on which the explained share of the variance is estimated
GUESS_ROWS = 500  # of these, for a first guess: enough to find the width to about a percent
GUESS_MARGIN = 1.05  # widths farther from the guess than this factor are judged by the guess alone
NARROWEST, WIDEST = 0.5, 8.0  # search range of a width, in mean distances
WIDTH_DIGITS = 1e-3  # relative precision of the search


def squared_distances(X: Float[Tensor, "b d"], U: Float[Tensor, "k d"]) -> Float[Tensor, "b k"]:
    """Squared Euclidean distances, never below zero."""
    return _squared_distances(X, U, (U * U).sum(1))


def _squared_distances(
    X: Float[Tensor, "b d"], U: Float[Tensor, "k d"], squares: Float[Tensor, "k"]
) -> Float[Tensor, "b k"]:
    """The same, where the squared lengths of U are known."""
    return ((X * X).sum(1)[:, None] + squares).addmm_(X, U.T, alpha=-2.0).clamp_min_(0.0)


def gaussian(distances: Float[Tensor, "b k"], bandwidth: float) -> Float[Tensor, "b k"]:
    """exp(-distance² / bandwidth), without a factor of two, as printed in the paper."""
    return torch.exp(distances / -bandwidth)


def mean_distance(
    features: Features,
    origin: Float[Tensor, "d"],
    spread: float,
    rng: np.random.Generator,
    pairs: int = SAMPLED_PAIRS,
) -> float:
    """Mean Euclidean distance over distinct pairs of rows; over about `pairs` of them in large pools.

    The sample pairs every row with its successors in a random order, so that all rows count equally often
    and only the scatter within rows remains: about 2e-4 of the mean for a million pairs. Distances are computed in
    float32, on rows standardised by `origin` and `spread`. Of a pool of more than `SAMPLED_POOL` rows, which
    may lie in a file, only `PAIRED_SAMPLE` random ones are read: all of them in a random order would take for ever.
    """
    device = origin.device
    if len(features) > SAMPLED_POOL:
        some = np.unique(rng.integers(len(features), size=PAIRED_SAMPLE))
        features = Features(features.take(some, torch.float64, device))
    n = len(features)
    if n == 1:
        return 0.0
    if n * (n - 1) // 2 <= pairs:
        rows = (features.take(np.arange(n), torch.float64, device) - origin).div_(spread)
        return float(torch.pdist(rows).mean()) * spread
    order = rng.permutation(n)
    widest = math.ceil(pairs / n)
    size = max(1, 2**19 // features.n_columns)
    runs = (order[np.arange(start, min(start + size, n) + widest) % n] for start in range(0, n, size))
    total = 0.0
    for distances in features.spread_out(_summed_distances, runs, widest, origin, spread):
        for each in distances:
            total += each
    return total / (widest * n) * spread


def _summed_distances(
    features: Features, rows: np.ndarray, widest: int, origin: Float[Tensor, "d"], spread: float
) -> list[float]:
    """Summed distances of some rows, all but the last few, to their next followers, their next but one, and so on."""
    X = (features.take(rows, torch.float64, origin.device) - origin).div_(spread).float()
    squares, total = X.square().sum(1), torch.zeros(widest, dtype=torch.float64, device=X.device)
    for some in block_slices(len(X) - widest, ROWS_PER_BAND):
        near = slice(some.start, some.stop + widest)
        gaps = _squared_distances(X[some], X[near], squares[near])
        followers = torch.arange(len(gaps), device=X.device)[:, None] + torch.arange(1, widest + 1, device=X.device)
        total += gaps.gather(1, followers).sqrt_().sum(0, dtype=torch.float64)
    found: list[float] = total.tolist()
    return found


def explained_width(
    features: Features,
    U: Float[Tensor, "k d"],
    origin: Float[Tensor, "d"],
    distance: float,
    share: float,
    jitter: float,
    rng: np.random.Generator,
    *,
    guess_rows: int = GUESS_ROWS,
    guess_margin: float = GUESS_MARGIN,
) -> float:
    """The narrowest width, in mean distances, at which the basis explains this share of the prior variance.

    Found by bisection on at most `SAMPLED_ROWS` random rows; no labels are used. A basis that explains it at
    `NARROWEST` already (as many points as rows, say) gets that width. A step costs O(k³), plus O(k²) per sampled row.
    """
    rows = np.sort(rng.choice(len(features), min(len(features), SAMPLED_ROWS), replace=False))
    centred = U.double() - origin
    to_basis = squared_distances(features.take(rows, torch.float64, origin.device) - origin, centred)
    within = squared_distances(centred, centred)

    def is_enough(width: float, rows: Float[Tensor, "b k"]) -> bool:
        bandwidth = (width * distance) ** 2
        L, _ = linalg.cholesky(_covariance(gaussian(within, bandwidth), jitter))
        w = linalg.whiten(gaussian(rows, bandwidth), L)
        return float((w * w).sum(1).mean()) >= share

    few = to_basis[:: -(-len(to_basis) // guess_rows)]
    _, guess = _halve(lambda width: is_enough(width, few))

    def is_enough_for_all(width: float) -> bool:
        return is_enough(width, to_basis) if guess / guess_margin < width < guess * guess_margin else width >= guess

    low, high = _halve(is_enough_for_all)
    # The guess decided the first bisection steps. If it was wrong, all rows show it at the ends of the interval left.
    is_right = high == WIDEST or is_enough(high, to_basis)
    if is_right and low < high:
        is_right = not is_enough(low, to_basis)
    return high if is_right else _halve(lambda width: is_enough(width, to_basis))[1]


def _halve(is_enough: Callable[[float], bool]) -> tuple[float, float]:
    """Bracket the width: the second value is wide enough and the first is not; equal if the narrowest is enough."""
    low, high = NARROWEST, WIDEST
    if is_enough(low):
        return low, low
    while high > low * (1 + WIDTH_DIGITS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return low, high


def _covariance(K: Float[Tensor, "k k"], jitter: float) -> Float[Tensor, "k k"]:
    """Exactly symmetric, with a diagonal of 1 + jitter."""
    return ((K + K.T) / 2).fill_diagonal_(1.0 + jitter)


@dataclass(frozen=True)
class Kernel:
    """k(x, x') = exp(-|x-x'|²/b_x) against k basis points U.

    With outputs, times exp(-|f-f'|²/b_f) against points V paired with them: the paper's product kernel.
    """

    U: Float[Tensor, "k d"]
    V: Float[Tensor, "k c"] | None
    origin: Float[Tensor, "d"]  # subtracted before distances are computed, so that a common offset costs no precision
    input_bandwidth: float
    output_bandwidth: float
    L: Float[Tensor, "k k"]
    n_classes_drawn: int  # when V was drawn; classes added since are zero in every v

    @classmethod
    def over(
        cls,
        U: Float[Tensor, "k d"],
        V: Float[Tensor, "k c"] | None,
        origin: Float[Tensor, "d"],
        input_bandwidth: float,
        output_bandwidth: float = 1.0,
        jitter: float = 0.0,
    ) -> "Kernel":
        """`jitter` is added to the variance of every basis point, and more if the factorisation still fails."""
        U = U.double()
        centred = U - origin
        K = gaussian(squared_distances(centred, centred), input_bandwidth)
        if V is not None:
            V = V.double()
            K = K * gaussian(squared_distances(V, V), output_bandwidth)
        L, _ = linalg.cholesky(_covariance(K, jitter))
        return cls(
            U,
            V,
            origin=origin,
            input_bandwidth=input_bandwidth,
            output_bandwidth=output_bandwidth,
            L=L,
            n_classes_drawn=0 if V is None else V.shape[1],
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All that `from_arrays` needs."""
        arrays = {"U": self.U, "origin": self.origin} | ({} if self.V is None else {"V": self.V})
        bandwidths = np.array([self.input_bandwidth, self.output_bandwidth])
        return {name: array.cpu().numpy() for name, array in arrays.items()} | {"bandwidths": bandwidths}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], jitter: float) -> "Kernel":
        U, origin = (torch.from_numpy(arrays[name]) for name in ("U", "origin"))
        V = torch.from_numpy(arrays["V"]) if "V" in arrays else None
        of_inputs, of_outputs = arrays["bandwidths"].tolist()
        return cls.over(U, V, origin, of_inputs, of_outputs, jitter)

    def with_class(self) -> "Kernel":
        """Add a class that is zero in every basis point, so no covariance changes."""
        return self if self.V is None else replace(self, V=torch.cat([self.V, torch.zeros_like(self.V[:, :1])], 1))

    def with_outputs(self, V: Float[Tensor, "k c"], output_bandwidth: float) -> "Kernel":
        return Kernel.over(self.U, V, self.origin, self.input_bandwidth, output_bandwidth)

    def of_features(self, block: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        """The input factor for a block of rows."""
        return next(self.of_blocks([(0, block)]))[1]

    def of_blocks(
        self, blocks: Iterable[tuple[int, Float[Tensor, "_ d"]]]
    ) -> Iterator[tuple[int, Float[Tensor, "_ k"]]]:
        """The input factor of one block after another; what depends on the basis alone is computed once."""
        centred = self.U - self.origin
        squares = (centred * centred).sum(1)
        for first, block in blocks:
            distances = _squared_distances(block - self.origin, centred, squares)
            yield first, distances.div_(-self.input_bandwidth).exp_()

    def whiten(
        self, of_features: Float[Tensor, "b k"], probs: Float[Tensor, "b c"] | None = None
    ) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b"]]:
        """Whitened rows w = L⁻¹ k and the variance they leave unexplained, λ = max(0, 1 - |w|²)."""
        k = of_features.double()
        if self.V is not None and probs is not None:
            k = k * gaussian(squared_distances(probs.double(), self.V), self.output_bandwidth)
        w = linalg.whiten(k, self.L)
        return w, (1.0 - (w * w).sum(1)).clamp_min_(0.0)
