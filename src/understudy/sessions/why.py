"""Why an item is asked for, in one line for people."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from understudy.core.explanation import Explanation
from understudy.sessions.log.events import Ask

CLOSE_SHARE: Final = 0.5  # of the likeliest class's probability, from which the second is named too
SMALLEST_LEAD: Final = 1e-6  # classes that differ by less are alike to the model
FAR_DISTANCE: Final = 1.0  # in mean distances of the pool; beyond it nothing labelled is like the item
MAX_EXACT_COUNT: Final = 20  # of items; larger counts are rounded


AUDIT: Final = "A random audit item: it measures the model and is never trained on."
SECOND: Final = "A second opinion: somebody else labelled it too."
AGAIN: Final = "It was skipped before; here it is again."
NO_MODEL: Final = "There is no model yet: its answer says most about the other items."


def reason_line(
    explanation: Explanation | None,
    classes: Sequence[str],
    ask: Ask | None,
    *,
    mean_distance: float | None = None,
    guesses: bool = True,
) -> str:
    """One or two plain clauses. `explanation`: None where there is nothing to explain from, before the first model.

    Nothing is said about classes for audit items and second opinions, nor without `guesses`: it would bias people.
    `mean_distance` is that of two items of the pool.
    """
    if ask == "audit":
        return AUDIT
    if ask == "second":
        return SECOND
    if ask == "again":
        return AGAIN
    if explanation is None:
        return NO_MODEL
    between = _between(explanation, classes) if guesses else None
    teaches = _teaches(explanation.n_taught)
    if _is_unlike(explanation, mean_distance):
        return _sentence("unlike anything labelled so far", teaches)
    if between is None and teaches is None:
        return "Its answer helps a little with many others." if _is_for_others(explanation) else "It is hard to tell."
    if between is None and not _is_for_others(explanation):
        between = "hard to tell"
    return _sentence(between, teaches)


def reason_without_model(explanation: Explanation, ask: Ask | None) -> str:
    """The line before the first model, when an item is chosen only for what it says about others."""
    teaches = _teaches(explanation.n_taught)
    if teaches is not None:
        return f"There is no model yet; {teaches}."
    return NO_MODEL if ask == "choice" else "There is no model yet."


def reason_for_log(
    explanation: Explanation | None, classes: Sequence[str], ask: Ask, *, mean_distance: float | None = None
) -> dict[str, Any]:
    """What the log keeps of the reason: the line, the two shares and the utility, None where there is none."""
    kept = None if ask == "audit" else explanation
    return {
        "line": reason_line(kept, classes, ask, mean_distance=mean_distance),
        "influence_share": None if kept is None else _number(kept.influence_share),
        "uncertainty_share": None if kept is None else _number(kept.uncertainty_share),
        "utility": None if kept is None else _number(kept.utility),
    }


def _between(explanation: Explanation, classes: Sequence[str]) -> str | None:
    """The classes that the model cannot decide between, or the likeliest; None where all are alike or there is one."""
    likely = [(name, mean) for name, mean in _means_by_name(explanation, classes) if mean > 0]
    if len(classes) < 2 or not likely:
        return None
    (first, most), *others = likely
    if others and most - likely[-1][1] < SMALLEST_LEAD:
        return None  # all alike
    if others and others[0][1] >= CLOSE_SHARE * most:
        return f"between {first} and {others[0][0]}"
    return f"probably {first}"


def _means_by_name(explanation: Explanation, classes: Sequence[str]) -> list[tuple[str, float]]:
    return [(classes[label], mean) for label, mean in explanation.prediction if label < len(classes) and isfinite(mean)]


def _teaches(n_taught: int) -> str | None:
    if n_taught < 1:
        return None
    if n_taught == 1:
        return "its answer would help with one similar item"
    count = f"{n_taught}" if n_taught <= MAX_EXACT_COUNT else f"about {_round_to_two_digits(n_taught):,}"
    return f"its answer would help with {count} similar items"


def _round_to_two_digits(n: int) -> int:
    unit: int = 10 ** (len(str(n)) - 2)
    return round(n / unit) * unit


def _is_unlike(explanation: Explanation, mean_distance: float | None) -> bool:
    if mean_distance is None or not mean_distance > 0 or not explanation.nearest:
        return False
    return explanation.nearest[0][2] > FAR_DISTANCE * mean_distance


def _is_for_others(explanation: Explanation) -> bool:
    """Chosen for what it says about others; also where nothing says for what."""
    return not explanation.uncertainty_share > explanation.influence_share


def _sentence(first: str | None, second: str | None) -> str:
    text = "; ".join(part for part in (first, second) if part)
    return f"{text[0].upper()}{text[1:]}."


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
