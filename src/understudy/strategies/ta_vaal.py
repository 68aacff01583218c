"""TA-VAAL: VAAL whose networks are also told how hard the learner finds a row."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from understudy.hooks import TrainingHook
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
from understudy.strategies.loss_prediction import LossPredictionHook
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks, PoolView, check_subset_size


@dataclass
class TaVaal:
    """The rows of smallest D(mean of the latent, rank). `history` has the losses of the last choice.

    The rank is what a module predicts that is trained along with the learner, by `training_hook`, to put the
    learner's losses in order.
    """

    on: On = "auto"
    subset_size: int | None = 10_000
    iterations: int | None = None  # None: 100 passes over the labelled rows and the subset
    beta: float = 1.0  # weight of the KL divergence
    adversary_weight: float = 1.0
    vae_steps: int = 1  # an iteration
    adversary_steps: int = 1
    latent: int = 32
    batch_size: int = 128
    learning_rate: float = 5e-4
    kl: Kl = "mean"
    ranker_weight: float = 1.0  # of the ranker's loss beside the learner's
    ranker_width: int = 128
    detach_after: float = 0.6  # share of the epochs after which the learner does not feel the ranker
    history: History = field(default_factory=dict, init=False, repr=False, compare=False)
    hook: LossPredictionHook = field(init=False, repr=False, compare=False)  # of the latest training

    def __post_init__(self) -> None:
        check_on(self.on)
        check_iterations(self.iterations)
        check_subset_size(self.subset_size)
        game_of(self)
        self.hook = self.make_hook()

    @property
    def needs(self) -> Needs:
        return needs_of(self.on, ("activations",), labelled=1, hook=True)

    def make_hook(self) -> LossPredictionHook:
        return LossPredictionHook(
            pair_loss="rank", weight=self.ranker_weight, width=self.ranker_width, detach_after=self.detach_after
        )

    def training_hook(self, teacher: Any, rng: np.random.Generator) -> LossPredictionHook:
        """A ranker from scratch, as the learner is."""
        self.hook = self.make_hook()
        return self.hook

    @property
    def shares_training(self) -> bool:
        return True

    def adopt(self, hook: TrainingHook) -> None:
        """Choose by what another run's hook learnt along with this run's model."""
        assert isinstance(hook, LossPredictionHook)
        self.hook = hook

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.subset_size, rng)
        view.require_labelled("ta_vaal")
        ranks = torch.zeros(len(view), 1, device=view.device)
        seen = torch.cat([view.taken, rows])  # nobody is told about the others
        ranks[seen, 0] = self.hook.predict(view.activations, seen).float()
        game, board = game_of(self), board_of(view, self.on, rows, told=ranks)
        players = make_players(game, board, rng)
        iterations = self.iterations or passes_over(len(board.taken) + len(board.others), self.batch_size)
        # As published, the first iteration knows no ranks yet and takes uniform ones.
        first = torch.from_numpy(rng.random((len(view), 1), dtype=np.float32)).to(ranks.device)
        self.history = play(game, players, board, iterations, rng, first)
        return least_like_labelled(rows, discriminator_logits(players, board, board.others), n)
