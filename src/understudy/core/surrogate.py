"""The understudy: a sparse Gaussian process that stands in for the learner between two trainings."""

import copy
import hashlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
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
from understudy.core.protocol import PoolRows, RowStorage
from understudy.core.setup_progress import ReportSetup, SetupProgress
from understudy.core.split_rows import InMemory
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
        storage: RowStorage | None = None,
        report_progress: ReportSetup | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of `Options`; the method's defaults apply to the rest.

        `basis`: your own basis points, U for "understudy" and (U, V) for "paper", in place of k-means centres.
        `storage`: where whitened rows are kept; by default in memory. It decides no pick.
        `report_progress` gets the phase that the set-up is in ("basis", "width", "rows") and the share that is done;
        what it raises ends the call.
        """
        self.options = Options.of(method, basis_size=basis_size, **options)
        self.n_classes = check_whole_number("n_classes", n_classes, 1)
        self.device = check_device(device, needs_double=True)
        self._seed = make_seed(random_state)
        self._storage = InMemory() if storage is None else storage
        self._features = self._storage.place(Features(features))
        self._features.require_finite()
        self._ledger = Ledger(len(self._features))
        self._is_anchored = False
        self._last_terms = (0.0, 0.0)
        self._has_own_basis = basis is not None
        points = self._points_in(basis)
        self._storage.require_room(len(self), points, self.n_classes, self.options, self.device)
        self._kernel: Kernel
        self._rows: PoolRows
        self._build_kernel(self._features, basis, report_progress)
        self._engine: Engine | None = None

    def __len__(self) -> int:
        """The number of rows in the pool."""
        return len(self._ledger)

    def __repr__(self) -> str:
        return (
            f"Surrogate({len(self)} rows, {self.n_classes} classes, {len(self._kernel.U)} basis points: "
            f"{len(self._ledger.answers)} told, {len(self._ledger.pending)} pending)"
        )

    def _repr_html_(self) -> str | None:
        # Imported here: the engine does not need what only notebooks do.
        from understudy.core.card import draw_surrogate
        from understudy.notebook import draw_safely

        return draw_safely(
            lambda: draw_surrogate(self._ledger, self.n_classes, len(self._kernel.U), self.options.method)
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
            new = self._storage.place(Features(features))
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
            row = int(engine.pick(allowed))
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
        if self.options.mode == "product":
            usual = self._rows.usual() if engine.usual is None else engine.usual
            first, second = relative_terms(usual, first, second)
        self._last_terms = first, second

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
        for row, label, right in engine.learn_each(rows.tolist(), labels.tolist(), judge=counts):
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
        if self._engine is not None:
            self._engine.drop(rows)
        else:
            for row in rows:
                self._rows.drop(self._index(row))
        self._ledger.is_dropped[rows] = True
        self._follow_ledger(rows)
        if rows:
            self._move_middle()
        return self

    def undrop(self, rows: Any) -> "Surrogate":
        """Put dropped rows back into the pool, without a label; others stay as they are."""
        rows = check_rows("rows", rows, len(self))
        rows = rows[self._ledger.is_dropped[rows]].tolist()
        self._ledger.is_dropped[rows] = False
        if self._engine is not None:
            self._engine.undrop(rows)
        else:
            for row in rows:
                self._rows.undrop(self._index(row))
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
            posterior = self._engine.posterior
            self._rows.add_class()
            posterior.B = torch.cat([posterior.B, torch.zeros_like(posterior.B[:, :1])], 1)
            self._rows.reset_means(posterior.B)
            self._engine.set_classes(self.n_classes)
            self._engine.forget_taken()  # close-ups have one class fewer
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
        size = first + len(new), len(self._kernel.U), self.n_classes
        self._storage.require_room(*size, self.options, self.device)
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
        return self._rows.mean(engine.posterior.B).cpu().numpy()

    def predict(self, rows: Any) -> np.ndarray:
        """(q, c): the same for some rows only, quickly and in float64."""
        engine = self._ready()
        index = torch.from_numpy(check_rows("rows", rows, len(self))).to(self.device)
        taken = self._rows.take(index)
        return (taken.probs + taken.w @ engine.posterior.B).cpu().numpy()

    def anchor_probs(self, rows: Any) -> np.ndarray:
        """(q, c): the learner's predictions for some rows, from which the mean started; uniform before an anchor."""
        self._ready()
        index = torch.from_numpy(check_rows("rows", rows, len(self))).to(self.device)
        return self._rows.take(index).probs.to(self.options.torch_dtype).cpu().numpy()

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
        return self._out(self._rows.doubt())

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
        return self._rows.products(engine.posterior.R @ self._rows.take(index).w.T).cpu().numpy()

    def explain(self, row: int, n_rows: int = 5) -> Explanation:
        """Explain a row: the shares of its utility, the rows it would teach most, the nearest labelled rows."""
        (row,) = check_rows("row", [row], len(self)).tolist()
        n_rows = check_whole_number("n_rows", n_rows, 1)
        if self._ledger.is_dropped[row]:
            raise UnderstudyError(f"row {row} was dropped from the pool; there is nothing to explain")
        engine = self._read()
        # A pending row is explained as of when it was chosen.
        with engine.as_if_open(row) if row in engine.expected else nullcontext():
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
        return self._adopt(state.load(saved, self.options, self._features, self.device, self._storage))

    @classmethod
    def restore(
        cls,
        features: Any,
        saved: Mapping[str, Any],
        device: str | torch.device = "cpu",
        *,
        check: bool = True,
        storage: RowStorage | None = None,
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
        made._storage = made._storage if storage is None else storage
        return made._adopt(state.load(saved, made.options, given, made.device, made._storage))

    def copy(self) -> "Surrogate":
        """A surrogate in the same state that goes its own way. O(nc + k²) where whitened rows can be shared.

        So one may take in rows, which takes long, while the other goes on being asked.
        """
        shared = (self._features, self._kernel, self._storage)  # replaced, never changed
        return copy.deepcopy(self, {id(each): each for each in shared})

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

    def _points_in(self, basis: Any) -> int:
        """How many basis points there will be. What is wrong with one's own is said where they are checked."""
        with suppress(TypeError, IndexError, KeyError):
            return len(basis[0] if self.options.sees_predictions else basis)
        return self.options.basis_points(len(self))

    def _stream(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, *purpose])

    def _build_kernel(self, features: Features, basis: Any, report: ReportSetup | None = None) -> None:
        """Compute the basis, the widths and the kernel of every row: the slow part of the set-up."""
        features = features.on(self.device)
        progress = SetupProgress(report, len(features))
        name = self._name_of_basis(features) if basis is None and self._storage.is_lasting else ""
        kept = self._storage.recall(name) if name else None
        if kept is None:
            self._kernel = self._find_kernel(features.watched(progress.note_read), basis, progress)
            if name:
                self._storage.keep(name, self._kernel.to_arrays())
        else:
            self._kernel = Kernel.from_arrays(kept, 0.0 if self.options.sees_predictions else OWN_BASIS_JITTER)
        progress.begin("rows")
        self._rows = self._storage.make(self._kernel, self.options, features.watched(progress.note_read))
        progress.end()

    def _name_of_basis(self, features: Features) -> str:
        """A digest of all that basis and widths depend on."""
        given = f"{features.digest()} {self._seed} {self.n_classes} {sorted(self.options.given().items())}"
        return "basis-" + hashlib.blake2b(given.encode(), digest_size=12).hexdigest()

    def _find_kernel(self, features: Features, basis: Any, progress: SetupProgress) -> Kernel:
        options = self.options
        progress.begin("basis")
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
        progress.begin("width")
        distance = mean_distance(features, origin, spread, self._stream(STREAM_WIDTH))
        if options.sees_predictions:
            bandwidth = self._bandwidth(options.width, distance)
            return Kernel.over(U, V, origin, bandwidth, self._output_bandwidth())
        width = options.width
        if width is None and options.explained is not None and distance > 0:
            rng = self._stream(STREAM_EXPLAINED)
            width = explained_width(
                features, U, origin=origin, distance=distance, share=options.explained, jitter=OWN_BASIS_JITTER, rng=rng
            )
        return Kernel.over(U, None, origin, self._bandwidth(width, distance), jitter=OWN_BASIS_JITTER)

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
        return values.masked_fill(torch.from_numpy(self._ledger.is_dropped).to(self.device), torch.nan).cpu().numpy()

    def _follow_ledger(self, rows: list[int]) -> None:
        """Copy to the device which of these rows may be asked for. The ledger alone decides that."""
        if rows:
            self._rows.set_askable(rows, [self._ledger.is_askable(row) for row in rows])

    def _expect_pending(self, engine: Engine) -> None:
        unexpected = [row for row in self._ledger.pending if row not in engine.expected]
        if unexpected:
            engine.expect(unexpected)

    def _build_engine(self, probs: Tensor) -> Engine:
        """A new engine for these predictions, with everything in the ledger."""
        kernel = self._kernel
        if kernel.V is not None and kernel.n_classes_drawn != self.n_classes:
            V = kernel.V if self._has_own_basis else self._draw_outputs(len(kernel.U))
            self._kernel = kernel.with_outputs(V, self._output_bandwidth())
        self._rows.anchor(self._kernel, probs, self._is_anchored)
        self._engine = Engine(self._rows, self.options, self._is_anchored)
        self.rebuild()
        return self._engine

    def rebuild(self) -> None:
        """Recompute the engine from the ledger, which removes accumulated rounding errors. O(nk²)."""
        if self._engine is None:
            return
        ledger = self._ledger

        def on_device(array: Any) -> Tensor:
            return torch.as_tensor(np.asarray(array)).to(self.device)

        self._rows.set_masks(*(on_device(mask) for mask in ledger.masks(expected=ledger.pending)))
        # Sorted, so that sums do not depend on the order in which labels came.
        with_all = self.options.old_targets == "residual"
        answered = sorted(row for row in ledger.answers if with_all or not ledger.is_trained[row])
        self._engine.rebuild(
            labelled=on_device(np.flatnonzero(ledger.labelled_mask())),
            expected=on_device(np.array(list(ledger.pending), dtype=np.int64)),
            answered=on_device(np.array(answered, dtype=np.int64)),
            labels=on_device(np.array([ledger.answers[row].label for row in answered], dtype=np.int64)),
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

    def _forget(self, rows: list[int], destination: Callable[[Answer], Destination]) -> None:
        """Remove the labels of rows, which become "pending", return to the "pool" or are "gone"."""
        engine, ledger = self._ready(), self._ledger
        # What f^ was fitted to there: the label, or (None) the prediction of a learner that was trained on it.
        labels: list[int | None] = []
        to: list[Destination] = []
        for row in rows:
            answer = ledger.answers.pop(row, None)
            knew = ledger.is_trained[row] and self.options.old_targets != "residual"
            labels.append(None if answer is None or knew else answer.label)
            to.append(destination(answer) if answer is not None else "gone")
            ledger.is_trained[row] = False
            if to[-1] == "pending":
                ledger.pending[row] = None
        intact = engine.unlearn(rows, labels, to)
        if intact:
            self._follow_ledger(rows)
            self._count()
        else:
            self.rebuild()

    def _release(self, rows: list[int], to_pool: bool = True) -> None:
        pending = [row for row in rows if row in self._ledger.pending]
        for row in pending:
            del self._ledger.pending[row]
        engine, intact = self._engine, True
        if engine is not None:
            intact = engine.unexpect([row for row in pending if row in engine.expected], to_pool)
        if intact:
            self._follow_ledger(pending)
        else:
            self.rebuild()
