"""How each strategy is drawn: a colour for those who see it, a marker for those who do not, and who stands out.

The colours are those of Okabe and Ito, which can be told apart with any colour vision. Yellow is left out: it fades on
white paper. With many strategies only a few stand out; the others are grey, and their markers still tell them apart.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

from understudy.experiments.results import OFTEN

COLOURS: Final = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", ">", "<", "*", "p", "d", "h", "1", "+")
SIZES: Final = {"P": 1.3, "X": 1.3, "*": 1.6, "d": 1.2, "D": 0.9, "1": 1.6, "+": 1.5}  # some look smaller than they are
FADED: Final = "#8B949E"
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


def looks(ranked: Sequence[str], all_strong: bool = False) -> dict[str, Look]:
    """A look for each strategy; no two are alike in black and white. The best come first in `ranked`."""
    own = [name for name in ranked if name != OFTEN]
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
    for i, name in enumerate(name for name in own if name not in strong):
        out[name] = Look(FADED, markers[i % len(markers)], hollow=True, dashed=i >= len(markers), strong=False)
    if OFTEN in ranked:
        shown = out.get("margin", Look(*KNOWN["margin"]))
        out[OFTEN] = replace(shown, hollow=True, dashed=True)
    return {name: out[name] for name in ranked}


def is_ours(name: str) -> bool:
    return plain(name) in ("understudy", "surrogate") or plain(name).startswith("surrogate_")


def is_variant(name: str) -> bool:
    """Whether it is ours with something changed: an ablation."""
    return is_ours(name) and name not in ("understudy", "surrogate")


def plain(name: str) -> str:
    """The name without its settings and without what is said of it in brackets."""
    return re.sub(r"[ (].*", "", name)


def series(name: str) -> str:
    """A name for all that is drawn of a strategy, by which a page finds it; harmless whatever the strategy's is."""
    return f"series-{crc32(name.encode('utf-8', 'replace')):08x}"
