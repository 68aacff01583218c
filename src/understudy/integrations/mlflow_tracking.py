"""Runs in MLflow: one for the whole, and one below it for each part (the extra `mlflow`)."""

import os
import re
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

from understudy.errors import UnderstudyError
from understudy.messages import install_command, reason_of
from understudy.tracking import LABELS

EXPERIMENT: Final = "understudy"
TAG: Final = "understudy.run"  # by it a run is found again
PARENT: Final = "mlflow.parentRunId"  # MLflow's own, by which its page nests runs
UNUSUAL: Final = re.compile(r"[^\w.\- :/]")  # what MLflow refuses in names of metrics; classes have any
MAX_PARAMETER_CHARACTERS: Final = 500  # what every version of MLflow takes
# A server that is gone should be noticed in seconds: by default MLflow tries for minutes.
RETRIES: Final = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
TELEMETRY: Final = {"MLFLOW_DISABLE_TELEMETRY": "true"}


class MLflowTracker:
    """A run of MLflow. Made by `begin`: the run of this name goes on if it is there."""

    def __init__(self, client: Any, experiment: str, name: str, parent: str | None = None) -> None:
        self._client, self._experiment, self._name = client, experiment, name
        self._parts: dict[str, MLflowTracker] = {}
        with _quiet():
            found = client.search_runs([experiment], f"tags.`{TAG}` = '{_in_quotes(name)}'", max_results=1)
            if found:
                self.run_id: str = found[0].info.run_id
                client.update_run(self.run_id, status="RUNNING")
            else:
                tags = {TAG: name} | ({} if parent is None else {PARENT: parent})
                shown = name.rpartition("::")[2] if parent is not None else Path(name).name
                self.run_id = client.create_run(experiment, tags=tags, run_name=shown).info.run_id

    @classmethod
    def begin(cls, name: str, uri: str | None = None, experiment: str = EXPERIMENT) -> "MLflowTracker":
        """The run of this name at the server, database or default place of MLflow that `uri` says."""
        for variable, value in (RETRIES | TELEMETRY).items():
            os.environ.setdefault(variable, value)
        try:
            with _quiet():
                from mlflow import MlflowClient
        except ImportError as error:
            raise UnderstudyError(f"MLflow is not installed; get it with: {install_command('mlflow')}") from error
        try:
            with _quiet():
                client = MlflowClient(tracking_uri=uri)
                known = client.get_experiment_by_name(experiment)
                number = client.create_experiment(experiment) if known is None else known.experiment_id
                return cls(client, number, name)
        except Exception as error:
            where = "" if uri is None else f" at {uri}"
            reason = shorten(reason_of(error), 300, placeholder=" …")
            raise UnderstudyError(
                f"MLflow cannot be used{where}: {reason}; mend that, or leave the tracking out"
            ) from error

    def part(self, name: str) -> "MLflowTracker":
        if name not in self._parts:
            self._parts[name] = MLflowTracker(self._client, self._experiment, f"{self._name}::{name}", self.run_id)
        return self._parts[name]

    def logged_at(self) -> Collection[int]:
        with _quiet():
            return {metric.step for metric in self._client.get_metric_history(self.run_id, LABELS)}

    def log_parameters(self, parameters: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        with _quiet():
            known = self._client.get_run(self.run_id).data.params  # MLflow refuses to change one
            new = [
                Param(name, str(value)[:MAX_PARAMETER_CHARACTERS])
                for name, value in parameters.items()
                if name not in known
            ]
            self._client.log_batch(self.run_id, params=new)

    def log_metrics(self, metrics: Mapping[str, float], labels: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        points = {**metrics, LABELS: labels}
        with _quiet():
            self._client.log_batch(
                self.run_id,
                metrics=[Metric(UNUSUAL.sub("_", name), float(value), now, labels) for name, value in points.items()],
            )

    def log_file(self, path: Path, folder: str = "") -> None:
        with _quiet():
            self._client.log_artifact(self.run_id, str(path), folder or None)

    def close(self) -> None:
        for part in self._parts.values():
            part.close()
        with _quiet():
            self._client.set_terminated(self.run_id)


def _in_quotes(name: str) -> str:
    return name.replace("'", "\\'")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep MLflow's warnings about its own libraries to itself: nobody here can act on them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
