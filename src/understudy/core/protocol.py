"""What the engine asks of the rows of a pool, wherever they lie: in one block, in several, or on other machines.

The methods of `PoolRows` are of three kinds.

- *Orders* return nothing and their effect is seen by whatever is asked later. A block that lies far away may keep them
  and send them along with the next question, so that a label costs no message of its own.
- *Questions* return small things: a few numbers, moments, the best few rows in full, sums of k x k. The best rows bring
  along all that the engine wants to know of them, so a pick is one question: the orders `apply`, `catch_up` and
  `measure`, then `best`. Where utilities are a sum weighed by deviations, `moments` is asked before.
- *Readings* (`mean`, `influence`, `variance`, `doubt`, `terms`, `products`, `state`) return a number or more for every
  row. No pick needs them.

Row numbers count from the start of the block that is asked. All tensors are on its `device`, float64 unless the
predictions or the rows themselves are meant. `Rows` keeps one block in memory (or maps it from a file); `SplitRows`
makes one pool out of several blocks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core.features import Features
from understudy.core.kernels import Kernel
from understudy.core.options import Options
from understudy.core.posterior import InfluenceStep, MeanStep
from understudy.core.utilities import Moments

USUAL_ROWS: Final = 4096  # of a large pool, by which is said what is usual
SMALLEST_FACTOR: Final = 1e-300  # lower bound of a measure before its logarithm is taken
Extra = Literal["carried", "smallest", "usual"]
CARRIED: Final[tuple[Extra, ...]] = ("carried",)
SMALLEST: Final[tuple[Extra, ...]] = ("smallest",)
USUAL: Final[tuple[Extra, ...]] = ("usual",)


@dataclass(frozen=True)
class Taken:
    """A few rows in full, in float64: what the posterior needs to look at them closely."""

    w: Float[Tensor, "q k"]
    probs: Float[Tensor, "q c"]
    stats: Float[Tensor, "q 4"]  # ν, λ, factor that calibrates the doubt, ω
    is_open: Bool[Tensor, "q"] | None = None
    carried: Float[Tensor, "q"] | None = None  # influence as the steps so far have left it

    def at(self, places: Int[Tensor, "m"]) -> "Taken":
        """Some of them, in this order."""
        return self._of([None if part is None else part[places] for part in vars(self).values()])

    @staticmethod
    def join(parts: Sequence["Taken"]) -> "Taken":
        """Those of several blocks, one after another."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return Taken._of([None if column[0] is None else torch.cat(column) for column in columns])

    @staticmethod
    def _of(parts: Sequence[Tensor | None]) -> "Taken":
        w, probs, stats, is_open, carried = parts
        assert w is not None
        assert probs is not None
        assert stats is not None
        return Taken(w, probs, stats, is_open, carried)


@dataclass(frozen=True)
class Usual:
    """Mean logarithm of both measures over a sample of the askable rows, and how many rows that were."""

    logs: Float[Tensor, "2"]
    count: int

    def without(self, row: int, measures: Float[Tensor, "2"], n: int) -> "Usual":
        """The same, a row of a pool of n left out; the sample takes rows at equal distances."""
        if row % max(1, n // USUAL_ROWS):
            return self
        left = self.count - 1
        logs = (self.logs * self.count - measures.clamp_min(SMALLEST_FACTOR).log()) / max(1, left)
        return Usual(logs if left else torch.zeros_like(logs), left)


@dataclass(frozen=True)
class Leaders:
    """The lowest-numbered row near the best, then the best rows; -inf: not askable, there are no more that are."""

    rows: Int[Tensor, "m"]
    values: Float[Tensor, "m"]  # utilities by what rows carry along
    taken: Taken
    measures: Float[Tensor, "2 m"] | None = None  # as carried along: of a look-ahead, or with what is usual
    smallest: Float[Tensor, ""] | None = None  # ν + g of any row
    usual: Usual | None = None


@dataclass(frozen=True)
class Reach:
    """Rows that look-ahead should try, with what they were chosen by."""

    by_influence: Int[Tensor, "a"]
    influence: Float[Tensor, "a"]
    by_reach: Int[Tensor, "b"]
    reach: Float[Tensor, "b"]


@dataclass(frozen=True)
class MostTaught:
    """The rows that a label would teach most, the shares of variance they would lose, and how many lose much."""

    rows: Int[Tensor, "m"]
    shares: Float[Tensor, "m"]
    count: int


@runtime_checkable
class PoolRows(Protocol):
    """The rows of a pool, or a block of them. See the module's first lines for what may be relied on."""

    options: Options
    n_classes: int  # of the predictions; 0 until there are some

    @property
    def device(self) -> torch.device:
        """Where all that goes in and comes out lies."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the whitened rows."""

    @property
    def n_basis(self) -> int: ...

    @property
    def is_recordable(self) -> bool:
        """Whether steps can be recorded as a CUDA graph; `changing_tensors` gives every tensor that a pick changes."""

    def __len__(self) -> int: ...

    # -- orders: at each training -------------------------------------------------------------------------

    def lie_at(self, first: int, n: int) -> None:
        """Say which row of a pool of n the first one is; a block counts as a pool until told otherwise."""

    def anchor(self, kernel: Kernel, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        """Start from these predictions. If the kernel includes them, every row is whitened again: O(nk²)."""

    def adopt(self, probs: Float[Tensor, "n c"], has_learner: bool) -> None:
        """Set predictions for which the rows are already whitened and weighted."""

    def extend(self, kernel: Kernel, features: Features, probs: Float[Tensor, "b c"] | None) -> None:
        """Append rows, open and askable. Their g and h, and all means, are stale until refreshed."""

    def add_class(self) -> None:
        """Give a further class probability zero; the correction restarts at zero."""

    def refresh(self, R: Float[Tensor, "k k"], M: Float[Tensor, "k k"], first: int = 0) -> None:
        """Recompute g and h of every row from `first` on. O(nk²)."""

    def reset_means(self, B: Float[Tensor, "k c"]) -> None:
        """Recompute the exact means of every row from the weights."""

    def restore(self, saved: Mapping[str, Tensor], B: Float[Tensor, "k c"]) -> None:
        """Go on where `state` left off; the predictions have been set already."""

    # -- orders: at each label ----------------------------------------------------------------------------

    def apply(self, influence: Sequence[InfluenceStep], mean: Sequence[MeanStep]) -> None:
        """Apply these steps. Two that share a vector share the object."""

    def catch_up(self, exact: bool) -> None:
        """Bring deferred means up to date where they may be off by more than the tolerance, or at all if `exact`."""

    def set_masks(
        self, is_open: Bool[Tensor, "n"], is_askable: Bool[Tensor, "n"], is_in_pool: Bool[Tensor, "n"]
    ) -> None:
        """Set for all rows: still to be predicted (counted in M), may be asked for, not dropped."""

    def set_askable(self, rows: Sequence[int], is_askable: Sequence[bool]) -> None:
        """Set whether each of these rows may be asked for."""

    def close(self, row: Int[Tensor, "1"]) -> None:
        """Close a row that is about to be labelled: neither open nor askable."""

    def open(self, row: Int[Tensor, "1"]) -> None:
        """Take a row back among those to be predicted; whether it may be asked for is set apart."""

    def drop(self, row: Int[Tensor, "1"]) -> None:
        """Take a row out of the pool."""

    def undrop(self, row: Int[Tensor, "1"]) -> None:
        """Put a row back into the pool, open."""

    def keep_influence(self) -> None:
        """Remember g and h of every row."""

    def take_back_influence(self) -> None:
        """Return to the g and h that were kept."""

    def measure(self) -> None:
        """Compute the two measures of every row that a mode combines."""

    # -- questions: sums over rows ------------------------------------------------------------------------

    def gram(self) -> Float[Tensor, "k k"]:
        """M, over the rows that are open: Σ ω w wᵀ."""

    def precision(self, rows: Int[Tensor, "q"]) -> Float[Tensor, "k k"]:
        """Σ w wᵀ/ν over some rows."""

    def row_sum(self) -> tuple[Float[Tensor, "k"], int]:
        """The sum of the whitened rows that are in the pool, and their number."""

    def smallest_variance(self) -> Float[Tensor, ""]:
        """The smallest ν + g."""

    def largest_doubt(self) -> Float[Tensor, ""]: ...

    # -- questions: a pick --------------------------------------------------------------------------------

    def moments(self) -> Moments:
        """Moments of the measures over the pool."""

    def best(
        self,
        weights: Float[Tensor, "2"] | None,
        q: int,
        nearness: float,
        among: Bool[Tensor, "n"] | None = None,
        extras: Collection[Extra] = (),
        at_least: Float[Tensor, ""] | None = None,
    ) -> Leaders:
        """The q best askable rows and the lowest-numbered one near the best, in full; with `among`, of these only.

        `extras`: what else should come along. `at_least`: the utility from which a row is near the best, in place of
        `nearness` to the best of the block.
        """

    def take(self, rows: Int[Tensor, "q"]) -> Taken:
        """Some rows in full, with what steps have left of their influence."""

    def usual(self) -> Usual: ...

    def most_taught(
        self, p: Float[Tensor, "k"], d: Float[Tensor, "1"], row: int | None, q: int, noteworthy: float
    ) -> MostTaught:
        """The open rows, `row` left out, that lose the largest shares (w p)²/(d variance) of their variance."""

    # -- look-ahead ---------------------------------------------------------------------------------------

    def reaching(self, among: Bool[Tensor, "n"] | None, by_influence: int, by_reach: int) -> Reach:
        """The askable rows with the largest influence, and those with the largest √h/(ν + g); at most so many."""

    def open_doubt(self) -> Float[Tensor, ""]:
        """The summed doubt of the open rows."""

    def expected_entropy(
        self,
        p: Float[Tensor, "q k"],
        d: Float[Tensor, "q 1"],
        means: Float[Tensor, "q c"],
        probs: Float[Tensor, "q c"],
    ) -> Float[Tensor, "q"]:
        """Expected sum of calibrated entropies over the open rows, once each candidate's label is known."""

    def look_ahead(self, rows: Int[Tensor, "q"], falls: Float[Tensor, "q"]) -> None:
        """An order: u³ of these rows in place of u²; with no rows, NaN for all."""

    def tried_moments(self) -> Moments:
        """Moments of the measures over the rows in the pool that look-ahead tried."""

    # -- readings: something for every row ----------------------------------------------------------------

    def mean(self, B: Float[Tensor, "k c"]) -> Float[Tensor, "n c"]:
        """The exact mean of every row, in the precision of the rows."""

    def influence(self) -> Float[Tensor, "n"]:
        """How much a label of each row reduces the ω-weighted variance of the open rows, with or without itself."""

    def variance(self) -> Float[Tensor, "n"]:
        """λ + g + σ²."""

    def doubt(self) -> Float[Tensor, "n"]: ...

    def terms(self) -> Float[Tensor, "2 n"]:
        """Both measures of every row, as last computed."""

    def products(self, V: Float[Tensor, "k q"]) -> Float[Tensor, "n q"]:
        """W V in float64."""

    def state(self, whole: bool) -> dict[str, Tensor]:
        """What cannot be recomputed, by the names of a saved state; `whole`: also the whitened rows."""

    def turn(self) -> int:
        """Labels since deferred means began a round; see `means.py`."""

    def set_turn(self, turn: int) -> None: ...

    def changing_tensors(self) -> dict[str, Tensor]:
        """Every tensor that a pick changes, where `is_recordable`."""

    # -- how they do --------------------------------------------------------------------------------------

    def slow_or_lost(self) -> Sequence[str]:
        """What holds up whoever waits for an answer, a line for each such block.

        It asks no block, and may be read by any thread, also while another waits.
        """


@runtime_checkable
class RowStorage(Protocol):
    """Where the rows of a pool are kept: it makes them, or takes those that were made before."""

    def place(self, features: Features) -> Features:
        """The same features, worked on where the rows will lie."""

    @property
    def is_lasting(self) -> bool:
        """Whether what is kept outlasts the process."""

    def require_room(self, n_rows: int, n_basis: int, n_classes: int, options: Options, device: torch.device) -> None:
        """Refuse a pool that does not fit, before anything slow has begun."""

    def recall(self, name: str) -> Mapping[str, np.ndarray] | None:
        """The arrays that were kept by this name, where anything is."""

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None: ...

    def make(self, kernel: Kernel, options: Options, features: Features) -> PoolRows:
        """The rows for these features, without predictions as yet."""

    def load(
        self,
        options: Options,
        of_features: Float[Tensor, "n k"] | None,
        W: Float[Tensor, "n k"],
        stats: Float[Tensor, "n 4"],
    ) -> PoolRows:
        """Rows that are already whitened, from a saved state."""
