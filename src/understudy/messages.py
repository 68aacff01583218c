"""Pieces of messages to people that many modules need: how to install an extra, a list cut short."""

from collections.abc import Iterable, Sized
from typing import Final

DISTRIBUTION: Final = "understudy-al"  # on PyPI, `understudy` is another project's name


UPGRADE: Final = f"pip install -U {DISTRIBUTION}"


def install_command(extra: str) -> str:
    """The command that installs one of our extras."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def list_some(names: Iterable[object], most: int = 3, *, total: int | None = None) -> str:
    """The names with commas between them; of more than `most`, the first ones and how many more there are.

    `total` is how many there are in all, where `names` are only the first of them.
    """
    first, more = _cut(names, most, total)
    return ", ".join(first) + (f" {more}" if more else "")


def list_lines(lines: Iterable[object], most: int = 10) -> str:
    """What follows a colon: a line each, indented; of more than `most`, the first ones and how many more there are."""
    first, more = _cut(lines, most, None)
    return "".join(f"\n  {line}" for line in [*first, *([more] if more else [])])


def _cut(things: Iterable[object], most: int, total: int | None) -> tuple[list[str], str]:
    every = [str(thing) for thing in things]
    number = len(every) if total is None else total
    shown = every[:most]
    return shown, f"and {number - len(shown):,} more" if number > len(shown) else ""


def reason_of(error: BaseException) -> str:
    """What an error says, in one line; its kind where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def count_of(things: int | Sized, noun: str, plural: str = "") -> str:
    """So many things, with the noun in its number: "1 item", "2,000 items". `plural` is that of an irregular noun."""
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
