"""Whether a learner learnt anything at all in a comparison."""

from typing import Final

import numpy as np

from understudy.experiments.curves import CEILING
from understudy.experiments.results import Results

# A learner has left chance if its best accuracy is above the share of the largest class by four standard errors of such
# a share (the best of a thousand rounds that all guess is not), and by a fiftieth of what that leaves to be learnt
# (with many test items less would be significant, and still of no use).
STANDARD_ERRORS: Final = 4
LEAST_OF_THE_REST: Final = 0.02
SUGGESTED: Final = ("paper_scaled", "modern")


def left_chance_at(share: float, test_rows: int) -> float:
    """The accuracy above which a learner does better than to name the largest class, of this share, always."""
    error = (share * (1 - share) / test_rows) ** 0.5
    return share + max(STANDARD_ERRORS * error, LEAST_OF_THE_REST * (1 - share))


def never_left_chance(results: Results) -> str | None:
    """One line if no training of any strategy did better than naming the largest class always."""
    plan = results.settings.get("plan", {})
    if not plan.get("classes") or not plan.get("test_rows"):
        return None
    share = float(results.settings.get("largest_class", 1 / len(plan["classes"])))
    columns = (results.table[name].to_pylist() for name in ("strategy", "accuracy"))
    found = [accuracy for strategy, accuracy in zip(*columns, strict=True) if strategy != CEILING]
    if not found or np.max(found) > left_chance_at(share, plan["test_rows"]):
        return None
    learner = plan.get("learner", "")
    others = " or ".join(name for name in SUGGESTED if name != learner)
    return (
        f"The learner {learner} never left chance: at best {100 * np.max(found):.1f} % right, and the largest class "
        f"alone is {100 * share:.1f} %. What strategies chose cannot matter then; try --learner {others}."
    )
