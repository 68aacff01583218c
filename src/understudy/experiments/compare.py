"""Compare strategies: simulated labelling of all of them on one data set, stored round by round."""

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
from understudy.experiments.plan import Plan, Protocol, default_schedule, parsed_schedule
from understudy.experiments.results import CEILING, CONTROLS, SELECTION_ONLY, Results, Store
from understudy.experiments.run import Experiment, Run, device_name, versions
from understudy.experiments.specs import checked_specs, codes_of, split_specs
from understudy.learners.named import make_learner
from understudy.loop import needs_no_learner
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks, PoolView


@dataclass(frozen=True, eq=False)
class Comparison:
    """What is to be done, checked; `run` does it."""

    task: Task
    strategies: tuple[str, ...]
    repeats: int
    protocol: str
    together: int = 1
    notes: tuple[str, ...] = ()  # what its user should know beforehand

    def run(self, engine: Engine | None = None, jobs: int | None = None, progress: bool = True) -> "Outcome":
        """Play all that is not stored yet. What fails is told, and what is stored stays."""
        if engine is None:
            engine = on_this_machine(jobs or default_jobs(self.task.experiment.device))
        failed = carry_out(self.task, engine, progress)
        return Outcome(self.task.store.folder, {unit.name: what for unit, what in failed.items()})

    def describe(self, jobs: int | None = None, where: str | None = None) -> list[str]:
        """What will be done, in a few lines; by `jobs` processes, or `where` else it is."""
        plan, device = self.task.experiment.plan, self.task.experiment.device
        if where is None:
            where = _counted(jobs or default_jobs(device), "process", "processes")
        beside = [name for name in CONTROLS if any(unit.strategy == name for unit in self.task.units)]
        beside = [name for name in beside if name not in self.strategies]
        steps = ", ".join(f"{step:,}" for step in plan.schedule)
        waiting = self.task.total - self.task.stored()
        more = "" if waiting == self.task.total else f"; {waiting:,} of {self.task.total:,} rounds are left to do"
        first = [self.first_rows()] if plan.start == 0 else []
        return [
            f"{plan.dataset}: {plan.pool_rows:,} rows to choose from, {plan.test_rows:,} to test on, "
            f"{_counted(len(plan.classes), 'class', 'classes')}",
            f"strategies: {', '.join(self.strategies)}" + (f"; beside them {', '.join(beside)}" if beside else ""),
            f"trained from scratch at {steps} labels ({self.protocol}); learner {plan.learner}, "
            f"{_counted(self.repeats, 'repetition', 'repetitions')}, seed {plan.seed}",
            *first,
            f"on {device}, {where}, {_counted(self.together, 'repetition', 'repetitions')} trained at once; "
            f"stored in {self.task.store.folder}{more}",
            *self.notes,
        ]

    def first_rows(self) -> str:
        """Who chooses its first rows itself, where the start is not shared."""
        experiment = self.task.experiment
        own = [
            spec for spec in self.strategies if needs_no_learner(experiment.make(spec, 0).needs) and spec != "random"
        ]
        others = "the others start from the same random rows" if own else "all start from the same random rows"
        return "no labels to start from: " + (f"{', '.join(own)} choose their first rows, {others}" if own else others)


def _counted(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"


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
    """A comparison of strategies on a data set, ready to run; or to go on, where `out` holds a part of it already.

    Strategies and schedule may be given as they are typed: "margin,badge(start='random')", "600,800,1000:5000:1000".
    Without `out` the results go to comparisons/DATASET. With `start=0` every strategy that can choose without a
    learner chooses its first rows, and the others draw the same ones at random. Else all share their first labels.
    """
    if protocol not in (None, "paper", "small"):
        raise UsageError(f"protocol is 'paper' or 'small', or give a schedule; got {protocol!r}")
    if schedule is not None and protocol is not None:
        raise UsageError(
            f"a schedule and the protocol {protocol} both say at how many labels to train; give one of them"
        )
    if isinstance(strategies, str):
        strategies = split_specs(strategies)
    if isinstance(schedule, str):
        schedule = parsed_schedule(schedule)
    repeats, seed = check_whole_number("repeats", repeats, 1), check_whole_number("seed", seed, 0)
    if taken := [name for name in CONTROLS if name in strategies]:
        raise UsageError(f"{taken[0]} is always compared with; leave it out of the strategies")
    wanted = checked_specs(strategies)
    bench = bench_of(load(source), seed)
    make_learner(learner, device)  # its words, if there is no such learner or device
    steps = default_schedule(protocol, len(bench.pool), bench.n_classes, start) if schedule is None else schedule
    plan = plan_of(bench, learner, steps, seed, start)
    experiment = Experiment(plan, bench, device)
    Run.begin(experiment, CEILING, 0)  # its words, if the pool lacks what the learner needs
    for spec in wanted:
        _check_playable(experiment, spec)
    named = "own schedule" if schedule is not None else f"protocol {protocol or _protocol_of(plan)}"
    if start == 0 and schedule is None and protocol is None:
        named = "doubling from one label a class"
    return _prepare(
        experiment,
        Store(Path(out) if out is not None else Path("comparisons") / (Path(_source_name(source)).stem or "pool")),
        strategies=wanted,
        controls=CONTROLS if controls else (),
        repeats=repeats,
        together=together,
        protocol=named,
        source=_source_name(source),
    )


def _check_playable(experiment: Experiment, spec: str) -> None:
    """One line if the pool or the learner lacks what a strategy needs, with the names that were typed."""
    try:
        Run.begin(experiment, spec, 0)
    except UnderstudyError as error:
        problem, _, remedy = str(error).rpartition("; ")
        raise UsageError(
            f"{spec} cannot be played with the learner {experiment.plan.learner}: "
            + (f"{problem}; leave it out, or {remedy}" if problem else f"{remedy}; leave it out")
        ) from error


def plan_of(bench: Bench, learner: str, schedule: Sequence[int], seed: int, start: int | None = None) -> Plan:
    rows, test_rows = len(bench.pool), len(bench.test)
    return Plan(bench.name, bench.digest(), bench.pool.classes, rows, test_rows, learner, tuple(schedule), seed, start)


def _prepare(
    experiment: Experiment,
    store: Store,
    *,
    strategies: tuple[str, ...],
    controls: Sequence[str],
    repeats: int,
    together: int | None,
    protocol: str,
    source: str,
) -> Comparison:
    """Write the settings into the folder, and list what is to be played."""
    before = store.settings if (store.folder / "experiment.json").exists() else {}
    if together is None and before.get("together", 1) > 1:
        together = before["together"]  # repetitions that come later are no reason to play the first again
    if together is None:  # a GPU trains ten small networks in the time of one
        together = repeats if experiment.device.startswith("cuda") else 1
    together = check_whole_number("together", together, 1)
    own = [experiment.plan.learner, *(strategies if experiment.maker is None else ())]
    code = codes_of(own)
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


# -- the same picks, judged by another learner ------------------------------------------------------------------


@dataclass(frozen=True)
class Recorded:
    """Chooses again what was chosen before."""

    order: tuple[int, ...]  # rows as they were labelled, those of the first round first

    @property
    def needs(self) -> Needs:
        return Needs()

    def select(self, view: PoolView, n: int, rng: np.random.Generator) -> Picks:
        labelled = int(view.is_labelled.sum())
        rows = np.array(self.order[labelled : labelled + n], dtype=np.int64)
        return Picks(rows, np.zeros(len(rows)))


@dataclass(frozen=True)
class FromRecords:
    """Strategies that are records of a comparison."""

    picks: dict[tuple[str, int], tuple[int, ...]]

    def __call__(self, strategy: str, repeat: int) -> Recorded:
        return Recorded(self.picks[strategy, repeat])


def replay(
    folder: str | Path,
    source: Any,
    learner: str,
    *,
    out: str | Path | None = None,
    device: str = defaults.DEVICE,
    together: int | None = None,
) -> Comparison:
    """The stored picks of a comparison judged by another learner, in a folder of its own: DIR/replay-LEARNER."""
    results = Results.open(folder)
    before = results.settings["plan"]
    make_learner(learner, device)
    bench = bench_of(load(source if source is not None else results.settings["source"]), before["seed"])
    plan = plan_of(bench, learner, before["schedule"], before["seed"], before.get("start"))
    if plan.digest != before["digest"]:
        raise UsageError(
            f"{folder} was made with other items than {source or results.settings['source']} has now; "
            "give the data set it was made with: --data"
        )
    # Of a system that changes training the picks count alone, so one judgement of them is enough.
    names = [name for name in results.strategies if name != CEILING and not name.endswith(SELECTION_ONLY)]
    finished = {name: _finished_repeats(results, name, plan) for name in names}
    names = [name for name in names if finished[name]]  # one that failed need not keep the others from it
    repeats = min((finished[name] for name in names), default=0)
    if not repeats:
        raise UnderstudyError(f"no run in {folder} is finished yet; run its comparison to the end first")
    picks = {
        (name, repeat): tuple(np.concatenate(results.picks(name, repeat)).tolist())
        for name in names
        for repeat in range(repeats)
    }
    target = Path(out) if out is not None else Path(folder) / f"replay-{learner.replace(':', '-')}"
    experiment = replace(Experiment(plan, bench, device), maker=FromRecords(picks))
    return _prepare(
        experiment,
        Store(target),
        strategies=tuple(names),
        controls=(CEILING,),
        repeats=repeats,
        together=together,
        protocol=f"picks of {results.settings['plan']['learner']}",
        source=_source_name(source) if source is not None else results.settings["source"],
    )


def _finished_repeats(results: Results, strategy: str, plan: Plan) -> int:
    """How many repetitions of a strategy, from the first on, went through the whole schedule."""
    table = results.table.select(["strategy", "repeat", "labels"]).to_pylist()
    ended = {row["repeat"] for row in table if row["strategy"] == strategy and row["labels"] == plan.schedule[-1]}
    return next(repeat for repeat in count() if repeat not in ended)
