"""Cells of a table that a spreadsheet would run as a formula: made harmless on the way out, restored on the way in."""

import re
from typing import Final

# What a spreadsheet may take for the start of a formula, with the wide forms that some of them fold to these.
STARTS: Final = re.escape("=+-@＝＋－＠")
# Where the spreadsheets of half of Europe begin another cell: in a file whose cells end at commas they mind no quotes.
ENDS: Final = ";\t\r\n"
BEFORE_FORMULA: Final = re.compile(f"\\A(?='*[{STARTS}\t\r\n])|(?<=[{ENDS}])(?=[\"']*[{STARTS}])")
NEUTRALISED: Final = re.compile(f"\\A'(?='*[{STARTS}\t\r\n])|(?<=[{ENDS}])'(?=[\"']*[{STARTS}])")
FIRST: Final = frozenset("=+-@＝＋－＠'\t\r\n")
INSIDE: Final = frozenset(ENDS)


def neutral(cell: str) -> str:
    """The cell with an apostrophe before what would be a formula: spreadsheets show what follows as text.

    Apostrophes that stand before a formula already get one more, so that `restored` always gives back what was there.
    """
    return BEFORE_FORMULA.sub("'", cell) if _is_suspect(cell) else cell


def restored(cell: str) -> str:
    """The cell that `neutral` was given."""
    return NEUTRALISED.sub("", cell) if _is_suspect(cell) else cell


def _is_suspect(cell: str) -> bool:
    """Most cells have none of this, and need no closer look."""
    return cell[:1] in FIRST or not INSIDE.isdisjoint(cell)
