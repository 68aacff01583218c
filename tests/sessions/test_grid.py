"""How many likely items are offered at once, what is promised of them, and the sentence that says why not more."""

import numpy as np
import pytest

from understudy.sessions.audit import wilson
from understudy.sessions.grid import BOUND_CONFIDENCE, FEW, PROMISED, Offer, make_offer


def offer(confidences: list[float], audits: list[tuple[float, bool]], at_most: int = 60) -> Offer:
    return make_offer(
        np.array(sorted(confidences, reverse=True)),
        np.array([sure for sure, _ in audits]),
        np.array([hit for _, hit in audits], bool),
        at_most,
    )


def test_many_are_offered_where_audit_items_that_are_as_sure_were_right() -> None:
    found = offer([0.99] * 30, [(0.995, True)] * 40)
    assert found == Offer(30, PROMISED, "All likely items of this class are shown.")
    assert offer([0.99] * 90, [(0.995, True)] * 40) == Offer(60, PROMISED, "60 of 90: more do not go on one page.")
    assert offer([0.99], [(0.995, True)] * 40).reason == "It is the only likely item of this class."


def test_no_more_than_may_be_expected_to_be_right() -> None:
    found = offer([0.99] * 10 + [0.7] * 50, [(0.9, True)] * 10 + [(0.995, True)] * 40)
    assert (found.count, found.promised) == (11, PROMISED), "(9.9 + 0.7) / 11 > 0.95"
    found = offer([0.99] * 10 + [0.9] * 50, [(0.9, True)] * 10 + [(0.995, True)] * 40)
    assert found.count == 18, "(9.9 + 8 · 0.9) / 18 = 0.95"
    assert found.reason == "18 of 60: of more, fewer than 95 % would be expected to be right.".replace(" %", "%")


def test_no_more_than_audit_items_support() -> None:
    found = offer([0.999] * 12 + [0.96] * 48, [(0.9995, True)] * 20 + [(0.97, False)] * 3)
    assert found == Offer(12, PROMISED, "12 of 60: of 23 audit items that are this sure, 20 were right.")


def test_a_few_without_a_promise_where_there_is_too_little_to_go_by() -> None:
    assert wilson(13, 13, BOUND_CONFIDENCE)[0] < PROMISED < wilson(14, 14, BOUND_CONFIDENCE)[0]
    found = offer([0.99] * 60, [(0.995, True)] * 13)
    why = "only 13 audit items are this sure; answer more audit items."
    assert found == Offer(FEW, None, f"4 of 60, and nothing is promised: {why}")
    assert offer([0.99] * 60, [(0.995, True)] * 14).count == 60
    none = offer([0.99] * 60, [(0.5, True)])
    assert "no audit item with an answer is this sure" in none.reason
    unsure = offer([0.8, 0.7, 0.6], [(0.9, True)] * 50)
    assert unsure.promised is None
    assert (
        unsure.reason == "3 of 3, and nothing is promised: the surest has a confidence of 80%; label more items first."
    )
    assert offer([], []) == Offer(0, None, "Nothing is left that is likely of this class.")
    assert offer([0.99] * 60, [(0.995, True)] * 13, at_most=2).count == 2


@pytest.mark.parametrize("seed", range(3))
def test_confidences_that_say_too_much_seldom_get_a_promise(seed: int) -> None:
    """They say 98 % and are right in 90 %: the audit items of most such projects hold the offers back."""
    rng = np.random.default_rng(seed)
    promised = 0
    for _ in range(300):
        sure, audit_sure = np.sort(rng.uniform(0.96, 1, 60))[::-1], rng.uniform(0.96, 1, 80)
        promised += make_offer(sure, audit_sure, rng.random(80) < 0.9, 60).promised is not None
    assert promised < 90
