"""The demo: four strategies compared on small digits."""

from pathlib import Path
from typing import Final

from understudy import defaults
from understudy.experiments.compare import Comparison, compare

STRATEGIES: Final = ("understudy", "margin", "entropy", "random")
SCHEDULE: Final = tuple(range(20, 201, 20))


def demo_comparison(
    repeats: int = defaults.REPEATS, seed: int = defaults.SEED, out: str | Path = defaults.DEMO_FOLDER
) -> Comparison:
    """A comparison that takes about a minute, ready to run."""
    # One of the controls would take longer than everything else.
    return compare(
        "digits", STRATEGIES, out=out, repeats=repeats, schedule=SCHEDULE, learner="quick", seed=seed, controls=False
    )
