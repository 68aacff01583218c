"""The figures of a report, as for a paper. Every function takes numbers and gives a figure.

`drawing.written` stores one as PNG and SVG, `drawing.inline` makes it part of a page. Needs the extra `plot`.
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
    LABELLED_AT_THE_END,
    PAPER,
    SIZE,
    SOFT,
    WIDTH,
    brief,
    ceiling,
    duration,
    grid,
    label_axes,
    legend,
    line,
    line_style,
    name_the_ends,
    rows_of_names,
    small_multiples,
    styled,
)
from understudy.experiments.styles import FADED, MARK, Look, looks, series, shared_looks

CELLS_WITH_NUMBERS: Final = 14
CLASSES_WITH_NAMES: Final = 12


# Curves over the number of labels


@styled
def learning_curves(
    of: Sequence[Curves],
    ceilings: Sequence[float | None] | None = None,
    columns: int = 2,
    all_strong: bool = False,
    height: float = 2.7,
    ended: Sequence[Curves] = (),
) -> Figure:
    """Test accuracy over labels, mean ± one standard deviation; a panel for each data set, ceilings dashed.

    `ended` are curves that end earlier. They are drawn in grey in the panel of their data set.
    """
    tops = [None] * len(of) if ceilings is None else list(ceilings)
    seen = shared_looks(of, all_strong, ended)
    figure, panels = grid(len(of), columns, height, list(seen))
    for axes, curves, top in zip(panels, of, tops, strict=True):
        means = {}
        for name in _drawing_order(curves, seen):
            values = 100 * curves.accuracy[name]
            means[name] = values.mean(0)
            line(axes, curves.schedule, means[name], name, seen[name], deviation(values), most=100.0)
        for part in ended:
            for name in part.accuracy if part.dataset == curves.dataset else ():
                means[name] = 100 * part.accuracy[name].mean(0)
                line(axes, part.schedule, means[name], name, seen[name])
        if top is not None:
            ceiling(axes, 100 * top)
        label_axes(axes, curves.schedule, "test accuracy (%)", narrow=len(of) > 1)
        _finish(axes, figure, curves, means, seen, alone=len(of) == 1)
    if len(of) > 1:
        legend(figure, seen)
    return figure


@styled
def offset_curves(
    of: Sequence[Curves], reference: str, columns: int = 2, all_strong: bool = False, height: float = 2.7
) -> Figure:
    """Accuracy minus that of the reference in the same repetition, over labels: mean ± one standard error."""
    seen = shared_looks(of, all_strong)
    figure, panels = grid(len(of), columns, height, list(seen))
    for axes, curves in zip(panels, of, strict=True):
        means = {}
        axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
        for name in _drawing_order(curves, seen):
            if name == reference:
                continue
            values = 100 * (curves.accuracy[name] - curves.accuracy[reference])
            means[name] = values.mean(0)
            line(axes, curves.schedule, means[name], name, seen[name], deviation(values) / math.sqrt(len(values)))
        label_axes(axes, curves.schedule, f"accuracy minus {reference} (points)", narrow=len(of) > 1)
        _finish(axes, figure, curves, means, seen, alone=len(of) == 1)
    if len(of) > 1:
        legend(figure, {name: look for name, look in seen.items() if name != reference})
    return figure


@styled
def over_labels(panels: Mapping[str, Mapping[str, tuple[Sequence[int], np.ndarray]]], ranked: Sequence[str]) -> Figure:
    """A panel for each title: for each strategy the labels and a value at each of them."""
    seen = looks(ranked)
    figure, all_axes = grid(len(panels), 2, 2.1, ranked)
    drawn: set[str] = set()
    for axes, (title, values) in zip(all_axes, panels.items(), strict=True):
        for name in sorted(values, key=lambda name: seen[name].strong):
            line(axes, values[name][0], values[name][1], name, seen[name])
        schedule = sorted({n for labels, _ in values.values() for n in labels})
        label_axes(axes, schedule, "", narrow=True)
        axes.set_title(title)
        drawn |= set(values)
    legend(figure, {name: seen[name] for name in ranked if name in drawn})
    return figure


def _drawing_order(curves: Curves, seen: Mapping[str, Look]) -> list[str]:
    """Those that stand out last, so that they lie on top."""
    return sorted(curves.accuracy, key=lambda name: (seen[name].strong, curves.area(name).mean()))


def deviation(values: Float[np.ndarray, "r b"]) -> Float[np.ndarray, "b"]:
    return values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def _finish(
    axes: Axes,
    figure: Figure,
    curves: Curves,
    means: Mapping[str, np.ndarray],
    seen: Mapping[str, Look],
    alone: bool,
) -> None:
    if not alone:
        axes.set_title(curves.dataset)
    elif len(means) <= LABELLED_AT_THE_END:
        name_the_ends(axes, figure, {name: float(values[-1]) for name, values in means.items()}, seen)
    else:
        legend(figure, {name: look for name, look in seen.items() if name in means})


# One number a strategy


@styled
def differences(
    means: Mapping[str, float], intervals: Mapping[str, tuple[float, float]], ranked: Sequence[str], what: str
) -> Figure:
    """A difference for each strategy with its interval, in points; the best on top."""
    seen = looks(ranked)
    names = sorted(means, key=lambda name: means[name])
    figure = Figure(figsize=(WIDTH, 0.75 + 0.2 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
    for place, name in enumerate(names):
        look, (low, high) = seen[name], intervals[name]
        mark = {**line_style(look), "linewidth": 0.0}
        if np.isfinite([low, high]).all():
            axes.plot([low, high], [place, place], color=look.colour, linewidth=1.4, gid=f"{series(name)}-bar")
        axes.plot([means[name]], [place], gid=f"{series(name)}-dot", **mark)
        axes.text(1.01, place, shown(means[name], low, high), transform=axes.get_yaxis_transform(), va="center",
                  color=SOFT, fontsize=SIZE - 0.5)  # fmt: skip
    rows_of_names(axes, names)
    axes.set_xlabel(what)
    return figure


def shown(mean: float, low: float, high: float) -> str:
    interval = f"  [{low:+.2f}, {high:+.2f}]" if np.isfinite([low, high]).all() else ""
    return f"{mean:+.2f}{interval}".replace("-", "−")


@styled
def pairs(values: Mapping[str, tuple[float, float]], what: tuple[str, str], axis: str) -> Figure:
    """Two values for each name, joined: how far apart they are is what one sees."""
    names = sorted(values, key=lambda name: max(values[name]))
    figure = Figure(figsize=(WIDTH, 0.95 + 0.22 * len(names)), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(names):
        axes.plot(values[name], [place, place], color=FADED, linewidth=1.2, zorder=1)
    for i, (marker, face, label) in enumerate((("o", MARK, what[0]), ("s", PAPER, what[1]))):
        axes.plot([values[name][i] for name in names], range(len(names)), linestyle="", marker=marker, markersize=5.5,
                  markerfacecolor=face, markeredgecolor=MARK, label=label)  # fmt: skip
    rows_of_names(axes, names)
    axes.set_xlabel(axis)
    figure.legend(loc="outside upper left", ncols=2)
    return figure


@styled
def seconds(choosing: Mapping[str, float], training: Mapping[str, float]) -> Figure:
    """Seconds a pick on a logarithmic axis: for choosing, and for the training that this pick pays for."""
    names = sorted(choosing, key=lambda name: -choosing[name])
    figure = Figure(figsize=(WIDTH, 0.95 + 0.25 * len(names)), layout="constrained")
    axes = figure.subplots()
    kinds = ((choosing, 0.19, MARK, None, "choosing"), (training, -0.19, FADED, "////", "training"))
    known = [value for values in (choosing, training) for value in values.values() if value > 0]
    floor = 10 ** (math.floor(math.log10(min(known))) if known else -6)
    for values, offset, colour, hatch, _ in kinds:
        for place, name in enumerate(names):
            value = max(values.get(name, 0.0), floor)
            look: dict[str, Any] = {
                "facecolor": PAPER if hatch else colour,
                "edgecolor": colour,
                "hatch": hatch,
                "linewidth": 0.7,
            }
            axes.barh(place + offset, value - floor, 0.36, left=floor, gid=f"{series(name)}-bar", **look)
            if name in values:
                axes.text(value, place + offset, f" {duration(values[name])}", va="center", fontsize=SIZE - 1.5,
                          color=SOFT)  # fmt: skip
    handles = [
        Patch(facecolor=PAPER if hatch else colour, edgecolor=colour, hatch=hatch, label=label)
        for _, _, colour, hatch, label in kinds
    ]
    axes.set_xscale("log")
    axes.set_xlim(left=floor)
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    rows_of_names(axes, names)
    axes.set_xlabel("time a pick")
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    return figure


# Statistics of all against all


@styled
def penalties(
    names: Sequence[str], matrix: Float[np.ndarray, "s s"], penalty: Float[np.ndarray, "s"], most: float = 1.0
) -> Figure:
    """How often the row's strategy is significantly better than the column's, and the penalty of each below."""
    n = len(names)
    side = min(0.34, 4.2 / n)
    figure = Figure(figsize=(min(WIDTH, 1.9 + side * n + 0.6), 1.3 + side * (n + 1.3)), layout="constrained")
    axes = figure.subplots()
    table = np.vstack([matrix, penalty])
    for (i, j), value in np.ndenumerate(table):
        place = i + 0.3 * (i == n)
        opacity = 0.85 * min(1.0, max(0.0, value / most))
        axes.add_patch(Rectangle((j - 0.5, place - 0.5), 1, 1, facecolor=MARK, alpha=opacity, linewidth=0))
        axes.add_patch(Rectangle((j - 0.5, place - 0.5), 1, 1, fill=False, edgecolor=GRID, linewidth=0.5))
        if n <= CELLS_WITH_NUMBERS and i != j:
            axes.text(j, place, f"{value:.2f}".lstrip("0") if value else "0", ha="center", va="center",
                      fontsize=SIZE - 1, color=INK if value else SOFT)  # fmt: skip
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n + 0.8, -0.5)
    axes.set_xticks(range(n), [brief(name, 24) for name in names], rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks([*range(n), n + 0.3], [*(brief(name, 24) for name in names), "penalty"])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal")
    return figure


@styled
def ranks(mean_ranks: Mapping[str, float], groups: Sequence[Sequence[str]], ranked: Sequence[str]) -> Figure:
    """A critical-difference diagram: mean ranks, 1 is best; a bar joins those that the tests do not tell apart."""
    seen = looks(ranked)
    names = sorted(mean_ranks, key=lambda name: mean_ranks[name])
    n, half = len(names), math.ceil(len(names) / 2)
    bars = [group for group in groups if len(group) > 1]
    depth = 0.22 * (half + 1) + 0.11 * len(bars)
    figure = Figure(figsize=(WIDTH, 0.55 + depth), layout="constrained")
    axes = figure.subplots()
    start = 0.5 + 0.5 * len(bars)
    for i, name in enumerate(names):
        rank, left = mean_ranks[name], i < half
        down = start + (i if left else n - 1 - i) + 0.6
        side = 0.7 if left else n + 0.3
        gid, look = f"{series(name)}-name", seen[name]
        axes.plot([rank, rank, side], [0, down, down], color=look.colour, linewidth=0.9, gid=gid)
        axes.plot([rank], [0], gid=gid, clip_on=False, **{**line_style(look), "linewidth": 0.0})
        words = f"{brief(name)}  {rank:.2f}" if left else f"{rank:.2f}  {brief(name)}"
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


@styled
def class_balance(
    classes: Sequence[str],
    counts: Mapping[str, Int[np.ndarray, "c"]],
    pool: Int[np.ndarray, "c"] | None,
    ranked: Sequence[str],
) -> Figure:
    """The share of each class among what was labelled, a panel for each strategy; the pool's own share as a line."""
    seen = looks(ranked)
    named = len(classes) <= CLASSES_WITH_NAMES
    figure, panels, per_row = small_multiples(len(counts), 1.15, extra=0.5 if named else 0.2)
    for i, (axes, (name, values)) in enumerate(zip(panels, counts.items(), strict=True)):
        # Many classes are sorted: the shape is what can be seen of them then.
        order = np.arange(len(values)) if named else np.argsort(-values, kind="stable")
        share = 100 * values[order] / max(1, values.sum())
        colour = seen[name].colour
        gid = f"{series(name)}-bars"
        if named:
            axes.bar(range(len(share)), share, 0.8, color=colour, linewidth=0, gid=gid)
        else:
            edges = np.arange(-0.5, len(share) + 0.5)
            axes.fill_between(edges, [*share, share[-1]], step="post", color=colour, linewidth=0, gid=gid)
        if pool is not None:
            own = 100 * pool[order] / max(1, pool.sum())
            axes.step(np.arange(-0.5, len(own) + 0.5), [*own, own[-1]], where="post", color=INK, linewidth=0.8)
        title = axes.set_title(brief(name, 26), fontsize=SIZE)
        title.set_gid(f"{series(name)}-name")
        below = i + per_row >= len(counts)
        if named:
            shortened = [word if len(word) <= 12 else word[:11] + "…" for word in classes]
            upright = max(map(len, shortened)) > 2
            axes.set_xticks(range(len(share)), shortened if below else [], rotation=90 if upright else 0)
            axes.tick_params(axis="x", length=0, labelsize=SIZE - 1)
        else:
            axes.set_xticks([])
            axes.set_xlabel(f"{len(classes)} classes, most frequent first" if below else "", fontsize=SIZE - 1)
        axes.set_ylabel("% of labels" if i % per_row == 0 else "")
    return figure


@styled
def pool_map(
    points: Float[np.ndarray, "n 2"], picks: Mapping[str, Float[np.ndarray, "p 2"]], ranked: Sequence[str]
) -> Figure:
    """The pool in two dimensions, a panel for each strategy with what it picked."""
    seen = looks(ranked)
    figure, panels, _ = small_multiples(len(picks), 1.5)
    everything = np.vstack([points, *picks.values()])
    low, high = everything.min(0), everything.max(0)
    edge = 0.04 * np.maximum(high - low, 1e-9)
    for axes, (name, chosen) in zip(panels, picks.items(), strict=True):
        # A cloud of thousands is an image inside the drawing; what was picked stays sharp.
        axes.plot(*points.T, linestyle="", marker=".", markersize=2.1, markeredgewidth=0, color=FADED, alpha=0.7,
                  rasterized=True)  # fmt: skip
        look = seen[name]
        colour = look.colour if look.strong else MARK
        axes.plot(*chosen.T, linestyle="", marker="o", markersize=2.8, color=colour, markeredgecolor=PAPER,
                  markeredgewidth=0.3, gid=f"{series(name)}-dots")  # fmt: skip
        title = axes.set_title(brief(name, 26), fontsize=SIZE)
        title.set_gid(f"{series(name)}-name")
        axes.set_xlim(low[0] - edge[0], high[0] + edge[0])
        axes.set_ylim(low[1] - edge[1], high[1] + edge[1])
        axes.set_xticks([])
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(GRID)
    return figure
