"""What all figures share: the style, lines and names that are distinguishable without colour, and files.

Small type, 300 dots per inch, vector graphics where possible. Needs matplotlib, the extra `plot`.
"""

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from io import BytesIO, StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, ParamSpec

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from understudy.data.files import write_atomically
from understudy.experiments.curves import SELECTION_ONLY
from understudy.experiments.styles import COLOURS, FADED, MARK, Style, grows_by_ratios, series_class
from understudy.experiments.tables import shorten

PAGE_INCHES: Final = 7.0  # inches: two columns of a paper
INK, SOFT, GRID, PAPER = "#1F2328", "#656D76", "#D8DEE4", "#FFFFFF"
PHONE_INCHES: Final = 3.9  # inches that fit a phone screen at the size of the page
DOTS_PER_INCH: Final = 300  # in PNG files
DOTS_PER_INCH_INSIDE: Final = 150  # of scatter plots rasterised within an SVG
TYPE_POINTS: Final = 7.5  # font size
SHORT_SELECTION_ONLY: Final = " (sel.)"  # where space is tight
MAX_NAMES_BESIDE: Final = 26  # that fit beside a figure
STYLE: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": TYPE_POINTS,
    "axes.titlesize": TYPE_POINTS + 0.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": TYPE_POINTS,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a class name is just that
    "legend.frameon": False,
    "legend.fontsize": TYPE_POINTS,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "understudy",  # the same figure is the same file
    "figure.constrained_layout.w_pad": 0.03,
}
PAGE_COLOURS: Final = {
    INK: "ink",
    SOFT: "soft",
    GRID: "grid",
    PAPER: "paper",
    FADED: "faded",
    MARK: "mark",
    **{colour: f"colour-{i}" for i, colour in enumerate(COLOURS)},
}

Arguments = ParamSpec("Arguments")


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A character missing from the font becomes a box in PNG files; elsewhere the browser substitutes a font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def in_house_style(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Decorator: draw in the common style of all figures, whatever the caller's matplotlib settings."""

    @wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        with _style():
            return draw(*args, **kwargs)

    return drawn


# Panels


def make_panels(n: int, columns: int, height: float, names: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """A figure of n panels with space for a legend below; a single panel is wide and has its names beside it."""
    columns = min(n, columns)
    rows = math.ceil(n / columns)
    beside = n == 1 and len(names) <= MAX_NAMES_BESIDE
    tall = max(height, 0.8 + 0.145 * len(names)) if beside else rows * height + 0.17 * _rows_below(names)
    figure = Figure(figsize=(PAGE_INCHES, tall), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[n:]:
        axes.set_visible(False)
    return figure, panels[:n]


def make_small_panels(n: int, height: float, extra: float = 0.0) -> tuple[Figure, list[Axes], int]:
    per_row = min(n, 4 if n == 4 or n in (7, 8) or n > 9 else 3)
    rows = math.ceil(n / per_row)
    figure = Figure(
        figsize=(PAGE_INCHES if per_row > 1 else PAGE_INCHES / 2, rows * height + extra), layout="constrained"
    )
    panels = list(figure.subplots(rows, per_row, squeeze=False, sharey=True).flat)
    for axes in panels[n:]:
        axes.set_visible(False)
    return figure, panels[:n], per_row


# What is in them


def short_label(name: str, longest: int = 32) -> str:
    if len(name) > longest and name.endswith(SELECTION_ONLY):
        return (
            f"{shorten(name.removesuffix(SELECTION_ONLY), longest - len(SHORT_SELECTION_ONLY))}{SHORT_SELECTION_ONLY}"
        )
    return shorten(name, longest)


def draw_curve(
    axes: Axes,
    labels: Sequence[int],
    means: np.ndarray,
    name: str,
    style: Style,
    spread: np.ndarray | None = None,
    most: float = math.inf,
) -> None:
    """A curve with its markers and, if highlighted, the band around it, clipped to possible values."""
    if spread is not None and style.strong and spread.any():
        low, high = means - spread, np.minimum(means + spread, most)
        band = axes.fill_between(labels, low, high, color=style.colour, alpha=0.13, linewidth=0)
        band.set_gid(f"{series_class(name)}-band")
    order = 3 if style.strong else 2
    (curve,) = axes.plot(labels, means, zorder=order, **line_options(style))
    curve.set_gid(f"{series_class(name)}-line")


def line_options(style: Style) -> dict[str, Any]:
    return {
        "color": style.colour,
        "marker": style.marker,
        "markersize": style.size,
        "markerfacecolor": PAPER if style.hollow else style.colour,
        "markeredgecolor": style.colour if style.hollow else PAPER,
        "markeredgewidth": 0.7 if style.hollow else 0.4,
        "linewidth": style.width,
        "linestyle": (0, (4, 1.6)) if style.dashed else "-",
    }


def draw_ceiling(axes: Axes, top: float, text: str | None = None) -> None:
    """A dashed line where the learner with all labels ends; `text` is its value, in % if not given."""
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, top - 0.07 * (high - top)), max(high, top + 0.07 * (top - low)))
    axes.axhline(top, color=INK, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
    label = f"all labels: {text or f'{top:.1f} %'}"
    axes.annotate(
        label, (0, top), (3, 2.5), xycoords=("axes fraction", "data"), textcoords="offset points",
        fontsize=TYPE_POINTS - 0.5, color=SOFT,
    )  # fmt: skip


def label_axes(axes: Axes, schedule: Sequence[int], what: str, narrow: bool = False) -> None:
    if grows_by_ratios(schedule):
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(choose_ticks(schedule, 0.17 if narrow else 0.075)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("labels")
    axes.set_ylabel(what)
    axes.margins(x=0.025)


def choose_ticks(schedule: Sequence[int], move_apart: float) -> list[int]:
    """The budgets that fit below an axis without overlapping; always including the last one."""
    scale = np.log(schedule) if grows_by_ratios(schedule) else np.asarray(schedule, float)
    width = scale[-1] - scale[0]
    kept = [len(schedule) - 1]
    for i in range(len(schedule) - 2, -1, -1):
        if width and scale[kept[-1]] - scale[i] >= move_apart * width:
            kept.append(i)
    return [schedule[i] for i in reversed(kept)]


def name_the_ends(axes: Axes, figure: Figure, ends: Mapping[str, float], styles: Mapping[str, Style]) -> None:
    """Each curve's name beside its end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    names = sorted(ends, key=lambda name: ends[name])
    height = 72 * (figure.get_figheight() - 0.5)
    wanted = np.array([(ends[name] - low) / (high - low) for name in names])
    for name, at, place in zip(names, wanted, move_apart(wanted, 1.32 * TYPE_POINTS / height), strict=True):
        style, gid = styles[name], f"{series_class(name)}-name"
        where: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        axes.add_line(Line2D([0.985, 1.025], [at, place], color=style.colour, linewidth=0.5, gid=gid, **where))
        key: dict[str, Any] = {**line_options(style), "linewidth": 0.0}
        axes.add_line(Line2D([1.04], [place], gid=gid, **key, **where))
        weight = "bold" if style.strong and len(names) > 8 else "normal"
        colour = INK if style.strong else SOFT
        axes.text(1.058, place, short_label(name), va="center", color=colour, fontweight=weight, gid=gid, **where)


def move_apart(wanted: Float[np.ndarray, "n"], gap: float) -> Float[np.ndarray, "n"]:
    """Positions in the same order, at least `gap` apart, close to those wanted, within 0 to 1 if they fit."""
    # Runs that touch are merged around the mean of their members, until none touch.
    runs = [[i] for i in range(len(wanted))]

    def first(run: list[int]) -> float:
        length = gap * (len(run) - 1)
        return float(np.clip(np.mean(wanted[run]) - length / 2, 0, max(0, 1 - length)))

    merged = True
    while merged:
        merged = False
        for left, right in pairwise(runs):
            if first(right) < first(left) + gap * len(left) - 1e-12:
                left.extend(right)
                runs.remove(right)
                merged = True
                break
    return np.array([first(run) + gap * i for run in runs for i in range(len(run))])


def draw_legend(figure: Figure, styles: Mapping[str, Style]) -> None:
    handles = [Line2D([], [], label=short_label(name), **line_options(style)) for name, style in styles.items()]
    drawn = figure.legend(handles=handles, loc="outside lower center", ncols=_columns_below(styles), handlelength=2.6)
    for name, handle, text in zip(styles, drawn.get_lines(), drawn.get_texts(), strict=True):
        handle.set_gid(f"{series_class(name)}-name")
        text.set_gid(f"{series_class(name)}-name")


def _columns_below(names: Iterable[str]) -> int:
    lengths = [len(short_label(name)) for name in names]
    return max(1, min(len(lengths), int(118 / (max(lengths, default=1) + 7))))


def _rows_below(names: Sequence[str]) -> int:
    return math.ceil(len(names) / _columns_below(names))


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [short_label(name) for name in names])
    for name, label in zip(names, axes.get_yticklabels(), strict=True):
        label.set_gid(f"{series_class(name)}-name")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.6, len(names) - 0.4)


def duration_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0" if seconds <= 0 else f"{seconds / 1e-9:.3g} ns"


# Files


def save_figure(figure: Figure, stem: Path, svg: str | None = None) -> tuple[Path, Path]:
    """Write the figure to `stem`.png and `stem`.svg, each atomically.

    Pass the output of `as_svg` to avoid drawing it again.
    """
    files = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")
    with _style(), BytesIO() as file:
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH, facecolor=PAPER, metadata={"Software": None})
        write_atomically(files[0], file.getvalue())
    write_atomically(files[1], (as_svg(figure) if svg is None else svg).encode("utf-8", "replace"))
    return files


def as_svg(figure: Figure) -> str:
    with _style(), StringIO() as file:
        figure.savefig(
            file, format="svg", dpi=DOTS_PER_INCH_INSIDE, transparent=True, metadata={"Date": None, "Creator": None}
        )
        return file.getvalue()


def inline_svg(figure: Figure, key: str, title: str, drawn: str | None = None) -> str:
    """The figure as an SVG element of a page: its colours follow the page, and its series are marked by CSS classes.

    Pass the output of `as_svg` to avoid drawing it again.
    """
    drawn = as_svg(figure) if drawn is None else drawn
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' id="image\w+"', "", drawn)  # the same scatter plot in two panels has the same id, which is unused
    # The ids within a figure must be unique on the page.
    drawn = re.sub(r'\bid="(series-[0-9a-f]{8})-(\w+)"', r'class="series \1 \2"', drawn)
    drawn = re.sub(r'\bid="', f'id="{key}-', drawn)
    drawn = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{key}-", drawn)
    drawn = drawn.replace("xlink:href", "href").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    drawn = drawn.replace(' xmlns="http://www.w3.org/2000/svg"', "")
    for colour, name in PAGE_COLOURS.items():
        drawn = re.sub(rf"(?<=: ){colour}\b", f"var(--{name})", drawn, flags=re.IGNORECASE)
    drawn = re.sub(r"font: ([\d.]+px|bold [\d.]+px|[\w ]*?[\d.]+px)[^;\"]*", _font_style, drawn)
    share = figure.get_figwidth() / PAGE_INCHES  # the font size is the same in all figures of the page
    return re.sub(
        r"<svg ", f'<svg role="img" aria-label="{_escape(title)}" style="--share: {share:.3f}" ', drawn, count=1
    )


def _font_style(found: re.Match[str]) -> str:
    """The size and weight of a text; the page sets the typeface."""
    size = re.search(r"[\d.]+px", found.group(0))
    weight = "; font-weight: 700" if re.search(r"\b(bold|700)\b", found.group(0)) else ""
    return f"font-size: {size.group(0) if size else '10px'}{weight}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
