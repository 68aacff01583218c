"""BGADL: rows by BALD or the variation ratio, and a generated variant of every labelled image for training."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.core.checks import check_device
from understudy.errors import UnderstudyError
from understudy.strategies.adversary import check_iterations, passes_over, shuffle_batches
from understudy.strategies.autoencoders import (
    ROWS_PER_BLOCK,
    Autoencoder,
    ImageInputs,
    convolutions,
    encode_rows,
    from_square,
    kl_divergence,
    make_autoencoder,
    start_kaiming,
)
from understudy.strategies.bald import mutual_information, stochastic_needs, variation_ratio
from understudy.strategies.protocol import Needs
from understudy.strategies.randomness import seeded_layers, torch_generator
from understudy.strategies.ranking import top
from understudy.strategies.view import Picks, PoolView

Score = Literal["bald", "variation_ratio"]
SCORES: Final = {"bald": mutual_information, "variation_ratio": variation_ratio}


class Critic(nn.Module):
    """A discriminator and classifier of images: real or generated, and which class."""

    def __init__(self, channels: int, n_classes: int) -> None:
        super().__init__()
        self.trunk, width = convolutions(channels)
        start_kaiming(self.trunk)
        self.real = nn.Linear(width, 1)
        self.classes = nn.Linear(width, n_classes)

    def forward(self, x: Float[Tensor, "b ch h w"]) -> tuple[Float[Tensor, "b"], Float[Tensor, "b c"]]:
        """Logits of real or generated, and of the classes."""
        hidden = self.trunk(x)
        return self.real(hidden)[:, 0], self.classes(hidden)


@dataclass(frozen=True)
class Bgadl:
    """The rows of highest score in a random subset; `augment` doubles the training set."""

    score: Score = "bald"
    passes: int = 20
    dropout: float = 0.5
    subset_size: int | None = 2000
    # Settings of the generator that `augment` trains:
    iterations: int | None = None  # None: 100 epochs over the labelled images
    beta: float = 1.0  # weight of the KL divergence
    latent: int = 32
    batch_size: int = 100
    learning_rate: float = 5e-4
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_choice("score", self.score, get_args(Score))
        stochastic_needs(self.passes, self.dropout)
        check_iterations(self.iterations)
        for name in ("latent", "batch_size") if self.subset_size is None else ("latent", "batch_size", "subset_size"):
            check_whole_number(name, getattr(self, name), 1)
        check_number("beta", self.beta, least=0)
        check_number("learning_rate", self.learning_rate, above=0)
        check_device(self.device)

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"stochastic", "images"}), passes=self.passes, dropout=self.dropout)

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        rows = view.candidates(n, self.subset_size, rng)
        _ = view.images  # `augment` needs them: fail before anything is labelled
        return top(rows, SCORES[self.score](view.stochastic, rows), n)

    def augment(
        self, images: np.ndarray, labels: np.ndarray, n_classes: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """One generated image per image, by a generator trained on all of them, with the same label."""
        if len(images) != len(labels) or not len(labels):
            raise UnderstudyError(f"pass some images and one label for each; got {len(images)} and {len(labels)}")
        inputs = ImageInputs(images, torch.device(self.device))
        vae = self.train(inputs, torch.from_numpy(np.asarray(labels, np.int64)), n_classes, rng)
        made = [
            _rebuild_images(vae, inputs, rows, images.shape[1:3])
            for rows in np.array_split(np.arange(len(images)), -(-len(images) // ROWS_PER_BLOCK))
        ]
        return np.concatenate(made).reshape(images.shape), np.array(labels)

    def train(
        self, inputs: ImageInputs, labels: Int[Tensor, "n"], n_classes: int, rng: np.random.Generator
    ) -> Autoencoder:
        """Train autoencoder and critic in turn: one step of each per batch."""
        with seeded_layers(rng):
            vae = make_autoencoder(inputs.shape, self.latent)
            critic = Critic(inputs.shape[0], n_classes)
        vae.to(inputs.device).train()
        critic.to(inputs.device).train()
        making = torch.optim.Adam(vae.parameters(), self.learning_rate)
        judging = torch.optim.Adam(critic.parameters(), self.learning_rate)
        noise, labels = torch_generator(rng), labels.to(inputs.device)
        batches = shuffle_batches(np.arange(len(labels)), self.batch_size, rng)
        iterations = self.iterations or passes_over(len(labels), self.batch_size)
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False):
            for _ in range(iterations):
                rows = next(batches)
                x, y = inputs(rows), labels[torch.from_numpy(rows).to(inputs.device)]
                mean, log_variance = vae.encode(x)
                drawn = torch.randn(mean.shape, generator=noise).to(mean.device)
                made = vae.decoder(mean + (log_variance / 2).exp() * drawn)
                judged = critic_loss(critic, x, made.detach(), y)
                judging.zero_grad()
                judged.backward()  # type: ignore[no-untyped-call]
                judging.step()
                fitted = functional.mse_loss(made, x) + self.beta * kl_divergence(mean, log_variance, "mean")
                making.zero_grad()
                (fitted + _critic_loss_of(critic, made, y, real=True)).backward()  # type: ignore[no-untyped-call]
                making.step()
        return vae


def critic_loss(
    critic: Critic, x: Float[Tensor, "b ch h w"], made: Float[Tensor, "b ch h w"], y: Int[Tensor, "b"]
) -> Float[Tensor, ""]:
    """The critic's loss: real images as real, generated ones as generated, and the class of both."""
    return _critic_loss_of(critic, x, y, real=True) + _critic_loss_of(critic, made, y, real=False)


def _critic_loss_of(critic: Critic, x: Float[Tensor, "b ch h w"], y: Int[Tensor, "b"], real: bool) -> Float[Tensor, ""]:
    """Loss of the critic on images that are all real or all generated, plus that of their classes."""
    state, classes = critic(x)
    target = torch.full_like(state, float(real))
    return functional.binary_cross_entropy_with_logits(state, target) + functional.cross_entropy(classes, y)


@torch.no_grad()
def _rebuild_images(
    vae: Autoencoder, inputs: ImageInputs, rows: Int[np.ndarray, "b"], size: tuple[int, int]
) -> np.ndarray:
    """The decoder's images from the means of the latents, as bytes of the original size."""
    return from_square(vae.decoder(encode_rows(vae, inputs, rows)), size).cpu().numpy()
