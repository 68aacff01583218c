"""The page of a leaderboard: a table for each group and metric, who leads where, and the numbers to add to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.experiments.charts import safe_json
from understudy.experiments.leaderboard import (
    FORMAT,
    Contender,
    Group,
    Source,
    Standing,
    find_groups,
    read_sources,
    shared_repeats,
    source_as_json,
)
from understudy.experiments.metrics import METRICS, Metric
from understudy.experiments.pages import write_page
from understudy.experiments.statistics import MIN_REPEATS_RANKED, SIGNIFICANCE_LEVEL
from understudy.experiments.tables import Grid, points_text
from understudy.messages import count_of

RANDOM: Final = "random"
UNRANKED: Final = "–"


@dataclass(frozen=True)
class GroupTable:
    """The table of a group by one metric."""

    group: str
    metric: str
    grid: Grid


@dataclass(frozen=True)
class RankTable:
    """Who leads where, by one metric."""

    metric: str
    grid: Grid


def write_leaderboard(paths: Sequence[str | Path], out: Path, to: int | None = None) -> Path:
    """Write the leaderboard of the comparisons at these places; `to` compares up to this many labels."""
    sources, notes = read_sources(paths)
    groups, left_out = find_groups(sources, to)
    standings = {
        (place, metric): group.standing(metric) for place, group in enumerate(groups) for metric in group.metrics
    }
    shown = [name for name in METRICS if any(metric == name for _, metric in standings)]
    return write_page(
        out,
        "leaderboard.html.jinja",
        title="Leaderboard: what to label next",
        counts=[
            count_of(groups, "group"),
            count_of(sources, "comparison"),
            count_of({name for one in sources for name in one.runs}, "strategy", "strategies"),
            *([f"to {to:,} labels"] if to else []),
        ],
        notes=[*notes, *left_out],
        metrics=[METRICS[name] for name in shown],
        groups=[(str(place), group.title) for place, group in enumerate(groups)],
        overviews=[RankTable(name, _overview_grid(groups, standings, METRICS[name])) for name in shown],
        boards=[
            GroupTable(str(place), metric, _board_grid(groups[place], standing))
            for (place, metric), standing in standings.items()
        ],
        sources=[
            (str(place), one, _schedule_words(one)) for place, group in enumerate(groups) for one in group.sources
        ],
        least=MIN_REPEATS_RANKED,
        data=safe_json({"format": FORMAT, "sources": [source_as_json(one) for one in sources]}),
    )


def _board_grid(group: Group, standing: Standing) -> Grid:
    """The entries of a group by one metric, the best first."""
    metric, several = standing.metric, len(group.sources) > 1
    reference = next((one for one in standing.entries if one.strategy == RANDOM), None)
    rows = [
        (
            entry.strategy,
            str(standing.rank(entry)) if entry.is_ranked else UNRANKED,
            str(len(entry.areas)),
            _area_text(entry, metric),
            metric.text(float(entry.last.mean())),
            *([_against(standing, entry, reference)] if reference else []),
            *((f"{standing.wins(entry)}", f"{standing.losses(entry)}") if entry.is_ranked else ("", "")),
            *([entry.source.name] if several else []),
        )
        for entry in standing.entries
    ]
    against = [f"better than {RANDOM}"] if reference else []
    headings = ("strategy", "rank", "repetitions", "area", f"at {standing.schedule[-1]:,}", *against, "wins", "losses")
    return Grid(
        f"{group.title}: {metric.in_unit}{', lower is better' if metric.lower_is_better else ''}",
        (*headings, *(["comparison"] if several else [])),
        tuple(rows),
        notes=tuple(_notes(group, standing)),
    )


def _overview_grid(groups: Sequence[Group], standings: Mapping[tuple[int, str], Standing], metric: Metric) -> Grid:
    """The rank of each strategy in each group that ranks two or more, and the mean of its ranks."""
    places = [place for place in range(len(groups)) if (place, metric.name) in standings]
    places = [place for place in places if len(standings[place, metric.name].ranked) > 1]
    original = {place for place in places if not groups[place].conditions.is_replay}
    ranks: dict[str, dict[int, int]] = {}
    for place in places:
        standing = standings[place, metric.name]
        for entry in reversed(standing.ranked):  # of several entries of a strategy the best counts
            ranks.setdefault(entry.strategy, {})[place] = standing.rank(entry)
    counted = {name: [rank for place, rank in own.items() if place in original] for name, own in ranks.items()}
    means = {name: sum(own) / len(own) for name, own in counted.items() if own}
    order = sorted(ranks, key=lambda name: (-len(counted[name]), means.get(name, 0.0)))
    replays = "Replays, which judge the picks of another comparison once more, have no part in mean ranks. "
    return Grid(
        f"ranks by {metric.title}",
        ("strategy", "mean rank", "groups", *(_short(groups[place]) for place in places)),
        tuple(
            (
                name,
                f"{means[name]:.1f}" if name in means else UNRANKED,
                str(len(counted[name])),
                *(str(ranks[name].get(place, "")) for place in places),
            )
            for name in order
        ),
        notes=(
            "Those of most groups first, then by mean rank; a mean over fewer groups is another contest. "
            f"{replays if len(original) < len(places) else ''}"
            "Ranks of mean areas say nothing about significance: see the wins and losses of each group.",
        ),
    )


def _short(group: Group) -> str:
    return f"{group.conditions.title} (to {group.schedule[-1]:,})"


def _area_text(entry: Contender, metric: Metric) -> str:
    decimals = metric.decimals + 1
    half = f" ± {metric.scale * entry.half:.{decimals}f}" if entry.half is not None else ""
    return f"{metric.scale * entry.areas.mean():.{decimals}f}{half}"


def _against(standing: Standing, entry: Contender, reference: Contender) -> str:
    if entry is reference:
        return "reference"
    mark = "" if shared_repeats(entry, reference) else " (unpaired)"
    return f"{points_text(standing.against(entry, reference), standing.metric)}{mark}"


def _notes(group: Group, standing: Standing) -> list[str]:
    budgets = ", ".join(f"{labels:,}" for labels in standing.schedule)
    said = [f"Area: the mean over the labels at {budgets}; ± half of its 95 % interval."]
    dropped = sorted({at for one in group.sources for at in one.conditions.schedule} - set(standing.schedule))
    dropped = [at for at in dropped if at <= standing.schedule[-1]]
    if dropped:
        missing = ", ".join(f"{labels:,}" for labels in dropped)
        said.append(f"Not all have {missing}: left out. Who trained there chose later rows by a newer model.")
    ranked = standing.ranked
    if len(ranked) > 1:
        pairs = [(one, other) for i, one in enumerate(ranked) for other in ranked[i + 1 :]]
        paired = sum(bool(shared_repeats(*pair)) for pair in pairs)
        how = (
            "all by paired t-tests, since repetitions share their first labels and seeds"
            if paired == len(pairs)
            else "all by Welch's t-tests, since repetitions are not paired"
            if not paired
            else f"{paired} by paired t-tests, the others by Welch's, since their repetitions are not paired"
        )
        said.append(
            f"Wins and losses: against how many ranked entries the difference is significant at {SIGNIFICANCE_LEVEL}; "
            f"{count_of(len(pairs), 'pair')}, {how}, Holm's correction over all of them."
        )
    if len(ranked) < len(standing.entries):
        said.append(f"Without a rank: fewer than {MIN_REPEATS_RANKED} repetitions.")
    return said


def _schedule_words(source: Source) -> str:
    budgets = source.conditions.schedule
    return f"{', '.join(f'{labels:,}' for labels in budgets)} labels, seed {source.conditions.seed}"
