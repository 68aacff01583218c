"""The adversarial game of VAAL and its variants: an autoencoder hides from a discriminator which rows are labelled."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.errors import UnderstudyError
from understudy.strategies.autoencoders import (
    Autoencoder,
    ImageInputs,
    Inputs,
    On,
    check_on,
    encode_rows,
    inputs_of,
    kl_divergence,
    make_autoencoder,
    make_discriminator,
)
from understudy.strategies.randomness import seeded_layers, torch_generator
from understudy.strategies.ranking import steady_utilities, top
from understudy.strategies.view import UNLABELLED, Picks, PoolView

Kl = Literal["sum", "mean"]
History = dict[str, Float[np.ndarray, "iterations"]]  # each loss by iteration
# More, without being told how many, are refused: on a processor they would take hours with the smallest networks.
MOST_ITERATIONS: Final = {"cpu": 100_000, "cuda": 2_000_000}
MOST_ON_IMAGES: Final = 500  # on a processor, where a step of the convolutions takes ten seconds or so
LOSSES: Final = ("reconstruction", "kl", "adversary", "supervised", "discriminator")


@dataclass(frozen=True)
class Game:
    """The settings of the game, checked."""

    beta: float
    adversary_weight: float
    vae_steps: int
    adversary_steps: int
    latent: int
    batch_size: int
    learning_rate: float
    kl: Kl
    supervised_weight: float = 0.0

    def __post_init__(self) -> None:
        for name in ("vae_steps", "adversary_steps", "latent", "batch_size"):
            check_whole_number(name, getattr(self, name), 1)
        for name in ("beta", "adversary_weight", "supervised_weight"):
            check_number(name, getattr(self, name), least=0)
        check_number("learning_rate", self.learning_rate, above=0)


def game_of(strategy: Any) -> Game:
    """The settings of the game, read by name from the fields of a strategy."""
    check_choice("kl", strategy.kl, get_args(Kl))
    return Game(**{name: getattr(strategy, name) for name in Game.__dataclass_fields__ if hasattr(strategy, name)})


@dataclass(frozen=True, eq=False)
class Players:
    """The networks: an autoencoder, a discriminator of its latents, and a classifier of them."""

    vae: Autoencoder
    discriminator: nn.Sequential
    classifier: nn.Linear


@dataclass(frozen=True, eq=False)
class Board:
    """The pool as the game sees it. A batch holds labelled or unlabelled rows, never both."""

    inputs: Inputs
    taken: Int[np.ndarray, "t"]
    others: Int[np.ndarray, "u"]
    told: Float[Tensor, "n e"]  # extra inputs of both networks, 0 or 1 per row
    targets: Float[Tensor, "n"]  # the discriminator's targets
    labels: Int[Tensor, "n"]
    n_classes: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Some labelled or unlabelled rows, ready for training."""

    x: Float[Tensor, "b *shape"]
    told: Float[Tensor, "b e"]
    targets: Float[Tensor, "b"]
    labels: Int[Tensor, "b"]


def board_of(
    view: PoolView,
    on: On,
    rows: Int[Tensor, "u"],
    told: Float[Tensor, "n e"] | None = None,
    targets: Float[Tensor, "n"] | None = None,
) -> Board:
    """These open rows against all taken ones, including pending rows, which are about to be labelled.

    By default the networks get no extra inputs, and the discriminator's target is 1 for taken rows and 0 for others.
    """
    return Board(
        inputs_of(view, on),
        taken=view.taken.cpu().numpy(),
        others=rows.cpu().numpy(),
        told=torch.zeros(len(view), 0, device=view.device) if told is None else told,
        targets=view.is_taken.float() if targets is None else targets,
        labels=view.labels,
        n_classes=view.n_classes,
    )


def check_iterations(iterations: int | None) -> None:
    if iterations is not None:
        check_whole_number("iterations", iterations, 1)


def passes_over(n_rows: int, batch_size: int) -> int:
    """Iterations that amount to a hundred epochs over this many rows, as published: N 100 / 128."""
    return max(1, n_rows * 100 // batch_size)


def check_duration(who: str, n_rows: int, batch_size: int, device: torch.device, on_images: bool) -> None:
    """Raise if a hundred epochs would take a day, before they begin; whoever says how many iterations may have them."""
    needed, most, hint = passes_over(n_rows, batch_size), MOST_ITERATIONS[device.type], ""
    if device.type == "cpu":
        most, hint = (MOST_ON_IMAGES, ', use a GPU, or set on="features"') if on_images else (most, ", or use a GPU")
    if needed > most:
        raise UnderstudyError(
            f"{who} trains for 100 epochs: {needed:,} iterations over {n_rows:,} rows, hours to days, and more than "
            f"{most:,}; pass iterations={needed} to have them, or fewer{hint}"
        )


def make_players(game: Game, board: Board, rng: np.random.Generator) -> Players:
    extra = board.told.shape[1]
    with seeded_layers(rng):
        vae = make_autoencoder(board.inputs.shape, game.latent, extra)
        discriminator = make_discriminator(game.latent + extra)
        classifier = nn.Linear(game.latent, board.n_classes)
    device = board.targets.device
    return Players(vae.to(device), discriminator.to(device), classifier.to(device))


def play(
    game: Game,
    players: Players,
    board: Board,
    iterations: int,
    rng: np.random.Generator,
    first_told: Float[Tensor, "n e"] | None = None,
) -> History:
    """Train both sides in turn. `first_told` replaces the extra inputs in the first iteration only."""
    vae, discriminator = players.vae.train(), players.discriminator.train()
    noise = torch_generator(rng)
    sides = [shuffle_batches(rows, game.batch_size, rng) for rows in (board.taken, board.others) if len(rows)]
    hiding = torch.optim.Adam([*vae.parameters(), *players.classifier.parameters()], game.learning_rate)
    seeking = torch.optim.Adam(discriminator.parameters(), game.learning_rate)
    losses = torch.zeros(iterations, len(LOSSES), device=board.targets.device)
    shares = [1.0, game.beta, game.adversary_weight, game.supervised_weight]
    weights = torch.tensor(shares, device=losses.device)
    # Convolutions are not deterministic unless asked to be.
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False):
        for iteration in range(iterations):
            told = board.told if iteration or first_told is None else first_told
            for _ in range(game.vae_steps):
                batches = [_read(board, told, next(side)) for side in sides]
                parts = torch.stack([hiding_losses(game, players, batch, noise) for batch in batches]).sum(0)
                hiding.zero_grad()
                (parts @ weights).backward()  # type: ignore[no-untyped-call]
                hiding.step()
            for step in range(game.adversary_steps):
                if step:
                    batches = [_read(board, told, next(side)) for side in sides]
                seen = torch.stack([seeking_loss(players, batch) for batch in batches]).sum()
                seeking.zero_grad()
                seen.backward()  # type: ignore[no-untyped-call]
                seeking.step()
            losses[iteration, :-1], losses[iteration, -1] = parts.detach(), seen.detach()
    history = dict(zip(LOSSES, losses.T.cpu().numpy(), strict=True))
    if not game.supervised_weight:
        del history["supervised"]  # there is no supervised term
    return history


def hiding_losses(game: Game, players: Players, batch: Batch, noise: torch.Generator) -> Float[Tensor, "4"]:
    """The autoencoder's losses on one batch: reconstruction, KL, adversarial, supervised."""
    mean, log_variance = players.vae.encode(batch.x)
    drawn = torch.randn(mean.shape, generator=noise).to(mean.device)
    latent = mean + (log_variance / 2).exp() * drawn
    rebuilt = players.vae.decoder(torch.cat([latent, batch.told.sigmoid()], 1))
    logits = players.discriminator(torch.cat([mean, batch.told], 1))[:, 0]
    kl = kl_divergence(mean, log_variance, game.kl)
    adversary = functional.binary_cross_entropy_with_logits(logits, torch.ones_like(logits))
    supervised = _supervised_loss(game, players, batch, latent, kl)
    return torch.stack([functional.mse_loss(rebuilt, batch.x), kl, adversary, supervised])


def _supervised_loss(
    game: Game, players: Players, batch: Batch, latent: Float[Tensor, "b z"], kl: Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """Cross-entropy of the classes and a second KL term, on a batch that has labels."""
    if not game.supervised_weight:
        return torch.zeros_like(kl)
    known = batch.labels != UNLABELLED
    each = functional.cross_entropy(players.classifier(latent), batch.labels, ignore_index=UNLABELLED, reduction="sum")
    return torch.where(known.any(), each / known.sum().clip(1) + game.beta * kl, 0.0)


def seeking_loss(players: Players, batch: Batch) -> Float[Tensor, ""]:
    """The discriminator's loss on one batch. It does not update the autoencoder."""
    with torch.no_grad():
        mean, _ = players.vae.encode(batch.x)
    logits = players.discriminator(torch.cat([mean, batch.told], 1))[:, 0]
    return functional.binary_cross_entropy_with_logits(logits, batch.targets)


def _read(board: Board, told: Float[Tensor, "n e"], rows: Int[np.ndarray, "b"]) -> Batch:
    places = torch.from_numpy(rows).to(board.targets.device)
    return Batch(board.inputs(rows), told[places], board.targets[places], board.labels[places])


def shuffle_batches(rows: Int[np.ndarray, "m"], size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Endless batches of one size: every row comes once before any comes again."""
    queue, size = rows[:0], min(size, len(rows))
    while True:
        while len(queue) < size:
            queue = np.concatenate([queue, rng.permutation(rows)])
        yield queue[:size]
        queue = queue[size:]


@torch.no_grad()
def discriminator_logits(players: Players, board: Board, rows: Int[np.ndarray, "m"]) -> Float[Tensor, "m"]:
    """The discriminator's logits for some rows, in eval mode."""
    mean = encode_rows(players.vae, board.inputs, rows)
    told = board.told[torch.from_numpy(rows).to(board.told.device)]
    return players.discriminator.eval()(torch.cat([mean, told], 1))[:, 0]


class AdversarialStrategy:
    """What VAAL and its variants share. Each has the settings of `Game` as fields of the same names."""

    on: On
    iterations: int | None
    batch_size: int
    history: History

    def __post_init__(self) -> None:
        check_on(self.on)
        check_iterations(self.iterations)
        game_of(self)

    def train(
        self, game: Game, board: Board, n_rows: int, rng: np.random.Generator, random_start: bool = False
    ) -> Players:
        """Train new networks; without `iterations`, for a hundred epochs over `n_rows` rows.

        `random_start`: in the first iteration the extra inputs are uniform random numbers.
        """
        if self.iterations is None:
            on_images = isinstance(board.inputs, ImageInputs)
            check_duration(type(self).__name__, n_rows, self.batch_size, board.targets.device, on_images)
        players = make_players(game, board, rng)
        iterations = self.iterations or passes_over(n_rows, self.batch_size)
        first_told = None
        if random_start:
            drawn = rng.random(tuple(board.told.shape), dtype=np.float32)
            first_told = torch.from_numpy(drawn).to(board.told.device)
        self.history = play(game, players, board, iterations, rng, first_told)
        return players


def choose_by_discriminator(players: Players, board: Board, rows: Int[Tensor, "m"], n: int) -> Picks:
    """The n open rows that the discriminator finds least like the labelled ones."""
    return least_like_labelled(rows, discriminator_logits(players, board, board.others), n)


def least_like_labelled(rows: Int[Tensor, "m"], logits: Float[Tensor, "m"], n: int) -> Picks:
    """The n rows of smallest D, with scores 1 - D. Ranked by the logit, which does not saturate."""
    chosen = top(rows, -logits, n)
    shares = torch.sigmoid(-logits.double())
    return Picks(chosen.rows, torch.from_numpy(chosen.scores).sigmoid().numpy(), steady_utilities(rows, shares, n))
