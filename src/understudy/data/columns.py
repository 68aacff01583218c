"""Which column of a table holds what: named by the caller, or known by its name."""

from collections.abc import Mapping, Sequence
from typing import Final

from understudy.errors import UsageError

# What a column is called that holds this. Compared without regard to case; the first that is there is taken.
USUAL_NAMES: Final = {
    "path": ("path", "file", "filename", "file_name", "image_path", "image"),
    "text": ("text", "sentence", "content", "document"),
    "label": ("label", "class"),
    "split": ("split",),
    "id": ("id",),
}


def choose_columns(there: Sequence[str], named: Mapping[str, str], source: str) -> dict[str, str]:
    """The columns to use, by what they hold: "path" or "text", and "label", "split", "id" where there are such."""
    for role, column in named.items():
        if role not in USUAL_NAMES:
            raise UsageError(f"columns can be named for {', '.join(USUAL_NAMES)}; got one for {role!r}")
        if column not in there:
            raise UsageError(f"{source} has no column {column!r}; its columns are {quote_names(there)}")
    if "path" in named and "text" in named:
        raise UsageError("items are images or texts; name a column for path or one for text, not for both")
    found = {role: named.get(role) or usual_column(role, there) for role in USUAL_NAMES}
    if "text" in named:
        found["path"] = None
    elif found["path"]:
        found["text"] = None
    if not found["path"] and not found["text"]:
        raise UsageError(
            f"{source} has no column of paths ({', '.join(USUAL_NAMES['path'])}) or texts "
            f"({', '.join(USUAL_NAMES['text'])}); "
            f"its columns are {quote_names(there)}: name one, as in {column_example('text', 'body')}. "
            "Columns of numbers are read from an .npz with X and y, or in Python from a frame"
        )
    return {role: column for role, column in found.items() if column}


def usual_column(role: str, there: Sequence[str]) -> str | None:
    """The column that by its name holds this."""
    lower = {name.strip().lower(): name for name in reversed(there)}
    return next((lower[name] for name in USUAL_NAMES[role] if name in lower), None)


def column_example(role: str, column: str) -> str:
    """How a column is named, in Python and on the command line."""
    return f"columns={{{role!r}: {column!r}}} or --columns {role}={column}"


def parse_columns(text: str) -> dict[str, str]:
    """Columns as they are given on the command line: text=body,label=topic."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(role.strip() and column.strip() for role, _, column in pairs):
        raise UsageError(f"columns are given as text=body,label=topic; got {text!r}")
    return {role.strip(): column.strip() for role, _, column in pairs}


def quote_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
