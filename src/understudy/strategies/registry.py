"""Every strategy by its name."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from understudy.errors import UnderstudyError
from understudy.strategies.protocol import Strategy
from understudy.strategies.random_rows import Random
from understudy.strategies.uncertainty import Uncertainty

# Call an entry for a strategy that has seen nothing yet; its settings are the arguments.
STRATEGIES: Final[dict[str, Callable[..., Strategy]]] = {
    "random": Random,
    "entropy": partial(Uncertainty, "entropy"),
    "margin": partial(Uncertainty, "margin"),
    "least_confidence": partial(Uncertainty, "least_confidence"),
}


def make_strategy(name: str, **settings: Any) -> Strategy:
    """The strategy of this name, made anew, with these settings in place of its own."""
    if name not in STRATEGIES:
        near = get_close_matches(name, STRATEGIES, 1)
        hint = f"did you mean {near[0]!r}?" if near else "`understudy strategies` lists them"
        raise UnderstudyError(f"there is no strategy {name!r}; {hint}")
    try:
        return STRATEGIES[name](**settings)
    except TypeError as error:
        raise UnderstudyError(f"{name} cannot be set so: {error}") from error
