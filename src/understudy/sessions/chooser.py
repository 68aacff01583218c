"""The surrogate, kept in step with the record: what an item is there, it is here.

An event changes the standing of an item, and each change is a *move*. Moves are all that the surrogate is told, so a
surrogate that starts later, from a newer model, catches up by the same moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.surrogate import Surrogate
from understudy.sessions.log.events import Event
from understudy.sessions.record import Record, Standing

UNJUDGED = -1
Newcomers = Callable[[int, int, int], tuple[np.ndarray, np.ndarray]]  # first row, count, classes: features, predictions


@dataclass(frozen=True)
class Move:
    """An item's standing changed. Without an item: so many were `added`, or there is one class more."""

    item: int | None = None
    before: tuple[Standing, int | None] = ("open", None)
    after: tuple[Standing, int | None] = ("open", None)
    judge: bool = True  # whether a label that was told says how often the learner is right
    added: int = 0
    aside: tuple[int, ...] = ()  # of those added, drawn by lot


@dataclass(frozen=True)
class Choice:
    """The item to ask for, and what of influence and of uncertainty it was chosen by, as `last_terms` has it."""

    item: int
    utility: float
    of_influence: float
    of_uncertainty: float


class Chooser:
    """Which item is worth a label most, given everything that was moved so far."""

    def __init__(self, surrogate: Surrogate, newcomers: Newcomers) -> None:
        self.surrogate, self.newcomers = surrogate, newcomers

    def choose(self) -> Choice:
        """The best item, pending from now on. PoolExhausted where none is left."""
        rows, utilities = self.surrogate.propose()
        return Choice(int(rows[0]), float(utilities[0]), *self.surrogate.last_terms)

    def settle(self) -> None:
        """Do now what would be done when somebody waits for the next item."""
        self.surrogate.leaders(1)

    def cancel(self, item: int) -> None:
        """An item that was chosen is not asked for after all."""
        self.surrogate.release([item])

    def follow(self, move: Move) -> None:
        """Bring the surrogate from one standing of an item to the next."""
        if move.added:
            features, probs = self.newcomers(len(self.surrogate), move.added, self.surrogate.n_classes)
            self.surrogate.extend(features, probs).skip(list(move.aside))
        elif move.item is None:
            self.surrogate.add_class()
        elif move.before != move.after:
            self._leave(move.item, move.before[0], move.after[0])
            self._enter(move.item, move.after, move.judge)

    def _leave(self, item: int, before: Standing, after: Standing) -> None:
        surrogate = self.surrogate
        if before == "told":
            surrogate.retract([item])
            if after not in ("pending", "told"):
                surrogate.release([item])
        elif before == "pending" and after != "told":
            surrogate.release([item])
        elif before == "skipped":
            surrogate.unskip([item])
        elif before == "dropped":
            surrogate.undrop([item])

    def _enter(self, item: int, after: tuple[Standing, int | None], judge: bool) -> None:
        surrogate, (standing, label) = self.surrogate, after
        if standing == "told":
            surrogate.tell([item], [label], judge=judge)
        elif standing == "pending":
            surrogate.reserve([item])
        elif standing in ("skipped", "aside"):
            surrogate.skip([item])
        elif standing == "dropped":
            surrogate.drop([item])


def applied(record: Record, event: Event) -> list[Move]:
    """Take an event into account; the moves that come of it."""
    before = {item: record.standing(item) for item in record.touched(event)}
    record.apply(event)
    moves = [
        Move(item, old, now, judge=_is_judged(record, item, old[0], now[0]))
        for item, old in before.items()
        if (now := record.standing(item)) != old
    ]
    if event.kind == "class_added" and len(record.classes) > 1:  # for want of classes a surrogate begins with one
        moves.append(Move())
    if event.kind == "items_added":
        moves.append(Move(added=event.data["count"], aside=tuple(event.data["audit"])))
    return moves


def _is_judged(record: Record, item: int, before: Standing, after: Standing) -> bool:
    """Whether a label says how often the learner is right: the first of an item that it did not know."""
    return after == "told" and before != "told" and record.was_right(item) is not None


def folded(events: Sequence[Event]) -> tuple[Record, dict[str, np.ndarray], list[Move]]:
    """The record, what was known when the last model was trained, and the moves since then."""
    trained = [event for event in events if event.kind == "trained"]
    until = trained[-1].data["until"] if trained else 0
    record, since = Record(), []
    base: dict[str, np.ndarray] = {}
    for event in events:
        if event.seq > until and not base and trained:
            base = ledger_of(record)
        moves = applied(record, event)
        if event.seq > until:
            since += moves
    if not trained:  # the surrogate begins with all items, whenever they came
        since = [move for move in since if not move.added]
    return record, base or ledger_of(record), since


def ledger_of(record: Record) -> dict[str, np.ndarray]:
    """The record as the part of a surrogate's state that says which row is where."""
    n = record.n_items
    told = [item for item in record.effective if record.standing(item)[0] == "told"]
    rights = [record.was_right(item) for item in told]
    flags = {name: np.zeros(n, bool) for name in ("is_trained", "is_skipped", "is_dropped")}
    flags["is_skipped"][list(record.audit_rows)] = True
    for items in (record.skipped, record.unknown):
        flags["is_skipped"][[item for item in items if record.standing(item)[0] == "skipped"]] = True
    flags["is_dropped"][list(record.bad)] = True
    return flags | {
        "answered_rows": np.array(told, np.int64),
        "answered_labels": np.array([record.effective[item] for item in told], np.int64),
        "answered_right": np.array([UNJUDGED if right is None else int(right) for right in rights], np.int8),
        "answered_asked": np.array([item in record.asks for item in told], bool),
        "pending": np.array([item for item in record.leases if record.standing(item)[0] == "pending"], np.int64),
        "credit": np.zeros(2, np.int64),
    }
