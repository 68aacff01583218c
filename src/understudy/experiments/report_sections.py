"""The sections of a report: each function returns one, or why it is missing, or None if it does not apply."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.data.pool import Pool
from understudy.experiments import cost_tables, picks, tables
from understudy.experiments.curves import CONTROL_WORDS, SELECTION_ONLY, Curves
from understudy.experiments.figure_files import PageFigure, draw_figure
from understudy.experiments.labels_needed import LabelsNeeded, labels_needed
from understudy.experiments.results import Results
from understudy.experiments.statistics import MIN_REPEATS_TESTED
from understudy.experiments.styles import Style, is_variant, shared_styles
from understudy.experiments.summary import Findings
from understudy.experiments.tables import Grid
from understudy.messages import count_of

NO_PICKS: Final = "The picked rows were not stored, so neither they nor times per pick are shown."


LEARNING_WORDS: Final = (
    "Means and bands of one standard deviation. Point at a curve, or tap it, for its values; the names above choose "
    "the strategies."
)
OFFSET_WORDS: Final = "Differences within a repetition, turned so that up is better; bands are one standard error."


@dataclass(frozen=True)
class AskedItems:
    """The first items that a strategy asked for; expanded if the strategy is highlighted."""

    strategy: str
    said: str
    items: list[picks.PickedItem]
    strong: bool


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    key: str
    title: str
    link: str  # a short title
    words: str = ""
    figures: tuple[PageFigure, ...] = ()
    grids: tuple[Grid, ...] = ()
    items: tuple[AskedItems, ...] = ()
    live: tuple[str, ...] = ()  # what the page draws itself on a screen; see charts.js
    choices: str = ""  # what a reader may choose there
    live_words: str = ""

    def __bool__(self) -> bool:
        return bool(self.figures or self.grids or self.items or self.live)


@dataclass(frozen=True, eq=False)
class Material:
    """The inputs of the sections."""

    results: Results
    found: Findings
    pool: Pool | None
    draws: bool
    targets: Sequence[float] | None = None  # of the metric, for the labels needed; None: some round ones

    @cached_property
    def needed(self) -> tuple[tuple[LabelsNeeded, ...], ...]:
        """The labels that each strategy needed for the targets; computed once, since it takes seconds."""
        return labels_needed(self.curves, self.targets)

    @property
    def folder(self) -> Path:
        return self.results.folder

    @property
    def curves(self) -> Curves:
        return self.found.curves

    @cached_property
    def styles(self) -> Mapping[str, Style]:
        return shared_styles([self.curves], False, self.found.ended_early)

    @property
    def who_picked(self) -> list[str]:
        """All strategies with picks of their own; a "selection only" shares those of its system."""
        return [name for name in self.found.best_first if not name.endswith(SELECTION_ONLY)]

    def figure(
        self, key: str, caption: str, draw: Callable[[Any], Any], on_paper: bool = False
    ) -> tuple[PageFigure, ...]:
        """Draw, store and embed a figure; nothing without matplotlib. `draw` is called with the figures module."""
        if not self.draws:
            return ()
        return draw_figure(self.folder, key, caption, draw, on_paper)


def _learning_curves(of: Material) -> Section:
    from_repeats = of.curves.repeats > 1
    band = "mean ± one standard deviation" if from_repeats else "a single repetition, so there is no band"

    def draw(figures: Any) -> Any:
        top = None if of.found.ceiling is None else float(of.found.ceiling.mean())
        return figures.draw_learning_curves([of.curves], [top], height=3.4, ended=of.found.ended_early)

    dashed = " Dashed: the same learner with all labels." if of.found.ceiling is not None else ""
    controls = "".join(f" {words}." for name, words in CONTROL_WORDS.items() if name in of.curves.values)
    systems = [name for name in of.curves.values if name + SELECTION_ONLY in of.curves.values]
    apart = f" In grey, since they change training and are not ranked: {', '.join(systems)}." if systems else ""
    measure = of.curves.measure
    caption = (
        f"Test {measure.title} over labels, {count_of(of.curves.repeats, 'repetition')}: {band}."
        f"{dashed}{controls}{apart}"
    )
    several = len(of.curves.schedule) > 1
    figure = of.figure("learning-curves", caption, draw, on_paper=True) if several else ()
    words = "" if several else "There is a single budget, so there are no curves."
    grids = [
        tables.comparison_grid(
            of.curves, ceiling=of.found.ceiling, comparisons=of.found.comparisons, failed=of.found.failed
        )
    ]
    if len(of.curves.schedule) > 1:
        grids.append(tables.savings_grid(of.curves))
    return Section(
        "curves",
        "Learning curves",
        "Curves",
        words,
        figure,
        tuple(grids),
        live=("learning", "table") if several else ("table",),
        choices="set metric reference scale each" if several else "metric reference",
        live_words=LEARNING_WORDS if several else "",
    )


def by_another_metric(found: Findings) -> Section:
    """The tables by a metric that is not the page's own."""
    curves = found.curves
    grids = [
        tables.comparison_grid(curves, ceiling=found.ceiling, comparisons=found.comparisons, failed=found.failed),
        *([cost_tables.needed_grid(curves)] if len(curves.schedule) > 1 else ()),
    ]
    title = curves.measure.title
    return Section(f"by-{curves.metric.replace('_', '-')}", f"By {title}", title.capitalize(), grids=tuple(grids))


def _labels_needed(of: Material) -> Section | None:
    if len(of.curves.schedule) < 2 or not of.needed[0]:
        return None
    words = f"How many labels each strategy took to a test {of.curves.measure.title}, as far as the budgets show it."
    grid = cost_tables.needed_grid(of.curves, of.needed)
    return Section("labels-needed", "Labels needed", "Labels needed", words, grids=(grid,))


def _costs(of: Material) -> Section | None:
    if len(of.curves.schedule) < 2:
        return None
    grid = cost_tables.cost_grid(of.results, of.curves, of.found.repeats, of.needed)
    return Section("cost", "What it costs", "Cost", "Labels and seconds side by side.", grids=(grid,))


def _differences(of: Material) -> Section | None:
    found, measure = of.found.comparisons, of.curves.measure
    if not found:
        return None
    whose = f"{measure.title.capitalize()} minus that of {of.found.reference}"
    if measure.lower_is_better:
        whose = f"How much lower the {measure.title} is than that of {of.found.reference}"

    def offsets(figures: Any) -> Any:
        return figures.draw_offset_curves([of.curves], of.found.reference)

    def areas(figures: Any) -> Any:
        from understudy.experiments.figures import difference_words  # which needs matplotlib, as all of them do

        return figures.draw_differences(
            {one.strategy: measure.scale * one.area.mean for one in found},
            {
                one.strategy: tuple(measure.scale * end for end in one.area.interval or (float("nan"),) * 2)
                for one in found
            },
            of.found.best_first,
            difference_words(measure, of.found.reference, "area under the curve"),
            decimals=measure.decimals + 1,
        )

    spread = "; bands are one standard error" if of.curves.repeats > 1 else ""
    interval = ", with 95 % interval" if of.curves.repeats > 1 else ""
    drawn: tuple[PageFigure, ...] = ()
    if len(of.curves.schedule) > 1:
        caption = f"{whose} in the same repetition, over labels{spread}."
        drawn = of.figure("differences", caption, offsets, on_paper=True)
    caption = f"The same over the whole curve: difference in mean {measure.title}{interval}."
    words = (
        ""
        if of.found.reference == "random"
        else f"Random was not run, so the others are compared with {of.found.reference}."
    )
    return Section(
        "differences",
        f"Differences from {of.found.reference}",
        "Differences",
        words,
        (*drawn, *of.figure("areas", caption, areas)),
        live=("offsets",) if len(of.curves.schedule) > 1 else (),
        choices="set metric reference scale each",
        live_words=OFFSET_WORDS,
    )


def _ablations(of: Material) -> Section | None:
    variants = [name for name in of.curves.values if is_variant(name)]
    base = next((name for name in ("surrogate", "understudy") if name in of.curves.values), None)
    if not variants or base is None or len(of.curves.schedule) < 2:
        return None
    beside = [name for name in ("margin",) if name in of.curves.values]
    part = of.curves.only([base, *variants, *beside])

    def draw(figures: Any) -> Any:
        return figures.draw_offset_curves([part], base, all_strong=True)

    words = " ".join(f"{name}: {MEANINGS[name]}." for name in variants if name in MEANINGS)
    measure = of.curves.measure
    caption = f"{measure.title.capitalize()} of its variants minus that of {base} in the same repetition; mean ± one "
    caption += "standard error." + " The sign is turned, so that above zero is better." * measure.lower_is_better
    return Section("ablations", f"What each part of {base} does", "Parts", words, of.figure("ablations", caption, draw))


MEANINGS: Final = {
    "surrogate_influence": "influence alone (u1)",
    "surrogate_uncertainty": "uncertainty alone (u2)",
    "surrogate_uniform": "both with equal weight",
    "surrogate_lookahead": "look-ahead in place of uncertainty (u3)",
    "surrogate_variance": "variance alone",
    "surrogate_blind": "updated only when the learner is trained, as the others are",
}


def _selection_only(of: Material) -> Section | None:
    systems = [name for name in of.curves.values if name + SELECTION_ONLY in of.curves.values]
    if not systems:
        return None
    areas = {
        name: tuple(
            of.curves.measure.scale * float(of.curves.area(each).mean()) for each in (name, name + SELECTION_ONLY)
        )
        for name in systems
    }

    def draw(figures: Any) -> Any:
        return figures.draw_pairs(areas, ("the whole system", "its selection only"), unit)

    words = (
        "These systems change how the learner is trained. To see the effect of their selection alone, "
        "the common learner was trained on the same rows."
    )
    unit = "area under the curve" + " (%)" * of.curves.measure.is_share
    caption = (
        f"Mean {of.curves.measure.title} over the whole curve: with the system's own training, and with the common one."
    )
    return Section(
        "selection-only", "Selection only", "Selection only", words, of.figure("selection-only", caption, draw)
    )


def _pairwise(of: Material) -> Section | str | None:
    if len(of.found.contestants.values) < 2:
        return None
    if of.curves.repeats < 2:
        return "Ranking all strategies takes two repetitions or more."
    order = of.found.ranks

    def ranks(figures: Any) -> Any:
        averages = dict(zip(order.names, order.average.tolist(), strict=True))
        return figures.draw_ranks(averages, order.groups, of.found.best_first)

    title, caption = ("All against all", "Pairs"), "Mean ranks of areas over repetitions."
    if order.told_by is None:
        words = (
            f"Below {MIN_REPEATS_TESTED} repetitions nothing is tested: no bars join similar strategies, and "
            "there is no penalty matrix."
        )
        return Section("pairs", *title, words, of.figure("ranks", caption, ranks), (tables.rank_grid(order),))
    caption += f" A bar joins those that do not differ significantly by {tables.test_in_words(order)}."
    found = of.found.penalties
    sorted_rows = np.argsort(found.penalty, kind="stable")

    def matrix(figures: Any) -> Any:
        names = [found.names[i] for i in sorted_rows]
        return figures.draw_penalties(names, found.matrix[np.ix_(sorted_rows, sorted_rows)], found.penalty[sorted_rows])

    drawn = (
        *of.figure("ranks", caption, ranks),
        *of.figure(
            "penalties",
            "Share of budgets at which the row beats the column by a paired t-test (0.05, not corrected for the number "
            "of tests). A coloured row is good, a coloured column bad; the penalty is the mean of a column.",
            matrix,
        ),
    )
    return Section("pairs", *title, "", drawn, (tables.rank_grid(order), tables.penalty_grid(found)))


def _times(of: Material) -> Section | str | None:
    if len(of.curves.schedule) < 2:
        return None
    choosing, training = seconds_a_pick(of.results, of.who_picked)
    if not choosing:
        return NO_PICKS
    if not any((*choosing.values(), *training.values())):
        return "Times were not stored."

    def draw(figures: Any) -> Any:
        return figures.draw_seconds(choosing, training)

    together = max(of.results.timings["together"].to_pylist(), default=1)
    devices = ", ".join(sorted(set(of.results.timings["device"].to_pylist())))
    side = f" {together} models were trained at once and share the time." if together > 1 else ""
    caption = (
        "Time per pick, log scale: for choosing, including predictions of the pool, and for training divided by the "
        f"labels between two trainings. On {devices}.{side}"
    )
    grid = Grid(
        "seconds per pick",
        ("strategy", "choosing", "training"),
        tuple((name, f"{choosing[name]:.3g}", f"{training[name]:.3g}") for name in choosing),
    )
    return Section("time", "Time", "Time", "", of.figure("time", caption, draw), (grid,))


def seconds_a_pick(results: Results, names: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds per pick for choosing (with predicting) and for training, over all rounds but the first."""
    keys = ["strategy", "repeat", "labels"]
    picks = results.table.select(keys).append_column("n", pc.list_value_length(results.table["picks"]))
    rows = results.timings.filter(pc.greater(results.timings["round"], 0)).join(picks, keys).to_pylist()
    choosing, training = {}, {}
    for name in names:
        own = [row for row in rows if row["strategy"] == name]
        n = sum(row["n"] or 0 for row in own)
        if n:
            choosing[name] = sum((row["choose_seconds"] or 0) + (row["predict_seconds"] or 0) for row in own) / n
            training[name] = sum(row["train_seconds"] or 0 for row in own) / n
    return choosing, training


def _calibration(of: Material) -> Section | str | None:
    if len(of.curves.schedule) < 2 or not of.draws:
        return None
    panels = {}
    for title, column in (
        ("calibration error (ECE) of the learner", "ece"),
        ("P: share of asked-for labels it predicted", "asked_accuracy"),
    ):
        values = means_over_labels(of.results, column, of.found.best_first, of.found.repeats)
        if any(len(labels) > 1 for labels, _ in values.values()):
            panels[title] = values
    if not panels:
        return "The learner's calibration was not stored."

    def draw(figures: Any) -> Any:
        return figures.draw_over_labels(panels, of.found.best_first)

    caption = (
        "Means over repetitions. Left: how far the learner's confidence is from its accuracy on test items. Right: of "
        "the rows a strategy had asked for so far, the share the learner predicted; hard questions make it low."
    )
    return Section("calibration", "What the learner knew", "Learner", "", of.figure("calibration", caption, draw))


def means_over_labels(
    results: Results, column: str, names: Sequence[str], repeats: Collection[int]
) -> dict[str, tuple[list[int], Any]]:
    """For each strategy the numbers of labels and the mean of a column over these repetitions, where it has values."""
    table = results.table.select(["strategy", "repeat", "labels", column])
    counted = pc.is_in(table["repeat"], pa.array(sorted(repeats), table["repeat"].type))
    table = table.filter(pc.and_(pc.is_valid(table[column]), counted))
    grouped = table.group_by(["strategy", "labels"]).aggregate([(column, "mean")]).sort_by("labels").to_pylist()
    out = {}
    for name in names:
        own = [one for one in grouped if one["strategy"] == name]
        if own:
            out[name] = [one["labels"] for one in own], np.array([one[f"{column}_mean"] for one in own])
    return out


def _balance(of: Material) -> Section | str | None:
    counts = picks.class_counts(of.results, of.who_picked, of.curves.schedule[-1], of.found.repeats)
    if not counts:
        return "The classes of the picks were not stored."
    size = len(next(iter(counts.values())))
    known = of.results.settings.get("plan", {}).get("classes") or []
    classes = [str(name) for name in known] if len(known) == size else [str(i) for i in range(size)]
    pool = picks.pool_counts(of.results, of.pool)

    def draw(figures: Any) -> Any:
        return figures.draw_class_balance(classes, counts, pool, of.found.best_first)

    line = " The line is the pool." if pool is not None else ""
    over = "over the same repetitions" if of.curves.repeats > 1 else "in a single repetition"
    caption = f"Share of each class among the first {of.curves.schedule[-1]:,} labels, {over}.{line}"
    return Section("balance", "Classes that were picked", "Classes", "", of.figure("class-balance", caption, draw))


def _places(of: Material) -> Section | str | None:
    if of.pool is None or not of.draws or len(of.curves.schedule) < 2:
        return None
    if of.pool.features is None:
        return "The data set has no features, so there is no map of it."
    found = picks.pool_map(of.results, of.pool.features, of.who_picked, of.found.repeats[0])
    if not found.picks:
        return NO_PICKS

    def draw(figures: Any) -> Any:
        return figures.draw_pool_map(found.points, found.picks, of.found.best_first)

    most = max(map(len, found.picks.values()))
    caption = (
        f"The pool ({count_of(len(found.points), 'row')} of it, grey) along its two principal axes, and the first "
        f"{most} rows that each strategy asked for in repetition {of.found.repeats[0] + 1}."
    )
    return Section("map", "Where the picks lie", "Map", "", of.figure("map", caption, draw))


def _first_items(of: Material) -> Section | str | None:
    if of.pool is None or len(of.curves.schedule) < 2:
        return None
    if of.pool.items is None:
        return "The data set has features but no images or texts, so none are shown."
    n = picks.IMAGES_PER_STRATEGY if of.pool.items.kind == "image" else picks.TEXTS_PER_STRATEGY
    shown = []
    for name in of.who_picked:
        rows, right = picks.first_picks(of.results, name, n, of.found.repeats[0])
        # A system and its "selection only" have the same picks.
        style = of.styles[name + SELECTION_ONLY if name + SELECTION_ONLY in of.styles else name]
        if rows:
            known = [one for one in right if one is not None]
            said = f"the learner had {sum(known)} of {len(known)} right" if known else ""
            shown.append(AskedItems(name, said, picks.items_for_page(of.pool, rows, right), style.strong))
    if not shown:
        return NO_PICKS
    is_shared = of.results.settings.get("plan", {}).get("start") != 0
    after = "after the initial labels" if is_shared else "itself, after the random ones if it began with those"
    words = (
        f"The first {max(len(asked.items) for asked in shown)} that each strategy asked for {after}, "
        f"in repetition {of.found.repeats[0] + 1} and in its order. A red frame marks those the learner got wrong."
    )
    return Section("items", "What was asked first", "Asked first", words, items=tuple(shown))


SECTIONS: Final[tuple[Callable[[Material], Section | str | None], ...]] = (
    _learning_curves,
    _labels_needed,
    _differences,
    _ablations,
    _selection_only,
    _pairwise,
    _first_items,
    _balance,
    _places,
    _calibration,
    _times,
    _costs,
)
