"""What the audit items of a pool can show, said before anybody labels: docs/accuracy-and-stopping.md."""

from functools import cache
from math import ceil
from typing import Final

from understudy.sessions.audit import MAX_SHARE, ROUNDING, change_of, wilson
from understudy.sessions.replies import AuditPlan
from understudy.sessions.stopping import FEWEST_AUDITED, RULED_OUT_GAIN

SUPPOSED_ACCURACY: Final = 0.9  # of the model at the end, for the width of its interval
SUPPOSED_DIFFERING: Final = 0.05  # share of the items on which the last two models differ
SHARE_STEP: Final = 0.05
NEARLY_USUAL: Final = 2 / 3  # of the usual number: so few are missing that nobody is bothered with an offer
MOST_AUDITED: Final = 2_000  # far more than any of these questions needs


def half_width(n: int, accuracy: float = SUPPOSED_ACCURACY) -> float:
    """Half the width of Wilson's interval where a model is right so often on n audit items."""
    low, high = wilson(round(accuracy * n), n)
    return (high - low) / 2


@cache
def needed_for_enough(differing: float) -> int:
    """The fewest audit items with which a gain can be ruled out, as "enough" asks for.

    The two models are equally good and differ on a share of the items: half of these right only before, half only now.
    """
    too_few = FEWEST_AUDITED - 1
    for n in range(FEWEST_AUDITED, MOST_AUDITED):
        moved = ceil(differing * n / 2 - ROUNDING)
        if change_of(moved, moved, n).high >= RULED_OUT_GAIN:
            too_few = n
    return too_few + 1


def audit_plan(audit_items: int, n_items: int, share: float, free: int | None = None) -> AuditPlan:
    """What so many audit items of a pool can show, and the share that would make "enough" possible.

    `free`: items that could still become audit items, since nobody labelled them; None for all others.
    """
    least, usual = needed_for_enough(0.0), needed_for_enough(SUPPOSED_DIFFERING)
    free = n_items - audit_items if free is None else free
    raise_to = None if audit_items >= NEARLY_USUAL * usual else _better_share(audit_items, n_items, share, free)
    points = half_width(audit_items) if audit_items else None
    return AuditPlan(
        items=audit_items,
        share=share,
        half_width=points,
        least=least,
        usual=usual,
        raise_to=raise_to,
        line=_plan_line(audit_items, points, least, usual),
    )


def _better_share(audit_items: int, n_items: int, share: float, free: int) -> float | None:
    """The lowest share, in steps, that gives as many audit items as "enough" needs as a rule, or else at least."""
    steps = [round(SHARE_STEP * i, 2) for i in range(1, round(MAX_SHARE / SHARE_STEP) + 1)]
    counts = {step: ceil(step * n_items - ROUNDING) for step in steps if step > share}
    possible = {step: count for step, count in counts.items() if count - audit_items <= free}
    for wanted in (needed_for_enough(SUPPOSED_DIFFERING), max(needed_for_enough(0.0), audit_items + 1)):
        fitting = [step for step, count in possible.items() if count >= wanted]
        if fitting:
            return fitting[0] if wanted == needed_for_enough(SUPPOSED_DIFFERING) else fitting[-1]
    return None


def _plan_line(audit_items: int, points: float | None, least: int, usual: int) -> str:
    if points is None:
        return "No audit items: how good the model is will not be known, and the hint can never say “enough”."
    some = "1 audit item" if audit_items == 1 else f"{audit_items:,} audit items"
    known = f"{some}: the accuracy will be known to about ±{max(1, round(100 * points))} points"
    if audit_items >= usual:
        return f"{known}, and the hint can say “enough”."
    if audit_items >= least:
        return f"{known}. For the hint to say “enough” it takes about {usual} as a rule."
    return f"{known}. For the hint to say “enough” it takes at least {least}, and about {usual} as a rule."
