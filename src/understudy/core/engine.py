"""Posterior and rows together: learns labels, retracts them and picks rows, touching the rows only when it must.

The small posterior is updated at once. The resulting changes of the rows are queued as steps and applied at the next
pick or read, so that handing out a row and learning its label cost one pass together. Everything between two picks
consists of tensor operations whose values are never read on the host, so that a GPU can run many picks in one go
(`rehearse`).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core import utilities
from understudy.core.means import WAVES, doubt_of
from understudy.core.options import Options
from understudy.core.posterior import (
    TAKE_OUT_LIMIT,
    Closeup,
    InfluenceStep,
    MeanStep,
    Posterior,
    weights_given,
)
from understudy.core.protocol import CARRIED, SMALLEST, USUAL, Extra, Leaders, PoolRows, Taken, Usual
from understudy.core.utilities import Moments

EXACT_CANDIDATES = 8  # top rows by incrementally updated utility that are recomputed exactly before one is chosen
DRIFT_LIMIT = 1e-4  # of the influence, relative
DRIFT_SAFETY = 5.0  # no row's drift exceeds about this many times that of the leaders
WEAR_LIMIT = 1e-10  # relative error that downdates may add to R before it is rebuilt
RESOLUTION = {torch.float32: 1e-5, torch.float64: 1e-10}  # a smaller relative deviation is rounding, not information
LOOKAHEAD_ENTRIES_PER_BLOCK = 2**22
ROWS_PER_FETCH = 1024  # that are about to change and are asked for together
EPSILON = torch.finfo(torch.float64).eps
EMPTY_TALLY = 1e-300  # initial count: an accuracy of zero without a division by zero


Destination = Literal["pending", "pool", "gone"]  # what becomes of a row whose label is retracted
Wave: TypeAlias = tuple[Int[Tensor, "t"], Bool[Tensor, "t"], Float[Tensor, "t"]]  # rows, prediction right, utilities


class Engine:
    """The surrogate of one pool between two trainings. A row is passed as an int64 tensor of one element."""

    def __init__(self, rows: PoolRows, options: Options, has_learner: bool) -> None:
        """`has_learner`: whether a learner made the predictions."""
        self.rows, self.options, self.has_learner, self.device = rows, options, has_learner, rows.device
        self.influence_steps: list[InfluenceStep] = []
        self.mean_steps: list[MeanStep] = []
        self.expected: set[int] = set()  # pending rows that R accounts for
        self._at_hand: dict[int, Taken] = {}  # some of these in full, so that an answer need not ask for them again
        self.wear = 0.0
        self.resolution = RESOLUTION[rows.dtype]
        numbers = torch.zeros((2, 2), dtype=torch.float64, device=self.device)
        self.tally, self.drift = numbers[0], numbers[1, 0]  # counts of wrong and right predictions; relative error
        self.set_tally(0, 0)
        self.set_classes(rows.n_classes)
        self.least = torch.zeros(2, dtype=torch.float64, device=self.device)  # smaller deviations are rounding
        self.is_rounding_noted = True  # whether `least` is that of the rows as they are
        self.total = 0.0
        self.middle = torch.zeros(rows.n_basis, dtype=torch.float64, device=self.device)  # the pool's mean row
        self.last: Leaders | None = None  # those among which a row was chosen last
        self.usual: Usual | None = None  # what was usual among the other rows when one was picked last
        self.chosen: tuple[Tensor, Closeup, Posterior, int] | None = None
        self.best = numbers[1, 1:]  # the utility of the row chosen last
        self.terms = torch.zeros((2, 1), dtype=torch.float64, device=self.device)  # and its two terms, or
        # factors

    # -- from scratch -------------------------------------------------------------------------------------

    def rebuild(
        self,
        labelled: Int[Tensor, "t"],
        expected: Int[Tensor, "e"],
        answered: Int[Tensor, "a"],
        labels: Int[Tensor, "a"],
    ) -> None:
        """Recompute the posterior and every row's state given these rows. `labels`: of the answered rows."""
        rows = self.rows
        precision = self._known_beforehand() + rows.precision(labelled)
        taught = torch.zeros((rows.n_basis, rows.n_classes), dtype=torch.float64, device=self.device)
        if len(answered):
            taken = rows.take(answered)
            targets = torch.nn.functional.one_hot(labels, rows.n_classes).double() - taken.probs
            taught.addmm_(taken.w.T, targets / taken.stats[:, :1])
        R, B = weights_given(precision, taught)
        R_told = None
        if len(expected):
            R_told = R
            R, _ = weights_given(precision + rows.precision(expected), taught)
        self.posterior = Posterior(R, rows.gram(), B, R_told)
        self.expected = set(expected.tolist())
        self._at_hand = {row: taken for row, taken in self._at_hand.items() if row in self.expected}
        self.wear = 0.0
        self.refresh()
        self.total = float(self.posterior.M.trace())
        self.least[1] = 16 * EPSILON * rows.largest_doubt()
        self._note_rounding()

    def _known_beforehand(self) -> Float[Tensor, "k k"]:
        """The prior precision: before any label, the predictions are right on average over the pool, up to `bias`.

        It equals a pseudo-observation at the pool's mean row, with the predicted value and that variance.
        """
        if self.options.bias is None:
            return torch.zeros((self.rows.n_basis,) * 2, dtype=torch.float64, device=self.device)
        self.middle = self._mean_row()
        return torch.outer(self.middle, self.middle) / self.options.bias

    def _mean_row(self) -> Float[Tensor, "k"]:
        total, count = self.rows.row_sum()
        return total / max(1, count)

    def refresh(self) -> None:
        """Recompute every row's state from the posterior; nothing is queued or deferred afterwards."""
        self.influence_steps, self.mean_steps = [], []
        self.drift.zero_()
        self.rows.refresh(self.posterior.R, self.posterior.M)
        self.rows.reset_means(self.posterior.B)

    def settle(self, exact_means: bool = False, note_rounding: bool = True) -> None:
        """Bring the rows up to date with the posterior.

        Without `note_rounding` nothing is asked of them: the next choice, which must come before any other change, does
        that on the way.
        """
        steps = 2 * len(self.influence_steps) + len(self.mean_steps)
        if steps > self.rows.n_basis or DRIFT_SAFETY * float(self.drift) > DRIFT_LIMIT:
            self.refresh()
        else:
            self.apply_steps()
            self.rows.catch_up(exact_means)
        self.is_rounding_noted = False
        if note_rounding:
            self._note_rounding()

    def _note_rounding(self, smallest: Tensor | None = None) -> None:
        """Bound the rounding error of influence: an ε of M's largest sum, `total`, remains when rows have left.

        `smallest`: the smallest ν + g of a row, if it is at hand.
        """
        smallest = self.rows.smallest_variance() if smallest is None else smallest
        scale = self.posterior.R.diagonal().square().mean() / smallest
        self.least[0] = 16 * EPSILON * self.total * scale
        self.is_rounding_noted = True

    def apply_steps(self) -> None:
        if self.influence_steps or self.mean_steps:
            self.rows.apply(self.influence_steps, self.mean_steps)
            self.influence_steps, self.mean_steps = [], []

    # -- labels come and go -------------------------------------------------------------------------------

    def set_classes(self, n_classes: int) -> None:
        """Set the constant weights of a mode, if it has any: they cannot be created while a CUDA graph is recorded."""
        self.influence_scale = n_classes if self.options.sees_predictions else 1  # the paper's u¹ sums over classes
        fixed = {"influence": (self.influence_scale, 0.0), "uncertainty": (0.0, 1.0), "variance": (1.0, 0.0)}
        weights = fixed.get(self.options.mode, (0.0, 0.0))
        self.fixed_weights = torch.tensor(weights, dtype=torch.float64).to(self.device)

    def set_tally(self, right: int, judged: int) -> None:
        self.tally.copy_(torch.tensor([judged - right + EMPTY_TALLY, right], dtype=torch.float64))

    def look(self, rows: Int[Tensor, "q"], taken: Taken | None = None) -> Closeup:
        """Close-up of some rows, which need not be asked for if they were `taken` since the last training."""
        taken = self.rows.take(rows) if taken is None else taken
        return self.posterior.look(taken.w, taken.probs, taken.stats)

    def fetch(self, rows: Sequence[int]) -> Iterator[Taken]:
        """Each of these rows in full. Those that are not at hand are asked for together."""
        for first in range(0, len(rows), ROWS_PER_FETCH):
            some = rows[first : first + ROWS_PER_FETCH]
            missing = [row for row in some if row not in self._at_hand]
            asked: Iterator[Taken] = iter(())
            if missing:
                taken = self.rows.take(self.index(missing))
                asked = (taken.at(place) for place in torch.split(torch.arange(len(missing), device=self.device), 1))
            at_hand = {row: self._at_hand[row] for row in some if row in self._at_hand}
            for row in some:
                yield at_hand[row] if row in at_hand else next(asked)

    def forget_taken(self) -> None:
        """Forget every row that is at hand, because the predictions have changed their form."""
        self._at_hand, self.chosen, self.last = {}, None, None

    def _no_longer_expect(self, row: int) -> None:
        self.expected.discard(row)
        self._at_hand.pop(row, None)

    def index(self, rows: Sequence[int]) -> Int[Tensor, "q"]:
        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def learn_each(
        self, rows: Sequence[int], labels: Sequence[int], judge: bool
    ) -> Iterator[tuple[int, int, Bool[Tensor, "1"]]]:
        """Learn the labels of several rows one after another; each row, its label, and what `learn` returns."""
        # A single row was usually picked before, so it is at hand already.
        fetched = self.fetch(rows) if len(rows) > 1 else iter((None,))
        for row, label, taken in zip(rows, labels, fetched, strict=False):
            yield row, label, self.learn(self.index([row]), self.index([label]), judge, taken=taken)

    def learn(
        self,
        row: Int[Tensor, "1"],
        label: Int[Tensor, "1"],
        judge: bool,
        seen: Closeup | None = None,
        taken: Taken | None = None,
    ) -> Bool[Tensor, "1"]:
        """Learn a label. True if the learner had predicted it, which is counted in the accuracy if `judge`."""
        seen = self._closeup_of_chosen(row) if seen is None else seen
        if seen is None:
            taken = next(self.fetch([int(row)])) if taken is None else taken
            seen = self.look(row, taken)
            # Drift can be measured where rows are up to date, except at a pending row: R already accounts for
            # it, so almost none of its influence is left, and the error of that says nothing about other rows.
            if not self.influence_steps and not (self.expected and int(row) in self.expected):
                self._record_drift(taken, seen)
        right = (seen.mean if self.options.judges_surrogate else seen.probs).argmax(1) == label
        if judge:
            self.tally.index_add_(0, right.long(), torch.ones_like(self.tally[:1]))
        target = torch.zeros_like(seen.mean[0]).scatter_(0, label, 1.0)
        if self.expected and int(row) in self.expected:
            self._no_longer_expect(int(row))
            self.mean_steps.append(self.posterior.shift(seen, target, sign=1))
            self._merge()
            return right
        influence, mean = self.posterior.turn_and_shift(seen, target, sign=1, on_pool=-1)
        self.influence_steps.append(influence)
        self.mean_steps.append(mean)
        self.rows.close(row)
        return right

    def expect(self, rows: Sequence[int]) -> None:
        """Let the influence account for these pending rows from now on."""
        if self.last is not None and len(self._at_hand) < ROWS_PER_FETCH:  # one of them was probably chosen last
            for place, row in enumerate(self.last.rows.tolist()):
                if row in rows:
                    self._at_hand[row] = self.last.taken.at(self.index([place]))
        for row, taken in zip(rows, self.fetch(rows), strict=True):
            index = self.index([row])
            self.posterior.split()
            self.influence_steps.append(self.posterior.turn(self.look(index, taken), sign=1, on_pool=-1))
            self.expected.add(row)
            self.rows.close(index)

    def unexpect(self, rows: Sequence[int], to_pool: bool = True) -> bool:
        """Return pending rows to the pool, or take them out of the pool. False: too ill-conditioned, rebuild."""
        for row, taken in zip(rows, self.fetch(rows), strict=True):
            index = self.index([row])
            seen = self.look(index, taken)
            if not self._can_downdate(seen, told=False):
                return False
            self.influence_steps.append(self.posterior.turn(seen, sign=-1, on_pool=1 if to_pool else 0))
            self._no_longer_expect(row)
            if to_pool:
                self.rows.open(index)
            self._merge()
        return True

    @contextmanager
    def as_if_open(self, row: int) -> Iterator[None]:
        """Treat a pending row as if it had not been asked for, within a `with` block."""
        posterior, expected, wear, at_hand = self.posterior, set(self.expected), self.wear, dict(self._at_hand)
        kept = [posterior.R.clone(), posterior.M.clone()]
        self.rows.keep_influence()
        R_told = None if posterior.R_told is None else posterior.R_told.clone()
        try:
            if self.unexpect([row]):
                self.settle(exact_means=True)
            yield
        finally:
            self.chosen = None
            posterior.R, posterior.M = kept
            self.rows.take_back_influence()
            posterior.R_told, self.expected, self.wear, self._at_hand = R_told, expected, wear, at_hand
            self.influence_steps = []
            self.rows.close(self.index([row]))

    def unlearn(self, rows: Sequence[int], labels: Sequence[int | None], to: Sequence[Destination]) -> bool:
        """Retract labels. None: f^ was fitted to the prediction there. False: too ill-conditioned, rebuild."""
        for row, label, destination, taken in zip(rows, labels, to, self.fetch(rows), strict=True):
            if not self._unlearn(self.index([row]), label, destination, taken):
                return False
        return True

    def _unlearn(self, row: Int[Tensor, "1"], label: int | None, to: Destination, taken: Taken) -> bool:
        seen = self.look(row, taken)
        target = seen.probs[0]
        if label is not None:
            target = torch.zeros_like(target).index_fill_(0, self.index([label]), 1.0)
        if to == "pending":
            self.posterior.split()
            if not self._can_downdate(seen, told=True):
                return False
            self.mean_steps.append(self.posterior.shift(seen, target, sign=-1))
            self.expected.add(int(row))
            return True
        if not (self._can_downdate(seen, told=True) and self._can_downdate(seen, told=False)):
            return False
        on_pool = 1 if to == "pool" else 0
        influence, mean = self.posterior.turn_and_shift(seen, target, sign=-1, on_pool=on_pool)
        self.influence_steps.append(influence)
        self.mean_steps.append(mean)
        if to == "pool":
            self.rows.open(row)
        return True

    def take_in_rows(self, first: int) -> None:
        """Add the rows from `first` on to the pool and update every row's influence."""
        rows, posterior = self.rows, self.posterior
        rows.reset_means(posterior.B)
        if 2 * (len(rows) - first) > rows.n_basis:
            posterior.M = rows.gram()
            posterior.version += 1
            self.refresh()
            return
        rows.refresh(posterior.R, posterior.M, first)
        for taken in self.fetch(list(range(first, len(rows)))):
            self._count_in(taken, sign=1)

    def move_middle(self) -> bool:
        """Update the prior for a changed mean row of the pool. False: too ill-conditioned, rebuild.

        The new mean row is added before the old one is removed, which keeps the posterior well-conditioned in between.
        """
        bias = self.options.bias
        if bias is None:
            return True
        before, self.middle = self.middle, self._mean_row()
        nothing = torch.zeros_like(self.posterior.B[0])
        stats = torch.tensor([[bias, 0.0, 1.0, 0.0]], dtype=torch.float64, device=self.device)
        for middle, sign in ((self.middle, 1), (before, -1)):
            seen = self.posterior.look(middle[None], nothing[None], stats)
            if sign < 0 and not (self._can_downdate(seen, told=True) and self._can_downdate(seen, told=False)):
                return False
            influence, mean = self.posterior.turn_and_shift(seen, nothing, sign, on_pool=0)
            self.influence_steps.append(influence)
            self.mean_steps.append(mean)
        return True

    def drop(self, rows: Sequence[int]) -> None:
        """Remove rows, none of them labelled or pending, from the pool."""
        for row, taken in zip(rows, self.fetch(rows), strict=True):
            if bool(taken.is_open):
                self._count_in(taken, sign=-1)
            self.rows.drop(self.index([row]))

    def undrop(self, rows: Sequence[int]) -> None:
        """Add dropped rows to the pool again."""
        for row, taken in zip(rows, self.fetch(rows), strict=True):
            self.rows.undrop(self.index([row]))
            self._count_in(taken, sign=1)

    def _count_in(self, taken: Taken, sign: int) -> None:
        """Let every influence count an unlabelled row (sign 1), or no longer (-1)."""
        seen = self.posterior.look(taken.w, taken.probs, taken.stats)
        self.influence_steps.append(self.posterior.join_pool(seen, sign))

    def _record_drift(self, taken: Taken, seen: Closeup, of: Bool[Tensor, "q"] | None = None) -> None:
        """Note how far the incrementally updated influence of some rows has drifted from its exact value.

        With `of`, only those rows count.
        """
        if not self.is_rounding_noted:
            self._note_rounding()
        assert taken.carried is not None
        exact = (seen.h / (seen.nu + seen.g))[:, 0]
        off = (taken.carried - exact).abs_() / exact.clamp_min(EMPTY_TALLY)
        # In a nearly exhausted pool all influence is rounding error, and a refresh would not help.
        counts = exact > self.least[0] if of is None else (exact > self.least[0]) & of
        torch.maximum(self.drift, torch.where(counts, off, 0.0).max(), out=self.drift)

    def _merge(self) -> None:
        if not self.expected:
            self.posterior.merge()

    def _can_downdate(self, seen: Closeup, told: bool) -> bool:
        left = self.posterior.left_after(seen, told)
        if left < TAKE_OUT_LIMIT:
            return False
        self.wear += EPSILON / left**2  # the precision lost by the step itself, times that of R which it multiplies
        return self.wear < WEAR_LIMIT

    # -- choosing -----------------------------------------------------------------------------------------

    def weights(self) -> Float[Tensor, "2"] | None:
        """The weights of the two measures in their sum; None where the utility is their product."""
        mode = self.options.mode
        if mode == "product":
            return None
        if mode in ("influence", "uncertainty", "variance"):
            return self.fixed_weights
        if not self.is_rounding_noted:
            self._note_rounding()
        inverse = self.rows.moments().inverse_std(self.resolution, self.least)
        return inverse / 2 if mode == "uniform" else inverse * (self.tally / self.tally.sum())

    def survey(
        self, also: Int[Tensor, "1"] | None = None, among: Bool[Tensor, "n"] | None = None
    ) -> Float[Tensor, "2"] | None:
        """Compute both measures of every row and return their weights."""
        if self.options.mode == "lookahead":
            return self.lookahead(also, among)
        self.rows.measure()
        return self.weights()

    def utility(self, also: Int[Tensor, "1"] | None = None) -> tuple[Float[Tensor, "n"], Float[Tensor, "2 n"]]:
        """u of every row, and its two terms (of a sum) or factors (of a product)."""
        weights = self.survey(also)
        terms = self.rows.terms()
        if weights is None:
            return terms.prod(0), terms
        terms = terms * weights[:, None]
        return terms.sum(0).nan_to_num(nan=-torch.inf), terms

    def pick(self, among: Bool[Tensor, "n"] | None = None) -> Int[Tensor, "1"]:
        """Bring the rows up to date and choose the best to ask for; one question to the rows where that is possible."""
        self.settle(note_rounding=False)
        is_product = self.options.mode == "product"
        row, _ = self.choose(among, (*CARRIED, *SMALLEST, *USUAL) if is_product else (*CARRIED, *SMALLEST))
        if self.last is not None and self.last.usual is not None and self.last.measures is not None:
            place = self.last.rows.tolist().index(int(row))
            self.usual = self.last.usual.without(int(row), self.last.measures[:, place], len(self.rows))
        return row

    def choose(
        self, among: Bool[Tensor, "n"] | None = None, extras: Collection[Extra] = CARRIED
    ) -> tuple[Int[Tensor, "1"], Closeup | None]:
        """The best row to ask for, with `among` of these rows only, and its close-up.

        The leaders are computed exactly, so that accumulated rounding never decides. If what they carry is among the
        `extras`, the drift of the incrementally updated influence is recorded.
        """
        leaders, u, terms, seen = self._candidates(among, extras)
        rows = leaders.rows
        # u³ is not recomputed, so it has the precision of the rows.
        which = utilities.choose(rows, u) if seen is not None else utilities.choose(rows, u, tie=self.resolution)
        self.best, self.terms, self.last = u[which], terms[:, which], leaders
        self.usual = None
        if seen is None:
            return rows[which], None
        self.chosen = rows[which], seen.one(which), self.posterior, self.posterior.version
        return self.chosen[:2]

    def leaders(self, among: Bool[Tensor, "n"] | None = None) -> tuple[Int[Tensor, "m"], Float[Tensor, "m"]]:
        """The best askable rows and their utilities, computed exactly, best first. No row is handed out."""
        self.settle(note_rounding=False)
        leaders, values, _, _ = self._candidates(among, extras=SMALLEST)
        order = values.argsort(descending=True, stable=True)
        return leaders.rows[order], values[order]

    def _candidates(
        self, among: Bool[Tensor, "n"] | None, extras: Collection[Extra]
    ) -> tuple[Leaders, Float[Tensor, "m"], Float[Tensor, "2 m"], Closeup | None]:
        """The leading rows, their utilities, the terms of these, and the close-up they were computed from."""
        weights = self.survey(among=among)
        if self.is_rounding_noted:
            extras = [extra for extra in extras if extra != "smallest"]
        leaders = self.rows.best(weights, EXACT_CANDIDATES, self.resolution, among, extras)
        if leaders.smallest is not None:
            self._note_rounding(leaders.smallest)
        if self.options.mode == "lookahead":
            assert weights is not None
            assert leaders.measures is not None
            return leaders, leaders.values, leaders.measures * weights[:, None], None
        carried, seen = leaders.values, self.look(leaders.rows, leaders.taken)
        if "carried" in extras:
            # Where few rows are left, the rest of the leaders may be pending: what drifted there matters to nobody.
            self._record_drift(leaders.taken, seen, of=None if among is None else carried > -torch.inf)
        measured = self._measure(seen, leaders.taken)
        if weights is None:
            u, terms = measured[0] * measured[1], measured
        else:
            u, terms = weights @ measured, measured * weights[:, None]
        return leaders, u.masked_fill_(carried == -torch.inf, -torch.inf), terms, seen

    def _closeup_of_chosen(self, row: Int[Tensor, "1"]) -> Closeup | None:
        """The close-up of a row from when it was chosen, if no label was learnt since."""
        if self.chosen is None:
            return None
        chosen, seen, posterior, version = self.chosen
        fresh = posterior is self.posterior and version == posterior.version
        return seen if fresh and int(chosen) == int(row) else None

    def _measure(self, seen: Closeup, taken: Taken) -> Float[Tensor, "2 q"]:
        """Both measures of a few rows, computed exactly from the posterior."""
        mode = self.options.mode
        g, h = seen.g[:, 0], seen.h[:, 0]
        if mode == "variance":
            first = seen.lam[:, 0] + g + self.options.noise
        else:
            # The rows say which of them are open only if that matters.
            fall = h if taken.is_open is None else h - g * g * taken.is_open * seen.omega[:, 0]
            first = fall / (seen.nu[:, 0] + g)
        if mode in ("influence", "variance"):
            return torch.stack([first, torch.zeros_like(first)])
        doubt = doubt_of(self.options, self.has_learner, seen.mean, seen.probs, seen.scale[:, 0])
        return torch.stack([first, doubt])

    def lookahead(
        self, also: Int[Tensor, "1"] | None = None, among: Bool[Tensor, "n"] | None = None
    ) -> Float[Tensor, "2"]:
        """As `survey`, with u³ in place of u²; NaN for rows that are not candidates.

        u³ of a row is the expected decrease of the pool's summed calibrated entropy once its label is known.
        With `lookahead_candidates` at most that many askable rows are tried, of those in `among` (and `also`): half of
        them those with the largest u¹, half those with the largest √h/(ν+g), since by Cauchy-Schwarz u³ is at most
        a constant times that, whatever the answer. The deviation of u³ is then taken over them.
        """
        rows, limit = self.rows, self.options.lookahead_candidates
        rows.catch_up(exact=True)
        rows.measure()
        of_influence = rows.moments()
        n = len(rows)
        if limit is None:
            candidates = torch.arange(n, device=self.device)
        else:
            reach = rows.reaching(among, (limit + 1) // 2, limit // 2)
            picked = [reach.by_influence, reach.by_reach]
            candidates = torch.unique(torch.cat(picked + ([also] if also is not None else [])))
        now = rows.open_doubt()
        rows.look_ahead(candidates[:0], now.new_empty(0))
        for some in torch.split(candidates, max(1, LOOKAHEAD_ENTRIES_PER_BLOCK // n)):
            seen = self.look(some)
            after = rows.expected_entropy(seen.Rw, seen.nu + seen.g, seen.mean, seen.probs)
            rows.look_ahead(some, now - after)
        of_lookahead = rows.tried_moments()
        both = Moments(
            of_influence.count,
            torch.stack([of_influence.mean[0], of_lookahead.mean[1]]),
            torch.stack([of_influence.squares[0], of_lookahead.squares[1] * of_influence.count / of_lookahead.count]),
        )
        return both.inverse_std(self.resolution, self.least) * (self.tally / self.tally.sum())

    # -- many picks whose labels are known ----------------------------------------------------------------

    def step(
        self, labels: Int[Tensor, "n"] | None, judge: bool, watch: bool = True
    ) -> tuple[Int[Tensor, "1"], Bool[Tensor, "1"]]:
        """Choose a row, learn its label and update all rows without reading any value on the host.

        Without labels the row becomes pending: the influence accounts for it, and the means do not change.
        """
        row, seen = self.choose(extras=(*CARRIED, *SMALLEST) if watch else SMALLEST)
        if labels is None:
            self.influence_steps.append(self.posterior.turn(seen or self.look(row), sign=1, on_pool=-1))
            self.rows.close(row)
            right = torch.zeros_like(row, dtype=torch.bool)
        else:
            right = self.learn(row, labels[row], judge, seen)
        self.apply_steps()
        return row, right

    def rehearse(self, labels: Int[Tensor, "n"] | None, count: int, judge: bool) -> Wave:
        """The next `count` picks, when every label is known.

        Without labels the picks are in R as if told, so rebuild afterwards. On a GPU `WAVES` picks at a time
        are recorded once as a CUDA graph and replayed, without synchronising with the host in between.
        """
        self.settle()
        waves: list[Wave] = []
        recorded = (
            self.rows.is_recordable and count >= 2 * WAVES and not self.expected and self.options.mode != "lookahead"
        )
        if recorded:
            graph, kept = self._record(labels, judge)
            while count >= WAVES:
                graph.replay()
                waves.append((kept[0].clone(), kept[1].clone(), kept[2].clone()))
                count -= WAVES
                self.settle()
        for _ in range(count):
            waves.append((*self.step(labels, judge), self.best.reshape(1)))
            self.settle(note_rounding=False)
        if not self.is_rounding_noted:
            self._note_rounding()
        rows, rights, values = (torch.cat(parts) for parts in zip(*waves, strict=True))
        return rows, rights, values

    def _record(self, labels: Int[Tensor, "n"] | None, judge: bool) -> tuple[torch.cuda.CUDAGraph, Wave]:
        """A CUDA graph of `WAVES` picks, and its outputs. The warm-up run that recording needs is rolled back."""
        state = {name: tensor.clone() for name, tensor in self._state().items()}
        turn, device = self.rows.turn(), self.device
        types = torch.int64, torch.bool, self.best.dtype
        kept = tuple(torch.empty(WAVES, dtype=dtype, device=device) for dtype in types)

        def picks() -> None:
            for i in range(WAVES):
                row, right = self.step(labels, judge, watch=i == WAVES - 1)
                for buffer, value in zip(kept, (row, right, self.best), strict=True):
                    buffer[i : i + 1] = value

        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step(labels, judge)
        torch.cuda.current_stream().wait_stream(side)
        self.rows.set_turn(turn)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            picks()
        self.last = None  # it would be that of a replay
        for name, tensor in self._state().items():
            tensor.copy_(state[name])
        return graph, (kept[0], kept[1], kept[2])

    def _state(self) -> dict[str, Tensor]:
        """Everything that a pick changes."""
        return {
            "R": self.posterior.R, "M": self.posterior.M, "B": self.posterior.B,
            "tally": self.tally, "drift": self.drift, **self.rows.changing_tensors(),
        }  # fmt: skip
