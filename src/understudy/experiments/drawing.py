"""What all figures share: the style, lines and names that can be told apart without colour, and files.

Small type, 300 dots an inch, vectors where it can be. Needs matplotlib, the extra `plot`.
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
from understudy.experiments.styles import COLOURS, FADED, MARK, Look, series
from understudy.experiments.tables import short

WIDTH: Final = 7.0  # inches: two columns of a paper
INK, SOFT, GRID, PAPER = "#1F2328", "#656D76", "#D8DEE4", "#FFFFFF"
NARROW: Final = 3.9  # inches that a telephone shows at the size of the page
DOTS: Final = 300  # an inch, in PNG files
DOTS_INSIDE: Final = 150  # of clouds of points within an SVG
SIZE: Final = 7.5  # points, of the type
SELECTION: Final = " (sel.)"  # where there is little room
LABELLED_AT_THE_END: Final = 26  # so many names fit beside a figure
STYLE: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": SIZE,
    "axes.titlesize": SIZE + 0.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": SIZE,
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
    "text.parse_math": False,  # a dollar in somebody's class name is a dollar
    "legend.frameon": False,
    "legend.fontsize": SIZE,
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
        # A letter that the font lacks is drawn as a box in PNG files, and by the browser's own font elsewhere.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def styled(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """The same function, drawing in the style of all figures and not in that of whoever calls it."""

    @wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        with _style():
            return draw(*args, **kwargs)

    return drawn


# Panels


def grid(n: int, columns: int, height: float, names: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """A figure of n panels with room for a legend below; one panel alone is wide and has its names beside it."""
    columns = min(n, columns)
    rows = math.ceil(n / columns)
    beside = n == 1 and len(names) <= LABELLED_AT_THE_END
    tall = max(height, 0.8 + 0.145 * len(names)) if beside else rows * height + 0.17 * _rows_below(names)
    figure = Figure(figsize=(WIDTH, tall), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[n:]:
        axes.set_visible(False)
    return figure, panels[:n]


def small_multiples(n: int, height: float, extra: float = 0.0) -> tuple[Figure, list[Axes], int]:
    per_row = min(n, 4 if n == 4 or n in (7, 8) or n > 9 else 3)
    rows = math.ceil(n / per_row)
    figure = Figure(figsize=(WIDTH if per_row > 1 else WIDTH / 2, rows * height + extra), layout="constrained")
    panels = list(figure.subplots(rows, per_row, squeeze=False, sharey=True).flat)
    for axes in panels[n:]:
        axes.set_visible(False)
    return figure, panels[:n], per_row


# What is in them


def brief(name: str, longest: int = 32) -> str:
    if len(name) > longest and name.endswith(SELECTION_ONLY):
        return f"{short(name.removesuffix(SELECTION_ONLY), longest - len(SELECTION))}{SELECTION}"
    return short(name, longest)


def line(
    axes: Axes,
    labels: Sequence[int],
    means: np.ndarray,
    name: str,
    look: Look,
    spread: np.ndarray | None = None,
    most: float = math.inf,
) -> None:
    """A curve with its markers and, where it stands out, the band around it, cut off at what is possible."""
    if spread is not None and look.strong and spread.any():
        low, high = means - spread, np.minimum(means + spread, most)
        band = axes.fill_between(labels, low, high, color=look.colour, alpha=0.13, linewidth=0)
        band.set_gid(f"{series(name)}-band")
    order = 3 if look.strong else 2
    (curve,) = axes.plot(labels, means, zorder=order, **line_style(look))
    curve.set_gid(f"{series(name)}-line")


def line_style(look: Look) -> dict[str, Any]:
    return {
        "color": look.colour,
        "marker": look.marker,
        "markersize": look.size,
        "markerfacecolor": PAPER if look.hollow else look.colour,
        "markeredgecolor": look.colour if look.hollow else PAPER,
        "markeredgewidth": 0.7 if look.hollow else 0.4,
        "linewidth": look.width,
        "linestyle": (0, (4, 1.6)) if look.dashed else "-",
    }


def ceiling(axes: Axes, top: float) -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, top + 0.07 * (top - low)))
    axes.axhline(top, color=INK, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
    axes.annotate(
        f"all labels: {top:.1f} %", (0, top), (3, 2.5), xycoords=("axes fraction", "data"), textcoords="offset points",
        fontsize=SIZE - 0.5, color=SOFT,
    )  # fmt: skip


def label_axes(axes: Axes, schedule: Sequence[int], what: str, narrow: bool = False) -> None:
    if in_ratios(schedule):
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks(schedule, 0.17 if narrow else 0.075)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("labels")
    axes.set_ylabel(what)
    axes.margins(x=0.025)


def in_ratios(schedule: Sequence[int]) -> bool:
    """Whether budgets grow by ratios rather than by steps, and are better drawn so."""
    gaps = np.diff(schedule)
    return len(gaps) > 2 and schedule[0] > 0 and bool(gaps[-1] > 6 * gaps[0])


def ticks(schedule: Sequence[int], apart: float) -> list[int]:
    """The budgets that can be written below an axis without touching each other; the last one always."""
    scale = np.log(schedule) if in_ratios(schedule) else np.asarray(schedule, float)
    width = scale[-1] - scale[0]
    kept = [len(schedule) - 1]
    for i in range(len(schedule) - 2, -1, -1):
        if width and scale[kept[-1]] - scale[i] >= apart * width:
            kept.append(i)
    return [schedule[i] for i in reversed(kept)]


def name_the_ends(axes: Axes, figure: Figure, ends: Mapping[str, float], seen: Mapping[str, Look]) -> None:
    """Each curve's name beside its end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    names = sorted(ends, key=lambda name: ends[name])
    height = 72 * (figure.get_figheight() - 0.5)
    wanted = np.array([(ends[name] - low) / (high - low) for name in names])
    for name, at, place in zip(names, wanted, apart(wanted, 1.32 * SIZE / height), strict=True):
        look, gid = seen[name], f"{series(name)}-name"
        where: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        axes.add_line(Line2D([0.985, 1.025], [at, place], color=look.colour, linewidth=0.5, gid=gid, **where))
        key: dict[str, Any] = {**line_style(look), "linewidth": 0.0}
        axes.add_line(Line2D([1.04], [place], gid=gid, **key, **where))
        weight = "bold" if look.strong and len(names) > 8 else "normal"
        colour = INK if look.strong else SOFT
        axes.text(1.058, place, brief(name), va="center", color=colour, fontweight=weight, gid=gid, **where)


def apart(wanted: Float[np.ndarray, "n"], gap: float) -> Float[np.ndarray, "n"]:
    """Places in the same order, at least `gap` from each other, near those wanted, from 0 to 1 if they fit."""
    # Runs that touch become one run around the mean of its members, until none touch.
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


def legend(figure: Figure, seen: Mapping[str, Look]) -> None:
    handles = [Line2D([], [], label=brief(name), **line_style(look)) for name, look in seen.items()]
    drawn = figure.legend(handles=handles, loc="outside lower center", ncols=_columns_below(seen), handlelength=2.6)
    for name, handle, text in zip(seen, drawn.get_lines(), drawn.get_texts(), strict=True):
        handle.set_gid(f"{series(name)}-name")
        text.set_gid(f"{series(name)}-name")


def _columns_below(names: Iterable[str]) -> int:
    lengths = [len(brief(name)) for name in names]
    return max(1, min(len(lengths), int(118 / (max(lengths, default=1) + 7))))


def _rows_below(names: Sequence[str]) -> int:
    return math.ceil(len(names) / _columns_below(names))


def rows_of_names(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [brief(name) for name in names])
    for name, label in zip(names, axes.get_yticklabels(), strict=True):
        label.set_gid(f"{series(name)}-name")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.6, len(names) - 0.4)


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0" if seconds <= 0 else f"{seconds / 1e-9:.3g} ns"


# Files


def written(figure: Figure, stem: Path, svg: str | None = None) -> tuple[Path, Path]:
    """The figure as `stem`.png and `stem`.svg, each whole or not at all.

    Give what `as_svg` drew already, and it is not drawn again.
    """
    files = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")
    with _style(), BytesIO() as file:
        figure.savefig(file, format="png", dpi=DOTS, facecolor=PAPER, metadata={"Software": None})
        write_atomically(files[0], file.getvalue())
    write_atomically(files[1], (as_svg(figure) if svg is None else svg).encode("utf-8", "replace"))
    return files


def as_svg(figure: Figure) -> str:
    with _style(), StringIO() as file:
        figure.savefig(file, format="svg", dpi=DOTS_INSIDE, transparent=True, metadata={"Date": None, "Creator": None})
        return file.getvalue()


def inline(figure: Figure, key: str, title: str, drawn: str | None = None) -> str:
    """The figure as an SVG element of a page: its colours follow the page, its series can be found by their class.

    Give what `as_svg` drew already, and it is not drawn again.
    """
    drawn = as_svg(figure) if drawn is None else drawn
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' id="image\w+"', "", drawn)  # the same cloud in two panels has the same name, and nobody uses it
    # Names by which parts refer to each other must differ between the figures of a page.
    drawn = re.sub(r'\bid="(series-[0-9a-f]{8})-(\w+)"', r'class="series \1 \2"', drawn)
    drawn = re.sub(r'\bid="', f'id="{key}-', drawn)
    drawn = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{key}-", drawn)
    drawn = drawn.replace("xlink:href", "href").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    drawn = drawn.replace(' xmlns="http://www.w3.org/2000/svg"', "")
    for colour, name in PAGE_COLOURS.items():
        drawn = re.sub(rf"(?<=: ){colour}\b", f"var(--{name})", drawn, flags=re.IGNORECASE)
    drawn = re.sub(r"font: ([\d.]+px|bold [\d.]+px|[\w ]*?[\d.]+px)[^;\"]*", _own_type, drawn)
    share = figure.get_figwidth() / WIDTH  # type is of one size in all figures of the page
    return re.sub(
        r"<svg ", f'<svg role="img" aria-label="{_escaped(title)}" style="--share: {share:.3f}" ', drawn, count=1
    )


def _own_type(found: re.Match[str]) -> str:
    """The size and weight of a text; the page has the typeface."""
    size = re.search(r"[\d.]+px", found.group(0))
    weight = "; font-weight: 700" if re.search(r"\b(bold|700)\b", found.group(0)) else ""
    return f"font-size: {size.group(0) if size else '10px'}{weight}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
