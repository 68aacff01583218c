"""The orders that a block of rows was given, of which as few are kept as bring a new one to the same state.

A block that lies elsewhere gets its orders together with the next question. All of them count: a block says by that
number how far it is, so that no order is carried out twice and none is missed, whatever becomes of a message. What is
kept since the last training replaces the block if it is lost: the same orders to the same rows give the same numbers,
to the last bit.
"""

from collections.abc import Iterable, Iterator, Sequence
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
        self.kept = _Kept()
        self.waiting: list[Order] = []
        self.given = self.sent = 0

    def copy(self) -> "OrderLog":
        """The same orders, for a copy of the block."""
        made = OrderLog()
        made.kept, made.waiting = self.kept.copy(), list(self.waiting)
        made.given, made.sent = self.given, self.sent
        return made

    def add(self, order: Order) -> None:
        self.waiting.append(order)
        self.given += 1

    def note_sent(self) -> None:
        """All orders given have been carried out."""
        for order in self.waiting:
            self.kept.add(order)
        self.waiting, self.sent = [], self.given

    @property
    def all(self) -> list[Order]:
        return [*self.kept, *self.waiting]


class _Kept:
    """Orders without those that later ones make obsolete: the state of a block is the same.

    What every label brings is added without a look at all the others.
    """

    def __init__(self) -> None:
        self.orders: dict[int, Order] = {}  # in their order
        self.measures: list[int] = []  # which of them measure
        self.added = 0

    def copy(self) -> "_Kept":
        made = _Kept()
        made.orders, made.measures, made.added = dict(self.orders), list(self.measures), self.added
        return made

    def __iter__(self) -> Iterator[Order]:
        return iter(self.orders.values())

    def __len__(self) -> int:
        return len(self.orders)

    def add(self, order: Order) -> None:
        name = order.name
        if name in ("set_masks", "lie_at"):
            self._replace(_without(self, MASKS if name == "set_masks" else {"lie_at"}))
        elif name in ANCHORS:
            self._replace(
                Order("extend", each.once_trained, once_trained=each.once_trained) if each.name == "extend" else each
                for each in _without(self, OF_A_TRAINING)
            )
        elif name == "measure":
            for place in self.measures:
                del self.orders[place]
            self.measures = []
        elif name == "reset_means" and self._has_just_refreshed():
            self._replace(_without_steps(list(self)))
        self._append(order)

    def _has_just_refreshed(self) -> bool:
        last = next(reversed(self.orders.values()), None)
        return last is not None and last.name == "refresh" and last.covers_all

    def _replace(self, orders: Iterable[Order]) -> None:
        left = list(orders)
        self.orders, self.measures = {}, []
        for order in left:
            self._append(order)

    def _append(self, order: Order) -> None:
        if order.name in MEASURES:
            self.measures.append(self.added)
        self.orders[self.added] = order
        self.added += 1


def _without(orders: Iterable[Order], names: set[str]) -> list[Order]:
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
