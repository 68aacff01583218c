"""The rounds of a comparison in a tracker, while it runs: a part for each strategy and repetition."""

import json
import tempfile
from pathlib import Path
from typing import Final

from understudy.experiments.grid import Task
from understudy.experiments.report import PAGE
from understudy.experiments.results import EXPERIMENT, RESULTS, TIMINGS, Round, RoundStore, file_name
from understudy.tracking import Tracker

PICKS: Final = "picks.json"
METRICS: Final = ("accuracy", "asked_accuracy", "ece", "brier", "log_loss", "train_seconds", "choose_seconds")
REPORT_FOLDERS: Final = ("tables", "figures")


class TrackedRounds:
    """Logs every stored round once, whoever played it and when: what a tracker has from earlier is not logged again."""

    def __init__(self, task: Task, tracker: Tracker) -> None:
        self.task, self.tracker = task, tracker
        plan = task.experiment.plan.as_json()
        tracker.log_parameters({name: value for name, value in plan.items() if name != "classes"})
        self._waiting: dict[tuple[str, int], list[int]] = {}
        for unit in task.units:
            for name in task.experiment.names(unit.strategy):
                for repeat in unit.repeats:
                    known = set(tracker.part(_part_name(name, repeat)).logged_at())
                    left = [labels for labels in unit.schedule(task.experiment.plan) if labels not in known]
                    if left:
                        self._waiting[name, repeat] = left

    def follow(self) -> None:
        """Log the rounds that were stored since."""
        store = self.task.store
        for (strategy, repeat), left in list(self._waiting.items()):
            before = len(left)
            while left and store.has(strategy, repeat, left[0]):
                self._log(strategy, repeat, left.pop(0))
            if len(left) < before and not left:
                self._finish(strategy, repeat)

    def _log(self, strategy: str, repeat: int, labels: int) -> None:
        (found,) = self.task.store.rounds_of(strategy, repeat, [labels])
        part = self.tracker.part(_part_name(strategy, repeat))
        part.log_parameters({"strategy": strategy, "repetition": repeat, "learner": self.task.experiment.plan.learner})
        part.log_metrics(_metrics_of(found), labels)

    def _finish(self, strategy: str, repeat: int) -> None:
        """Log what a run labelled, by the ids of the items, once it is whole."""
        del self._waiting[strategy, repeat]
        plan, ids = self.task.experiment.plan, self.task.experiment.bench.pool.ids
        unit = next(unit for unit in self.task.units if strategy in self.task.experiment.names(unit.strategy))
        rounds = self.task.store.rounds_of(strategy, repeat, unit.schedule(plan))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / PICKS
            path.write_text(json.dumps({one.labels: [ids[row] for row in one.picks] for one in rounds}, indent=1))
            self.tracker.part(_part_name(strategy, repeat)).log_file(path)


def _part_name(strategy: str, repeat: int) -> str:
    """What the run of a strategy in one repetition is called in a tracker."""
    return f"{file_name(strategy)}/{repeat}"


def _metrics_of(found: Round) -> dict[str, float]:
    values = {name: getattr(found, name) for name in METRICS}
    return {name: float(value) for name, value in values.items() if value is not None}


def log_results(store: RoundStore, tracker: Tracker) -> None:
    """Keep the settings of a comparison, and the tables of all its rounds and picks."""
    for name in (EXPERIMENT, RESULTS, TIMINGS):
        if (store.folder / name).exists():
            tracker.log_file(store.folder / name)


def log_report(store: RoundStore, tracker: Tracker) -> None:
    """Keep the report of a comparison, with its tables and figures."""
    tracker.log_file(store.folder / PAGE)
    for name in REPORT_FOLDERS:
        for path in sorted((store.folder / name).glob("*")):
            tracker.log_file(path, name)
