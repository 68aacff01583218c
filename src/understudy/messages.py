"""Parts of user messages that many modules need: how to install an extra, a truncated list."""

import re
from collections.abc import Iterable, Sized
from typing import Final

DISTRIBUTION: Final = "understudy-al"  # on PyPI, `understudy` is another project's name


UPGRADE: Final = f"pip install -U {DISTRIBUTION}"
TORCH_BUILDS: Final = "https://download.pytorch.org/whl"  # the official index, with a folder for each build


HOW_TO_EMBED: Final = "`understudy embed PATH --encoder NAME` computes them; then name its folder, PATH.features"


def install_command(extra: str) -> str:
    """The command that installs one of our extras."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def index_of_build(torch_version: str) -> str:
    """What follows `pip install` for the build of this version of torch, 2.13.0+cpu say; nothing for the usual one."""
    build = torch_version.partition("+")[2]
    return f" --index-url {TORCH_BUILDS}/{build}" if re.fullmatch(r"cpu|cu\d+|rocm[\d.]+|xpu", build) else ""


DISK_IS_FULL: Final = "the server's disk is full; make room on it, then send this again"
DISK_FAILED: Final = "the server's disk failed; its terminal says more. Send this again later"


def list_some(names: Iterable[object], most: int = 3, *, total: int | None = None) -> str:
    """The names, separated by commas; beyond `most`, the first ones and how many more there are.

    `total` is the full number, if `names` are only the first of them.
    """
    first, more = _cut(names, most, total)
    return ", ".join(first) + (f" {more}" if more else "")


def list_lines(lines: Iterable[object], most: int = 10) -> str:
    """Indented lines to follow a colon, one each; beyond `most`, the first ones and how many more there are."""
    first, more = _cut(lines, most, None)
    return "".join(f"\n  {line}" for line in [*first, *([more] if more else [])])


def _cut(things: Iterable[object], most: int, total: int | None) -> tuple[list[str], str]:
    every = [str(thing) for thing in things]
    number = len(every) if total is None else total
    shown = every[:most]
    return shown, f"and {number - len(shown):,} more" if number > len(shown) else ""


def reason_of(error: BaseException) -> str:
    """The message of an error in one line; its type if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


def count_of(things: int | Sized, noun: str, plural: str = "") -> str:
    """The count with its noun, singular or plural: "1 item", "2,000 items". `plural` is for irregular nouns."""
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
