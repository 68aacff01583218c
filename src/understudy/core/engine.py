"""Posterior and rows together: learns, forgets and chooses, touching the rows only when it must.

The small posterior is brought up to date at once. What it means for the rows is queued as steps and applied
at the next choice or reading, so that handing a row out and hearing its answer cost one pass
together. Everything between a choice and the next is made of tensor operations without a look at their
values, so that a GPU can run many picks in one go (`rehearse`).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from understudy.core import links, utilities
from understudy.core.links import Link
from understudy.core.means import WAVES
from understudy.core.posterior import TAKE_OUT_LIMIT, InfluenceStep, MeanStep, Posterior, weights_given
from understudy.core.rows import RowData, Rows
from understudy.core.utilities import Mode, Weights

CANDIDATES = 8  # leaders of the carried-along utilities that are computed exactly before one is chosen
DRIFT_LIMIT = 1e-4  # of the influence, relative
DRIFT_SAFETY = 5.0  # any row's drift is at most about this many times that of the rows picked
WEAR_LIMIT = 1e-10  # relative error that taking rows out may add to R before it is built anew
LOOKAHEAD_ENTRIES = 2**22
EPSILON = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Settings:
    mode: Mode
    link: Link
    exclude_self: bool
    by_surrogate: bool  # whose prediction `accuracy` judges
    mean_tolerance: float
    lookahead_candidates: int | None


class Engine:
    """The surrogate of one pool between two trainings. Rows are named by int64 tensors of one element."""

    def __init__(self, rows: Rows, settings: Settings) -> None:
        self.rows, self.settings = rows, settings
        self.influence_steps: list[InfluenceStep] = []
        self.mean_steps: list[MeanStep] = []
        self.expected: set[int] = set()  # pending rows that R knows of
        self.wear = 0.0
        self.tally = torch.zeros(2, dtype=torch.float64, device=rows.W.device)  # predictions right, judged
        self.drift = torch.zeros((), dtype=torch.float64, device=rows.W.device)
        self.resolution = 16 * torch.finfo(rows.W.dtype).eps

    # -- from scratch -------------------------------------------------------------------------------------

    def rebuild(
        self,
        labelled: Int[Tensor, "t"],
        expected: Int[Tensor, "e"],
        answered: Int[Tensor, "a"],
        targets: Float[Tensor, "a c"],
        M: Float[Tensor, "k k"] | None = None,
    ) -> None:
        """The posterior given these rows, and every row's state from it. `targets`: residuals of the answered rows."""
        rows = self.rows
        precision = rows.precision(labelled)
        taught = torch.zeros((rows.W.shape[1], targets.shape[1]), dtype=torch.float64, device=rows.W.device)
        if len(answered):
            data = rows.take(answered)
            taught.addmm_(data.w.T, targets / data.nu[:, None])
        R, B = weights_given(precision, taught)
        R_told = None
        if len(expected):
            R_told = R
            R, _ = weights_given(precision + rows.precision(expected), taught)
        self.posterior = Posterior(R, rows.gram() if M is None else M, B, R_told)
        self.expected = set(expected.tolist())
        self.wear = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Every row's state from the posterior, nothing queued, nothing behind."""
        self.influence_steps, self.mean_steps = [], []
        self.drift.zero_()
        self.rows.refresh(self.posterior.R, self.posterior.M, self.posterior.B)

    def settle(self, exact_means: bool = False) -> None:
        """Bring the rows up to date with the posterior."""
        steps = 2 * len(self.influence_steps) + len(self.mean_steps)
        if steps > self.rows.W.shape[1] or DRIFT_SAFETY * float(self.drift) > DRIFT_LIMIT:
            self.refresh()
            return
        self.apply_steps()
        means = self.rows.means
        if exact_means or means.behind_by() > means.tolerance:
            means.catch_up()

    def apply_steps(self) -> None:
        if self.influence_steps or self.mean_steps:
            self.rows.apply(self.influence_steps, self.mean_steps)
            self.influence_steps, self.mean_steps = [], []

    # -- labels come and go -------------------------------------------------------------------------------

    def learn(self, row: Int[Tensor, "1"], label: Int[Tensor, "1"], judge: bool) -> Bool[Tensor, ""]:
        """An answer. True where the prediction before it was right, which counts if `judge`."""
        data = self.rows.take(row)
        mean = data.probs[0] + data.w[0] @ self.posterior.B
        e = torch.zeros_like(mean).scatter_(0, label, 1.0) - mean
        right = (mean if self.settings.by_surrogate else data.probs[0]).argmax() == label[0]
        if judge:
            self.tally += torch.stack([right.double(), torch.ones_like(self.tally[1])])
        if self.expected and int(row) in self.expected:
            self.expected.discard(int(row))
            self.mean_steps.append(self.posterior.shift(data.w[0], data.nu[0], e, sign=1))
            self._merge()
            return right
        current = not self.influence_steps
        influence, mean_step = self.posterior.turn_and_shift(data.w[0], data.nu[0], e, sign=1, on_pool=-1)
        if current:
            self._watch(row, influence, data)
        self.influence_steps.append(influence)
        self.mean_steps.append(mean_step)
        self._close(row)
        return right

    def expect(self, row: Int[Tensor, "1"]) -> None:
        """A pending row explains the pool from now on."""
        data = self.rows.take(row)
        self.posterior.split()
        current = not self.influence_steps
        step, _ = self.posterior.turn(data.w[0], data.nu[0], sign=1, on_pool=-1)
        if current:
            self._watch(row, step, data)
        self.influence_steps.append(step)
        self.expected.add(int(row))
        self._close(row)

    def unexpect(self, row: Int[Tensor, "1"], to_pool: bool = True) -> bool:
        """A row that R expected goes back to the pool, or out of it. False: too ill-conditioned, rebuild."""
        data = self.rows.take(row)
        if not self._can_take_out(data, told=False):
            return False
        step, _ = self.posterior.turn(data.w[0], data.nu[0], sign=-1, on_pool=1 if to_pool else 0)
        self.influence_steps.append(step)
        self.expected.discard(int(row))
        self.rows.is_open[row] = to_pool
        self._merge()
        return True

    def unlearn(self, row: Int[Tensor, "1"], target: Float[Tensor, "c"], to: str) -> bool:
        """An answer that never was: the row is expected again, back in the pool, or out of it. False: rebuild."""
        data = self.rows.take(row)
        e = target - data.w[0] @ self.posterior.B
        if to == "pending":
            self.posterior.split()
            if not self._can_take_out(data, told=True):
                return False
            self.mean_steps.append(self.posterior.shift(data.w[0], data.nu[0], e, sign=-1))
            self.expected.add(int(row))
            return True
        if not (self._can_take_out(data, told=True) and self._can_take_out(data, told=False)):
            return False
        step, mean_step = self.posterior.turn_and_shift(
            data.w[0], data.nu[0], e, sign=-1, on_pool=1 if to == "pool" else 0
        )
        self.influence_steps.append(step)
        self.mean_steps.append(mean_step)
        self.rows.is_open[row] = to == "pool"
        return True

    def extended(self, first: int) -> None:
        """Rows from `first` on are new: they enter the pool, and every row takes note."""
        rows, posterior = self.rows, self.posterior
        new = torch.arange(first, len(rows), device=rows.W.device)
        rows.means.reset(rows.W, posterior.B)
        if 2 * len(new) > rows.W.shape[1]:
            posterior.M = rows.gram()
            self.refresh()
            return
        rows.g[first:], rows.h[first:] = posterior.spread(rows.W[first:].double())
        for row in torch.split(new, 1):
            self.join_pool(row, sign=1)

    def join_pool(self, row: Int[Tensor, "1"], sign: int) -> None:
        """An unlabelled row enters or leaves the pool."""
        self.influence_steps.append(self.posterior.join_pool(self.rows.take(row).w[0], sign))
        self.rows.is_open[row] = sign > 0

    def _close(self, row: Int[Tensor, "1"]) -> None:
        self.rows.is_open.index_fill_(0, row, False)
        self.rows.is_askable.index_fill_(0, row, False)

    def _merge(self) -> None:
        if not self.expected:
            self.posterior.merge()

    def _can_take_out(self, data: RowData, told: bool) -> bool:
        left = self.posterior.left_after(data.w[0], data.nu[0], told)
        if left < TAKE_OUT_LIMIT:
            return False
        self.wear += EPSILON / left
        return self.wear < WEAR_LIMIT

    def _watch(self, row: Int[Tensor, "1"], step: InfluenceStep, data: RowData) -> None:
        """How far the row's own influence has drifted from the exact one that learning it computes anyway."""
        carried = self.rows.h[row] / (data.nu + self.rows.g[row])
        exact = step.h / (data.nu + step.g)
        off = (carried - exact).abs() / exact.clamp_min(1e-300)
        self.drift.copy_(torch.maximum(self.drift, off[0]))

    # -- choosing -----------------------------------------------------------------------------------------

    def accuracy(self) -> Float[Tensor, ""]:
        return self.tally[0] / self.tally[1].clamp_min(1.0)

    def weights(self) -> Weights:
        """What influence and uncertainty are multiplied by at present (with look-ahead, u³ has the place of u²)."""
        one = torch.ones((), dtype=torch.float64, device=self.tally.device)
        if self.settings.mode == "influence":
            return Weights(influence=one)
        if self.settings.mode == "uncertainty":
            return Weights(uncertainty=one)
        if self.settings.mode == "variance":
            return Weights(variance=one)
        share = one / 2 if self.settings.mode == "uniform" else self.accuracy()
        u1, u2 = self.rows.survey(self.settings.exclude_self)
        return Weights(
            influence=(1 - share) * u1.inverse_std(EPSILON * 16),
            uncertainty=share * u2.inverse_std(self.resolution),
        )

    def utility(self) -> tuple[Float[Tensor, "n"], Weights]:
        """u of every row, and what its terms were multiplied by."""
        if self.settings.mode == "lookahead":
            return self.lookahead()
        weights = self.weights()
        return self.rows.utility(weights, self.settings.exclude_self), weights

    def choose(self) -> Int[Tensor, "1"]:
        """The best row to ask for. The leaders are computed exactly, so rounding in the others decides nothing."""
        if self.settings.mode == "lookahead":
            u, _ = self.lookahead()
            leaders = utilities.leaders(u.masked_fill(~self.rows.is_askable, -torch.inf), 1)
            return utilities.choose(leaders, u[leaders])
        weights = self.weights()
        leaders = self.rows.best(weights, CANDIDATES, self.settings.exclude_self)
        return utilities.choose(leaders, self.exact_utility(leaders, weights))

    def exact_utility(self, rows: Int[Tensor, "q"], weights: Weights) -> Float[Tensor, "q"]:
        """The utility of some rows from the posterior alone; rows that may not be asked for get -inf."""
        data = self.rows.take(rows)
        g, h = self.posterior.spread(data.w)
        u1 = u2 = variance = None
        if weights.influence is not None:
            is_open = data.is_open if self.settings.exclude_self else None
            u1 = utilities.influence(g, h, data.nu, is_open, data.probs.shape[1])
        if weights.uncertainty is not None:
            z = links.base(self.settings.link, data.probs) + data.w @ self.posterior.B
            q, q_log = links.weights(self.settings.link, z)
            u2 = data.scale * links.entropy(q.sum(1), q_log.sum(1))
        if weights.variance is not None:
            variance = data.lam + g + self.rows.noise
        return weights.combine(u1, u2, variance).masked_fill_(~data.is_askable, -torch.inf)

    def lookahead(self) -> tuple[Float[Tensor, "n"], Weights]:
        """Utility with u³ in place of u²; -inf for rows that the restriction leaves out.

        u³ of a row is the fall of the pool's summed calibrated entropy that its answer is expected to bring.
        With `lookahead_candidates` only that many askable rows are tried, those with the largest √h/(ν+g):
        by Cauchy-Schwarz u³ is at most a constant times that, whatever the answer. The deviation of u³ is
        then taken over them.
        """
        rows, limit = self.rows, self.settings.lookahead_candidates
        rows.means.catch_up()
        if limit is None:
            candidates = torch.arange(len(rows), device=rows.W.device)
        else:
            reach = (rows.h.clamp_min(0.0).sqrt() / (rows.nu + rows.g)).masked_fill(~rows.is_askable, -torch.inf)
            candidates = reach.topk(min(limit, int(rows.is_askable.sum()))).indices.sort().values
        now = rows.uncertainty()[rows.is_open].sum()
        u3 = torch.full((len(rows),), torch.nan, dtype=torch.float64, device=rows.W.device)
        for some in torch.split(candidates, max(1, LOOKAHEAD_ENTRIES // len(rows))):
            data = rows.take(some)
            p = data.w @ self.posterior.R
            mean = data.probs + data.w @ self.posterior.B
            d = data.nu + (p * data.w).sum(1)
            u3[some] = now - rows.expected_entropy(p, d, mean, data.probs)
        share = self.accuracy()
        u1 = rows.influence(self.settings.exclude_self)
        tried = rows.moments(u3) if limit is None else utilities.moments(u3[candidates])
        weights = Weights(
            influence=(1 - share) * rows.moments(u1).inverse_std(EPSILON * 16),
            uncertainty=share * tried.inverse_std(self.resolution),
        )
        return weights.combine(u1, u3, None).nan_to_num(nan=-torch.inf), weights

    # -- many picks whose answers are known ---------------------------------------------------------------

    def step(self, labels: Int[Tensor, "n"], judge: bool) -> tuple[Int[Tensor, "1"], Bool[Tensor, ""]]:
        """Choose, learn and bring the rows up to date, without a look at any value."""
        row = self.choose()
        right = self.learn(row, labels[row], judge)
        self.apply_steps()
        return row, right

    def rehearse(self, labels: Int[Tensor, "n"], count: int, judge: bool) -> tuple[Int[Tensor, "t"], Bool[Tensor, "t"]]:
        """The next `count` picks when every label is known, and where the prediction was right.

        On a GPU `WAVES` picks at a time are recorded once and replayed, without a word to the host
        between them.
        """
        self.settle()
        picks: list[Tensor] = []
        rights: list[Tensor] = []
        recorded = (
            self.rows.W.is_cuda and count >= 2 * WAVES and not self.expected and self.settings.mode != "lookahead"
        )
        if recorded:
            graph, row_buffer, right_buffer = self._record(labels, judge)
            while count >= WAVES:
                graph.replay()
                picks.append(row_buffer.clone())
                rights.append(right_buffer.clone())
                count -= WAVES
                self.settle()
        for _ in range(count):
            row, right = self.step(labels, judge)
            picks.append(row)
            rights.append(right[None])
            self.settle()
        return torch.cat(picks), torch.cat(rights)

    def _record(self, labels: Int[Tensor, "n"], judge: bool) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        """A CUDA graph of `WAVES` picks. The trial run that recording needs is taken back."""
        kept = {name: tensor.clone() for name, tensor in self._state().items()}
        turn = self.rows.means.turn
        row_buffer = torch.empty(WAVES, dtype=torch.int64, device=labels.device)
        right_buffer = torch.empty(WAVES, dtype=torch.bool, device=labels.device)

        def picks() -> None:
            for i in range(WAVES):
                row, right = self.step(labels, judge)
                row_buffer[i : i + 1], right_buffer[i] = row, right

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
            tensor.copy_(kept[name])
        return graph, row_buffer, right_buffer

    def _state(self) -> dict[str, Tensor]:
        """Everything that a pick changes."""
        rows, means = self.rows, self.rows.means
        state = {
            "R": self.posterior.R, "M": self.posterior.M, "B": self.posterior.B,
            "tally": self.tally, "drift": self.drift,
            "g": rows.g, "h": rows.h, "is_open": rows.is_open, "is_askable": rows.is_askable,
            "Z": means.Z, "A": means.A, "D": means.D,
        }  # fmt: skip
        if means.defers:
            state |= {"past_s": means.past_s, "past_change": means.past_change, "behind": means.behind}
        return state
