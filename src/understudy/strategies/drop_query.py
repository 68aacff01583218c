"""DropQuery: rows whose class under a linear head changes when features are dropped, one per cluster."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from understudy.checks import check_number, check_whole_number
from understudy.errors import UnderstudyError
from understudy.strategies.clusters import k_means, nearest_members
from understudy.strategies.points import Points
from understudy.strategies.protocol import Needs
from understudy.strategies.randomness import torch_generator
from understudy.strategies.ranking import in_blocks, picks, steady_utilities
from understudy.strategies.view import Picks, PoolView

PATIENCE = 20  # epochs without improvement
LEAST_GAIN = 1e-3  # of the training loss that counts as improvement
BATCH_SIZE = 4096
ROWS_AT_ONCE = 4096  # whose masks are drawn together: fixed, so that results do not depend on precision or device


@dataclass(frozen=True)
class LinearHead:
    weight: Float[Tensor, "c d"]
    bias: Float[Tensor, "c"]

    def classes(self, inputs: Float[Tensor, "b d"]) -> Int[Tensor, "b"]:
        return linear(inputs, self.weight, self.bias).argmax(1)


@dataclass(frozen=True)
class DropQuery:
    """One row from each of n clusters of the rows whose predicted class is unstable under dropout.

    It trains its own head on the features of the labelled rows. Before there are labels it picks the rows nearest to
    the centres of n clusters of the open rows.
    """

    passes: int = 3
    threshold: int = 1
    enough: int = 25
    dropout: float = 0.75
    learning_rate: float = 1e-2
    weight_decay: float = 1e-2
    epochs: int = 400

    def __post_init__(self) -> None:
        for name, least in (("passes", 1), ("threshold", 0), ("enough", 1), ("epochs", 1)):
            check_whole_number(name, getattr(self, name), least)
        if self.threshold >= self.passes:
            raise UnderstudyError(f"threshold must be below the number of passes, {self.passes}; got {self.threshold}")
        check_number("dropout", self.dropout, least=0, below=1)
        check_number("learning_rate", self.learning_rate, above=0)
        check_number("weight_decay", self.weight_decay, least=0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows, pending = view.candidates(n), view.pending
        if not bool(view.is_labelled.any()):
            chosen, among, squares = _one_a_cluster(view.features, rows, pending, n, rng)
            distances, is_free = -squares.sqrt(), ~torch.isin(among, pending)
            return picks(
                chosen,
                distances[torch.searchsorted(among, chosen)],
                steady_utilities(among[is_free], distances[is_free], n),
            )
        generator = torch_generator(rng)
        unit = root_mean_square(view.features)
        known = view.labelled
        head = self.train_head(view.features[known] / unit, view.labels[known], view.n_classes, generator)
        flips = self.flips(head, Points(view.features, rows), unit, generator)
        kept = choose_candidates(flips, n, self.threshold, self.enough * (n + len(pending)), rng)
        chosen, _, _ = _one_a_cluster(view.features, rows[kept], pending, n, rng)
        shares = flips.double() / self.passes
        return picks(chosen, shares[torch.searchsorted(rows, chosen)], steady_utilities(rows, shares, n))

    def train_head(
        self, inputs: Float[Tensor, "l d"], labels: Int[Tensor, "l"], n_classes: int, generator: torch.Generator
    ) -> LinearHead:
        """A linear head with dropout on its inputs, trained by AdamW until the training loss stops falling."""
        d = inputs.shape[1]
        start = (2 * torch.rand((n_classes, d), generator=generator) - 1) / d**0.5
        weight = start.to(inputs).requires_grad_()
        bias = inputs.new_zeros(n_classes).requires_grad_()
        adam = torch.optim.AdamW([weight, bias], lr=self.learning_rate, weight_decay=self.weight_decay)
        best, waited = float("inf"), 0
        for _ in range(self.epochs):
            total = 0.0
            for batch in torch.split(torch.randperm(len(inputs), generator=generator), BATCH_SIZE):
                some = batch.to(inputs.device)
                with torch.enable_grad():  # even if the caller has disabled gradients
                    loss = cross_entropy(
                        linear(self.drop_features(inputs[some], generator), weight, bias), labels[some]
                    )
                adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
                total += loss.item() * len(batch)
            waited = 0 if total / len(inputs) < best - LEAST_GAIN else waited + 1
            best = min(best, total / len(inputs))
            if waited == PATIENCE:
                break
        return LinearHead(weight.detach(), bias.detach())

    def flips(self, head: LinearHead, points: Points, unit: float, generator: torch.Generator) -> Int[Tensor, "m"]:
        """The number of passes in which the class differs from the one predicted from all features."""

        def count(places: Int[Tensor, "b"]) -> Int[Tensor, "b"]:
            inputs = points.take(places) / unit
            plain = head.classes(inputs)
            passes = [head.classes(self.drop_features(inputs, generator)) != plain for _ in range(self.passes)]
            return torch.stack(passes).sum(0)

        return in_blocks(torch.arange(len(points), device=points.device), ROWS_AT_ONCE, count)

    def drop_features(self, inputs: Float[Tensor, "b d"], generator: torch.Generator) -> Float[Tensor, "b d"]:
        keep = torch.empty(inputs.shape).bernoulli_(1 - self.dropout, generator=generator)
        return inputs * keep.to(inputs).div_(1 - self.dropout)


def _one_a_cluster(
    features: Float[Tensor, "n d"], rows: Int[Tensor, "m"], pending: Int[Tensor, "p"], n: int, rng: np.random.Generator
) -> tuple[Int[Tensor, "q"], Int[Tensor, "a"], Float[Tensor, "a"]]:
    """The most central row of each cluster (of unit-norm rows) without a pending row; all rows that were clustered.

    Last, the squared distance of each of those from its centre.

    Pending rows are part of the batch, so there is a cluster for each of them, too.
    """
    among = torch.sort(torch.cat([rows, pending])).values
    points = Points(features, among, unit=True)
    clusters = k_means(points, n + len(pending), rng)
    chosen = nearest_members(points, clusters, n, torch.isin(among, pending))
    return among[chosen], among, clusters.distances


def choose_candidates(
    flips: Int[Tensor, "m"], n: int, threshold: int, enough: int, rng: np.random.Generator
) -> Int[Tensor, "k"]:
    """Positions with more flips than the threshold, or with any flips if those are fewer than `enough`.

    Random ones are added if even those are fewer than n.
    """
    kept = flips > threshold
    if int(kept.sum()) < enough:
        kept = flips > 0
    missing = n - int(kept.sum())
    if missing > 0:
        others = (~kept).nonzero()[:, 0]
        kept[others[torch.from_numpy(rng.permutation(len(others))[:missing]).to(others.device)]] = True
    return kept.nonzero()[:, 0]


def root_mean_square(features: Float[Tensor, "n d"]) -> float:
    """The scale of an entry, so that one learning rate suits features of any scale. 1 if all are 0."""
    squares = sum(float(block.square().sum(dtype=torch.float64)) for _, block in Points(features).blocks())
    return (squares / features.numel()) ** 0.5 or 1.0
