"""The orders that a block of rows was given, of which as few are kept as bring a new one to the same state.

A block that lies elsewhere gets its orders together with the next question. All of them count: a block says by that
number how far it is, so that no order is carried out twice and none is missed, whatever becomes of a message. What is
kept since the last training replaces the block if it is lost: the same orders to the same rows give the same numbers,
to the last bit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

MASKS: Final = {"set_masks", "set_askable", "close", "open", "drop", "undrop"}
STEPS: Final = {"apply", "catch_up", "refresh", "reset_means", "pass_turns"}
MEASURES: Final = {"measure", "look_ahead"}
KEEPING: Final = {"keep_influence", "take_back_influence"}
ANCHORS: Final = {"anchor", "adopt"}
RESTARTS: Final = {"set_turn", "add_class", "extend"}  # of the count of turns
# All that a training makes obsolete.
OF_A_TRAINING: Final = STEPS | MEASURES | KEEPING | ANCHORS | {"add_class", "restore", "set_turn"}


@dataclass(frozen=True, eq=False)
class Order:
    """An order: the name of a method of `PoolRows`, and its arguments, packed."""

    name: str
    parcel: Any
    steps: int = 0  # of "apply": steps of the mean; of "pass_turns": the turns
    covers_all: bool = False  # of "refresh": every row
    once_trained: Any = None  # of "extend": its arguments where a training comes later


class OrderLog:
    """The orders of one block. `sent` of `given` have reached it."""

    def __init__(self) -> None:
        self.kept: list[Order] = []
        self.waiting: list[Order] = []
        self.given = self.sent = 0

    def add(self, order: Order) -> None:
        self.waiting.append(order)
        self.given += 1

    def note_sent(self) -> None:
        """All orders given have been carried out."""
        if self.waiting:
            self.kept = _shorten([*self.kept, *self.waiting])
            self.waiting, self.sent = [], self.given

    @property
    def all(self) -> list[Order]:
        return [*self.kept, *self.waiting]


def _shorten(orders: Iterable[Order]) -> list[Order]:
    """The orders without those that later ones make obsolete: the state of a block is the same."""
    kept: list[Order] = []
    for order in orders:
        name = order.name
        if name in ("set_masks", "lie_at"):
            kept = _without(kept, MASKS if name == "set_masks" else {"lie_at"})
        elif name in ANCHORS:
            kept = [
                Order("extend", each.once_trained, once_trained=each.once_trained) if each.name == "extend" else each
                for each in _without(kept, OF_A_TRAINING)
            ]
        elif name == "measure":
            kept = _without(kept, MEASURES)
        elif name == "reset_means" and kept and kept[-1].name == "refresh" and kept[-1].covers_all:
            kept = _without_steps(kept)
        kept.append(order)
    return kept


def _without(orders: Sequence[Order], names: set[str]) -> list[Order]:
    return [order for order in orders if order.name not in names]


def _without_steps(orders: Sequence[Order]) -> list[Order]:
    """Before all rows are computed anew, by the last of the orders: only the number of turns is left of the steps."""
    *before, last = orders
    keeping = [order.name for order in before if order.name in KEEPING]
    if keeping and keeping[-1] == "keep_influence":  # what was kept is needed yet
        return list(orders)
    restarts = [place for place, order in enumerate(before) if order.name in RESTARTS]
    turns = sum(order.steps for order in before[max(restarts, default=0) :] if order.name in STEPS)
    passed = [Order("pass_turns", None, steps=turns)] if turns else []
    return [*_without(before, STEPS | KEEPING), *passed, last]
