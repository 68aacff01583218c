"""Why an item is asked for, in one line for people."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from understudy.core.explanation import Explanation
from understudy.sessions.log.events import Ask

CLOSE: Final = 0.5  # the second class has at least this share of the first one's: it is between the two
ALIKE: Final = 1e-6  # classes that differ by less are the same to the model
FAR: Final = 1.0  # in mean distances of the pool; beyond it nothing labelled is like it
EXACT: Final = 20  # up to so many items are counted, more are rounded


BY_LOT: Final = "Drawn by lot: this one measures the model and is not learnt from."
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

    Nothing about classes is said of audit items and second opinions, nor without `guesses`: that would put words into
    people's mouths. `mean_distance` is that of two items of the pool.
    """
    if ask == "audit":
        return BY_LOT
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
    """The line before the first model: what is chosen then is chosen for what it says about others, nothing else."""
    teaches = _teaches(explanation.n_taught)
    if teaches is not None:
        return f"There is no model yet; {teaches}."
    return NO_MODEL if ask == "choice" else "There is no model yet."


def reason_for_log(
    explanation: Explanation | None, classes: Sequence[str], ask: Ask, *, mean_distance: float | None = None
) -> dict[str, Any]:
    """What the log keeps of it: the line, the two shares and the utility, None where there is none."""
    kept = None if ask == "audit" else explanation
    return {
        "line": reason_line(kept, classes, ask, mean_distance=mean_distance),
        "influence_share": None if kept is None else _number(kept.influence_share),
        "uncertainty_share": None if kept is None else _number(kept.uncertainty_share),
        "utility": None if kept is None else _number(kept.utility),
    }


def _between(explanation: Explanation, classes: Sequence[str]) -> str | None:
    """What the model wavers between, or takes it for; None where it has no idea or there is no choice."""
    likely = [(name, mean) for name, mean in _named(explanation, classes) if mean > 0]
    if len(classes) < 2 or not likely:
        return None
    (first, most), *others = likely
    if others and most - likely[-1][1] < ALIKE:
        return None  # all alike
    if others and others[0][1] >= CLOSE * most:
        return f"between {first} and {others[0][0]}"
    return f"probably {first}"


def _named(explanation: Explanation, classes: Sequence[str]) -> list[tuple[str, float]]:
    return [(classes[label], mean) for label, mean in explanation.prediction if label < len(classes) and isfinite(mean)]


def _teaches(n_taught: int) -> str | None:
    if n_taught < 1:
        return None
    if n_taught == 1:
        return "its answer would help with one similar item"
    count = f"{n_taught}" if n_taught <= EXACT else f"about {_rounded(n_taught):,}"
    return f"its answer would help with {count} similar items"


def _rounded(n: int) -> int:
    """To two digits."""
    unit: int = 10 ** (len(str(n)) - 2)
    return round(n / unit) * unit


def _is_unlike(explanation: Explanation, mean_distance: float | None) -> bool:
    if mean_distance is None or not mean_distance > 0 or not explanation.nearest:
        return False
    return explanation.nearest[0][2] > FAR * mean_distance


def _is_for_others(explanation: Explanation) -> bool:
    """Chosen for what it says about others; also where nothing says for what."""
    return not explanation.uncertainty_share > explanation.influence_share


def _sentence(first: str | None, second: str | None) -> str:
    text = "; ".join(part for part in (first, second) if part)
    return f"{text[0].upper()}{text[1:]}."


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
