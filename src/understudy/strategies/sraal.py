"""SRAAL: VAAL whose discriminator has lower targets for rows that the learner is uncertain about."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.strategies.adversary import (
    AdversarialStrategy,
    History,
    Kl,
    board_of,
    choose_by_discriminator,
    game_of,
)
from understudy.strategies.autoencoders import On, encode_rows, needs_of
from understudy.strategies.kcenter import kcenter_greedy, kcenter_utilities
from understudy.strategies.protocol import Needs
from understudy.strategies.ranking import picks, utilities
from understudy.strategies.view import Picks, PoolView


def uncertainty_indicator(probs: Float[Tensor, "m c"]) -> Float[Tensor, "m"]:
    """1 - (minVar / Var) max p: 1 - max p if all other classes are equal, more the less equal they are.

    minVar is the least variance of c probabilities with this maximum: the others share the rest equally.
    """
    c = probs.shape[1]
    if c == 1:
        return torch.zeros_like(probs[:, 0])
    exact = probs.double() / probs.double().sum(1, keepdim=True)  # otherwise both variances are only rounding near 1/c
    largest, variance = exact.amax(1), exact.var(1, correction=0)
    least = ((1 / c - largest) ** 2 + (c - 1) * (1 / c - (1 - largest) / (c - 1)) ** 2) / c
    # Without variance the ratio is undefined; its limit is 1. Rounding must not take it above.
    varies = variance > torch.finfo(probs.dtype).eps ** 2
    ratio = torch.where(varies, least / variance, 1.0).clip(0, 1)
    return (1 - ratio * largest).to(probs.dtype)


@dataclass
class Sraal(AdversarialStrategy):
    """The rows of smallest D(mean of the latent). `history` has the losses of the last choice.

    Before anything is labelled, k-center greedy over the latents of an autoencoder.
    """

    on: On = "auto"
    iterations: int | None = None  # None: 100 epochs over the pool
    beta: float = 1.0  # weight of the KL divergence
    adversary_weight: float = 1.0
    supervised_weight: float = 1.0
    vae_steps: int = 1  # per iteration
    adversary_steps: int = 1
    latent: int = 32
    batch_size: int = 128
    learning_rate: float = 5e-4
    kl: Kl = "mean"
    history: History = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def needs(self) -> Needs:
        return needs_of(self.on, ("probs",))

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        if not bool(view.is_labelled.any()):
            return self.select_first(view, rows, n, rng)
        board = board_of(view, self.on, rows, targets=expected_states(view))
        players = self.train(game_of(self), board, len(view), rng)
        return choose_by_discriminator(players, board, rows, n)

    def select_first(self, view: PoolView, rows: Int[Tensor, "m"], n: int, rng: np.random.Generator) -> Picks:
        """The first rows: with nothing labelled there is no adversary, so only the autoencoder is trained."""
        game = replace(game_of(self), adversary_weight=0.0, supervised_weight=0.0)
        board = board_of(view, self.on, rows)
        players = self.train(game, board, len(view), rng)
        latents = encode_rows(players.vae, board.inputs, np.arange(len(view)))
        chosen, distances = kcenter_greedy(latents, view.taken, rows, n, rng)
        return picks(chosen, distances, lambda: utilities(rows, kcenter_utilities(latents, view.taken, rows, chosen)))


def expected_states(view: PoolView) -> Float[Tensor, "n"]:
    """The discriminator's target for every row: 1 if it is taken, else 1 minus the learner's uncertainty."""
    return torch.where(view.is_taken, 1.0, 1 - uncertainty_indicator(view.probs).float())
