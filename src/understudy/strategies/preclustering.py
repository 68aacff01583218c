"""Pre-clustering: rows in dense regions that are likely to be misclassified, by prototypes of the pool."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_number, check_whole_number
from understudy.errors import UnderstudyError
from understudy.strategies.clusters import k_medoids, nearest_centres, turn_numbers
from understudy.strategies.points import Points
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, require_numbers, steady_utilities
from understudy.strategies.view import Picks, PoolView

TRAINING_ITERATIONS: Final = 100


@dataclass(frozen=True)
class PreClustering:
    """p(x) times the expected squared error, both from k-medoids prototypes; clusters take turns.

    There are as many prototypes as labels and picks, within `coarse` and `fine`: coarse at first, finer later.
    """

    coarse: int = 20
    fine: int = 200
    width: float = 1.0
    penalty: float = 0.01
    samples: int = 3
    sample_size: int = 2_000

    def __post_init__(self) -> None:
        for name in ("coarse", "fine", "samples", "sample_size"):
            check_whole_number(name, getattr(self, name), 1)
        if self.fine < self.coarse:
            raise UnderstudyError(f"fine must be at least coarse, {self.coarse} clusters; got {self.fine}")
        for name in ("width", "penalty"):
            check_number(name, getattr(self, name), above=0)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features"}))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        k = min(self.fine, max(self.coarse, int(view.is_taken.sum()) + n))
        mixture, assignment = fit_mixture(
            Points(view.features), k, self.width, rng, samples=self.samples, sample_size=self.sample_size
        )
        known = view.labelled
        of_prototype = prototype_classes(
            mixture, Points(view.features, known), view.labels[known], view.n_classes, self.penalty
        )
        log_density, shares = mixture.read(Points(view.features, rows), of_prototype)
        error = 2 * (1 - shares.amax(1))  # E |ŷ - y|² of classes as one-hot vectors, ŷ the most likely
        scores = (log_density - log_density.max()).exp() * error
        require_numbers(scores)
        order = in_turns(assignment[rows].cpu().numpy(), scores.cpu().numpy(), n)
        chosen = torch.from_numpy(order).to(rows.device)
        return picks(rows[chosen], scores[chosen], steady_utilities(rows, scores, n))


@dataclass(frozen=True, eq=False)
class Mixture:
    """p(x) = Σ p(k) N(x; prototype k, std² I), up to a constant factor."""

    prototypes: Float[Tensor, "k d"]
    log_shares: Float[Tensor, "k"]  # ln p(k)
    std: float

    def log_joint(self, block: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        """ln p(k) p(x | k)."""
        gaps = torch.cdist(block.double() - self.prototypes[0], self.prototypes - self.prototypes[0])
        return self.log_shares - gaps.square_().div_(2 * self.std**2)

    def read(
        self, points: Points, of_prototype: Float[Tensor, "k c"]
    ) -> tuple[Float[Tensor, "m"], Float[Tensor, "m c"]]:
        """ln p(x), and p(y | x) = Σ p(y | k) p(k | x), of every point."""
        densities = of_prototype.new_empty(len(points))
        classes = of_prototype.new_empty((len(points), of_prototype.shape[1]))
        for first, block in points.blocks():
            joint = self.log_joint(block)
            densities[first : first + len(block)] = joint.logsumexp(1)
            classes[first : first + len(block)] = joint.softmax(1) @ of_prototype
        return densities, classes


def fit_mixture(
    points: Points, k: int, width: float, rng: np.random.Generator, *, samples: int, sample_size: int
) -> tuple[Mixture, Int[Tensor, "m"]]:
    """Prototypes by k-medoids, and the nearest one of each point. The std is `width` times their typical distance."""
    medoids = k_medoids(points, k, rng, samples=samples, sample_size=sample_size)
    assignment, squares = nearest_centres(points, points.take(medoids))
    sizes = torch.bincount(assignment, minlength=len(medoids))
    used = sizes > 0  # duplicates of a prototype have no points of their own
    std = width * float(squares.double().mean()) ** 0.5
    mixture = Mixture(points.take(medoids[used]).double(), (sizes[used].double() / len(points)).log(), std or 1.0)
    return mixture, (used.cumsum(0) - 1)[assignment]


def prototype_classes(
    mixture: Mixture, known: Points, labels: Int[Tensor, "l"], n_classes: int, penalty: float
) -> Float[Tensor, "k c"]:
    """p(y | k) = softmax(A prototype + b), where A and b maximise Σ ln p(y | x) - penalty/2 |A|² over the labels.

    Without labels all classes are equally likely.
    """
    centred = mixture.prototypes - mixture.prototypes.mean(0)
    length = float(centred.square().sum(1).mean()) ** 0.5 or 1.0
    inputs = centred / length
    A = inputs.new_zeros((inputs.shape[1], n_classes)).requires_grad_()
    b = inputs.new_zeros(n_classes).requires_grad_()
    if len(labels):
        owners = torch.cat([mixture.log_joint(block).log_softmax(1) for _, block in known.blocks()])  # (l, k)
        # Likelihood of the labelled points through k prototypes, by log-sum-exp.
        lbfgs = torch.optim.LBFGS([A, b], max_iter=TRAINING_ITERATIONS, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            lbfgs.zero_grad()
            of_prototype = (inputs @ A + b).log_softmax(1)  # (k, c)
            likelihood = (owners + of_prototype.T[labels]).logsumexp(1).sum()
            value = 0.5 * penalty * A.square().sum() - likelihood
            value.backward()  # type: ignore[no-untyped-call]
            return value

        with torch.enable_grad():  # even if the caller has disabled gradients
            lbfgs.step(loss)  # type: ignore[no-untyped-call]
    return (inputs @ A + b).softmax(1).detach()


def in_turns(clusters: Int[np.ndarray, "m"], scores: Float[np.ndarray, "m"], n: int) -> Int[np.ndarray, "n"]:
    """Positions of the n best, where no cluster gives its second pick before each has given its first, and so on."""
    best_first = np.argsort(-scores, kind="stable")
    return best_first[np.argsort(turn_numbers(clusters[best_first]), kind="stable")[:n]]
