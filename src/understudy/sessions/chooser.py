"""The surrogate, kept in step with the record by its moves: which item is worth a label most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from understudy.core.surrogate import Surrogate
from understudy.errors import PoolExhausted, UnderstudyError
from understudy.sessions.record import ItemState, Move

DescribeRows = Callable[[int, int, int], tuple[np.ndarray, np.ndarray | None]]
# first row, count, classes: the features of these rows and the model's predictions for them; None before a model
ALL_ROWS: Final = (None,)


@dataclass(frozen=True)
class Choice:
    """The item to ask for, its utility, and the two terms of it as in `Surrogate.last_terms`."""

    item: int
    utility: float
    of_influence: float
    of_uncertainty: float


class Chooser:
    """Which item is worth a label most, given all moves so far. `describe_rows` is for items that are added."""

    def __init__(self, surrogate: Surrogate, describe_rows: DescribeRows) -> None:
        self.surrogate, self.describe_rows = surrogate, describe_rows

    def choose(self, in_turn: Sequence[np.ndarray | None] = ALL_ROWS) -> Choice:
        """Choose the best item, which is pending from now on. PoolExhausted where none is left.

        `in_turn`: rows to choose among, and others for when none of these is left; None: all rows.
        """
        for among in in_turn:
            try:
                rows, utilities = self.surrogate.propose(among=among)
            except PoolExhausted:
                continue
            return Choice(int(rows[0]), float(utilities[0]), *self.surrogate.last_terms)
        raise PoolExhausted("none of these rows may be asked for; choose among others")

    def preview(self, n: int, in_turn: Sequence[np.ndarray | None] = ALL_ROWS) -> list[int]:
        """Up to n items that may well be chosen next. Nothing changes."""
        for among in in_turn:
            if leading := self.surrogate.leaders(n, among=among).tolist():
                return list(leading)
        return []

    def settle(self) -> None:
        """Bring the surrogate up to date now rather than when somebody waits for the next item."""
        self.surrogate.leaders(1)

    def slow_or_lost(self) -> Sequence[str]:
        """The blocks of rows that hold up whoever waits for an item, a line each. From any thread, without waiting."""
        return self.surrogate.parts.rows.slow_or_lost()

    def cancel(self, item: int) -> None:
        """Take a choice back: the item is not asked for after all."""
        self.surrogate.release([item])

    def follow(self, move: Move) -> None:
        """Bring the surrogate from one state of an item to the next.

        It cannot follow a move that regroups classes: another surrogate is made then.
        """
        if move.regroups:
            raise UnderstudyError("a surrogate cannot regroup its classes; make another")
        if move.added and len(self.surrogate) == move.first:  # a set-up of later may know them already
            self.take_in(*self.describe_rows(move.first, move.added, self.surrogate.n_classes))
        if move.added or move.audit_rows:
            self.surrogate.skip(list(move.audit_rows))
        elif move.item is None:
            self.surrogate.add_class()
        elif move.before != move.after:
            self._leave(move.item, move.before[0], move.after[0])
            self._enter(move.item, move.after, move.judge)

    def take_in(self, features: np.ndarray, probs: np.ndarray | None) -> None:
        """Know more rows, with the model's predictions for them. Which of them are audit items a move says."""
        self.surrogate.extend(features, probs)

    def copy(self) -> "Chooser":
        """A chooser in the same state that goes its own way from now on; this takes milliseconds."""
        return Chooser(self.surrogate.copy(), self.describe_rows)

    def _leave(self, item: int, before: ItemState, after: ItemState) -> None:
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

    def _enter(self, item: int, after: tuple[ItemState, int | None], judge: bool) -> None:
        surrogate, (state, label) = self.surrogate, after
        if state == "told":
            surrogate.tell([item], [label], judge=judge)
        elif state == "pending":
            surrogate.reserve([item])
        elif state in ("skipped", "audit"):
            surrogate.skip([item])
        elif state == "dropped":
            surrogate.drop([item])
