"""What the results of a comparison show, computed once for the terminal, the page and the tables.

The curves that can be compared, their statistics, and notes on missing runs.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from understudy import errors
from understudy.errors import UnderstudyError
from understudy.experiments.curves import CEILING, CONTROLS, SELECTION_ONLY, Curves, Role, role_of
from understudy.experiments.metrics import ACCURACY, untested_line
from understudy.experiments.results import Results, file_name
from understudy.experiments.statistics import (
    PairedComparison,
    Penalties,
    Ranks,
    by_area,
    compare,
    contestants,
    penalty_matrix,
    rank_strategies,
    reference_of,
)
from understudy.messages import count_of

# A learner is better than chance if its best accuracy exceeds the share of the largest class by four standard errors
# of such a share (the best of a thousand guessing rounds would not), and by a fiftieth of what is left to be learnt
# (with many test items less would be significant, but still useless).
STANDARD_ERRORS: Final = 4
LEAST_OF_THE_REST: Final = 0.02
ERROR_LINE: Final = re.compile(
    r"(?:[\w.]+\.)?(?P<kind>\w*(?:Error|Exception|Interrupt|NotFound|Exhausted)): (?P<what>.+)"
)
LARGE_SHARE: Final = 0.5  # of one class, with which accuracy says little about the others
MAX_REASON: Final = 200  # characters
SUGGESTED_LEARNERS: Final = ("paper_scaled", "modern")


@dataclass(frozen=True, eq=False)
class Findings:
    """Comparable curves and their statistics, each computed once."""

    curves: Curves
    ceiling: np.ndarray | None = None  # values of their metric with all labels, in the repetitions of the curves
    repeats: tuple[int, ...] = ()  # the repetitions of the curves' rows
    ended_early: tuple[Curves, ...] = ()  # curves that end before the others
    failed: tuple[str, ...] = ()  # strategies without curves, because they failed

    @cached_property
    def contestants(self) -> Curves:
        return contestants(self.curves)

    @cached_property
    def reference(self) -> str:
        """The strategy that the others are compared with."""
        return reference_of(self.curves)

    @cached_property
    def best_first(self) -> list[str]:
        """All strategies by the area under their curves; context comes last."""
        return by_area(self.curves)

    @cached_property
    def comparisons(self) -> tuple[PairedComparison, ...]:
        """Every other strategy against the reference."""
        return compare(self.curves, self.reference)

    @cached_property
    def ranks(self) -> Ranks:
        return rank_strategies(self.curves)

    @cached_property
    def penalties(self) -> Penalties:
        return penalty_matrix(self.curves)


@dataclass(frozen=True, eq=False)
class Summary:
    """Results, findings, and notes on what is missing, one line each."""

    results: Results
    findings: Findings | None  # None: nothing can be compared yet
    notes: tuple[str, ...]


def summarise(results: Results, metric: str = ACCURACY) -> Summary:
    """The summary of a comparison by a metric, finished or not."""
    curves, notes = _find_comparable(results, metric)
    if curves is None:
        return Summary(results, None, tuple(notes))
    repeats = _repeats_of(results, curves)
    findings = Findings(
        curves,
        results.ceiling(repeats, metric),
        repeats,
        ended_early=tuple(_ended_early(results, curves)),
        failed=tuple(_failures(results, curves)),
    )
    return Summary(results, findings, tuple(notes))


def _find_comparable(results: Results, metric: str) -> tuple[Curves | None, list[str]]:
    """The curves of the contestants that make the largest paired table, and notes on the others.

    Context and systems that change training are added if they cover all of that table.
    """
    there = results.strategies
    names = [name for name in there if role_of(name, there) is Role.CONTESTANT]
    if not names:
        return None, ["There is nothing to compare yet: only the learner with all labels is finished."]
    ended = _finished_repeats(results, names)
    best: list[str] = []
    most = 0
    for least in sorted({len(runs) for runs in ended.values()} - {0}):
        kept = [name for name in names if len(ended[name]) >= least]
        size = len(kept) * len(set.intersection(*(ended[name] for name in kept)))
        if size > most:
            best, most = kept, size
    try:
        curves = results.curves(best or names, metric)  # if none is finished yet: as far as all have come
    except UnderstudyError as error:
        return None, [*_missing_runs(results, ()), f"There is nothing to compare yet: {error}."]
    for name in there:
        system = role_of(name, there) is Role.SYSTEM and name + SELECTION_ONLY in curves.values
        if name != CEILING and (name in CONTROLS or system):
            curves = _add_beside(results, curves, name)
    order = [name for name in there if name in curves.values]
    stuck = never_left_chance(results) if metric == ACCURACY else None
    said = [line for line in (stuck, untested_classes(results)) if line]
    return curves.only(order), [*said, *_missing_runs(results, order), *_unused_repeats(curves, ended)]


def _add_beside(results: Results, curves: Curves, name: str) -> Curves:
    """The curves with one more strategy, unless that would leave fewer budgets or repetitions."""
    try:
        wider = results.curves([*curves.values, name], curves.metric)
    except UnderstudyError:
        return curves
    same = wider.schedule == curves.schedule and wider.repeats == curves.repeats
    return wider if same else curves


def _repeats_of(results: Results, curves: Curves) -> tuple[int, ...]:
    """The repetitions of the curves' rows."""
    columns = (results.table[name].to_pylist() for name in ("strategy", "repeat", "labels"))
    there = set(zip(*columns, strict=True))
    return tuple(
        repeat
        for repeat in sorted({repeat for _, repeat, _ in there})
        if all((name, repeat, at) in there for name in curves.values for at in curves.schedule)
    )


def _ended_early(results: Results, curves: Curves) -> list[Curves]:
    """The curves of strategies without a finished repetition, each as far as it got."""
    there = results.strategies
    out = [name for name in there if role_of(name, there) is Role.CONTESTANT and name not in curves.values]
    found = [
        results.curves([name], curves.metric) for name, runs in _finished_repeats(results, out).items() if not runs
    ]
    return [one for one in found if len(one.schedule) > 1 and one.schedule[-1] < curves.schedule[-1]]


def _finished_repeats(results: Results, names: Iterable[str]) -> dict[str, set[int]]:
    """The repetitions of each strategy that completed the schedule."""
    table = results.table.select(["strategy", "repeat", "labels"]).to_pylist()
    last = _last_budget(results)
    return {
        name: {one["repeat"] for one in table if one["strategy"] == name and one["labels"] == last} for name in names
    }


def _failures(results: Results, curves: Curves) -> list[str]:
    """The strategies that failed and are not among the curves."""
    wanted = dict.fromkeys([*results.settings.get("strategies", ()), *results.strategies])
    specs = dict.fromkeys(name.removesuffix(SELECTION_ONLY) for name in wanted if name not in CONTROLS)
    out = [name for name in specs if not {name, name + SELECTION_ONLY} & curves.values.keys()]
    ended = _finished_repeats(results, out)
    return [name for name in out if _traces_of(results.folder, name, ended[name])]


def _last_budget(results: Results) -> int:
    own = [_budgets_of(results, name)[-1] for name in results.strategies if name != CEILING]
    return int(results.settings.get("plan", {}).get("schedule", [max(own, default=0)])[-1])


def _budgets_of(results: Results, name: str) -> list[int]:
    columns = (results.table[column].to_pylist() for column in ("strategy", "labels"))
    return sorted({labels for strategy, labels in zip(*columns, strict=True) if strategy == name})


def _missing_runs(results: Results, compared: Collection[str]) -> list[str]:
    """What failed, what has too few repetitions to compare, and what is still to be run; one line each."""
    wanted, there = int(results.settings.get("repeats", 0)), results.strategies
    names = dict.fromkeys([*results.settings.get("strategies", ()), *there])
    ended = _finished_repeats(results, [name for name in names if name != CEILING])
    notes, left_out, waiting = [], [], []
    for name, runs in ended.items():
        spec = name.removesuffix(SELECTION_ONLY)
        out = bool(compared) and name in there and name not in compared and name not in CONTROLS
        if len(runs) >= wanted or role_of(name, there) is Role.SYSTEM:
            continue
        if traces := _traces_of(results.folder, spec, runs):
            why = f": {reason}" if (reason := _reason_in(traces[0])) else ""
            notes.append(f"{spec} failed, with {len(runs)} of {wanted} repetitions done{why}; see {traces[0]}.")
        elif out and runs:
            left_out.append(f"{spec} has {len(runs)} of {wanted} repetitions")
        elif out:
            furthest = (
                f"{spec} got no further than {_budgets_of(results, name)[-1]:,} of {_last_budget(results):,} labels"
            )
            notes.append(f"{furthest}, so it is not compared; its curve is drawn as far as it goes.")
        else:
            waiting.append(f"{spec} {len(runs)} of {wanted}")
    if left_out:
        whom = "it" if len(left_out) == 1 else "them"
        notes.append(f"Left out: {'; '.join(left_out)}; --repeats {wanted} to compare {whom}.")
    if waiting:
        notes.append(f"Unfinished, in repetitions: {'; '.join(waiting)}. Run the same command to continue.")
    return notes


def _unused_repeats(curves: Curves, ended: Mapping[str, Collection[int]]) -> list[str]:
    """A line about finished repetitions that are not compared, because not all strategies have them."""
    more = [name for name in curves.values if len(ended.get(name, ())) > curves.repeats]
    if not more:
        return []
    return [
        f"{count_of(curves.repeats, 'repetition')} compared, those that all strategies have; more of "
        f"{', '.join(more)} are finished but not used."
    ]


def _traces_of(folder: Path, name: str, done: Collection[int]) -> list[Path]:
    """The traceback files of a failed strategy, for repetitions that have not been finished since."""
    start = f"{file_name(name)}-"
    found = sorted((folder / "errors").glob("*.txt"))
    return [
        path
        for path in found
        if path.name.startswith(start) and (number := path.stem[len(start) :]).isdecimal() and int(number) not in done
    ]


def _reason_in(trace: Path) -> str:
    """The line of a traceback that names the error; empty if there is none."""
    try:
        lines = trace.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    named = [found for line in lines if (found := ERROR_LINE.fullmatch(line))]
    if not named:
        return ""
    kind, what = named[-1]["kind"], named[-1]["what"].rstrip(".")
    # Our own errors say what to do; their names say nothing.
    text = what if hasattr(errors, kind) else f"{kind}: {what}"
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"


def untested_classes(results: Results) -> str | None:
    """One line that names the classes of which the test set has no item."""
    known = [str(name) for name in results.settings.get("plan", {}).get("classes") or ()]
    columns = results.table.column_names
    found = results.table["class_accuracy"][0].as_py() if "class_accuracy" in columns and known else None
    absent = [name for name, value in zip(known, found or (), strict=False) if value is None]
    if not absent:
        return None
    line = untested_line(absent)
    return f"{line[0].upper()}{line[1:]}; balanced accuracy is the mean over the others."


def left_chance_at(share: float, test_rows: int) -> float:
    """The accuracy above which a learner is better than always predicting the largest class, given its share."""
    error = (share * (1 - share) / test_rows) ** 0.5
    return share + max(STANDARD_ERRORS * error, LEAST_OF_THE_REST * (1 - share))


def never_left_chance(results: Results) -> str | None:
    """One line if no training of any strategy was better than always predicting the largest class."""
    plan = results.settings.get("plan", {})
    if not plan.get("classes") or not plan.get("test_rows"):
        return None
    share = float(results.settings.get("largest_class", 1 / len(plan["classes"])))
    columns = (results.table[name].to_pylist() for name in ("strategy", "accuracy"))
    found = [accuracy for strategy, accuracy in zip(*columns, strict=True) if strategy != CEILING]
    least = left_chance_at(share, plan["test_rows"])
    if not found or np.max(found) > least:
        return None
    learner = plan.get("learner", "")
    others = " or ".join(name for name in SUGGESTED_LEARNERS if name != learner)
    line = (
        f"The learner {learner} was never clearly better than chance: at best {100 * np.max(found):.1f} % right. The "
        f"largest class alone is {100 * share:.1f} %, and with {plan['test_rows']:,} test items up to "
        f"{100 * least:.1f} % can be luck."
    )
    if share > LARGE_SHARE:
        return f"{line} Accuracy hardly counts the other classes; try --metric balanced_accuracy or --learner {others}."
    return f"{line} The choice of rows cannot matter then; try --learner {others}."
