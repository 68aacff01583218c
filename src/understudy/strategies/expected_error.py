"""Expected error reduction: the rows whose label is expected to lower the model's error over the pool most."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_whole_number
from understudy.strategies.emoc import AsksProcess, on_simplex, variance_of_answers
from understudy.strategies.randomness import draw_subset
from understudy.strategies.ranking import top
from understudy.strategies.view import Picks, PoolView

PAIRS_PER_BLOCK: Final = 2**20  # of a candidate and an evaluated row
COVARIANCES_PER_BLOCK: Final = 2**22
LEAST_FALL: Final = 1e-12  # a smaller fall is rounding: many labels change no prediction, and these tie


@dataclass
class ExpectedError(AsksProcess):
    """Looks one label ahead with our sparse Gaussian process: every candidate, every class it may turn out to have."""

    max_candidates: int = 200
    max_judged: int = 5000
    max_labels: int = 10
    clip: bool = False
    basis_size: int = 200
    width: float = 0.5
    noise: float = 0.01

    def __post_init__(self) -> None:
        for name in ("max_candidates", "max_judged", "max_labels"):
            check_whole_number(name, getattr(self, name), 1)
        super().__post_init__()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.max_candidates, rng)
        judged = draw_subset((~view.is_taken).nonzero()[:, 0], self.max_judged, rng)
        return top(rows, self.expected_falls(view, rows, judged), n)

    def expected_falls(
        self,
        view: PoolView,
        rows: Int[Tensor, "m"],
        judged: Int[Tensor, "e"],
        pairs_per_block: int = PAIRS_PER_BLOCK,
    ) -> Float[Tensor, "m"]:
        """The expected decrease of the mean error over the judged rows by a label of each of these rows."""
        surrogate = self.surrogate_of(view)
        on_host = judged.cpu().numpy()
        means, variances = torch.from_numpy(surrogate.mean).to(view.device).double(), surrogate.variance
        means /= means.sum(1, keepdim=True)  # more precisely than float32
        now = (1 - (on_simplex(means[judged]) if self.clip else means[judged]).amax(1)).mean()
        falls = []
        pairs, covariances = pairs_per_block // len(judged), COVARIANCES_PER_BLOCK // len(view)
        for some in torch.split(rows, max(1, min(pairs, covariances))):
            candidates = some.cpu().numpy()
            with_pool = surrogate.covariance(candidates)
            answered = variance_of_answers(surrogate, with_pool, candidates, variances[candidates])
            ratios = torch.from_numpy((with_pool[on_host] / answered).T.copy()).to(view.device)
            weights, labels = most_probable_classes(means[some], self.max_labels)
            falls.append(now - expected_risk(means[judged], ratios, means[some], labels, weights, self.clip))
        scores = torch.cat(falls)
        return scores.masked_fill(scores.abs() < LEAST_FALL, 0.0)


def most_probable_classes(
    means: Float[Tensor, "q c"], max_labels: int
) -> tuple[Float[Tensor, "q h"], Int[Tensor, "q h"]]:
    """The most probable classes and their probabilities, renormalised."""
    weights, labels = on_simplex(means).topk(min(max_labels, means.shape[1]), dim=1)
    return weights / weights.sum(1, keepdim=True), labels


def expected_risk(
    means: Float[Tensor, "e c"],
    ratios: Float[Tensor, "q e"],
    at: Float[Tensor, "q c"],
    labels: Int[Tensor, "q h"],
    weights: Float[Tensor, "q h"],
    clip: bool = False,
) -> Float[Tensor, "q"]:
    """Σ_y weight_y (1/e) Σ_j (1 - max f_j), where f_j is the mean of row j after a candidate's label y.

    A label y moves row j by ratio_j (e_y - at). All labels share the part without e_y, so each label updates one
    class only: sum, largest and second largest entry are enough. O(q e (c + h)). `clip`: means
    are projected onto the simplex first.
    """
    least = 0.0 if clip else -torch.inf
    first, second = torch.full((2, *ratios.shape), -torch.inf, dtype=ratios.dtype, device=ratios.device)
    total = torch.zeros_like(ratios)
    by_class = means.T.contiguous()
    for c, column in enumerate(by_class):
        z = torch.addcmul(column, ratios, at[:, c : c + 1], value=-1.0).clamp_min_(least)
        if clip:
            total += z
        torch.maximum(second, torch.minimum(first, z), out=second)
        torch.maximum(first, z, out=first)
    risk = torch.zeros_like(weights[:, 0])
    for y, weight in zip(labels.T, weights.T, strict=True):
        z = torch.addcmul(by_class[y], ratios, at.gather(1, y[:, None]), value=-1.0)
        without, given = z.clamp_min(least), (z + ratios).clamp_min_(least)
        largest = torch.where(without == first, second, first).maximum(given)
        if clip:
            largest /= total - without + given
        risk += weight * (1 - largest.mean(1))
    return risk
