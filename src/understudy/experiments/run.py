"""One unit of a comparison: a strategy's run, in one repetition or in several at once."""

import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import torch

from understudy.experiments.bench import Bench, inputs_of
from understudy.experiments.metrics import measure_predictions
from understudy.experiments.oracle import Oracle
from understudy.experiments.plan import Plan, refine_schedule
from understudy.experiments.results import CEILING, OFTEN, ORACLE, SELECTION_ONLY, Round
from understudy.experiments.specs import strategy_of
from understudy.learners.protocol import Learner, Model
from understudy.learners.registry import make_learner
from understudy.loop import ActiveLoop, fit_plainly, needs_no_learner, train_together
from understudy.strategies.protocol import Augments, Strategy
from understudy.strategies.random_rows import Random
from understudy.strategies.view import Picks
from understudy.version import __version__

TIMES_AS_OFTEN: Final = 10
Maker = Callable[[str, int], Strategy]  # a strategy's spec and the repetition -> the strategy


@dataclass(frozen=True)
class Unit:
    """A strategy in one repetition or several: what one process runs at a time."""

    strategy: str
    repeats: tuple[int, ...]

    @property
    def name(self) -> str:
        first, last = self.repeats[0], self.repeats[-1]
        return f"{self.strategy}, {'repetition' if first == last else 'repetitions'} {first}" + (
            "" if first == last else f"-{last}"
        )

    def schedule(self, plan: Plan) -> tuple[int, ...]:
        """The numbers of labels at which it is judged."""
        return (plan.pool_rows,) if self.strategy == CEILING else plan.schedule


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything needed to run a unit, on any machine."""

    plan: Plan
    bench: Bench
    device: str = "cpu"
    maker: Maker | None = None  # None: strategies by their specs
    predictions: np.ndarray | None = None  # of the whole pool, that all strategies start from

    def make(self, spec: str, repeat: int) -> Strategy:
        if self.maker is not None and spec != CEILING:
            return self.maker(spec, repeat)
        return strategy_of({CEILING: "random", ORACLE: "random", OFTEN: "margin"}.get(spec, spec))

    def names(self, spec: str) -> tuple[str, ...]:
        """The names under which a run is stored; a system that changes training has a second one."""
        strategy = self.make(spec, 0)
        changes = strategy.needs.hook or isinstance(strategy, Augments)
        return (spec + SELECTION_ONLY, spec) if changes else (spec,)

    def can_start(self, spec: str) -> bool:
        """Whether a strategy chooses its first rows itself, before there is a model."""
        needs = self.make(spec, 0).needs
        return spec not in ("random", ORACLE) and needs_no_learner(needs, with_probs=self.predictions is not None)

    def learner(self) -> Learner:
        return make_learner(self.plan.learner, self.device)


def play(experiment: Experiment, unit: Unit, stored: Mapping[int, Sequence[Round]]) -> Iterator[list[Round]]:
    """Run a unit and yield the rounds that are not stored yet, each as soon as it ends.

    Resumes from what is stored: the last of those trainings is repeated, and if the strategy changes training, all are,
    since each may depend on the one before. No row is chosen again.
    """
    plan, bench = experiment.plan, experiment.bench
    runs = [StrategyRun.begin(experiment, unit.strategy, repeat) for repeat in unit.repeats]
    schedule = unit.schedule(plan)
    done = min(len(stored.get(repeat, ())) for repeat in unit.repeats)
    if done == len(schedule):
        return
    hooked = runs[0].loop.strategy.needs.hook
    also_plainly = len(experiment.names(unit.strategy)) > 1
    for number in range(done):
        for run in runs:
            run.repeat_round(stored[run.repeat][number])
        if hooked or number == done - 1:
            for run in runs:
                run.loop.recall(json.loads(stored[run.repeat][number].memory))
            _train(runs)
    for number in range(done, len(schedule)):
        for run in runs:
            run.reset_peaks(experiment.device)
        if number == 0:
            for run in runs:
                run.start(plan, bench)
        else:
            often = unit.strategy == OFTEN and experiment.maker is None
            _extend(runs, schedule[number - 1 : number + 1], often, bench.truth)
        _train(runs)
        rounds = [run.make_round(number, run.final_model(), experiment) for run in runs]
        yield [*(_judge_plainly(runs, number, experiment) if also_plainly else ()), *rounds]


def _judge_plainly(runs: Sequence["StrategyRun"], number: int, experiment: Experiment) -> list[Round]:
    """The rounds of the common learner, trained on the same labels."""
    start = _clock(experiment.device)
    models = fit_plainly([run.loop for run in runs])
    seconds = (_clock(experiment.device) - start) / len(runs)
    rounds = [run.make_round(number, model, experiment) for run, model in zip(runs, models, strict=True)]
    return [replace(one, strategy=one.strategy + SELECTION_ONLY, train_seconds=seconds) for one in rounds]


def _extend(runs: Sequence["StrategyRun"], between: Sequence[int], often: bool, truth: np.ndarray) -> None:
    """Label from one number of labels to the next, in all runs."""
    steps = refine_schedule(between, TIMES_AS_OFTEN) if often else tuple(between)
    for run in runs:
        run.forget_picks()
    for i, (before, after) in enumerate(pairwise(steps)):
        if i:
            _train(runs)
        for run in runs:
            run.choose(after - before, truth)


def _train(runs: Sequence["StrategyRun"]) -> None:
    device = runs[0].loop.device
    start = _clock(device)
    train_together([run.loop for run in runs])
    if any(run.loop.interrupted for run in runs):
        raise KeyboardInterrupt  # an unfinished training is not a result
    seconds = (_clock(device) - start) / len(runs)
    for run in runs:
        run.train_seconds += seconds
        run.together = len(runs)


class StrategyRun:
    """One strategy in one repetition, while it runs."""

    def __init__(
        self, strategy: str, repeat: int, loop: ActiveLoop, answers: np.ndarray, oracle: Oracle | None = None
    ) -> None:
        self.strategy = strategy
        self.repeat = repeat
        self.loop = loop
        self.answers = answers  # what is told of every row, right or wrong
        self.oracle = oracle
        self.right = self.judged = 0
        self.together = 1
        self.forget_picks()

    @classmethod
    def begin(cls, experiment: Experiment, strategy: str, repeat: int) -> "StrategyRun":
        plan, bench = experiment.plan, experiment.bench
        loop = ActiveLoop(
            bench.pool,
            experiment.learner(),
            experiment.make(strategy, repeat),
            schedule=(),
            random_state=plan.run_seed(repeat),
            n_classes=bench.n_classes,
            device=experiment.device,
            predictions=experiment.predictions,
        )
        answers = plan.answers(bench.truth, repeat)
        looks = strategy == ORACLE and experiment.maker is None
        oracle = Oracle.of(plan, repeat, bench.pool, bench.truth, answers) if looks else None
        return cls(strategy, repeat, loop, answers, oracle)

    def forget_picks(self) -> None:
        """Begin a round: reset the picks and the times."""
        self.picks: list[int] = []
        self.was_right: list[bool] = []
        self.scores: list[float] | None = None
        self.train_seconds = self.predict_seconds = self.choose_seconds = 0.0

    def start(self, plan: Plan, bench: Bench) -> None:
        """Label the rows of the first training."""
        if self.strategy != CEILING and plan.start == 0:
            self.start_without_labels(plan.schedule[0])
            return
        rows = np.arange(len(bench.pool)) if self.strategy == CEILING else plan.initial_rows(self.repeat)
        self.loop.tell(rows, self.answers[rows])
        self.picks = [] if self.strategy == CEILING else rows.tolist()

    def start_without_labels(self, n: int) -> None:
        """Label first rows chosen by the strategy, or the random ones of this repetition if it needs a learner.

        Random ones have no scores, which tells them apart later.
        """
        began = _clock(self.loop.device)
        picks = self.loop.rehearse(n, self.answers)
        self.choose_seconds += _clock(self.loop.device) - began
        self.picks = picks.rows.tolist()
        if self.loop.is_ready and not isinstance(self.loop.strategy, Random):
            self.scores = picks.scores.tolist()

    def repeat_round(self, stored: Round) -> None:
        """Label the rows of a stored round again, without choosing."""
        rows = np.array(stored.picks, dtype=np.int64)
        self.loop.tell(rows, self.answers[rows])
        self.right += sum(stored.was_right or ())
        self.judged += len(stored.was_right or ())

    def choose(self, n: int, truth: np.ndarray) -> None:
        """Let the strategy, or the oracle, choose the next n rows, and label them; `truth` judges the predictions."""
        device, start = self.loop.device, _clock(self.loop.device)
        self.loop.view  # noqa: B018  # predicts what the strategy will be shown
        looked = _clock(device)
        picks = self.loop.rehearse(n, self.answers) if self.oracle is None else self.tell_best(n)
        self.predict_seconds += looked - start
        self.choose_seconds += _clock(device) - looked
        right = self.loop.predict_classes(picks.rows) == truth[picks.rows]
        self.right, self.judged = self.right + int(right.sum()), self.judged + n
        self.picks += picks.rows.tolist()
        self.scores = [*(self.scores or ()), *picks.scores.tolist()]
        self.was_right += right.tolist()

    def tell_best(self, n: int) -> Picks:
        """Label the n rows that the oracle takes; the strategy of the loop is not asked."""
        assert self.oracle is not None
        picks = self.oracle.choose(self.loop.labelled, n)
        self.loop.tell(picks.rows, self.answers[picks.rows])
        return picks

    def final_model(self) -> Model:
        """The trained model. If the strategy uses a proxy, the learner is trained only now, and the time counts."""
        start = _clock(self.loop.device)
        model = self.loop.model
        self.train_seconds += _clock(self.loop.device) - start
        return model

    def make_round(self, number: int, model: Model, experiment: Experiment) -> Round:
        """The round that ends with a training, evaluated on the test items."""
        bench, loop = experiment.bench, self.loop
        if model.interrupted:
            raise KeyboardInterrupt  # an unfinished training is not a result
        probs = model.predict_proba(inputs_of(bench.test, loop.learner.takes))
        found = measure_predictions(probs, bench.test_labels)
        return Round(
            dataset=bench.name,
            strategy=self.strategy,
            repeat=self.repeat,
            round=number,
            labels=len(loop.labelled),
            accuracy=found.accuracy,
            class_accuracy=[None if np.isnan(value) else float(value) for value in found.class_accuracy],
            ece=found.ece,
            brier=found.brier,
            log_loss=found.log_loss,
            asked_accuracy=self.right / self.judged if self.judged else None,
            class_counts=np.bincount(loop.labels[loop.labelled], minlength=bench.n_classes).tolist(),
            picks=self.picks,
            scores=self.scores,
            was_right=self.was_right if number else None,
            memory=json.dumps(loop.memory),
            train_seconds=self.train_seconds,
            predict_seconds=self.predict_seconds,
            choose_seconds=self.choose_seconds,
            peak_memory=_peak_memory(),
            peak_device_memory=_peak_device_memory(loop.device),
            together=self.together,
            device=device_name(loop.device),
            versions=json.dumps(versions()),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @staticmethod
    def reset_peaks(device: str) -> None:
        if torch.device(device).type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):  # on other systems the peak is that of the process's lifetime
            Path("/proc/self/clear_refs").write_text("5")


def _clock(device: str) -> float:
    """The time in seconds, after synchronising with the device."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _peak_memory() -> int:
    """The peak of this process's main memory since the last reset, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        try:
            import resource
        except ImportError:  # Windows
            return 0
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _peak_device_memory(device: str) -> int:
    return torch.cuda.max_memory_allocated() if torch.device(device).type == "cuda" else 0


def device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return str(torch.cuda.get_device_name())
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """The versions of the packages that results may depend on."""
    return {
        "understudy": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
