"""The report of several comparisons: ranks over all, a matrix of strategies and sets, and the curves of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.errors import UnderstudyError, UsageError
from understudy.experiments import tables
from understudy.experiments.charts import chart_data, chart_set
from understudy.experiments.conditions import conditions_of, shared_conditions, short_titles
from understudy.experiments.curves import Curves
from understudy.experiments.figure_files import (
    NO_FIGURES,
    PageFigure,
    draw_figure,
    has_matplotlib,
    make_folders,
    write_tables,
)
from understudy.experiments.metrics import ACCURACY, Metric, metric_named
from understudy.experiments.pages import DRAWS, chips_of, write_page
from understudy.experiments.report_sections import LEARNING_WORDS, OFFSET_WORDS, Section
from understudy.experiments.results import EXPERIMENT, Results
from understudy.experiments.statistics import (
    MIN_REPEATS_RANKED,
    MIN_REPEATS_TESTED,
    SIGNIFICANCE_LEVEL,
    PairedComparison,
    Penalties,
    Ranks,
    compare,
    contestants,
    penalty_matrix,
    rank_strategies,
)
from understudy.experiments.styles import shared_styles
from understudy.experiments.summary import Findings, summarise
from understudy.experiments.tables import Grid
from understudy.messages import count_of, list_some

MAX_NAMES: Final = 6


@dataclass(frozen=True, eq=False)
class Joint:
    """Several comparisons: what each shows, under a title of its own."""

    results: tuple[Results, ...]
    found: tuple[Findings, ...]
    titles: tuple[str, ...]

    @cached_property
    def curves(self) -> tuple[Curves, ...]:
        """The curves of each, named by their titles."""
        return tuple(replace(one.curves, dataset=title) for one, title in zip(self.found, self.titles, strict=True))

    @cached_property
    def shared(self) -> list[str]:
        """The contestants that all sets have."""
        each = [contestants(one).values for one in self.curves]
        return [name for name in each[0] if all(name in other for other in each)]

    @cached_property
    def reference(self) -> str:
        """Random if any set has it, since it is the reference there; else the first that all share."""
        if any("random" in contestants(one).values for one in self.curves):
            return "random"
        return self.shared[0] if self.shared else self.found[0].reference

    @cached_property
    def ranks(self) -> Ranks | None:
        return rank_strategies(*self.curves) if len(self.shared) > 1 else None

    @cached_property
    def tested(self) -> tuple[Curves, ...]:
        """The sets with enough repetitions to be tested."""
        return tuple(one for one in self.curves if one.repeats >= MIN_REPEATS_TESTED)

    @cached_property
    def penalties(self) -> Penalties | None:
        return penalty_matrix(*self.tested) if len(self.shared) > 1 and self.tested else None

    @cached_property
    def comparisons(self) -> tuple[dict[str, PairedComparison], ...]:
        """In each set every strategy against the reference, if the set has it."""
        return tuple(
            {each.strategy: each for each in compare(one, self.reference)}
            if self.reference in contestants(one).values
            else {}
            for one in self.curves
        )

    @cached_property
    def best_first(self) -> list[str]:
        """All contestants: those that all sets have by their mean rank, then the others by how many sets have them."""
        ranked = list(self.ranks.names) if self.ranks else self.shared
        rest = dict.fromkeys(name for one in self.curves for name in contestants(one).values if name not in ranked)
        return [*ranked, *sorted(rest, key=lambda name: -sum(name in one.values for one in self.curves))]

    @property
    def measure(self) -> Metric:
        return self.curves[0].measure


def write_joint_report(
    folders: Sequence[str | Path], out: Path, metric: str = ACCURACY, *, with_figures: bool | None = None
) -> Path:
    """Write out/report.html, figures/ and tables/ of several comparisons together.

    Figures for print are drawn if matplotlib is installed, unless `with_figures` says otherwise.
    """
    if (out / EXPERIMENT).exists():
        raise UsageError(f"{out} holds a comparison, whose own report this would replace; name another folder: --out")
    of, notes = open_joint(folders, metric)
    make_folders(out)
    draws = has_matplotlib() if with_figures is None else with_figures
    notes += [NO_FIGURES] * (not draws)
    figure = _drawer(out, draws)
    sections = [one for one in (make(of, figure) for make in (_matrix, _curves, _differences, _pairs)) if one]
    write_tables(out / "tables", [(one.key, one.grids) for one in sections])
    styles = shared_styles(of.curves, False)
    sets = [chart_set(*each) for each in zip(of.results, of.found, of.titles, strict=True)]
    return write_page(
        out / "report.html",
        "joint.html.jinja",
        DRAWS,
        title=f"{count_of(of.curves, 'set')}: what to label next",
        sentence=_sentence(of),
        verdicts=_verdicts(of),
        facts=[
            count_of(of.curves, "set"),
            count_of(of.best_first, "strategy", "strategies"),
            f"by {of.measure.title}",
            *shared_conditions([conditions_of(one.settings) for one in of.results]),
        ],
        notes=notes,
        sections=sections,
        several=len(of.curves) > 1,
        metric_title=of.measure.title,
        chips=chips_of(styles),
        sources=[(title, str(one.folder)) for one, title in zip(of.results, of.titles, strict=True)],
        chart_data=chart_data(sets, styles, of.reference, metric),
    )


def open_joint(folders: Sequence[str | Path], metric: str = ACCURACY) -> tuple[Joint, list[str]]:
    """The comparisons in these folders, and notes on what is missing in them."""
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise UsageError("a comparison is named twice; name each folder once")
    metric_named(metric)
    results = [Results.open(folder) for folder in folders]
    titles = short_titles([conditions_of(one.settings) for one in results])
    kept, notes = [], []
    for one, title in zip(results, titles, strict=True):
        summary = summarise(one, metric)
        notes += [f"{title}: {note}" for note in summary.notes]
        if summary.findings is not None:
            kept.append((one, summary.findings, title))
    if not kept:
        raise UnderstudyError("none of these comparisons has anything to compare yet; finish one first")
    return Joint(*zip(*kept, strict=True)), notes


# In words


def _sentence(of: Joint) -> str:
    if of.ranks is None:
        return f"{count_of(of.curves, 'set')} that share {count_of(of.shared, 'strategy', 'strategies')}."
    best, n = of.ranks.names[0], len(of.ranks.names)
    return f"{best} has the best mean rank over {count_of(of.curves, 'set')}: {of.ranks.average[0]:.2f} of {n}."


def _verdicts(of: Joint) -> list[str]:
    if of.ranks is None:
        return ["Ranks over sets take two strategies that all of them have."]
    said = [f"Ranks are of areas to each set's last budget, in {count_of(of.ranks.blocks, 'block')} (repetitions)."]
    few = [one.dataset for one in of.curves if one.repeats < MIN_REPEATS_RANKED]
    if few:
        said.append(f"Fewer than {MIN_REPEATS_RANKED} repetitions decide nothing: {list_some(few, MAX_NAMES)}.")
    if of.ranks.told_by is not None:
        alike, test = of.ranks.alike(of.ranks.names[0]), tables.test_in_words(of.ranks)
        if alike:
            said.append(f"Not significantly different from it ({test}): {list_some(alike, MAX_NAMES)}.")
        else:
            said.append(f"It differs significantly from all others ({test}).")
        said.append("Repetitions of one set are alike, so the test is too sure of other sets.")
    left = [name for name in of.best_first if name not in of.shared]
    if left:
        said.append(f"Not ranked, since not all sets have them: {list_some(left, MAX_NAMES)}.")
    return said


# The sections

Draw = Callable[[str, str, Callable[[Any], Any], bool], tuple[PageFigure, ...]]


def _drawer(out: Path, draws: bool) -> Draw:
    def figure(key: str, caption: str, draw: Callable[[Any], Any], on_paper: bool) -> tuple[PageFigure, ...]:
        return draw_figure(out, key, caption, draw, on_paper) if draws else ()

    return figure


def _curves(of: Joint, figure: Draw) -> Section:
    ceilings = [None if one.ceiling is None else float(one.ceiling.mean()) for one in of.found]
    caption = f"Test {of.measure.title} over labels in each set, mean ± one standard deviation."
    drawn = figure("learning-curves", caption, lambda figures: figures.draw_learning_curves(of.curves, ceilings), True)
    grids = tuple(
        tables.comparison_grid(curves, None, found.ceiling, len(curves.schedule))
        for curves, found in zip(of.curves, of.found, strict=True)
    )
    return Section(
        "curves",
        "Learning curves",
        "Curves",
        "",
        drawn,
        grids,
        live=("learning", "table"),
        choices="set metric reference scale each",
        live_words=LEARNING_WORDS,
    )


def _differences(of: Joint, figure: Draw) -> Section:
    having = [one for one, found in zip(of.curves, of.comparisons, strict=True) if found]
    caption = (
        f"Differences in {of.measure.title} from {of.reference} within a repetition; bands are one standard error."
    )
    drawn = figure(
        "differences", caption, lambda figures: figures.draw_offset_curves(having, of.reference), True
    ) if having else ()  # fmt: skip
    return Section(
        "differences",
        "Differences",
        "Differences",
        "",
        drawn,
        live=("offsets",),
        choices="set metric reference scale each",
        live_words=OFFSET_WORDS,
    )


def _matrix(of: Joint, _: Draw) -> Section:
    words = (
        "▲: significantly better than the reference, ▼: significantly worse, by signed ranks of areas "
        f"with Holm's correction over the strategies of a set, from {MIN_REPEATS_TESTED} repetitions on."
    )
    return Section("matrix", "Strategies by sets", "Sets", words, (), (difference_matrix(of), area_matrix(of)))


def difference_matrix(of: Joint) -> Grid:
    """The difference in area from the reference: a row for each strategy, a column for each set."""

    def cell(name: str, found: dict[str, PairedComparison]) -> str:
        if name not in found:
            return "reference" if name == of.reference and found else ""
        one = found[name]
        sure = one.p_holm is not None and one.p_holm < SIGNIFICANCE_LEVEL
        return ("▲ " if one.area.mean > 0 else "▼ ") * sure + of.measure.signed(one.area.mean)

    unit = f" ({of.measure.unit})" if of.measure.unit else ""
    return Grid(
        f"area better than that of {of.reference}{unit}",
        ("strategy", *_headings(of)),
        tuple((name, *(cell(name, found) for found in of.comparisons)) for name in of.best_first),
        notes=tuple(_notes(of)),
    )


def area_matrix(of: Joint) -> Grid:
    """The mean area and its deviation, and the mean rank: a row for each strategy, a column for each set."""
    ranks = dict(zip(of.ranks.names, of.ranks.average, strict=True)) if of.ranks else {}
    rows, shown = [], []
    for name in of.best_first:
        areas = [one.area(name) if name in one.values else None for one in of.curves]
        decimals = of.measure.decimals + 1
        cells = ["" if values is None else tables.mean_and_std(values, decimals, of.measure) for values in areas]
        rows.append((name, *cells, f"{ranks[name]:.2f}" if name in ranks else ""))
        shown.append([-np.inf if values is None else of.measure.sign * float(values.mean()) for values in areas])
    best = np.array(shown).max(0)
    bold = {(i, j + 1) for i, row in enumerate(shown) for j, value in enumerate(row) if value == best[j]}
    title = f"area under the curve: mean {of.measure.in_unit}, mean±std"
    return Grid(
        title, ("strategy", *_headings(of), "mean rank"), tuple(rows), bold=frozenset(bold), notes=tuple(_notes(of))
    )


def _headings(of: Joint) -> list[str]:
    return [f"{one.dataset} (to {one.schedule[-1]:,})" for one in of.curves]


def _notes(of: Joint) -> list[str]:
    if len({one.repeats for one in of.curves}) == 1:
        return [f"{count_of(of.curves[0].repeats, 'repetition')} of each set."]
    return [f"Repetitions: {'; '.join(f'{one.repeats} of {one.dataset}' for one in of.curves)}."]


def _pairs(of: Joint, figure: Draw) -> Section | None:
    if of.ranks is None:
        return None
    ranks = of.ranks
    averages = dict(zip(ranks.names, ranks.average.tolist(), strict=True))
    caption = f"Mean ranks of areas over {count_of(ranks.blocks, 'block')}."
    if ranks.told_by is not None:
        caption += f" A bar joins those that do not differ significantly by {tables.test_in_words(ranks)}."
    drawn = figure(
        "ranks", caption, lambda figures: figures.draw_ranks(averages, ranks.groups, list(ranks.names)), False
    )
    grids = [tables.rank_grid(ranks)]
    if (found := of.penalties) is not None:
        order = np.argsort(found.penalty, kind="stable")
        names = [found.names[i] for i in order]
        caption = (
            f"In how many of {len(of.tested)} sets, by share of budgets, the row beats the column (paired t-test)."
        )
        drawn += figure(
            "penalties",
            caption,
            lambda figures: figures.draw_penalties(
                names, found.matrix[np.ix_(order, order)], found.penalty[order], float(len(of.tested))
            ),
            False,
        )
        grids.append(tables.penalty_grid(found))
    left = [one.dataset for one in of.curves if one.repeats < MIN_REPEATS_TESTED]
    words = f"Without the penalties of {'; '.join(left)}: below {MIN_REPEATS_TESTED} repetitions." if left else ""
    return Section("pairs", "All against all, over the sets", "Pairs", words, drawn, tuple(grids))
