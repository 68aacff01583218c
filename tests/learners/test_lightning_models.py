"""A LightningModule is a learner, trained by Lightning's own Trainer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.learners.tasks import blobs
from tests.learners.tiny_models import Breaking, coloured_images
from understudy import ActiveLoop, UnderstudyError
from understudy.data.encoders.extras import import_library
from understudy.learners.lightning_models import LightningLearner
from understudy.learners.protocol import Learner


def pixels(images: list[Any]) -> Tensor:
    """The mean colour of each image."""
    return torch.tensor(np.stack([np.asarray(image).mean((0, 1)) for image in images]) / 255, dtype=torch.float32)


@pytest.fixture(scope="module")
def make_module() -> Callable[..., Any]:
    lightning = import_library("lightning.pytorch", "lightning")

    class Small(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self, n_classes: int, columns: int = 3) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(columns, 16), nn.ReLU(), nn.Dropout(0.2))
            self.last = nn.Linear(16, n_classes)

        def forward(self, batch: Tensor) -> Tensor:
            logits: Tensor = self.last(self.body(batch))
            return logits

        def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
            inputs, labels = batch
            return nn.functional.cross_entropy(self(inputs), labels)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.02)

    return Small


@pytest.fixture
def learner(make_module: Callable[..., Any], tmp_path: Path) -> LightningLearner:
    return LightningLearner(
        make_module, pixels, epochs=4, batch_size=8, last_layer="last",
        checkpoints=tmp_path / "kept", seconds_between_checkpoints=0,
    )  # fmt: skip


def test_a_module_of_lightning_is_trained(learner: LightningLearner, capfd: pytest.CaptureFixture[str]) -> None:
    images, labels = coloured_images(40)
    assert isinstance(learner, Learner)
    model, again = (replace(learner, epochs=15).fit(images, labels, 3, seed=4) for _ in range(2))
    probs = model.predict_proba(images)
    assert probs.shape == (40, 3)
    assert (probs.argmax(1) == labels).mean() > 0.95
    np.testing.assert_array_equal(again.predict_proba(images), probs)
    assert model.features(images).shape == (40, 16)
    assert capfd.readouterr() == ("", "")


def test_a_broken_training_goes_on_from_its_last_epoch_to_the_same_model(
    learner: LightningLearner, tmp_path: Path
) -> None:
    images, labels = coloured_images(24)
    with pytest.raises(OSError, match="unplugged"):
        learner.fit(Breaking(images, 2 * 24 + 9, OSError("unplugged")), labels, 2, seed=3)
    assert [path.name for path in (tmp_path / "kept").glob("*/*.ckpt")] == ["last.ckpt"]
    again = Breaking(images, 1000, OSError())
    resumed = learner.fit(again, labels, 2, seed=3)
    assert 1000 - again.reads_left < 3 * 24  # two epochs were left
    whole = replace(learner, checkpoints=tmp_path / "other").fit(images, labels, 2, seed=3)
    np.testing.assert_array_equal(resumed.predict_proba(images), whole.predict_proba(images))
    assert not list((tmp_path / "kept").iterdir())


def test_ctrl_c_ends_a_training_with_what_was_learnt(learner: LightningLearner) -> None:
    images, labels = coloured_images(16)
    stopped = learner.fit(Breaking(images, 30, KeyboardInterrupt()), labels, 2)
    assert stopped.interrupted
    assert stopped.predict_proba(images).shape == (16, 2)


def test_features_are_taken_too(make_module: Callable[..., Any]) -> None:
    features, labels = blobs(60)
    learner = LightningLearner(lambda n: make_module(n, 5), takes="features", epochs=10, last_layer="last")
    loop = ActiveLoop(features, learner, "badge", schedule=[30], n_classes=3)
    loop.tell(range(30), labels[:30])
    assert (loop.predict_classes(range(30, 60)) == labels[30:]).mean() > 0.8


def test_what_is_no_module_of_lightning_is_refused(learner: LightningLearner) -> None:
    images, labels = coloured_images(4)
    with pytest.raises(UnderstudyError, match="must return a LightningModule; got Linear"):
        replace(learner, make_module=lambda n: nn.Linear(3, n)).fit(images, labels, 2)
    with pytest.raises(UnderstudyError, match="does not accept these arguments"):
        replace(learner, trainer={"max_epoch": 3}).fit(images, labels, 2)
