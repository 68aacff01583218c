"""Our own method and its ablations as a strategy: an adapter of the surrogate to views."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from understudy.core.links import Link
from understudy.core.surrogate import Surrogate
from understudy.core.utilities import Mode
from understudy.errors import UnderstudyError
from understudy.strategies.protocol import Needs
from understudy.strategies.view import UNLABELLED, Picks, PoolView


@dataclass
class GaussianProcess:
    """A sparse Gaussian process that starts from the learner's predictions and learns from every single label.

    It follows the views it is shown: labels, pending and skipped rows are taken over from them. `blind` keeps the
    labels of a round from it until the learner has been trained, as batch strategies have it. Settings are those of
    `Surrogate`; `on` says what the kernel sees, the pool's features or the learner's hidden ones.
    """

    mode: Mode = "combined"
    blind: bool = False
    on: Literal["features", "hidden"] = "features"
    basis_size: int = 500
    width: float = 0.5
    output_width: float | None = None
    noise: float = 1e-10
    link: Link = "softmax"
    old_targets: Literal["zero", "residual"] = "zero"
    exclude_self: bool = False
    accuracy_of: Literal["learner", "surrogate"] = "learner"
    lookahead_candidates: int | None = None
    dtype: Literal["float32", "float64"] = "float32"

    surrogate: Surrogate | None = field(default=None, init=False, repr=False)
    _pool: tuple[int, ...] = field(default=(), init=False, repr=False)
    _round: int | None = field(default=None, init=False, repr=False)
    _told: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), init=False, repr=False)  # (n,) labels, -1
    _trained: np.ndarray = field(default_factory=lambda: np.empty(0, bool), init=False, repr=False)  # (n,)

    def __post_init__(self) -> None:
        if self.on not in ("features", "hidden"):
            raise UnderstudyError(f"on must be 'features' or 'hidden'; got {self.on!r}")
        self._make(np.zeros((1, 1)), 1, 0, "cpu")  # its checks are those of the settings

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({self.on, "probs"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        view.candidates(n)  # the view's own words if there are too few
        return Picks(*self.following(view, rng).propose(n))

    def tell(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Learn labels at once. Those that were not told here are learnt from the next view."""
        if self.surrogate is not None and not self.blind:
            known = self._told.copy()
            known[rows] = labels
            self._learn(self.surrogate, known)

    # -- following the views --------------------------------------------------------------------------------

    def following(self, view: PoolView, rng: np.random.Generator) -> Surrogate:
        """The surrogate, brought to where the view is."""
        features = view.features if self.on == "features" else view.hidden
        # Hidden features are another table after each training; the pool's are the same one.
        pool = (*features.shape, view.n_classes, features.data_ptr() if self.on == "features" else 0)
        is_new = self.surrogate is None or pool != self._pool
        if is_new:
            self.surrogate = self._make(features, view.n_classes, int(rng.integers(2**63)), view.device)
            self._pool, self._round = pool, None
            self._told, self._trained = np.full(len(view), UNLABELLED), np.zeros(len(view), bool)
        assert self.surrogate is not None
        s, labels = self.surrogate, view.labels.cpu().numpy()
        if is_new or view.round is None or view.round != self._round:
            if not is_new or self.old_targets == "residual":
                self._learn(s, labels)  # before the new predictions come in: each label is a test of the old ones
            self._trained = view.is_trained.cpu().numpy().copy()
            self._round = view.round
            is_other = self.on == "hidden" and not is_new
            s.anchor(view.probs, np.flatnonzero(self._trained), features=features if is_other else None)
            self._learn(s, labels)
        elif not self.blind:
            self._learn(s, labels)
        self._hold(s, labels, view)
        return s

    def _learn(self, s: Surrogate, labels: np.ndarray) -> None:
        """Labels that it has not heard are told; what was told and is no longer so is taken back."""
        over = np.flatnonzero((self._told != UNLABELLED) & (self._told != labels))
        if len(over):
            s.retract(over)
            self._told[over] = UNLABELLED
            self._trained[over] = False  # on another label, so this one is news
        news = np.flatnonzero((labels != UNLABELLED) & (self._told != labels) & ~self._trained)
        if len(news):
            s.tell(news, labels[news])
            self._told[news] = labels[news]

    def _hold(self, s: Surrogate, labels: np.ndarray, view: PoolView) -> None:
        """Pending and skipped rows are those of the view. What it was not told yet is pending for a blind one."""
        awaited = view.is_pending.cpu().numpy() & (labels == UNLABELLED)
        awaited |= (labels != UNLABELLED) & (self._told == UNLABELLED) & ~self._trained
        held = np.zeros_like(awaited)
        held[s.pending] = True
        s.release(np.flatnonzero(held & ~awaited))
        s.reserve(np.flatnonzero(awaited & ~held))
        s.skip(view.is_skipped.nonzero()[:, 0].cpu().numpy())

    def _make(self, features: Any, n_classes: int, seed: int, device: Any) -> Surrogate:
        return Surrogate(
            features,
            n_classes,
            self.basis_size,
            seed,
            device,
            mode=self.mode,
            width=self.width,
            output_width=self.output_width,
            noise=self.noise,
            link=self.link,
            old_targets=self.old_targets,
            exclude_self=self.exclude_self,
            accuracy_of=self.accuracy_of,
            lookahead_candidates=self.lookahead_candidates,
            dtype=self.dtype,
        )
