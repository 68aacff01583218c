"""Formulas in the cells of a CSV file: escaped on export so that no spreadsheet runs them, unescaped on import."""

import re
from typing import Final

# What a spreadsheet may take for the start of a formula, with the full-width forms that some of them treat alike.
FORMULA_STARTS: Final = re.escape("=+-@＝＋－＠")
# In many locales spreadsheets split a line at these too, whatever the quotes: what follows begins another cell.
CELL_ENDS: Final = ";\t\r\n"
BEFORE_FORMULA: Final = re.compile(f"\\A(?='*[{FORMULA_STARTS}\t\r\n])|(?<=[{CELL_ENDS}])(?=[\"']*[{FORMULA_STARTS}])")
ESCAPE: Final = re.compile(f"\\A'(?='*[{FORMULA_STARTS}\t\r\n])|(?<=[{CELL_ENDS}])'(?=[\"']*[{FORMULA_STARTS}])")
SUSPECT_STARTS: Final = frozenset("=+-@＝＋－＠'\t\r\n")
SUSPECT_ANYWHERE: Final = frozenset(CELL_ENDS)


def escape_formulas(cell: str) -> str:
    """The cell with an apostrophe before what would be a formula: spreadsheets show what follows as text.

    Where apostrophes precede a formula already, one more is added, so that `unescape_formulas` always restores the
    original.
    """
    return BEFORE_FORMULA.sub("'", cell) if _is_suspect(cell) else cell


def unescape_formulas(cell: str) -> str:
    """The cell that `escape_formulas` was given."""
    return ESCAPE.sub("", cell) if _is_suspect(cell) else cell


def _is_suspect(cell: str) -> bool:
    """Whether a cell needs a closer look at all; most do not, and this is faster than the expressions."""
    return cell[:1] in SUSPECT_STARTS or not SUSPECT_ANYWHERE.isdisjoint(cell)
