"""A network trained end to end on small images: ResNet18 with a stem for 32 to 64 pixels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from understudy.core.checks import check_device
from understudy.errors import UnderstudyError
from understudy.hooks import Setup, TrainingHook
from understudy.learners.gradients import GradientOf, Layers, check_gradients, join_lengths, slopes
from understudy.learners.noise import NOISE_STREAM, as_mask, check_dropout, draw_bytes
from understudy.learners.protocol import Offer, Takes, check_seed, check_training_set
from understudy.learners.stack import Outputs
from understudy.learners.training import Recipe, cut_batches, progress_bar, train, with_gradients

WIDTHS: Final = (64, 128, 256, 512)
SIDES: Final = range(16, 129)  # below, the last stage has no spatial extent left; above, the stem is too fine
BORDER: Final = 4  # pixels by which augmentation may shift an image
IMAGES_PER_BLOCK: Final = 512  # predicted at a time


@dataclass(frozen=True)
class Network:
    """ResNet18 from scratch. Images are bytes, (n, height, width) or (n, height, width, channels).

    Channels are standardised by the labelled images. With `augment`, an image is randomly shifted by up to
    four pixels and flipped whenever it is trained on. On a GPU matrix products run in bfloat16.
    """

    augment: bool = True
    dropout: float = 0.0  # before the last layer
    recipe: Recipe = field(
        default_factory=lambda: Recipe(learning_rate=0.1, batch_size=128, epochs=100, schedule="one_cycle")
    )
    device: str = "cpu"

    takes: Takes = field(default="images", init=False)
    offers: frozenset[Offer] = field(
        default=frozenset({"logits", "features", "activations", "stochastic", "gradients", "hook"}), init=False
    )

    def __post_init__(self) -> None:
        check_dropout(self.dropout)
        check_device(self.device)

    @with_gradients
    def fit(
        self,
        inputs: UInt8[np.ndarray, "n h w *channels"],
        labels: np.ndarray,
        n_classes: int,
        *,
        seed: int = 0,
        hook: TrainingHook | None = None,
        progress: bool = False,
    ) -> "NetworkModel":
        """One network, trained from scratch."""
        images, labels = check_training_set(_with_channels(inputs), labels, n_classes, axes=4)
        seed, recipe = check_seed(seed), self.recipe
        trainee = NetworkInTraining(self, images, labels, n_classes, seed)
        if hook is not None:
            hook.begin(Setup([inputs], trainee.labels, (seed,), n_classes, WIDTHS, recipe.epochs))
            recipe = replace(recipe, weight_decay=hook.weight_decay(recipe.weight_decay, len(labels)))
        # Convolutions are not deterministic unless asked to be.
        with (
            torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False),
            progress_bar(progress, f"{len(labels):,} labels", recipe.epochs) as tick,
        ):
            epochs = train(trainee, recipe, [torch.Generator().manual_seed(seed)], hook, tick)
            trainee.settle_norms()
        trainee.net.eval().requires_grad_(False)
        interrupted = epochs < recipe.epochs
        return NetworkModel(trainee.net, trainee.shift, trainee.scale, n_classes, self.dropout, interrupted)


class NetworkInTraining:
    """The images and the network of one training."""

    wants_even_batches = True  # otherwise statistics of one or two images would enter its batch norms
    recordable = False  # its kernels are large, and a warm-up step would change the batch norms' statistics

    def __init__(self, learner: Network, images: np.ndarray, labels: np.ndarray, n_classes: int, seed: int) -> None:
        device = torch.device(learner.device)
        self.learner = learner
        self.rng = np.random.default_rng([seed, NOISE_STREAM])
        with torch.random.fork_rng(devices=[]):  # layers use the global generator, which is left as it was
            torch.default_generator.manual_seed(seed)  # only the CPU's: a GPU's generator is not ours to reseed
            self.net = ResNet18(images.shape[3], n_classes)
        self.net.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.images = torch.from_numpy(np.ascontiguousarray(images)).to(device)
        self.labels = torch.from_numpy(labels).to(device)[None]
        self.shift, spread = channel_statistics(self.images)
        self.scale = torch.where(spread > 0, 1 / spread, 1.0)
        self.drawn: tuple[Tensor, ...] = ()

    def parameters(self) -> list[Tensor]:
        return list(self.net.parameters())

    @torch.no_grad()
    def settle_norms(self) -> None:
        """Recompute the batch norms' statistics over all images, without augmentation.

        After a short training the running ones still reflect early weights and single odd batches.
        """
        norms = [module for module in self.net.modules() if isinstance(module, nn.BatchNorm2d)]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean of all batches
        self.net.train()
        for places in cut_batches(len(self.images), self.learner.recipe.batch_size, evenly=True):
            images = as_input(self.images[places], self.shift, self.scale)
            with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
                self.net(images)

    def start_epoch(self, epoch: int) -> None:
        n, device = self.labels.shape[1], self.labels.device
        moves = torch.from_numpy(self.rng.integers(0, 2 * BORDER + 1, (2, n)))
        mirrored = torch.from_numpy(self.rng.integers(0, 2, n)).bool()
        kept = as_mask(draw_bytes((n, WIDTHS[-1]), self.rng), self.learner.dropout)
        self.drawn = (*moves.to(device), mirrored.to(device), kept.to(device))

    def noise(self, places: slice) -> tuple[Tensor, ...]:
        return tuple(drawn[places] for drawn in self.drawn)

    def __call__(self, rows: Int[Tensor, "1 b"], noise: tuple[Tensor, ...]) -> Outputs:
        down, right, mirrored, kept = noise
        images = as_input(self.images[rows[0]], self.shift, self.scale)
        if self.learner.augment:
            images = move_images(images, down, right, mirrored)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
            hidden, logits = self.net(images, kept if self.learner.dropout else None)
        return Outputs(tuple(layer[None].float() for layer in hidden), logits[None].float())


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A trained network. All methods take images as bytes and process them in blocks."""

    net: "ResNet18"
    shift: Float[Tensor, "channels"]
    scale: Float[Tensor, "channels"]
    n_classes: int
    dropout: float = 0.0
    interrupted: bool = False
    images_per_block: int = IMAGES_PER_BLOCK

    def predict_proba(self, inputs: np.ndarray) -> Float[np.ndarray, "n c"]:
        """Class probabilities."""
        return self.collect(inputs, lambda images: self.net(images)[1].float().softmax(1))

    def logits(self, inputs: np.ndarray) -> Float[np.ndarray, "n c"]:
        """Logits, the inputs of the softmax."""
        return self.collect(inputs, lambda images: self.net(images)[1].float())

    def features(self, inputs: np.ndarray) -> Float[np.ndarray, "n h"]:
        """Outputs of the last stage, averaged over the image: (n, 512)."""
        return self.collect(inputs, lambda images: self.net(images)[0][-1].float())

    def activations(self, inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Outputs of every stage, averaged over the image: (n, 64), (n, 128), (n, 256), (n, 512)."""
        joined = self.collect(inputs, lambda images: torch.cat(self.net(images)[0], dim=1).float())
        return tuple(np.split(joined, np.cumsum(WIDTHS)[:-1], axis=1))

    def stochastic_proba(
        self, inputs: np.ndarray, passes: int, *, seed: int = 0, dropout: float | None = None
    ) -> Float[np.ndarray, "n k c"]:
        """Class probabilities from k passes with dropout on the last features, each with one mask for all images."""
        rate = check_dropout(self.dropout if dropout is None else dropout)
        if not rate or passes < 1:
            raise UnderstudyError(f"passes must be at least 1 and dropout above 0; got {passes} and {rate}")
        rng = np.random.default_rng([seed, NOISE_STREAM])
        masks = as_mask(draw_bytes((passes, WIDTHS[-1]), rng), rate).to(self.shift.device)

        def block_of_passes(images: Tensor) -> Float[Tensor, "b k c"]:
            features = self.net(images)[0][-1].float()
            return self.net.last(features[:, None] * masks).float().softmax(2)

        return self.collect(inputs, block_of_passes)

    def gradient_norms(
        self, inputs: np.ndarray, of: GradientOf = "entropy", layers: Layers = "all"
    ) -> Float[np.ndarray, "n"]:
        """Gradient norm of each image.

        `entropy`: of the entropy of its prediction, the sum of one norm per parameter tensor. `each_class`: of its
        cross-entropy with each class in turn, all parameters being one vector, weighted by the probability of that
        class, which is the expected gradient length; c times the work.
        Each image costs its own backward pass, unless only the last layer is asked for.
        """
        check_gradients(of, layers)
        lengths = self.last_lengths if layers == "last" else self.all_lengths
        return self.collect(inputs, lambda images: lengths(images, of))

    def last_lengths(self, images: Tensor, of: GradientOf) -> Float[Tensor, "b"]:
        hidden, logits = self.net(images)
        total = torch.zeros_like(logits[:, 0], dtype=torch.float32)
        before = hidden[-1].float().norm(dim=1)
        factor = join_lengths(
            of, torch.stack([before, torch.ones_like(before)], dim=1)
        )  # the weights, and 1 for the bias
        for weight, slope in slopes(of, logits.float()):
            total += weight * slope.norm(dim=1) * factor
        return total

    def all_lengths(self, images: Tensor, of: GradientOf) -> Float[Tensor, "b"]:
        parameters = {name: value.detach() for name, value in self.net.named_parameters()}

        def along(parameters: dict[str, Tensor], image: Tensor, slope: Tensor) -> Tensor:
            # The gradient of this inner product is that of a loss whose gradient at the logits is the slope.
            return (functional_call(self.net, parameters, (image[None],))[1][0] * slope).sum()

        each_gradient = vmap(grad(along), in_dims=(None, 0, 0))
        found = []
        for few in torch.split(images, 16):  # all gradients of one image: 45 MB
            total = torch.zeros(len(few), device=few.device)
            for weight, slope in slopes(of, self.net(few)[1].float()):
                gradients = each_gradient(parameters, few, slope)
                each = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients.values()], dim=1)
                total += weight * join_lengths(of, each)
            found.append(total)
        return torch.cat(found) if found else images.new_zeros(0)

    def collect(self, inputs: np.ndarray, function: Callable[[Tensor], Any]) -> np.ndarray:
        images = _with_channels(inputs)
        if images.shape[3] != len(self.shift):
            raise UnderstudyError(f"this network takes images of {len(self.shift)} channels; got shape {images.shape}")
        with torch.no_grad(), torch.autocast(self.shift.device.type, torch.bfloat16, enabled=self.shift.is_cuda):
            return np.concatenate([function(block).float().cpu().numpy() for block in self.blocks(images)])

    def blocks(self, images: np.ndarray) -> Iterator[Tensor]:
        for start in range(0, max(len(images), 1), self.images_per_block):
            block = torch.from_numpy(np.array(images[start : start + self.images_per_block])).to(self.shift.device)
            yield as_input(block, self.shift, self.scale)


class ResNet18(nn.Module):
    """Four stages of two residual blocks. The stem keeps every pixel: a 3 x 3 convolution, no pooling."""

    def __init__(self, channels: int, n_classes: int) -> None:
        super().__init__()
        self.stem = _convolution(channels, WIDTHS[0], 3, 1)
        before = (WIDTHS[0], *WIDTHS[:-1])
        self.stages = nn.ModuleList(
            nn.Sequential(Residual(inner, outer, 1 if i == 0 else 2), Residual(outer, outer, 1))
            for i, (inner, outer) in enumerate(zip(before, WIDTHS, strict=True))
        )
        self.last = nn.Linear(WIDTHS[-1], n_classes)

    def forward(self, images: Tensor, kept: Tensor | None = None) -> tuple[tuple[Tensor, ...], Tensor]:
        """The stages' outputs averaged over the image, and logits."""
        values = torch.relu(self.stem(images))
        hidden = []
        for stage in self.stages:
            values = stage(values)
            hidden.append(values.mean((2, 3)))
        if kept is not None:
            hidden[-1] = hidden[-1] * kept
        return tuple(hidden), self.last(hidden[-1])


class Residual(nn.Module):
    """Two 3 x 3 convolutions with a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inner, outer, 3, stride)
        self.second = _convolution(outer, outer, 3, 1)
        same = inner == outer and stride == 1
        self.shortcut = nn.Identity() if same else _convolution(inner, outer, 1, stride)

    def forward(self, values: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(values))) + self.shortcut(values))


def _convolution(inner: int, outer: int, side: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inner, outer, side, stride, padding=side // 2, bias=False), nn.BatchNorm2d(outer))


def move_images(
    images: Float[Tensor, "b ch h w"], down: Int[Tensor, "b"], right: Int[Tensor, "b"], mirrored: Tensor
) -> Float[Tensor, "b ch h w"]:
    """Pad each image with zeros, crop it at its own offset, and flip it where `mirrored`."""
    height, width = images.shape[2:]
    bordered = nn.functional.pad(images, (BORDER,) * 4)
    lines = down[:, None] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(len(images), -1)
    columns = right[:, None] + torch.where(mirrored[:, None], width - 1 - columns, columns)
    which = torch.arange(len(images), device=images.device)[:, None, None]
    return bordered.permute(0, 2, 3, 1)[which, lines[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def channel_statistics(images: UInt8[Tensor, "n h w ch"]) -> tuple[Float[Tensor, "ch"], Float[Tensor, "ch"]]:
    """Mean and standard deviation of each channel, from a histogram of its 256 values."""
    values = torch.arange(256, dtype=torch.float64, device=images.device)
    shares = [
        torch.bincount(channel.flatten(), minlength=256).double() / channel.numel() for channel in images.unbind(3)
    ]
    means = [(share * values).sum() for share in shares]
    squares = [(share * (values - mean) ** 2).sum() for share, mean in zip(shares, means, strict=True)]
    return torch.stack(means).float(), torch.stack(squares).sqrt().float()


def as_input(images: UInt8[Tensor, "b h w ch"], shift: Tensor, scale: Tensor) -> Float[Tensor, "b ch h w"]:
    return ((images.float() - shift) * scale).permute(0, 3, 1, 2)


def _with_channels(images: np.ndarray) -> np.ndarray:
    """Images with their channels last, grey ones too; checked."""
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise UnderstudyError(
            f"images must be bytes of shape (n, height, width) or (n, height, width, channels); "
            f"got {images.dtype} of shape {images.shape}"
        )
    if not all(side in SIDES for side in images.shape[1:3]):
        raise UnderstudyError(
            f"this network is for sides of {SIDES.start} to {SIDES.stop - 1} pixels, best 32 to 64; "
            f"got {images.shape[1]} x {images.shape[2]}: resize the images, or use an encoder and a head"
        )
    return images[..., None] if images.ndim == 3 else images
