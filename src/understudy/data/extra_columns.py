"""The other columns of a table: what people see beside an item. They are not features, so no model sees them."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any, Final

from understudy.data.columns import choose_columns, quote_names
from understudy.data.items import Stamp
from understudy.data.manifests import pool_rows
from understudy.data.tables import READERS, image_columns, read_table
from understudy.errors import UsageError

MAX_VALUE_LENGTH: Final = 5_000  # characters of a value; a longer one is cut
CUT: Final = "…"
EXTRA: Final = "extra "  # before the name of a column that is only shown, among what columns hold
WITHOUT_COLUMNS: Final = frozenset({".txt"})
WHY_NOT: Final = {
    "text": "is the text itself, which is shown anyway",
    "path": "names the image, which is shown anyway",
    "label": "holds labels, which would answer for whoever labels",
}


@dataclass(frozen=True, eq=False)
class ExtraColumns:
    """Columns of a table. `there` names all that can be shown; `values` has those that were wanted, by identity."""

    there: tuple[str, ...]
    values: Mapping[str, Mapping[str, str]]


def has_columns(path: Path) -> bool:
    """Whether a file is a table with columns."""
    return path.suffix.lower() in READERS and path.suffix.lower() not in WITHOUT_COLUMNS


def stamp_of(path: Path) -> Stamp:
    """What changes when a file changes."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def read_extra_columns(path: Path, named: Mapping[str, str], wanted: Sequence[str]) -> ExtraColumns:
    """Some columns of a table as text, for the items of its pool; an error names the columns there are.

    It costs as much as reading the table once.
    """
    there: list[str] = []

    def choose(names: Sequence[str], given: Mapping[str, str], source: str) -> dict[str, str]:
        used = choose_columns(names, given, source)
        roles = {used[role]: why for role, why in WHY_NOT.items() if role in used}
        unreadable = {*roles, *image_columns(path)}
        there[:] = [name for name in names if name and name not in unreadable]
        _require_columns(wanted, there, roles, source)
        return {**used, **{EXTRA + name: name for name in wanted}}

    table = read_table(path, named, choose)
    rows = pool_rows(table, path.stem, path.parent)
    values = {
        name: {identity: text_of_cell(table.values[EXTRA + name][row]) for identity, row in rows.items()}
        for name in wanted
    }
    return ExtraColumns(tuple(there), values)


def _require_columns(wanted: Sequence[str], there: Sequence[str], roles: Mapping[str, str], source: str) -> None:
    for name in wanted:
        if name not in there:
            why = roles.get(name)
            has = f"it can show {quote_names(there)}" if there else "it has no others"
            raise UsageError(
                f"column {name!r} {why}; {has}" if why else f"{source} has no column {name!r} to show; {has}"
            )


def text_of_cell(value: Any) -> str:
    """A cell as people read it: dates as 2024-01-31, whole numbers without a fraction, what has parts as JSON."""
    if value is None or isinstance(value, bytes):
        return ""
    if isinstance(value, float):
        text = "" if math.isnan(value) else f"{value:.15g}"
    elif isinstance(value, datetime):
        text = value.date().isoformat() if value.time() == time.min else value.isoformat(" ", "seconds")
    elif isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + CUT
