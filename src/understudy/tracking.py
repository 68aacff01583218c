"""Where the numbers and files of a run are shown besides, in MLflow say; a guard so that this never costs the run."""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, Protocol, runtime_checkable

from understudy.errors import UsageError
from understudy.messages import reason_of

LABELS: Final = "labels"  # the metric that every point has: by it one knows what was logged before
log = logging.getLogger(__name__)


@runtime_checkable
class Tracker(Protocol):
    """A place that keeps parameters, metrics by the number of labels, and files of one run."""

    def part(self, name: str) -> "Tracker":
        """The tracker of a part of the run, one strategy in one repetition say. The same name is the same part."""

    def logged_at(self) -> Collection[int]:
        """The numbers of labels that have metrics already, those of an earlier start of the same run included."""

    def log_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Keep what determines the run; what is there already stays."""

    def log_metrics(self, metrics: Mapping[str, float], labels: int) -> None:
        """Keep the metrics of a training with so many labels."""

    def log_file(self, path: Path, folder: str = "") -> None:
        """Keep a copy of a file, in a folder of this name; one of the same name is replaced."""

    def close(self) -> None:
        """Write what is left and say that the run, its parts included, has ended."""


def check_tracker(given: Any) -> Tracker:
    """The tracker; an error where this is something else, such as the words that the command line takes."""
    if not isinstance(given, Tracker):
        words = f"make_tracker({given!r}, ...)" if isinstance(given, str) else "make_tracker('mlflow:URI', ...)"
        raise UsageError(
            f"tracker must be a Tracker; got a {type(given).__name__}. "
            f"{words} of understudy.integrations.trackers makes one"
        )
    return given


class SafeTracker:
    """A tracker that warns once, in one line, and does nothing more when what it stands for fails.

    A server that is gone must not cost a run that may have taken days. Whoever starts the run again has what is
    missing logged then.
    """

    def __init__(self, tracker: Tracker, *, root: "SafeTracker | None" = None) -> None:
        self._tracker = tracker
        self._root = root or self
        self.failed = False  # of the root: for all its parts

    def part(self, name: str) -> "Tracker":
        found = self._try(lambda tracker: tracker.part(name), None)
        return self if found is None else SafeTracker(found, root=self._root)

    def logged_at(self) -> Collection[int]:
        return self._try(lambda tracker: tracker.logged_at(), ())

    def log_parameters(self, parameters: Mapping[str, Any]) -> None:
        self._try(lambda tracker: tracker.log_parameters(parameters), None)

    def log_metrics(self, metrics: Mapping[str, float], labels: int) -> None:
        self._try(lambda tracker: tracker.log_metrics(metrics, labels), None)

    def log_file(self, path: Path, folder: str = "") -> None:
        self._try(lambda tracker: tracker.log_file(path, folder), None)

    def close(self) -> None:
        self._try(lambda tracker: tracker.close(), None)

    def _try(self, call: Callable[[Tracker], Any], otherwise: Any) -> Any:
        if self._root.failed:
            return otherwise
        try:
            return call(self._tracker)
        except Exception as error:
            self._root.failed = True
            log.warning(
                "tracking failed and is left out from here on: %s", shorten(reason_of(error), 300, placeholder=" …")
            )
            return otherwise


class TrackedTrainings:
    """The trainings of a loop in a tracker, each once: what was labelled for it, and how much of that was predicted."""

    def __init__(self, tracker: Tracker, parameters: Mapping[str, Any]) -> None:
        self._tracker = SafeTracker(tracker)
        self._tracker.log_parameters(parameters)
        self._known = set(self._tracker.logged_at())
        self._ids: Sequence[str] = ()
        self._right: float | None = None
        self._began = 0.0

    def begin(self, ids: Sequence[str], right: float | None) -> None:
        """A training begins, after labels of these items; of them so large a share had been predicted right."""
        self._ids, self._right, self._began = ids, right, time.perf_counter()

    def end(self, labels: int, of_classes: Mapping[str, int]) -> None:
        """It has ended, with so many labels, of each class so many."""
        seconds = time.perf_counter() - self._began
        if labels in self._known:
            return
        self._known.add(labels)
        right = {} if self._right is None else {"asked_accuracy": self._right}
        counts = {f"labels of {name}": float(count) for name, count in of_classes.items()}
        self._tracker.log_metrics({"train_seconds": seconds, **right, **counts}, labels)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{labels:06}.json"
            path.write_text(json.dumps(list(self._ids)))
            self._tracker.log_file(path, "picks")
