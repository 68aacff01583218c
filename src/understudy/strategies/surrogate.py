"""Our own method and its ablations as a strategy: an adapter from views to the surrogate."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from understudy.checks import check_choice, check_flag
from understudy.core.options import Method, Options
from understudy.core.protocol import RowStorage
from understudy.core.surrogate import Surrogate
from understudy.strategies.available_memory import require_memory
from understudy.strategies.protocol import Needs
from understudy.strategies.view import UNLABELLED, Picks, PoolView, Utilities

IN_BLOCKS: Final = 2**28  # bytes, however many rows there are
IN_LOOKAHEAD: Final = 2**30  # more
SAMPLED_ROWS: Final = 64  # compared to recognise the pool


class SurrogateStrategy:
    """A sparse Gaussian process that starts from the learner's predictions and learns from every single label.

    It follows the views it is shown: labels, pending and skipped rows are copied from them. `blind` withholds the
    labels of a round from it until the learner has been trained, as in batch strategies. `on` says what the kernel
    uses, the pool's features or the learner's hidden ones. The method, its options and `storage` are as in `Surrogate`.
    """

    def __init__(
        self,
        *,
        method: Method = "understudy",
        blind: bool = False,
        on: Literal["features", "hidden"] = "features",
        storage: RowStorage | None = None,
        **options: Any,
    ) -> None:
        check_choice("on", on, ("features", "hidden"))
        check_flag("blind", blind)
        self.blind, self.on, self.storage = blind, on, storage
        self.options = Options.of(method, **options)
        self.surrogate: Surrogate | None = None
        self._seen: Seen | None = None
        self._seed = 0  # of the surrogate
        self._recalled: dict[str, Any] = {}

    def __repr__(self) -> str:
        given = {"blind": self.blind, "on": self.on} | self.options.given()
        return f"SurrogateStrategy({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @property
    def needs(self) -> Needs:
        if self.options.method == "paper" or self.on == "hidden":
            return Needs(frozenset({self.on, "probs"}))
        # Without predictions all rows are equally undecided, and influence alone decides.
        return Needs(frozenset({"features"}), optional=frozenset({"probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        view.candidates(n)  # raises if there are too few
        rows, scores = self.follow(view, rng).propose(n)
        return Picks(rows, scores, lambda: self._utilities(view, rows, rng))

    def _utilities(self, view: PoolView, picked: Int[np.ndarray, "q"], rng: np.random.Generator) -> Utilities:
        """The utility of every open row before each of these picks, which are taken back first."""
        s, rows = self.follow(view, rng), view.candidates(len(picked)).cpu().numpy()
        values = np.empty((len(picked), len(rows)))
        for place, row in enumerate(picked.tolist()):
            values[place] = s.utility[rows]
            s.reserve([row])
        return Utilities(rows, values)

    def tell(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Learn labels immediately. Those not told here are learnt from the next view."""
        seen = self._seen
        if self.surrogate is None or seen is None or np.max(rows, initial=0) >= len(seen.told):
            return
        if self.blind:
            seen.unheard.update(zip(rows.tolist(), labels.tolist(), strict=True))
            return
        known = np.where(seen.trained, seen.anchored, seen.told)
        known[rows] = labels
        self._learn(self.surrogate, seen, known)

    def rehearse(self, view: PoolView, n: int, truth: np.ndarray, rng: np.random.Generator) -> Picks:
        """The rows that n times `select` and `tell` would choose; a GPU does not wait for the host in between."""
        if self.blind:
            picks = self.select(view, n, rng)
            self.tell(picks.rows, truth[picks.rows])
            return picks
        view.candidates(n)
        s = self.follow(view, rng)
        assert self._seen is not None
        rows, scores = s.rehearse_proposals(truth, n)
        self._seen.told[rows] = truth[rows]
        return Picks(rows, scores)

    def memory(self) -> dict[str, Any]:
        """What outlasts a training: the seed of the basis, and how often the learner was right."""
        if self.surrogate is None:
            return dict(self._recalled)
        right, judged = self.surrogate.tally
        if self._seen is not None and self._seen.unheard and self._seen.probs is not None:
            # If blind, these are told with the next view, and judged then.
            rows = sorted(self._seen.unheard)
            labels = np.array([self._seen.unheard[row] for row in rows])
            if self.options.judges_surrogate:
                right, judged = deepcopy(self.surrogate).tell(rows, labels).tally
            else:
                right += int((self._seen.probs[rows].argmax(1).cpu().numpy() == labels).sum())
                judged += len(rows)
        return {"seed": self._seed, "right": right, "judged": judged}

    def recall(self, memory: dict[str, Any]) -> None:
        """Start a new surrogate at the next view, with the same basis and the same accuracy record."""
        self.surrogate = self._seen = None
        self._recalled = dict(memory)

    # -- following the views --------------------------------------------------------------------------------

    def follow(self, view: PoolView, rng: np.random.Generator) -> Surrogate:
        """The surrogate, updated to the view."""
        features, labels = view.features if self.on == "features" else view.hidden, view.labels.cpu().numpy()
        if self.surrogate is None or self._seen is None or not self._seen.is_of(view, features, self.on):
            drawn = int(rng.integers(2**63))  # drawn even if the seed is known, so that later draws stay the same
            self._seed = self._recalled.get("seed", drawn)
            self.surrogate = self._make(features, view.n_classes, self._seed, view.device)
            self.surrogate.credit(self._recalled.get("right", 0), self._recalled.get("judged", 0))
            self._recalled = {}
            self._seen = Seen.nothing(view, features)
        s, seen = self.surrogate, self._seen
        if not view.has("probs") and not self.needs.supplies >= {"probs"}:
            pass  # there is no learner yet
        elif seen.is_older_than(view):
            if seen.is_anchored or self.options.old_targets == "residual":
                self._learn(s, seen, labels)  # before the new predictions: each label tests the old ones
            trained = (view.is_trained & view.is_labelled).cpu().numpy()
            is_other = self.on == "hidden" and seen.is_anchored
            s.anchor(view.probs, np.flatnonzero(trained), features=features if is_other else None)
            seen.note_anchor(view, labels, trained)
        elif (seen.trained & (seen.anchored != labels)).any():
            # Rows whose label was changed or removed since count as not trained on.
            seen.trained &= seen.anchored == labels
            s.anchor(view.probs, np.flatnonzero(seen.trained))
        # If blind, new labels are withheld, but retracted ones are removed.
        known = np.where(seen.told == labels, labels, UNLABELLED) if self.blind and not seen.is_fresh else labels
        self._learn(s, seen, known)
        seen.is_fresh = False
        self._hold(s, seen, labels, view)
        return s

    @staticmethod
    def _learn(s: Surrogate, seen: "Seen", labels: np.ndarray) -> None:
        """Tell the labels that are new, and retract those that were changed or removed."""
        over = np.flatnonzero((seen.told != UNLABELLED) & (seen.told != labels))
        if len(over):
            s.retract(over)
            seen.told[over] = UNLABELLED
        is_new = (labels != UNLABELLED) & (seen.told != labels) & ~seen.trained
        # A row the learner was trained on, with another label then, cannot test it.
        for news, judge in ((np.flatnonzero(is_new & ~seen.known), True), (np.flatnonzero(is_new & seen.known), False)):
            if len(news):
                s.tell(news, labels[news], judge=judge)
                seen.told[news] = labels[news]

    @staticmethod
    def _hold(s: Surrogate, seen: "Seen", labels: np.ndarray, view: PoolView) -> None:
        """Copy pending and skipped rows from the view. If blind, rows with withheld labels are pending."""
        awaited = view.is_pending.cpu().numpy() & (labels == UNLABELLED)
        awaited |= (labels != UNLABELLED) & (seen.told == UNLABELLED) & ~seen.trained
        held = np.zeros_like(awaited)
        held[s.pending] = True
        s.release(np.flatnonzero(held & ~awaited))
        s.reserve(np.flatnonzero(awaited & ~held))
        skipped = view.is_skipped.cpu().numpy()
        s.skip(np.flatnonzero(skipped & ~seen.skipped)).unskip(np.flatnonzero(seen.skipped & ~skipped))
        seen.skipped = skipped

    def _make(self, features: Any, n_classes: int, seed: int, device: torch.device) -> Surrogate:
        n = len(features)
        k = self.options.basis_points(n)
        if self.storage is None:  # any other says itself what it has room for
            require_memory(
                bytes_at_peak(self.options, n, n_classes),
                f"the surrogate of {n:,} rows with {k:,} basis points and {n_classes:,} classes takes",
                f"pass a basis_size below {k:,}" + (", or use understudy" if self.options.sees_predictions else ""),
                device,
            )
        return Surrogate(
            features, n_classes, random_state=seed, device=device, storage=self.storage, **self.options.given()
        )


def bytes_at_peak(options: Options, n: int, n_classes: int) -> int:
    """The memory that a surrogate takes at most, set-up included: `benchmarks/picks.py` has measured it.

    The n x k rows are there once, or twice where the kernel includes predictions, with a quarter of that besides.
    """
    of_rows = n * options.basis_points(n) * (2.5 if options.sees_predictions else 1.25)
    in_blocks = IN_BLOCKS + (IN_LOOKAHEAD if options.mode == "lookahead" else 0)
    return int(options.torch_dtype.itemsize * (of_rows + 3 * n * n_classes)) + in_blocks


@dataclass(eq=False)
class Seen:
    """What the surrogate has been shown so far."""

    sample: Tensor  # some rows of the features, to recognise the pool
    shape: tuple[int, ...]
    n_classes: int
    told: Int[np.ndarray, "n"]  # the labels it was told, -1 where none
    anchored: Int[np.ndarray, "n"]  # the labels when it was anchored
    trained: Bool[np.ndarray, "n"]  # rows the learner was trained on then, with labels unchanged since
    known: Bool[np.ndarray, "n"]  # rows the learner was trained on then
    skipped: Bool[np.ndarray, "n"]
    unheard: dict[int, int] = field(default_factory=dict)  # labels withheld so far, if blind
    probs: Tensor | None = None
    round: int | None = None
    is_fresh: bool = True  # anchored since the last view

    @classmethod
    def nothing(cls, view: PoolView, features: Tensor) -> "Seen":
        none, no = np.full(len(view), UNLABELLED), np.zeros(len(view), bool)
        return cls(
            _sample_rows(features),
            tuple(features.shape),
            n_classes=view.n_classes,
            told=none,
            anchored=none.copy(),
            trained=no,
            known=no.copy(),
            skipped=no.copy(),
        )

    @property
    def is_anchored(self) -> bool:
        return self.probs is not None

    def is_of(self, view: PoolView, features: Tensor, on: str) -> bool:
        """Whether the view is of the same pool. Hidden features change with each training, so are not compared."""
        if (len(view), view.n_classes) != (len(self.told), self.n_classes):
            return False
        return on == "hidden" or (
            tuple(features.shape) == self.shape and torch.equal(_sample_rows(features), self.sample)
        )

    def is_older_than(self, view: PoolView) -> bool:
        """Whether the learner was trained since."""
        if self.probs is None or view.round is None or view.round != self.round:
            return True
        return view.probs is not self.probs and not torch.equal(view.probs, self.probs)

    def note_anchor(self, view: PoolView, labels: np.ndarray, trained: np.ndarray) -> None:
        self.probs, self.round, self.is_fresh = view.probs, view.round, True
        self.trained, self.known, self.anchored, self.unheard = trained, trained.copy(), labels.copy(), {}


def _sample_rows(features: Tensor) -> Tensor:
    """A few rows from all over the pool: enough to recognise it, at no cost."""
    return features[:: max(1, len(features) // SAMPLED_ROWS)].clone()
