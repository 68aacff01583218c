"""Heads: small perceptrons on fixed features, one or many trained at once."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.learners.protocol import Job, Offer, Setup, Takes, TrainingHook, checked_training_set
from understudy.learners.stack import ACTIVATIONS, Activation, Outputs, Stack, draw_stack, entropy_slope, gradient_norms
from understudy.learners.training import Recipe, Tick, progress_bar, train

BLOCK: Final = 8192  # rows a prediction takes at a time
Scaling = Literal["none", "columns", "whole"]

NOISE_STREAM: Final = 1  # beside the seed: noise has random numbers of its own
NOISE_LEVELS: Final = 256  # a mask is drawn from bytes, so that dropout is a multiple of 1/256


@dataclass(frozen=True)
class Head:
    """Features - hidden layers - classes. As it stands: the paper's, trained from scratch on raw features.

    `dropout` follows every hidden layer. `scaling` brings features to mean 0 and deviation 1 of the labelled items:
    `columns` each by itself, `whole` all by one factor, which keeps principal components as unequal as they were. The
    model does the same with what it is asked about.
    """

    hidden: tuple[int, ...] = (300, 300, 300)
    activation: Activation = "tanh"
    dropout: float = 0.0
    scaling: Scaling = "none"
    recipe: Recipe = field(default_factory=Recipe)
    device: str = "cpu"

    takes: Takes = field(default="features", init=False)
    offers: frozenset[Offer] = field(
        default=frozenset({"logits", "features", "activations", "stochastic", "gradients", "hook"}), init=False
    )

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise UnderstudyError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {self.activation!r}")
        if self.scaling not in get_args(Scaling):
            raise UnderstudyError(f"scaling must be one of {', '.join(get_args(Scaling))}; got {self.scaling!r}")
        if not self.hidden or min(self.hidden) < 1:
            raise UnderstudyError(f"hidden must be widths of at least one layer, each 1 or more; got {self.hidden}")
        checked_dropout(self.dropout)

    def fit(
        self,
        inputs: np.ndarray,
        labels: np.ndarray,
        n_classes: int,
        *,
        seed: int = 0,
        hook: TrainingHook | None = None,
        progress: bool = False,
    ) -> "HeadModel":
        """One head, trained from scratch."""
        return self.fit_many([Job(inputs, labels, seed)], n_classes, hook=hook, progress=progress)[0]

    def fit_many(
        self, jobs: Sequence[Job], n_classes: int, *, hook: TrainingHook | None = None, progress: bool = False
    ) -> list["HeadModel"]:
        """A head a job, in the order of the jobs. Those with equally many labels are trained as one.

        Each is the head that `fit` gives for the same job, up to rounding.
        """
        checked = [(*checked_training_set(job.inputs, job.labels, n_classes, axes=2), job.seed) for job in jobs]
        groups: dict[tuple[int, ...], list[int]] = {}
        for place, (inputs, _, _) in enumerate(checked):
            groups.setdefault(inputs.shape, []).append(place)
        if hook is not None and len(groups) > 1:
            raise UnderstudyError(
                f"a hook trains heads of one shape at a time; got {sorted(groups)}: call once for each"
            )
        models: dict[int, HeadModel] = {}
        for shape, places in groups.items():
            with progress_bar(progress, f"{len(places)} x {shape[0]:,} labels", self.recipe.epochs) as tick:
                group = [checked[place] for place in places]
                models.update(zip(places, self.fit_group(group, n_classes, hook, tick), strict=True))
        return [models[place] for place in range(len(jobs))]

    def fit_group(
        self,
        group: list[tuple[np.ndarray, np.ndarray, int]],
        n_classes: int,
        hook: TrainingHook | None,
        tick: Tick | None,
    ) -> list["HeadModel"]:
        """Heads with equally many labels. On a CPU of several threads each takes its share of the heads.

        Sharing out heads keeps two cores busier than sharing out each small product.
        """
        threads = 1 if hook is not None or self.device != "cpu" else min(torch.get_num_threads(), len(group))
        if threads == 1:
            return self.fit_stack(group, n_classes, hook, tick, Event())
        stop, before = Event(), torch.get_num_threads()
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            shares = [group[i::threads] for i in range(threads)]
            ticks = [tick, *[None] * (threads - 1)]
            parts = [
                pool.submit(self.fit_stack, share, n_classes, None, tick, stop)
                for share, tick in zip(shares, ticks, strict=True)
            ]
            try:
                wait(parts, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt:
                pass  # all end with what they have learnt so far
            finally:
                stop.set()
        torch.set_num_threads(before)
        found = [part.result() for part in parts]
        return [found[place % threads][place // threads] for place in range(len(group))]

    def fit_stack(
        self,
        group: list[tuple[np.ndarray, np.ndarray, int]],
        n_classes: int,
        hook: TrainingHook | None,
        tick: Tick | None,
        stop: Event,
    ) -> list["HeadModel"]:
        trainee = HeadsInTraining(self, group, n_classes)
        if hook is not None:
            inputs, seeds = [inputs for inputs, _, _ in group], tuple(seed for _, _, seed in group)
            hook.begin(Setup(inputs, trainee.labels, seeds, n_classes, self.hidden, self.recipe.epochs))
        epochs = train(trainee, self.recipe, trainee.generators, hook, tick, stop)
        return [
            HeadModel(
                trainee.stack.pick(j), trainee.shift[j], trainee.scale[j], n_classes, self.dropout,
                interrupted=epochs < self.recipe.epochs,
            )
            for j in range(len(group))
        ]  # fmt: skip


class HeadsInTraining:
    """The items of m heads, one after the other, and the heads' weights."""

    recordable = True

    def __init__(self, head: Head, group: list[tuple[np.ndarray, np.ndarray, int]], n_classes: int) -> None:
        device = torch.device(head.device)
        self.head = head
        self.generators = [torch.Generator().manual_seed(seed) for _, _, seed in group]
        self.sources = [noise_source(seed, device) for _, _, seed in group]
        inputs = torch.from_numpy(np.stack([inputs.astype(np.float32, copy=False) for inputs, _, _ in group]))
        m, n, d = inputs.shape
        self.shift, self.scale = torch.zeros(m, d, device=device), torch.ones(m, d, device=device)
        inputs = inputs.to(device)
        if head.scaling != "none":
            self.shift = inputs.mean(1)
            spread = inputs.std(1, correction=0)
            if head.scaling == "whole":
                spread = (spread**2).mean(1, keepdim=True).sqrt().expand(m, d)
            # A column that is constant among the labelled items says nothing about their classes.
            self.scale = torch.where(spread > 0, 1 / spread, 0.0)
            inputs = (inputs - self.shift[:, None]) * self.scale[:, None]
        self.flat = inputs.reshape(m * n, d)
        self.first = torch.arange(0, m * n, n, device=device)[:, None]
        self.labels = torch.from_numpy(np.stack([labels for _, labels, _ in group])).to(device)
        self.stack = draw_stack((d, *head.hidden, n_classes), head.activation, self.generators, device)
        self.drawn: tuple[Tensor, ...] = ()

    def parameters(self) -> list[Tensor]:
        return [parameter.requires_grad_() for parameter in self.stack.parameters]

    def start_epoch(self, epoch: int) -> None:
        if self.head.dropout:
            n, widths = self.labels.shape[1], self.head.hidden
            drawn = torch.stack([draw_bytes((n, sum(widths)), source) for source in self.sources])
            self.drawn = tuple(torch.split(drawn, list(widths), dim=2))

    def noise(self, places: slice) -> tuple[Tensor, ...]:
        return tuple(drawn[:, places] for drawn in self.drawn)

    def __call__(self, rows: Int[Tensor, "m b"], noise: tuple[Tensor, ...]) -> Outputs:
        inputs = self.flat.index_select(0, (rows + self.first).flatten()).view(*rows.shape, -1)
        return self.stack(inputs, [as_mask(drawn, self.head.dropout) for drawn in noise])


@dataclass(frozen=True, eq=False)
class HeadModel:
    """A trained head. All methods take features (n, d), and blocks of them at a time."""

    stack: Stack  # of one
    shift: Float[Tensor, "d"]
    scale: Float[Tensor, "d"]
    n_classes: int
    dropout: float = 0.0
    interrupted: bool = False

    def predict_proba(self, inputs: np.ndarray) -> Float[np.ndarray, "n c"]:
        """Class probabilities."""
        return self.collect(inputs, lambda block: self.stack(block[None]).logits[0].softmax(1))

    def logits(self, inputs: np.ndarray) -> Float[np.ndarray, "n c"]:
        """What the softmax is taken of."""
        return self.collect(inputs, lambda block: self.stack(block[None]).logits[0])

    def features(self, inputs: np.ndarray) -> Float[np.ndarray, "n h"]:
        """Outputs of the last hidden layer."""
        return self.collect(inputs, lambda block: self.stack(block[None]).hidden[-1][0])

    def activations(self, inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Outputs of every hidden layer, first to last, each (n, width)."""
        joined = self.collect(inputs, lambda block: torch.cat(self.stack(block[None]).hidden, dim=2)[0])
        widths = [weight.shape[2] for weight in self.stack.weights[:-1]]
        return tuple(np.split(joined, np.cumsum(widths)[:-1], axis=1))

    def stochastic_proba(
        self, inputs: np.ndarray, passes: int, *, seed: int = 0, dropout: float | None = None
    ) -> Float[np.ndarray, "n k c"]:
        """Class probabilities under k random halves of the network: dropout is on, and nothing else is random.

        A pass uses one mask for all items, so that what it says of two items may be taken jointly. `dropout` is the
        rate of training unless given; a head that was trained without needs one.
        """
        rate = checked_dropout(self.dropout if dropout is None else dropout)
        if not rate:
            raise UnderstudyError(
                "this head was trained without dropout, so all passes are the same; give dropout=0.5, say"
            )
        if passes < 1:
            raise UnderstudyError(f"passes must be 1 or more; got {passes}")
        rng = np.random.default_rng([seed, NOISE_STREAM])
        widths = [weight.shape[2] for weight in self.stack.weights[:-1]]
        drawn = [as_mask(draw_bytes((passes, 1, width), rng).to(self.shift.device), rate) for width in widths]

        def block_of_passes(block: Float[Tensor, "b d"]) -> Float[Tensor, "b k c"]:
            masks = [[mask[k : k + 1] for mask in drawn] for k in range(passes)]
            return torch.stack([self.stack(block[None], masks[k]).logits[0].softmax(1) for k in range(passes)], dim=1)

        return self.collect(inputs, block_of_passes)

    def gradient_norms(
        self, inputs: np.ndarray, of: Literal["entropy", "expected"] = "entropy", layers: Literal["all", "last"] = "all"
    ) -> Float[np.ndarray, "n"]:
        """Length of each item's gradient: one length a weight matrix and bias, summed.

        `entropy`: of the entropy of its prediction. `expected`: of its cross-entropy with each class in turn, weighted
        by the predicted probability of that class; c times the work.
        """
        if of not in ("entropy", "expected") or layers not in ("all", "last"):
            raise UnderstudyError(f"of is 'entropy' or 'expected', layers 'all' or 'last'; got {of!r}, {layers!r}")

        def lengths(block: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
            outputs, stack = self.stack(block[None]), self.stack
            if layers == "last":
                block, outputs = outputs.hidden[-1][0], Outputs((), outputs.logits)
                stack = Stack(stack.weights[-1:], stack.biases[-1:], stack.activation)
            logits = outputs.logits[0]
            if of == "entropy":
                return gradient_norms(stack, block, outputs, entropy_slope(logits))
            probs = logits.softmax(1)
            total = torch.zeros_like(probs[:, 0])
            for label in range(self.n_classes):
                slope = probs.clone()
                slope[:, label] -= 1
                total += probs[:, label] * gradient_norms(stack, block, outputs, slope)
            return total

        return self.collect(inputs, lengths)

    def collect(self, inputs: np.ndarray, function: Any) -> np.ndarray:
        """What the function makes of all blocks of the inputs, one below the other."""
        inputs = np.asarray(inputs)
        if inputs.ndim != 2 or inputs.shape[1] != len(self.shift):
            raise UnderstudyError(f"this head takes {len(self.shift)} columns of features; got shape {inputs.shape}")
        with torch.inference_mode():
            # An empty block shows the shape of the answer where there are no rows.
            return np.concatenate([function(block).cpu().numpy() for block in self.blocks(inputs)])

    def blocks(self, inputs: np.ndarray) -> Iterator[Float[Tensor, "b d"]]:
        for start in range(0, max(len(inputs), 1), BLOCK):
            block = torch.from_numpy(np.array(inputs[start : start + BLOCK], dtype=np.float32)).to(self.shift.device)
            yield (block - self.shift) * self.scale


NoiseSource = np.random.Generator | torch.Generator


def noise_source(seed: int, device: torch.device) -> NoiseSource:
    """Where noise on this device comes from. A GPU draws its own: fetching it would take longer than using it."""
    stream = np.random.default_rng([seed, NOISE_STREAM])
    return stream if device.type == "cpu" else torch.Generator(device).manual_seed(int(stream.integers(2**63)))


def draw_bytes(shape: tuple[int, ...], source: NoiseSource) -> UInt8[Tensor, "..."]:
    """Uniform bytes, the cheapest noise there is."""
    if isinstance(source, torch.Generator):
        return torch.randint(256, shape, dtype=torch.uint8, generator=source, device=source.device)
    return torch.frombuffer(bytearray(source.bytes(math.prod(shape))), dtype=torch.uint8).view(shape)


def as_mask(drawn: Tensor, dropout: float) -> Tensor:
    """0 for that share of the bytes, 1 / (share kept) for the others; as float32."""
    lost = round(dropout * NOISE_LEVELS)
    return (drawn >= lost).float() * (NOISE_LEVELS / (NOISE_LEVELS - lost))


def checked_dropout(rate: float) -> float:
    if not 0 <= rate <= (NOISE_LEVELS - 1) / NOISE_LEVELS:
        raise UnderstudyError(f"dropout must be 0 or more and below 1; got {rate}")
    return rate
