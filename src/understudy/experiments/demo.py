"""The demo: four strategies compared on small digits."""

from pathlib import Path
from typing import Final

from understudy.experiments.compare import REPEATS, Comparison, compare

STRATEGIES: Final = ("understudy", "margin", "entropy", "random")
SCHEDULE: Final = tuple(range(20, 201, 20))


def demo_comparison(repeats: int = REPEATS, seed: int = 0, out: str | Path = "demo") -> Comparison:
    """A comparison that takes about a minute, ready to run."""
    # Of the controls one would take longer than all the rest.
    return compare(
        "digits", STRATEGIES, out=out, repeats=repeats, schedule=SCHEDULE, learner="quick", seed=seed, controls=False
    )
