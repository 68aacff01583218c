"""Comparisons of strategies by simulated labelling on one data set, stored round by round."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from understudy import defaults
from understudy.checks import check_whole_number
from understudy.data.pool import Dataset
from understudy.data.sources import load
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.bench import Bench, bench_of
from understudy.experiments.grid import Engine, Task, carry_out, default_jobs, on_this_machine, units_of
from understudy.experiments.plan import Plan, Protocol, default_schedule, parse_schedule
from understudy.experiments.results import CEILING, CONTROLS, SELECTION_ONLY, Results, RoundStore
from understudy.experiments.run import Experiment, StrategyRun, device_name, versions
from understudy.experiments.specs import check_specs, code_digests, split_specs
from understudy.learners.registry import make_learner
from understudy.loop import needs_no_learner
from understudy.messages import count_of
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks, PoolView


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison that was checked and is ready to run or to resume."""

    task: Task
    strategies: tuple[str, ...]
    repeats: int
    protocol: str
    together: int = 1
    notes: tuple[str, ...] = ()  # what one should know before it runs

    def run(self, engine: Engine | None = None, jobs: int | None = None, progress: bool = True) -> "Outcome":
        """Run every round that is not stored yet. A unit that fails does not stop the others."""
        if engine is None:
            engine = on_this_machine(jobs or default_jobs(self.task.experiment.device))
        failed = carry_out(self.task, engine, progress)
        return Outcome(self.task.store.folder, {unit.name: what for unit, what in failed.items()})

    def describe(self, jobs: int | None = None, where: str | None = None) -> list[str]:
        """What will be run, in a few lines; `where` replaces the default, `jobs` processes on this machine."""
        plan, device = self.task.experiment.plan, self.task.experiment.device
        if where is None:
            where = count_of(jobs or default_jobs(device), "process", "processes")
        beside = [name for name in CONTROLS if any(unit.strategy == name for unit in self.task.units)]
        beside = [name for name in beside if name not in self.strategies]
        steps = ", ".join(f"{step:,}" for step in plan.schedule)
        waiting = self.task.total - self.task.stored()
        more = "" if waiting == self.task.total else f"; {waiting:,} of {self.task.total:,} rounds left"
        first = [self.first_rows()] if plan.start == 0 else []
        return [
            f"{plan.dataset}: {plan.pool_rows:,} rows to choose from, {plan.test_rows:,} to test on, "
            f"{count_of(len(plan.classes), 'class', 'classes')}",
            f"strategies: {', '.join(self.strategies)}" + (f"; controls: {', '.join(beside)}" if beside else ""),
            f"trained from scratch at {steps} labels ({self.protocol}); learner {plan.learner}, "
            f"{count_of(self.repeats, 'repetition')}, seed {plan.seed}",
            *first,
            f"on {device}, {where}, {count_of(self.together, 'repetition')} trained at once; "
            f"stored in {self.task.store.folder}{more}",
            *self.notes,
        ]

    def first_rows(self) -> str:
        """Which strategies choose their first rows themselves, if the start is not shared."""
        experiment = self.task.experiment
        own = [
            spec for spec in self.strategies if needs_no_learner(experiment.make(spec, 0).needs) and spec != "random"
        ]
        others = "the others start from the same random rows" if own else "all start from the same random rows"
        return "no labels to start from: " + (f"{', '.join(own)} choose their first rows, {others}" if own else others)


@dataclass(frozen=True)
class Outcome:
    folder: Path
    failed: dict[str, str]  # unit -> what went wrong

    @property
    def results(self) -> Results:
        return Results.open(self.folder)


def compare(
    source: Any,
    strategies: str | Sequence[str] = defaults.STRATEGIES,
    *,
    out: str | Path | None = None,
    repeats: int = defaults.REPEATS,
    schedule: str | Sequence[int] | None = None,
    protocol: Protocol | None = None,
    learner: str = defaults.LEARNER,
    seed: int = defaults.SEED,
    device: str = defaults.DEVICE,
    together: int | None = None,
    controls: bool = True,
    start: int | None = None,
) -> Comparison:
    """A comparison of strategies on a data set, ready to run, or to resume if `out` holds part of it.

    Strategies and schedule may be strings, as on the command line: "margin,badge(bias=True)", "600,1000:5000:1000".
    By default the results go to comparisons/DATASET. With `start=0` every strategy that can choose without a
    learner chooses its own first rows, and the others share random ones. Otherwise all share their first labels.
    """
    if protocol not in (None, "paper", "small"):
        raise UsageError(f"protocol must be 'paper' or 'small', or give a schedule; got {protocol!r}")
    if schedule is not None and protocol is not None:
        raise UsageError(
            f"a schedule and the protocol {protocol} both set the numbers of labels at which to train; pass one of them"
        )
    if isinstance(strategies, str):
        strategies = split_specs(strategies)
    if isinstance(schedule, str):
        schedule = parse_schedule(schedule)
    repeats, seed = check_whole_number("repeats", repeats, 1), check_whole_number("seed", seed, 0)
    if taken := [name for name in CONTROLS if name in strategies]:
        raise UsageError(f"{taken[0]} is a control and always runs; leave it out of the strategies")
    wanted = check_specs(strategies)
    bench = bench_of(load(source), seed)
    make_learner(learner, device)  # raises if there is no such learner or device
    steps = default_schedule(protocol, len(bench.pool), bench.n_classes, start) if schedule is None else schedule
    plan = plan_of(bench, learner, steps, seed, start)
    experiment = Experiment(plan, bench, device)
    StrategyRun.begin(experiment, CEILING, 0)  # raises if the pool lacks what the learner needs
    for spec in wanted:
        _check_playable(experiment, spec)
    named = "own schedule" if schedule is not None else f"protocol {protocol or _protocol_of(plan)}"
    if start == 0 and schedule is None and protocol is None:
        named = "doubling from one label per class"
    return _prepare(
        experiment,
        RoundStore(Path(out) if out is not None else Path("comparisons") / (Path(_source_name(source)).stem or "pool")),
        strategies=wanted,
        controls=CONTROLS if controls else (),
        repeats=repeats,
        together=together,
        protocol=named,
        source=_source_name(source),
    )


def _check_playable(experiment: Experiment, spec: str) -> None:
    """Raise an error that names strategy and learner if the pool or the learner lacks what the strategy needs."""
    try:
        StrategyRun.begin(experiment, spec, 0)
    except UnderstudyError as error:
        problem, _, remedy = str(error).rpartition("; ")
        raise UsageError(
            f"{spec} cannot be run with the learner {experiment.plan.learner}: "
            + (f"{problem}; leave it out, or {remedy}" if problem else f"{remedy}; leave it out")
        ) from error


def plan_of(bench: Bench, learner: str, schedule: Sequence[int], seed: int, start: int | None = None) -> Plan:
    rows, test_rows = len(bench.pool), len(bench.test)
    return Plan(
        bench.name,
        bench.digest(),
        classes=bench.pool.classes,
        pool_rows=rows,
        test_rows=test_rows,
        learner=learner,
        schedule=tuple(schedule),
        seed=seed,
        start=start,
    )


def _prepare(
    experiment: Experiment,
    store: RoundStore,
    *,
    strategies: tuple[str, ...],
    controls: Sequence[str],
    repeats: int,
    together: int | None,
    protocol: str,
    source: str,
) -> Comparison:
    """Write the settings into the folder, and list the units to run."""
    before = store.settings if (store.folder / "experiment.json").exists() else {}
    if together is None and before.get("together", 1) > 1:
        together = before["together"]  # as before, so that stored repetitions match new ones
    if together is None:  # a GPU trains ten small networks in the time of one
        together = repeats if experiment.device.startswith("cuda") else 1
    together = check_whole_number("together", together, 1)
    own = [experiment.plan.learner, *(strategies if experiment.maker is None else ())]
    code = code_digests(own)
    notes = store.begin(
        experiment.plan,
        {
            "source": source,
            "protocol": protocol,
            "strategies": list(strategies),
            "repeats": repeats,
            "device": experiment.device,
            "together": together,
            "largest_class": experiment.bench.largest_class,
            "devices": [device_name(experiment.device)],
            "versions": [f"{name} {versions()[name].partition('+')[0]}" for name in ("understudy", "torch", "numpy")],
            **({"code": code} if code else {}),
        },
    )
    units = units_of([*strategies, *controls], range(repeats), together)
    notes = [*experiment.bench.notes(), *notes]
    return Comparison(Task(experiment, store, units), strategies, repeats, protocol, together, tuple(notes))


def _protocol_of(plan: Plan) -> str:
    return "paper" if plan.schedule == default_schedule("paper", plan.pool_rows, len(plan.classes)) else "small"


def _source_name(source: Any) -> str:
    if isinstance(source, Dataset):
        return source.name
    return str(source) if isinstance(source, str | Path) else type(source).__name__


# -- replaying picks with another learner -----------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedPicks:
    """A strategy that replays the rows of a stored run, in the same order."""

    order: tuple[int, ...]  # rows in the order they were labelled

    @property
    def needs(self) -> Needs:
        return Needs()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        labelled = int(view.is_labelled.sum())
        rows = np.array(self.order[labelled : labelled + n], dtype=np.int64)
        return Picks(rows, np.zeros(len(rows)))


@dataclass(frozen=True)
class RecordedStrategies:
    """The stored picks of a comparison as strategies, by name and repetition."""

    picks: dict[tuple[str, int], tuple[int, ...]]

    def __call__(self, strategy: str, repeat: int) -> RecordedPicks:
        return RecordedPicks(self.picks[strategy, repeat])


def replay(
    folder: str | Path,
    source: Any,
    learner: str,
    *,
    out: str | Path | None = None,
    device: str = defaults.DEVICE,
    together: int | None = None,
) -> Comparison:
    """The stored picks of a comparison, judged by another learner, in a separate folder: DIR/replay-LEARNER."""
    results = Results.open(folder)
    before = results.settings["plan"]
    make_learner(learner, device)
    bench = bench_of(load(source if source is not None else results.settings["source"]), before["seed"])
    plan = plan_of(bench, learner, before["schedule"], before["seed"], before.get("start"))
    if plan.digest != before["digest"]:
        raise UsageError(
            f"the items of {source or results.settings['source']} have changed since {folder} was made; "
            "pass the data set it was made with: --data"
        )
    # A replay judges the picks alone, so a system that changes training and its "selection only" are the same.
    names = [name for name in results.strategies if name != CEILING and not name.endswith(SELECTION_ONLY)]
    finished = {name: _finished_repeats(results, name, plan) for name in names}
    names = [name for name in names if finished[name]]  # one that failed does not block the others
    repeats = min((finished[name] for name in names), default=0)
    if not repeats:
        raise UnderstudyError(f"no run in {folder} has finished yet; finish its comparison first")
    picks = {
        (name, repeat): tuple(np.concatenate(results.picks(name, repeat)).tolist())
        for name in names
        for repeat in range(repeats)
    }
    target = Path(out) if out is not None else Path(folder) / f"replay-{learner.replace(':', '-')}"
    experiment = replace(Experiment(plan, bench, device), maker=RecordedStrategies(picks))
    return _prepare(
        experiment,
        RoundStore(target),
        strategies=tuple(names),
        controls=(CEILING,),
        repeats=repeats,
        together=together,
        protocol=f"picks of {results.settings['plan']['learner']}",
        source=_source_name(source) if source is not None else results.settings["source"],
    )


def _finished_repeats(results: Results, strategy: str, plan: Plan) -> int:
    """How many repetitions of a strategy, from the first on, completed the schedule."""
    table = results.table.select(["strategy", "repeat", "labels"]).to_pylist()
    ended = {row["repeat"] for row in table if row["strategy"] == strategy and row["labels"] == plan.schedule[-1]}
    return next(repeat for repeat in count() if repeat not in ended)
