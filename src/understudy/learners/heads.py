"""Heads: small perceptrons on fixed features, one or many trained at once."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any, Final, Literal, TypeVar, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from understudy.checks import check_choice, check_whole_number
from understudy.core.checks import check_device
from understudy.errors import UnderstudyError
from understudy.hooks import Setup, TrainingHook
from understudy.learners.gradients import GradientOf, Layers, check_gradients, gradient_lengths, join_lengths, slopes
from understudy.learners.noise import NOISE_STREAM, as_mask, check_dropout, draw_bytes, noise_source
from understudy.learners.protocol import (
    Job,
    Offer,
    Takes,
    check_seed,
    check_training_set,
    first_unusable,
)
from understudy.learners.stack import ACTIVATIONS, Activation, Outputs, Stack, draw_stack
from understudy.learners.training import Recipe, Tick, let_interrupts_through, progress_bar, train, with_gradients

ROWS_PER_BLOCK: Final = 8192  # predicted at a time
Scaling = Literal["none", "columns", "whole"]
T = TypeVar("T")


@dataclass(frozen=True)
class Head:
    """Features - hidden layers - classes. The defaults are the paper's head, trained from scratch on raw features.

    `dropout` follows every hidden layer. `scaling` standardises features by the labelled items:
    `columns` scales each column by itself, `whole` all by one factor, which keeps the ratios of principal components.
    The model applies the same scaling to its inputs.
    """

    hidden: tuple[int, ...] = (300, 300, 300)
    activation: Activation = "tanh"
    dropout: float = 0.0
    scaling: Scaling = "none"
    recipe: Recipe = field(default_factory=Recipe)
    device: str = "cpu"

    takes: Takes = field(default="features", init=False)
    offers: frozenset[Offer] = field(
        default=frozenset({"logits", "features", "activations", "stochastic", "gradients", "hook", "many"}), init=False
    )

    def __post_init__(self) -> None:
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("scaling", self.scaling, get_args(Scaling))
        if not self.hidden or min(self.hidden) < 1:
            raise UnderstudyError(f"hidden must be one or more layer widths, each at least 1; got {self.hidden}")
        check_dropout(self.dropout)
        check_device(self.device)

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

    @with_gradients
    def fit_many(
        self, jobs: Sequence[Job], n_classes: int, *, hook: TrainingHook | None = None, progress: bool = False
    ) -> list["HeadModel"]:
        """One head per job, in the order of the jobs. Those with equally many labels are trained together.

        Each is the head that `fit` gives for the same job, up to rounding.
        """
        checked = [
            Job(*check_training_set(job.inputs, job.labels, n_classes, axes=2), check_seed(job.seed)) for job in jobs
        ]
        groups: dict[tuple[int, ...], list[int]] = {}
        for place, job in enumerate(checked):
            groups.setdefault(job.inputs.shape, []).append(place)
        if hook is not None and len(groups) > 1:
            raise UnderstudyError(
                f"with a hook all jobs must have the same shape; got {sorted(groups)}: call fit_many once for each"
            )
        models: dict[int, HeadModel] = {}
        stop = Event()  # shared by all: an interrupt should stop every group
        for shape, places in groups.items():
            with progress_bar(progress, f"{len(places)} x {shape[0]:,} labels", self.recipe.epochs) as tick:
                group = [checked[place] for place in places]
                models.update(zip(places, self.fit_group(group, n_classes, hook, tick, stop), strict=True))
        return [models[place] for place in range(len(jobs))]

    def fit_group(
        self, group: list[Job], n_classes: int, hook: TrainingHook | None, tick: Tick | None, stop: Event
    ) -> list["HeadModel"]:
        """Train heads with equally many labels. On a CPU with several threads, each trains a share of the heads.

        Splitting the heads keeps two cores busier than splitting each small matrix product.
        """
        recipe = self.recipe
        if hook is not None:
            labels = torch.from_numpy(np.stack([job.labels for job in group])).to(self.device)
            inputs, seeds = [job.inputs for job in group], tuple(job.seed for job in group)
            hook.begin(Setup(inputs, labels, seeds, n_classes, self.hidden, recipe.epochs))
            recipe = replace(recipe, weight_decay=hook.weight_decay(recipe.weight_decay, labels.shape[1]))
            hook = None if hook.keeps_loss else hook
        fit_stack = partial(self.fit_stack, recipe=recipe, n_classes=n_classes, hook=hook, stop=stop)
        on_cpu = torch.device(self.device).type == "cpu"
        threads = min(torch.get_num_threads(), len(group)) if on_cpu and hook is None else 1
        if threads == 1:
            return fit_stack(group, tick=tick)
        shares = [group[i::threads] for i in range(threads)]
        found = _in_threads(
            [partial(fit_stack, share, tick=None if i else tick) for i, share in enumerate(shares)], stop
        )
        return [found[place % threads][place // threads] for place in range(len(group))]

    def fit_stack(
        self,
        group: list[Job],
        recipe: Recipe,
        n_classes: int,
        hook: TrainingHook | None,
        tick: Tick | None,
        stop: Event,
    ) -> list["HeadModel"]:
        trainee = HeadsInTraining(self, group, n_classes)
        interrupted = train(trainee, recipe, trainee.generators, hook, tick, stop) < recipe.epochs
        return [
            HeadModel(trainee.stack.pick(j), trainee.shift[j], trainee.scale[j], n_classes, self.dropout, interrupted)
            for j in range(len(group))
        ]


def _in_threads(works: list[Callable[[], T]], stop: Event) -> list[T]:
    """Run each job in its own thread, with one torch thread each. An interrupt or error stops all."""
    before = torch.get_num_threads()
    let_interrupts_through()
    try:
        with ThreadPoolExecutor(len(works), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            parts: list[Future[T]] = []
            try:
                parts += [pool.submit(work) for work in works]
                wait(parts, return_when=FIRST_EXCEPTION)
                if any(part.done() and part.exception() for part in parts):
                    stop.set()
            except KeyboardInterrupt:
                stop.set()  # all stop and keep what they have learnt so far
                if len(parts) < len(works):
                    raise
            except BaseException:  # whatever ends the wait must end the threads, which are waited for
                stop.set()
                raise
        return [part.result() for part in parts]
    finally:
        torch.set_num_threads(before)  # otherwise threads started later would have just one, too


class HeadsInTraining:
    """The items of m heads, one after the other, and the heads' weights."""

    recordable = True
    wants_even_batches = False

    def __init__(self, head: Head, group: list[Job], n_classes: int) -> None:
        device = torch.device(head.device)
        self.head = head
        self.generators = [torch.Generator().manual_seed(job.seed) for job in group]
        self.sources = [noise_source(job.seed, device) for job in group]
        m, (n, d) = len(group), group[0].inputs.shape
        inputs = torch.empty(m, n, d, dtype=torch.float32, device=device)
        for j, job in enumerate(group):
            inputs[j] = torch.from_numpy(np.array(job.inputs, dtype=np.float32))
        self.shift, self.scale = inputs.new_zeros(m, d), inputs.new_ones(m, d)
        if head.scaling != "none":
            self.shift = inputs.mean(1)
            inputs -= self.shift[:, None]
            spread = torch.stack([(values**2).mean(0).sqrt() for values in inputs])
            if head.scaling == "whole":
                spread = (spread**2).mean(1, keepdim=True).sqrt().expand(m, d)
            # A column that is constant over the labelled items carries no information about their classes.
            self.scale = torch.where(spread > 0, 1 / spread, 0.0)
            inputs *= self.scale[:, None]
        self.flat = inputs.reshape(m * n, d)
        self.first = torch.arange(0, m * n, n, device=device)[:, None]
        self.labels = torch.from_numpy(np.stack([job.labels for job in group])).to(device)
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
    """A trained head. All methods take features (n, d) and process them in blocks."""

    stack: Stack  # of one
    shift: Float[Tensor, "d"]
    scale: Float[Tensor, "d"]
    n_classes: int
    dropout: float = 0.0
    interrupted: bool = False
    rows_per_block: int = ROWS_PER_BLOCK

    def predict_proba(self, inputs: np.ndarray) -> Float[np.ndarray, "n c"]:
        """Class probabilities."""
        return self.collect(inputs, lambda block: self.stack(block[None]).logits[0].softmax(1))

    def logits(self, inputs: np.ndarray) -> Float[np.ndarray, "n c"]:
        """Logits, the inputs of the softmax."""
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
        """Class probabilities from k passes with dropout on (MC dropout); nothing else is random.

        A pass uses one mask for all items, so that predictions of several items can be used jointly. `dropout` is the
        training rate unless given; a head that was trained without dropout needs one.
        """
        rate = check_dropout(self.dropout if dropout is None else dropout)
        if not rate:
            raise UnderstudyError(
                "this head was trained without dropout, so all passes would be the same; pass dropout=0.5, say"
            )
        check_whole_number("passes", passes, 1)
        rng = np.random.default_rng([seed, NOISE_STREAM])
        widths = [weight.shape[2] for weight in self.stack.weights[:-1]]
        drawn = [as_mask(draw_bytes((passes, 1, width), rng).to(self.shift.device), rate) for width in widths]

        def block_of_passes(block: Float[Tensor, "b d"]) -> Float[Tensor, "b k c"]:
            masks = [[mask[k : k + 1] for mask in drawn] for k in range(passes)]
            return torch.stack([self.stack(block[None], masks[k]).logits[0].softmax(1) for k in range(passes)], dim=1)

        return self.collect(inputs, block_of_passes)

    def gradient_norms(
        self, inputs: np.ndarray, of: GradientOf = "entropy", layers: Layers = "all"
    ) -> Float[np.ndarray, "n"]:
        """Gradient norm of each item.

        `entropy`: of the entropy of its prediction, one norm per weight matrix and bias, summed. `each_class`: of its
        cross-entropy with each class in turn, all parameters being one vector, weighted by the probability of that
        class, which is the expected gradient length; c times the work.
        """
        check_gradients(of, layers)

        def lengths(block: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
            outputs, stack = self.stack(block[None]), self.stack
            if layers == "last":
                block, outputs = outputs.hidden[-1][0], Outputs((), outputs.logits)
                stack = Stack(stack.weights[-1:], stack.biases[-1:], stack.activation)
            total = torch.zeros_like(block[:, 0])
            for weight, slope in slopes(of, outputs.logits[0]):
                total += weight * join_lengths(of, gradient_lengths(stack, block, outputs, slope))
            return total

        return self.collect(inputs, lengths)

    def collect(self, inputs: np.ndarray, function: Any) -> np.ndarray:
        """The function's outputs for all blocks of the inputs, concatenated."""
        inputs = np.asarray(inputs)
        if inputs.ndim != 2 or inputs.shape[1] != len(self.shift):
            raise UnderstudyError(f"this head takes {len(self.shift)} columns of features; got shape {inputs.shape}")
        with torch.inference_mode():
            # With no rows, an empty block gives the shape of the output.
            return np.concatenate([function(block).cpu().numpy() for block in self.blocks(inputs)])

    def blocks(self, inputs: np.ndarray) -> Iterator[Float[Tensor, "b d"]]:
        for start in range(0, max(len(inputs), 1), self.rows_per_block):
            some = inputs[start : start + self.rows_per_block]
            if (row := first_unusable(some)) is not None:
                raise UnderstudyError(f"item {start + row} has features that are not finite in float32; leave it out")
            block = torch.from_numpy(np.array(some, dtype=np.float32)).to(self.shift.device)
            yield (block - self.shift) * self.scale
