"""Trackers by name, as the command line has them: `mlflow`, `mlflow:URI`, `tensorboard:FOLDER`."""

from pathlib import Path
from typing import Final

from understudy.errors import UsageError
from understudy.tracking import SafeTracker, Tracker

TENSORBOARD_FOLDER: Final = "runs"  # where TensorBoard's own writer puts them, too


def make_tracker(text: str, name: str) -> Tracker:
    """The tracker that `text` asks for, of the run `name`; from then on its failures are a warning and no more."""
    kind, _, where = text.partition(":")
    if kind == "mlflow":
        from understudy.integrations.mlflow_tracking import MLflowTracker

        return SafeTracker(MLflowTracker.begin(name, where or None))
    if kind == "tensorboard":
        from understudy.integrations.tensorboard_tracking import TensorBoardTracker

        return SafeTracker(TensorBoardTracker(Path(where or TENSORBOARD_FOLDER) / Path(name).name))
    raise UsageError(f"a run is tracked by mlflow, mlflow:URI or tensorboard:FOLDER; got {text!r}")
