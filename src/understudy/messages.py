"""Pieces of messages to people that many modules need: how to install an extra, a list cut short."""

from collections.abc import Iterable, Sized
from typing import Final

DISTRIBUTION: Final = "understudy-al"  # on PyPI, `understudy` is another project's name


UPGRADE: Final = f"pip install -U {DISTRIBUTION}"


def install_command(extra: str) -> str:
    """The command that installs one of our extras."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def list_some(names: Iterable[object], most: int = 3) -> str:
    """The names with commas between them; of more than `most`, the first ones and how many more there are."""
    every = [str(name) for name in names]
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def count_of(things: int | Sized, noun: str) -> str:
    """So many things, with the noun in its number: "1 item", "2,000 items"."""
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
