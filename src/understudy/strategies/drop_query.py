"""DropQuery: rows on which a linear head changes its mind when parts of the features are dropped, one a cluster."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from understudy.checks import check_number, check_whole_number
from understudy.errors import UnderstudyError
from understudy.strategies.clusters import k_means, nearest_members
from understudy.strategies.draws import torch_generator
from understudy.strategies.points import Points
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks
from understudy.strategies.view import Picks, PoolView

PATIENCE = 20  # epochs without
LEAST_GAIN = 1e-3  # in the training loss
BATCH_SIZE = 4096
ROWS_AT_ONCE = 4096  # whose masks are drawn together: a fixed number, so that precision and device change nothing


@dataclass(frozen=True)
class LinearHead:
    weight: Float[Tensor, "c d"]
    bias: Float[Tensor, "c"]

    def classes(self, inputs: Float[Tensor, "b d"]) -> Int[Tensor, "b"]:
        return linear(inputs, self.weight, self.bias).argmax(1)


@dataclass(frozen=True)
class DropQuery:
    """One row from each of n clusters of those whose predicted class does not stand dropout.

    It trains its own head on the features of the labelled rows. Before there are labels it takes the rows nearest to
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
            raise UnderstudyError(
                f"threshold must be less than the {self.passes} passes, or nothing passes it; got {self.threshold}"
            )
        check_number("dropout", self.dropout, least=0, below=1)
        check_number("learning_rate", self.learning_rate, above=0)
        check_number("weight_decay", self.weight_decay, least=0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows, pending = view.candidates(n), view.pending
        if not bool(view.is_labelled.any()):
            chosen, distances = _one_a_cluster(view.features, rows, pending, n, rng)
            return picks(chosen, -distances.sqrt())
        generator = torch_generator(rng)
        unit = root_mean_square(view.features)
        known = view.labelled
        head = self.trained(view.features[known] / unit, view.labels[known], view.n_classes, generator)
        flips = self.flips(head, Points(view.features, rows), unit, generator)
        kept = candidates(flips, n, self.threshold, self.enough * (n + len(pending)), rng)
        chosen, _ = _one_a_cluster(view.features, rows[kept], pending, n, rng)
        return picks(chosen, flips[torch.searchsorted(rows, chosen)].double() / self.passes)

    def trained(
        self, inputs: Float[Tensor, "l d"], labels: Int[Tensor, "l"], n_classes: int, generator: torch.Generator
    ) -> LinearHead:
        """A linear head with dropout on its inputs, by AdamW, until the training loss no longer falls."""
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
                with torch.enable_grad():  # whatever the caller is in the middle of
                    loss = cross_entropy(linear(self.dropped(inputs[some], generator), weight, bias), labels[some])
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
        """In how many passes the class is not the one that all the features together give."""
        counts = []
        for places in torch.split(torch.arange(len(points), device=points.device), ROWS_AT_ONCE):
            inputs = points.take(places) / unit
            plain = head.classes(inputs)
            passes = [head.classes(self.dropped(inputs, generator)) != plain for _ in range(self.passes)]
            counts.append(torch.stack(passes).sum(0))
        return torch.cat(counts)

    def dropped(self, inputs: Float[Tensor, "b d"], generator: torch.Generator) -> Float[Tensor, "b d"]:
        keep = torch.empty(inputs.shape).bernoulli_(1 - self.dropout, generator=generator)
        return inputs * keep.to(inputs).div_(1 - self.dropout)


def _one_a_cluster(
    features: Float[Tensor, "n d"], rows: Int[Tensor, "m"], pending: Int[Tensor, "p"], n: int, rng: np.random.Generator
) -> tuple[Int[Tensor, "q"], Float[Tensor, "q"]]:
    """Of these rows, at length 1, the one in the middle of each cluster without a pending row; its squared distance.

    Pending rows are part of the batch: there is a cluster for each of them, too.
    """
    among = torch.sort(torch.cat([rows, pending])).values
    points = Points(features, among, unit=True)
    clusters = k_means(points, n + len(pending), rng)
    chosen = nearest_members(points, clusters, n, torch.isin(among, pending))
    return among[chosen], clusters.distances[chosen]


def candidates(
    flips: Int[Tensor, "m"], n: int, threshold: int, enough: int, rng: np.random.Generator
) -> Int[Tensor, "k"]:
    """Places with more flips than the threshold; with any at all if those are fewer than `enough`.

    Random ones fill up if even those are fewer than n.
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
    """The typical size of an entry: divided by it, features in any unit suit the same learning rate. 1 if all are 0."""
    squares = sum(float(block.square().sum(dtype=torch.float64)) for _, block in Points(features).blocks())
    return (squares / features.numel()) ** 0.5 or 1.0
