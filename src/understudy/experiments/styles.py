"""How each strategy is drawn: a colour, a marker that works without colour, and which strategies are highlighted.

The colours are those of Okabe and Ito, which are safe for colour-blind readers. Yellow is left out: it fades on
white paper. With many strategies only a few are highlighted; the others are grey, and differ by their markers.
Context, whole systems that change training, and curves that ended early are grey, too.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from understudy.experiments.curves import Curves, Role, role_of

COLOURS: Final = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", ">", "<", "*", "p", "d", "h", "1", "+")
MARKER_SIZES: Final = {
    "P": 1.3,
    "X": 1.3,
    "*": 1.6,
    "d": 1.2,
    "D": 0.9,
    "1": 1.6,
    "+": 1.5,
    "|": 1.6,
}  # some look smaller than they are
FADED: Final = "#8B949E"
MARK: Final = "#7B5EA7"  # for heat maps and bars of time, which belong to no strategy
CONTEXT_MARKERS: Final = ("|", "_")  # of the controls
# The same strategy looks the same in every figure of every data set.
KNOWN_STYLES: Final = {
    "surrogate": ("#D55E00", "o"),
    "understudy": ("#D55E00", ">"),
    "margin": ("#0072B2", "s"),
    "entropy": ("#009E73", "^"),
    "random": ("#555555", "D"),
    "badge": ("#CC79A7", "v"),
    "coreset": ("#E69F00", "P"),
    "typiclust": ("#56B4E9", "X"),
}
MAX_ALL_STRONG: Final = 8  # strategies; with more, some are grey
ALWAYS_STRONG: Final = ("understudy", "surrogate", "margin", "random")
STRONG_RIVALS: Final = 3  # how many of the others, best first, are highlighted too


@dataclass(frozen=True)
class Style:
    """A colour, a marker, whether it is hollow and the line dashed, and whether it is highlighted."""

    colour: str
    marker: str
    hollow: bool = False
    dashed: bool = False
    strong: bool = True

    @property
    def size(self) -> float:
        return (4.2 if self.strong else 3.2) * MARKER_SIZES.get(self.marker, 1.0)

    @property
    def width(self) -> float:
        return 1.5 if self.strong else 0.7


def assign_styles(ranked: Sequence[str], all_strong: bool = False, muted: Collection[str] = ()) -> dict[str, Style]:
    """A style for each strategy; all differ in black and white. The best come first in `ranked`.

    Besides context and whole systems, those in `muted` are always grey.
    """
    own = [name for name in ranked if role_of(name, ranked) is Role.CONTESTANT and name not in muted]
    strong = set(own)
    if len(own) > (len(MARKERS) if all_strong else MAX_ALL_STRONG):
        rivals = [name for name in own if name not in ALWAYS_STRONG and not is_variant(name)]
        strong = {name for name in own if name in ALWAYS_STRONG} | set(rivals[:STRONG_RIVALS])
    colours, markers = list(COLOURS), list(MARKERS)
    out: dict[str, Style] = {}
    for name in [name for name in KNOWN_STYLES if name in strong]:  # they keep their own style
        colour, marker = KNOWN_STYLES[name]
        out[name] = Style(colour, marker)
        markers.remove(marker)
        if colour in colours:
            colours.remove(colour)
    for i, name in enumerate(name for name in own if name in strong and name not in out):
        out[name] = Style(colours[i % len(colours)] if colours else FADED, markers.pop(0), dashed=i >= len(colours))
    markers = markers or list(MARKERS)
    systems = [name for name in ranked if role_of(name, ranked) is Role.SYSTEM and name not in muted]
    faded = [*(name for name in own if name not in strong), *systems, *(name for name in ranked if name in muted)]
    for i, name in enumerate(faded):
        out[name] = Style(FADED, markers[i % len(markers)], hollow=True, dashed=i >= len(markers), strong=False)
    for name, marker in zip(
        (name for name in ranked if role_of(name, ranked) is Role.CONTROL), CONTEXT_MARKERS, strict=False
    ):
        out[name] = Style(FADED, marker, hollow=True, dashed=True, strong=False)
    return {name: out[name] for name in ranked}


def shared_styles(of: Sequence[Curves], all_strong: bool, ended: Sequence[Curves] = ()) -> dict[str, Style]:
    """One style for each strategy in all panels; the best over all of them come first, context last."""
    areas: dict[str, list[float]] = {}
    for curves in of:
        for name in curves.values:
            areas.setdefault(name, []).append(float(curves.upwards(curves.area(name)).mean()))
    ranked = sorted(  # a mean over fewer sets is of other sets, and no place before the rest
        areas, key=lambda name: (role_of(name, areas), -len(areas[name]), -sum(areas[name]) / len(areas[name]))
    )
    muted = [name for part in ended for name in part.values if name not in areas]
    found = assign_styles([*ranked, *muted], all_strong, muted)
    # Those that ended early come before the controls.
    return {name: found[name] for name in sorted(found, key=lambda name: role_of(name, found) is Role.CONTROL)}


def _is_ours(name: str) -> bool:
    return _base_name(name) in ("understudy", "surrogate") or _base_name(name).startswith("surrogate_")


def is_variant(name: str) -> bool:
    """Whether it is an ablation of our own method."""
    return _is_ours(name) and name not in ("understudy", "surrogate")


def _base_name(name: str) -> str:
    """The name without its settings and without any remark in parentheses."""
    return re.sub(r"[ (].*", "", name)


def series_class(name: str) -> str:
    """The CSS class of everything drawn for a strategy; safe whatever characters its name has."""
    return f"series-{crc32(name.encode('utf-8', 'replace')):08x}"


def grows_by_ratios(schedule: Sequence[int]) -> bool:
    """Whether budgets grow by ratios rather than by steps, and suit a log scale."""
    gaps = np.diff(schedule)
    return len(gaps) > 2 and schedule[0] > 0 and bool(gaps[-1] > 6 * gaps[0])
