"""The training loop that heads and networks share: shuffling, steps, learning-rate schedule, and errors."""

import math
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from understudy.checks import check_choice, check_number, check_whole_number
from understudy.errors import UnderstudyError
from understudy.hooks import Step, TrainingHook
from understudy.learners.protocol import TrainingDiverged
from understudy.learners.stack import Outputs

Tick = Callable[..., None]  # called with the number of epochs done and, where that was not known before, of how many
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Recipe:
    """Settings of the optimisation. The defaults are the paper's."""

    optimiser: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 5e-4
    batch_size: int = 30
    epochs: int = 100
    schedule: Literal["step", "one_cycle"] = "step"
    gamma: float = 0.1  # step: the learning rate is multiplied by this ...
    step_every: int = 10  # ... every so many epochs
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "gamma"):
            check_number(name, getattr(self, name), above=0)
        for name in ("batch_size", "epochs", "step_every"):
            check_whole_number(name, getattr(self, name), 1)
        for name, limit in (("momentum", 1), ("weight_decay", None), ("label_smoothing", 1)):
            check_number(name, getattr(self, name), least=0, below=limit)
        for name, choices in (("optimiser", ("sgd", "adamw")), ("schedule", ("step", "one_cycle"))):
            check_choice(name, getattr(self, name), choices)

    def rate(self, epoch: int, done: float) -> float:
        """The learning rate in this epoch, when this share of all steps is done."""
        if self.schedule == "step":
            return self.learning_rate * self.gamma ** (epoch // self.step_every)
        warm = 0.3  # warm up from 4 % of the rate, then down to zero, both along half a cosine
        if done < warm:
            return self.learning_rate * (1 - 0.96 * (0.5 + 0.5 * math.cos(math.pi * done / warm)))
        return self.learning_rate * (0.5 + 0.5 * math.cos(math.pi * (done - warm) / (1 - warm)))


@runtime_checkable
class Trainee(Protocol):
    """m networks in training on n items each."""

    labels: Int[Tensor, "m n"]
    recordable: bool  # whether a step may be recorded as a CUDA graph and replayed
    wants_even_batches: bool  # whether a last batch of one or two items would do harm

    def parameters(self) -> Sequence[Tensor]: ...

    def start_epoch(self, epoch: int) -> None:
        """Draw the random numbers of this epoch, such as noise for its items, in the order in which they come."""

    def noise(self, places: slice) -> tuple[Tensor, ...]:
        """The noise drawn for the items at these positions of the epoch's order."""

    def __call__(self, rows: Int[Tensor, "m b"], noise: tuple[Tensor, ...]) -> Outputs:
        """The networks' outputs for these items under this noise."""


class Keeper(Protocol):
    """What keeps checkpoints of a training."""

    def restore(self, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> int:
        """Set everything to where the last checkpoint was; the number of epochs done by then."""

    def note_epoch(self, done: int, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> None:
        """An epoch has ended that is not the last."""


def train(
    trainee: Trainee,
    recipe: Recipe,
    generators: Sequence[torch.Generator],
    hook: TrainingHook | None = None,
    tick: Tick | None = None,
    stop: Event | None = None,
    keeper: Keeper | None = None,
) -> int:
    """Train, and return the number of epochs done: fewer than all if the user interrupted or `stop` was set.

    Each network's items are shuffled by its own generator, so that it is trained the same alone or with others.
    """
    done = 0
    try:
        for done in _epochs_of(trainee, recipe, generators, hook, stop, keeper):
            if tick is not None:
                tick(done)
    except KeyboardInterrupt:
        if stop is not None:
            stop.set()  # for trainings in other threads or still to come
    if not all(parameter.isfinite().all() for parameter in trainee.parameters()):
        raise _divergence(recipe, done)
    return done


def _epochs_of(
    trainee: Trainee,
    recipe: Recipe,
    generators: Sequence[torch.Generator],
    hook: TrainingHook | None,
    stop: Event | None,
    keeper: Keeper | None,
) -> Iterator[int]:
    """Run the epochs; yields the number done after each."""
    n, device = trainee.labels.shape[1], trainee.labels.device
    optimiser = _make_optimiser(trainee, recipe, hook)
    step: Callable[..., Tensor] = partial(_one_step, trainee, recipe, optimiser, hook)
    if device.type == "cuda" and trainee.recordable and hook is None:
        step = RecordedStep(step, optimiser)
    batches = cut_batches(n, recipe.batch_size, trainee.wants_even_batches)
    first = 0 if keeper is None else keeper.restore(optimiser, generators)
    for epoch in range(first, recipe.epochs):
        order = torch.stack([torch.randperm(n, generator=generator) for generator in generators]).to(device)
        trainee.start_epoch(epoch)
        total = torch.zeros(len(order), device=device)
        for i, places in enumerate(batches):
            if stop is not None and stop.is_set():
                return
            _set_rate(optimiser, recipe.rate(epoch, (epoch + i / len(batches)) / recipe.epochs))
            total += step(epoch, order[:, places], trainee.noise(places))
        if not total.isfinite().all():
            raise _divergence(recipe, epoch)
        if keeper is not None and epoch + 1 < recipe.epochs:
            keeper.note_epoch(epoch + 1, optimiser, generators)
        yield epoch + 1


def with_gradients(function: F) -> F:
    """The function with gradients enabled, even if its caller has disabled them."""
    wrapped: F = torch.inference_mode(False)(torch.enable_grad()(function))
    return wrapped


def let_interrupts_through() -> None:
    """Let Ctrl-C end a wait at once, also where a library had the system begin such a wait again.

    Polars does when it is imported: the interrupt would then be noticed when the wait is over.
    """
    if hasattr(signal, "siginterrupt"):  # not on Windows
        signal.siginterrupt(signal.SIGINT, True)


def cut_batches(n: int, size: int, evenly: bool) -> list[slice]:
    """Positions 0 to n in batches of this size, the last one shorter; or, with `evenly`, of about equal size."""
    count = math.ceil(n / size)
    if evenly:
        return [slice(i * n // count, (i + 1) * n // count) for i in range(count)]
    return [slice(i * size, min((i + 1) * size, n)) for i in range(count)]


def _divergence(recipe: Recipe, epoch: int) -> TrainingDiverged:
    rate = recipe.rate(epoch, epoch / recipe.epochs)
    return TrainingDiverged(
        f"the loss is no longer finite in epoch {min(epoch + 1, recipe.epochs)} of {recipe.epochs}, with learning rate "
        f"{rate:g}; lower the learning rate, or scale the inputs"
    )


def _one_step(
    trainee: Trainee,
    recipe: Recipe,
    optimiser: torch.optim.Optimizer,
    hook: TrainingHook | None,
    epoch: int,
    rows: Int[Tensor, "m b"],
    noise: tuple[Tensor, ...],
) -> Float[Tensor, "m"]:
    """Take one optimiser step on a batch; returns the losses before it."""
    outputs = trainee(rows, noise)
    labels = trainee.labels.gather(1, rows)
    losses = cross_entropy(
        outputs.logits.flatten(0, 1), labels.flatten(), reduction="none", label_smoothing=recipe.label_smoothing
    ).view_as(labels)
    if hook is None:
        loss = losses.mean(1)
    else:
        loss = hook.loss(Step(epoch, rows, labels, outputs.hidden, outputs.logits, losses))
        if loss.shape != labels.shape[:1]:
            raise UnderstudyError(
                f"a hook must return one loss per model, shape {tuple(labels.shape[:1])}; got {tuple(loss.shape)}: "
                "take means over axis 1 only"
            )
    optimiser.zero_grad()
    loss.sum().backward()  # type: ignore[no-untyped-call]  # a sum, so that no network's gradient depends on another's loss
    optimiser.step()
    return loss.detach()


def _make_optimiser(trainee: Trainee, recipe: Recipe, hook: TrainingHook | None) -> torch.optim.Optimizer:
    parameters, decay = list(trainee.parameters()), recipe.weight_decay
    if hook is not None:
        parameters += hook.parameters()
    on_gpu = trainee.labels.is_cuda
    # On a GPU the learning rate is a tensor, which a recorded step reads each time it is replayed.
    rate = torch.tensor(recipe.learning_rate, device=trainee.labels.device) if on_gpu else recipe.learning_rate
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True, capturable=on_gpu)
    return torch.optim.SGD(parameters, lr=rate, momentum=recipe.momentum, weight_decay=decay, fused=True)


def _set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class RecordedStep:
    """A training step as a CUDA graph: recorded once for each batch size, then replayed.

    Launching the small kernels of one step from Python takes longer than running them.
    """

    def __init__(self, step: Callable[..., Tensor], optimiser: torch.optim.Optimizer) -> None:
        self.step = step
        self.optimiser = optimiser
        self.recordings: dict[int, tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]] = {}

    def __call__(self, epoch: int, rows: Int[Tensor, "m b"], noise: tuple[Tensor, ...]) -> Float[Tensor, "m"]:
        size = rows.shape[1]
        if size not in self.recordings:
            with torch.cuda.device(rows.device):
                self.recordings[size] = self.record(epoch, rows, noise)
        graph, inputs, loss = self.recordings[size]
        for kept, given in zip(inputs, (rows, *noise), strict=True):
            kept.copy_(given)
        graph.replay()
        return loss

    def record(
        self, epoch: int, rows: Int[Tensor, "m b"], noise: tuple[Tensor, ...]
    ) -> tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]:
        inputs = [tensor.clone() for tensor in (rows, *noise)]
        before = self.state()
        side = torch.cuda.Stream(rows.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # warm-up: libraries allocate what they need, which must not happen during recording
                self.step(epoch, inputs[0], tuple(inputs[1:]))
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self.step(epoch, inputs[0], tuple(inputs[1:]))
        self.restore(before)
        return graph, inputs, loss

    def state(self) -> dict[Tensor, Tensor]:
        """Copies of everything that a step changes."""
        tensors = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        tensors += [value for kept in self.optimiser.state.values() for value in kept.values()]
        return {tensor: tensor.detach().clone() for tensor in tensors}

    def restore(self, before: dict[Tensor, Tensor]) -> None:
        """Undo the warm-up steps. State that they created, such as momentum, is set back to zero."""
        with torch.no_grad():
            for group in self.optimiser.param_groups:
                for parameter in group["params"]:
                    parameter.copy_(before[parameter])
                    for value in self.optimiser.state[parameter].values():
                        value.copy_(before[value]) if value in before else value.zero_()


@contextmanager
def progress_bar(shown: bool, title: str, epochs: int | None) -> Iterator[Tick | None]:
    """A progress bar on stderr that disappears when training ends, or nothing."""
    if not shown:
        yield None
        return
    # Imported here: training itself should need nothing beyond torch.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=epochs)
        yield lambda done, of=epochs: bar.update(task, completed=done, total=of)
