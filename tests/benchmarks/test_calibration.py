"""The benchmark of calibration: its error by a literal computation, and a small project from end to end."""

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from understudy.sessions import learning
from understudy.sessions.learning import Learning
from understudy.sessions.training import training_job
from understudy.sessions.training.trainer import Trainer

calibration = script("calibration")


def test_the_error_is_the_mean_gap_between_saying_and_being_right() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([0.3, 0.3, 0.3], size=300)
    truth = rng.integers(3, size=300)
    order = sorted(range(300), key=lambda row: probs[row].max())
    total = 0.0
    for start in range(0, 300, 20):  # fifteen bins of twenty items
        rows = order[start : start + 20]
        said = sum(probs[row].max() for row in rows) / 20
        right = sum(probs[row].argmax() == truth[row] for row in rows) / 20
        total += abs(said - right) / 15
    assert calibration.calibration_error(probs, truth) == pytest.approx(100 * total)
    certain = np.eye(3)[truth]
    assert calibration.calibration_error(certain, truth) == 0


def test_a_small_project_is_judged_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(10, 6)) * 2
    labels = rng.integers(10, size=400)
    features = (centres[labels] + rng.normal(size=(400, 6))).astype(np.float32)
    task = calibration.Task(features[:120], labels[:120], features[120:], labels[120:])
    monkeypatch.setattr(calibration, "draw_task", lambda *_: task)
    for place, name in (
        (Trainer, "_wait"),
        (Learning, "_start"),
        (learning, "folds_for"),
        (training_job, "make_feature_learner"),
    ):
        monkeypatch.setattr(place, name, getattr(place, name))  # what `play` puts in its place goes away again
    runs = calibration.play("cifar10", tmp_path, 0, (15, 30))
    assert [run["labels"] for run in runs] == [15, 30]
    assert [run["audited"] for run in runs] == [2, 3]
    for run in runs:
        assert len(run["offers"]) == 10
        assert all(offer["right"] <= offer["tiles"] <= 4 for offer in run["offers"])
        assert run["shown"]["before"] != run["shown"]["after"]
    last = calibration.summary(runs)[-1]
    assert (last["task"], last["labels"], last["repetitions"]) == ("cifar10", 30, 1)
    assert last["exported_after"] == runs[1]["exported"]["after"]
    assert last["promised_offers"] == 0
    assert last["unpromised_tiles"] == sum(offer["tiles"] for offer in runs[1]["offers"])


def test_the_trainings_that_are_judged_are_those_in_use_at_the_stops() -> None:
    sizes = [2, 3, 5, 8, 12, 18, 27, 41, 62, 93, 140, 210, 315, 473, 673, 873]
    assert [size for size in sizes if calibration.is_last_before(size, (50, 200, 1000))] == [41, 140, 873]
