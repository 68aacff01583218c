"""Posterior and rows together: learns labels, retracts them and picks rows, touching the rows only when it must.

The small posterior is updated at once. The resulting changes of the rows are queued as steps and applied at the next
pick or read, so that handing out a row and learning its label cost one pass together. Everything between two picks
consists of tensor operations whose values are never read on the host, so that a GPU can run many picks in one go
(`rehearse`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core import utilities
from understudy.core.means import WAVES
from understudy.core.options import Options
from understudy.core.posterior import (
    TAKE_OUT_LIMIT,
    Closeup,
    InfluenceStep,
    MeanStep,
    Posterior,
    weights_given,
)
from understudy.core.rows import Rows
from understudy.core.utilities import Moments

EXACT_CANDIDATES = 8  # top rows by incrementally updated utility that are recomputed exactly before one is chosen
DRIFT_LIMIT = 1e-4  # of the influence, relative
DRIFT_SAFETY = 5.0  # no row's drift exceeds about this many times that of the leaders
WEAR_LIMIT = 1e-10  # relative error that downdates may add to R before it is rebuilt
RESOLUTION = {torch.float32: 1e-5, torch.float64: 1e-10}  # a smaller relative deviation is rounding, not information
LOOKAHEAD_ENTRIES_PER_BLOCK = 2**22
EPSILON = torch.finfo(torch.float64).eps
EMPTY_TALLY = 1e-300  # initial count: an accuracy of zero without a division by zero


Destination = Literal["pending", "pool", "gone"]  # what becomes of a row whose label is retracted
Wave: TypeAlias = tuple[Int[Tensor, "t"], Bool[Tensor, "t"], Float[Tensor, "t"]]  # rows, prediction right, utilities


class Engine:
    """The surrogate of one pool between two trainings. A row is passed as an int64 tensor of one element."""

    def __init__(self, rows: Rows, options: Options) -> None:
        self.rows, self.options = rows, options
        self.influence_steps: list[InfluenceStep] = []
        self.mean_steps: list[MeanStep] = []
        self.expected: set[int] = set()  # pending rows that R accounts for
        self.wear = 0.0
        self.resolution = RESOLUTION[rows.W.dtype]
        numbers = torch.zeros((2, 2), dtype=torch.float64, device=rows.W.device)
        self.tally, self.drift = numbers[0], numbers[1, 0]  # counts of wrong and right predictions; relative error
        self.set_tally(0, 0)
        self.set_classes(rows.means.probs.shape[1])
        self.least = torch.zeros(2, dtype=torch.float64, device=rows.W.device)  # smaller deviations are rounding
        self.total = 0.0
        self.chosen: tuple[Tensor, Closeup, Posterior, int] | None = None
        self.best = numbers[1, 1:]  # the utility of the row chosen last
        self.terms = torch.zeros((2, 1), dtype=torch.float64, device=rows.W.device)  # and its two terms, or
        # factors

    # -- from scratch -------------------------------------------------------------------------------------

    def rebuild(
        self,
        labelled: Int[Tensor, "t"],
        expected: Int[Tensor, "e"],
        answered: Int[Tensor, "a"],
        targets: Float[Tensor, "a c"],
    ) -> None:
        """Recompute the posterior and every row's state given these rows. `targets`: residuals of the answered rows."""
        rows = self.rows
        precision = rows.known_beforehand() + rows.precision(labelled)
        taught = torch.zeros((rows.W.shape[1], targets.shape[1]), dtype=torch.float64, device=rows.W.device)
        if len(answered):
            w, _, stats = rows.take(answered)
            taught.addmm_(w.T, targets / stats[:, :1])
        R, B = weights_given(precision, taught)
        R_told = None
        if len(expected):
            R_told = R
            R, _ = weights_given(precision + rows.precision(expected), taught)
        self.posterior = Posterior(R, rows.gram(), B, R_told)
        self.expected = set(expected.tolist())
        self.wear = 0.0
        self.refresh()
        self.total = float(self.posterior.M.trace())
        self.least[1] = 16 * EPSILON * rows.means.uncertainty().abs().max()
        self._note_rounding()

    def refresh(self) -> None:
        """Recompute every row's state from the posterior; nothing is queued or deferred afterwards."""
        self.influence_steps, self.mean_steps = [], []
        self.drift.zero_()
        self.rows.refresh(self.posterior.R, self.posterior.M)
        self.rows.means.reset(self.rows.W, self.posterior.B)

    def settle(self, exact_means: bool = False) -> None:
        """Bring the rows up to date with the posterior."""
        steps = 2 * len(self.influence_steps) + len(self.mean_steps)
        if steps > self.rows.W.shape[1] or DRIFT_SAFETY * float(self.drift) > DRIFT_LIMIT:
            self.refresh()
        else:
            self.apply_steps()
            means = self.rows.means
            if exact_means or means.behind_by() > means.tolerance:
                means.catch_up()
        self._note_rounding()

    def _note_rounding(self) -> None:
        """Bound the rounding error of influence: an ε of M's largest sum, `total`, remains when rows have left."""
        scale = self.posterior.R.diagonal().square().mean() / self.rows.var.min()
        self.least[0] = 16 * EPSILON * self.total * scale

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
        self.fixed_weights = torch.tensor(weights, dtype=torch.float64).to(self.rows.W.device)

    def set_tally(self, right: int, judged: int) -> None:
        self.tally.copy_(torch.tensor([judged - right + EMPTY_TALLY, right], dtype=torch.float64))

    def look(self, rows: Int[Tensor, "q"]) -> Closeup:
        return self.posterior.look(*self.rows.take(rows))

    def learn(
        self, row: Int[Tensor, "1"], label: Int[Tensor, "1"], judge: bool, seen: Closeup | None = None
    ) -> Bool[Tensor, "1"]:
        """Learn a label. True if the learner had predicted it, which is counted in the accuracy if `judge`."""
        if seen is None:
            seen = self._closeup_of_chosen(row) or self.look(row)
            # Drift can be measured where rows are up to date, except at a pending row: R already accounts for
            # it, so almost none of its influence is left, and the error of that says nothing about other rows.
            if not self.influence_steps and not (self.expected and int(row) in self.expected):
                self._record_drift(row, seen)
        right = (seen.mean if self.options.judges_surrogate else seen.probs).argmax(1) == label
        if judge:
            self.tally.index_add_(0, right.long(), torch.ones_like(self.tally[:1]))
        target = torch.zeros_like(seen.mean[0]).scatter_(0, label, 1.0)
        if self.expected and int(row) in self.expected:
            self.expected.discard(int(row))
            self.mean_steps.append(self.posterior.shift(seen, target, sign=1))
            self._merge()
            return right
        influence, mean = self.posterior.turn_and_shift(seen, target, sign=1, on_pool=-1)
        self.influence_steps.append(influence)
        self.mean_steps.append(mean)
        self.rows.close(row)
        return right

    def expect(self, row: Int[Tensor, "1"]) -> None:
        """Let the influence account for a pending row from now on."""
        self.posterior.split()
        self.influence_steps.append(self.posterior.turn(self.look(row), sign=1, on_pool=-1))
        self.expected.add(int(row))
        self.rows.close(row)

    def unexpect(self, row: Int[Tensor, "1"], to_pool: bool = True) -> bool:
        """Return a pending row to the pool, or take it out of the pool. False: too ill-conditioned, rebuild."""
        seen = self.look(row)
        if not self._can_downdate(seen, told=False):
            return False
        self.influence_steps.append(self.posterior.turn(seen, sign=-1, on_pool=1 if to_pool else 0))
        self.expected.discard(int(row))
        self.rows.is_open[row] = to_pool
        self._merge()
        return True

    @contextmanager
    def as_if_open(self, row: Int[Tensor, "1"]) -> Iterator[None]:
        """Treat a pending row as if it had not been asked for, within a `with` block."""
        rows, posterior, expected, wear = self.rows, self.posterior, set(self.expected), self.wear
        kept = [posterior.R.clone(), posterior.M.clone(), rows.var.clone(), rows.h.clone()]
        R_told = None if posterior.R_told is None else posterior.R_told.clone()
        try:
            if self.unexpect(row):
                self.settle(exact_means=True)
            yield
        finally:
            self.chosen = None
            posterior.R, posterior.M, rows.var, rows.h = kept
            posterior.R_told, self.expected, self.wear = R_told, expected, wear
            self.influence_steps = []
            rows.close(row)

    def unlearn(self, row: Int[Tensor, "1"], target: Float[Tensor, "c"], to: Destination) -> bool:
        """Retract a label. `target`: the value that f^ was fitted to there. False: too ill-conditioned, rebuild."""
        seen = self.look(row)
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
        self.rows.is_open[row] = to == "pool"
        return True

    def take_in_rows(self, first: int) -> None:
        """Add the rows from `first` on to the pool and update every row's influence."""
        rows, posterior = self.rows, self.posterior
        rows.means.reset(rows.W, posterior.B)
        if 2 * (len(rows) - first) > rows.W.shape[1]:
            posterior.M = rows.gram()
            posterior.version += 1
            self.refresh()
            return
        rows.refresh(posterior.R, posterior.M, first)
        for row in torch.split(torch.arange(first, len(rows), device=rows.W.device), 1):
            self.join_pool(row, sign=1)

    def move_middle(self) -> bool:
        """Update the prior for a changed mean row of the pool. False: too ill-conditioned, rebuild.

        The new mean row is added before the old one is removed, which keeps the posterior well-conditioned in between.
        """
        rows, bias = self.rows, self.options.bias
        if bias is None:
            return True
        before, rows.middle = rows.middle, rows.mean_row()
        nothing = torch.zeros_like(self.posterior.B[0])
        stats = torch.tensor([[bias, 0.0, 1.0, 0.0]], dtype=torch.float64, device=rows.W.device)
        for middle, sign in ((rows.middle, 1), (before, -1)):
            seen = self.posterior.look(middle[None], nothing[None], stats)
            if sign < 0 and not (self._can_downdate(seen, told=True) and self._can_downdate(seen, told=False)):
                return False
            influence, mean = self.posterior.turn_and_shift(seen, nothing, sign, on_pool=0)
            self.influence_steps.append(influence)
            self.mean_steps.append(mean)
        return True

    def join_pool(self, row: Int[Tensor, "1"], sign: int) -> None:
        """Add an unlabelled row to the pool (sign 1) or remove it (-1)."""
        self.influence_steps.append(self.posterior.join_pool(self.look(row), sign))
        self.rows.is_open[row] = sign > 0

    def _record_drift(self, rows: Int[Tensor, "q"], seen: Closeup, of: Bool[Tensor, "q"] | None = None) -> None:
        """Note how far the incrementally updated influence of some rows has drifted from its exact value.

        With `of`, only those rows count.
        """
        carried = self.rows.h[rows] / self.rows.var[rows]
        exact = (seen.h / (seen.nu + seen.g))[:, 0]
        off = (carried - exact).abs_() / exact.clamp_min(EMPTY_TALLY)
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
        terms = self.rows.measures[:, : len(self.rows)]
        if weights is None:
            return terms.prod(0), terms
        terms = terms * weights[:, None]
        return terms.sum(0).nan_to_num(nan=-torch.inf), terms

    def choose(
        self, watch: bool = True, among: Bool[Tensor, "n"] | None = None
    ) -> tuple[Int[Tensor, "1"], Closeup | None]:
        """The best row to ask for, with `among` of these rows only, and its close-up.

        The leaders are computed exactly, so that accumulated rounding never decides. With `watch` the drift of
        the incrementally updated influence is recorded.
        """
        rows, u, terms, seen = self._candidates(watch, among)
        # u³ is not recomputed, so it has the precision of the rows.
        which = utilities.choose(rows, u) if seen is not None else utilities.choose(rows, u, tie=self.resolution)
        self.best, self.terms = u[which], terms[:, which]
        if seen is None:
            return rows[which], None
        self.chosen = rows[which], seen.one(which), self.posterior, self.posterior.version
        return self.chosen[:2]

    def leaders(self, among: Bool[Tensor, "n"] | None = None) -> tuple[Int[Tensor, "m"], Float[Tensor, "m"]]:
        """The best askable rows and their utilities, computed exactly, best first. No row is handed out."""
        rows, values, _, _ = self._candidates(watch=False, among=among)
        order = values.argsort(descending=True, stable=True)
        return rows[order], values[order]

    def _candidates(
        self, watch: bool, among: Bool[Tensor, "n"] | None
    ) -> tuple[Int[Tensor, "m"], Float[Tensor, "m"], Float[Tensor, "2 m"], Closeup | None]:
        """The leading rows, their utilities, the terms of these, and the close-up they were computed from."""
        weights = self.survey(among=among)
        if self.options.mode == "lookahead":
            assert weights is not None
            u = (self.rows.measures * weights[:, None]).sum(0).nan_to_num(nan=-torch.inf)
            u.masked_fill_(self.rows.closed_outside(among), -torch.inf)
            rows, values = utilities.leaders(u, EXACT_CANDIDATES, self.resolution)
            return rows, values, self.rows.measures[:, rows] * weights[:, None], None
        rows, carried = self.rows.best(weights, EXACT_CANDIDATES, self.resolution, among)
        seen = self.look(rows)
        if watch:
            # Where few rows are left, the rest of the leaders may be pending: what drifted there matters to nobody.
            self._record_drift(rows, seen, of=None if among is None else carried > -torch.inf)
        measured = self._measure(seen, rows)
        if weights is None:
            u, terms = measured[0] * measured[1], measured
        else:
            u, terms = weights @ measured, measured * weights[:, None]
        return rows, u.masked_fill_(carried == -torch.inf, -torch.inf), terms, seen

    def _closeup_of_chosen(self, row: Int[Tensor, "1"]) -> Closeup | None:
        """The close-up of a row from when it was chosen, if no label was learnt since."""
        if self.chosen is None:
            return None
        chosen, seen, posterior, version = self.chosen
        fresh = posterior is self.posterior and version == posterior.version
        return seen if fresh and int(chosen) == int(row) else None

    def _measure(self, seen: Closeup, rows: Int[Tensor, "q"]) -> Float[Tensor, "2 q"]:
        """Both measures of a few rows, computed exactly from the posterior."""
        mode = self.options.mode
        g, h = seen.g[:, 0], seen.h[:, 0]
        if mode == "variance":
            first = seen.lam[:, 0] + g + self.rows.noise
        else:
            fall = h - g * g * self.rows.is_open[rows] * seen.omega[:, 0] if self.options.exclude_self else h
            first = fall / (seen.nu[:, 0] + g)
        if mode in ("influence", "variance"):
            return torch.stack([first, torch.zeros_like(first)])
        return torch.stack([first, self.rows.means.doubt_of(seen.mean, seen.probs, seen.scale[:, 0])])

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
        rows.means.catch_up()
        rows.measure()
        of_influence = rows.moments()
        n = len(rows)
        if limit is None:
            candidates = torch.arange(n, device=rows.W.device)
        else:
            closed = rows.closed_outside(among)[:n]
            reach = (rows.h.clamp_min(0.0).sqrt() / rows.var).masked_fill(closed, -torch.inf)
            by_influence = rows.measures[0, :n].masked_fill(closed, -torch.inf)
            left = int((~closed).sum())
            picked = [by_influence.topk(min((limit + 1) // 2, left)).indices, reach.topk(min(limit // 2, left)).indices]
            candidates = torch.unique(torch.cat(picked + ([also] if also is not None else [])))
        now = rows.means.uncertainty()[rows.is_open].sum()
        rows.measures[1] = torch.nan
        for some in torch.split(candidates, max(1, LOOKAHEAD_ENTRIES_PER_BLOCK // n)):
            seen = self.look(some)
            after = rows.expected_entropy(seen.Rw, seen.nu + seen.g, seen.mean, seen.probs)
            rows.measures[1, some] = now - after
        tried = candidates if limit is not None else candidates[rows.is_in_pool]
        of_lookahead = utilities.moments(rows.measures[:, tried])
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
        row, seen = self.choose(watch)
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
        recorded = self.rows.W.is_cuda and count >= 2 * WAVES and not self.expected and self.options.mode != "lookahead"
        if recorded:
            graph, kept = self._record(labels, judge)
            while count >= WAVES:
                graph.replay()
                waves.append((kept[0].clone(), kept[1].clone(), kept[2].clone()))
                count -= WAVES
                self.settle()
        for _ in range(count):
            waves.append((*self.step(labels, judge), self.best.reshape(1)))
            self.settle()
        rows, rights, values = (torch.cat(parts) for parts in zip(*waves, strict=True))
        return rows, rights, values

    def _record(self, labels: Int[Tensor, "n"] | None, judge: bool) -> tuple[torch.cuda.CUDAGraph, Wave]:
        """A CUDA graph of `WAVES` picks, and its outputs. The warm-up run that recording needs is rolled back."""
        state = {name: tensor.clone() for name, tensor in self._state().items()}
        turn, device = self.rows.means.turn, self.rows.W.device
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
        self.rows.means.turn = turn
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            picks()
        for name, tensor in self._state().items():
            tensor.copy_(state[name])
        return graph, (kept[0], kept[1], kept[2])

    def _state(self) -> dict[str, Tensor]:
        """Everything that a pick changes."""
        rows = self.rows
        return {
            "R": self.posterior.R, "M": self.posterior.M, "B": self.posterior.B,
            "tally": self.tally, "drift": self.drift,
            "var": rows.var, "h": rows.h, "is_open": rows.is_open, "is_closed": rows.is_closed,
            **rows.means.tensors(),
        }  # fmt: skip
