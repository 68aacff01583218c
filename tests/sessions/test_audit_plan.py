"""What audit items can show, against the formulas computed literally."""

from math import ceil, sqrt

import pytest

from understudy.sessions.audit_plan import audit_plan, half_width, needed_for_enough

Z = 1.959963984540054


@pytest.mark.parametrize(("n", "points"), [(10, 19), (40, 10), (100, 6), (400, 3)])
def test_the_accuracy_is_known_to_half_of_wilsons_interval(n: int, points: int) -> None:
    right = round(0.9 * n) / n
    literal = Z / (1 + Z**2 / n) * sqrt(right * (1 - right) / n + Z**2 / (4 * n**2))
    assert half_width(n) == pytest.approx(literal)
    assert round(100 * literal) == points


@pytest.mark.parametrize("differing", [0.0, 0.02, 0.05, 0.1])
def test_enough_needs_as_many_as_rule_out_four_points(differing: float) -> None:
    def rules_out(n: int) -> bool:
        moved = ceil(differing * n / 2 - 1e-9)
        return Z * sqrt(2 * moved + 1) / (n + 2) < 0.04

    needed = needed_for_enough(differing)
    assert all(rules_out(n) for n in range(needed, 2000))
    assert not rules_out(needed - 1)


def test_models_that_never_differ_need_at_least_47_and_usual_ones_about_150() -> None:
    assert needed_for_enough(0.0) == 47
    assert needed_for_enough(0.05) == 145


def test_a_tenth_of_four_hundred_cannot_be_enough_and_the_offer_can() -> None:
    plan = audit_plan(40, 400, 0.1)
    assert (plan.least, plan.usual, plan.raise_to) == (47, 145, 0.4)
    assert plan.line == (
        "40 audit items: the accuracy will be known to about ±10 points. "
        "For the hint to say “enough” it takes at least 47, and about 145 as a rule."
    )
    raised = audit_plan(160, 400, 0.4)
    assert raised.raise_to is None
    assert raised.line.endswith("the accuracy will be known to about ±5 points, and the hint can say “enough”.")


def test_the_highest_share_is_offered_where_only_the_least_can_be_had() -> None:
    assert audit_plan(20, 200, 0.1).raise_to == 0.5
    assert audit_plan(100, 200, 0.5).raise_to is None
    assert "about 145 as a rule" in audit_plan(100, 200, 0.5).line
    assert "at least" not in audit_plan(100, 200, 0.5).line


def test_nothing_is_offered_that_cannot_be_had() -> None:
    assert audit_plan(6, 60, 0.1).raise_to is None  # not even half of the pool would do
    assert audit_plan(40, 400, 0.1, free=5).raise_to is None  # most are labelled
    assert audit_plan(1000, 10_000, 0.1).raise_to is None  # it is enough
    assert audit_plan(130, 1300, 0.1).raise_to is None  # nearly
    assert audit_plan(90, 900, 0.1).raise_to == 0.2


def test_without_audit_items_nothing_will_be_known() -> None:
    plan = audit_plan(0, 4000, 0.0)
    assert plan.half_width is None
    assert plan.line.startswith("No audit items")
    assert plan.raise_to == 0.05
