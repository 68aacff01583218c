"""VAAL: rows that a discriminator tells from the labelled ones, however an autoencoder hides them."""

from dataclasses import dataclass, field

import numpy as np

from understudy.strategies.adversary import (
    History,
    Kl,
    board_of,
    check_iterations,
    discriminator_logits,
    game_of,
    least_like_labelled,
    make_players,
    passes_over,
    play,
)
from understudy.strategies.autoencoders import On, check_on, needs_of
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks, PoolView


@dataclass
class Vaal:
    """The rows of smallest D(mean of the latent). `history` has the losses of the last choice."""

    on: On = "auto"
    iterations: int | None = None  # None: 100 passes over the pool
    beta: float = 1.0  # weight of the KL divergence
    adversary_weight: float = 1.0
    vae_steps: int = 2  # an iteration
    adversary_steps: int = 1
    latent: int = 32
    batch_size: int = 128
    learning_rate: float = 5e-4
    kl: Kl = "sum"
    history: History = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_on(self.on)
        check_iterations(self.iterations)
        game_of(self)

    @property
    def needs(self) -> Needs:
        return needs_of(self.on, labelled=1)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n)
        view.require_labelled("vaal")
        game, board = game_of(self), board_of(view, self.on, rows)
        players = make_players(game, board, rng)
        iterations = self.iterations or passes_over(len(view), self.batch_size)
        self.history = play(game, players, board, iterations, rng)
        return least_like_labelled(rows, discriminator_logits(players, board, board.others), n)
