"""Comparisons of strategies by simulated labelling on one data set, stored round by round."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy import defaults
from understudy.checks import check_whole_number
from understudy.data.pool import Dataset
from understudy.data.sources import load
from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.bench import Bench, bench_of
from understudy.experiments.conditions import PICKS_OF
from understudy.experiments.curves_card import draw_comparison
from understudy.experiments.grid import Engine, Task, carry_out, default_jobs, on_this_machine, units_of
from understudy.experiments.oracle import check_oracle
from understudy.experiments.picks_file import read_picks, replayed_rows
from understudy.experiments.plan import Plan, Protocol, Regime, default_schedule, parse_schedule, regime_of
from understudy.experiments.provenance import commit_of, input_digests, package_versions, processor_name
from understudy.experiments.regimes import apply_regime
from understudy.experiments.results import CEILING, CONTROLS, ORACLE, SELECTION_ONLY, Results, RoundStore
from understudy.experiments.run import Experiment, StrategyRun, device_name
from understudy.experiments.specs import check_specs, code_digests, split_specs, too_large_settings
from understudy.experiments.tracked_rounds import TrackedRounds, log_results
from understudy.learners.protocol import Takes
from understudy.learners.registry import FINETUNE, make_learner
from understudy.loop import LABELS_PER_CLASS_GIVEN
from understudy.messages import count_of
from understudy.notebook import draw_safely
from understudy.predictors import digest_of, predictions_for
from understudy.strategies.protocol import Needs
from understudy.strategies.view import Picks, PoolView
from understudy.tracking import SafeTracker, Tracker

UNSAFE: Final = re.compile(r"[^\w.]+")  # in the name of a learner that becomes the name of a folder


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison that was checked and is ready to run or to resume."""

    task: Task
    strategies: tuple[str, ...]
    repeats: int
    protocol: str
    together: int = 1
    notes: tuple[str, ...] = ()  # what one should know before it runs

    def run(
        self,
        engine: Engine | None = None,
        jobs: int | None = None,
        progress: bool = True,
        tracker: Tracker | None = None,
    ) -> "Outcome":
        """Run every round that is not stored yet. A unit that fails does not stop the others.

        A `tracker` is given every round once, and the tables at the end; its failures cost nothing but a warning.
        """
        if engine is None:
            engine = on_this_machine(jobs or default_jobs(self.task.experiment.device))
        if tracker is None:
            failed = carry_out(self.task, engine, progress)
        else:
            safe = SafeTracker(tracker)
            failed = carry_out(self.task, engine, progress, TrackedRounds(self.task, safe).follow)
            log_results(self.task.store, safe)
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
        first = [", ".join(said)] if (said := plan.regime.describe()) else []
        first += [self.first_rows()] if plan.start == 0 else []
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
        begins_with = "no labels" if experiment.predictions is None else "predictions and no labels"
        own = [spec for spec in self.strategies if experiment.can_start(spec)]
        others = "the others start from the same random rows" if own else "all start from the same random rows"
        return f"{begins_with} to start from: " + (
            f"{', '.join(own)} choose their first rows, {others}" if own else others
        )


@dataclass(frozen=True)
class Outcome:
    """What a run of a comparison leaves: the folder with its results, and which units failed."""

    folder: Path
    failed: dict[str, str]  # unit -> what went wrong

    @property
    def results(self) -> Results:
        """What is stored in the folder by now."""
        return Results.open(self.folder)

    def _repr_html_(self) -> str | None:
        failed = [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        return draw_safely(lambda: draw_comparison(self.results.curves(), *failed, f"stored in {self.folder}"))


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
    predictions: Any = None,
    imbalance: float | None = None,
    wrong: float | None = None,
    duplicates: float | None = None,
    oracle: bool = False,
) -> Comparison:
    """A comparison of strategies on a data set, ready to run, or to resume if `out` holds part of it.

    Strategies and schedule may be strings, as on the command line: "margin,badge(bias=True)", "600,1000:5000:1000".
    By default the results go to comparisons/DATASET. With `start=0` every strategy that can choose without a
    learner chooses its own first rows, and the others share random ones. Otherwise all share their first labels.
    With `predictions` of a model that one has already (an array, a file, a function, or its `module:name`) nothing is
    shared either, and those that need only predictions choose by them until the first training.

    `imbalance` thins the pool until its largest class is so many times its smallest, `duplicates` is the share of
    near-copies in the pool, and `wrong` the probability that an answer is wrong. `oracle` adds a run that looks at
    labels: what is left to win.
    """
    regime = Regime(imbalance, wrong, duplicates)
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
        when = "runs where --oracle (oracle=True) asks for it" if taken[0] == ORACLE else "always runs"
        raise UsageError(f"{taken[0]} is a control and {when}; leave it out of the strategies")
    wanted = check_specs(strategies)
    original = bench_of(load(source), seed)
    takes = make_learner(learner, device).takes  # raises if there is no such learner or device
    bench, rows = apply_regime(original, regime, seed)
    _check_copies(regime, learner, takes)
    start = 0 if predictions is not None else start
    given = None if predictions is None else predictions_for(original.pool, original.pool.classes, predictions)
    first = 1 if given is None else LABELS_PER_CLASS_GIVEN  # of each class, at the first training
    usual = default_schedule(protocol, len(bench.pool), bench.n_classes, start, first)
    steps = usual if schedule is None else schedule
    plan = replace(plan_of(bench, learner, steps, seed, start), digest=original.digest(), regime=regime)
    if given is not None:
        plan = replace(plan, predictions=digest_of(given))
        given = given[rows]  # a near-copy is predicted as what it is a copy of
    experiment = Experiment(plan, bench, device, predictions=given)
    if oracle:
        check_oracle(plan, bench.pool)
    StrategyRun.begin(experiment, CEILING, 0)  # raises if the pool lacks what the learner needs
    for spec in wanted:
        _check_playable(experiment, spec)
    named = "own schedule" if schedule is not None else f"protocol {protocol or _protocol_of(plan)}"
    if start == 0 and schedule is None and protocol is None:
        named = f"doubling from {'one label' if given is None else f'{first} labels'} per class"
    return _prepare(
        experiment,
        RoundStore(Path(out) if out is not None else Path("comparisons") / _folder_name(source, regime)),
        strategies=wanted,
        controls=[name for name in CONTROLS if (oracle if name == ORACLE else controls)],
        repeats=repeats,
        together=together,
        protocol=named,
        data=source,
        predictions=predictions,
    )


def _folder_name(source: Any, regime: Regime) -> str:
    """The name of the folder of a comparison that was given none."""
    name = Path(_source_name(source)).stem or "pool"
    return "-".join([name, *(setting + value for setting, value in regime.texts.items())])


def _check_copies(regime: Regime, learner: str, takes: Takes) -> None:
    if regime.duplicates is not None and takes == "ids":
        raise UsageError(
            f"{learner} knows items by their identities, and copies have new ones; leave out --duplicates, or use a "
            "learner that takes features"
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
    data: Any,
    predictions: Any = None,
    picks: str | Path | None = None,
) -> Comparison:
    """Write the settings into the folder, and list the units to run."""
    before = store.settings if (store.folder / "experiment.json").exists() else {}
    if together is None and before.get("together", 1) > 1:
        together = before["together"]  # as before, so that stored repetitions match new ones
    if together is None:  # a GPU trains ten small networks in the time of one
        together = repeats if experiment.device.startswith("cuda") else 1
    together = check_whole_number("together", together, 1)
    own = [experiment.plan.learner, *(strategies if experiment.maker is None else ())]
    code = code_digests([name for name in own if not name.startswith(FINETUNE)])
    inputs = before.get("inputs") or input_digests(data=data, predictions=predictions, picks=picks)
    notes = store.begin(
        experiment.plan,
        {
            "source": _source_name(data),
            "protocol": protocol,
            "strategies": list(strategies),
            "repeats": repeats,
            "device": experiment.device,
            "together": together,
            "largest_class": experiment.bench.largest_class,
            "devices": [device_name(experiment.device)],
            "processors": [processor_name()],
            "versions": package_versions(),
            "commits": [commit_of()],
            **({"inputs": inputs} if inputs else {}),
            **({"code": code} if code else {}),
            **({"predictions_from": _source_name(predictions)} if predictions is not None else {}),
            **({"picks_from": str(picks)} if picks is not None else {}),
        },
    )
    units = units_of([*strategies, *controls], range(repeats), together)
    rows = experiment.plan.pool_rows
    large = [line for spec in strategies if experiment.maker is None for line in too_large_settings(spec, rows)]
    notes = [*experiment.bench.notes(), *large, *notes]
    return Comparison(Task(experiment, store, units), strategies, repeats, protocol, together, tuple(notes))


def _protocol_of(plan: Plan) -> str:
    return "paper" if plan.schedule == default_schedule("paper", plan.pool_rows, len(plan.classes)) else "small"


def _source_name(source: Any) -> str:
    if isinstance(source, Dataset):
        return source.name
    if isinstance(source, str | Path):
        return str(source)
    return str(getattr(source, "__qualname__", type(source).__name__))  # a function's own name


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
    picks: str | Path | None = None,
) -> Comparison:
    """The stored picks of a comparison, judged by another learner, in a separate folder: DIR/replay-LEARNER.

    `picks` is the file that `understudy picks` wrote, if the folder was kept without them.
    """
    results = Results.open(folder)
    before = results.settings["plan"]
    make_learner(learner, device)
    original = bench_of(load(source if source is not None else results.settings["source"]), before["seed"])
    if original.digest() != before["digest"]:
        raise UsageError(
            f"the items of {source or results.settings['source']} have changed since {folder} was made; "
            "pass the data set it was made with: --data"
        )
    regime = regime_of(before)
    bench, _ = apply_regime(original, regime, before["seed"])
    plan = plan_of(bench, learner, before["schedule"], before["seed"], before.get("start"))
    plan = replace(plan, digest=before["digest"], regime=regime)
    # A replay judges the picks alone, so a system that changes training and its "selection only" are the same.
    names = [name for name in results.strategies if name != CEILING and not name.endswith(SELECTION_ONLY)]
    finished = {name: _finished_repeats(results, name, plan) for name in names}
    names = [name for name in names if finished[name]]  # one that failed does not block the others
    repeats = min((finished[name] for name in names), default=0)
    if not repeats:
        raise UnderstudyError(f"no run in {folder} has finished yet; finish its comparison first")
    stored = read_picks(results, None if picks is None else Path(picks))
    recorded = {
        (name, repeat): replayed_rows(stored, name, repeat, plan.schedule[-1])
        for name in names
        for repeat in range(repeats)
    }
    target = Path(out) if out is not None else Path(folder) / f"replay-{UNSAFE.sub('-', learner)}"
    experiment = replace(Experiment(plan, bench, device), maker=RecordedStrategies(recorded))
    return _prepare(
        experiment,
        RoundStore(target),
        strategies=tuple(names),
        controls=(CEILING,),
        repeats=repeats,
        together=together,
        protocol=PICKS_OF + str(before["learner"]),
        data=source if source is not None else results.settings["source"],
        picks=picks,
    )


def _finished_repeats(results: Results, strategy: str, plan: Plan) -> int:
    """How many repetitions of a strategy, from the first on, completed the schedule."""
    table = results.table.select(["strategy", "repeat", "labels"]).to_pylist()
    ended = {row["repeat"] for row in table if row["strategy"] == strategy and row["labels"] == plan.schedule[-1]}
    return next(repeat for repeat in count() if repeat not in ended)
