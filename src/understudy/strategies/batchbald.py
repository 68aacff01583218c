"""BatchBALD: a batch whose labels are jointly most informative about the learner's parameters."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_whole_number
from understudy.core.blocks import rows_that_fit
from understudy.strategies.bald import ReadsPasses, entropies
from understudy.strategies.ranking import in_blocks, picks, utilities
from understudy.strategies.view import Picks, PoolView

NUMBERS_PER_BLOCK: Final = 1 << 19  # in memory at a time while candidates are compared
KEPT_PER_PICK: Final = 20  # minimum number of candidates after culling


@dataclass(frozen=True)
class BatchBald(ReadsPasses):
    """Greedy: each row is the one whose label adds most to the mutual information of the batch."""

    passes: int = 100
    dropout: float = 0.5
    max_configurations: int = 10_000
    keep: int | None = 2_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number("max_configurations", self.max_configurations, 1)
        if self.keep is not None:
            check_whole_number("keep", self.keep, 1)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        every, stochastic = view.candidates(n), view.stochastic
        rows = every
        of_mean, expected = entropies(stochastic, rows)
        bounds = (of_mean - expected).clamp_min_(0)
        alone = Search(stochastic, rows, expected, bounds.clone())
        if self.keep is not None:
            order = torch.sort(bounds, descending=True, stable=True).indices
            kept = order[: max(self.keep, KEPT_PER_PICK * n)].sort().values
            rows, expected, bounds = rows[kept], expected[kept], bounds[kept]
        search = Search(stochastic, rows, expected, bounds)
        pending = view.pending  # they are part of the batch
        scores, joint = [], []
        for _ in range(n):
            batch = stochastic[torch.cat([pending, rows[search.chosen]])].double()
            exact = stochastic.shape[2] ** len(batch) <= self.max_configurations
            answers = all_answers(batch) if exact else draw_answers(batch, self.max_configurations, rng)
            scores.append(search.step(answers, exact))
            joint.append((answers, exact))
        return picks(
            rows[search.chosen],
            torch.tensor(scores, dtype=torch.float64),
            lambda: utilities(every, torch.stack([alone.gains(*given) for given in joint])),
        )


@dataclass(frozen=True, eq=False)
class Answers:
    """Joint labellings of the batch, one per row: the probability of each, and its posterior over the passes."""

    shares: Float[Tensor, "a"]  # sum 1
    posterior: Float[Tensor, "a t"]  # each row sums to 1

    def expected_entropy(self, probs: Float[Tensor, "b t c"]) -> Float[Tensor, "b"]:
        """The expected entropy of each row's label given the labels of the batch."""
        passes, classes = probs.shape[1:]
        predictions = self.posterior @ probs.transpose(0, 1).reshape(passes, -1)  # (a, b c)
        # a logarithm and a product are twice as fast as torch's own entropy; 0 ln 0 is 0 here too
        terms = predictions.clamp_min(torch.finfo(predictions.dtype).tiny).log_().mul_(predictions)
        return -(self.shares @ terms).reshape(-1, classes).sum(1)


def all_answers(batch: Float[Tensor, "k t c"]) -> Answers:
    """All c^k labellings of the batch."""
    joint = torch.ones(1, batch.shape[1], dtype=batch.dtype, device=batch.device)  # (ways, t)
    for probs in batch:
        joint = (joint[:, None] * probs.T).reshape(-1, batch.shape[1])
    total = joint.sum(1)
    joint, total = joint[total > 0], total[total > 0]
    return Answers(total / total.sum(), joint / total[:, None])


def draw_answers(batch: Float[Tensor, "k t c"], most: int, rng: np.random.Generator) -> Answers:
    """Sampled labellings of the batch, equally many from each pass: `most` in all, and at least one from each."""
    k, passes, _ = batch.shape
    each = max(1, most // passes)
    sums = batch.cumsum(2)
    marks = torch.from_numpy(rng.random((k, passes, each))).to(batch.device) * sums[:, :, -1:]
    marks = torch.minimum(marks, torch.nextafter(sums[:, :, -1:], torch.zeros_like(sums[:, :, -1:])))
    labels = torch.searchsorted(sums, marks, right=True).reshape(k, -1)  # (k, ways)
    # In logarithms: the probability of a long list of labels is too small for a float.
    log_joint = torch.zeros(passes, labels.shape[1], dtype=batch.dtype, device=batch.device)
    for probs, answer in zip(batch.log(), labels, strict=True):
        log_joint += probs[:, answer]
    shares = torch.full_like(log_joint[0], 1 / labels.shape[1])
    return Answers(shares, log_joint.softmax(0).T)


class Search:
    """Lazy greedy search.

    What a row adds is at most its own score, and shrinks as more rows are chosen. So rows are tried from the highest
    `bounds` downward, until no remaining row could beat the best so far. `expected` is the expected entropy of a
    row's label given the pass.
    """

    def __init__(
        self,
        stochastic: Float[Tensor, "n t c"],
        rows: Int[Tensor, "m"],
        expected: Float[Tensor, "m"],
        bounds: Float[Tensor, "m"],
    ) -> None:
        self.stochastic, self.rows, self.expected, self.bounds = stochastic, rows, expected, bounds
        self.chosen: list[int] = []  # places in `rows`

    def gains(self, answers: Answers, exact: bool) -> Float[Tensor, "m"]:
        """What each row would add, all of them looked at."""
        width = (len(answers.shares) + self.stochastic.shape[1]) * self.stochastic.shape[2]
        entropies_left = in_blocks(
            self.rows,
            rows_that_fit(NUMBERS_PER_BLOCK, width),
            lambda block: answers.expected_entropy(self.stochastic[block].double()),
        )
        gains = torch.minimum((entropies_left - self.expected).clamp_min_(0), self.bounds)
        if exact:
            self.bounds = gains
        return gains

    def step(self, answers: Answers, exact: bool) -> float:
        """Choose one more; returns what it adds to the mutual information of the batch."""
        left = len(self.rows) - len(self.chosen)
        order = torch.sort(self.bounds, descending=True, stable=True).indices[:left]
        gains = torch.full_like(self.bounds, -1.0)
        best = -1.0
        width = (len(answers.shares) + self.stochastic.shape[1]) * self.stochastic.shape[2]
        for block in torch.split(order, rows_that_fit(NUMBERS_PER_BLOCK, width)):
            if best > float(self.bounds[block[0]]):
                break
            gain = answers.expected_entropy(self.stochastic[self.rows[block]].double()) - self.expected[block]
            # Sampled labellings may overestimate the gain; the bound holds for the exact value.
            gains[block] = torch.minimum(gain.clamp_min_(0), self.bounds[block])
            best = max(best, float(gains[block].max()))
        if exact:
            self.bounds = torch.where(gains >= 0, gains, self.bounds)
        place = int(gains.argmax())
        self.bounds[place] = -1.0  # below all remaining ones
        self.chosen.append(place)
        return float(gains[place])
