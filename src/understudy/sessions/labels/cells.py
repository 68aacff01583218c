"""Cells of a table that a spreadsheet would run as a formula: made harmless on the way out, restored on the way in."""

import re
from typing import Final

# What a spreadsheet may take for the start of a formula, with the wide forms that some of them fold to these.
TRIGGERS: Final = "=+-@\t\r\n＝＋－＠"
FORMULA: Final = re.compile(f"'*[{re.escape(TRIGGERS)}]")
NEUTRALISED: Final = re.compile(f"'+[{re.escape(TRIGGERS)}]")
FIRST: Final = frozenset(TRIGGERS + "'")  # most cells begin with none of these, and need no closer look


def neutral(cell: str) -> str:
    """The cell with an apostrophe before it where it would be a formula: spreadsheets show what follows as text.

    Apostrophes that stand before a formula already get one more, so that `restored` always gives back what was there.
    """
    return f"'{cell}" if cell[:1] in FIRST and FORMULA.match(cell) else cell


def restored(cell: str) -> str:
    """The cell that `neutral` was given."""
    return cell[1:] if NEUTRALISED.match(cell) else cell
