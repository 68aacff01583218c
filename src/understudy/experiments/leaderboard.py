"""A leaderboard: strategies of many comparisons, in groups that asked the same question.

A group has one data set, learner, regime and range of budgets. Its strategies are compared on the budgets that all of
its comparisons have. Who has fewer than five repetitions is listed, not ranked. What is tested:
docs/leaderboard.md.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Bool
from scipy.stats import t, ttest_1samp, ttest_ind

from understudy.errors import UnderstudyError, UsageError
from understudy.experiments.conditions import Conditions, conditions_of
from understudy.experiments.curves import Role, area_over_width, role_of
from understudy.experiments.metrics import METRICS, Metric, metric_named
from understudy.experiments.results import EXPERIMENT, MADE_WITH, RESULTS, Results, tools_in_line
from understudy.experiments.statistics import (
    CONFIDENCE,
    DECIMALS,
    MIN_REPEATS_RANKED,
    SIGNIFICANCE_LEVEL,
    Difference,
    half_width,
    holm_correction,
    paired_difference,
    round_off,
)

FORMAT: Final = 1  # of what a page holds
DECIMALS_HELD: Final = 6
HELD: Final = re.compile(r'<script type="application/json" id="leaderboard-data">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, eq=False)
class Runs:
    """The repetitions of a strategy in one comparison: values of each metric, (repeats, budgets), NaN where missing."""

    repeats: tuple[int, ...]
    values: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Source:
    """One comparison, or what a leaderboard's page holds of one."""

    name: str  # of its folder
    place: str  # where it was read
    conditions: Conditions
    made: Mapping[str, str]  # with which devices, versions, processors and commits
    runs: Mapping[str, Runs]


@dataclass(frozen=True, eq=False)
class Contender:
    """A strategy in a group: the areas of its repetitions."""

    strategy: str
    source: Source
    repeats: tuple[int, ...]
    areas: np.ndarray
    last: np.ndarray  # the values at the last budget

    @property
    def is_ranked(self) -> bool:
        return len(self.areas) >= MIN_REPEATS_RANKED

    @property
    def half(self) -> float | None:
        """The half-width of the 95 % interval of its mean area."""
        return half_width(float(self.areas.std(ddof=1)), len(self.areas)) if len(self.areas) > 1 else None


@dataclass(frozen=True, eq=False)
class Group:
    """What can be compared: sources with the same question, and the budgets that all of them have."""

    sources: tuple[Source, ...]
    schedule: tuple[int, ...]

    @property
    def conditions(self) -> Conditions:
        return self.sources[0].conditions

    @property
    def title(self) -> str:
        return f"{self.conditions.title}, {self.schedule[0]:,} to {self.schedule[-1]:,} labels"

    @property
    def metrics(self) -> list[str]:
        return [
            name for name in METRICS if any(name in runs.values for one in self.sources for runs in one.runs.values())
        ]

    def standing(self, metric: str) -> "Standing":
        """The entries of the group by a metric, the best first."""
        found = _without_copies(entry for source in self.sources for entry in _entries(source, self.schedule, metric))
        sign = metric_named(metric).sign
        found.sort(key=lambda entry: (not entry.is_ranked, -sign * float(entry.areas.mean())))
        return Standing(metric_named(metric), self.schedule, tuple(found))


@dataclass(frozen=True, eq=False)
class Standing:
    """The entries of a group by one metric: those that are ranked first, the best of them on top."""

    metric: Metric
    schedule: tuple[int, ...]
    entries: tuple[Contender, ...]

    @property
    def ranked(self) -> tuple[Contender, ...]:
        return tuple(entry for entry in self.entries if entry.is_ranked)

    def rank(self, entry: Contender) -> int:
        """1 for the best mean area; equal ones share the better place."""
        own = self._goodness(entry)
        return 1 + sum(self._goodness(other) > own for other in self.ranked)

    def wins(self, entry: Contender) -> int:
        """How many ranked entries it is significantly better than."""
        return int(self.better[self.ranked.index(entry)].sum())

    def losses(self, entry: Contender) -> int:
        return int(self.better[:, self.ranked.index(entry)].sum())

    @cached_property
    def better(self) -> Bool[np.ndarray, "e e"]:
        """Whether the first differs significantly from the second and is better: t-tests of all pairs, Holm."""
        ranked = self.ranked
        pairs = list(combinations(range(len(ranked)), 2))
        p = holm_correction(np.array([_p_of_pair(ranked[i], ranked[j]) for i, j in pairs], dtype=float))
        found = np.zeros((len(ranked), len(ranked)), dtype=bool)
        for (i, j), value in zip(pairs, p, strict=True):
            if value < SIGNIFICANCE_LEVEL:
                better = self._goodness(ranked[i]) > self._goodness(ranked[j])
                found[(i, j) if better else (j, i)] = True
        return found

    def against(self, entry: Contender, reference: Contender) -> Difference:
        """How much better its mean area is than another's, paired where the repetitions are."""
        sign = self.metric.sign
        shared = shared_repeats(entry, reference)
        if shared:
            mine, theirs = (_areas_of(one, shared) for one in (entry, reference))
            return paired_difference(round_off(sign * (mine - theirs)))
        return _unpaired_difference(sign * entry.areas, sign * reference.areas)

    def _goodness(self, entry: Contender) -> float:
        return round(self.metric.sign * float(entry.areas.mean()), DECIMALS)


# Comparing two


def shared_repeats(one: Contender, other: Contender) -> list[int]:
    """The repetitions that are really paired; none if there are too few, or if nothing was shared."""
    if not one.source.conditions.paired_with(other.source.conditions):
        return []
    shared = [repeat for repeat in one.repeats if repeat in other.repeats]
    return shared if len(shared) >= min(MIN_REPEATS_RANKED, len(one.repeats), len(other.repeats)) else []


def _without_copies(entries: Iterable[Contender]) -> list[Contender]:
    """Each run once: the same strategy, seeds and values may lie in several folders. Most repetitions stay."""
    kept: list[Contender] = []
    for entry in sorted(entries, key=lambda entry: -len(entry.areas)):
        if not any(_is_copy(entry, other) for other in kept):
            kept.append(entry)
    return kept


def _is_copy(entry: Contender, other: Contender) -> bool:
    same = entry.strategy == other.strategy and entry.source.conditions.paired_with(other.source.conditions)
    if not same or not set(entry.repeats) <= set(other.repeats):
        return False
    return bool(np.abs(entry.areas - _areas_of(other, entry.repeats)).max() < 10.0 ** (1 - DECIMALS_HELD))


def _areas_of(entry: Contender, repeats: Iterable[int]) -> np.ndarray:
    return np.array([entry.areas[entry.repeats.index(repeat)] for repeat in repeats])


def _p_of_pair(one: Contender, other: Contender) -> float:
    """By the paired t-test where repetitions are paired, else by Welch's; differences that never vary are certain."""
    shared = shared_repeats(one, other)
    if shared:
        differences = round_off(_areas_of(one, shared) - _areas_of(other, shared))
        if np.ptp(differences) == 0:
            return 1.0 if differences[0] == 0 else 0.0
        return float(ttest_1samp(differences, 0.0).pvalue)
    a, b = round_off(one.areas), round_off(other.areas)
    if np.ptp(a) == np.ptp(b) == 0:
        return 1.0 if a[0] == b[0] else 0.0
    return float(ttest_ind(a, b, equal_var=False).pvalue)


def _unpaired_difference(a: np.ndarray, b: np.ndarray) -> Difference:
    """The difference of two means and its Welch interval."""
    mean = float(a.mean() - b.mean())
    if min(len(a), len(b)) < 2:
        return Difference(mean, None)
    parts = [float(values.var(ddof=1)) / len(values) for values in (a, b)]
    if sum(parts) == 0:
        return Difference(mean, (mean, mean))
    squares = sum(part**2 / (len(values) - 1) for part, values in zip(parts, (a, b), strict=True))
    half = float(t.ppf((1 + CONFIDENCE) / 2, sum(parts) ** 2 / squares)) * sum(parts) ** 0.5
    return Difference(mean, (mean - half, mean + half))


def _entries(source: Source, schedule: Sequence[int], metric: str) -> Iterable[Contender]:
    places = [source.conditions.schedule.index(labels) for labels in schedule]
    for strategy, runs in source.runs.items():
        values = runs.values.get(metric)
        if values is None:
            continue
        values = values[:, places]
        whole = ~np.isnan(values).any(1)
        if whole.any():
            repeats = tuple(repeat for repeat, is_whole in zip(runs.repeats, whole, strict=True) if is_whole)
            areas = area_over_width(values[whole], np.array(schedule, dtype=float))
            yield Contender(strategy, source, repeats, areas, values[whole, -1])


# Groups


def find_groups(sources: Sequence[Source], to: int | None = None) -> tuple[list[Group], list[str]]:
    """Sources in groups, by name; `to` leaves out the budgets above it. And a note on each that fits nowhere."""
    by_question: dict[tuple[object, ...], list[Source]] = {}
    notes = []
    for one in sources:
        budgets = _up_to(one.conditions.schedule, to)
        if not budgets:
            notes.append(f"{one.name} begins at {one.conditions.schedule[0]:,} labels, above {to:,}: left out.")
            continue
        own = one.conditions
        question = (own.dataset, own.digest, own.learner, own.regime, budgets[0], budgets[-1])
        by_question.setdefault(question, []).append(one)
    groups = []
    for members in by_question.values():
        first, *others = (_up_to(one.conditions.schedule, to) for one in members)
        shared = tuple(labels for labels in first if all(labels in other for other in others))
        groups.append(Group(tuple(members), shared))
    return sorted(groups, key=lambda group: group.title), notes


def _up_to(schedule: Sequence[int], to: int | None) -> list[int]:
    return [labels for labels in schedule if to is None or labels <= to]


# Reading


def read_sources(paths: Sequence[str | Path]) -> tuple[list[Source], list[str]]:
    """The comparisons at these places, and a note on each that has nothing to show.

    A place is the folder of a comparison, a folder with such folders at any depth, a `results.parquet` with its
    `experiment.json` beside, or the page of a leaderboard.
    """
    found: dict[Path, Source] = {}
    held: list[Source] = []
    notes: list[str] = []
    for place in map(Path, paths):
        if place.suffix == ".html":
            held += _read_page(place)
            continue
        for folder in _folders_at(place):
            try:
                found.setdefault(folder.resolve(), _read_source(folder))
            except UnderstudyError as error:
                if folder == place:
                    raise
                notes.append(f"{folder} is left out: {error}.")
    unique: dict[str, Source] = {}
    for one in [*found.values(), *held]:
        unique.setdefault(_fingerprint(one), one)
    sources = list(unique.values())
    if not sources:
        raise UnderstudyError("there is no finished comparison there; run one with: understudy compare")
    return sources, notes


def _folders_at(place: Path) -> list[Path]:
    if place.name == RESULTS:
        return [place.parent]
    if (place / EXPERIMENT).exists() or not place.is_dir():
        return [place]
    below = sorted(path.parent for path in place.rglob(EXPERIMENT))
    if not below:
        raise UsageError(
            f"{place} has no comparison ({EXPERIMENT} is nowhere below it); start one with: understudy compare"
        )
    return below


def _read_source(folder: Path) -> Source:
    """One comparison; its timings are not needed."""
    results = Results.open(folder, with_timings=False)
    settings = results.settings
    made = {name: tools_in_line(name, settings[name]) for name in MADE_WITH if settings.get(name)}
    return Source(folder.resolve().name, str(folder), conditions_of(settings), made, _runs_of(results))


def _runs_of(results: Results) -> dict[str, Runs]:
    """Every contestant, with all repetitions it has begun."""
    schedule = conditions_of(results.settings).schedule
    measured: dict[str, list[float]] = {}
    for metric in METRICS:
        try:
            measured[metric] = results.measured(metric)
        except UnderstudyError:
            continue  # recorded before this metric was
    keys = [results.table[name].to_pylist() for name in ("strategy", "repeat", "labels")]
    found: dict[str, Runs] = {}
    there = results.strategies
    for name in there:
        if role_of(name, there) is not Role.CONTESTANT:
            continue
        repeats = tuple(sorted({repeat for strategy, repeat, _ in zip(*keys, strict=True) if strategy == name}))
        values = {metric: np.full((len(repeats), len(schedule)), np.nan) for metric in measured}
        for row, (strategy, repeat, labels) in enumerate(zip(*keys, strict=True)):
            if strategy == name and labels in schedule:
                for metric, column in measured.items():
                    values[metric][repeats.index(repeat), schedule.index(labels)] = column[row]
        found[name] = Runs(repeats, values)
    return found


def _fingerprint(source: Source) -> str:
    """Equal for the same numbers, wherever they lie."""
    return json.dumps({**source_as_json(source), "name": "", "place": "", "made": {}}, sort_keys=True)


# What a page holds, so that others can add to it


def source_as_json(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "place": source.place,
        "conditions": asdict(source.conditions),
        "made": dict(source.made),
        "runs": {
            name: {
                "repeats": list(runs.repeats),
                "values": {
                    metric: [
                        [None if np.isnan(one) else round(float(one), DECIMALS_HELD) for one in row] for row in rows
                    ]
                    for metric, rows in runs.values.items()
                },
            }
            for name, runs in source.runs.items()
        },
    }


def _source_from_json(known: Mapping[str, Any]) -> Source:
    conditions = {**known["conditions"], "schedule": tuple(known["conditions"]["schedule"])}
    runs = {
        name: Runs(
            tuple(one["repeats"]),
            {
                metric: np.array(rows, dtype=float).reshape(len(one["repeats"]), -1)
                for metric, rows in one["values"].items()
                if metric in METRICS
            },
        )
        for name, one in known["runs"].items()
    }
    return Source(known["name"], known["place"], Conditions(**conditions), known["made"], runs)


def _read_page(path: Path) -> list[Source]:
    """The comparisons that the page of a leaderboard holds."""
    try:
        held = HELD.search(path.read_text(encoding="utf-8"))
        known = json.loads(held[1]) if held else {}
        if known.get("format") != FORMAT:
            raise ValueError("it holds no comparisons that this version knows")
        return [_source_from_json(one) for one in known["sources"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not the page of a leaderboard ({error}); give its folders instead") from error
