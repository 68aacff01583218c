"""Tables of comparisons: for the terminal, in Markdown and in LaTeX. What the numbers mean: docs/statistics.md.

A table is built once, as a grid of strings, and written in three formats.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from understudy.experiments.curves import CEILING, CONTROL_WORDS, Curves, Role, role_of, standard_deviation
from understudy.experiments.metrics import ACCURACY, METRICS, Metric
from understudy.experiments.statistics import (
    MIN_REPEATS_TESTED,
    SIGNIFICANCE_LEVEL,
    Difference,
    LabelCost,
    PairedComparison,
    Penalties,
    Ranks,
    by_area,
    compare,
    contestants,
    early_part,
    labelling_efficiency,
    labels_saved,
    log_area,
    reference_of,
    shared_range,
    smallest_p,
)
from understudy.messages import count_of

NAME_WIDTHS: Final = (34, 26, 20)  # characters of a name in wide, narrower and narrow terminals
MIN_BUDGETS: Final = 3
NOT_REACHED: Final = "–"


@dataclass(frozen=True)
class Grid:
    """The cells of a table. The first column holds names; `apart` are rows of controls, below a rule."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    apart: tuple[tuple[str, ...], ...] = ()
    bold: frozenset[tuple[int, int]] = frozenset()  # row and column
    notes: tuple[str, ...] = ()


# What is in them


def comparison_grid(
    curves: Curves,
    reference: str | None = None,
    ceiling: np.ndarray | None = None,
    n_budgets: int | None = None,
    full: bool = True,
    comparisons: Sequence[PairedComparison] | None = None,
    failed: Sequence[str] = (),
) -> Grid:
    """Accuracies, or values of another metric, at the budgets, areas, differences from the reference; the best first.

    `ceiling` are the values with all labels. There are all budgets, or `n_budgets` of them. Without `full` there are
    fewer columns, and the deviations of the areas alone: what fits a terminal. `comparisons` is the output of
    `compare`, if it was computed already. Strategies that `failed` have a row that says so.
    """
    reference, all_curves, curves = reference_of(curves, reference), curves, contestants(curves)
    names = by_area(curves)
    found = {one.strategy: one for one in (compare(curves, reference) if comparisons is None else comparisons)}
    shown = pick_evenly(range(len(curves.schedule)), len(curves.schedule) if n_budgets is None else n_budgets)
    measure, digits = curves.measure, curves.measure.decimals
    tested = curves.repeats >= MIN_REPEATS_TESTED and len(found) > 0
    intervals = full and curves.repeats > 1 and len(found) > 0
    apart = [name for name in by_area(all_curves) if name not in names and name != CEILING]

    def measured(name: str) -> list[tuple[np.ndarray, int]]:
        """The numeric columns: a value per repetition, and the number of decimals."""
        part = all_curves.only([name])
        areas = [(part.area(name), digits + 1)]
        if full:
            areas += [(early_part(part).area(name), digits + 1), (log_area(part, name), digits + 1)]
        return [(part.of(name)[:, i], digits) for i in shown] + areas

    def compared_cells(name: str) -> list[str]:
        if name not in found:
            said = "reference" if name == reference else ""
            if role_of(name, all_curves.values) is Role.SYSTEM:
                said = "changes training; not ranked" if full else "not ranked"
            return [said] + [""] * (full * (2 if intervals else 1) + tested)
        one = found[name]
        beside = [interval_text(one.bootstrap, measure)] * intervals + [f"{one.wins}/{one.ties}/{one.losses}"]
        return [points_text(one.area, measure)] + beside * full + [p_text(one.p_holm)] * tested

    def row(name: str, columns: list[tuple[np.ndarray, int]]) -> tuple[str, ...]:
        numbers = [mean_and_std(values, n, measure, full or n > digits) for values, n in columns]
        return (name, *numbers, *compared_cells(name))

    found_columns = {name: measured(name) for name in names}

    deviations = "mean±std" if full else "mean (area: ±std)"
    budgets = tuple(f"{curves.schedule[i]:,}" for i in shown)
    areas = ("area", "early area", "log area") if full else ("area",)
    beside = (*["bootstrap"] * intervals, *["win/tie/loss"] * full, *["p (Holm)"] * tested)
    return Grid(
        f"{curves.dataset}: test {measure.in_unit}, {deviations} of {count_of(curves.repeats, 'repetition')}",
        ("strategy", *budgets, *areas, _difference_heading(measure, reference), *beside),
        tuple(row(name, columns) for name, columns in found_columns.items()),
        apart=(
            *(row(name, measured(name)) for name in apart),
            *((name, *("" for _ in (*budgets, *areas)), "failed", *("" for _ in beside)) for name in failed),
        ),
        bold=_largest(
            [
                [round(measure.sign * measure.scale * values.mean(), n) for values, n in columns]
                for columns in found_columns.values()
            ]
        ),
        notes=tuple(_notes_on(all_curves, reference, list(found.values()), ceiling, len(shown), full)),
    )


def _notes_on(
    curves: Curves,
    reference: str,
    found: Sequence[PairedComparison],
    ceiling: np.ndarray | None,
    n_shown: int,
    full: bool,
) -> Iterable[str]:
    """Notes below the table of comparisons, one sentence each."""
    measure = curves.measure
    if n_shown < len(curves.schedule):
        yield f"{n_shown} of {len(curves.schedule)} budgets shown; area: the mean {measure.title} over all of them."
    else:
        yield f"Area: the mean {measure.title} over all numbers of labels."
    if measure.lower_is_better:
        yield "Lower is better."
    if full:
        last = early_part(curves).schedule[-1]
        yield f"Early area: up to {last:,} labels; log area: over the logarithm of the labels."
    if found:
        with_interval = ", with 95 % interval" if curves.repeats > 1 else ""
        heading = _difference_heading(measure, reference)
        points = f"in {measure.unit} of area" if measure.unit else "in area"
        good = "; positive is better" if measure.lower_is_better else ""
        yield f"{heading[0].upper()}{heading[1:]}: {points}, paired{with_interval}{good}."
    if found and full and curves.repeats > 1:
        yield "Bootstrap: the same interval by resampling repetitions; with fewer than ten it is too narrow."
    if found and curves.repeats >= MIN_REPEATS_TESTED:
        yield f"p: signed ranks, corrected for {count_of(len(found), 'comparison')}."
        yield from _limits_of(curves.repeats, len(found))
    elif found:
        yield f"p-values need at least {MIN_REPEATS_TESTED} repetitions."
    systems = [name for name in curves.values if role_of(name, curves.values) is Role.SYSTEM]
    if systems:
        yield f"Changes training, so only its selection is ranked: {', '.join(systems)}."
    if ceiling is None and CEILING in curves.values:
        ceiling = curves.of(CEILING)[:, -1]
    if ceiling is not None:
        yield f"Ceiling, trained on all labels: {mean_and_std(ceiling, measure.decimals, measure)}."
    for name, words in CONTROL_WORDS.items():
        if name in curves.values:
            yield f"{words}; for orientation, not compared."


def _difference_heading(measure: Metric, reference: str) -> str:
    """What differences from the reference are called, so that positive is better."""
    return f"less than {reference}" if measure.lower_is_better else f"minus {reference}"


def _limits_of(repeats: int, comparisons: int) -> Iterable[str]:
    """A warning if the correction rules out a significant p."""
    least = smallest_p(repeats, comparisons)
    if least >= SIGNIFICANCE_LEVEL:
        yield (
            f"With {repeats} repetitions, so many comparisons cannot give a p below {least:.2f}: "
            "repeat more or compare fewer."
        )


def savings_grid(
    curves: Curves,
    reference: str | None = None,
    accuracies: Sequence[float] | None = None,
    n_accuracies: int | None = None,
    full: bool = True,
) -> Grid:
    """The labels needed for each accuracy, and how many fewer than with the reference; the best area first.

    `full` adds the labelling efficiency, and the range of accuracies in which it is defined.
    """
    reference, curves = reference_of(curves, reference), contestants(curves)
    reached = {name: labels_saved(curves, name, reference, accuracies) for name in by_area(curves)}
    measure, n_levels = curves.measure, len(reached[reference])
    levels = pick_evenly(range(n_levels), n_levels if n_accuracies is None else n_accuracies)

    def cell(name: str, reach: LabelCost) -> str:
        if reach.labels is None:
            return NOT_REACHED
        if name == reference or reach.saved is None or reach.share_saved is None:
            return f"{reach.labels:,.0f}"
        return f"{reach.labels:,.0f} ({_rounded_text(reach.saved)}, {_rounded_text(100 * reach.share_saved)} %)"

    def efficiency(name: str) -> tuple[str, str]:
        shared = shared_range(curves, name, reference)
        found = None if shared is None else labelling_efficiency(curves, name, shared[1], reference)
        if name == reference or shared is None or found is None:
            return "", ""
        return f"{found:.2f}", f"{measure.text(shared[0]).removesuffix(' %')} to {measure.text(shared[1])}"

    full = full and len(reached) > 1 and len(curves.schedule) > 1
    defined = (
        f"Efficiency: labels of {reference} that one label is worth, at the end of the {_values_of(measure)} that both "
        "curves have (range)."
    )
    return Grid(
        f"{curves.dataset}: labels to reach {_a_value_of(measure)} (fewer than with {reference}, in %)",
        (
            "strategy",
            *(measure.text(reached[reference][i].accuracy) for i in levels),
            *(["efficiency", "range"] if full else []),
        ),
        tuple(
            (name, *(cell(name, reaches[i]) for i in levels), *(efficiency(name) if full else ()))
            for name, reaches in reached.items()
        ),
        notes=(
            *([defined] if full else []),
            f"By interpolation of mean curves of {count_of(curves.repeats, 'repetition')}; "
            f"{NOT_REACHED}: never reached.",
            *(
                []
                if accuracies is not None
                else [f"{_values_of(measure).capitalize()} are those of {reference} at its budgets."]
            ),
        ),
    )


def _values_of(measure: Metric) -> str:
    return "accuracies" if measure.name == ACCURACY else "values"


def _a_value_of(measure: Metric) -> str:
    return "an accuracy" if measure.name == ACCURACY else f"a test {measure.title}"


def penalty_grid(found: Penalties) -> Grid:
    """The penalty matrix: how often the row was significantly better than the column; lowest penalty first."""
    order = np.argsort(found.penalty, kind="stable")
    matrix, penalty = found.matrix[np.ix_(order, order)], found.penalty[order]
    numbers = range(1, len(order) + 1)
    rows = [
        (f"{number} {found.names[i]}", *(f"{value:.2f}" if j + 1 != number else "" for j, value in enumerate(line)))
        for number, i, line in zip(numbers, order, matrix, strict=True)
    ]
    lowest = {(len(rows), j + 1) for j, value in enumerate(penalty) if value == penalty.min() < penalty.max()}
    return Grid(
        f"{', '.join(found.datasets)}: share of budgets at which the row is significantly better than the column",
        ("strategy", *map(str, numbers)),
        tuple(rows),
        apart=(("penalty (mean of column)", *(f"{value:.2f}" for value in penalty)),),
        bold=frozenset(lowest),
        notes=(
            f"Paired t-tests at {SIGNIFICANCE_LEVEL}; at most {len(found.datasets)} per cell; a low penalty is good.",
        ),
    )


def rank_grid(found: Ranks) -> Grid:
    """Average ranks; strategies that share a letter do not differ significantly."""
    letters = {
        name: "".join(_letter(i) for i, group in enumerate(found.groups) if name in group) for name in found.names
    }
    tested = found.told_by is not None
    notes = [f"Ranks of areas in {count_of(found.blocks, 'block')}; 1 is best."]
    if tested:
        notes.append(f"The same letter: no significant difference by {test_in_words(found)}.")
        notes.append(f"Critical difference of ranks (Nemenyi): {found.critical_difference:.2f}.")
    if found.friedman_p is not None:
        notes.append(f"That all are the same: p {p_text(found.friedman_p)} (Friedman).")
    return Grid(
        "average ranks",
        ("strategy", "rank", *["same"] * tested),
        tuple(
            (name, f"{rank:.2f}", *[letters[name]] * tested)
            for name, rank in zip(found.names, found.average, strict=True)
        ),
        notes=tuple(notes),
    )


def test_in_words(found: Ranks) -> str:
    """The name of the test of all pairs; if it is not the usual one, also why."""
    if found.told_by == "signed ranks":
        return f"signed ranks, corrected for {count_of(found.pairs, 'pair')}"
    return (
        f"Nemenyi's test of mean ranks (after Friedman's); signed ranks, corrected for {found.pairs} pairs, cannot "
        f"give a p below {smallest_p(found.blocks, found.pairs):.2f} with {count_of(found.blocks, 'block')}"
    )


# How they are written


def as_rich(grid: Grid, longest: int = NAME_WIDTHS[0]) -> Table:
    """For a terminal. Cells are not wrapped, and long names lose their middle."""
    table = Table(
        title=Text(grid.title),
        caption=Text("\n".join(grid.notes)) if grid.notes else None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for i, heading in enumerate(grid.headings):
        table.add_column(Text(heading), justify="right" if i else "left", no_wrap=True)
    for i, row in enumerate((*grid.rows, *grid.apart)):
        if i == len(grid.rows):
            table.add_section()
        name, *cells = (Text(cell, "bold" if (i, j) in grid.bold else "") for j, cell in enumerate(row))
        table.add_row(Text(shorten(name.plain, longest), name.style), *cells)
    return table


def as_markdown(grid: Grid) -> str:
    """For a page: title, table, notes."""
    lines = [
        f"**{escape_markdown(grid.title)}**",
        "",
        _join_cells(map(escape_markdown, grid.headings), "| {} |", " | "),
    ]
    lines.append("|" + "|".join(["---", *["---:"] * (len(grid.headings) - 1)]) + "|")
    for i, row in enumerate((*grid.rows, *grid.apart)):
        cells = (
            f"**{escape_markdown(cell)}**" if (i, j) in grid.bold else escape_markdown(cell)
            for j, cell in enumerate(row)
        )
        lines.append(_join_cells(cells, "| {} |", " | "))
    return "\n".join([*lines, *(["", *map(escape_markdown, grid.notes)] if grid.notes else [])]) + "\n"


def as_latex(grid: Grid) -> str:
    r"""For a paper, with `\usepackage{booktabs}`."""
    caption = ". ".join([escape_latex(grid.title), " ".join(map(escape_latex, grid.notes))]).strip(". ") + "."
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(grid.headings) - 1)}}}", r"\toprule"]
    lines += [_join_cells(map(escape_latex, grid.headings), r"{} \\", " & "), r"\midrule"]
    for i, row in enumerate((*grid.rows, *grid.apart)):
        if i == len(grid.rows):
            lines.append(r"\midrule")
        cells = (
            rf"\textbf{{{escape_latex(cell, j > 0)}}}" if (i, j) in grid.bold else escape_latex(cell, j > 0)
            for j, cell in enumerate(row)
        )
        lines.append(_join_cells(cells, r"{} \\", " & "))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _fit_terminal(grid_of: Callable[[int], Grid], most: int, width: int = 100) -> Table:
    """A table for a terminal this many columns wide: with as many budgets, at most `most`, as fit.

    Names are shortened before fewer than three are shown.
    """
    made = cache(grid_of)
    tries = [(n, longest) for longest in NAME_WIDTHS for n in range(most, min(most, MIN_BUDGETS) - 1, -1)]
    for n, longest in [*tries, (2, NAME_WIDTHS[-1])]:
        if width_of(made(n), longest) <= width:
            return as_rich(made(n), longest)
    return as_rich(made(1), NAME_WIDTHS[-1])


def width_of(grid: Grid, longest: int) -> int:
    """The width in `as_rich`: the widest cell of each column and two spaces."""
    columns = zip(grid.headings, *grid.rows, *grid.apart, strict=True)
    names, *others = ([cell_len(cell) for cell in column] for column in columns)
    return min(longest, max(names)) + sum(max(cells) for cells in others) + 2 * len(grid.headings)


def comparison_table(
    curves: Curves,
    reference: str | None = None,
    ceiling: np.ndarray | None = None,
    width: int = 100,
    comparisons: Sequence[PairedComparison] | None = None,
    failed: Sequence[str] = (),
) -> Table:
    """What `understudy compare` prints: the table of comparisons, as wide as the terminal allows."""
    found = compare(curves, reference) if comparisons is None else comparisons
    return _fit_terminal(
        lambda n: comparison_grid(curves, reference, ceiling, n, False, found, failed), len(curves.schedule), width
    )


def saved_table(curves: Curves, reference: str | None = None, width: int = 100) -> Table:
    """Labels saved, as wide as the terminal allows."""
    return _fit_terminal(
        lambda n: savings_grid(curves, reference, None, n, False), max(1, len(curves.schedule) - 1), width
    )


# Words and numbers


def pick_evenly(of: Sequence[int], n: int) -> list[int]:
    """At most n, evenly spaced and with the last. The first is dropped first, since all strategies start alike."""
    if n >= len(of):
        return list(of)
    return [of[int(i)] for i in np.rint(np.linspace(len(of) - 1, len(of) / n - 1, n))[::-1]]


def _largest(values: list[list[float]]) -> frozenset[tuple[int, int]]:
    """Row and column (names are column 0) of the largest value of each column, unless all are equal."""
    columns = list(zip(*values, strict=True))
    return frozenset(
        (i, j + 1)
        for j, column in enumerate(columns)
        for i, value in enumerate(column)
        if value == max(column) > min(column)
    )


def mean_and_std(values: np.ndarray, decimals: int, measure: Metric, deviation: bool = True) -> str:
    """A mean and, of two values or more, its standard deviation, as 87.3±0.4."""
    mean = f"{measure.scale * values.mean():.{decimals}f}"
    if not deviation or len(values) < 2:
        return mean
    return f"{mean}±{measure.scale * standard_deviation(values):.{decimals}f}"


def points_text(difference: Difference, measure: Metric = METRICS[ACCURACY]) -> str:
    """A difference and its interval, as +1.20 [+0.40, +2.00]; in points for a share."""
    mean = measure.signed(difference.mean)
    return mean if difference.interval is None else f"{mean} {interval_text(difference.interval, measure)}"


def interval_text(ends: tuple[float, float] | None, measure: Metric = METRICS[ACCURACY]) -> str:
    return "" if ends is None else f"[{', '.join(map(measure.signed, ends))}]"


def _rounded_text(value: float) -> str:
    return f"{round(value) + 0:,}"


def p_text(p: float | None) -> str:
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _letter(i: int) -> str:
    return chr(ord("a") + i) if i < 26 else f"({i + 1})"


def shorten(name: str, longest: int = NAME_WIDTHS[0]) -> str:
    """A long name without its middle, since its settings are at the end."""
    if len(name) <= longest:
        return name
    return f"{name[: (longest - 1) // 2]}…{name[-(longest // 2) :]}"


def _join_cells(cells: Iterable[str], line: str, between: str) -> str:
    return line.replace("{}", between.join(cells))


def escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_|\[\]<>])", r"\\\1", text.replace("\n", " "))


LATEX_SIGNS: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "–": "--",
    "…": r"\ldots{}",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def escape_latex(text: str, numbers: bool = False) -> str:
    """The text with LaTeX's special characters escaped; before numbers a minus sign instead of a hyphen."""
    escaped = "".join(LATEX_SIGNS.get(sign, sign) for sign in text.replace("\n", " "))
    escaped = re.sub(r"^\[", "{[}", escaped)  # at the start of a line it would be an option of the line before
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped) if numbers else escaped
