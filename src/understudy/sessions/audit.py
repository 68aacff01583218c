"""Audit items, a random sample on which models are scored: which they are, when they are asked, and the scores.

They are never chosen by a strategy nor trained on, so a score on them is unbiased:
docs/accuracy-and-stopping.md. Everything here follows from the seed and from the answers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import Final

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from understudy.errors import UnderstudyError

STREAM: Final = 0x61756469  # keeps these random numbers apart from others of the same seed
LATER_STREAM: Final = 0x61756470  # the same for what is drawn later from items that are there already
NEW_STREAM: Final = 0x6175646E  # the same for items that join a pool
MAX_SHARE: Final = 0.5  # of audit items; beyond it two would have to follow each other
CONFIDENCE: Final = 0.95
ROUNDING: Final = 1e-9  # 0.1 * 70 is a little more than 7


# Which items


def audit_rows(n_items: int, share: float, seed: int, excluded: Collection[int] = frozenset()) -> tuple[int, ...]:
    """A random sample of the rows of the pool that a project begins with, in the order in which they are to be asked.

    `excluded` rows had a label before; the share is of the others, rounded up.
    """
    _require_share(share)
    order = np.random.default_rng([seed, STREAM, 0]).permutation(n_items)
    left = [row for row in order.tolist() if row not in excluded]
    return tuple(left[: ceil(share * len(left) - ROUNDING)])


def audit_rows_among_new(
    n_items: int,
    share: float,
    seed: int,
    excluded: Collection[int] = frozenset(),
    *,
    first_row: int,
    largest_share: float | None = None,
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The audit items among rows that join a pool from `first_row` on, and the turn of each: from 0 to 1, in order.

    Every row is one with the probability `share`, whatever joins along with it: a sample of each handful of new files,
    rounded up, would be most of them. The turn is that of a row which is drawn at random from the whole pool: it comes
    once that share of the earlier audit items were asked. `largest_share` is the largest that the project ever had,
    by which the earlier ones were drawn.
    """
    _require_share(share)
    if not 0 <= first_row <= n_items:
        raise UnderstudyError(f"first_row must be from 0 to {n_items}, the size of the pool; got {first_row}")
    if share == 0:
        return (), ()
    numbers = np.random.default_rng([seed, NEW_STREAM, first_row]).random(n_items - first_row)
    drawn = [(number, row) for row, number in enumerate(numbers.tolist(), first_row) if row not in excluded]
    drawn = sorted(pair for pair in drawn if pair[0] < share)
    scale = max(share, largest_share or 0.0)
    return tuple(row for _, row in drawn), tuple(number / scale for number, _ in drawn)


def more_audit_rows(rows: Sequence[int], count: int, seed: int, drawn_before: int) -> tuple[int, ...]:
    """A random sample of these rows, in the order in which they are to be asked; all of them if `count` is larger.

    For a share that is raised: give the rows that nobody ever labelled. A row that models were trained on cannot
    measure them. `drawn_before` is how many samples there are already: each has random numbers of its own.
    """
    order = np.random.default_rng([seed, LATER_STREAM, drawn_before]).permutation(len(rows))
    return tuple(rows[place] for place in order[:count].tolist())


def next_in_turn(
    draws: Sequence[Sequence[int]],
    asked: Collection[int],
    skipped: Sequence[int] = (),
    turns: Sequence[Sequence[float] | None] = (),
) -> int | None:
    """The audit row to ask next: of the sample that is furthest behind, so that each counts by its share of the pool.

    `draws` has one sample for each time the pool grew or the share was raised. How far one has come is the share of it
    that was asked; where its rows have `turns` of their own, the turn of the next. `asked` are the rows that were asked
    as audit items: answered, refused, or leased now. A row that got its label otherwise, by an import say, is asked in
    its turn all the same: if labels moved the turns, those who label could move the score. `skipped` are at the back of
    the queue, in the order they were skipped; leave out those that are leased again. None: all are answered or refused.
    """
    own = [*turns, *[None] * (len(draws) - len(turns))]
    behind: list[tuple[float, int, int]] = []
    for i, (draw, given) in enumerate(zip(draws, own, strict=True)):
        left = [place for place, row in enumerate(draw) if row not in asked]
        if left:
            reached = 1 - len(left) / len(draw) if given is None else given[left[0]]
            behind.append((reached, i, draw[left[0]]))
    if behind:
        return min(behind)[2]
    return skipped[0] if skipped else None


def counted_rows(draws: Sequence[Sequence[int]], asked: Collection[int], answered: Collection[int]) -> list[int]:
    """The audit rows that a score is made of: those that were asked as audit items and have a label.

    Refused rows (skipped, don't know, bad) have none and are missing; tell people how many. The label of an audit row
    that somebody picked before its turn is a label but not part of the sample, until its turn comes.
    """
    return [row for draw in draws for row in draw if row in asked and row in answered]


# When


def audit_is_due(asked_by_choice: int, asked_by_audit: int, share: float, *, after_audit: bool = False) -> bool:
    """Whether the next question is to be an audit item, so that their share of all questions is `share`, evenly.

    For one in ten these are questions 5, 15, 25, ... Answers count for every later model, so nothing is gained by
    waiting for the first one; but the first few questions go to what makes it. `after_audit`: the last question to
    this person was one, and two in a row never come.
    """
    _require_share(share)
    if after_audit or share == 0:
        return False
    questions = asked_by_choice + asked_by_audit + 1
    return asked_by_audit < floor(share * questions + 0.5 + ROUNDING)


def _require_share(share: float) -> None:
    if not 0 <= share <= MAX_SHARE:
        raise UnderstudyError(f"the audit share must be from 0 to {MAX_SHARE}; got {share}")


# What they say


@dataclass(frozen=True)
class Score:
    """A model on the audit items: how many were right, of how many, and Wilson's interval."""

    right: int
    n: int
    accuracy: float | None  # None: there are no answers yet
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """Two models on the same audit items: right only now, right only before, and the gain with its interval."""

    gained: int
    lost: int
    n: int
    difference: float
    low: float
    high: float


def wilson(right: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The shares p that `right` of `n` do not contradict: (p - right/n)² <= z² p (1 - p) / n. (0, 1) for n = 0."""
    if not 0 <= right <= n:
        raise UnderstudyError(f"right must be from 0 to n; got {right} of {n}")
    if n == 0:
        return 0.0, 1.0
    z = _z(confidence)
    share = right / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # At the ends the bound is exact; rounding must not say otherwise.
    return (0.0 if right == 0 else middle - half), (1.0 if right == n else middle + half)


def score(predictions: Float[np.ndarray, "n c"], labels: Mapping[int, int]) -> Score:
    """Score a model's predictions for the pool on audit rows with these labels.

    A label of a class that the model does not know counts as wrong. Rows that joined the pool after the predictions
    were made have none and are left out.
    """
    hits = _hits(predictions, labels, len(predictions))
    right, n = int(hits.sum()), len(hits)
    return Score(right, n, right / n if n else None, *wilson(right, n))


def change(before: Float[np.ndarray, "n c"], after: Float[np.ndarray, "m b"], labels: Mapping[int, int]) -> Change:
    """What a later model gained on the same audit rows.

    Both meet the same items, so only those count on which they differ. The interval is Wald's with half an item added
    to each of the four cells (right or wrong, before and after), which keeps its promise for few items too.
    """
    rows = min(len(before), len(after))
    was, is_now = _hits(before, labels, rows), _hits(after, labels, rows)
    gained, lost = int((is_now & ~was).sum()), int((was & ~is_now).sum())
    return change_of(gained, lost, len(was))


def change_of(gained: int, lost: int, n: int, confidence: float = CONFIDENCE) -> Change:
    """The same from counts: items right only now, only before, and all of them."""
    if min(gained, lost) < 0 or gained + lost > n:
        raise UnderstudyError(f"{gained} gained and {lost} lost of {n} do not add up; give counts within n")
    middle = (gained - lost) / (n + 2)
    half = _z(confidence) * sqrt(gained + lost + 1 - (gained - lost) ** 2 / (n + 2)) / (n + 2)
    difference = (gained - lost) / n if n else 0.0
    return Change(gained, lost, n, difference, max(-1.0, middle - half), min(1.0, middle + half))


def _hits(predictions: Float[np.ndarray, "n c"], labels: Mapping[int, int], n_rows: int) -> np.ndarray:
    rows = np.array([row for row in sorted(labels) if row < n_rows], dtype=np.int64)
    truth = np.array([labels[row] for row in rows.tolist()], dtype=np.int64)
    return predictions[rows].argmax(1) == truth if len(rows) else np.zeros(0, dtype=bool)


def _z(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise UnderstudyError(f"the confidence must be between 0 and 1, 0.95 for instance; got {confidence}")
    return float(ndtri((1 + confidence) / 2))
