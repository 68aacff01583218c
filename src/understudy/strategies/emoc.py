"""EMOC: the rows whose label is expected to change the model's outputs most."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from understudy.checks import check_whole_number
from understudy.core.blocks import block_slices, rows_that_fit
from understudy.core.rows import FLOOR
from understudy.core.surrogate import Surrogate
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import top
from understudy.strategies.surrogate import SurrogateStrategy
from understudy.strategies.view import Picks, PoolView

COVARIANCES_PER_BLOCK: Final = 2**23


class AsksProcess:
    """A strategy that looks ahead with a sparse Gaussian process; shared by EMOC and expected error reduction.

    The process keeps its basis and widths while the features are the same.
    """

    basis_size: int
    width: float
    noise: float

    def __post_init__(self) -> None:
        self.process = SurrogateStrategy(method="paper", basis_size=self.basis_size, width=self.width, noise=self.noise)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"features", "probs"}))

    def follow(self, view: PoolView, rng: np.random.Generator) -> None:  # it needs no random numbers
        self.surrogate_of(view)

    def surrogate_of(self, view: PoolView) -> Surrogate:
        """The process, updated to the view.

        Its basis has its own seed: it is kept from call to call, and the seed of the first call must not
        affect later ones.
        """
        return self.process.follow(view, np.random.default_rng(0))


@dataclass
class EMOC(AsksProcess):
    """Expected model output change of our sparse Gaussian process, which starts from the learner's predictions."""

    max_candidates: int = 1000
    basis_size: int = 200
    width: float = 0.5
    noise: float = 0.01

    def __post_init__(self) -> None:
        check_whole_number("max_candidates", self.max_candidates, 1)
        super().__post_init__()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.max_candidates, rng)
        surrogate = self.surrogate_of(view)
        return top(rows.cpu(), torch.from_numpy(output_change(surrogate, rows.cpu().numpy())), n)


def output_change(
    surrogate: Surrogate, rows: np.ndarray, covariances_per_block: int = COVARIANCES_PER_BLOCK
) -> np.ndarray:
    """(q,): the expected change of the surrogate's mean by a label of each row, averaged over the pool.

    A label y of row i moves row j by c_ij (e_y - f_i)/S_i, and the L1 norm over the classes is taken. So the
    expectation over the label and the sum over the pool are two separate factors.
    """
    means = torch.from_numpy(surrogate.mean[rows]).double()
    variances = surrogate.variance[rows]
    change = np.empty(len(rows))
    for some in block_slices(len(rows), rows_that_fit(covariances_per_block, len(surrogate))):
        covariances = surrogate.covariance(rows[some])
        answered = variance_of_answers(surrogate, covariances, rows[some], variances[some])
        change[some] = np.abs(covariances, out=covariances).mean(0) / answered
    return change * expected_surprise(means).numpy()


def variance_of_answers(
    surrogate: Surrogate, covariances: Float[np.ndarray, "n q"], rows: np.ndarray, variances: Float[np.ndarray, "q"]
) -> Float[np.ndarray, "q"]:
    """S = ν + g of some rows: their predictive variance, with the surrogate's lower bound of ν."""
    g = covariances[rows, np.arange(len(rows))]
    return np.maximum(variances, g + FLOOR[surrogate.options.torch_dtype])


def on_simplex(means: Float[Tensor, "*m c"]) -> Float[Tensor, "*m c"]:
    """Means as probabilities: clipped at zero and normalised."""
    clipped = means.clamp_min(0.0)
    return clipped / clipped.sum(-1, keepdim=True)


def expected_surprise(means: Float[Tensor, "q c"]) -> Float[Tensor, "q"]:
    """Σ_y p_y |e_y - f|₁ with p the mean f on the simplex; 2 (1 - Σ p²) where f is there already."""
    sizes = means.abs()
    distances = sizes.sum(1, keepdim=True) - sizes + (1 - means).abs()
    return (on_simplex(means) * distances).sum(1)
