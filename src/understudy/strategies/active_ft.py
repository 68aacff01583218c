"""ActiveFT: centroids that are moved until they are spread as the pool is, and the row nearest to each."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.core.blocks import block_slices, rows_that_fit
from understudy.core.lloyd import sum_by_cluster
from understudy.strategies.points import LEAST_LENGTH, as_points, unit_length
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.view import Picks, PoolView, Utilities

NUMBERS_PER_BLOCK: Final = {"cpu": 2**21, "cuda": 2**27}  # similarities in memory at a time


@dataclass(frozen=True)
class ActiveFT:
    """One row for each of n centroids, which are trained to lie among the pool's rows and far from each other.

    Labelled and pending rows are centroids that do not move.
    """

    temperature: float = 0.07
    balance: float = 1.0
    iterations: int = 300
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("temperature", "learning_rate"):
            check_number(name, getattr(self, name), above=0)
        check_number("balance", self.balance, least=0)
        check_whole_number("iterations", self.iterations, 0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        points = as_points(view.features, normalise=True)
        drawn = torch.from_numpy(rng.permutation(len(rows))[:n]).to(view.device)
        centroids = self.train(points, points[rows[drawn]], points[view.taken])
        chosen, scores = _nearest_each(points[rows], centroids)

        def all_similarities() -> Utilities:
            lines = (centroids @ points[rows].T).double()
            for pick, place in enumerate(chosen):
                lines[pick + 1 :, place] = -torch.inf
            return utilities(rows, lines)

        return picks(rows[chosen], scores, all_similarities)

    def train(
        self, points: Float[Tensor, "n d"], start: Float[Tensor, "k d"], fixed: Float[Tensor, "t d"]
    ) -> Float[Tensor, "k d"]:
        """The centroids, of unit length, after Adam has moved them from where they start."""
        free = start.clone()
        adam = torch.optim.Adam([free], lr=self.learning_rate)
        nearest_fixed = _largest_products(points, fixed)
        for _ in range(self.iterations):
            free.grad = self.gradient(points, free, fixed, nearest_fixed)
            adam.step()
        return unit_length(free)

    def gradient(
        self,
        points: Float[Tensor, "n d"],
        free: Float[Tensor, "k d"],
        fixed: Float[Tensor, "t d"],
        nearest_fixed: Float[Tensor, "n"],
    ) -> Float[Tensor, "k d"]:
        """Of the mean over the points of ln(e^(x·c/T) + b Σ_k e^(k·c/T)) - x·c/T, c the centroid nearest to x.

        All centroids have unit length and the k in the sum are held, as the method has it. A point that is nearest to
        a fixed centroid moves nothing. By hand, so that only a block of the n x k products is in memory at a time.
        """
        unit = unit_length(free)
        others = torch.cat([unit, fixed])
        # e^((k·c - 1)/T) by c and k: the same shares without overflow.
        crowd = torch.exp((unit @ others.T - 1) / self.temperature).mul_(self.balance)
        crowding = crowd.sum(1)
        sums = free.new_zeros((len(free), free.shape[1] + 1))
        for part in block_slices(len(points), _rows_at_once(points, len(free))):
            block = points[part]
            products, nearest = (block @ unit.T).max(1)
            # 1 minus the softmax share that the point has beside the crowd around its centroid.
            weight = crowding[nearest] / (crowding[nearest] + torch.exp((products - 1) / self.temperature))
            weight[nearest_fixed[part] > products] = 0.0
            weighted = torch.cat([block, torch.ones_like(block[:, :1])], 1).mul_(weight[:, None])
            sums += sum_by_cluster(weighted, nearest, len(free))
        pulls, weights = sums[:, :-1], sums[:, -1:]
        pushes = crowd @ others / crowding.clamp_min(torch.finfo(crowding.dtype).tiny)[:, None]
        slope = (weights * pushes - pulls) / (self.temperature * len(points))
        # Through the normalisation: only what is across the centroid turns it.
        across = slope - (slope * unit).sum(1, keepdim=True) * unit
        return across / free.norm(dim=1, keepdim=True).clamp_min(LEAST_LENGTH)


def _nearest_each(
    points: Float[Tensor, "m d"], centroids: Float[Tensor, "k d"]
) -> tuple[Int[Tensor, "k"], Float[Tensor, "k"]]:
    """The position of the point most similar to each centroid in turn that none before has taken, and how similar."""
    is_free = torch.ones(len(points), dtype=torch.bool, device=points.device)
    chosen: list[int] = []
    scores: list[Tensor] = []
    for part in block_slices(len(centroids), _rows_at_once(points, len(points))):
        for line in centroids[part] @ points.T:
            found = line.masked_fill_(~is_free, -torch.inf)
            chosen.append(int(found.argmax()))
            scores.append(found[chosen[-1]])
            is_free[chosen[-1]] = False
    return torch.tensor(chosen, dtype=torch.int64, device=points.device), torch.stack(scores)


def _largest_products(points: Float[Tensor, "n d"], centroids: Float[Tensor, "t d"]) -> Float[Tensor, "n"]:
    """x·c of each point with the nearest centroid; -inf without any."""
    largest = points.new_full((len(points),), -torch.inf)
    if len(centroids):
        for part in block_slices(len(points), _rows_at_once(points, len(centroids))):
            largest[part] = (points[part] @ centroids.T).amax(1)
    return largest


def _rows_at_once(points: Float[Tensor, "n d"], k: int) -> int:
    return rows_that_fit(NUMBERS_PER_BLOCK[points.device.type], k)
