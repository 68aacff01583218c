"""VAAL: rows that a discriminator tells apart from labelled ones, in the latent space of an adversarial autoencoder."""

from dataclasses import dataclass, field

import numpy as np

from understudy.strategies.adversary import (
    AdversarialStrategy,
    History,
    Kl,
    board_of,
    choose_by_discriminator,
    game_of,
)
from understudy.strategies.autoencoders import On, needs_of
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks, PoolView


@dataclass
class Vaal(AdversarialStrategy):
    """The rows of smallest D(mean of the latent). `history` has the losses of the last choice."""

    on: On = "auto"
    iterations: int | None = None  # None: 100 epochs over the pool
    beta: float = 1.0  # weight of the KL divergence
    adversary_weight: float = 1.0
    vae_steps: int = 2  # per iteration
    adversary_steps: int = 1
    latent: int = 32
    batch_size: int = 128
    learning_rate: float = 5e-4
    kl: Kl = "sum"
    history: History = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def needs(self) -> Needs:
        return needs_of(self.on, labelled=1)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        view.require_labelled("vaal")
        board = board_of(view, self.on, rows)
        players = self.train(game_of(self), board, len(view), rng)
        return choose_by_discriminator(players, board, rows, n)
