"""The status of every row (asked, answered, skipped, dropped) and the arrays it is saved as. No mathematics."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from understudy.errors import PoolExhausted, UnderstudyError

LEDGER_KEYS: Final = frozenset(
    {"answered_rows", "answered_labels", "answered_right", "answered_asked", "pending", "credit"}
    | {"is_trained", "is_skipped", "is_dropped"}
)  # the names of its arrays in a saved state
UNJUDGED: Final = -1  # in `answered_right`


@dataclass(frozen=True)
class Answer:
    label: int
    was_right: bool | None  # the learner's prediction; None if there was no learner yet
    was_asked: bool  # the row was pending, and becomes pending again if the answer is retracted


class Ledger:
    """What has happened to the rows of one pool; it alone decides which may be asked for.

    Dicts keep the order in which things happened.
    """

    def __init__(self, n: int) -> None:
        self.answers: dict[int, Answer] = {}
        self.pending: dict[int, None] = {}
        self.credit = (0, 0)  # right, judged: counts carried over from elsewhere (see `Surrogate.credit`)
        self.is_trained = np.zeros(n, dtype=bool)
        self.is_skipped = np.zeros(n, dtype=bool)
        self.is_dropped = np.zeros(n, dtype=bool)

    def __len__(self) -> int:
        return len(self.is_trained)

    @classmethod
    def from_arrays(cls, saved: Mapping[str, Any]) -> "Ledger":
        """The ledger that `to_arrays` wrote; other arrays of a saved state are left alone."""
        ledger = cls(len(saved["is_trained"]))
        parts = (np.asarray(saved[f"answered_{part}"]).tolist() for part in ("rows", "labels", "right", "asked"))
        for row, label, right, asked in zip(*parts, strict=True):
            ledger.answers[row] = Answer(label, None if right == UNJUDGED else bool(right), asked)
        ledger.pending = dict.fromkeys(np.asarray(saved["pending"]).tolist())
        if "credit" in saved:  # absent from states of the first format
            right, judged = np.asarray(saved["credit"]).tolist()
            ledger.credit = right, judged
        ledger.is_trained, ledger.is_skipped, ledger.is_dropped = (
            np.array(saved[name]) for name in ("is_trained", "is_skipped", "is_dropped")
        )
        return ledger

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays under the names of `LEDGER_KEYS`. The three masks are the ledger's own, not copies."""
        answers = self.answers.values()
        rights = [UNJUDGED if answer.was_right is None else int(answer.was_right) for answer in answers]
        return {
            "answered_rows": np.array(list(self.answers), dtype=np.int64),
            "answered_labels": np.array([answer.label for answer in answers], dtype=np.int64),
            "answered_right": np.array(rights, dtype=np.int8),
            "answered_asked": np.array([answer.was_asked for answer in answers], dtype=bool),
            "pending": np.array(list(self.pending), dtype=np.int64),
            "credit": np.array(self.credit, dtype=np.int64),
            "is_trained": self.is_trained,
            "is_skipped": self.is_skipped,
            "is_dropped": self.is_dropped,
        }

    def extend(self, n: int) -> None:
        more = np.zeros(n, dtype=bool)
        self.is_trained, self.is_skipped, self.is_dropped = (
            np.concatenate([flags, more]) for flags in (self.is_trained, self.is_skipped, self.is_dropped)
        )

    def is_labelled(self, row: int) -> bool:
        return row in self.answers or bool(self.is_trained[row])

    def is_open(self, row: int) -> bool:
        """Still to be predicted: neither labelled nor pending nor dropped."""
        return not (self.is_labelled(row) or row in self.pending or self.is_dropped[row])

    def is_askable(self, row: int) -> bool:
        return self.is_open(row) and not self.is_skipped[row]

    def labelled_mask(self) -> np.ndarray:
        mask = self.is_trained.copy()
        mask[list(self.answers)] = True
        return mask

    def open_mask(self) -> np.ndarray:
        mask = ~(self.labelled_mask() | self.is_dropped)
        mask[list(self.pending)] = False
        return mask

    def askable_mask(self) -> np.ndarray:
        return self.open_mask() & ~self.is_skipped

    def masks(self, expected: Collection[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which rows are open, askable, in the pool: the masks that `Rows` keeps on its device.

        `expected` are the pending rows that the posterior accounts for. The others still count as open.
        """
        is_open = self.open_mask()
        is_askable = is_open & ~self.is_skipped
        is_open[[row for row in self.pending if row not in expected]] = True
        return is_open, is_askable, ~self.is_dropped

    def accuracy(self) -> tuple[int, int]:
        """How many predictions were right, and how many were judged."""
        judged = [answer.was_right for answer in self.answers.values() if answer.was_right is not None]
        return sum(judged) + self.credit[0], len(judged) + self.credit[1]

    # -- what is not allowed ------------------------------------------------------------------------------

    def require_tellable(self, rows: Iterable[int]) -> None:
        for row in rows:
            if row in self.answers:
                raise UnderstudyError(
                    f"row {row} is already labelled as class {self.answers[row].label}; retract it first to change it"
                )
            if self.is_trained[row]:
                raise UnderstudyError(
                    f"row {row} is one the learner was trained on, so its label is known; "
                    "leave it out, or tell its label before anchoring"
                )
            if self.is_dropped[row]:
                raise UnderstudyError(f"row {row} was dropped from the pool; undrop() it before telling its label")

    def require_left(self, n: int, among: np.ndarray | None = None) -> int:
        """n, if so many rows may be asked for, all in all or of those that the mask `among` names."""
        askable = self.askable_mask()
        left = int(askable.sum() if among is None else (askable & among).sum())
        if n > left:
            where = "" if among is None else f" among the {int(among.sum())} rows given"
            way_out = "ask for fewer or add items" if among is None else "ask for fewer or among others"
            raise PoolExhausted(f"asked for {n} rows but only {left} are left to ask{where}; {way_out}")
        return n

    def require_told(self, rows: Iterable[int]) -> None:
        for row in rows:
            if row not in self.answers:
                raise UnderstudyError(f"row {row} has no answer to retract; rows with answers: {len(self.answers)}")

    def last_answers(self, n: int) -> list[int]:
        if n > len(self.answers):
            raise UnderstudyError(f"cannot undo {n} answers: only {len(self.answers)} were given; undo fewer")
        return list(self.answers)[::-1][:n]
