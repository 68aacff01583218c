"""Faults of items, collected: a run over a million items does not end at the first broken one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of, list_lines

OnError = Literal["skip", "fail"]

MAX_LISTED: Final = 10  # faults named in one message; the rest are counted


@dataclass(frozen=True)
class Fault:
    """One item, what is wrong with it, and what to do. `used`: the item is in the pool all the same."""

    item: str
    problem: str
    remedy: str
    used: bool = False

    def __str__(self) -> str:
        return f"{self.item}: {self.problem}; {self.remedy}"


class ItemFault(UnderstudyError):
    """An item that cannot be used."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class FaultsFound(UnderstudyError):
    """Items that cannot be used, all of them, where the caller wanted none."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{count_of(faults, 'item')} cannot be used:{list_faults(faults)}")
        self.faults = tuple(faults)


def settle(faults: Iterable[Fault], on_error: OnError) -> tuple[Fault, ...]:
    """All faults; FaultsFound if some items cannot be used and `on_error` is "fail"."""
    found = tuple(faults)
    unusable = [fault for fault in found if not fault.used]
    if on_error == "fail" and unusable:
        raise FaultsFound(unusable)
    return found


def check_on_error(on_error: str) -> OnError:
    if on_error not in get_args(OnError):
        raise UsageError(f"on_error must be 'skip' or 'fail'; got {on_error!r}")
    return on_error  # type: ignore[return-value]


def list_faults(faults: Sequence[Fault]) -> str:
    """What follows a colon: the first few faults in a line each and how many more there are, or the only one."""
    return list_lines(faults, MAX_LISTED) if len(faults) > 1 else f" {faults[0]}"
