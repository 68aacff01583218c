"""The figures of a report, in the style of a paper. Every function takes numbers and returns a figure.

`drawing.save_figure` stores one as PNG and SVG, `drawing.inline_svg` embeds it in a page. Needs the extra `plot`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from understudy.experiments.curves import Curves
from understudy.experiments.drawing import (
    GRID,
    INK,
    MAX_NAMES_BESIDE,
    PAGE_INCHES,
    PAPER,
    SOFT,
    TYPE_POINTS,
    draw_ceiling,
    draw_curve,
    draw_legend,
    duration_text,
    in_house_style,
    label_axes,
    line_options,
    make_panels,
    make_small_panels,
    name_rows,
    name_the_ends,
    short_label,
)
from understudy.experiments.metrics import Metric, signed_text
from understudy.experiments.styles import FADED, MARK, Style, assign_styles, series_class, shared_styles

CELLS_WITH_NUMBERS: Final = 14
CLASSES_WITH_NAMES: Final = 12


# Curves over the number of labels


@in_house_style
def draw_learning_curves(
    of: Sequence[Curves],
    ceilings: Sequence[float | None] | None = None,
    columns: int = 2,
    all_strong: bool = False,
    height: float = 2.7,
    ended: Sequence[Curves] = (),
) -> Figure:
    """Test accuracy, or another metric, over labels: mean ± one standard deviation.

    There is a panel for each data set, and ceilings are dashed. `ended` are curves that end earlier. They are drawn in
    grey in the panel of their data set.
    """
    tops = [None] * len(of) if ceilings is None else list(ceilings)
    styles = shared_styles(of, all_strong, ended)
    figure, panels = make_panels(len(of), columns, height, list(styles))
    for axes, curves, top in zip(panels, of, tops, strict=True):
        means, measure = {}, curves.measure
        for name in _drawing_order(curves, styles):
            values = measure.scale * curves.values[name]
            means[name] = values.mean(0)
            most = 100.0 if measure.is_share else np.inf
            draw_curve(axes, curves.schedule, means[name], name, styles[name], deviation(values), most=most)
        for part in ended:
            for name in part.values if part.dataset == curves.dataset else ():
                means[name] = measure.scale * part.values[name].mean(0)
                draw_curve(axes, part.schedule, means[name], name, styles[name])
        if top is not None:
            draw_ceiling(axes, measure.scale * top, measure.text(top))
        label_axes(axes, curves.schedule, measure.heading, narrow=len(of) > 1)
        _finish(axes, figure, curves, means, styles, alone=len(of) == 1)
    if len(of) > 1:
        draw_legend(figure, styles)
    return figure


@in_house_style
def draw_offset_curves(
    of: Sequence[Curves], reference: str, columns: int = 2, all_strong: bool = False, height: float = 2.7
) -> Figure:
    """Accuracy minus that of the reference in the same repetition, over labels: mean ± one standard error.

    If lower is better it is the reference's value minus that of the strategy, so that above zero is better.
    """
    styles = shared_styles(of, all_strong)
    figure, panels = make_panels(len(of), columns, height, list(styles))
    for axes, curves in zip(panels, of, strict=True):
        means = {}
        axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
        for name in _drawing_order(curves, styles):
            if name == reference:
                continue
            values = curves.measure.scale * curves.upwards(curves.values[name] - curves.values[reference])
            means[name] = values.mean(0)
            draw_curve(
                axes, curves.schedule, means[name], name, styles[name], deviation(values) / math.sqrt(len(values))
            )
        label_axes(axes, curves.schedule, difference_words(curves.measure, reference), narrow=len(of) > 1)
        _finish(axes, figure, curves, means, styles, alone=len(of) == 1)
    if len(of) > 1:
        draw_legend(figure, {name: style for name, style in styles.items() if name != reference})
    return figure


def difference_words(measure: Metric, reference: str, what: str = "") -> str:
    """What a difference from the reference is called, so that positive is better, with its unit."""
    unit = f" ({measure.unit})" if measure.unit else ""
    than = f"{reference} minus this" if measure.lower_is_better else f"minus {reference}"
    return f"{what or measure.title}{', ' if measure.lower_is_better else ' '}{than}{unit}"


@in_house_style
def draw_over_labels(
    panels: Mapping[str, Mapping[str, tuple[Sequence[int], np.ndarray]]], ranked: Sequence[str]
) -> Figure:
    """A panel for each title: for each strategy the labels and a value at each of them."""
    styles = assign_styles(ranked)
    figure, all_axes = make_panels(len(panels), 2, 2.1, ranked)
    drawn: set[str] = set()
    for axes, (title, values) in zip(all_axes, panels.items(), strict=True):
        for name in sorted(values, key=lambda name: styles[name].strong):
            draw_curve(axes, values[name][0], values[name][1], name, styles[name])
        schedule = sorted({n for labels, _ in values.values() for n in labels})
        label_axes(axes, schedule, "", narrow=True)
        axes.set_title(title)
        drawn |= set(values)
    draw_legend(figure, {name: styles[name] for name in ranked if name in drawn})
    return figure


def _drawing_order(curves: Curves, styles: Mapping[str, Style]) -> list[str]:
    """Highlighted strategies last, so that they lie on top."""
    return sorted(curves.values, key=lambda name: (styles[name].strong, curves.upwards(curves.area(name)).mean()))


def deviation(values: Float[np.ndarray, "r b"]) -> Float[np.ndarray, "b"]:
    return values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def _finish(
    axes: Axes,
    figure: Figure,
    curves: Curves,
    means: Mapping[str, np.ndarray],
    styles: Mapping[str, Style],
    alone: bool,
) -> None:
    if not alone:
        axes.set_title(curves.dataset)
    elif len(means) <= MAX_NAMES_BESIDE:
        name_the_ends(axes, figure, {name: float(values[-1]) for name, values in means.items()}, styles)
    else:
        draw_legend(figure, {name: style for name, style in styles.items() if name in means})


# One number per strategy


@in_house_style
def draw_differences(
    means: Mapping[str, float],
    intervals: Mapping[str, tuple[float, float]],
    ranked: Sequence[str],
    what: str,
    decimals: int = 2,
) -> Figure:
    """A difference for each strategy with its interval; positive is better, and the best on top."""
    styles = assign_styles(ranked)
    names = sorted(means, key=lambda name: means[name])
    figure = Figure(figsize=(PAGE_INCHES, 0.75 + 0.2 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
    for place, name in enumerate(names):
        style, (low, high) = styles[name], intervals[name]
        mark = {**line_options(style), "linewidth": 0.0}
        if np.isfinite([low, high]).all():
            axes.plot([low, high], [place, place], color=style.colour, linewidth=1.4, gid=f"{series_class(name)}-bar")
        axes.plot([means[name]], [place], gid=f"{series_class(name)}-dot", **mark)
        label, across = _interval_label(means[name], low, high, decimals), axes.get_yaxis_transform()
        axes.text(1.01, place, label, transform=across, va="center", color=SOFT, fontsize=TYPE_POINTS - 0.5)
    name_rows(axes, names)
    axes.set_xlabel(what)
    return figure


def _interval_label(mean: float, low: float, high: float, decimals: int = 2) -> str:
    middle, start, end = (signed_text(value, decimals) for value in (mean, low, high))
    interval = f"  [{start}, {end}]" if np.isfinite([low, high]).all() else ""
    return f"{middle}{interval}".replace("-", "−")


@in_house_style
def draw_pairs(values: Mapping[str, tuple[float, float]], what: tuple[str, str], axis: str) -> Figure:
    """Two values for each name, joined by a line to show their difference."""
    names = sorted(values, key=lambda name: max(values[name]))
    figure = Figure(figsize=(PAGE_INCHES, 0.95 + 0.22 * len(names)), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(names):
        axes.plot(values[name], [place, place], color=FADED, linewidth=1.2, zorder=1)
    for i, (marker, face, label) in enumerate((("o", MARK, what[0]), ("s", PAPER, what[1]))):
        axes.plot([values[name][i] for name in names], range(len(names)), linestyle="", marker=marker, markersize=5.5,
                  markerfacecolor=face, markeredgecolor=MARK, label=label)  # fmt: skip
    name_rows(axes, names)
    axes.set_xlabel(axis)
    figure.legend(loc="outside upper left", ncols=2)
    return figure


@in_house_style
def draw_seconds(choosing: Mapping[str, float], training: Mapping[str, float]) -> Figure:
    """Seconds per pick on a logarithmic axis: for choosing, and its share of the training."""
    names = sorted(choosing, key=lambda name: -choosing[name])
    figure = Figure(figsize=(PAGE_INCHES, 0.95 + 0.25 * len(names)), layout="constrained")
    axes = figure.subplots()
    kinds = ((choosing, 0.19, MARK, None, "choosing"), (training, -0.19, FADED, "////", "training"))
    known = [value for values in (choosing, training) for value in values.values() if value > 0]
    floor = 10 ** (math.floor(math.log10(min(known))) if known else -6)
    for values, offset, colour, hatch, _ in kinds:
        for place, name in enumerate(names):
            value = max(values.get(name, 0.0), floor)
            style: dict[str, Any] = {
                "facecolor": PAPER if hatch else colour,
                "edgecolor": colour,
                "hatch": hatch,
                "linewidth": 0.7,
            }
            axes.barh(place + offset, value - floor, 0.36, left=floor, gid=f"{series_class(name)}-bar", **style)
            if name in values:
                label = f" {duration_text(values[name])}"
                axes.text(value, place + offset, label, va="center", fontsize=TYPE_POINTS - 1.5, color=SOFT)
    handles = [
        Patch(facecolor=PAPER if hatch else colour, edgecolor=colour, hatch=hatch, label=label)
        for _, _, colour, hatch, label in kinds
    ]
    axes.set_xscale("log")
    axes.set_xlim(left=floor)
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration_text(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    name_rows(axes, names)
    axes.set_xlabel("time per pick")
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    return figure


# Statistics of all against all


@in_house_style
def draw_penalties(
    names: Sequence[str], matrix: Float[np.ndarray, "s s"], penalty: Float[np.ndarray, "s"], most: float = 1.0
) -> Figure:
    """How often the row's strategy is significantly better than the column's, and the penalty of each below."""
    n = len(names)
    side = min(0.34, 4.2 / n)
    figure = Figure(figsize=(min(PAGE_INCHES, 1.9 + side * n + 0.6), 1.3 + side * (n + 1.3)), layout="constrained")
    axes = figure.subplots()
    table = np.vstack([matrix, penalty])
    for (i, j), value in np.ndenumerate(table):
        place = i + 0.3 * (i == n)
        opacity = 0.85 * min(1.0, max(0.0, value / most))
        axes.add_patch(Rectangle((j - 0.5, place - 0.5), 1, 1, facecolor=MARK, alpha=opacity, linewidth=0))
        axes.add_patch(Rectangle((j - 0.5, place - 0.5), 1, 1, fill=False, edgecolor=GRID, linewidth=0.5))
        if n <= CELLS_WITH_NUMBERS and i != j:
            axes.text(j, place, f"{value:.2f}".lstrip("0") if value else "0", ha="center", va="center",
                      fontsize=TYPE_POINTS - 1, color=INK if value else SOFT)  # fmt: skip
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n + 0.8, -0.5)
    axes.set_xticks(range(n), [short_label(name, 24) for name in names], rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks([*range(n), n + 0.3], [*(short_label(name, 24) for name in names), "penalty"])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal")
    return figure


@in_house_style
def draw_ranks(mean_ranks: Mapping[str, float], groups: Sequence[Sequence[str]], ranked: Sequence[str]) -> Figure:
    """A critical-difference diagram: mean ranks, 1 is best; a bar joins those that do not differ significantly."""
    styles = assign_styles(ranked)
    names = sorted(mean_ranks, key=lambda name: mean_ranks[name])
    n, half = len(names), math.ceil(len(names) / 2)
    bars = [group for group in groups if len(group) > 1]
    depth = 0.22 * (half + 1) + 0.11 * len(bars)
    figure = Figure(figsize=(PAGE_INCHES, 0.55 + depth), layout="constrained")
    axes = figure.subplots()
    start = 0.5 + 0.5 * len(bars)
    for i, name in enumerate(names):
        rank, left = mean_ranks[name], i < half
        down = start + (i if left else n - 1 - i) + 0.6
        side = 0.7 if left else n + 0.3
        gid, style = f"{series_class(name)}-name", styles[name]
        axes.plot([rank, rank, side], [0, down, down], color=style.colour, linewidth=0.9, gid=gid)
        axes.plot([rank], [0], gid=gid, clip_on=False, **{**line_options(style), "linewidth": 0.0})
        words = f"{short_label(name)}  {rank:.2f}" if left else f"{rank:.2f}  {short_label(name)}"
        beside = side + (-0.012 if left else 0.012) * n
        axes.text(beside, down, words, ha="right" if left else "left", va="center", gid=gid)
    for i, group in enumerate(bars):
        places = [mean_ranks[name] for name in group]
        axes.plot([min(places) - 0.04, max(places) + 0.04], [0.5 + 0.5 * i] * 2, color=INK, linewidth=2.4,
                  solid_capstyle="butt", zorder=5)  # fmt: skip
    axes.set_xlim(0.7, n + 0.3)
    axes.set_ylim(start + half + 0.4, 0)
    axes.set_xticks(range(1, n + 1))
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("mean rank (1 is best)")
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    return figure


# What was picked


@in_house_style
def draw_class_balance(
    classes: Sequence[str],
    counts: Mapping[str, Int[np.ndarray, "c"]],
    pool: Int[np.ndarray, "c"] | None,
    ranked: Sequence[str],
) -> Figure:
    """The share of each class among the labelled rows, one panel per strategy; the pool's share as a line."""
    styles = assign_styles(ranked)
    named = len(classes) <= CLASSES_WITH_NAMES
    figure, panels, per_row = make_small_panels(len(counts), 1.15, extra=0.5 if named else 0.2)
    for i, (axes, (name, values)) in enumerate(zip(panels, counts.items(), strict=True)):
        # Many classes are sorted, since only the shape is visible.
        order = np.arange(len(values)) if named else np.argsort(-values, kind="stable")
        share = 100 * values[order] / max(1, values.sum())
        colour = styles[name].colour
        gid = f"{series_class(name)}-bars"
        if named:
            axes.bar(range(len(share)), share, 0.8, color=colour, linewidth=0, gid=gid)
        else:
            edges = np.arange(-0.5, len(share) + 0.5)
            axes.fill_between(edges, [*share, share[-1]], step="post", color=colour, linewidth=0, gid=gid)
        if pool is not None:
            own = 100 * pool[order] / max(1, pool.sum())
            axes.step(np.arange(-0.5, len(own) + 0.5), [*own, own[-1]], where="post", color=INK, linewidth=0.8)
        title = axes.set_title(short_label(name, 26), fontsize=TYPE_POINTS)
        title.set_gid(f"{series_class(name)}-name")
        below = i + per_row >= len(counts)
        if named:
            shortened = [word if len(word) <= 12 else word[:11] + "…" for word in classes]
            upright = max(map(len, shortened)) > 2
            axes.set_xticks(range(len(share)), shortened if below else [], rotation=90 if upright else 0)
            axes.tick_params(axis="x", length=0, labelsize=TYPE_POINTS - 1)
        else:
            axes.set_xticks([])
            axes.set_xlabel(f"{len(classes)} classes, most frequent first" if below else "", fontsize=TYPE_POINTS - 1)
        axes.set_ylabel("% of labels" if i % per_row == 0 else "")
    return figure


@in_house_style
def draw_pool_map(
    points: Float[np.ndarray, "n 2"], picks: Mapping[str, Float[np.ndarray, "p 2"]], ranked: Sequence[str]
) -> Figure:
    """The pool in two dimensions, one panel per strategy with its picks."""
    styles = assign_styles(ranked)
    figure, panels, _ = make_small_panels(len(picks), 1.5)
    everything = np.vstack([points, *picks.values()])
    low, high = everything.min(0), everything.max(0)
    edge = 0.04 * np.maximum(high - low, 1e-9)
    for axes, (name, chosen) in zip(panels, picks.items(), strict=True):
        # Thousands of points are rasterised; the picks stay vector graphics.
        axes.plot(*points.T, linestyle="", marker=".", markersize=2.1, markeredgewidth=0, color=FADED, alpha=0.7,
                  rasterized=True)  # fmt: skip
        style = styles[name]
        colour = style.colour if style.strong else MARK
        axes.plot(*chosen.T, linestyle="", marker="o", markersize=2.8, color=colour, markeredgecolor=PAPER,
                  markeredgewidth=0.3, gid=f"{series_class(name)}-dots")  # fmt: skip
        title = axes.set_title(short_label(name, 26), fontsize=TYPE_POINTS)
        title.set_gid(f"{series_class(name)}-name")
        axes.set_xlim(low[0] - edge[0], high[0] + edge[0])
        axes.set_ylim(low[1] - edge[1], high[1] + edge[1])
        axes.set_xticks([])
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(GRID)
    return figure
