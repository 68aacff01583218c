"""TA-VAAL: VAAL whose networks also receive how hard the learner finds a row."""

from dataclasses import dataclass, field

import numpy as np
import torch

from understudy.strategies.adversary import (
    AdversarialStrategy,
    History,
    Kl,
    board_of,
    choose_by_discriminator,
    game_of,
)
from understudy.strategies.autoencoders import On, needs_of
from understudy.strategies.loss_prediction import LearnsLosses, LossPredictionHook
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks, PoolView, check_subset_size


@dataclass
class TaVaal(AdversarialStrategy, LearnsLosses):
    """The rows of smallest D(mean of the latent, rank). `history` has the losses of the last choice.

    The rank comes from a module that `training_hook` trains along with the learner to rank the
    learner's losses.
    """

    on: On = "auto"
    subset_size: int | None = 10_000
    iterations: int | None = None  # None: 100 epochs over the labelled rows and the subset
    beta: float = 1.0  # weight of the KL divergence
    adversary_weight: float = 1.0
    vae_steps: int = 1  # per iteration
    adversary_steps: int = 1
    latent: int = 32
    batch_size: int = 128
    learning_rate: float = 5e-4
    kl: Kl = "mean"
    ranker_weight: float = 1.0  # of the ranker's loss relative to the learner's
    ranker_width: int = 128
    detach_after: float = 0.6  # share of the epochs after which the ranker's loss no longer reaches the learner
    history: History = field(default_factory=dict, init=False, repr=False, compare=False)
    hook: LossPredictionHook = field(init=False, repr=False, compare=False)  # of the latest training

    def __post_init__(self) -> None:
        super().__post_init__()
        check_subset_size(self.subset_size)
        self.hook = self.make_hook()

    @property
    def needs(self) -> Needs:
        return needs_of(self.on, ("activations",), labelled=1, hook=True)

    def make_hook(self) -> LossPredictionHook:
        return LossPredictionHook(
            pair_loss="rank", weight=self.ranker_weight, width=self.ranker_width, detach_after=self.detach_after
        )

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.subset_size, rng)
        view.require_labelled("ta_vaal")
        ranks = torch.zeros(len(view), 1, device=view.device)
        seen = torch.cat([view.taken, rows])  # the other rows are not used
        ranks[seen, 0] = self.hook.predict(view.activations, seen).float()
        board = board_of(view, self.on, rows, told=ranks)
        # As published, the first iteration has no ranks yet and uses uniform random ones.
        n_rows = len(board.taken) + len(board.others)
        players = self.train(game_of(self), board, n_rows, rng, random_start=True)
        return choose_by_discriminator(players, board, rows, n)
