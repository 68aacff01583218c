"""Curves, picks and reports in MLflow and in TensorBoard, read back from where these keep them."""

import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.naive_bayes import GaussianNB

from tests.experiments.small import ARRAYS, LEARNER, SCHEDULE, dataset
from tests.sessions.commands import command
from understudy import ActiveLoop
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.compare import compare
from understudy.integrations.mlflow_tracking import MLflowTracker
from understudy.integrations.tensorboard_tracking import TensorBoardTracker
from understudy.integrations.trackers import make_tracker
from understudy.tracking import SafeTracker, Tracker


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of MLflow, made once since that takes seconds; files go into the folder that the tests run in."""
    folder, before = tmp_path_factory.mktemp("mlflow"), Path.cwd()
    os.chdir(folder)
    try:
        yield f"sqlite:///{folder}/mlflow.db"
    finally:
        os.chdir(before)
        logging.getLogger("mlflow").setLevel(logging.WARNING)


def client(uri: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=uri)


def steps(found: Any, run_id: str, metric: str = "accuracy") -> list[int]:
    return sorted(point.step for point in found.get_metric_history(run_id, metric))


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return [(one.step, one.value) for one in EventAccumulator(str(folder)).Reload().Scalars(tag)]


def played(out: Path, tracker: Tracker | None, repeats: int = 1) -> None:
    made = compare(
        dataset(), ["margin", "random"], out=out, repeats=repeats, schedule=SCHEDULE, learner=LEARNER, controls=False
    )
    assert made.run(jobs=1, progress=False, tracker=tracker).failed == {}


# -- MLflow ---------------------------------------------------------------------------------------------------------


def test_a_comparison_is_a_run_of_mlflow_with_one_below_it_for_each_strategy_and_repetition(
    server: str, tmp_path: Path
) -> None:
    played(tmp_path, MLflowTracker.begin("first", server))
    found = client(server)
    experiment = found.get_experiment_by_name("understudy").experiment_id
    runs = {run.info.run_name: run for run in found.search_runs([experiment])}
    assert set(runs) == {"first", "margin/0", "random/0"}
    assert runs["first"].data.params["learner"] == LEARNER
    assert runs["margin/0"].data.tags["mlflow.parentRunId"] == runs["first"].info.run_id
    assert steps(found, runs["margin/0"].info.run_id) == list(SCHEDULE)
    files = {one.path for one in found.list_artifacts(runs["first"].info.run_id)}
    assert files == {"experiment.json", "results.parquet", "timings.parquet"}
    path = found.download_artifacts(runs["random/0"].info.run_id, "picks.json", str(tmp_path))
    picks = json.loads(Path(path).read_text())
    assert {labels: len(rows) for labels, rows in picks.items()} == {"9": 9, "14": 5, "20": 6, "26": 6}
    assert picks["9"][0].startswith("item ")

    played(tmp_path, MLflowTracker.begin("first", server), repeats=2)  # goes on, with another repetition
    again = {run.info.run_name: run.info.run_id for run in found.search_runs([experiment])}
    assert set(again) == {"first", "margin/0", "random/0", "margin/1", "random/1"}
    logged = [steps(found, run_id) for name, run_id in again.items() if name != "first"]
    assert logged == [list(SCHEDULE)] * 4


def test_a_loop_tells_mlflow_of_every_training_and_not_again_of_those_that_it_repeats(server: str) -> None:
    def loop_of() -> ActiveLoop:
        tracker = make_tracker(f"mlflow:{server}", "loop")
        return ActiveLoop(ARRAYS.features, "logistic", "margin", [8, 12, 16], n_classes=3, tracker=tracker)

    first = loop_of()
    first.rehearse(13, ARRAYS.truth)
    second = loop_of().resume(first.state_dict())
    second.rehearse(3, ARRAYS.truth)
    found = client(server)
    (run,) = found.search_runs(["1"], "tags.`understudy.run` = 'loop'")
    assert steps(found, run.info.run_id, "train_seconds") == [8, 12, 16]
    assert steps(found, run.info.run_id, "asked_accuracy") == [12, 16]  # before the first, nobody had predicted
    assert sum(run.data.metrics[f"labels of {name}"] for name in range(3)) == 16
    picks = sorted(one.path for one in found.list_artifacts(run.info.run_id, "picks"))
    assert picks == ["picks/000008.json", "picks/000012.json", "picks/000016.json"]


def test_mlflow_reports_nothing_to_its_makers_unless_one_says_so(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "kept")  # so that what is set here is taken back
    make_tracker(f"mlflow:{server}", "quiet").close()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "kept"
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY")
    make_tracker(f"mlflow:{server}", "quiet").close()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_what_mlflow_cannot_use_is_said_before_anything_runs() -> None:
    with pytest.raises(UnderstudyError, match=r"MLflow cannot be used at nowhere://x: .* leave the tracking out"):
        make_tracker("mlflow:nowhere://x", "run")


def test_a_long_reason_of_mlflow_is_cut_between_two_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise OSError("no use " * 100)

    monkeypatch.setattr("mlflow.MlflowClient", fail)
    with pytest.raises(UnderstudyError, match=r"at here: no use (no use |no )+…; mend that, or leave") as error:
        make_tracker("mlflow:here", "run")
    assert len(str(error.value)) < 400


# -- TensorBoard ----------------------------------------------------------------------------------------------------


def test_the_command_writes_what_tensorboard_reads_and_no_point_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # figures take seconds, and are tested elsewhere
    X, y = ARRAYS.features, ARRAYS.truth
    np.savez(tmp_path / "small.npz", X=X[:120], y=y[:120], Xt=X[120:], yt=y[120:])
    given = ["compare", tmp_path / "small.npz", "--strategies", "margin", "--schedule", "9,14", "--learner", LEARNER]
    given += ["--out", tmp_path / "mine", "--jobs", 1, "--no-controls", "--track", f"tensorboard:{tmp_path / 'runs'}"]
    command(*given, "--repeats", 1)
    folder = tmp_path / "runs" / "mine"
    first = scalars(folder / "margin" / "0", "accuracy")
    assert [labels for labels, _ in first] == [9, 14]
    command(*given, "--repeats", 2)
    assert scalars(folder / "margin" / "0", "accuracy") == first
    assert [labels for labels, _ in scalars(folder / "margin" / "1", "labels")] == [9, 14]
    assert (folder / "files" / "report.html").exists()
    assert (folder / "files" / "results.parquet").exists()
    assert list((folder / "files" / "tables").glob("*.md"))
    assert json.loads((folder / "margin" / "0" / "files" / "picks.json").read_text()).keys() == {"9", "14"}


def test_tensorboard_shows_pictures_and_parameters(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    Image.new("RGB", (8, 6), "red").save(tmp_path / "curve.png")
    for _ in range(2):
        tracker = TensorBoardTracker(tmp_path / "run")
        tracker.log_parameters({"learner": "modern"})
        tracker.log_file(tmp_path / "curve.png", "figures")
        tracker.close()
    found = EventAccumulator(str(tmp_path / "run")).Reload()
    assert found.Images("figures/curve")[0].width == 8
    assert len(found.Tensors("parameters/text_summary")) == 1


# -- any tracker ----------------------------------------------------------------------------------------------------


class Gone:
    """A tracker whose server goes away after some points."""

    def __init__(self, points: int) -> None:
        self.left, self.calls = points, 0

    def part(self, name: str) -> "Gone":
        return self

    def logged_at(self) -> set[int]:
        return set()

    def log_parameters(self, parameters: Mapping[str, Any]) -> None: ...

    def log_metrics(self, metrics: Mapping[str, float], labels: int) -> None:
        self.calls += 1
        if self.calls > self.left:
            raise ConnectionError("no route\nto host")

    def log_file(self, path: Path, folder: str = "") -> None: ...

    def close(self) -> None: ...


def test_a_tracker_that_fails_costs_one_warning_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Gone(points=3)
    played(tmp_path, gone)
    assert gone.calls == 4
    (said,) = [record.getMessage() for record in caplog.records if record.name == "understudy.tracking"]
    assert said == "tracking failed and is left out from here on: no route to host"
    assert isinstance(gone, Tracker)
    safe = SafeTracker(gone)
    safe.log_metrics({}, 1)
    assert safe.failed
    assert list(safe.part("other").logged_at()) == []


def test_a_tracker_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match=r"mlflow, mlflow:URI or tensorboard:FOLDER; got 'wandb'"):
        make_tracker("wandb", "run")


def test_a_loop_tells_a_tracker_of_its_classes_by_name_whatever_the_pool_calls_them() -> None:
    class Points(Gone):
        def log_metrics(self, metrics: Any, labels: int) -> None:
            seen.append(metrics)

    seen: list[Any] = []
    stored = Pool(tuple(map(str, range(len(ARRAYS.truth)))), features=ARRAYS.features, classes=("0", "1", "2"))
    for pool, given in ((ARRAYS.features, {"classes": ["a", "b", "c"]}), (stored, {"n_classes": 4})):
        ActiveLoop(pool, "logistic", "margin", [8], tracker=Points(points=9), **given).rehearse(8, ARRAYS.truth)
    names = [[name for name in metrics if name.startswith("labels of")] for metrics in seen]
    assert names == [[f"labels of {name}" for name in classes] for classes in ("abc", "0123")]


def test_a_model_that_cannot_predict_new_rows_is_trained_again_tracker_or_not() -> None:
    class Strict(GaussianNB):  # type: ignore[misc]
        def predict_proba(self, X: Any) -> Any:
            if len(X) == 4:
                raise ValueError("never seen")
            return super().predict_proba(X)

    gone = Gone(points=9)
    loop = ActiveLoop(ARRAYS.features, Strict(), "random", [8, 12], n_classes=3, tracker=gone)
    loop.rehearse(12, ARRAYS.truth)
    assert loop.round == 2
