"""A training keeps what it reached, under a name that only the same training has."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.learners.tiny_models import coloured_images
from understudy.learners.checkpoints import _text_of_code, keep_checkpoints, key_of_training
from understudy.learners.own_models import TorchLearner, TrainingFunction

TEXTS, LABELS = ["a", "b"], np.array([0, 1])
WORDS = ("one", "two", "three", "four")


def learn(texts: list[str], labels: np.ndarray) -> None: ...


def learn_otherwise(texts: list[str], labels: np.ndarray) -> None:
    assert len(texts) == len(labels)


def test_only_the_same_training_has_the_same_key() -> None:
    learner = TrainingFunction(learn)
    key = key_of_training(learner, TEXTS, LABELS, 2, 0)
    assert key == key_of_training(TrainingFunction(learn, checkpoints=Path("elsewhere")), TEXTS, LABELS, 2, 0)
    others = [
        key_of_training(TrainingFunction(learn_otherwise), TEXTS, LABELS, 2, 0),
        key_of_training(TrainingFunction(learn, takes="ids"), TEXTS, LABELS, 2, 0),
        key_of_training(learner, ["a", "c"], LABELS, 2, 0),
        key_of_training(learner, ["ab", ""], LABELS, 2, 0),
        key_of_training(learner, TEXTS, LABELS[::-1], 2, 0),
        key_of_training(learner, TEXTS, LABELS, 3, 0),
        key_of_training(learner, TEXTS, LABELS, 2, 1),
        key_of_training(learner, coloured_images(2)[0], LABELS, 2, 0),
        key_of_training(learner, coloured_images(2, seed=1)[0], LABELS, 2, 0),
        key_of_training(learner, np.zeros((2, 3)), LABELS, 2, 0),
        key_of_training(learner, np.zeros((2, 3), np.float32), LABELS, 2, 0),
    ]
    assert len({key, *others}) == 1 + len(others)


def make_narrow(n_classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Linear(8, n_classes))


def make_wide(n_classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.Linear(16, n_classes))


class Halved(nn.Module):
    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(3, n_classes)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return 0.5 * self.last(batch)


class Doubled(Halved):
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return 2.0 * self.last(batch)


def test_numbers_in_the_code_make_another_training() -> None:
    keys = [
        key_of_training(TorchLearner(make), TEXTS, LABELS, 2, 0) for make in (make_narrow, make_wide, Halved, Doubled)
    ]
    assert len(set(keys)) == 4


def test_constants_that_are_sets_are_written_in_order() -> None:
    said = [_text_of_code(says.__code__.replace(co_consts=(None, frozenset(words)))) for words in (WORDS, WORDS[::-1])]
    assert said[0] == said[1]


def says(word: str) -> bool:
    return word in {"one"}


def test_a_state_is_there_for_the_next_attempt_and_gone_when_the_training_is_complete(tmp_path: Path) -> None:
    def attempt() -> None:
        with keep_checkpoints(tmp_path, "key", 0) as kept:
            assert kept.load() is None
            assert kept.is_due
            kept.save({"weights": torch.arange(3), "epochs": 2})
            raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        attempt()
    with keep_checkpoints(tmp_path, "key", 60) as kept:
        found = kept.load()
        assert found is not None
        assert (found["epochs"], found["weights"].tolist()) == (2, [0, 1, 2])
        assert not kept.is_due
        kept.is_complete = False  # interrupted
    with keep_checkpoints(tmp_path, "key", 0) as kept:
        assert kept.load() is not None
        (kept.folder / "state.pt").write_bytes(b"of another version")
        assert kept.load() is None
    assert not list(tmp_path.iterdir())


def test_two_at_the_same_training_do_not_meet_and_none_are_kept_where_none_are_wanted(tmp_path: Path) -> None:
    with keep_checkpoints(tmp_path, "key", 0) as first, keep_checkpoints(tmp_path, "key", 0) as second:
        second.save({"epochs": 1})
        assert first.load() is None
        assert second.load() == {"epochs": 1}
    with keep_checkpoints(tmp_path, "key", math.inf) as never:
        assert not never.is_due
        assert not list(tmp_path.iterdir())
    (tmp_path / "a file").write_text("")
    with keep_checkpoints(tmp_path / "a file", "key", 0) as elsewhere:  # a folder that cannot be made
        elsewhere.save({"epochs": 1})
    assert not elsewhere.folder.exists()
