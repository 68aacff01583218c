"""How each strategy is drawn: a colour for those who see it, a marker for those who do not, and who stands out.

The colours are those of Okabe and Ito, which can be told apart with any colour vision. Yellow is left out: it fades on
white paper. With many strategies only a few stand out; the others are grey, and their markers still tell them apart.
Grey are also context, whole systems that change training, and those whose curves ended early.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from understudy.experiments.curves import Curves, standing

COLOURS: Final = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", ">", "<", "*", "p", "d", "h", "1", "+")
SIZES: Final = {
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
MARK: Final = "#7B5EA7"  # what is no strategy's: heat maps, bars of time
BESIDE: Final = ("|", "_")  # markers of context
# The same strategy looks the same in every figure of every data set.
KNOWN: Final = {
    "surrogate": ("#D55E00", "o"),
    "understudy": ("#D55E00", ">"),
    "margin": ("#0072B2", "s"),
    "entropy": ("#009E73", "^"),
    "random": ("#555555", "D"),
    "badge": ("#CC79A7", "v"),
    "coreset": ("#E69F00", "P"),
    "typiclust": ("#56B4E9", "X"),
}
ALL_STAND_OUT: Final = 8  # up to so many strategies nobody is grey
ALWAYS: Final = ("understudy", "surrogate", "margin", "random")
RIVALS: Final = 3  # the best of the others stand out too


@dataclass(frozen=True)
class Look:
    """A colour, a marker, whether that is hollow and the line dashed, and whether it stands out."""

    colour: str
    marker: str
    hollow: bool = False
    dashed: bool = False
    strong: bool = True

    @property
    def size(self) -> float:
        return (4.2 if self.strong else 3.2) * SIZES.get(self.marker, 1.0)

    @property
    def width(self) -> float:
        return 1.5 if self.strong else 0.7


def looks(ranked: Sequence[str], all_strong: bool = False, muted: Collection[str] = ()) -> dict[str, Look]:
    """A look for each strategy; no two are alike in black and white. The best come first in `ranked`.

    Besides context and whole systems, those in `muted` are never in colour.
    """
    own = [name for name in ranked if standing(name, ranked) == 0 and name not in muted]
    strong = set(own)
    if len(own) > (len(MARKERS) if all_strong else ALL_STAND_OUT):
        rivals = [name for name in own if name not in ALWAYS and not is_variant(name)]
        strong = {name for name in own if name in ALWAYS} | set(rivals[:RIVALS])
    colours, markers = list(COLOURS), list(MARKERS)
    out: dict[str, Look] = {}
    for name in [name for name in KNOWN if name in strong]:  # they have a right to their own looks
        colour, marker = KNOWN[name]
        out[name] = Look(colour, marker)
        markers.remove(marker)
        if colour in colours:
            colours.remove(colour)
    for i, name in enumerate(name for name in own if name in strong and name not in out):
        out[name] = Look(colours[i % len(colours)] if colours else FADED, markers.pop(0), dashed=i >= len(colours))
    markers = markers or list(MARKERS)
    systems = [name for name in ranked if standing(name, ranked) == 1 and name not in muted]
    faded = [*(name for name in own if name not in strong), *systems, *(name for name in ranked if name in muted)]
    for i, name in enumerate(faded):
        out[name] = Look(FADED, markers[i % len(markers)], hollow=True, dashed=i >= len(markers), strong=False)
    for name, marker in zip((name for name in ranked if standing(name, ranked) == 2), BESIDE, strict=False):
        out[name] = Look(FADED, marker, hollow=True, dashed=True, strong=False)
    return {name: out[name] for name in ranked}


def shared_looks(of: Sequence[Curves], all_strong: bool, ended: Sequence[Curves] = ()) -> dict[str, Look]:
    """One look a strategy for all panels; the best over all of them come first, context last."""
    areas: dict[str, list[float]] = {}
    for curves in of:
        for name in curves.accuracy:
            areas.setdefault(name, []).append(float(curves.area(name).mean()))
    ranked = sorted(areas, key=lambda name: (standing(name, areas), -sum(areas[name]) / len(areas[name])))
    muted = [name for part in ended for name in part.accuracy if name not in areas]
    found = looks([*ranked, *muted], all_strong, muted)
    # Whoever ended early comes before context.
    return {name: found[name] for name in sorted(found, key=lambda name: standing(name, found) == 2)}


def _is_ours(name: str) -> bool:
    return _plain(name) in ("understudy", "surrogate") or _plain(name).startswith("surrogate_")


def is_variant(name: str) -> bool:
    """Whether it is ours with something changed: an ablation."""
    return _is_ours(name) and name not in ("understudy", "surrogate")


def _plain(name: str) -> str:
    """The name without its settings and without what is said of it in brackets."""
    return re.sub(r"[ (].*", "", name)


def series(name: str) -> str:
    """A name for all that is drawn of a strategy, by which a page finds it; harmless whatever the strategy's is."""
    return f"series-{crc32(name.encode('utf-8', 'replace')):08x}"
