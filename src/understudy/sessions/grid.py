"""How many likely items of a class may be confirmed at once: as many as confidences and audit items support.

Of the items that are offered with a promise, at least the promised share should be right. Two things must hold for it:
their mean calibrated confidence reaches the promise, and so does the lower bound of the share that is right among the
audit items that are at least as sure as the last of them. Otherwise a few are offered, without a promise.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from understudy.sessions.audit import wilson

PROMISED: Final = 0.95  # share of the offered items that are right
BOUND_CONFIDENCE: Final = 0.6  # of the two-sided interval: the share is below its lower end one time in five
FEW: Final = 4  # offered without a promise
NOTHING_LEFT: Final = "Nothing is left that is likely of this class."


@dataclass(frozen=True)
class Offer:
    """How many of the surest items to show, what is promised of them, and why there are not more."""

    count: int
    promised: float | None
    reason: str


def make_offer(
    confidences: Float[np.ndarray, "k"],
    audit_confidences: Float[np.ndarray, "m"],
    audit_hits: Bool[np.ndarray, "m"],
    at_most: int,
) -> Offer:
    """The offer for likely items of these calibrated confidences, the surest first.

    Audit items of all classes count, by how sure the same surrogate is of them and whether it has them right.
    """
    total = len(confidences)
    if total == 0:
        return Offer(0, None, NOTHING_LEFT)
    counts = np.arange(1, total + 1)
    sure = np.flatnonzero(np.cumsum(confidences) / counts >= PROMISED) + 1  # numbers of items that are sure enough
    on_page = (n for n in sure.tolist() if n <= at_most)
    supported = (n for n in on_page if _bound(float(confidences[n - 1]), audit_confidences, audit_hits)[2] >= PROMISED)
    count = max(supported, default=0)
    if count == 0:
        return offer_few(total, at_most, _doubt(confidences, audit_confidences, audit_hits, has_sure=len(sure) > 0))
    return Offer(count, PROMISED, _limit(confidences, audit_confidences, audit_hits, count, at_most))


def offer_few(total: int, at_most: int, why: str) -> Offer:
    """A few items without a promise, and why nothing is promised."""
    count = min(FEW, total, at_most)
    return Offer(count, None, f"{_of(count, total)}, and nothing is promised: {why}" if count else NOTHING_LEFT)


def _bound(
    least: float, audit_confidences: Float[np.ndarray, "m"], audit_hits: Bool[np.ndarray, "m"]
) -> tuple[int, int, float]:
    """Of the audit items that are at least this sure: how many are right, of how many, and the lower bound."""
    hits = audit_hits[audit_confidences >= least]
    right, n = int(hits.sum()), len(hits)
    return right, n, wilson(right, n, BOUND_CONFIDENCE)[0]


def _limit(
    confidences: np.ndarray, audit_confidences: np.ndarray, audit_hits: np.ndarray, count: int, at_most: int
) -> str:
    """Why there are not more than so many items that a promise is made for."""
    total = len(confidences)
    if count == total:
        return "All likely items of this class are shown." if total > 1 else "It is the only likely item of this class."
    if count == at_most:
        return f"{_of(count, total)}: more do not go on one page."
    if confidences[: count + 1].mean() < PROMISED:
        return f"{_of(count, total)}: of more, fewer than {PROMISED:.0%} would be expected to be right."
    right, n, _ = _bound(float(confidences[count]), audit_confidences, audit_hits)
    return f"{_of(count, total)}: {_support(right, n)}."


def _doubt(confidences: np.ndarray, audit_confidences: np.ndarray, audit_hits: np.ndarray, *, has_sure: bool) -> str:
    """Why nothing can be promised."""
    if not has_sure:
        return f"the surest has a confidence of {confidences[0]:.0%}; label more items first."
    right, n, _ = _bound(float(confidences[0]), audit_confidences, audit_hits)
    wider = _bound(float(confidences[min(FEW, len(confidences)) - 1]), audit_confidences, audit_hits)
    right, n = max((right, n), wider[:2], key=lambda found: found[1])
    return f"{_support(right, n)}; answer more audit items."


def _support(right: int, n: int) -> str:
    items = "audit item is" if n == 1 else "audit items are"
    if right == n:
        return f"only {n} {items} this sure" if n else "no audit item with an answer is this sure"
    return f"of {n} audit items that are this sure, {right} were right"


def _of(count: int, total: int) -> str:
    return f"{count} of {total}"
