"""Models of your own as learners: a training function, or a torch module with the training loop of this package.

What these have in common with learners that other libraries train, such as `finetuning` and `lightning_models`, is here
too: random numbers from the seed alone, a progress bar, checkpoints, and models that predict a batch at a time.
"""

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from understudy.checks import check_choice
from understudy.core.checks import check_device
from understudy.errors import UnderstudyError, UsageError
from understudy.learners.checkpoints import SECONDS_BETWEEN, Checkpoints, keep_checkpoints, key_of_training
from understudy.learners.protocol import Model, Offer, Takes, check_labels, check_seed
from understudy.learners.stack import Outputs
from understudy.learners.training import Recipe, progress_bar, train, with_gradients

ITEMS_PER_BATCH: Final = 64  # predicted at a time
TOLERANCE: Final = 1e-3  # how far the sum of an item's probabilities may be from 1
Collate = Callable[[list[Any]], Any]  # some items -> what the module is called with


@dataclass(frozen=True, eq=False)
class OwnTraining:
    """One training: what is learnt from, and where it reports and keeps what it has reached."""

    inputs: Any  # a list of texts, a sequence of images, or an array
    labels: Int[np.ndarray, "n"]
    n_classes: int
    seed: int
    checkpoints: Checkpoints
    report: Callable[[int, int], None]  # epochs done, of how many
    shows_progress: bool = False


@contextmanager
def begin_training(
    learner: Any, inputs: Any, labels: np.ndarray, *, n_classes: int, seed: int, progress: bool
) -> Iterator[OwnTraining]:
    """A checked training of one of these learners, while its random numbers come from the seed alone."""
    labels, seed = check_labels(labels, len(inputs), n_classes), check_seed(seed)
    if learner.takes == "items" and len(inputs) and isinstance(inputs[0], str):
        inputs = list(inputs)  # what reads texts wants a list; images stay on the disk until they are asked for
    key = key_of_training(learner, inputs, labels, n_classes, seed)
    with (
        _random_numbers(seed, learner.device),
        keep_checkpoints(learner.checkpoints, key, learner.seconds_between_checkpoints) as checkpoints,
        progress_bar(progress, f"{len(labels):,} labels", None) as tick,
    ):

        def report(done: int, of: int) -> None:
            if tick is not None:
                tick(done, of)

        yield OwnTraining(inputs, labels, n_classes, seed, checkpoints, report, progress)


@contextmanager
def _random_numbers(seed: int, device: str) -> Iterator[None]:
    """The generators of torch, numpy and Python begin at the seed; afterwards they are as they were."""
    devices = [torch.device(device)] if torch.device(device).type == "cuda" else []
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002  # what other libraries use
    with torch.random.fork_rng(devices), torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)  # noqa: NPY002


def random_states() -> dict[str, Any]:
    """Where the generators are, in what a checkpoint may hold."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    legacy = (name, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest)
    return {"cpu": torch.get_rng_state(), "cuda": on_gpu, "python": random.getstate(), "numpy": legacy}


def restore_random_states(states: Mapping[str, Any]) -> None:
    torch.set_rng_state(states["cpu"].cpu())
    if states["cuda"]:
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
    random.setstate(states["python"])
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002


# -- models ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ModuleModel:
    """A trained torch module, which maps a batch to logits. The inputs of its `last_layer` are the features."""

    net: nn.Module
    n_classes: int
    collate: Collate | None = None
    last_layer: nn.Module | None = None
    interrupted: bool = False
    device: str = "cpu"
    batch_size: int = ITEMS_PER_BATCH

    def predict_proba(self, inputs: Any) -> Float[np.ndarray, "n c"]:
        """Class probabilities."""
        return self._collect(inputs, lambda batch: self._logits(batch).softmax(1))

    def logits(self, inputs: Any) -> Float[np.ndarray, "n c"]:
        """Logits, the inputs of the softmax."""
        return self._collect(inputs, self._logits)

    def features(self, inputs: Any) -> Float[np.ndarray, "n h"]:
        """The inputs of the last layer; those of tokens or of places in an image are averaged."""
        if self.last_layer is None:
            raise UnderstudyError("this model has no features: name its last layer when you make the learner")
        seen: list[Tensor] = []
        handle = self.last_layer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:

            def pooled(batch: Any) -> Tensor:
                seen.clear()
                self._logits(batch)
                return _pool_positions(seen[-1], batch)

            return self._collect(inputs, pooled)
        finally:
            handle.remove()

    def _logits(self, batch: Any) -> Float[Tensor, "b c"]:
        return _check_logits(_call_module(self.net, batch), self.n_classes)

    def _collect(self, inputs: Any, function: Callable[[Any], Tensor]) -> np.ndarray:
        """The function's outputs for all items, a batch at a time; texts of like length share one, which is faster."""
        order = np.arange(len(inputs))
        if len(inputs) and isinstance(inputs[0], str):
            inputs = list(inputs)
            order = np.argsort([len(text) for text in inputs], kind="stable")
        found: np.ndarray | None = None
        with torch.inference_mode():
            for start in range(0, len(order), self.batch_size):
                rows = order[start : start + self.batch_size]
                some = function(make_batch(self.collate, inputs, rows, self.device)).float().cpu().numpy()
                if found is None:
                    found = np.empty((len(order), *some.shape[1:]), np.float32)
                found[rows] = some
        return np.empty((0, self.n_classes), np.float32) if found is None else found


def make_batch(collate: Collate | None, inputs: Any, rows: Sequence[int] | np.ndarray, device: str) -> Any:
    """What a module is called with for these rows, on its device."""
    batch = inputs[rows] if isinstance(inputs, np.ndarray) else [inputs[int(row)] for row in rows]
    if collate is not None:
        return _move(collate(list(batch)), device)
    if isinstance(batch, np.ndarray):
        values = torch.from_numpy(np.ascontiguousarray(batch))
        return (values if values.dtype == torch.uint8 else values.float()).to(device)
    return batch


def _move(batch: Any, device: str) -> Any:
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: _move(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_move(value, device) for value in batch)
    return batch


def _call_module(net: nn.Module, batch: Any) -> Tensor:
    """The logits of a batch: a mapping is given by name, a tuple by position, anything else as it is."""
    if isinstance(batch, Mapping):
        output = net(**batch)
    else:
        output = net(*batch) if isinstance(batch, tuple) else net(batch)
    if isinstance(output, Mapping):
        output = output.get("logits")
    logits = output[0] if isinstance(output, tuple) else output
    if not isinstance(logits, Tensor):
        raise UnderstudyError(f"the module must return a tensor of logits; got {type(logits).__name__}")
    return logits.float()


def _check_logits(logits: Tensor, n_classes: int) -> Float[Tensor, "b c"]:
    if logits.ndim != 2 or logits.shape[1] != n_classes:
        raise UnderstudyError(
            f"the module must return logits of {n_classes} classes for each item; got shape {tuple(logits.shape)}"
        )
    return logits


def _pool_positions(hidden: Tensor, batch: Any) -> Float[Tensor, "b h"]:
    if hidden.ndim == 3 and isinstance(batch, Mapping) and "attention_mask" in batch:
        mask = batch["attention_mask"][:, :, None].to(hidden.dtype)
        return (hidden * mask).sum(1) / mask.sum(1)
    if hidden.ndim == 4:  # a map of features
        return hidden.mean((2, 3))
    return hidden.mean(1) if hidden.ndim == 3 else hidden


@dataclass(frozen=True, eq=False)
class PredictorModel:
    """What a training function returned, with `predict_proba`; where it has `classes_`, they name its columns."""

    predictor: Any
    n_classes: int
    is_of_items: bool = True
    batch_size: int = ITEMS_PER_BATCH * 16
    interrupted: bool = False

    def predict_proba(self, inputs: Any) -> Float[np.ndarray, "n c"]:
        """Class probabilities; 0 for classes that the predictor does not know."""
        probs = np.zeros((len(inputs), self.n_classes))
        columns = np.asarray(getattr(self.predictor, "classes_", np.arange(self.n_classes))).astype(np.int64)
        for start in range(0, len(inputs), self.batch_size):
            some = inputs[start : start + self.batch_size]
            given = np.asarray(self.predictor.predict_proba(list(some) if self.is_of_items else some))
            if given.shape != (len(some), len(columns)):
                raise UnderstudyError(
                    f"predict_proba must give each item one probability a class, shape {(len(some), len(columns))}; "
                    f"got {given.shape}"
                )
            probs[start : start + len(some), columns] = given
        if not (np.isfinite(probs).all() and (probs >= 0).all() and (abs(probs.sum(1) - 1) <= TOLERANCE).all()):
            raise UnderstudyError(
                "predict_proba must give probabilities, of sum 1 for each item; apply a softmax first"
            )
        return probs


# -- learners --------------------------------------------------------------------------------------------------

NAMES_OF_INPUTS: Final[dict[str, Takes]] = {
    "items": "items",
    "texts": "items",
    "features": "features",
    "images": "images",
    "ids": "ids",
}
MAY_ASK_FOR: Final = ("n_classes", "seed", "device", "checkpoints", "report_progress")


@dataclass(frozen=True)
class TrainingFunction:
    """Your own training function as a learner: `fit(items, labels)`, which returns a model.

    The model is anything with `predict_proba(items)`, such as a pipeline of scikit-learn, or a torch module that maps
    a batch, as `collate` makes it of a list of items, to logits. The function is given what it names of `n_classes`,
    `seed`, `device`, `checkpoints` (a folder that is kept until the training is complete) and
    `report_progress(done, of)`. The generators of torch, numpy and Python are seeded for it.
    """

    fit_model: Callable[..., Any]
    takes: Takes = "items"
    collate: Collate | None = None
    last_layer: str | None = None
    device: str = "cpu"
    checkpoints: Path | None = field(default=None, repr=False)
    seconds_between_checkpoints: float = field(default=SECONDS_BETWEEN, repr=False)

    def __post_init__(self) -> None:
        check_choice("takes", self.takes, get_args(Takes))
        check_device(self.device)
        self._names()

    @property
    def offers(self) -> frozenset[Offer]:
        return frozenset({"features"} if self.last_layer else ())

    @with_gradients
    def fit(self, inputs: Any, labels: np.ndarray, n_classes: int, *, seed: int = 0, progress: bool = False) -> Model:
        """What the function makes of these items."""
        with begin_training(self, inputs, labels, n_classes=n_classes, seed=seed, progress=progress) as training:
            may_have = {
                "n_classes": n_classes,
                "seed": training.seed,
                "device": self.device,
                "checkpoints": training.checkpoints.folder,
                "report_progress": training.report,
            }
            made = self.fit_model(training.inputs, training.labels, **{name: may_have[name] for name in self._names()})
        if isinstance(made, nn.Module):
            return module_model(self, made, n_classes)
        if not hasattr(made, "predict_proba"):
            raise UnderstudyError(
                f"the training function must return a torch module or something with predict_proba; "
                f"got {type(made).__name__}"
            )
        return PredictorModel(made, n_classes, self.takes in ("items", "ids"))

    def _names(self) -> list[str]:
        """Which of the things it may ask for the function names."""
        try:
            parameters = list(inspect.signature(self.fit_model).parameters.values())
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.fit_model!r} is not a function of items and labels: {error}") from error
        unknown = [
            parameter.name
            for parameter in parameters[2:]
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            and parameter.name not in MAY_ASK_FOR
        ]
        if unknown:
            raise UsageError(
                f"a training function is given items, labels and what it names of {', '.join(MAY_ASK_FOR)}; "
                f"it also asks for {', '.join(unknown)}: give that a default"
            )
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return list(MAY_ASK_FOR)
        return [parameter.name for parameter in parameters[2:] if parameter.name in MAY_ASK_FOR]


def module_model(learner: Any, net: nn.Module, n_classes: int, interrupted: bool = False) -> ModuleModel:
    """A trained module as the model of a learner that names its last layer."""
    net.eval().requires_grad_(False).to(learner.device)
    last = None
    if learner.last_layer is not None:
        try:
            last = net.get_submodule(learner.last_layer)
        except AttributeError:
            known = ", ".join(name for name, _ in net.named_children())
            raise UsageError(
                f"the module has no layer {learner.last_layer!r}; its layers are {known or 'none'}"
            ) from None
    return ModuleModel(net, n_classes, learner.collate, last, interrupted, learner.device)


@dataclass(frozen=True)
class TorchLearner:
    """A torch module as a learner: made anew for each training, and trained here by cross-entropy.

    `make_model(n_classes)` returns the module, which maps a batch to logits. A batch is what `collate` makes of a list
    of items; without it, an array becomes a tensor and items are given as a list. With `last_layer`, the name of the
    layer that makes the logits, the inputs of this layer are offered as features.
    """

    make_model: Callable[[int], nn.Module]
    collate: Collate | None = None
    takes: Takes = "items"
    recipe: Recipe = field(
        default_factory=lambda: Recipe("adamw", 1e-3, weight_decay=1e-2, batch_size=32, epochs=20, schedule="one_cycle")
    )
    last_layer: str | None = None
    device: str = "cpu"
    checkpoints: Path | None = field(default=None, repr=False)
    seconds_between_checkpoints: float = field(default=SECONDS_BETWEEN, repr=False)

    def __post_init__(self) -> None:
        check_makes_model("make_model", self.make_model)
        check_choice("takes", self.takes, get_args(Takes))
        check_device(self.device)

    @property
    def offers(self) -> frozenset[Offer]:
        return offers_of_module(self.last_layer)

    @with_gradients
    def fit(
        self, inputs: Any, labels: np.ndarray, n_classes: int, *, seed: int = 0, progress: bool = False
    ) -> ModuleModel:
        """The module trained on these items."""
        with begin_training(self, inputs, labels, n_classes=n_classes, seed=seed, progress=progress) as training:
            net = self.make_model(n_classes)
            if not isinstance(net, nn.Module):
                raise UsageError(f"make_model must return a torch module; got {type(net).__name__}")
            trainee = ModuleInTraining(self, net.to(self.device).train(), training, n_classes)
            generator = torch.Generator().manual_seed(training.seed)
            done = train(
                trainee,
                self.recipe,
                [generator],
                tick=lambda done: training.report(done, self.recipe.epochs),
                keeper=ModuleKeeper(net, training.checkpoints, self.device),
            )
            training.checkpoints.is_complete = done == self.recipe.epochs
        return module_model(self, net, n_classes, interrupted=done < self.recipe.epochs)


class ModuleInTraining:
    """A module and the items of one training."""

    recordable = False  # nothing is known of what it does
    wants_even_batches = True  # it may have batch norms

    def __init__(self, learner: TorchLearner, net: nn.Module, training: OwnTraining, n_classes: int) -> None:
        self.net, self.collate, self.device, self.n_classes = net, learner.collate, learner.device, n_classes
        self.inputs = training.inputs
        self.labels = torch.from_numpy(training.labels).to(learner.device)[None]

    def parameters(self) -> list[Tensor]:
        return [parameter for parameter in self.net.parameters() if parameter.requires_grad]

    def start_epoch(self, epoch: int) -> None:
        """Whatever is random in the module draws from torch's own generator, which begins at the seed."""

    def noise(self, places: slice) -> tuple[Tensor, ...]:
        return ()

    def __call__(self, rows: Int[Tensor, "1 b"], noise: tuple[Tensor, ...]) -> Outputs:
        batch = make_batch(self.collate, self.inputs, rows[0].cpu().numpy(), self.device)
        return Outputs((), _check_logits(_call_module(self.net, batch), self.n_classes)[None])


@dataclass(frozen=True, eq=False)
class ModuleKeeper:
    """Checkpoints of a module in training."""

    net: nn.Module
    checkpoints: Checkpoints
    device: str

    def restore(self, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> int:
        kept = self.checkpoints.load(self.device)
        if kept is None:
            return 0
        self.net.load_state_dict(kept["net"])
        optimiser.load_state_dict(kept["optimiser"])
        for generator, state in zip(generators, kept["generators"], strict=True):
            generator.set_state(state.cpu())
        restore_random_states(kept["random"])
        return int(kept["epochs"])

    def note_epoch(self, done: int, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> None:
        if self.checkpoints.is_due:
            self.checkpoints.save(
                {
                    "epochs": done,
                    "net": self.net.state_dict(),
                    "optimiser": optimiser.state_dict(),
                    "generators": [generator.get_state() for generator in generators],
                    "random": random_states(),
                }
            )


def check_makes_model(name: str, given: Any) -> None:
    """Raise unless this is a function that makes a module: each training begins with a new one."""
    if isinstance(given, nn.Module):
        raise UsageError(
            f"{name} must be a function that makes the module, given the number of classes; "
            f"got a {type(given).__name__}"
        )


def offers_of_module(last_layer: str | None) -> frozenset[Offer]:
    return frozenset({"logits", "features"} if last_layer else {"logits"})


def learner_of_function(function: Callable[..., Any], device: str = "cpu") -> TrainingFunction | None:
    """A training function as a learner, or None where a function needs fewer than two arguments.

    The name of its first argument says what it takes: items or texts, features, images, or ids.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    needed = [each for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(needed) < 2:
        return None
    first = needed[0].name
    if first not in NAMES_OF_INPUTS:
        raise UsageError(
            f"the first argument of a training function is named for what it takes, {', '.join(NAMES_OF_INPUTS)}; "
            f"got {first!r}. TrainingFunction(..., takes=...) says it of any function"
        )
    return TrainingFunction(function, takes=NAMES_OF_INPUTS[first], device=device)
