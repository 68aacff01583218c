"""The understudy: a sparse Gaussian process that stands in for the learner between two trainings."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.checks import check_flag, check_whole_number
from understudy.core import basis as bases
from understudy.core import state
from understudy.core.checks import (
    check_among,
    check_basis,
    check_device,
    check_labels,
    check_paired_basis,
    check_probabilities,
    check_rows,
    make_seed,
)
from understudy.core.engine import Destination, Engine
from understudy.core.explanation import Explanation, explain, relative_terms
from understudy.core.features import Features
from understudy.core.kernels import Kernel, explained_width, mean_distance
from understudy.core.ledger import Answer, Ledger
from understudy.core.means import WAVES
from understudy.core.options import OWN_BASIS_JITTER, Method, Options
from understudy.core.rows import Rows
from understudy.errors import UnderstudyError

PICKS_IN_ONE_GO = 2 * WAVES  # picks that a GPU makes without synchronising with the host
STREAM_CENTRES, STREAM_WIDTH, STREAM_SIMPLEX, STREAM_EXPLAINED = range(4)


class Surrogate:
    """Decides which row of the pool to label next, with an exact update after every single label.

    Each pick costs O(nk + nc + k²) for n rows, k basis points and c classes. The method and its
    derivation: docs/mathematics.md; how the paper was interpreted: docs/paper-interpretation.md.
    """

    def __init__(
        self,
        features: Any,
        n_classes: int,
        basis_size: int | None = None,
        random_state: int | np.random.Generator | None = 0,
        device: str | torch.device = "cpu",
        *,
        method: Method = "understudy",
        basis: Any = None,
        **options: Any,
    ) -> None:
        """`options` are those of `Options`; the method's defaults apply to the rest.

        `basis`: your own basis points, U for "understudy" and (U, V) for "paper", in place of k-means centres.
        """
        self.options = Options.of(method, basis_size=basis_size, **options)
        self.n_classes = check_whole_number("n_classes", n_classes, 1)
        self.device = check_device(device, needs_double=True)
        self._seed = make_seed(random_state)
        self._features = Features(features)
        self._features.require_finite()
        self._ledger = Ledger(len(self._features))
        self._is_anchored = False
        self._last_terms = (0.0, 0.0)
        self._has_own_basis = basis is not None
        self._kernel: Kernel
        self._rows: Rows
        self._build_kernel(self._features, basis)
        self._engine: Engine | None = None

    def __len__(self) -> int:
        """The number of rows in the pool."""
        return len(self._ledger)

    def __repr__(self) -> str:
        return (
            f"Surrogate({len(self)} rows, {self.n_classes} classes, {len(self._kernel.U)} basis points: "
            f"{len(self._ledger.answers)} told, {len(self._ledger.pending)} pending)"
        )

    # -- the learner was trained --------------------------------------------------------------------------

    def anchor(self, probs: Any, trained_on: Any, features: Any = None) -> "Surrogate":
        """Start from the predictions of the freshly trained learner.

        `trained_on` are the rows it was trained on: there, and right after anchoring everywhere, the
        surrogate's mean equals the learner's prediction. Labels of other rows (they came in while it
        trained) are applied again. An empty `trained_on` means a model that was trained elsewhere. Rows
        that were asked for stay pending, unless the learner was trained on them, since their labels are known then.
        `features` replaces the kernel's inputs, e.g. by the learner's own features; basis and widths are recomputed.
        O(nk²).
        """
        probs = check_probabilities(probs, len(self), self.n_classes, self.options.torch_dtype, self.device)
        trained = check_rows("trained_on", trained_on, len(self))
        trained = trained[~self._ledger.is_dropped[trained]]
        if self.options.old_targets == "residual":
            unknown = [row for row in trained.tolist() if row not in self._ledger.answers]
            if unknown:
                raise UnderstudyError(
                    f"old_targets='residual' needs the labels of all rows the learner was trained on, but row "
                    f"{unknown[0]} was never told ({len(unknown)} such rows); tell them before anchoring"
                )
        if features is not None:
            new = Features(features)
            if len(new) != len(self):
                raise UnderstudyError(
                    f"features for {len(new)} rows, but the pool has {len(self)}; pass one row per item"
                )
            new.require_finite()
            self._build_kernel(new, None)
            self._features, self._has_own_basis = new, False
        self._ledger.is_trained[:] = False
        self._ledger.is_trained[trained] = True
        for row in trained.tolist():
            self._ledger.pending.pop(row, None)
        self._is_anchored = True
        self._build_engine(probs)
        return self

    # -- asking and telling -------------------------------------------------------------------------------

    def ask(self, n: int = 1, *, among: Any = None) -> np.ndarray:
        """The next n rows to label, best first; they are pending until told, released, skipped or dropped.

        Each pick takes those before it into account: their influence, though not their labels, which nobody knows
        yet. `among`: rows, or a mask of the pool; only these are asked for. What a label is worth stays what it is
        worth to the whole pool.
        """
        return self.propose(n, among=among)[0]

    def propose(self, n: int = 1, *, among: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """As `ask`, and the utility of each row when it was chosen."""
        mask = None if among is None else check_among(among, len(self))
        n = self._ledger.require_left(check_whole_number("n", n, 1), mask)
        engine, allowed = self._ready(), self._on_device(mask)
        if self.device.type == "cuda" and n >= PICKS_IN_ONE_GO and not self._ledger.pending and allowed is None:
            return self._propose_in_one_go(engine, n)
        picks, values_of = [], []
        for _ in range(n):
            self._expect_pending(engine)
            engine.settle()
            row = int(engine.choose(among=allowed)[0])
            self._ledger.pending[row] = None
            self._follow_ledger([row])
            picks.append(row)
            values_of.append(float(engine.best))
        self._note_terms(engine)
        return np.array(picks, dtype=np.int64), np.array(values_of)

    def _propose_in_one_go(self, engine: Engine, n: int) -> tuple[np.ndarray, np.ndarray]:
        try:
            rows, _, values = engine.rehearse(None, n, judge=False)
            self._note_terms(engine)
            self._ledger.pending.update(dict.fromkeys(rows.tolist()))
        finally:
            self.rebuild()  # the engine treated the rows as labelled
        return rows.cpu().numpy(), values.double().cpu().numpy()

    def _note_terms(self, engine: Engine) -> None:
        first, second = engine.terms[:, 0].tolist()
        is_product = self.options.mode == "product"
        self._last_terms = relative_terms(engine, first, second) if is_product else (first, second)

    def leaders(self, n: int = 4, *, among: Any = None) -> np.ndarray:
        """Up to n rows (8 at most) that are likely to be asked for next, best first. Nothing is handed out or changed.

        Which rows are actually asked for depends on the labels that arrive until then. `among` is that of `ask`.
        """
        n = check_whole_number("n", n, 1)
        mask = None if among is None else check_among(among, len(self))
        if mask is not None and not (mask & self._ledger.askable_mask()).any():
            return np.zeros(0, dtype=np.int64)
        engine = self._ready()
        self._expect_pending(engine)
        engine.settle()
        rows, values = engine.leaders(self._on_device(mask))
        found = dict.fromkeys(rows[values > -torch.inf].tolist())  # the lowest of the near-best rows may be there twice
        return np.array(list(found)[:n], dtype=np.int64)

    def reserve(self, rows: Any) -> "Surrogate":
        """Mark rows as pending that were not asked for, because somebody is labelling them."""
        rows = check_rows("rows", rows, len(self)).tolist()
        for row in rows:
            if self._ledger.is_labelled(row) or self._ledger.is_dropped[row]:
                state_of_row = "dropped from the pool" if self._ledger.is_dropped[row] else "labelled already"
                raise UnderstudyError(f"row {row} is {state_of_row}, so it cannot be reserved; leave it out")
        self._ledger.pending.update(dict.fromkeys(rows))
        self._follow_ledger(rows)
        return self

    def tell(self, rows: Any, labels: Any, *, judge: bool = True) -> "Surrogate":
        """Learn the labels of some rows, whether they were asked for or not, in any order and number.

        Without `judge` they do not count in `accuracy`: for labels the learner knew, or rows that were chosen as easy.
        """
        rows = check_rows("rows", rows, len(self))
        labels = check_labels(rows, labels, self.n_classes)
        self._ledger.require_tellable(rows.tolist())
        engine, counts = self._ready(), self._is_anchored and check_flag("judge", judge)
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
            right = engine.learn(self._index(row), self._index(label), judge=counts)
            was_asked = row in self._ledger.pending
            self._ledger.pending.pop(row, None)
            self._ledger.answers[row] = Answer(label, bool(right) if counts else None, was_asked)
        return self

    def rehearse(self, labels: Any, n: int) -> np.ndarray:
        """`ask` and `tell` n times, when the label of every row is known: for simulations.

        Returns the rows in the order they were chosen. A GPU does not synchronise with the host between picks.
        """
        return self.rehearse_proposals(labels, n)[0]

    def rehearse_proposals(self, labels: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
        """As `rehearse`, and the utility of each row when it was chosen."""
        labels = check_labels(np.arange(len(self)), labels, self.n_classes)
        n = self._ledger.require_left(check_whole_number("n", n, 1))
        engine = self._ready()
        self._expect_pending(engine)
        known = torch.from_numpy(labels).to(self.device)
        try:
            rows, rights, values = engine.rehearse(known, n, judge=self._is_anchored)
        except BaseException:  # an interrupt: what was learnt so far is not in the ledger, so it is discarded
            self.rebuild()
            raise
        picks = rows.cpu().numpy()
        for row, right in zip(picks.tolist(), rights.tolist(), strict=True):
            self._ledger.answers[row] = Answer(int(labels[row]), right if self._is_anchored else None, was_asked=True)
        return picks, values.double().cpu().numpy()

    def retract(self, rows: Any) -> "Surrogate":
        """Take back the labels of these rows; each is again what it was before, pending if it had been asked for."""
        rows = check_rows("rows", rows, len(self))
        self._ledger.require_told(rows.tolist())
        self._forget(rows.tolist(), lambda answer: "pending" if answer.was_asked else "pool")
        return self

    def undo(self, n: int = 1) -> "Surrogate":
        """Retract the last n answers."""
        return self.retract(self._ledger.last_answers(check_whole_number("n", n, 1)))

    def release(self, rows: Any) -> "Surrogate":
        """Return pending rows to the pool; others stay as they are."""
        self._release(check_rows("rows", rows, len(self)).tolist())
        return self

    def skip(self, rows: Any) -> "Surrogate":
        """Never ask for these rows again; they still count as part of the pool to be understood."""
        rows = check_rows("rows", rows, len(self))
        self._ledger.is_skipped[rows] = True
        self._release(rows.tolist())
        self._follow_ledger(rows.tolist())
        return self

    def unskip(self, rows: Any) -> "Surrogate":
        """Allow skipped rows to be asked for again; others stay as they are."""
        rows = check_rows("rows", rows, len(self))
        self._ledger.is_skipped[rows] = False
        self._follow_ledger(rows.tolist())
        return self

    def drop(self, rows: Any) -> "Surrogate":
        """Remove bad items from the pool altogether, with their labels."""
        rows = check_rows("rows", rows, len(self)).tolist()
        rows = [row for row in rows if not self._ledger.is_dropped[row]]
        self._forget([row for row in rows if self._ledger.is_labelled(row)], lambda _: "gone")
        self._release([row for row in rows if row in self._ledger.pending], to_pool=False)
        for row in rows:
            if self._engine is not None and bool(self._rows.is_open[row]):
                self._engine.join_pool(self._index(row), sign=-1)
            self._ledger.is_dropped[row] = True
            self._rows.drop(row)
        self._follow_ledger(rows)
        if rows:
            self._move_middle()
        return self

    def undrop(self, rows: Any) -> "Surrogate":
        """Put dropped rows back into the pool, without a label; others stay as they are."""
        rows = check_rows("rows", rows, len(self))
        rows = rows[self._ledger.is_dropped[rows]].tolist()
        for row in rows:
            self._ledger.is_dropped[row] = False
            self._rows.undrop(row)
            if self._engine is not None:
                self._engine.join_pool(self._index(row), sign=1)
            self._rows.is_open[row] = True
        self._follow_ledger(rows)
        if rows:
            self._move_middle()
        return self

    # -- the pool changes ---------------------------------------------------------------------------------

    def add_class(self) -> "Surrogate":
        """Add a class. It has probability zero, and the kernel ignores it, until the next anchor."""
        self.n_classes += 1
        self._kernel = self._kernel.with_class()
        if not self._is_anchored:
            self._engine = None  # predictions are uniform, now over one more class
        if self._engine is not None:
            self._engine.settle()
            probs, posterior = self._rows.means.probs, self._engine.posterior
            self._rows.set_probs(torch.cat([probs, torch.zeros_like(probs[:, :1])], 1))
            posterior.B = torch.cat([posterior.B, torch.zeros_like(posterior.B[:, :1])], 1)
            self._rows.means.reset(self._rows.W, posterior.B)
            self._engine.set_classes(self.n_classes)
            self._engine.chosen = None  # its close-up has one class fewer
        return self

    def extend(self, features: Any, probs: Any = None) -> "Surrogate":
        """Append rows to the pool, with the learner's predictions for them (none before the first anchor)."""
        extended = self._features.with_rows(features)
        new = Features(extended.parts[-1])
        new.require_finite()
        if probs is None and self._is_anchored:
            raise UnderstudyError(
                f"extend needs the learner's probabilities for the {len(new)} new rows; pass probs too"
            )
        if probs is not None and not self._is_anchored:
            raise UnderstudyError(
                "the pool has no predictions yet, so new rows cannot have any either; leave probs out, or anchor first"
            )
        if probs is not None:
            probs = check_probabilities(probs, len(new), self.n_classes, self.options.torch_dtype, self.device)
        elif self._engine is not None:
            probs = self._uniform(len(new))
        if self._engine is not None:
            self._engine.settle(exact_means=True)
        first = len(self)
        self._rows.extend(self._kernel, new.on(self.device), probs)
        self._features = extended
        self._ledger.extend(len(new))
        if self._engine is not None:
            self._engine.take_in_rows(first)
            self._move_middle()
        return self

    @property
    def pending(self) -> np.ndarray:
        """Rows that are waiting for a label, in the order they were asked for."""
        return np.array(list(self._ledger.pending), dtype=np.int64)

    @property
    def askable(self) -> np.ndarray:
        """Rows that may be asked for: neither labelled nor pending, skipped or dropped."""
        return np.flatnonzero(self._ledger.askable_mask())

    # -- what it thinks -----------------------------------------------------------------------------------

    @property
    def mean(self) -> np.ndarray:
        """(n, c): the surrogate's prediction f^, exact. Not clipped to the simplex."""
        engine = self._ready()
        mean = self._rows.means.probs + self._rows.W @ engine.posterior.B.to(self.options.torch_dtype)
        return mean.cpu().numpy()

    def predict(self, rows: Any) -> np.ndarray:
        """(q, c): the same for some rows only, quickly and in float64."""
        engine = self._ready()
        index = torch.from_numpy(check_rows("rows", rows, len(self))).to(self.device)
        w, probs, _ = self._rows.take(index)
        return (probs + w @ engine.posterior.B).cpu().numpy()

    def anchor_probs(self, rows: Any) -> np.ndarray:
        """(q, c): the learner's predictions for some rows, from which the mean started; uniform before an anchor."""
        self._ready()
        index = torch.from_numpy(check_rows("rows", rows, len(self))).to(self.device)
        return self._rows.means.probs[index].cpu().numpy()

    @property
    def variance(self) -> np.ndarray:
        """(n,): predictive variance λ + g + σ², given the answered and the pending rows."""
        self._read()
        return self._rows.variance().cpu().numpy()

    @property
    def influence(self) -> np.ndarray:
        """(n,): how much a label reduces the variance of undecided rows; u¹ with "paper". NaN for dropped rows."""
        engine = self._read()
        return self._out(engine.influence_scale * self._rows.influence())

    @property
    def uncertainty(self) -> np.ndarray:
        """(n,): the remaining doubt about each row; u² with "paper". NaN for dropped rows."""
        self._read()
        return self._out(self._rows.means.uncertainty())

    @property
    def utility(self) -> np.ndarray:
        """(n,): u, of labelled and pending rows too; NaN for dropped rows, -inf for rows that look-ahead left out."""
        return self._out(self._read().utility()[0])

    @property
    def last_terms(self) -> tuple[float, float]:
        """What influence and uncertainty contributed to the choice of the last row.

        The two terms of its utility if that is a sum. For a product, the logarithms of its two factors, each relative
        to the pool's geometric mean, so that 0 is a typical row.
        """
        return self._last_terms

    @property
    def accuracy(self) -> float:
        """P(f^t): the share of labels that the learner had predicted correctly; 0 before the first."""
        right, judged = self._ledger.accuracy()
        return right / judged if judged else 0.0

    @property
    def tally(self) -> tuple[int, int]:
        """The number of labels the learner predicted correctly, and the number judged; `accuracy` is their ratio."""
        return self._ledger.accuracy()

    def credit(self, right: int, judged: int) -> "Surrogate":
        """Add labels that were judged elsewhere to the count behind `accuracy`."""
        right, judged = check_whole_number("right", right, 0), check_whole_number("judged", judged, 0)
        if right > judged:
            raise UnderstudyError(f"{right} right out of {judged} judged is impossible; pass judged >= right")
        self._ledger.credit = right, judged
        self._count()
        return self

    def covariance(self, rows: Any) -> np.ndarray:
        """(n, q): posterior covariance wᵀ R w of every row of the pool with each of these, in float64.

        It is conditioned on the answered and the pending rows, so a label y of row l moves
        the mean of row i by c_il (y - f^_l) / (ν_l + c_ll). The covariance of a row with itself is g, what labels of
        other rows can still remove; its predictive `variance` adds λ and σ². O(nkq), in blocks of rows.
        """
        index = torch.from_numpy(check_rows("rows", rows, len(self))).to(self.device)
        engine = self._ready()
        self._expect_pending(engine)
        return self._rows.posterior_covariances(engine.posterior.R, index).cpu().numpy()

    def explain(self, row: int, n_rows: int = 5) -> Explanation:
        """Explain a row: the shares of its utility, the rows it would teach most, the nearest labelled rows."""
        (row,) = check_rows("row", [row], len(self)).tolist()
        n_rows = check_whole_number("n_rows", n_rows, 1)
        if self._ledger.is_dropped[row]:
            raise UnderstudyError(f"row {row} was dropped from the pool; there is nothing to explain")
        engine, index = self._read(), self._index(row)
        # A pending row is explained as of when it was chosen.
        with engine.as_if_open(index) if row in engine.expected else nullcontext():
            return explain(engine, self._ledger, self._features, row, n_rows)

    # -- saving -------------------------------------------------------------------------------------------

    def state_dict(self, whole: bool = False) -> dict[str, np.ndarray]:
        """Everything but the features, as plain arrays: `numpy.savez(path, **s.state_dict())` saves it.

        `whole`: also the whitened rows, 2nk numbers, which otherwise are recomputed.
        """
        return state.save(self.parts, whole)

    def load_state_dict(self, saved: Mapping[str, Any]) -> "Surrogate":
        """Restore the state that `state_dict` returned. The pool and the options must be the same."""
        state.require_pool(saved, self._features)
        return self._adopt(state.load(saved, self.options, self._features, self.device))

    @classmethod
    def restore(
        cls, features: Any, saved: Mapping[str, Any], device: str | torch.device = "cpu", *, check: bool = True
    ) -> "Surrogate":
        """The surrogate that `state_dict` was taken from, without running k-means again.

        A whole state loads at once; arrays that are memory-mapped (copy on write) are used in place.
        `check` reads all features to verify that they belong to the state.
        """
        given = Features(features)
        if check:
            state.require_pool(saved, given)
        # Built from one row: what would be computed for the others is in the state.
        made = cls(given.parts[0][:1], device=device, **state.arguments(saved))
        return made._adopt(state.load(saved, made.options, given, made.device))

    @property
    def parts(self) -> state.Parts:
        """Its parts, for inspection: the kernel with its basis, the ledger, the rows, the engine."""
        return state.Parts(
            options=self.options,
            features=self._features,
            n_classes=self.n_classes,
            seed=self._seed,
            is_anchored=self._is_anchored,
            has_own_basis=self._has_own_basis,
            ledger=self._ledger,
            kernel=self._kernel,
            rows=self._rows,
            engine=self._engine,
        )

    # -- private ------------------------------------------------------------------------------------------

    def _adopt(self, parts: state.Parts) -> "Surrogate":
        self._features, self.n_classes, self._seed = parts.features, parts.n_classes, parts.seed
        self._is_anchored, self._has_own_basis = parts.is_anchored, parts.has_own_basis
        self._ledger, self._kernel, self._rows, self._engine = parts.ledger, parts.kernel, parts.rows, parts.engine
        self._count()
        return self

    def _stream(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, *purpose])

    def _build_kernel(self, features: Features, basis: Any) -> None:
        """Compute the basis, the widths and the kernel of every row: the slow part of the set-up."""
        features, options = features.on(self.device), self.options
        origin, spread = bases.centre_and_spread(features, self.device)
        V = None
        if basis is None:
            k = options.basis_points(len(features))
            U = bases.find_centres(features, k, origin, spread, self._stream(STREAM_CENTRES)).centres
            V = self._draw_outputs(len(U)) if options.sees_predictions else None
        elif options.sees_predictions:
            U, V = check_paired_basis(basis, features.n_columns, self.n_classes, self.device)
        else:
            U = check_basis(basis, features.n_columns, self.device)
        distance = mean_distance(features, origin, spread, self._stream(STREAM_WIDTH))
        if options.sees_predictions:
            bandwidth = self._bandwidth(options.width, distance)
            self._kernel = Kernel.over(U, V, origin, bandwidth, self._output_bandwidth())
        else:
            width = options.width
            if width is None and options.explained is not None and distance > 0:
                rng = self._stream(STREAM_EXPLAINED)
                width = explained_width(
                    features,
                    U,
                    origin=origin,
                    distance=distance,
                    share=options.explained,
                    jitter=OWN_BASIS_JITTER,
                    rng=rng,
                )
            self._kernel = Kernel.over(U, None, origin, self._bandwidth(width, distance), jitter=OWN_BASIS_JITTER)
        self._rows = Rows(self._kernel, options, features)

    @staticmethod
    def _bandwidth(width: float | None, distance: float) -> float:
        # Features without any spread carry no information, whatever the width.
        return (width * distance) ** 2 if width is not None and distance > 0 else 1.0

    def _draw_outputs(self, k: int) -> Tensor:
        return torch.from_numpy(bases.draw_simplex(k, self.n_classes, self._stream(STREAM_SIMPLEX, self.n_classes))).to(
            self.device
        )

    def _output_bandwidth(self) -> float:
        width = self.options.output_width
        return float(self.n_classes if width is None else width) ** 2

    def _uniform(self, n: int) -> Tensor:
        return torch.full((n, self.n_classes), 1.0 / self.n_classes, dtype=self.options.torch_dtype, device=self.device)

    def _on_device(self, mask: np.ndarray | None) -> Tensor | None:
        return None if mask is None else torch.from_numpy(mask).to(self.device)

    def _index(self, row: int) -> Tensor:
        return torch.tensor([row], device=self.device)

    def _ready(self) -> Engine:
        return self._engine if self._engine is not None else self._build_engine(self._uniform(len(self)))

    def _read(self) -> Engine:
        engine = self._ready()
        self._expect_pending(engine)
        engine.settle(exact_means=True)
        return engine

    def _out(self, values: Tensor) -> np.ndarray:
        return values.masked_fill(~self._rows.is_in_pool, torch.nan).cpu().numpy()

    def _follow_ledger(self, rows: list[int]) -> None:
        """Copy to the device which of these rows may be asked for. The ledger alone decides that."""
        if rows:
            self._rows.set_askable(rows, [self._ledger.is_askable(row) for row in rows])

    def _expect_pending(self, engine: Engine) -> None:
        for row in self._ledger.pending:
            if row not in engine.expected:
                engine.expect(self._index(row))

    def _build_engine(self, probs: Tensor) -> Engine:
        """A new engine for these predictions, with everything in the ledger."""
        kernel = self._kernel
        if kernel.V is not None and kernel.n_classes_drawn != self.n_classes:
            V = kernel.V if self._has_own_basis else self._draw_outputs(len(kernel.U))
            self._kernel = kernel.with_outputs(V, self._output_bandwidth())
        self._rows.anchor(self._kernel, probs, self._is_anchored)
        self._engine = Engine(self._rows, self.options)
        self.rebuild()
        return self._engine

    def rebuild(self) -> None:
        """Recompute the engine from the ledger, which removes accumulated rounding errors. O(nk²)."""
        if self._engine is None:
            return
        ledger, rows = self._ledger, self._rows

        def on_device(array: Any) -> Tensor:
            return torch.as_tensor(np.asarray(array)).to(self.device)

        rows.set_masks(*(torch.from_numpy(mask) for mask in ledger.masks(expected=ledger.pending)))
        # Sorted, so that sums do not depend on the order in which labels came.
        with_all = self.options.old_targets == "residual"
        answered = sorted(row for row in ledger.answers if with_all or not ledger.is_trained[row])
        index = on_device(np.array(answered, dtype=np.int64))
        labels = on_device(np.array([ledger.answers[row].label for row in answered], dtype=np.int64))
        targets = torch.nn.functional.one_hot(labels, self.n_classes).double() - rows.means.probs[index].double()
        self._engine.rebuild(
            labelled=on_device(np.flatnonzero(ledger.labelled_mask())),
            expected=on_device(np.array(list(ledger.pending), dtype=np.int64)),
            answered=index,
            targets=targets,
        )
        self._count()

    def _move_middle(self) -> None:
        """Update the prior after a change of the pool, and so of its mean row."""
        if self._engine is not None and not self._engine.move_middle():
            self.rebuild()

    def _count(self) -> None:
        if self._engine is not None:
            right, judged = self._ledger.accuracy()
            self._engine.set_tally(right, judged)

    def _target(self, row: int, answer: Answer | None) -> Tensor:
        """The value f^ is fitted to at a labelled row: its label, or the prediction of a learner trained on it."""
        probs = self._rows.means.probs[row].double()
        if answer is None or (self._ledger.is_trained[row] and self.options.old_targets != "residual"):
            return probs
        return torch.zeros_like(probs).index_fill_(0, self._index(answer.label), 1.0)

    def _forget(self, rows: list[int], destination: Callable[[Answer], Destination]) -> None:
        """Remove the labels of rows, which become "pending", return to the "pool" or are "gone"."""
        engine, intact = self._ready(), True
        for row in rows:
            answer = self._ledger.answers.pop(row, None)
            target = self._target(row, answer)
            to: Destination = destination(answer) if answer is not None else "gone"
            self._ledger.is_trained[row] = False
            if to == "pending":
                self._ledger.pending[row] = None
            intact = intact and engine.unlearn(self._index(row), target, to)
        if intact:
            self._follow_ledger(rows)
            self._count()
        else:
            self.rebuild()

    def _release(self, rows: list[int], to_pool: bool = True) -> None:
        intact, pending = True, [row for row in rows if row in self._ledger.pending]
        for row in pending:
            del self._ledger.pending[row]
            if self._engine is not None and row in self._engine.expected:
                intact = intact and self._engine.unexpect(self._index(row), to_pool)
        if intact:
            self._follow_ledger(pending)
        else:
            self.rebuild()
