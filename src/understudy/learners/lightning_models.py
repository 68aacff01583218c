"""Modules of Lightning as learners, trained by its own Trainer (the extra `lightning`)."""

import logging
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import torch
from torch.utils.data import DataLoader

from understudy.checks import check_choice, check_whole_number
from understudy.core.checks import check_device
from understudy.data.encoders.extras import import_library
from understudy.errors import UsageError
from understudy.learners.checkpoints import SECONDS_BETWEEN
from understudy.learners.own_models import (
    Collate,
    ModuleModel,
    OwnTraining,
    begin_training,
    check_makes_model,
    make_batch,
    module_model,
    offers_of_module,
    random_states,
    restore_random_states,
)
from understudy.learners.protocol import Offer, Takes
from understudy.learners.training import cut_batches, with_gradients

STATE: Final = "last.ckpt"
RANDOM: Final = "understudy_random_states"


@dataclass(frozen=True)
class LightningLearner:
    """A LightningModule as a learner: made anew for each training, and trained by Lightning's Trainer.

    `make_module(n_classes)` returns the module. Its `training_step` is given a batch and the classes of its items, and
    calling the module with a batch gives logits. A batch is what `collate` makes of a list of items. `trainer` are
    further arguments of Lightning's `Trainer`. With `last_layer`, the inputs of this layer are offered as features.
    """

    make_module: Callable[[int], Any]
    collate: Collate | None = None
    takes: Takes = "items"
    epochs: int = 20
    batch_size: int = 32
    trainer: Mapping[str, Any] = field(default_factory=dict)
    last_layer: str | None = None
    device: str = "cpu"
    checkpoints: Path | None = field(default=None, repr=False)
    seconds_between_checkpoints: float = field(default=SECONDS_BETWEEN, repr=False)

    def __post_init__(self) -> None:
        check_makes_model("make_module", self.make_module)
        check_choice("takes", self.takes, get_args(Takes))
        check_whole_number("epochs", self.epochs, 1)
        check_whole_number("batch_size", self.batch_size, 1)
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
            module = self.make_module(n_classes)
            lightning = import_library(_package_of(module), "lightning", "this learner")
            with _quiet_lightning(lightning):
                interrupted = _train(lightning, self, module, training)
        module.trainer = None  # it holds the items
        return module_model(self, module, n_classes, interrupted)


def _package_of(module: Any) -> str:
    """Which of the two packages of Lightning a module is made of; each trains its own only."""
    for kind in type(module).__mro__:
        if kind.__name__ == "LightningModule":
            return "pytorch_lightning" if kind.__module__.startswith("pytorch_lightning") else "lightning.pytorch"
    raise UsageError(f"make_module must return a LightningModule; got {type(module).__name__}")


def _train(lightning: Any, learner: LightningLearner, module: Any, training: OwnTraining) -> bool:
    """Train by Lightning's Trainer, from the last checkpoint if there is one; whether the user interrupted."""
    device, state = torch.device(learner.device), training.checkpoints.folder / STATE
    given = {
        "max_epochs": learner.epochs,
        "accelerator": "gpu" if device.type == "cuda" else "cpu",
        "devices": [device.index or 0] if device.type == "cuda" else 1,
        "logger": False,
        "enable_progress_bar": False,  # ours is shown
        "enable_model_summary": False,
        "enable_checkpointing": False,  # our own callback saves, where it is time
        "default_root_dir": str(training.checkpoints.folder),
        **learner.trainer,
    }
    reporter = _reporter(lightning, training)
    try:
        trainer = lightning.Trainer(**{**given, "callbacks": [*(given.get("callbacks") or ()), reporter]})
    except TypeError as error:
        raise UsageError(f"Lightning does not accept these arguments of its Trainer: {error}") from error
    before = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit(module, _loader(learner, trainer, training), ckpt_path=str(state) if state.is_file() else None)
    except (KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, SystemExit) and not trainer.interrupted:
            raise
        training.checkpoints.is_complete = False
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)  # Lightning stops listening to Ctrl-C when it was pressed
    return not training.checkpoints.is_complete


def _loader(learner: LightningLearner, trainer: Any, training: OwnTraining) -> Any:
    """Batches of items, read as they are needed, and of their classes."""

    def collate(rows: list[int]) -> tuple[Any, torch.Tensor]:
        batch = make_batch(learner.collate, training.inputs, np.array(rows), "cpu")
        return batch, torch.from_numpy(training.labels[rows])

    rows: Any = range(len(training.labels))
    batches = ShuffledBatches(trainer, len(rows), learner.batch_size, training.seed)
    # A generator of its own: it draws whenever an epoch begins, and must not draw from the one that dropout uses.
    return DataLoader(rows, batch_sampler=batches, collate_fn=collate, generator=torch.Generator())


@dataclass(frozen=True, eq=False)
class ShuffledBatches:
    """The rows of an epoch, in an order drawn from the seed and the number of the epoch, in batches of like size."""

    trainer: Any
    n: int
    size: int
    seed: int

    def __len__(self) -> int:
        return len(cut_batches(self.n, self.size, evenly=True))

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.default_rng([self.seed, self.trainer.current_epoch]).permutation(self.n)
        for places in cut_batches(self.n, self.size, evenly=True):
            yield order[places].tolist()


def _reporter(lightning: Any, training: OwnTraining) -> Any:
    """A callback that moves the progress bar after every epoch, and writes a checkpoint where it is time."""

    class LightningReporter(lightning.Callback):  # type: ignore[misc]
        states: Mapping[str, Any] | None = None

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            if self.states is not None:
                restore_random_states(self.states)
                self.states = None

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            done = trainer.current_epoch + 1
            training.report(done, trainer.max_epochs)
            if done < trainer.max_epochs and training.checkpoints.is_due:
                draft = training.checkpoints.folder / "draft.ckpt"
                trainer.save_checkpoint(draft)
                draft.replace(draft.with_name(STATE))
                training.checkpoints.note_saved()

        def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
            checkpoint[RANDOM] = random_states()

        def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
            self.states = checkpoint.get(RANDOM)

    return LightningReporter()


@contextmanager
def _quiet_lightning(lightning: Any) -> Iterator[None]:
    """No advice on workers and accelerators, which does not apply here."""
    log = logging.getLogger(lightning.__name__)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(lightning|pytorch_lightning)\.")
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            yield
    finally:
        log.setLevel(level)
