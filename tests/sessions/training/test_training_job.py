"""The training process's work, done in this one; what becomes of a real process is in test_trainer.py."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sessions.training.test_trainer import OPTIONS, OWN, X, Y, lived
from understudy.core.features import Features
from understudy.core.options import Method
from understudy.core.surrogate import Surrogate
from understudy.errors import UnderstudyError
from understudy.sessions.models import mean_distance_in_setup
from understudy.sessions.training import progress_file, training_job
from understudy.sessions.training.array_folders import read_arrays
from understudy.sessions.training.artifacts import Artifacts, Predictions
from understudy.sessions.training.training_job import (
    LABELS,
    ROWS,
    attempt,
    is_setup_of,
    make_anchor,
    make_setup,
    mean_distance_in,
    write_job,
)


def attempted(folder: Path, n_classes: int = 10, **given: Any) -> dict[str, Any]:
    """What comes of a job with 20 labels."""
    np.save(folder / "features.npy", X)
    ledger = lived(20)._ledger
    rows = np.array(list(ledger.answers))
    job = {
        "kind": "train", "until": 20, "n_classes": n_classes, "outputs": list(range(n_classes)), "learner": "quick",
        "seed": 0, "predictions": None, "surrogate": OPTIONS, "encoder": None, "classes": list("0123456789"),
        "anchor": str(folder / "anchor"), "features": str(folder / "features.npy"), "work": str(folder),
        "artifacts": str(folder / "artifacts"), "path": [], **given,
    }  # fmt: skip
    write_job(folder / "job", job, {**ledger.to_arrays(), ROWS: rows, LABELS: Y[rows]})
    return attempt(folder / "job")


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (OWN + "raising", "^RuntimeError: stumbled over its own feet$"),
        (OWN + "leaving", r"the learner ended the process \(had enough\); let it raise an error instead"),
        (OWN + "hoarding", "not enough memory"),
        (OWN + "wide", r"predicts shape \(300, 11\) for 300 items and 10 classes"),
        (OWN + "undecided", "not finite"),
        (OWN + "of_images", "takes images, and labelling projects train on features"),
        ("nobody", "there is no learner 'nobody'"),
        ("nowhere:nobody", "cannot be imported"),
    ],
)
def test_a_learner_that_fails_gives_a_plain_reason(learner: str, reason: str, tmp_path: Path) -> None:
    found = attempted(tmp_path, learner=learner)["failed"]
    assert re.search(reason, found), found
    assert "\n" not in found
    assert not (tmp_path / "anchor").exists()
    assert not (tmp_path / "artifacts").exists()


def test_a_full_disk_leaves_no_anchor(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    assert "cannot write to" in attempted(tmp_path)["failed"]
    assert not (tmp_path / "anchor").exists()


def test_classes_that_came_since_the_set_up_are_there(tmp_path: Path) -> None:
    make_setup(X, tmp_path / "setup", 2, OPTIONS)
    first = Surrogate.restore(X, read_arrays(tmp_path / "setup"), check=False)
    assert first.ask(4).tolist() == Surrogate(X, 2, **OPTIONS).ask(4).tolist()
    before = (tmp_path / "setup" / "about.json").stat().st_ino
    result = attempted(tmp_path)
    found = Artifacts(tmp_path / "artifacts").predictions(result["predictions"])
    loaded = Surrogate.restore(X, read_arrays(tmp_path / "anchor"))
    assert loaded.n_classes == 10
    assert loaded.ask(4).tolist() == lived(20).anchor(found.probs, found.trained_on).ask(4).tolist()
    assert (tmp_path / "setup" / "about.json").stat().st_ino == before  # made once


@pytest.mark.parametrize(("method", "name"), [("understudy", "W"), ("paper", "of_features")])
def test_what_features_alone_say_of_the_rows_is_on_the_disk_once(tmp_path: Path, method: str, name: str) -> None:
    options = {**OPTIONS, "method": method}
    attempted(tmp_path, surrogate=options)
    assert (tmp_path / "anchor" / f"{name}.npy").samefile(tmp_path / "setup" / f"{name}.npy")
    anchor = read_arrays(tmp_path / "anchor")
    fresh = Surrogate(X, 10, **options).anchor(anchor["probs"], np.flatnonzero(anchor["is_trained"]))
    state = fresh.state_dict(whole=True)
    for kept in {name, "W"}:
        np.testing.assert_array_equal(anchor[kept], state[kept])


def test_predictions_of_fewer_classes_give_the_later_ones_nothing_and_of_more_are_refused(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "artifacts")
    given = {
        c: artifacts.put_predictions(Predictions(np.full((len(X), c), 1 / c, np.float32), Y[:0], Y[:0]))
        for c in (5, 20)
    }
    assert attempted(tmp_path, predictions=given[5])["predictions"] == given[5]
    probs = read_arrays(tmp_path / "anchor")["probs"]
    assert (probs[:, 5:] == 0).all()
    assert "know 20 classes, the project 10" in attempted(tmp_path, predictions=given[20])["failed"]
    assert "has no file 000000000000" in attempted(tmp_path, predictions="0" * 64)["failed"]


def test_the_set_up_is_made_again_where_features_options_or_files_are_others(tmp_path: Path) -> None:
    folder = tmp_path / "setup"

    def made(features: np.ndarray, n_classes: int = 3, **options: Any) -> tuple[int, int]:
        make_setup(features, folder, n_classes, {**OPTIONS, **options})
        return json.loads((folder / "about.json").read_text())["n_classes"], (folder / "about.json").stat().st_mtime_ns

    first = made(X)
    assert made(X) == first == made(X, 5)
    second = made(X + 1)
    assert second > first
    assert str(read_arrays(folder)["pool"]) == Features(X + 1).digest()
    assert made(X + 1, 2)[0] == 2  # a class less than it was made with
    assert made(X + 1, 2, basis_size=30)[0] == 2
    assert len(read_arrays(folder)["U"]) == 30
    (folder / "W.npy").unlink()
    with pytest.raises(UnderstudyError, match="delete it, and it is made again"):
        read_arrays(folder)
    made(X + 1, 2, basis_size=30)
    assert len(read_arrays(folder)["W"]) == len(X)


def test_making_a_set_up_leaves_how_far_it_is_in_the_folder_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_file, "SECONDS_BETWEEN_REPORTS", 0.0)
    np.save(tmp_path / "features.npy", X)
    job = {
        "kind": "setup", "features": str(tmp_path / "features.npy"), "work": str(tmp_path / "work"), "path": [],
        "n_classes": 10, "surrogate": OPTIONS,
    }  # fmt: skip
    write_job(tmp_path / "job", job, {})
    assert progress_file.read_progress(tmp_path / "job") is None
    assert "failed" not in attempt(tmp_path / "job")
    assert progress_file.read_progress(tmp_path / "job") == ("rows", training_job.SHARE_BEFORE_WRITING)


def test_the_mean_distance_of_many_items_is_that_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = mean_distance_in(X)
    monkeypatch.setattr(training_job, "DISTANCE_ROWS", len(X) // 2)
    assert mean_distance_in(X) != exact
    assert mean_distance_in(X) == pytest.approx(exact, rel=0.02)


def test_a_set_up_of_the_version_before_is_the_papers_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "setup"
    make_setup(X, folder, 10, {**OPTIONS, "method": "paper"})
    about = json.loads((folder / "about.json").read_text())
    assert mean_distance_in_setup(folder) == about.pop("mean_distance")
    del about["surrogate"]["method"]
    (folder / "about.json").write_text(json.dumps(about))
    assert is_setup_of(X, folder, 10, {**OPTIONS, "method": "paper"})
    assert not is_setup_of(X, folder, 10, {**OPTIONS, "method": "understudy"})
    assert mean_distance_in_setup(folder) == pytest.approx(mean_distance_in(X), rel=1e-3), (
        "from the width of its kernel"
    )


@pytest.mark.parametrize("method", ["understudy", "paper"])
def test_an_anchor_of_a_time_with_fewer_items_is_made_of_those(tmp_path: Path, method: Method) -> None:
    make_setup(X, tmp_path / "setup", 10, {**OPTIONS, "method": method})
    then = Surrogate(X[:200], 10, method=method, **OPTIONS)
    then.tell(rows := then.ask(5), Y[rows])
    probs = np.random.default_rng(0).dirichlet(np.ones(10), 200)
    state = make_anchor(X[:200], tmp_path / "setup", then.parts.ledger, 10, probs, rows[:3])
    found = Surrogate.restore(X[:200], state)
    assert found.ask() not in rows
    assert len(found) == 200
    assert found.options.method == method
    np.testing.assert_allclose(state["U"], read_arrays(tmp_path / "setup")["U"])
